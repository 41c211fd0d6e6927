"""The folders that a loss of power could have left, from a log of what a program wrote (tests/fixtures/write_log).

The model is stricter than any journaling file system. Content of a file is on the disk once the file was synced, and a
name once its folder was: a synced file may still lack its name. What was not synced may be there, not be there, or be
there in part:

- names: all changes since the folder was synced, none of them, or the first few;
- content: all that was written since the file was synced, nothing of it, all but half of the last write (within a line,
  or behind one), the last write as zeros, or the first few writes and a part of the next; with `holes` also the last
  write with zeros for its first half, as a file system leaves it that writes the pages of one file in any order.

A rename is one step. Names of one folder change in their order. Used by tests/faults/test_write_log.py.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["State", "crash_states", "lay"]

ACK = "ACK"
_REBUILT = "-shm"  # end of the names of files that are built anew after a crash, whatever stands in them

Tree = Mapping[str, bytes | str | None]  # relative path -> content, another path of the same file, or None: a folder
Write = tuple[int, bytes | None]  # data at an offset; or None, and the new size


@dataclass(frozen=True)
class State:
    """A folder as a crash could have left it, with all that had been acknowledged by then."""

    tree: Tree
    acknowledged: tuple[dict[str, Any], ...]
    where: str


@dataclass(eq=False)
class _Node:
    """A file or a folder: what of it is on the disk, and what was done since."""

    is_folder: bool = False
    data: bytes = b""
    writes: list[Write] = field(default_factory=list)
    names: dict[str, _Node] = field(default_factory=dict)
    changes: list[_Change] = field(default_factory=list)


@dataclass(eq=False)
class _Change:
    """A change of names, in one folder or (a rename) in two; None takes the name away."""

    effects: list[tuple[_Node, str, _Node | None]]


# How a crash chooses: which of a file's writes, and how many of a folder's changes, have reached the disk.
_Content = Callable[[list[Write]], Sequence[Write]]
_Names = Callable[[list[_Change]], int]


def _none(writes: list[Write]) -> Sequence[Write]:
    return ()


def _all(writes: list[Write]) -> Sequence[Write]:
    return writes


def _torn(writes: list[Write]) -> Sequence[Write]:
    return _cut(writes, len(writes), 0.5)


def _torn_behind_a_line(writes: list[Write]) -> Sequence[Write]:
    return _but_for_the_last(writes, lambda data: data[: data.rfind(b"\n", 0, len(data) // 2 + 1) + 1])


def _as_zeros(writes: list[Write]) -> Sequence[Write]:
    return _but_for_the_last(writes, lambda data: bytes(len(data)))


def _begun_with_zeros(writes: list[Write]) -> Sequence[Write]:
    return _but_for_the_last(writes, lambda data: bytes(len(data) // 2) + data[len(data) // 2 :])


def _but_for_the_last(writes: list[Write], spoil: Callable[[bytes], bytes]) -> Sequence[Write]:
    if not writes:
        return writes
    offset, data = writes[-1]
    return [*writes[:-1], (offset, data if data is None else spoil(data))]


def _cut(writes: list[Write], count: int, share: float) -> Sequence[Write]:
    """The first `count` writes, the last of them in part."""
    if not count:
        return ()
    offset, data = writes[count - 1]
    return [*writes[: count - 1], (offset, data if data is None else data[: int(len(data) * share)])]


class _Chance:
    """Chooses for each file and folder by itself."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def content(self, writes: list[Write]) -> Sequence[Write]:
        return _cut(writes, self._random.randint(0, len(writes)), self._random.random())

    def names(self, changes: list[_Change]) -> int:
        return self._random.randint(0, len(changes))


