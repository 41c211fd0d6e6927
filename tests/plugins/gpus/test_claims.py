"""Claims of GPUs between projects: `perpetual_gpus.claims`, and the lock that a run's supervisor keeps."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.config import Config
from perpetual.slots.gpu import Gpu, GpuProcess, GpuReading
from perpetual.slots.placement import PlacementProject, PlacementView
from perpetual.toolkit import platform
from perpetual.toolkit.lock import FileLock, is_locked, open_locked
from perpetual_gpus import claims
from perpetual_gpus.claims import Board, Claim, Home, deciding, home_of, living, others, problem
from perpetual_gpus.leasable import holds_of
from perpetual_gpus.owners import Owner, owners_of
from perpetual_nvml.none import build as no_gpus
from perpetual_supervisor import rundir

pytestmark = pytest.mark.skipif(platform.supports_runs() is not None, reason="no runs, and so no claims, here")
LONG_S = 60.0
NO_VIEW = PlacementView(backend=lambda: no_gpus({}))  # outside of a project


def as_project(root: Path) -> PlacementProject:
    return PlacementProject(root, Config(root).project_id)


def a_claim(folder: Path, run_id: str = "r1", **units: int | None) -> Claim:
    return Claim(str(folder), Home(1, 2, "a project"), run_id, str(folder / run_id), units or {"GPU-0": None}, 12.5)


def made(claim: Claim) -> int:
    """The descriptor of a new claim."""
    with deciding() as board:
        held = board.make(claim)
    assert held is not None, board.problem
    return held


def folder() -> Path:
    name = claims.claims_folder()
    assert name is not None
    return Path(name)


def decided() -> Board:
    with deciding() as board:
        return board


@contextmanager
def deserted(path: Path) -> Iterator[None]:
    """Something that stands where a folder should be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("in the way")
    try:
        yield
    finally:
        path.unlink()


# --- one claim -------------------------------------------------------------------------------------------------------


def test_a_claim_lives_as_long_as_a_process_holds_it(tmp_path: Path) -> None:
    claim = a_claim(tmp_path, one=None, two=3)
    held = made(claim)
    copy = os.dup(held)
    assert living() == [claim] == decided().claims
    assert claim.who == f"r1 of {tmp_path}"
    os.close(held)
    assert living() == [claim]
    os.close(copy)
    assert living() == []
    assert [*folder().glob("*.json")] != []  # who only looks takes nothing away
    assert decided().claims == []
    assert sorted(os.listdir(folder())) == ["host", "lock"]


def test_reading_claims_writes_nothing() -> None:
    assert living() == []
    assert problem() is None
    assert not folder().exists()


def test_the_folder_is_private_and_of_this_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    held = made(a_claim(tmp_path))
    try:
        assert folder().parent == Path.home() / ".local/state/perpetual/claims"
        assert folder().stat().st_mode & 0o777 == 0o700
        monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
        assert len(living()) == 1
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
        assert living() == []
    finally:
        os.close(held)


def test_claims_of_an_earlier_boot_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.close(made(a_claim(tmp_path)))
    before = folder()
    far = before.with_name("a-boot-of-another-machine")  # that shares the home
    far.mkdir()
    (far / "host").write_text("far")
    monkeypatch.setenv(platform.BOOT_ID_VARIABLE, "the next boot")
    os.close(made(a_claim(tmp_path)))
    assert sorted(os.listdir(before.parent)) == sorted([far.name, "the next boot"])


def test_a_copy_of_a_project_is_another_and_a_link_to_it_is_not(project: Path, tmp_path: Path) -> None:
    claim = Claim(str(project), home_of(as_project(project)), "r1", "", {"GPU-0": None}, None)
    copy, link, renamed = (tmp_path / name for name in ("copy", "link", "renamed"))
    shutil.copytree(project, copy)
    link.symlink_to(project)
    assert others([claim], home_of(as_project(copy))) == [claim]
    assert others([claim], home_of(as_project(link))) == []
    link.unlink()
    project.rename(renamed)
    assert others([claim], home_of(as_project(renamed))) == []
    shutil.rmtree(renamed / ".perpetual")
    Lab.init(renamed, name="made anew").close()
    assert others([claim], home_of(as_project(renamed))) == [claim]


_HOME = '"project": "x", "run_id": "r1", "run_dir": "x", "units": {}, "home": [1, 2, "x"]'


@pytest.mark.parametrize(
    "text",
    ["", "no document", "[]", '{"project": "x"}', '{"home": 3}', '{"home": [1e999, 2, "x"], "project": "x"}',
     f'{{{_HOME}, "ends_at_s": 1{"0" * 400}}}', "[" * 100_000],
    ids=range(8),
)  # fmt: skip
def test_an_invalid_claim_file_counts_for_no_run(text: str, tmp_path: Path) -> None:
    held = made(a_claim(tmp_path))
    try:
        (folder() / "0.json").write_text(text)
        (folder() / "1.new").write_text("a launcher died over it")
        assert len(living()) == 1
        assert len(decided().claims) == 1
        assert sorted(path.suffix for path in folder().iterdir()) == ["", "", ".json"]
    finally:
        os.close(held)


def test_an_unreadable_file_that_is_held_is_left_alone() -> None:
    decided()
    held = open_locked(folder() / "0.json")
    assert held is not None
    try:
        assert decided().claims == []
        assert (folder() / "0.json").exists()
    finally:
        os.close(held)


def test_a_claim_that_cannot_be_looked_at_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As another user's in the same home."""

    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    os.close(made(a_claim(tmp_path)))
    monkeypatch.setattr(claims, "is_locked", refused)
    assert (living(), decided().claims) == ([], [])
    assert len([*folder().glob("*.json")]) == 1


