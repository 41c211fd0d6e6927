"""The doctor's look at the scaffolds: does each harness's stand as it should, and does the harness take it.

`Lab.doctor` comes here. Nothing is changed; a harness is asked by the command that it names itself, for a minute
at most. Floor 2.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from perpetual.config import Config
from perpetual.errors import PerpetualError
from perpetual.lab.scaffold import build, scaffold
from perpetual.lab.scaffold_record import read
from perpetual.registry import Registry
from perpetual.slots.harness import Listing

__all__ = ["ASKED_FOR_S", "examine"]

ASKED_FOR_S = 60.0  # some start the server before they answer, which takes a while on a busy machine
_Finding = tuple[bool | None, str, str | None]


def examine(config: Config, registry: Registry) -> list[dict[str, Any]]:
    """One finding `{check, ok, detail, hint}` for each harness that `init` registered the lab with."""
    findings = []
    try:
        harnesses = read(config).harnesses
    except PerpetualError as problem:
        return [{"check": "harnesses", "ok": False, "detail": problem.message, "hint": problem.hint}]
    for name in harnesses:
        try:
            ok, detail, hint = _look(config, registry, name)
        except PerpetualError as problem:
            ok, detail, hint = False, problem.message, problem.hint
        except OSError as problem:
            ok, detail, hint = False, str(problem), None
        findings.append({"check": f"harness {name}", "ok": ok, "detail": detail, "hint": hint})
    return findings


def _look(config: Config, registry: Registry, name: str) -> _Finding:
    answer = scaffold(config, registry, [name], dry_run=True)
    faults = {"created": "is missing", "merged": "is not as init wrote it", "conflict": "cannot be merged"}
    wrong = [f"{item['path']} {faults[item['action']]}" for item in answer["files"] if item["action"] in faults]
    if wrong:
        return False, "; ".join(wrong), f"perpetual init -H {name}"
    edited = [item["path"] for item in answer["files"] if item["reason"] == "edited by hand"]
    files = f"{len(answer['files'])} files stand" + (f", edited by hand: {', '.join(edited)}" if edited else "")
    starter = answer["command"][0]
    is_path = bool(os.path.dirname(starter))
    if shutil.which(str(config.root / starter) if is_path else starter) is None:
        # Which PATH the harness has is not known here, so a mere name is told and no fault.
        where = "which is no program" if is_path else "which is not on this PATH"
        return (
            False if is_path else None,
            f"{files}; they start {starter}, {where}",
            f"perpetual init -H {name} --command PATH",
        )
    harness = build(config, registry, registry.choose("harness", name))
    program = harness.program()
    if program is None:
        return True, files, None
    found = shutil.which(program)
    if found is None:
        return None, f"{files}; there is no program {program} on the PATH", None
    if os.path.realpath(found).startswith(os.path.join(os.path.realpath(config.root), "")):
        return None, f"{files}; {found} lies in the project and is not started", "take the project off the PATH"
    listing = harness.listing()
    if listing is None:
        return True, f"{files}; {found}", None
    ok, said = _ask(found, listing, config.root)
    steps = answer["trust"][0] if answer["trust"] and ok is not True else None
    return ok, f"{files}; {said}", steps


def _ask(program: str, listing: Listing, folder: Path) -> tuple[bool | None, str]:
    """Whether the harness takes its entry; None where it could not be asked or waits for a person."""
    command = " ".join(listing.command)
    try:
        asked = subprocess.Popen(
            [program, *listing.command[1:]],
            cwd=folder,  # which files are the harness's own is a matter of the project
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        return None, f"{program} does not start: {problem.strerror or problem}"
    try:
        said, _ = asked.communicate(timeout=ASKED_FOR_S)
    except subprocess.TimeoutExpired:
        _end(asked)
        return None, f"{command} gave no answer within {ASKED_FOR_S:g} s"
    if re.search(listing.accepted, said, re.M):
        return True, f"{command} lists it"
    if listing.waiting and re.search(listing.waiting, said, re.M):
        return None, f"{command} waits for a person"
    told = " ".join(said.split())[:200]
    return False, f"{command} does not list it: {told or f'exit {asked.returncode}'}"


def _end(asked: subprocess.Popen[str]) -> None:
    """Ends the program and what it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(asked.pid, signal.SIGKILL)
    else:
        asked.kill()
    asked.communicate()
