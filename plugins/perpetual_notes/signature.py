"""The signature of a crash: what stays the same when the same fault ends another run."""

from __future__ import annotations

import json
import re
import shlex
from hashlib import sha256
from pathlib import PurePosixPath
from typing import NamedTuple

from perpetual.api import Run
from perpetual.toolkit.causes import CAUSES, ERROR
from perpetual_notes.words import one_line

__all__ = ["Crash", "crash_of", "masked", "program_of"]

_LONGEST = 200  # characters of a masked line
_MOST_WORDS = 40  # of a command
_TOKEN = re.compile(r"[^\s'\"`(),;=<>]+")
_HEX = re.compile(r"\b0[xX][0-9a-fA-F]+|\b[0-9a-fA-F]{8}[0-9a-fA-F-]*\b")
_NUMBER = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
_NAME = re.compile(r"\s{0,99}([A-Za-z_][\w.]{0,199})")
_EXCEPTIONS = ("Error", "Exception", "Interrupt", "Exit", "Warning")
_INTERPRETER = re.compile(
    r"(?:python|pypy|bash|sh|zsh|dash|Rscript|node|julia|perl|ruby|torchrun|env|uv|run|time|nice)[\d.]*\Z"
)
_ASSIGNED = re.compile(r"[A-Za-z_]\w{0,99}=")


class Crash(NamedTuple):
    """What a run crashed of; `signature` is eight hexadecimal digits of the hash of the rest."""

    program: str
    cause: str
    exception: str
    line: str

    @property
    def signature(self) -> str:
        """Returns the name of this kind of crash."""
        return sha256(json.dumps(self).encode()).hexdigest()[:8]

    @property
    def path(self) -> str:
        """Returns the path of its note."""
        words = f"{self.program} {self.exception.rpartition('.')[2] or self.cause}".lower()
        slug = re.sub(r"[^a-z0-9]+", "-", words).strip("-")[:48].strip("-")
        return f"failures/{slug or 'run'}-{self.signature}.md"

    @property
    def title(self) -> str:
        """Returns the crash in a few words."""
        return one_line(f"{self.program}: {self.line or self.exception or self.cause}", 120)


def crash_of(run: Run, command: str | None) -> Crash | None:
    """Returns what a run crashed of; None if it did not.

    A run that was killed or lost without a symptom says nothing of its program: a person or the machine ended it.
    """
    if run.status not in ("failed", "timeout", "killed", "lost"):
        return None
    kinds = [str(item.get("kind")) for item in run.annotations]
    causes = [kind for kind in CAUSES if kind != ERROR and kind in kinds]
    if run.status in ("killed", "lost") and not causes:
        return None
    said = {str(item.get("kind")): str(item.get("text")) for item in reversed(run.annotations)}
    line = said.get(ERROR) or (said[causes[0]] if causes else run.reason or "")
    return Crash(program_of(command), causes[0] if causes else run.status, _exception(line), masked(line))


def _exception(line: str) -> str:
    found = _NAME.match(line)
    return found[1] if found and len(found[1]) <= _LONGEST and found[1].endswith(_EXCEPTIONS) else ""


def masked(line: str) -> str:
    """Returns a line without what differs from run to run: paths, addresses, ids and numbers."""
    text = one_line(line, 1_000)
    text = _TOKEN.sub(lambda word: "<path>" if "/" in word[0] or "\\" in word[0] else word[0], text)
    text = _HEX.sub(lambda word: "<hex>" if any(c.isdigit() for c in word[0]) else word[0], text)
    return one_line(_NUMBER.sub("<n>", text), _LONGEST)


def program_of(command: str | None) -> str:
    """Returns the name of the program that a command runs: the script or module, where an interpreter runs one."""
    try:
        words = shlex.split(command or "", comments=False)[:_MOST_WORDS]
    except ValueError:
        words = (command or "").split()[:_MOST_WORDS]
    name, is_module = "", False
    for word in words:
        if _ASSIGNED.match(word) or (word.startswith("-") and name):
            is_module = word == "-m"
            if word in ("-c", "-e"):
                break
            continue
        name = one_line(word if is_module else PurePosixPath(word).name, 60)
        if is_module or not _INTERPRETER.match(name):
            break
    return name or "run"
