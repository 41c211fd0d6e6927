"""The version of the evidence rules: an older project is folded anew once, when it is first opened.

Kept in a file beside the store, not in the record: losing it costs one more look. Floor 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.errors import PerpetualError
from perpetual.lab.methodology import DECIDING
from perpetual.toolkit.atomic import read_json
from perpetual.toolkit.status_file import RULES, RULES_FILE

if TYPE_CHECKING:
    from perpetual.lab.context import Context

__all__ = ["by_rules", "by_thresholds", "forget"]


def by_rules(ctx: Context) -> None:
    """Folds every hypothesis anew if the program that opened the project last knew other rules.

    What changes is one event. A store that cannot be read or written now is left to the operation that needs it.
    """
    if _known(ctx).get("rules") != RULES:
        _fold(ctx)


def by_thresholds(ctx: Context) -> None:
    """Folds every hypothesis anew where the methodology's file was edited, and decides by other values than it did."""
    from perpetual.lab.evidence.manual import refold_all

    known = _known(ctx)
    if known.get("deciding") != _deciding(ctx):
        if "deciding" in known:
            refold_all(ctx)
        _keep(ctx)


def _fold(ctx: Context) -> None:
    from perpetual.lab.evidence.manual import refold_all

    try:
        if refold_all(ctx, check=True):
            with ctx.store.transaction() as tx:
                changed = {item["id"]: {"was": item["stored"], "is": item["folded"]} for item in refold_all(ctx)}
                ctx.emit(tx, "rules_changed", "evidence", {"rules": RULES, "hypotheses": changed})
    except PerpetualError:
        return  # `store verify` and the next operation name what is wrong
    _keep(ctx)


def _keep(ctx: Context) -> None:
    from perpetual.toolkit.atomic import write_atomic

    try:
        known = {"rules": RULES, "deciding": _deciding(ctx)}
        write_atomic(ctx.folder / RULES_FILE, json.dumps(known), durable=False)
    except (OSError, PerpetualError):
        return  # a read-only project can still be looked at, and so can one whose methodology is broken


def _deciding(ctx: Context) -> dict[str, object]:
    return {name: ctx.config.methodology[name] for name in DECIDING}


def forget(folder: Path) -> None:
    """Has the next opening fold anew: what was brought in may follow other rules."""
    (folder / RULES_FILE).unlink(missing_ok=True)


def _known(ctx: Context) -> dict[str, object]:
    try:
        found = read_json(ctx.folder / RULES_FILE)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
