"""A memory of given notes, such as that of an earlier time, from which blocks are made as from the lab's own.

It lies in memory and is of its notes alone. What the research is at now and the outcomes of runs came later: scopes
limit nothing and outcomes rank nothing. Every note is shown as unproven. Of equal matches the newest comes first, by
when its path was first put in, whatever was put in its place since. So the same notes, put in in the same order, give
the same blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from perpetual_recall.block import Block, Made, given, past_block
from perpetual_recall.index import empty_index, forget, insert

if TYPE_CHECKING:
    from types import TracebackType

    from perpetual import Lab

__all__ = ["Snapshot"]


class Snapshot:
    """Notes that are put in and dropped; a context manager, since its index is to be closed."""

    def __init__(self, lab: Lab) -> None:
        """Begins without a note, with the gates and the embedder of a lab."""
        self._lab = lab
        self._connection = empty_index()
        self._numbers: dict[str, int] = {}
        self._made: Made = {}

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the index."""
        self._connection.close()

    def put(self, path: str, type: str, text: str) -> None:
        """Puts a note in, in place of its earlier version."""
        forget(self._connection, path)
        number = self._numbers.setdefault(path, len(self._numbers) + 1)
        insert(self._connection, given(self._lab, path, type, text), number=number)

    def drop(self, path: str) -> None:
        """Takes a note out, where it is there."""
        forget(self._connection, path)

    def block(self, query: str, *, tokens: int, limit: int = 5) -> Block:
        """Returns the notes that help with a query, as `perpetual_recall.block.memory_block` shows them."""
        return past_block(self._lab, self._connection, query, tokens=tokens, limit=limit, made=self._made)
