"""The command notifier: a program that is named in full, ended in time, and judged by its exit status."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perpetual.api import ConfigError, PerpetualError, TransientError
from perpetual_notify.program import Program
from perpetual_notify.testing import example
from tests.support import until


def test_a_failing_program_is_named_with_what_it_said() -> None:
    with pytest.raises(TransientError, match=r"/bin/sh ended with 3: no .*bus"):
        Program(["/bin/sh", "-c", "printf 'no \\033 bus' >&2; exit 3"]).send(example())


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(PerpetualError, match="no-such-program is not there"):
        Program(["no-such-program"]).send(example())


@pytest.mark.slow
def test_what_hangs_is_ended_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    began_s = time.monotonic()
    with pytest.raises(TransientError, match=r"did not end within 0\.5 s"):
        Program(["/bin/sh", "-c", f"sleep 60 & echo $! > {child}; wait"], timeout_s=0.5).send(example())
    assert time.monotonic() - began_s < 20
    until(lambda: not _is_alive(int(child.read_text())), "the child of the program lives on")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text() if Path(f"/proc/{pid}").exists() else False


def test_what_it_leaves_behind_is_not_waited_for() -> None:
    began_s = time.monotonic()
    Program(["/bin/sh", "-c", "sleep 3 >/dev/null & exit 0"], timeout_s=30).send(example())
    assert time.monotonic() - began_s < 2.5


def test_it_runs_in_the_home_folder_and_reads_nothing_if_it_likes(tmp_path: Path) -> None:
    Program(["/bin/sh", "-c", f"pwd > {tmp_path}/pwd"]).send(example())
    assert (tmp_path / "pwd").read_text().strip() == os.path.realpath(os.environ["HOME"])


@pytest.mark.parametrize("argv", [[], ["./notify"], ["bin/notify"], ["a\0b"]])
def test_a_program_that_the_folder_decides_is_refused(argv: list[str]) -> None:
    with pytest.raises(ConfigError):
        Program(argv).target()
