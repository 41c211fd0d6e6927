"""Pages of records with a tag; a run has those of its experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT
from perpetual.slots.store_rows import StorePage

if TYPE_CHECKING:
    from perpetual.lab.kinds import KindName
    from perpetual.slots.store_rows import Body, Document

__all__ = ["tagged"]

_LOOKED_AT = 500  # records at a time


def tagged(
    ctx: Context, kind: KindName[Body], tag: str | None, *, limit: int, cursor: str | None,
    newest_first: bool = False, **equals: object,
) -> StorePage[Body]:  # fmt: skip
    """Returns a page of the records that match and have the tag; without a tag as `StoreBase.page` does."""
    if tag is None:
        return ctx.store.page(kind, limit=limit, cursor=cursor, newest_first=newest_first, **equals)
    found: list[Document[Body]] = []
    while len(found) <= limit:
        page = ctx.store.page(kind, limit=_LOOKED_AT, cursor=cursor, newest_first=newest_first, **equals)
        found += [item for item in page.items if tag in _tags(ctx, item)]
        if (cursor := page.next_cursor) is None:
            break
    return StorePage(tuple(found[:limit]), str(found[limit - 1].number) if len(found) > limit else None)


def _tags(ctx: Context, item: Document[Body]) -> list[str]:
    body = cast("dict[str, Any]", item.body)
    owner = ctx.store.get(EXPERIMENT, body["experiment_id"]) if item.kind == "run" else None
    found: list[str] = body.get("tags") or [] if owner is None else owner.body["tags"]
    return found
