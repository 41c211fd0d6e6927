"""The version of a run that is about to start, as its record keeps it; `perpetual.science.versions` compares them.

Data is what `protected_paths` names; the environment is a Python with its packages. What is not known is None.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TypedDict

from perpetual.api import CodeState
from perpetual_provenance.protected_paths import ProtectedPaths
from perpetual_provenance.python_env import Interpreter

__all__ = ["CodeVersion", "RunVersion", "version_of"]

_DIGITS = 16  # of a hash that is compared, and not trusted


class CodeVersion(TypedDict):
    """What git tracks, the globs that were left out, and the program files that a command names, as hashes."""

    tree: str | None
    ignored: str | None
    programs: dict[str, str]


class RunVersion(TypedDict):
    """A version as a run's record keeps it."""

    code: CodeVersion | None
    data: str | None
    environment: str | None


def version_of(code: CodeState, guarded: ProtectedPaths, interpreter: Interpreter) -> RunVersion:
    """Returns the version of a run that is about to start.

    Args:
        code: what it starts from.
        guarded: how the protected paths look (`protected_paths.look_at`).
        interpreter: the Python of its command (`python_env.interpreter_of`).
    """
    found: RunVersion = {"code": None, "data": None, "environment": None}
    if code.tree is not None or code.programs:
        programs = {path: digest[:_DIGITS] for path, digest in sorted(code.programs.items())}
        found["code"] = {"tree": code.tree and code.tree[:_DIGITS], "ignored": code.ignored, "programs": programs}
    if guarded["patterns"] and guarded["files"]:
        found["data"] = f"{_hash(sorted(guarded['patterns']))}:{guarded['sha256'][:_DIGITS]}"
    if interpreter["packages"] is not None:
        found["environment"] = _hash([interpreter["version"], interpreter["packages"]])
    return found


def _hash(value: object) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
