"""Keeping answers small enough for an agent. Used by the server alone; counts tokens as the brief does."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["bounded_status", "plain"]

_LONGEST_TEXT = 240  # characters of one statement or reason


def plain(text: object, most: int = 60) -> str:
    """A client's or a plugin's own words on one line, cut to `most` characters."""
    return "".join(c if c.isprintable() else " " for c in str(text))[:most].strip()


def _tokens(document: object) -> int:
    """ceil(UTF-8 bytes / 4) of the document as the protocol sends it."""
    return -(-len(json.dumps(document, ensure_ascii=False).encode("utf-8")) // 4)


def bounded_status(status: dict[str, Any], most_tokens: int) -> dict[str, Any]:
    """The document of `perpetual status` in at most `most_tokens`; `truncated` says whether something was left out.

    Long texts are cut first; then the longest list loses its last items, which are the least urgent ones.
    """
    whole = {key: value for key, value in status.items() if key != "brief"}
    document: dict[str, Any] = {"schema": "perpetual.status/1", **_cut(whole), "truncated": False}
    document["truncated"] = _cut(whole) != whole or len(whole["hypotheses"]) < whole["hypotheses_total"]
    lists: list[list[Any]] = [document["hypotheses"], document["runs"]["active"], document["next"]]
    while _tokens(document) > most_tokens and any(lists):
        max(lists, key=_tokens).pop()
        document["truncated"] = True
    return document


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return value[: _LONGEST_TEXT - 3] + "..."
    return value
