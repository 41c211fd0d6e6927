"""Whether coding agents are logged in, as their own commands say, and the words that hand a terminal over to one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import NotFound, PerpetualError, unknown
from perpetual.toolkit.agents import AGENT_VARIABLES
from perpetual_harnesses.dispatch.driving import Driving, inside, rows

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_harnesses.dispatch.base import Row
    from perpetual_harnesses.dispatch.documents import LoginDocument

__all__ = ["chat_words", "login_words", "logins", "own_environment"]

ASKED_FOR_S = 20.0
_MOST_OUTPUT = 100_000


def logins(lab: Lab, environment: Mapping[str, str] = os.environ) -> list[LoginDocument]:
    """Returns of every harness whether it is installed and logged in, as its own command says; starts that command."""
    found = [row for row, _ in rows(lab) if row.login or row.status or row.variables]
    with ThreadPoolExecutor(max_workers=max(1, len(found))) as pool:
        return [*pool.map(lambda row: _login(row, lab.root, environment), found)]


def _login(row: Row, root: Path, environment: Mapping[str, str]) -> LoginDocument:
    program = _program(row)
    place = shutil.which(program, path=environment.get("PATH"))
    made: LoginDocument = {
        "harness": row.name, "program": program, "installed": place is not None, "signed_in": None, "how": None,
        "login": " ".join(row.login) or None, "install": row.install or None,
    }  # fmt: skip
    if place is None:
        return made
    if inside(place, root):
        made["how"] = f"{place} lies in the project and is not started"
        return made
    key = next((name for name in row.variables if environment.get(name)), None)
    if key is not None:
        made["signed_in"], made["how"] = True, f"{key} is set"
    elif row.status and row.signed_in:
        said = _said([place, *row.status[1:]], environment)
        made["how"] = " ".join(row.status)
        made["signed_in"] = None if said is None else re.search(row.signed_in, said) is not None
    return made


def _said(words: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Returns what a command prints, None where it gives no answer in time."""
    try:
        process = subprocess.Popen(
            words, env=own_environment(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    try:
        said, _ = process.communicate(timeout=ASKED_FOR_S)
        return said[:_MOST_OUTPUT]
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which a harness does not take itself for one that another agent has started."""
    return {name: value for name, value in environment.items() if name not in AGENT_VARIABLES}


def login_words(lab: Lab, name: str | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the words of a harness's own login; without a name, of the one that `perpetual ask` would take.

    Raises:
        NotFound: for an unknown harness, or one that is not installed.
        PerpetualError: for one that has no such command.
    """
    row = _row(lab, name, environment)
    if not row.login:
        raise PerpetualError(f"{row.name} has no login command that is known", hint=" ".join(row.chat) or None)
    return _installed(row, row.login, lab.root, environment)


def chat_words(lab: Lab, name: str | None, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns the words that start a harness for a person at a terminal.

    Raises:
        NotFound: for an unknown harness, or where none is installed.
        NotPermitted: in a held project, whose files a harness would load.
    """
    lab.trust.require("starting a coding agent")
    row = _row(lab, name, environment)
    return _installed(row, row.chat or (_program(row),), lab.root, environment)


def _row(lab: Lab, name: str | None, environment: Mapping[str, str]) -> Row:
    """Returns the harness of a name; without one, the first that is installed, the project's own before others."""
    driving = Driving(lab, environment)
    known = [one for one in driving.ranked() if one.row.chat or one.row.login]
    if name is not None:
        found = next((one.row for one in known if one.row.name == name), None)
        if found is None:
            names = [one.row.name for one in known]
            raise NotFound(unknown("harness", name, names), hint=f"there is {', '.join(names)}")
        return found
    for one in known:
        if shutil.which(_program(one.row), path=environment.get("PATH")) is not None:
            return one.row
    raise driving.nothing_installed()


def _program(row: Row) -> str:
    return next((words[0] for words in (row.chat, row.login, row.argv, row.acp) if words), row.name)


def _installed(row: Row, words: Sequence[str], root: Path, environment: Mapping[str, str]) -> list[str]:
    place = shutil.which(words[0], path=environment.get("PATH"))
    if place is None:
        raise NotFound(f"{words[0]} is not installed", hint=row.install or None, code="harness_not_installed")
    if inside(place, root):
        raise NotFound(f"{place} lies in the project and is not started", hint="take the project off the PATH",
                       code="harness_not_installed")  # fmt: skip
    return [place, *words[1:]]
