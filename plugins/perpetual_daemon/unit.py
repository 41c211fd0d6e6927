"""The unit by which the user's service manager keeps the daemon: systemd.service(5) or launchd.plist(5)."""

from __future__ import annotations

import hashlib
import os
import plistlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, UsageError
from perpetual.loop import EXITS
from perpetual.toolkit.atomic import write_atomic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpetual import Lab

__all__ = ["Unit", "install", "uninstall", "unit_of"]

_TIMEOUT_S = 30.0
_CONFLICT, _USAGE = 6, 2


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of one project: its name, the file, its text, and the manager that reads it."""

    name: str
    path: Path
    text: str
    manager: str


def unit_of(lab: Lab, words: Sequence[str]) -> Unit:
    """Returns the unit of a project for this platform; `words` are the daemon's arguments.

    Raises:
        UsageError: for a path or a word that a unit cannot hold, and on a platform without either manager.
    """
    root = str(lab.root)
    command = [sys.executable, "-P", "-m", "perpetual", "--project", root, "daemon", *words]
    wrong = next((word for word in command if any(ord(char) < 32 for char in word)), None)
    if wrong is not None:
        raise UsageError(f"a unit cannot hold a path with control characters: {wrong!r}")
    # Two projects of one name differ by the digest of their folders.
    name = f"perpetual-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    if sys.platform == "darwin":
        return _agent(name, root, command)
    if sys.platform == "linux":
        return _systemd(name, root, command)
    raise UsageError("only systemd and launchd are known", hint="perpetual daemon --detach runs it without either")


def _systemd(name: str, root: str, command: Sequence[str]) -> Unit:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    # A reason that a person is to look at does not start it again; a crash does. Runs are children of their own
    # supervisors and go on when the daemon ends, so only its own process is signalled.
    final = " ".join(str(code) for code in sorted({*EXITS.values(), _CONFLICT, _USAGE} - {0}))
    text = f"""\
[Unit]
Description=Perpetual daemon of {_percent(root)}
StartLimitIntervalSec=0

[Service]
Type=exec
WorkingDirectory={_percent(root)}
ExecStart={" ".join(map(_quoted, command))}
Restart=on-failure
RestartSec=5
RestartPreventExitStatus={final}
KillMode=process
TimeoutStopSec=30

[Install]
WantedBy=default.target
"""
    return Unit(f"{name}.service", Path(base) / "systemd" / "user" / f"{name}.service", text, "systemd")


def _agent(name: str, root: str, command: Sequence[str]) -> Unit:
    label = f"lab.{name}"
    document = {
        "Label": label,
        "ProgramArguments": [*command],
        "WorkingDirectory": root,
        "RunAtLoad": True,
        # `Crashed` means: ended by a signal. An exit status is a reason, which a person is to look at.
        "KeepAlive": {"Crashed": True},
        "AbandonProcessGroup": True,
        "ThrottleInterval": 5,
    }
    path = Path(os.path.expanduser("~")) / "Library" / "LaunchAgents" / f"{label}.plist"
    return Unit(label, path, plistlib.dumps(document).decode(), "launchd")


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    """Returns a word of a command line as systemd reads it: quoted, without specifiers and variables."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'


def install(unit: Unit) -> None:
    """Writes the unit and has the manager start it now and at each login.

    Raises:
        PerpetualError: if the manager does not take it; the file stays.
    """
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(unit.path, unit.text, mode=0o644)
    if unit.manager == "systemd":
        _ask("systemctl", "--user", "daemon-reload")
        _ask("systemctl", "--user", "enable", "--now", unit.name)
    else:
        _ask("launchctl", "bootstrap", f"gui/{os.getuid()}", str(unit.path))


def uninstall(unit: Unit) -> bool:
    """Has the manager end the daemon and forget it; returns whether there was a unit.

    Raises:
        PerpetualError: if the manager refuses; the file stays.
    """
    if not unit.path.exists():
        return False
    if unit.manager == "systemd":
        _ask("systemctl", "--user", "disable", "--now", unit.name)
        unit.path.unlink()
        _ask("systemctl", "--user", "daemon-reload")
    else:
        _ask("launchctl", "bootout", f"gui/{os.getuid()}/{unit.name}")
        unit.path.unlink()
    return True


def _ask(*words: str) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise PerpetualError(f"{words[0]} did not answer: {problem}",
                             hint="perpetual daemon --detach needs no service manager") from problem  # fmt: skip
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PerpetualError(f"{' '.join(words)} failed: {said[-1] if said else done.returncode}",
                             hint="perpetual daemon --detach needs no service manager")  # fmt: skip