class _Disk:
    """The folder as the program sees it, and what of it is on the disk."""

    def __init__(self, root: Path, existing: Sequence[str]) -> None:
        self._root = str(root)
        self._inodes: dict[int, _Node] = {}
        self._now: dict[str, _Node] = {}  # what the program sees
        self.top = self._now[""] = self._inodes[os.stat(root).st_ino] = _Node(is_folder=True)
        for name in existing:  # made, and on the disk, before the program began
            node = self._now[name] = self._inodes[os.stat(root / name).st_ino] = _Node(is_folder=True)
            above, _, last = name.rpartition("/")
            self._now[above].names[last] = node

    def replay(self, deed: str, entry: Mapping[str, Any]) -> None:
        """One deed of the log."""
        if deed in ("fsync", "fdatasync"):
            self._sync(self._inodes[entry["inode"]])
        elif deed == "syncfs":
            for node in [*self._inodes.values()]:
                self._sync(node)
        elif deed == "write":
            self._inodes[entry["inode"]].writes.append((entry["number"], bytes.fromhex(entry["data"])))
        elif deed == "truncate":
            self._inodes[entry["inode"]].writes.append((entry["number"], None))
        elif deed in ("create", "mkdir"):
            node = self._inodes[entry["inode"]] = _Node(is_folder=deed == "mkdir")
            self._rename([(self._relative(entry["path"]), node)])
        elif deed in ("unlink", "rmdir"):
            self._rename([(self._relative(entry["path"]), None)])
        elif deed in ("rename", "link"):
            old, new = self._relative(entry["path"]), self._relative(entry["other"])
            node = self._now[old]
            if self._now.get(new) is node:  # two names of one file: nothing happens
                return
            self._rename([(new, node), *([(old, None)] if deed == "rename" else [])])
        elif not (entry.get("other") == "mmap" and entry["path"].endswith(_REBUILT)):
            raise AssertionError(f"the log holds what the model does not know: {entry}")

    def _relative(self, path: str) -> str:
        return path.removeprefix(self._root).lstrip("/")

    def _rename(self, changed: list[tuple[str, _Node | None]]) -> None:
        effects = []
        for path, node in changed:
            above, _, name = path.rpartition("/")
            effects.append((self._now[above], name, node))
            moved = self._now.pop(path, None) if node is None else None
            if node is not None:
                self._now[path] = node
            if moved is not None and moved.is_folder:  # what is below goes with it
                to = next((other for other, found in changed if found is moved), None)
                for below in [other for other in self._now if other.startswith(f"{path}/")]:
                    inner = self._now.pop(below)
                    if to is not None:
                        self._now[to + below.removeprefix(path)] = inner
        change = _Change(effects)
        for folder in {id(folder): folder for folder, _, _ in effects}.values():
            folder.changes.append(change)

    def _sync(self, node: _Node) -> None:
        node.data, node.writes = _written(node.data, node.writes), []
        while node.changes:
            self._settle(node.changes[0])

    def _settle(self, change: _Change) -> None:
        """Puts a change on the disk, after those that came before it in its other folder."""
        for folder, _, _ in change.effects:
            while change in folder.changes and folder.changes[0] is not change:
                self._settle(folder.changes[0])
        for folder, name, node in change.effects:
            if change in folder.changes:
                folder.changes.remove(change)
            _name(folder.names, name, node)

    def left(self, content: _Content, names: _Names) -> dict[str, bytes | str | None]:
        """The tree that a crash leaves now."""
        chosen: dict[int, set[int]] = {}  # by folder: the changes that have reached the disk
        folders = {id(node): node for node in self._inodes.values() if node.is_folder}
        for key, folder in folders.items():
            chosen[key] = {id(change) for change in folder.changes[: names(folder.changes)]}
        reached = set().union(*chosen.values())  # a rename between two folders is one step
        tree: dict[str, bytes | str | None] = {}
        seen: dict[int, str] = {}
        waiting = [("", self.top)]
        while waiting:
            path, folder = waiting.pop()
            present = dict(folder.names)
            for change in folder.changes:
                if id(change) in reached:
                    for owner, name, node in change.effects:
                        if owner is folder:
                            _name(present, name, node)
            for name, node in present.items():
                full = f"{path}/{name}" if path else name
                first = seen.setdefault(id(node), full)
                if node.is_folder:
                    tree[full] = None
                    waiting.append((full, node))
                else:
                    tree[full] = _written(node.data, content(node.writes)) if first == full else first
        return tree


def _name(names: dict[str, _Node], name: str, node: _Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _written(data: bytes, writes: Sequence[Write]) -> bytes:
    if not writes:
        return data
    made = bytearray(data)
    for offset, piece in writes:
        end = offset if piece is None else offset + len(piece)
        if len(made) < end:
            made.extend(bytes(end - len(made)))
        if piece is None:
            del made[offset:]
        else:
            made[offset:end] = piece
    return bytes(made)


def crash_states(
    log: Path, root: Path, *, existing: Sequence[str] = (), mixed: int = 2, holes: bool = False, seed: int = 0
) -> Iterator[State]:
    """Each different folder that a crash after some deed of the log could have left.

    Where two moments leave the same folder, the later one counts: more had been acknowledged by then.

    Args:
        root: the folder that was watched, as it was named to the library.
        existing: folders in it (relative, outer ones first) that stood before the program began.
        mixed: how many states are drawn at each moment in which every file and folder has its own luck.
        holes: whether a write may lack its beginning.
    """
    disk = _Disk(root, existing)
    acknowledged: list[dict[str, Any]] = []
    ack_inode: int | None = None
    found: dict[int, tuple[Tree, int, str]] = {}
    kept: dict[bytes, bytes] = {}  # equal contents once
    for moment, line in enumerate(log.read_text("utf-8").splitlines()):
        entry = json.loads(line)
        if entry["deed"] == "create" and entry["path"] == f"{root}/{ACK}":
            ack_inode = entry["inode"]
        elif entry["inode"] == ack_inode:
            if entry["deed"] == "write":
                acknowledged.append(json.loads(bytes.fromhex(entry["data"])))
            continue
        else:
            disk.replay(entry["deed"], entry)
        for way, content, names in _ways(mixed, holes, f"{seed}/{moment}"):
            tree: Tree = {
                path: kept.setdefault(data, data) if isinstance(data, bytes) else data
                for path, data in disk.left(content, names).items()
            }
            key = hash(tuple(sorted(tree.items(), key=lambda item: item[0])))
            found[key] = (tree, len(acknowledged), f"after deed {moment} ({entry['deed']}), {way}")
    for left, count, where in found.values():
        yield State(left, tuple(acknowledged[:count]), where)


_CONTENTS: dict[str, _Content] = {
    "without content": _none,
    "with content": _all,
    "torn": _torn,
    "torn behind a line": _torn_behind_a_line,
    "as zeros": _as_zeros,
}
_HOLES: dict[str, _Content] = {"begun with zeros": _begun_with_zeros}


def _ways(mixed: int, holes: bool, seed: str) -> Iterator[tuple[str, _Content, _Names]]:
    """What a crash may do with that which was not synced."""
    for names, how_many in (("without names", lambda changes: 0), ("with names", len)):
        for content, chosen in (_CONTENTS | (_HOLES if holes else {})).items():
            yield f"{names}, {content}", chosen, how_many
    for number in range(mixed):
        chance = _Chance(f"{seed}/{number}")
        yield f"mixed {number}", chance.content, chance.names


def lay(tree: Tree, folder: Path) -> None:
    """Writes the tree into a folder that is empty."""
    for path, data in tree.items():  # a folder comes before what is in it
        if data is None:
            (folder / path).mkdir()
        elif isinstance(data, str):
            (folder / path).hardlink_to(folder / data)
        else:
            (folder / path).write_bytes(data)
