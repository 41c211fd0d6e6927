"""A loss of power at any moment: whatever the disk kept, the record opens, holds what was acknowledged and goes on.

SIGKILL leaves the operating system's memory as it was, so it shows nothing about syncing. Here a program's writes are
logged by a preloaded library and replayed into every folder that a crash could have left (`crash_states`).
"""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual.discovery import discover
from perpetual_devkit.chaos_judge import Replies, judge
from perpetual_devkit.chaos_writer import build_store
from perpetual_git.memory import open_memory
from tests.faults.crash_states import State, crash_states, lay

FIXTURE = Path(__file__).parents[1] / "fixtures" / "write_log"
CC = shutil.which("cc")
LIMIT_S = 100
SEED = 11

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CC is None or not sys.platform.startswith("linux"), reason="the write log needs Linux and a C compiler"
    ),
]


def _load(path: Path) -> ModuleType:
    """A module of the tests that is no test."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


workload = _load(FIXTURE / "workload.py")
STORES = {
    offer.provider.name: offer.provider
    for info in sorted(discover(safe=True).plugins, key=lambda info: info.name)
    for offer in info.offers
    if offer.provider.slot == "store"
}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library, compiled."""
    made = tmp_path_factory.mktemp("write-log") / "write_log.so"
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([str(CC), *options, "-o", str(made), str(FIXTURE / "write_log.c"), "-ldl", "-lpthread"], check=True)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the program writes. What looks into the states afterwards need not sync what it writes."""
    place = (tmp_path / "watched").resolve()
    (place / "project").mkdir(parents=True)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)
    return place


def _states(
    library: Path,
    folder: Path,
    part: str,
    turns: int,
    *,
    writers: int = 1,
    without: str = "",
    mixed: int = 1,
    holes: bool = False,
    most: int = 60,
) -> list[State]:
    """What crashes leave of the workload: all, or a sample of `most`."""
    log = folder.parent / "log"
    watched = {"WRITE_LOG_ROOT": str(folder), "WRITE_LOG_FILE": str(log), "WRITE_LOG_WITHOUT": without}
    command = [sys.executable, str(FIXTURE / "workload.py"), part, str(folder), str(turns)]
    environment = {**os.environ, **watched, "LD_PRELOAD": str(library)}
    programs = [subprocess.Popen([*command, f"w{slot}"], env=environment) for slot in range(writers)]
    try:
        assert [program.wait(LIMIT_S) for program in programs] == [0] * writers
    finally:
        for program in programs:
            program.kill()
            program.wait()
    found = [*crash_states(log, folder, existing=["project"], mixed=mixed, holes=holes)]
    assert len(found) > 5 * turns
    told = max(len(state.acknowledged) for state in found)
    assert told >= writers * (turns - 1)  # the last ones may be told after the last deed
    return found if len(found) <= most else random.Random(SEED).sample(found, most)


def _problems(part: str, states: Sequence[State], place: Path, most: int = 3) -> list[str]:
    """What is wrong in the states, until `most` of them are bad."""
    found = []
    for state in states:
        place.mkdir()
        lay(state.tree, place)
        try:
            wrong = _in_memory(place, state) if part == "git" else _in_store(part, place, state)
        except Exception as problem:  # noqa: BLE001 - whatever comes out of it, the record did not open
            wrong = [f"{type(problem).__name__}: {problem}"]
        found += [f"{state.where}, {len(state.acknowledged)} acknowledged: {problem}" for problem in wrong[:3]]
        shutil.rmtree(place)
        most -= bool(wrong)
        if not most:
            break
    return found


def _in_store(name: str, place: Path, state: State) -> list[str]:
    """Everything that the judge of `perpetual chaos` asks, the next write included, which takes nothing away."""
    path = place / "project" / "store"
    options = {key: option.default for key, option in (STORES[name].options or {}).items()}
    acknowledged: dict[str, Any] = {ack["token"]: ack for ack in state.acknowledged if "token" in ack}
    replies = Replies(
        acknowledged,
        frozenset(ack["refused"] for ack in state.acknowledged if "refused" in ack),
    )
    store = build_store(STORES[name].factory, options, path)
    wrong = judge(store, replies).problems
    store.close()
    store = build_store(STORES[name].factory, options, path)
    tokens = {note.id for note in store.find("note")}
    store.close()
    return [*wrong, *(f"{token} is lost after the next write" for token in replies.acknowledged if token not in tokens)]


def _in_memory(place: Path, state: State) -> list[str]:
    """Every acknowledged commit is there; those that were not are made again, as the lab does."""
    memory = open_memory({}, path=place / "project" / "memory")
    wrong = []
    if state.acknowledged and memory.is_lost():
        wrong.append("the repository is lost")
    last = 0
    for ack in state.acknowledged:
        note, last = workload.note_of(ack["intent"]), ack["intent"]
        if memory.read(note["path"], ack["commit"]) != note["content"]:
            wrong.append(f"commit {ack['commit']} of note {last} is not there")
    latest = {workload.note_of(intent)["path"]: intent for intent in range(1, last + 1)}
    pending = workload.note_of(last + 1)
    for path, intent in latest.items():
        allowed = {workload.note_of(intent)["content"], *([pending["content"]] if path == pending["path"] else [])}
        if memory.read(path) not in allowed:
            wrong.append(f"{path} is not as note {intent} left it")
    for intent in (last + 1, last + 2):
        note = workload.note_of(intent)
        commit = memory.commit(**note)
        if memory.read(note["path"]) != note["content"] or memory.history(note["path"], 1)[0].commit != commit:
            wrong.append(f"note {intent} was committed and is not there")
    return wrong


# --- what stands ----------------------------------------------------------------------------------------------------


# A journal in which a whole commit stands behind bytes that are none is refused by name: it cannot be told from one
# that was damaged after it was acknowledged. The other parts look past a write that lacks its beginning.
REFUSES_HOLES = ("tinydb",)


@pytest.mark.parametrize(("part", "turns"), [("tinydb", 7), ("sqlite", 4), ("git", 4)])
def test_the_record_holds_after_any_crash(library: Path, folder: Path, tmp_path: Path, part: str, turns: int) -> None:
    states = _states(library, folder, part, turns, holes=part not in REFUSES_HOLES)
    assert _problems(part, states, tmp_path / "left") == []


@pytest.mark.parametrize("part", [store if store == "tinydb" else pytest.param(store, marks=pytest.mark.slow)
                                  for store in STORES])  # fmt: skip
@pytest.mark.slow
def test_two_programs_that_write_at_once(library: Path, folder: Path, tmp_path: Path, part: str) -> None:
    """One lets go of the lock before its commit is on the disk, and the next one goes on behind it."""
    states = _states(library, folder, part, 8, writers=2, mixed=2, most=200)
    assert _problems(part, states, tmp_path / "left") == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("turns", "most"), [pytest.param(6, 500, marks=pytest.mark.slow), pytest.param(25, 2000, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("part", [*STORES, "git"])
def test_a_long_write_log_loses_nothing_after_any_power_cut(
    library: Path, folder: Path, tmp_path: Path, part: str, turns: int, most: int
) -> None:
    states = _states(library, folder, part, turns, mixed=4, holes=part not in REFUSES_HOLES, most=most)
    assert _problems(part, states, tmp_path / "left") == []


@pytest.mark.parametrize("part", REFUSES_HOLES)
def test_a_write_without_its_beginning_is_refused_by_name(
    library: Path, folder: Path, tmp_path: Path, part: str
) -> None:
    states = _states(library, folder, part, 4, holes=True, most=1000)
    problems = _problems(part, states, tmp_path / "left", most=1000)
    assert problems
    for problem in problems:
        assert "begun with zeros" in problem
        assert "CorruptData: " in problem or "the store cannot be read: " in problem
        assert problem.endswith("a commit stands behind it")


# --- that it would be seen ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=() if part in ("tinydb", "git") else pytest.mark.slow) for part in (*STORES, "git")],
)
@pytest.mark.parametrize("without", ["fsync", "fsync_dir"])
def test_syncing_that_is_left_out_is_seen(library: Path, folder: Path, tmp_path: Path, part: str, without: str) -> None:
    # From the end on, where most was acknowledged: of all that a crash may leave, few states lack just the name.
    states = _states(library, folder, part, 4, without=without, most=100_000)[::-1]
    problems = _problems(part, states, tmp_path / "left", most=8)
    seen = [problem for problem in problems if ", 0 acknowledged: " not in problem]
    lost = [problem for problem in seen if problem.endswith(("is lost", "is not there"))]
    damaged = [problem for problem in seen if "cannot be read" in problem or "CorruptData" in problem]
    assert lost or (without == "fsync" and damaged), problems
