"""The doctor's look at the scaffolds: does each harness's stand as it should, and does the harness take it.

Nothing is changed; a harness is asked by the command that it names itself, for a minute
at most.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from perpetual.api import Finding, ListCommand, PerpetualError, ScaffoldView
from perpetual.toolkit.units import counted
from perpetual_harnesses.harness_checks import CHECKS, Look
from perpetual_harnesses.scaffold import scaffold
from perpetual_harnesses.scaffold_record import read
from perpetual_harnesses.template import TemplateHarness

__all__ = ["ASKED_FOR_S", "examine"]

ASKED_FOR_S = 60.0  # some start the server before they answer, which takes a while on a busy machine


def examine(view: ScaffoldView) -> list[tuple[str, Finding]]:
    """Returns one finding, with its check's name, for each harness that `init` registered the lab with."""
    findings: list[tuple[str, Finding]] = []
    try:
        harnesses = read(view.folder).harnesses
    except PerpetualError as problem:
        return [("harnesses", Finding(False, problem.message, problem.hint))]
    for name in harnesses:
        try:
            found = Finding(*_look(view, name))
        except PerpetualError as problem:
            found = Finding(False, problem.message, problem.hint)
        except OSError as problem:
            found = Finding(False, str(problem))
        findings.append((f"harness {name}", found))
    return findings


def _look(view: ScaffoldView, name: str) -> tuple[bool | None, str, str | None]:
    answer = scaffold(view, [name], dry_run=True)
    faults = {"created": "is missing", "merged": "is not as init wrote it", "conflict": "cannot be merged"}
    wrong = [f"{item['path']} {faults[item['action']]}" for item in answer["files"] if item["action"] in faults]
    if wrong:
        return False, "; ".join(wrong), f"perpetual init -H {name}"
    edited = [item["path"] for item in answer["files"] if item["reason"] == "edited by hand"]
    own = [f"{item['path']}: {item['reason']}" for item in answer["files"] if " own entry; " in (item["reason"] or "")]
    files = f"{counted(len(answer['files']), 'file')} in place" + (
        f", edited by hand: {', '.join(edited)}" if edited else ""
    )
    files += "".join(f"; {one}" for one in own)
    starter = answer["command"][0]
    is_path = bool(os.path.dirname(starter))
    if shutil.which(str(view.root / starter) if is_path else starter) is None:
        # Which PATH the harness has is not known here, so a mere name is shown and no fault.
        where = "which is no program" if is_path else "which is not on this PATH"
        return (
            False if is_path else None,
            f"{files}; they start {starter}, {where}",
            f"perpetual init -H {name} --command PATH",
        )
    harness = view.choose(name).build()
    if answer.get("snippets"):
        places = ", ".join(item["path"] for item in answer.get("snippets", []))
        return None, f"{files}; {places} is outside of the project and is not read", None
    program = harness.program()
    if program is None:
        return True, files, None
    found = shutil.which(program)
    if found is None:
        return None, f"{files}; there is no program {program} on the PATH (optional)", None
    if os.path.realpath(found).startswith(os.path.join(os.path.realpath(view.root), "")):
        return None, f"{files}; {found} lies in the project and is not started", "take the project off the PATH"
    listing = harness.listing()
    ok, said = (True, found) if listing is None else _ask(found, listing, view.root)
    if ok is not True:
        return ok, f"{files}; {said}", next(iter(answer["trust"]), None)
    look = Look(view.root, starter, os.environ)
    checks = harness.checks() if isinstance(harness, TemplateHarness) else ()
    notes = [note for note in (CHECKS[name](look) for name in checks) if note is not None]
    detail = "; ".join([files, said, *(note.text for note in notes)])
    return None if notes else True, detail, "; ".join(note.remedy for note in notes) or None


def _ask(program: str, listing: ListCommand, folder: Path) -> tuple[bool | None, str]:
    """Returns whether the harness takes its entry; None where it could not be asked or waits for a person."""
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
    output = " ".join(said.split())[:200]
    return False, f"{command} does not list it: {output or f'exit {asked.returncode}'}"


def _end(asked: subprocess.Popen[str]) -> None:
    """Ends the program and what it started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(asked.pid, signal.SIGKILL)
    else:
        asked.kill()
    asked.communicate()
