"""Drawing an answer again and again in its place on a terminal, and whether that is wanted. Floor 0."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from io import StringIO

from perpetual.toolkit import screen

__all__ = ["is_plain", "redrawn"]


class _Screen(StringIO):
    def isatty(self) -> bool:
        return True  # so that what is drawn fits the terminal


def is_plain(*, asked: bool = False) -> bool:
    """Returns whether nothing is drawn over: asked for, by NO_COLOR, on a dumb terminal, or where stderr is none."""
    asked = asked or screen.is_plain() or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    return asked or not sys.stderr.isatty()


def redrawn(draw: Callable[[], None], wait: Callable[[], bool]) -> None:
    """Shows what `draw` prints, anew once `wait` answers True, until q or Ctrl-C; plain, one state below the other."""
    import termios
    import tty
    from select import select
    from shutil import get_terminal_size

    out, shown, keys, is_over = sys.stdout, "", sys.stdin.fileno() if sys.stdin.isatty() else None, False
    before = None if keys is None else termios.tcgetattr(keys)
    if keys is not None:
        tty.setcbreak(keys)
    try:
        with suppress(KeyboardInterrupt):
            while not is_over:
                with redirect_stdout(_Screen()) as screen:
                    draw()
                lines = screen.getvalue().rstrip().split("\n")
                top = "".join(f"{line}\x1b[K\n" for line in lines[: get_terminal_size().lines - 1])
                text = "\n".join([*lines, "", ""]) if is_plain() else f"\x1b[H{top}\x1b[J"
                out.write(text if text != shown else "")
                out.flush()
                shown, is_new = text, False
                while not is_new and not is_over:
                    is_new = wait()
                    is_over = keys is not None and bool(select([keys], [], [], 0)[0]) and os.read(keys, 1) in b"qQ"
    finally:
        if keys is not None and before is not None:
            termios.tcsetattr(keys, termios.TCSADRAIN, before)
