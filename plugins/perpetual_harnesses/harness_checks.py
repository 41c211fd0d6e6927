"""Further looks of the doctor at a harness, by the names in a template's `doctor`; each gives a note and its remedy.

`codex-hooks`: Codex runs a hook of a project only after a person has accepted it, and says nothing otherwise.
`login-shell`: the harness runs commands in a login shell, whose profile may reset the PATH.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CHECKS", "Look", "Note"]

ASKED_FOR_S = 10.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a check looks at: the project's folder, the first word of the start command, the environment."""

    root: Path
    starter: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Note:
    """What a check found, and what a person does about it."""

    text: str
    remedy: str


def codex_hooks(look: Look) -> Note | None:
    """Returns the hooks of Perpetual in `.codex/hooks.json` that a person has not accepted, None where there are none.

    Codex keeps the acceptance in `config.toml` of its own folder: under `hooks.state`, by file, event and position. A
    hook that was changed since is not found out: how Codex computes the checksum is its own matter.
    """
    path = look.root / ".codex" / "hooks.json"
    try:
        hooks = json.loads(path.read_text(encoding="utf-8-sig"))["hooks"]
        own = [
            (event, group, number)
            for event, groups in hooks.items()
            for group, item in enumerate(groups)
            for number, hook in enumerate(item["hooks"])
            if re.search(r"\bhook [a-z-]+$", str(hook.get("command"))) and "perpetual" in str(hook.get("command"))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    accepted = _accepted(look.environment)
    # Codex names the file as it was found: by the folder in which it was started.
    places = {str(path), os.path.realpath(path)}
    missing = [
        event
        for event, group, number in own
        if not any(f"{place}:{_snake(event)}:{group}:{number}" in accepted for place in places)
    ]
    if not missing:
        return None
    events = ", ".join(dict.fromkeys(missing))
    return Note(
        f"Codex skips the hooks of .codex/hooks.json until a person accepts them ({events})",
        "start `codex` in this folder and accept the hooks (/hooks shows them)",
    )


def _accepted(environment: Mapping[str, str]) -> set[str]:
    """Returns the keys of hooks that a person has accepted or switched off."""
    home = environment.get("CODEX_HOME") or os.path.join(environment.get("HOME") or os.path.expanduser("~"), ".codex")
    try:
        state = tomllib.loads(Path(home, "config.toml").read_text(encoding="utf-8"))["hooks"]["state"]
        return {key for key, value in state.items() if value.get("trusted_hash") or value.get("enabled") is False}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return set()


def _snake(event: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", event).lower()


def login_shell(look: Look) -> Note | None:
    """Returns a note where a login shell does not find a program that this PATH has."""
    shell = shutil.which("bash", path=look.environment.get("PATH"))
    if os.path.dirname(look.starter) or shell is None:
        return None
    process = subprocess.Popen(
        [shell, "-lc", 'command -v -- "$0"', look.starter], env=dict(look.environment), cwd=os.path.abspath(os.sep),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        status = process.wait(ASKED_FOR_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if status == 0:
        return None
    return Note(
        f"a login shell (bash -lc) does not find {look.starter}, so commands that the agent types fail",
        f"put the folder of {look.starter} on the PATH in your ~/.profile, or install it with pipx",
    )


CHECKS: dict[str, Callable[[Look], Note | None]] = {"codex-hooks": codex_hooks, "login-shell": login_shell}
