"""Row 10: somebody sets the clock while a run lives. Durations and limits do not notice; only printed times do."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perpetual.toolkit.units import posix_of
from tests.faults.supervised import Bench
from tests.support import LONG_S, until

FIXTURE = Path(__file__).parents[1] / "fixtures" / "stepped_clock" / "stepped_clock.c"
CC = shutil.which("cc")
DAY_S = 86400

pytestmark = pytest.mark.skipif(
    CC is None or sys.platform != "linux", reason="the stepped clock needs Linux and a C compiler"
)

SetClock = Callable[[int], None]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The preloaded library, compiled."""
    made = tmp_path_factory.mktemp("stepped-clock") / "stepped_clock.so"
    options = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([str(CC), *options, "-o", str(made), str(FIXTURE), "-ldl"], check=True)
    return made


@pytest.fixture
def set_clock(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """Sets the clock of supervisors that are started from now on, by so many seconds; at any time."""
    file = tmp_path / "offset"

    def set_by(seconds: int) -> None:
        (tmp_path / "offset.new").write_text(f"{seconds}\n")
        (tmp_path / "offset.new").rename(file)

    set_by(0)
    monkeypatch.setenv("STEPPED_CLOCK_FILE", str(file))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    return set_by


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Where the runs live."""
    made = Bench(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("step_s", [-DAY_S, pytest.param(DAY_S, marks=pytest.mark.slow)])
def test_a_duration_does_not_notice(bench: Bench, set_clock: SetClock, step_s: int) -> None:
    """The printed times are those of the clock, so that the end may be before the start."""
    begun = time.monotonic()
    launched = bench.shell("echo up; read x < $GATE", wall_s=600.0, no_output_s=600.0)
    until(lambda: bench.text("stdout.log") == "up\n", "it did not come up")
    up_s = time.monotonic()
    set_clock(step_s)
    seen = bench.poll(launched)
    assert seen.state == "running"
    assert seen.age_s is not None
    assert 0.0 <= seen.age_s <= time.monotonic() - begun + 0.1
    held_s = time.monotonic() - up_s
    bench.open()
    seen = bench.wait(launched)
    lasted_s = time.monotonic() - begun
    assert (seen.state, seen.reason, seen.exit_code) == ("ended", "exited", 0)
    assert seen.duration_s is not None
    assert held_s <= seen.duration_s <= lasted_s
    assert seen.started_at is not None
    assert seen.ended_at is not None
    shown_s = posix_of(seen.ended_at) - posix_of(seen.started_at)
    assert abs(shown_s - step_s - seen.duration_s) < LONG_S, "the clock was not set"  # by a day
    assert bench.poll(launched) == seen


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [-DAY_S, DAY_S])
@pytest.mark.parametrize("limit", ["wall_s", "no_output_s"])
def test_a_limit_is_neither_early_nor_late(bench: Bench, set_clock: SetClock, limit: str, step_s: int) -> None:
    """And what is waited for after it is not either: the grace."""
    launched = bench.shell("trap '' TERM; echo up; while :; do sleep 1; done", **{limit: 1.5, "grace_s": 0.5})
    until(lambda: bench.text("stdout.log") == "up\n", "it did not come up")
    set_clock(step_s)
    seen = bench.wait(launched)
    assert seen.reason == "timeout"
    assert seen.duration_s is not None
    assert 2.0 <= seen.duration_s < LONG_S
