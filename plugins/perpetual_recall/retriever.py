"""The slot `retriever`: which notes a search finds, and which ones agents are offered unasked.

Both read the record through the lab that they are given, change nothing, and answer the same of the same record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import UsageError

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Listing, Note, NoteHit
    from perpetual_recall.documents import Explained

__all__ = ["Retriever"]


class Retriever(ABC):
    """Finds notes; its promises are the tests of `perpetual_recall.testing`."""

    @abstractmethod
    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        """Returns a page of the notes that hold words of the query, the best match first.

        A reader that is an agent finds versions that agents may be shown, and nothing else. A note that was rejected is
        found by no word of the rejected version.

        Raises:
            UsageError: for a query without a word, or a cursor that is none.
        """

    @abstractmethod
    def offer(self, lab: Lab, *, limit: int) -> Sequence[Note]:
        """Returns at most `limit` notes that help with what the research is at now, the most useful first.

        For every reader, each of them has a version that agents may be shown.
        """

    def was_read(self, lab: Lab, paths: Sequence[str]) -> None:
        """Hears that the lab's actor was shown text of these notes, by a search or one by one.

        They are recorded as exposures: outcomes of the actor's next runs count for them.
        """
        from perpetual_recall.exposure import add_to_context

        add_to_context(lab, paths)

    def explain(self, lab: Lab, query: str, *, limit: int) -> list[Explained]:
        """Returns the arithmetic behind the first hits of a search, the best first; `limit` is how many are offered.

        Raises:
            UsageError: as here, where there is none to show.
        """
        raise UsageError(
            "this retriever does not explain its order", hint="perpetual config set slots.retriever recall"
        )
