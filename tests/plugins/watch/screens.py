"""A terminal for the tests: a pseudo-terminal, a program on it, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Screen", "on_screen"]

_LONG_S = 60.0
_PART = re.compile(
    rb"\x1b\[(?P<mark>\??)(?P<numbers>[0-9;]*)(?P<deed>[A-Za-z])|(?P<text>[^\x1b]+)|(?P<odd>\x1b.)", re.DOTALL
)


class Screen:
    """What a terminal shows that knows the few sequences that the view may use; any other one is an error."""

    def __init__(self, process: subprocess.Popen[bytes], leader: int, columns: int, lines: int) -> None:
        self.process, self._leader = process, leader
        self.columns, self.rows = columns, lines
        self.lines = [""] * lines
        self._at = (0, 0)
        self._rest = b""
        self.modes: dict[str, bool] = {}
        self.before = ""  # what was written outside of the alternate screen

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def type(self, keys: bytes) -> None:
        os.write(self._leader, keys)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._leader, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.columns, self.rows = columns, lines
        self.lines = [""] * lines
        self.process.send_signal(signal.SIGWINCH)

    def read(self, wait_s: float = 0.0) -> bytes:
        """Takes what the program has written."""
        poller = select.poll()  # select(2) takes no descriptor above 1,023, which a long session of tests reaches
        poller.register(self._leader, select.POLLIN)
        if not poller.poll(wait_s * 1000.0):
            return b""
        try:
            data = os.read(self._leader, 65536)
        except OSError:  # the other end is closed
            return b""
        self._show(data)
        return data

    def until(self, condition: Callable[[str], object]) -> str:
        deadline = time.monotonic() + _LONG_S
        while not condition(self.text):
            assert time.monotonic() < deadline, f"the screen shows:\n{self.text}"
            assert self.process.poll() is None or self.read(0.1), f"it has ended:\n{self.text}\n{self.before}"
            self.read(0.2)
        return self.text

    def ends(self) -> int:
        deadline = time.monotonic() + _LONG_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.text
            self.read(0.05)
        while self.read(0.05):
            pass
        return self.process.returncode

    def _show(self, data: bytes) -> None:
        data, self._rest = self._rest + data, b""
        cut = data.rfind(b"\x1b")
        if cut >= 0 and not re.match(rb"\x1b\[\??[0-9;]*[A-Za-z]", data[cut:]):
            data, self._rest = data[:cut], data[cut:]
        for found in _PART.finditer(data):
            assert found["odd"] is None, f"the program wrote {found[0]!r}"
            if found["text"] is not None:
                self._write(found["text"].decode("utf-8", "replace"))
            else:
                self._do(found["mark"], found["numbers"].decode(), found["deed"])

    def _do(self, mark: bytes, numbers: str, deed: bytes) -> None:
        row, column = self._at
        if mark:
            assert deed in b"hl", deed
            self.modes[numbers] = deed == b"h"
        elif deed == b"H":
            down, _, right = numbers.partition(";")
            self._at = (int(down or 1) - 1, int(right or 1) - 1)
            assert self._at[0] < self.rows, f"line {self._at[0] + 1} of {self.rows}"
        elif deed == b"K":
            self.lines[row] = self.lines[row][:column]
        elif deed == b"J":
            self.lines = [""] * self.rows
        else:
            assert deed == b"m", f"the program wrote ESC [ {numbers} {deed!r}"

    def _write(self, text: str) -> None:
        if not self.modes.get("1049"):
            self.before += text
            return
        assert text.isprintable(), f"the program wrote {text!r}"
        row, column = self._at
        self.lines[row] = self.lines[row][:column].ljust(column) + text
        self._at = (row, column + len(text))


@contextmanager
def on_screen(
    folder: Path, *words: str, columns: int = 80, lines: int = 24, variables: dict[str, str] | None = None
) -> Iterator[Screen]:
    """Runs `perpetual` with these words on a terminal of that size."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, "-m", "perpetual", *words], stdin=follower, stdout=follower, stderr=follower, cwd=folder,
        env={**env, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(variables or {})}, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(follower)
        try:
            yield Screen(process, leader, columns, lines)
        finally:
            process.kill()
            process.wait()
            os.close(leader)
