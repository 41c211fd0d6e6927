"""A word on the desktop when an experiment's runs have ended with no terminal open; nothing without a display."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

from perpetual import Lab
from perpetual.api import printable

__all__ = ["command", "notify", "words"]

_LONGEST_NAME = 40
_SCRIPT = ("on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run")


def notify(lab: Lab, experiments: Iterable[str]) -> None:
    """Shows one notice for those of the experiments that have no live run any more; never waits, and raises nothing."""
    if not lab.options("dispatch")["notices"]:
        return
    for id in experiments:
        body = words(lab, id)
        found = None if body is None else command(_title(lab), body)
        if found is not None:
            with contextlib.suppress(OSError):
                subprocess.Popen(
                    found,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )


def words(lab: Lab, id: str) -> str | None:
    """Returns what is said of an experiment: its id and how its runs ended; None while one of them is live."""
    counts = Counter(run.status for run in lab.runs.named([id]))
    if any(counts[live] for live in ("queued", "launching", "running")):
        return None
    return f"{id} has ended: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def _title(lab: Lab) -> str:
    name = "".join(char for char in printable(str(lab.config["project"])) if char not in "<>&")
    return f"perpetual {name[:_LONGEST_NAME]}".strip()


def command(title: str, body: str) -> list[str] | None:
    """Returns the desktop's own program with its words; None without a desktop or the program."""
    if sys.platform == "darwin":
        program = shutil.which("osascript")
        lines = [word for line in _SCRIPT for word in ("-e", line)]
        return None if program is None else [program, *lines, title, body]
    program = shutil.which("notify-send")
    if program is None or not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    return [program, "--app-name=perpetual", "--", title, body]
