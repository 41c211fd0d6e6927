"""The version of a run that is about to start, as its record keeps it; `perpetual.science.versions` compares them.

Data is what `protected_paths` names; the environment is a Python with its packages. What is not known is None.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from perpetual.api import CodeState

__all__ = ["version_of"]

_DIGITS = 16  # of a hash that is compared, and not trusted


def version_of(code: CodeState, guarded: Mapping[str, Any], interpreter: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the version of a run that is about to start.

    Args:
        code: what it starts from.
        guarded: how the protected paths look (`protected_paths.look_at`).
        interpreter: the Python of its command (`python_env.interpreter_of`).
    """
    found: dict[str, Any] = {"code": None, "data": None, "environment": None}
    if code.tree is not None or code.programs:
        programs = {path: digest[:_DIGITS] for path, digest in sorted(code.programs.items())}
        found["code"] = {"tree": code.tree and code.tree[:_DIGITS], "ignored": code.ignored, "programs": programs}
    if guarded["patterns"] and guarded["files"]:
        found["data"] = f"{_hash(sorted(guarded['patterns']))}:{guarded['sha256'][:_DIGITS]}"
    if interpreter["packages"] is not None:
        found["environment"] = _hash([interpreter["version"], interpreter["packages"]])
    return found


def _hash(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
