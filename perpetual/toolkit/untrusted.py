"""Structured answers for agents: each foreign value is one line, and `untrusted` lists where they stand. Floor 0.

A text counts as foreign unless it is plainly the lab's own: an id, a time, a hash, a number, or a state's name under a
key that holds such names. So a new key is listed until it is known here. `untrusted` holds JSON pointers (RFC 6901). A
pointer to an object covers all of it, keys included: the names of metrics and settings are foreign too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perpetual.toolkit.fence import neutralise

__all__ = ["OPEN", "seal"]

# Objects whose keys are a user's own; every other object has the keys that its schema names.
OPEN = ("config", "env", "params", "args", "metrics", "metric_sources", "packages", "variables", "options")
_OWN_KEY = re.compile(r"[a-z][a-z0-9_]{0,40}|[a-z]\d{1,9}|\d{4}-\d\d-\d\d")
_OWN_VALUE = re.compile(
    r"|[a-z]\d{1,9}|[-+]?\d{1,19}(?:\.\d{1,19})?|perpetual\.[a-z_]{1,40}/\d{1,3}|[0-9a-f]{7,64}"
    r"|\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))?"
)
_WORD = re.compile(r"[a-z][a-z0-9]{0,20}(?:_[a-z0-9]{1,20}){0,3}")
# Keys whose values are words of ours: states, kinds and codes, each from a short list.
_WORDS = frozenset(
    ("status", "state", "stage", "kind", "claim", "direction", "from", "to", "code", "outcome", "category", "format",
     "stream", "queue", "origin", "part", "type", "verdict", "action", "was", "rule", "cause", "slot")
)  # fmt: skip
# What the lab words itself, in the documents of these schemas: next steps, and texts that hold their own fence.
_OURS = {"perpetual.status/1": ("/next", "/family/sentence"), "perpetual.brief/1": ("/text",),
         "perpetual.memory_block/1": ("/text",), "perpetual.replay/1": ("/next",),
         "perpetual.scan/1": ("/next",), "perpetual.wait/1": ("/next",), "perpetual.runs/1": ("/warnings",),
         "perpetual.experiments/1": ("/warnings",)}  # fmt: skip


def seal(document: Mapping[str, object]) -> dict[str, object]:
    """Returns the document with every foreign value neutralised, and `untrusted`, the pointers to them."""
    found: list[str] = []
    ours = _OURS.get(str(document.get("schema")), ())
    sealed: dict[str, object] = _sealed({k: v for k, v in document.items() if k != "untrusted"}, "", "", ours, found)
    return {**sealed, "untrusted": found}


def _sealed(value: object, at: str, key: str, ours: tuple[str, ...], found: list[str] | None) -> Any:
    """Returns the value neutralised; `found` gains the pointers, and is None inside what was listed as a whole."""
    if at in ours and at:
        return value
    if isinstance(value, str):
        if _OWN_VALUE.fullmatch(value) or (key in _WORDS and _WORD.fullmatch(value)):
            return value
        if found is not None:
            found.append(at)
        return neutralise(value)
    if isinstance(value, Mapping):
        if value and found is not None and (key in OPEN or not all(_OWN_KEY.fullmatch(str(name)) for name in value)):
            found.append(at)
            found = None
        sealed: dict[str, Any] = {}
        for name, item in value.items():
            shown = neutralise(name)
            while shown in sealed:
                shown += "'"  # two keys that differ in what cannot be seen
            step = shown.replace("~", "~0").replace("/", "~1")
            sealed[shown] = _sealed(item, f"{at}/{step}", shown, ours, found)
        return sealed
    if isinstance(value, (list, tuple)):
        return [_sealed(item, f"{at}/{place}", key, ours, found) for place, item in enumerate(value)]
    return value
