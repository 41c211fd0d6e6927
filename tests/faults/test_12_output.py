"""Row 12: what a command may write. Every byte is kept as it is, up to the limit, and decides nothing."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual.cli.app import run
from perpetual_supervisor.log_capture import LARGEST_TAIL_BYTES
from tests.faults.supervised import Bench
from tests.support import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")

LIMIT_BYTES = 1_000_000
ODD = {
    "invalid UTF-8": b"caf\xe9 \xff\xfe\x80 \xed\xa0\x80 end",
    "terminal escapes": b"\x1b[2J\x1b[31mred\x1b]0;title\x07 \x9b5m\r\x08\x00 end\n",
    "no newline": b"x" * 40_000,
    "every byte": bytes(range(256)) * 8,
    "nothing": b"",
}
WRITE = "import os, sys; data = bytes.fromhex(sys.argv[1])\nwhile data: data = data[os.write(1, data):]\n"
# Writes fifty megabytes, a numbered line or a piece without a newline at a time, says so and waits.
MUCH = """
import os, sys
left, number, end = 50_000_000, 0, sys.argv[1].encode()
os.write(1, b"the first words|")
while left > 0:
    piece = (b"%09d" % number) * 7000 + end
    left -= os.write(1, piece)
    number += 1
os.write(1, b"|the last words")
os.write(2, b"full")
open(os.environ["GATE"]).read()
"""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Where the runs live; their logs have a small limit."""
    made = Bench(tmp_path, LIMIT_BYTES)
    yield made
    made.close()


@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=pytest.mark.slow) if "escapes" not in each else each for each in ODD]
)
def test_every_byte_is_kept(bench: Bench, what: str) -> None:
    """Whatever it means to a terminal, or to nobody."""
    seen = bench.wait(bench.python(WRITE, ODD[what].hex()))
    assert (seen.reason, seen.exit_code) == ("exited", 0)
    assert (bench.folder / "run" / "stdout.log").read_bytes() == ODD[what]


@pytest.mark.parametrize(
    ("script", "exit_code"),
    [
        pytest.param("exit 3", 3, id="fails silently"),
        pytest.param("echo loss=NaN; echo Traceback >&2", 0, id="words", marks=pytest.mark.slow),
        pytest.param("echo SUCCESS, exit code 0; exit 5", 5, id="boasts", marks=pytest.mark.slow),
    ],
)
def test_only_the_exit_code_decides(bench: Bench, script: str, exit_code: int) -> None:
    """Whatever was written, or was not."""
    seen = bench.wait(bench.shell(script))
    assert (seen.state, seen.reason, seen.exit_code, seen.detail) == ("ended", "exited", exit_code, None)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["\n", ""], ids=["lines", "no newline at all"])
def test_fifty_megabytes_are_kept_to_the_limit(bench: Bench, end: str) -> None:
    """With both ends, while it runs too, and the supervisor stays small."""
    launched = bench.python(MUCH, end)
    log = bench.folder / "run" / "stdout.log"
    until(lambda: bench.text("stderr.log") == "full", "it has not written all")
    until(lambda: log.stat().st_size <= LIMIT_BYTES, "the log is over its limit")
    status = Path(f"/proc/{bench.started().supervisor.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    assert int(found[1]) * 1024 < 24_000_000 + 2 * LARGEST_TAIL_BYTES, "the supervisor has grown with the output"
    assert bench.poll(launched).state == "running"
    bench.open()
    assert bench.wait(launched).exit_code == 0
    kept = log.read_bytes()
    assert len(kept) <= LIMIT_BYTES
    assert kept.startswith(b"the first words|000000000")
    assert kept.endswith(b"|the last words")
    told = re.search(rb"at least (\d+) bytes dropped: this log is limited to 1000000 bytes", kept)
    assert told is not None
    marker_bytes = len(told[0]) + len("\n[...  ...]\n")
    assert len(kept) - marker_bytes + int(told[1]) <= 50_100_000
    assert int(told[1]) > 45_000_000


@pytest.mark.slow
def test_an_unlinked_log_is_kept_to_the_limit_too(bench: Bench) -> None:
    """Its folder was removed, and it would fill the disk all the same."""
    launched = bench.shell("echo up; read x < $GATE; yes | head -c 5000000; echo full >&2; read x < $GATE")
    until(lambda: bench.text("stdout.log") == "up\n", "it did not come up")
    log, errors = (Path(f"/proc/{launched.pid}/fd/{number}") for number in (1, 2))
    shutil.rmtree(bench.folder / "run")
    bench.open()
    until(lambda: errors.stat().st_size, "it has not written all")
    until(lambda: log.stat().st_size <= LIMIT_BYTES, "the log is over its limit")
    assert bench.poll(launched).state == "running"
    assert bench.cancel(launched)
    assert bench.wait(launched).state == "lost"


@pytest.mark.slow
def test_a_terminal_is_shown_no_escapes(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`perpetual logs` makes them visible; a document holds the text as it is."""
    program = f"import os; os.write(1, bytes.fromhex('{ODD['terminal escapes'].hex()}'))"
    command = shlex.join([sys.executable, "-c", program])
    assert run(["propose", "--command", command]) == 0
    assert run(["approve", "e1"]) == 0
    assert run(["run", "e1", "--wait"]) == 0
    capfd.readouterr()
    assert run(["logs", "r1"]) == 0
    shown = capfd.readouterr().out
    assert all(each.isprintable() or each in "\n\t" for each in shown), repr(shown)
    assert "\\x1b[31mred" in shown
    assert "end" in shown
    assert run(["logs", "r1", "--json"]) == 0
    assert "\x1b[31mred" in json.loads(capfd.readouterr().out)["text"]
    (log,) = project.rglob("stdout.log")
    assert log.read_bytes() == ODD["terminal escapes"]