# --- deciding --------------------------------------------------------------------------------------------------------


def test_one_decides_at_a_time(tmp_path: Path) -> None:
    with deciding() as first, deciding(patience_s=0.05) as second:
        assert (first.is_busy, second.is_busy) == (False, True)
        assert second.make(a_claim(tmp_path)) is None
    assert not decided().is_busy


def test_no_claim_is_made_where_nothing_can_be_written(tmp_path: Path) -> None:
    with deserted(Path.home() / ".local/state/perpetual"):
        board = decided()
        assert "perpetual" in (board.problem or "")
        assert board.make(a_claim(tmp_path)) is None
        assert (board.claims, living()) == ([], [])
        assert problem() == f"{Path.home() / '.local/state/perpetual'} is no folder"


def test_a_claim_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with deciding() as board:
        monkeypatch.setattr(json, "dump", full)
        assert board.make(a_claim(tmp_path)) is None
        monkeypatch.undo()
    assert board.problem == "[Errno 28] No space left on device"


# --- the supervisor keeps it -----------------------------------------------------------------------------------------


def test_the_lock_goes_to_the_supervisor_and_not_to_the_command(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    held = open_locked(tmp_path / "a.claim")
    assert held is not None
    # It says what it has got, then waits; a file that it should not have would be among them.
    script = f"ls -l /proc/self/fd /proc/$$/fd; read x < {gate}"
    rundir.launch(
        tmp_path / "run", argv=["sh", "-c", script], cwd="/", env={"PATH": os.environ["PATH"]}, wall_s=LONG_S,
        grace_s=1.0, held=held,
    )  # fmt: skip
    os.close(held)
    assert is_locked(tmp_path / "a.claim")
    gate.write_text("\n")
    seen = rundir.wait(tmp_path / "run", LONG_S)
    assert seen.exit is not None
    assert seen.started is not None
    assert platform.wait_gone(seen.started.supervisor, LONG_S)
    assert not is_locked(tmp_path / "a.claim")
    told = (tmp_path / "run" / "stdout.log").read_text()
    assert "/dev/null" in told
    assert "a.claim" not in told


def test_the_lock_is_free_when_the_command_cannot_be_started(tmp_path: Path) -> None:
    held = open_locked(tmp_path / "a.claim")
    assert held is not None
    with pytest.raises(rundir.LaunchFailed):
        rundir.launch(
            tmp_path / "run", argv=["/no/such/program"], cwd="/", env={}, wall_s=LONG_S, grace_s=1.0, held=held
        )
    os.close(held)
    with FileLock(tmp_path / "a.claim"):  # waits for the supervisor to be gone
        pass


def test_an_orphaned_command_keeps_its_claim(tmp_path: Path) -> None:
    """Its supervisor was killed, and the lock is gone with it."""
    claim = a_claim(tmp_path)
    held = made(claim)
    started = rundir.launch(
        Path(claim.run_dir), argv=["sleep", "600"], cwd="/", env={"PATH": os.environ["PATH"]}, wall_s=LONG_S,
        grace_s=1.0, held=held,
    )  # fmt: skip
    os.close(held)
    assert platform.signal_process(started.supervisor, 9)
    assert platform.wait_gone(started.supervisor, LONG_S)
    assert living() == [claim] == decided().claims
    assert rundir.cancel(Path(claim.run_dir), by="the test", grace_s=0.0)
    assert living() == [] == decided().claims


# --- whose a process is ----------------------------------------------------------------------------------------------


def test_processes_of_another_project_s_run_are_known(tmp_path: Path) -> None:
    """By descent from its command, and by its variables."""
    claim = a_claim(tmp_path)
    held = made(claim)
    env = {"PATH": os.environ["PATH"]}
    rundir.launch(Path(claim.run_dir), argv=["sleep", "600"], cwd="/", env=env, wall_s=LONG_S, grace_s=0.0, held=held)
    os.close(held)
    variables = {**env, "PERPETUAL_PROJECT": str(tmp_path), "PERPETUAL_RUN": "r1"}
    try:
        with (
            subprocess.Popen(["sleep", "600"], env=variables) as drifted,
            subprocess.Popen(["sleep", "600"], env={**variables, "PERPETUAL_RUN": "r2"}) as stranger,
        ):
            try:
                started = rundir.read_started(Path(claim.run_dir))
                assert started is not None
                assert started.child is not None
                pids = [started.child.pid, drifted.pid, stranger.pid]
                processes = tuple(GpuProcess(pid, 1, "alice", "sleep") for pid in pids)
                gpu = Gpu(0, "GPU-0", "A", 9, 3, 6, None, None, None, None, processes, True, None)
                found = owners_of(NO_VIEW, GpuReading("1", (gpu,), None), living())
                other = Owner("other", claim.who)
                assert [found[pid] for pid in pids] == [other, other, Owner("foreign")]
            finally:
                drifted.kill()
                stranger.kill()
    finally:
        rundir.cancel(Path(claim.run_dir), by="the test", grace_s=0.0)
        rundir.wait(Path(claim.run_dir), LONG_S)


def test_claims_are_holds(tmp_path: Path) -> None:
    claim = a_claim(tmp_path, one=5, two=None)
    found = holds_of((), [claim])
    assert {uuid: [(hold.run_id, hold.memory_bytes) for hold in holds] for uuid, holds in found.items()} == {
        "one": [(claim.who, 5)], "two": [(claim.who, None)],
    }  # fmt: skip
