"""The notifier `desktop`: the desktop's own program on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from perpetual.api import PerpetualError, TransientError, line
from perpetual_dispatch.notices import command
from perpetual_notify.notifier import Notice, Notifier

__all__ = ["Desktop", "build"]

_LONGEST = 300  # characters that a desktop shows


class Desktop(Notifier):
    """Shows a notice on the desktop of this machine."""

    def __init__(self, limit_s: float = 10.0) -> None:
        self.limit_s = limit_s

    def where(self) -> str:
        """Returns that it is this machine's desktop."""
        return "the desktop of this machine"

    def target(self) -> str:
        """Returns nothing: it stays on this machine."""
        return ""

    def send(self, notice: Notice) -> None:
        """Starts the desktop's program and waits for it."""
        body = f"{notice.title}\n{notice.text}"[:_LONGEST].replace("<", "‹").replace(">", "›").replace("&", "+")
        found = command(f"perpetual {notice.project}", body)
        if found is None:
            raise PerpetualError(
                "no desktop is here: DISPLAY or WAYLAND_DISPLAY, and the program notify-send, are needed",
                hint="the notifiers email, webhook and command need none",
                code="no_desktop",
            )
        try:
            done = subprocess.run(found, stdin=subprocess.DEVNULL, capture_output=True, timeout=self.limit_s,
                                  check=False)  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TransientError(f"{found[0]} did not end within {self.limit_s:g} s") from None
        except OSError as problem:
            raise PerpetualError(f"{found[0]} cannot be started: {problem.strerror}") from problem
        if done.returncode:
            said = line(done.stderr[-200:].decode("utf-8", "replace"))
            raise TransientError(f"{found[0]} ended with {done.returncode}" + (f": {said}" if said else ""))


def build(options: Mapping[str, object]) -> Desktop:
    """Builds the notifier; it has no options."""
    return Desktop()
