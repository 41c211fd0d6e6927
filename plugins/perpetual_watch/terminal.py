"""The terminal of the view: its modes, its size, drawing in place, and keys. All is put back when it is left."""

from __future__ import annotations

import os
import re
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from select import select
from types import FrameType

from perpetual_watch.frame import Line

__all__ = ["Terminal"]

_KEY = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1bO[A-Z]|\x1b|.", re.DOTALL)
_NAMES = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[C": "right", b"\x1b[D": "left", b"\x1bOA": "up", b"\x1bOB": "down",
    b"\x1bOC": "right", b"\x1bOD": "left", b"\x1b[5~": "page up", b"\x1b[6~": "page down", b"\x1b": "escape",
    b"\t": "right", b"\r": "enter", b"\n": "enter",
}  # fmt: skip
# alternate screen, cursor hidden, no wrapping; and back
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J", "\x1b[?7h\x1b[?25h\x1b[?1049l"
_STYLES = {"plain": "", "head": "\x1b[7m", "title": "\x1b[1m", "note": "\x1b[1;7m"}


class Terminal:
    """A terminal that is drawn on; use it inside `opened`."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._modes: list[int | list[bytes | int]] | None = None
        self._shown = ""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self.is_over = False

    @contextmanager
    def opened(self) -> Iterator[Terminal]:
        """Takes the terminal over, and puts it back however the block ends."""
        signals = {
            number: signal.signal(number, handler)
            for number, handler in (
                (signal.SIGWINCH, self._resized), (signal.SIGTERM, self._ended), (signal.SIGHUP, self._ended),
                (signal.SIGTSTP, self._stopped),
            )
        }  # fmt: skip
        try:
            self._enter()
            yield self
        finally:
            self._leave()
            for number, before in signals.items():
                signal.signal(number, before)
            os.close(self._wake_read)
            os.close(self._wake_write)

    def _enter(self) -> None:
        self._modes = termios.tcgetattr(self._in)
        tty.setcbreak(self._in)
        self._shown = ""
        self._write(_ENTER)

    def _leave(self) -> None:
        if self._modes is None:
            return
        modes, self._modes = self._modes, None
        self._write(_LEAVE)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._in, termios.TCSADRAIN, modes)

    # Handlers of signals run between two steps of the main thread: `wake` has the loop look again.

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self._shown = ""  # the terminal may have moved what was drawn
        self.wake()

    def _ended(self, number: int, frame: FrameType | None) -> None:
        self.is_over = True
        self.wake()

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        """Gives the terminal back while the process is stopped (Ctrl-Z), and takes it over again afterwards."""
        self._leave()
        signal.raise_signal(signal.SIGSTOP)
        self._enter()
        self.wake()

    def wake(self) -> None:
        """Has `pressed` return; may be called from any thread."""
        with suppress(OSError):  # full, so that it wakes anyhow; or closed
            os.write(self._wake_write, b".")

    def size(self) -> tuple[int, int]:
        """Returns the columns and lines of the terminal now."""
        try:
            found = os.get_terminal_size(self._out)
        except OSError:
            return 80, 24
        return found.columns or 80, found.lines or 24

    def pressed(self) -> list[str]:
        """Blocks until a key is pressed or `wake` is called; returns the keys that were read at once."""
        ready = select([self._in, self._wake_read], [], [])[0]
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if self._in not in ready:
            return []
        try:
            data = os.read(self._in, 1024)
        except OSError:
            data = b""
        if not data:
            self.is_over = True  # the terminal was closed
        found = _KEY.findall(data)
        return [_NAMES.get(key) or key.decode("ascii", "replace") for key in found]

    def forget_keys(self) -> None:
        """Drops what was typed and not read yet."""
        with suppress(termios.error):
            termios.tcflush(self._in, termios.TCIFLUSH)

    def draw(self, lines: Sequence[Line]) -> None:
        """Shows the lines, from the first line of the screen on; writes nothing where they are shown already."""
        _, height = self.size()
        parts = [
            f"\x1b[{place};1H\x1b[0m\x1b[K{_STYLES[line.style]}{line.text}\x1b[0m"
            for place, line in enumerate(lines, 1)
        ]
        parts += [f"\x1b[{place};1H\x1b[K" for place in range(len(lines) + 1, height + 1)]
        text = "".join(parts)
        if text != self._shown:
            self._write(text)
            self._shown = text

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding or "utf-8", "replace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            self.is_over = True  # the terminal is gone
