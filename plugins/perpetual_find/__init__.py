"""Full-text search over the whole record: `perpetual find`, and `perpetual_find` for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perpetual import Lab
    from perpetual_find.documents import Found

__all__ = ["find"]


def find(
    lab: Lab, text: str, *, kinds: Sequence[str] = (), tags: Sequence[str] = (), limit: int = 20,
    cursor: str | None = None,
) -> Found:  # fmt: skip
    """Returns the records that hold the words of `text`, the best match first, as `perpetual find --json` does.

    Args:
        lab: the lab to search, as its actor: an agent finds the notes that it may be shown.
        text: words, `"a phrase"` and `-left_out`; what begins with a word matches too.
        kinds: hypothesis, experiment, run, note, evidence, event, or a plugin's kind; none are all but events.
        tags: only records with every one of these tags.
        limit: items on a page.
        cursor: the `next_cursor` of the page before.

    Raises:
        UsageError: for a text without a word to look for, an unknown kind, or a cursor that is none.
    """
    from perpetual_find.search import search

    return search(lab, text, kinds=kinds, tags=tags, limit=limit, cursor=cursor)
