"""Differences between two trees: which files changed, and to what. Only the repository and its index import this."""

from __future__ import annotations

import stat
from collections import OrderedDict
from typing import TYPE_CHECKING

from perpetual_git.objects import Objects

if TYPE_CHECKING:
    from dulwich.objects import ObjectID

__all__ = ["TreeDiff"]

_Entry = tuple[bytes, int, "ObjectID"]  # name, mode, object
_KEPT = 256  # trees: those of neighbouring commits are mostly the same


class TreeDiff:
    """Compares trees, and keeps the last ones read."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._trees: OrderedDict[ObjectID, frozenset[_Entry]] = OrderedDict()

    def changed(self, old: ObjectID | None, new: ObjectID | None, *, most: int) -> dict[bytes, str | None] | None:
        """Returns the regular files that differ, path to blob (None for one that is gone).

        None where more than `most` entries differ: trees may share subtrees, so a few kilobytes unfold to billions.
        Modes alone are no difference, and names that no path can lead to are left out.

        Raises:
            RepositoryError: a tree is missing or damaged.
        """
        before: dict[bytes, str] = {}
        after: dict[bytes, str] = {}
        folders: list[tuple[bytes, ObjectID | None, ObjectID | None]] = [(b"", old, new)]
        seen = 0
        while folders:
            above, left, right = folders.pop()
            if left == right:
                continue
            gone, come = self._entries(left), self._entries(right)
            below: dict[bytes, list[ObjectID | None]] = {}
            for side, (files, entries) in enumerate(((before, gone - come), (after, come - gone))):
                seen += len(entries)
                for name, mode, child in entries:
                    if not name or b"/" in name:
                        continue
                    if stat.S_ISDIR(mode):
                        below.setdefault(name, [None, None])[side] = child
                    elif stat.S_ISREG(mode):
                        files[above + name] = child.decode()
            if seen > most:
                return None
            folders += [(above + name + b"/", pair[0], pair[1]) for name, pair in below.items()]
        changed: dict[bytes, str | None] = {path: blob for path, blob in after.items() if before.get(path) != blob}
        return changed | dict.fromkeys(before.keys() - after.keys())

    def _entries(self, tree: ObjectID | None) -> frozenset[_Entry]:
        if tree is None:
            return frozenset()
        found = self._trees.get(tree)
        if found is None:
            entries = self._objects.entries(tree)
            if len({entry[0] for entry in entries}) != len(entries):
                # Of two entries of one name the last counts, as where a single path is looked up.
                entries = [*{entry[0]: entry for entry in entries}.values()]
            found = self._trees[tree] = frozenset(entries)
            if len(self._trees) > _KEPT:
                self._trees.popitem(last=False)
        else:
            self._trees.move_to_end(tree)
        return found
