"""Pages of records with a tag, which a run has of its experiment, or without the archived ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT
from perpetual.slots.store_rows import StorePage

if TYPE_CHECKING:
    from collections.abc import Callable

    from perpetual.lab.kinds import KindName
    from perpetual.slots.store_rows import Body, Document

_LOOKED_AT = 500  # records at a time


def tagged(
    ctx: Context,
    kind: KindName[Body],
    tag: str | None,
    *,
    limit: int,
    cursor: str | None,
    archived: bool = True,
    **asked: object,
) -> StorePage[Body]:
    """Returns a page of the records that match and have the tag; with neither filter as `StoreBase.page` does."""
    read: Callable[..., StorePage[Body]] = ctx.store.page
    if tag is None and archived:
        return read(kind, limit=limit, cursor=cursor, **asked)
    found: list[Document[Body]] = []
    while len(found) <= limit:
        page = read(kind, limit=_LOOKED_AT if tag is not None else limit + 1, cursor=cursor, **asked)
        owned = [(item, _owner(ctx, item.body)) for item in page.items]
        shown = [(item, owner) for item, owner in owned if archived or not owner.get("archived")]
        found += [item for item, owner in shown if tag is None or tag in _tags(owner)]
        if (cursor := page.next_cursor) is None:
            break
    return StorePage(tuple(found[:limit]), str(found[limit - 1].number) if len(found) > limit else None)


def _owner(ctx: Context, body: object) -> Mapping[str, object]:
    if not isinstance(body, Mapping):
        return {}
    owner = ctx.store.get(EXPERIMENT, body["experiment_id"]) if "experiment_id" in body else None
    return body if owner is None else owner.body


def _tags(owner: Mapping[str, object]) -> list[object]:
    found = owner.get("tags")
    return [*found] if isinstance(found, (list, tuple)) else []
