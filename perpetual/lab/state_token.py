"""The token of a lab's present state: what follows from the record and its rules is still true while it is the same.

Used by the status, which is kept beside the store, and by the feed, for faces that keep answers. Floor 2.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from perpetual.lab.context import Context
from perpetual.toolkit.status_file import token_of

__all__ = ["Present"]


class Present:
    """Looks at the head of the store and at the files of the configuration; opens a store only on another machine."""

    def __init__(self, ctx: Context) -> None:
        self._ctx, self._folder = ctx, str(ctx.folder)
        self._reader: tuple[str, Callable[[str], str] | None] | None = None  # store, the function that tells its head

    def token(self) -> str | None:
        """Returns what tells the present state from every other one; None if the chosen store has no head."""
        name = self._ctx.config["store"]
        if self._reader is None or self._reader[0] != name:  # another one once the store has been moved
            self._reader = name, self._head_of(name)
        reader = self._reader[1]
        head = self._ctx.store.head() if reader is None else reader(os.path.join(self._folder, "store"))
        return None if head is None else token_of(self._folder, head)

    def _head_of(self, name: str) -> Callable[[str], str] | None:
        """Returns the function that tells the head of the store of that name, if it declares one."""
        offer = self._ctx.registry.choose("store", name)
        if offer.provider.head is None:
            return None
        from importlib import import_module

        module, _, attribute = offer.provider.head.partition(":")
        found: Callable[[str], str] = getattr(import_module(module), attribute)
        return found
