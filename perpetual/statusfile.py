"""The kept status: reading it and telling whether it is of the present state. Light: the fast path uses it.

`status.json` is a projection of the store. It carries the token of the store's head and of the configuration files it
was computed from, and is trusted only while both are the same.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from typing import Any

__all__ = ["FILE", "read_cached", "token_of"]

FILE = "status.json"


def token_of(folder: str, head: str) -> str:
    """What a status was computed from: the store's head and the stats of the two configuration files."""
    parts = [head]
    for name in ("config.yaml", "methodology.yaml"):
        try:
            status = os.stat(os.path.join(folder, name))
            parts.append(f"{status.st_ino}-{status.st_size}-{status.st_mtime_ns}")
        except FileNotFoundError:
            parts.append("-")
    return "/".join(parts)


def read_cached(folder: str, head: str) -> dict[str, Any] | None:
    """The kept document if it is of exactly this state, else None."""
    try:
        with open(os.path.join(folder, FILE), encoding="utf-8") as file:
            kept = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("token") != token_of(folder, head):
        return None
    document = kept.get("document")
    return document if isinstance(document, dict) else None
