"""The picture of `perpetual gpu-status`: what each line says, that nothing wraps, and how `--watch` ends."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from perpetual.cli.app import run
from perpetual_gpus import command as commands
from perpetual_gpus.table import gpu_table
from tests.fixtures.gpu_machine import NEEDS_THE_STUB, GpuMachine, driver, gpus, machine

__all__ = ["driver", "machine"]

GIB = 2**30


def process(pid: int, owner: str = "foreign", run_id: str | None = None, **given: Any) -> dict[str, Any]:
    return {"pid": pid, "memory_bytes": GIB, "user": "alice", "name": "python", "owner": owner, "run_id": run_id,
            "claim": None, **given}  # fmt: skip


def part(**given: Any) -> dict[str, Any]:
    return {"memory_total_bytes": 20 * GIB, "memory_used_bytes": 3 * GIB, "processes": [], "run_ids": [],
            "claims": [], "state": "free", "note": None, **given}  # fmt: skip


def device(index: int, **given: Any) -> dict[str, Any]:
    told = {"name": "NVIDIA H100 80GB HBM3", "memory_total_bytes": 80 * GIB, "memory_used_bytes": 30 * GIB,
            "utilization": 97.0, "temperature_celsius": 61.0, "power_watts": 412.5, "mig": []}  # fmt: skip
    return {"index": index, **part(), **told, **given}


UNTOLD = dict.fromkeys(
    ("name", "utilization", "memory_total_bytes", "memory_used_bytes", "temperature_celsius", "power_watts")
)
FAR = "/home/alice/projects/a-folder-with-a-long-name/and-one-below-it"
NOBODY = {"user": None, "name": None}
RACK: Any = {
    "driver": "570.86.15",
    "gpus": [
        device(0, utilization=0.0, memory_used_bytes=0),
        device(
            1, state="leased", run_ids=["r12", "r13"], processes=[process(1, "run", "r12"), process(3, "run", "r9")]
        ),
        device(2, state="used", processes=[process(4242), process(4194305, "unknown", **NOBODY)], note="is used"),
        device(3, state="sick", note="is sick: GPU is lost", **UNTOLD),
        device(
            4,
            state="cut",
            utilization=None,
            mig=[part(state="used", processes=[process(9, "ended", "r7")]), part(state="leased", run_ids=["r44"])],
        ),
        device(5, state="excluded", note="is excluded by gpus_excluded"),
        device(6, state="used", processes=[process(pid) for pid in range(100, 110)], name="odd\x1b[31m"),
        device(
            7,
            state="leased",
            claims=[{"project": f"{FAR}/other", "run_id": "r3", "memory_bytes": None}],
            processes=[process(5, claim=f"r3 of {FAR}/other"), process(6, claim=f"r4 of {FAR}/third")],
        ),
    ],
}


def drawn(width: int, **how: Any) -> str:
    file = io.StringIO()
    console = Console(width=width, file=file, highlight=False, **how)
    console.print(gpu_table(RACK, console))
    return file.getvalue()


@pytest.mark.parametrize("width", [80, 100, 140, 200])
def test_each_device_has_its_line_and_nothing_wraps(width: int) -> None:
    lines = drawn(width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].strip() == "driver 570.86.15"
    starts = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0].strip(".").isdecimal()]
    assert starts == ["0", "1", "2", "3", "4", ".0", ".1", "5", "6", "7"]
    # as many as there are holders to name: a wrapped cell would add one
    assert len([line for line in lines if line.strip()]) == 1 + 2 + 10 + 1 + 1 + 3 + 1
    text = "\n".join(lines)
    for words in ("0 %", "97 %", " 30.0 / 80.0 GiB", "61 C", "leased by r12, r13", "r9 without a lease",
                  "alice: python (4242)", "unknown process (4194", "sick: GPU is lost", "cut into 2", "held by pid 9",
                  "leased by r44", "excluded by gpus_excl", "and 7 more", "leased by r3 of other",
                  "r4 of third without"):  # fmt: skip
        assert words in text
    assert ("412 W" in text, "H100" in text) == (width > 80, width > 80)
    assert "\x1b" not in text


def test_bars_are_as_long_as_the_numbers() -> None:
    lines = drawn(140).splitlines()
    idle, busy = (next(line for line in lines if line.startswith(f" {number} ")) for number in (0, 1))
    assert "━" not in idle
    assert "━" * 9 in busy


def test_colours_only_on_a_terminal_and_signs_that_it_can_show() -> None:
    assert "\x1b[1;31msick" in drawn(140, force_terminal=True, color_system="standard")
    assert "\x1b" not in drawn(140)
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as file:
        console = Console(width=80, file=file)
        console.print(gpu_table(RACK, console))


def test_the_table_is_redrawn_on_a_terminal_until_ctrl_c(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    from perpetual.lab.plugin_listing import Inventory

    monkeypatch.setattr(Inventory, "devices", lambda _: {**RACK, "reason": None, "transient": False})
    monkeypatch.setattr(commands, "time", SimpleNamespace(sleep=pause))  # threads of other tests sleep too
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("PERPETUAL_PLAIN", "0")  # the option sets it
    assert run(["--plain", "gpu-status", "--watch"]) == 130
    out = capsys.readouterr().out
    assert out.count("GPU: 0\n") == 3
    assert "state: " in out
    assert "\x1b" not in out
    assert "─" not in out
    monkeypatch.setenv("PERPETUAL_PLAIN", "0")
    pauses.clear()
    assert run(["gpu-status", "--watch"]) == 130
    out = capsys.readouterr().out
    assert out.count("driver 570.86.15") >= 3
    assert out.rstrip().endswith("\x1b[?25h") or "\x1b[?25h" in out.rpartition("\x1b[?25l")[2]  # the cursor is back
    assert pauses == [2.0, 2.0, 2.0]


@NEEDS_THE_STUB
@pytest.mark.slow
def test_watching_a_machine_that_changes(project: Path, machine: GpuMachine) -> None:
    """The real program on a real terminal: it follows the hardware, says why there is none, and ends by Ctrl-C."""
    machine.becomes(gpus(1, more="temp 41\n"))
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "perpetual", "gpu-status", "--watch"], stdin=follower, stdout=follower, stderr=follower,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}, start_new_session=True,
    ) as program:  # fmt: skip
        try:
            os.close(follower)
            read_until(leader, b"41 C")
            machine.becomes(gpus(1, more="temp 77\n"))
            read_until(leader, b"77 C")
            machine.becomes("init_error 18\n")
            read_until(leader, b"different versions")
            program.send_signal(signal.SIGINT)
            assert program.wait(60) == 130
        finally:
            program.kill()
            os.close(leader)


def read_until(descriptor: int, words: bytes) -> None:
    seen = b""
    deadline_s = time.monotonic() + 60.0
    while words not in seen:
        assert time.monotonic() < deadline_s, seen
        if select.select([descriptor], [], [], 1.0)[0]:
            seen += os.read(descriptor, 65536)
