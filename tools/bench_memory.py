"""`make bench`, memory: what a note's commit and its history cost, side by side in one run.

A commit here is compared to pygit2 making the same blob, trees and commit, and to `git add` and `git commit`, among
10,000 notes in folders of 500. Only ours is synced to the disk. CPU time with children, the best of the interleaved
rounds. History is asked of a repository of as many commits, once its index is there; the walk is what it costs without.
Nothing here is a test: a figure over its goal is said, not failed. pygit2 is of the extra `bench`; without it that row
is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from perpetual_git.memory import GitMemory
from perpetual_git.repository import NoteRepository

ROUNDS = 15
_REPEAT = {"ours": 10, "pygit2": 10, "git add + git commit": 1}
_GOALS = {"pygit2": 4.0, "git add + git commit": 0.35}
_FOLDER = 500  # notes
_HISTORY_MS = 1.0
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """One line of the table."""

    what: str
    cpu_ms: float
    ratio: float | None  # ours to it
    goal: float | None


def cpu_s() -> float:
    """Returns user and system seconds of this process and of those it has waited for."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def text_of(number: int) -> str:
    """Returns a note of about a kilobyte."""
    return f"# Note {number}\n\n" + f"what was seen of it, number {number}\n" * 30


def path_of(number: int, notes: int) -> str:
    """Returns one of the notes' paths."""
    return f"notes/{number % notes // _FOLDER:03d}/{number % notes}.md"


def git(folder: Path, *arguments: str) -> None:
    """Runs git without anybody's configuration; ends the benchmark if it fails."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull}
    named = ["git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", *arguments]
    done = subprocess.run(named, cwd=folder, env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        sys.exit(f"git {' '.join(arguments)} failed: {done.stderr.decode()}")


def work_tree(folder: Path, notes: int) -> None:
    """Writes a repository with a working tree of so many notes, in one commit."""
    for number in range(notes):
        file = folder / path_of(number, notes)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(number), "utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "notes")


def by_git(folder: Path, notes: int) -> Callable[[int], object]:
    """Returns what commits a note with the git program."""

    def commit(number: int) -> None:
        path = path_of(number, notes)
        (folder / path).write_text(text_of(number), "utf-8")
        git(folder, "add", path)
        git(folder, "commit", "-q", "-m", "a note")

    return commit


def by_pygit2(folder: Path, notes: int) -> Callable[[int], object] | None:
    """Returns what commits a note with pygit2, None where there is none."""
    try:
        pygit2 = import_module("pygit2")
    except ImportError:
        return None
    repository = pygit2.Repository(os.fspath(folder))
    who = pygit2.Signature("bench", "bench@example.org", int(_WHEN.timestamp()), 0)

    def commit(number: int) -> object:
        head = repository.references["refs/heads/main"].target
        *above, _ = parts = path_of(number, notes).split("/")
        trees = [repository[repository[head].tree_id]]
        for name in above:
            trees.append(repository[trees[-1][name].id])
        made, mode = repository.create_blob(text_of(number).encode()), pygit2.GIT_FILEMODE_BLOB
        for tree, name in zip(reversed(trees), reversed(parts), strict=True):
            builder = repository.TreeBuilder(tree)
            builder.insert(name, made, mode)
            made, mode = builder.write(), pygit2.GIT_FILEMODE_TREE
        return repository.create_commit("refs/heads/main", who, who, "a note", made, [head])

    return commit


def by_us(folder: Path, notes: int) -> Callable[[int], object]:
    """Returns what commits a note as the lab does."""
    memory = GitMemory(folder)

    def commit(number: int) -> object:
        return memory.commit(intent=number, path=path_of(number, notes), content=text_of(number), message="a note",
                             author="user:bench", when="2026-01-01T00:00:00Z")  # fmt: skip

    return commit


def commits(scratch: Path, notes: int, rounds: int) -> list[Row]:
    """Measures commits among so many notes."""
    tree = scratch / "tree"
    tree.mkdir()
    work_tree(tree, notes)
    bare = {name: scratch / f"{name}.git" for name in ("ours", "pygit2")}
    for folder in bare.values():
        NoteRepository.open(folder).close()
        git(tree, "push", "-q", os.fspath(folder), "HEAD:main")
    deeds = {"ours": by_us(bare["ours"], notes), "git add + git commit": by_git(tree, notes)}
    pygit2 = by_pygit2(bare["pygit2"], notes)
    if pygit2 is not None:
        deeds["pygit2"] = pygit2
    best = dict.fromkeys(deeds, float("inf"))
    number = notes * 3
    for _ in range(rounds):
        for name, deed in deeds.items():
            begun = cpu_s()
            for _ in range(_REPEAT[name]):
                number += 1
                deed(number)
            best[name] = min(best[name], (cpu_s() - begun) / _REPEAT[name])
    return [
        Row(f"commit of a note: {name}", round(1000 * best[name], 2),
            None if name == "ours" else round(best["ours"] / best[name], 2), _GOALS.get(name))
        for name in deeds
    ]  # fmt: skip


def history(scratch: Path, size: int, rounds: int) -> list[Row]:
    """Measures the history of notes in a repository of so many commits, four to a note."""
    notes = max(1, size // 4)
    unsynced = patch.object(os, "fsync", lambda descriptor: None)
    with unsynced, NoteRepository.open(scratch / "history.git") as repository:
        for number in range(1, size + 1):
            repository.commit(path_of(number, notes), text_of(number).encode(), message="a note",
                              author="user:bench", when=_WHEN, intent=number)  # fmt: skip
    asked = [path_of(number, notes) for number in range(0, notes, max(1, notes // 20))]
    with NoteRepository.open(scratch / "history.git") as repository:
        begun = cpu_s()
        walked = repository.walked_history(asked[-1], 50)
        walk_s = cpu_s() - begun
        assert repository.history(asked[-1], 50) == walked, "the index answers what the walk does"
        best = float("inf")
        for _ in range(rounds):
            begun = cpu_s()
            for path in asked:
                repository.history(path, 50)
            best = min(best, (cpu_s() - begun) / len(asked))
    shutil.rmtree(os.environ["PERPETUAL_CACHE_DIR"])
    with NoteRepository.open(scratch / "history.git") as repository:
        begun = cpu_s()
        repository.history(asked[0], 50)
        built_s = cpu_s() - begun
    return [
        Row("history of a note, four versions", round(1000 * best, 3), None, _HISTORY_MS),
        Row("the same by the walk", round(1000 * walk_s, 1), None, None),
        Row("the index, made anew", round(1000 * built_s, 1), None, None),
    ]


def main() -> None:
    """Prints the table; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--notes", type=int, default=10_000)
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent, prefix=".bench-") as folder:
        os.environ["PERPETUAL_CACHE_DIR"] = os.path.join(folder, "cache")
        rows = commits(Path(folder), options.notes, options.rounds)
        rows += history(Path(folder), options.notes, options.rounds)
    if options.json:
        print(json.dumps({"notes": options.notes, "rounds": options.rounds, "rows": [row._asdict() for row in rows]}))
        return
    print(f"{options.notes} notes, CPU time, best of {options.rounds} rounds; {time.monotonic() - begun:.0f} s in all")
    for row in rows:
        figure = row.cpu_ms if row.ratio is None else row.ratio
        verdict = "" if row.goal is None else f"goal <= {row.goal}: {'met' if figure <= row.goal else 'MISSED'}"
        ratio = "" if row.ratio is None else f"ours {row.ratio:.2f}x"
        print(f"{row.what:42} {row.cpu_ms:10.3f} ms  {ratio:12} {verdict}")


if __name__ == "__main__":
    main()
