"""What programs hand to agents, as JSON: events, the agent's own state, and the answers of models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from perpetual.api import UsageError

__all__ = ["checked_state", "json_in", "jsonable"]


def jsonable(value: Mapping[str, object]) -> dict[str, object]:
    """Returns a mapping as JSON has it. Raises UsageError for what JSON cannot carry."""
    from pydantic_core import to_jsonable_python

    try:
        return cast("dict[str, object]", to_jsonable_python(dict(value)))
    except ValueError as problem:
        raise UsageError(f"the event is no JSON: {problem}", code="not_persistable") from problem


def checked_state(state: Mapping[str, object]) -> dict[str, object]:
    """Returns an agent's own state as JSON has it. Raises UsageError, naming the key, for what it cannot carry."""
    found: dict[str, object] = {}
    for key, value in state.items():
        if not isinstance(key, str):
            raise UsageError(f"the state has the key {key!r}, which is no text", code="not_persistable")
        try:
            plain = json.loads(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as problem:
            raise UsageError(f"the state's {key!r} cannot be persisted: {problem}", hint="a typed field carries more",
                             code="not_persistable") from problem  # fmt: skip
        found[key] = plain
    return found


def json_in(text: str) -> str:
    """Returns the JSON of an answer, without the fence that models like to put around it."""
    stripped = text.strip()
    if stripped.startswith("```"):
        stripped = stripped.partition("\n")[2].rpartition("```")[0]
    return stripped
