"""The version of the evidence rules: an older project is folded anew once, when it is first opened.

Kept in a file beside the store, not in the record: losing it costs one more look. Floor 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.errors import PerpetualError
from perpetual.toolkit.atomic import read_json
from perpetual.toolkit.status_file import RULES, RULES_FILE

if TYPE_CHECKING:
    from perpetual.lab.context import Context

__all__ = ["by_rules", "forget"]


def by_rules(ctx: Context) -> None:
    """Folds every hypothesis anew if the program that opened the project last knew other rules.

    What changes is one event. A store that cannot be read or written now is left to the operation that needs it.
    """
    if _known(ctx) != RULES:
        _fold(ctx)


def _fold(ctx: Context) -> None:
    from perpetual.lab.evidence.manual import refold_all

    try:
        if refold_all(ctx, check=True):
            with ctx.store.transaction() as tx:
                changed = {item["id"]: {"was": item["stored"], "is": item["folded"]} for item in refold_all(ctx)}
                ctx.emit(tx, "rules_changed", "evidence", {"rules": RULES, "hypotheses": changed})
    except PerpetualError:
        return  # `store verify` and the next operation name what is wrong
    from perpetual.toolkit.atomic import write_atomic

    try:
        write_atomic(ctx.folder / RULES_FILE, json.dumps({"rules": RULES}), durable=False)
    except OSError:
        return  # a read-only project can still be looked at


def forget(folder: Path) -> None:
    """Has the next opening fold anew: what was brought in may follow other rules."""
    (folder / RULES_FILE).unlink(missing_ok=True)


def _known(ctx: Context) -> object:
    try:
        found = read_json(ctx.folder / RULES_FILE)
    except (OSError, ValueError):
        return None
    return found.get("rules") if isinstance(found, dict) else None
