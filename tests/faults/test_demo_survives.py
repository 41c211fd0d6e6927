"""`perpetual demo`, interrupted anywhere and started again, ends as if nobody had touched it."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from perpetual.toolkit.crashpoints import STEPS
from tests.faults.demo_harness import FULL, SMALL, Table, audit, die_at, end, finish, same, start

# those of a campaign; a store is moved in test_09_killed_migration.py
RUNS = [name for name in STEPS if not name.startswith(("move:", "adopt:", "agent:"))]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SEED = 20


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Table, float]:
    """The small campaign that nobody killed, and how many seconds it took."""
    began = time.monotonic()
    table = finish(SMALL, tmp_path_factory.mktemp("small") / "demo")
    return table, time.monotonic() - began


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """The whole demo that nobody killed."""
    return finish(FULL, tmp_path_factory.mktemp("full") / "demo")


def _instants() -> list[float]:
    """Twenty moments as shares of a campaign, one in each twentieth of it, the same in every session."""
    chance = random.Random(SEED)
    return [(number + chance.random()) / 20 for number in range(20)]


@pytest.mark.parametrize("share", _instants(), ids="{:.3f}".format)
def test_a_kill_at_a_random_instant(tmp_path: Path, small: tuple[Table, float], share: float) -> None:
    expected, duration_s = small
    program = start(SMALL, tmp_path)
    try:
        program.communicate(timeout=share * duration_s)
    except subprocess.TimeoutExpired:
        program.kill()
        program.communicate()
    assert program.returncode in (0, -signal.SIGKILL)
    same(finish(SMALL, tmp_path), expected)


@pytest.mark.parametrize("step", RUNS)
def test_a_kill_at_a_named_step(tmp_path: Path, small: tuple[Table, float], step: str) -> None:
    die_at(SMALL, tmp_path, step)
    same(finish(SMALL, tmp_path), small[0])


def test_killed_at_every_step_in_one_campaign(tmp_path: Path, small: tuple[Table, float]) -> None:
    """Each start comes a little further before it dies in its turn; no step is passed over."""
    for step in RUNS:
        die_at(SMALL, tmp_path, step)
    same(finish(SMALL, tmp_path), small[0])


@pytest.mark.parametrize("step", ["launch:forked", "note:intent"])
def test_the_whole_demo_killed_at_a_step(tmp_path: Path, full: Table, step: str) -> None:
    die_at(FULL, tmp_path / "demo", step)
    same(finish(FULL, tmp_path / "demo"), full)


def test_ctrl_c_again_and_again_in_the_whole_demo(tmp_path: Path, full: Table) -> None:
    chance = random.Random(SEED)
    for number in range(6):
        program = start(FULL, tmp_path / "demo")
        assert program.stderr is not None
        program.stderr.readline()  # it has come so far as to greet
        try:
            program.wait(timeout=chance.uniform(0.0, 0.6))
        except subprocess.TimeoutExpired:
            program.send_signal(signal.SIGINT)
        status, told = end(program)
        if status == 0 and number:
            break  # what runs goes on meanwhile: where training is quick it has come to its end by now
        assert status == 130, told
        assert "Traceback" not in told
        assert f"goes on from here: perpetual demo {tmp_path / 'demo'}\n" in told
    same(finish(FULL, tmp_path / "demo"), full)


def test_three_programs_in_one_folder_and_one_is_killed(tmp_path: Path, small: tuple[Table, float]) -> None:
    expected, _ = small
    programs = [
        start(SMALL, tmp_path),
        start(SMALL, tmp_path),
        start(SMALL, tmp_path, PERPETUAL_DIE_AT="launch:forked"),
    ]
    outcomes = [end(program) for program in programs]
    assert [status for status, _ in outcomes[:2]] == [0, 0], outcomes
    assert outcomes[2][0] in (0, -signal.SIGKILL), outcomes  # the others may have left it nothing to launch
    same(audit(tmp_path), expected)
