"""Helpers of the stores' suite: limits of time, blocks that fail, a thread beside, a filled store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar, cast

from perpetual.errors import UsageError
from perpetual.slots.store import Document, StoreBase, Transaction

__all__ = [
    "LONG_MOMENT_S",
    "MOMENT_S",
    "PATIENCE_S",
    "Abandoned",
    "Reopen",
    "abandoned",
    "bodies",
    "fill",
    "in_thread",
    "refused",
]

T = TypeVar("T")

Reopen = Callable[[], StoreBase]

PATIENCE_S = 30.0  # what is waited for comes at once; this only bounds a failing test
LONG_MOMENT_S = 2.5  # longer than a careless lock's term
MOMENT_S = 0.15  # how long something that must not happen is given to happen


class Abandoned(Exception):
    """Leaves a block."""


@contextmanager
def abandoned(store: StoreBase, problem: BaseException | None = None) -> Iterator[Transaction]:
    """Opens a block that raises at its end; checks that the exception comes through."""
    leaving = problem or Abandoned()
    try:
        with store.transaction() as tx:
            yield tx
            raise leaving
    except type(leaving):
        return
    raise AssertionError("the exception of the block was lost")


@contextmanager
def refused(store: StoreBase, error: type[Exception] = UsageError) -> Iterator[Transaction]:
    """Opens a block that is refused; checks the error's type."""
    try:
        with store.transaction() as tx:
            yield tx
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def bodies(documents: list[Document] | tuple[Document, ...]) -> list[int]:
    """Returns the numbers in the documents."""
    return [cast(int, document.body["n"]) for document in documents]


def in_thread(deed: Callable[[], T]) -> T:
    """Returns what another thread gets, which has no part in an open transaction and does not wait for it."""
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(deed()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "a reader waits for an open transaction"
    return answers[0]


def fill(store: StoreBase, count: int) -> None:
    """Writes so many hypotheses."""
    with store.transaction() as tx:
        for n in range(1, count + 1):
            tx.create("hypothesis", {"n": n, "status": "open" if n % 2 else "parked"})
