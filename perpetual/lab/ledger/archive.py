"""Hides hypotheses and experiments from lists. The record keeps them, and every figure goes on counting them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.errors import Conflict, NotPermitted
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS
from perpetual.lab.permissions import is_same, withholds

if TYPE_CHECKING:
    from perpetual.lab.context import Context
    from perpetual.slots.store_rows import Body, Document

__all__ = ["archive", "is_archived"]


def is_archived(item: Document[Body]) -> bool:
    """Returns whether the row is hidden from lists."""
    body: object = item.body
    return isinstance(body, dict) and bool(body.get("archived"))


def archive(ctx: Context, kind: str, id: str, *, restore: bool) -> str:
    """Hides a row from lists, or shows it again; returns its id. Doing so twice changes nothing.

    Raises:
        Conflict: for an experiment that may still run, and for a hypothesis that has such an experiment.
        NotPermitted: for an agent and another's row.
    """
    with ctx.store.transaction() as tx:
        item = ctx.need(kind, id)
        body = ctx.need(HYPOTHESIS, id).body if kind == "hypothesis" else ctx.need(EXPERIMENT, id).body
        if withholds(ctx) and not is_same(ctx.actor, str(body.get("created_by") or body.get("proposed_by"))):
            raise NotPermitted(f"{item.id} was added by another; archiving it is for a person")
        own = [*tx.find(EXPERIMENT, hypothesis_id=item.id)] if kind == "hypothesis" else [ctx.need(EXPERIMENT, item.id)]
        for other in own if not restore else ():
            if other.body["status"] in ("proposed", "approved", "active"):
                raise Conflict(
                    f"{other.id} is {other.body['status']}, and what may run is not hidden",
                    hint=f"perpetual reject {other.id} --why TEXT, or wait until its runs have ended",
                )
        if is_archived(item) == restore:
            tx.put(kind, item.id, {**item.body, "archived": not restore})
            ctx.emit(tx, "record_restored" if restore else "record_archived", item.id, {})
    return item.id
