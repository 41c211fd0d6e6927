"""Whatever stands in the place of a project's file or folder: nothing outside is read or written, and nothing hangs.

Each file and folder of a populated `.perpetual` is replaced by a link out of it, a dangling link, a pipe, and a folder
(or a file); then a list of deeds is tried, each of which succeeds or is refused by name.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import PerpetualError

SECRET = b"the-secret-word"
KINDS = ("link", "pipe", "folder", "dangling")
LIMIT_S = 30  # on a busy machine; a deed takes milliseconds

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="plants pipes")


def _populated(root: Path, store: str) -> Path:
    with Lab.init(root, store=store) as lab:
        (root / "train.py").write_text("print('val_loss: 1.5')\n")
        claim = lab.hypotheses.add("x", metric="val_loss", direction="min", mde=0.1, baseline=2.0)
        made = lab.experiments.propose(claim.id, command=f"{sys.executable} train.py", replicates=2)
        lab.experiments.approve(made.id)
        lab.wait([run.id for run in lab.runs.launch(made.id)], timeout_s=60)
        lab.memory.write("a.md", "a note")
        lab.storage.compact()
        lab.hypotheses.add("second")
        lab.scaffold(["mcp"], command=["perpetual"])
        lab.settings.set_methodology("proposal_batch_size", "4")
    return root


DEEDS: dict[str, Callable[[Lab], Any]] = {
    "status": lambda lab: lab.status(),
    "hypotheses": lambda lab: lab.hypotheses.list(),
    "scan": lambda lab: lab.scan(),
    "logs": lambda lab: lab.runs.logs("r1"),
    "provenance": lambda lab: lab.runs.provenance("r1"),
    "verify": lambda lab: lab.storage.verify(),
    "notes": lambda lab: (lab.memory.list(), lab.memory.read("a.md"), lab.memory.history("a.md")),
    "add": lambda lab: lab.hypotheses.add("third"),
    "write": lambda lab: lab.memory.write("b.md", "text"),
    "compact": lambda lab: lab.storage.compact(),
    "methodology": lambda lab: lab.settings.set_methodology("proposal_batch_size", "5"),
    "config": lambda lab: lab.settings.set_config("gpus", "none"),
    "scaffold": lambda lab: lab.scaffold(["mcp"]),
}
COMMANDS = (("status",), ("runs", "r1"), ("logs", "r1"))


def _places(root: Path) -> list[str]:
    """Everything but single objects of git; and what is there only at times."""
    inside = root / ".perpetual"
    found = [str(path.relative_to(root)) for path in inside.rglob("*") if "objects" not in path.parts]
    absent = ("mcp-token", "writer.lock", "adopting", "backups", "store.new", "runs/r2", "runs/r1/results.json")
    return [".perpetual", *sorted({*found, *(f".perpetual/{name}" for name in absent)})]


@contextmanager
def _replaced(place: Path, kind: str, outside: Path) -> Iterator[None]:
    """Puts something else in a place, and what was there back afterwards."""
    aside = outside.with_name("aside")
    is_folder, was_there = place.is_dir(), os.path.lexists(place)
    if was_there:
        place.rename(aside)
    if kind == "link":
        if is_folder:
            shutil.copytree(aside, outside / "target", symlinks=True)
        else:
            (outside / "target").write_bytes(SECRET + b"\n")
        place.symlink_to(outside / "target")
    elif kind == "dangling":
        place.symlink_to(outside / "nothing")
    elif kind == "pipe":
        os.mkfifo(place)
    elif is_folder:
        place.write_text("x")
    else:
        place.mkdir()
    try:
        yield
    finally:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)
        if was_there:
            aside.rename(place)
        for path in outside.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _content(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@contextmanager
def _at_once(what: str) -> Iterator[None]:
    def late(signum: int, frame: FrameType | None) -> None:
        raise AssertionError(f"{what} hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _try_all(root: Path, name: str, kind: str, outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _replaced(root / name, kind, outside):
        before = _content(outside)
        told = []
        for deed, do in DEEDS.items():
            with _at_once(f"{deed} with a {kind} at {name}"):
                try:
                    with Lab.open(root) as lab:
                        told.append(repr(do(lab)))
                except PerpetualError as problem:
                    told.append(f"{problem} {problem.hint}")
        for words in COMMANDS:
            with _at_once(f"{words[0]} with a {kind} at {name}"):
                run(["--project", str(root), *words])
        told += capsys.readouterr()
        said = "\n".join(told)
        assert "internal error" not in said, (name, kind)
        assert SECRET.decode() not in said, (name, kind)
        assert _content(outside) == before, (name, kind)


@pytest.mark.slow
def test_anything_but_a_file_in_its_place_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One kind for each place; all kinds in the soak lane."""
    root = _populated(tmp_path / "p", "tinydb")
    (tmp_path / "outside").mkdir()
    places = [place for place in _places(root) if "memory.git/" not in place]
    for number, place in enumerate(places):
        _try_all(root, place, KINDS[number % len(KINDS)], tmp_path / "outside", capsys)
    with Lab.open(root) as lab:
        assert lab.storage.verify() == []
        assert "1.5" in lab.runs.logs("r1")["text"]


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_every_place_and_every_kind(tmp_path: Path, store: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    root = _populated(tmp_path / "p", store)
    (tmp_path / "outside").mkdir()
    for place in _places(root):
        _try_all(root, place, kind, tmp_path / "outside", capsys)
    with Lab.open(root) as lab:
        assert lab.storage.verify() == []


REFUSALS = [
    (".perpetual", "link", "status"),
    (".perpetual/store", "link", "hypotheses"),
    (".perpetual/runs", "link", "scan"),
    (".perpetual/memory.git", "link", "notes"),
    (".perpetual/config.yaml", "link", "status"),
    (".perpetual/config.yaml", "pipe", "status"),
    (".perpetual/methodology.yaml", "link", "methodology"),
    (".perpetual/scaffold.lock", "dangling", "scaffold"),
    (".perpetual/scaffold.json", "link", "scaffold"),
    (".perpetual/store/journal.jsonl", "link", "hypotheses"),
    (".perpetual/store/journal.jsonl", "pipe", "hypotheses"),
    (".perpetual/store/journal.jsonl", "dangling", "hypotheses"),
    (".perpetual/store/lock", "dangling", "add"),
]


def test_the_refusal_names_the_place(tmp_path: Path) -> None:
    root = tmp_path / "p"
    with Lab.init(root) as lab:
        lab.hypotheses.add("x")
        lab.memory.write("a.md", "a note")
        lab.scaffold(["mcp"], command=["perpetual"])
        (root / ".perpetual" / "runs").mkdir(exist_ok=True)
    (tmp_path / "outside").mkdir()
    for place, kind, deed in REFUSALS:
        with _replaced(root / place, kind, tmp_path / "outside"):
            with pytest.raises(PerpetualError) as caught, Lab.open(root) as lab:
                DEEDS[deed](lab)
            assert str(root / place) in caught.value.message
            assert "it is " in caught.value.message
            assert caught.value.hint
