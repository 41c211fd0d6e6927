"""The version of the evidence rules: an older project is folded anew once, when it is first opened.

Kept in a file beside the store, not in the record: losing it costs one more look. Floor 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from perpetual.errors import PerpetualError
from perpetual.toolkit.atomic import read_json
from perpetual.toolkit.status_file import RULES, RULES_FILE

if TYPE_CHECKING:
    from perpetual.lab.context import Context
    from perpetual.lab.flows import Desks

__all__ = ["by_rules", "forget"]


class _Lab(Protocol):
    @property
    def desks(self) -> Desks: ...


AnyLab = TypeVar("AnyLab", bound="_Lab")


def by_rules(lab: AnyLab) -> AnyLab:
    """Answers the lab, every hypothesis folded anew if the program that opened it last knew other rules.

    What changes is one event. A store that cannot be read or written now is left to the deed that needs it.
    """
    if _known(lab.desks.ctx) != RULES:
        _fold(lab.desks)
    return lab


def _fold(desks: Desks) -> None:
    from perpetual.lab.flows.judge import refold_all

    ctx = desks.ctx
    try:
        if refold_all(desks, check=True):
            with ctx.store.transaction() as tx:
                changed = {item["id"]: {"was": item["stored"], "is": item["folded"]} for item in refold_all(desks)}
                ctx.emit(tx, "rules_changed", "evidence", {"rules": RULES, "hypotheses": changed})
    except PerpetualError:
        return  # `store verify` and the next deed name what is wrong
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
