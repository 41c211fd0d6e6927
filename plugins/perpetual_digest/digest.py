"""Digests in Python.

from perpetual import Lab
from perpetual_digest.digest import digest, markdown

with Lab.open() as lab:
    print(markdown(digest(lab, since="12h")))
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual_digest.collect import collected
from perpetual_digest.span import span_of
from perpetual_digest.words import markdown_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_digest.documents import Digest

__all__ = ["digest", "markdown"]


def digest(lab: Lab, *, since: str = "12h", now: datetime | None = None) -> Digest:
    """Returns what happened since a moment, from the record alone.

    Args:
        lab: whose record is read.
        since: so long ago as `12h` or `2d`, a time (ISO 8601, UTC without an offset), or an event's number.
        now: the present; by default the time of the machine.

    Raises:
        UsageError: for what names no moment, or one in the future.
    """
    return collected(lab, span_of(lab, since, now or datetime.now(UTC)))


def markdown(document: Digest) -> str:
    """Returns a digest as Markdown, in which the words of others make no markup."""
    return markdown_of(document)
