"""Blobs, trees and commits, read and written one by one: each is held against its name, and is on disk when it is put.

Only the repository imports this.

Raises everywhere:
    RepositoryError: an object that is needed is missing or damaged.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import traceback
import zlib
from bisect import bisect_left
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from dulwich.errors import FileFormatException
from dulwich.objects import Commit, ObjectID, RawObjectID, ShaFile, Tree, object_class, parse_tree
from dulwich.pack import PackFileDisappeared

from perpetual_git import sizes
from perpetual_git.errors import RepositoryError

if TYPE_CHECKING:
    from dulwich.pack import Pack
    from dulwich.repo import Repo

__all__ = ["Objects", "framed", "is_id", "parts_of", "replaced", "sha1", "slot", "write_synced"]

_Kind = TypeVar("_Kind", Commit, Tree)

_FOLDER = 0o040000
LOOSE_COMPRESSION = 1  # git's own choice; the ids that fill a tree do not compress


class Objects:
    """The objects of the repository at `path`, which `repo` has open."""

    def __init__(self, path: Path, repo: Repo) -> None:
        self.path = path
        self._store = repo.object_store

    # --- writing ---

    def put(self, item: ShaFile, folders: set[Path]) -> ObjectID:
        """Writes one loose object as `put_raw` does."""
        return self.put_raw(type(item), item.as_raw_string(), folders)

    def put_raw(self, kind: type[ShaFile], raw: bytes, folders: set[Path]) -> ObjectID:
        """Writes one loose object, synced, and notes its folder in `folders`.

        Written even where it exists: an object left half-synced by a crash is then whole again. dulwich's own
        writer would skip it, and fail for ever on the lock file of a writer that was killed. The name of the
        temporary file is one that `git gc` clears away; the flock makes it ours alone.
        """
        content = framed(kind, raw)
        name = sha1(content)
        folder = self.path / "objects" / name[:2]
        folder.mkdir(exist_ok=True)
        temporary = folder / "tmp_obj_perpetual"
        write_synced(temporary, zlib.compress(content, LOOSE_COMPRESSION), 0o444)
        os.replace(temporary, folder / name[2:])
        folders.add(folder)
        return ObjectID(name.encode())

    # --- reading ---

    def blob_at(
        self,
        tree_id: ObjectID,
        parts: list[bytes],
        memo: dict[tuple[ObjectID, int], str | None] | None = None,
    ) -> str | None:
        """Returns the blob of the regular file at `parts`. `memo` spares the trees that commits have in common."""
        key = (tree_id, len(parts))
        if memo is not None and key in memo:
            return memo[key]
        tree = self.tree(tree_id)
        mode, child = slot(tree, parts[0])
        blob: str | None = None
        if child is not None and len(parts) > 1 and stat.S_ISDIR(mode):
            blob = self.blob_at(child, parts[1:], memo)
        elif child is not None and len(parts) == 1 and stat.S_ISREG(mode):
            blob = child.decode()
        if memo is not None:
            memo[key] = blob
        return blob

    def commit(self, object_id: ObjectID) -> Commit:
        """Returns the commit of that id."""
        return self._parse(Commit, object_id)

    def tree(self, object_id: ObjectID) -> Tree:
        """Returns the tree of that id."""
        return self._parse(Tree, object_id)

    def entries(self, object_id: ObjectID) -> list[tuple[bytes, int, ObjectID]]:
        """Returns name, mode and object of each entry of a tree, as they are there; quicker than `tree`."""
        try:
            found = [*parse_tree(self.raw(object_id, Tree), 20)]
            return cast("list[tuple[bytes, int, ObjectID]]", found)
        except FileFormatException as error:
            raise RepositoryError(self.path, f"object {object_id.decode()} is malformed: {error}") from error

    def _parse(self, kind: type[_Kind], object_id: ObjectID) -> _Kind:
        raw = self.raw(object_id, kind)
        try:
            return kind.from_string(raw)
        except FileFormatException as error:
            raise RepositoryError(self.path, f"object {object_id.decode()} is malformed: {error}") from error

    def raw(self, object_id: ObjectID, kind: type[ShaFile]) -> bytes:
        """Returns the content of an object of that kind."""
        found, raw = self._get(object_id)
        if found is not kind:
            raise RepositoryError(self.path, f"object {object_id.decode()} is no {kind.type_name.decode()}")
        return raw

    def _get(self, object_id: ObjectID) -> tuple[type[ShaFile] | None, bytes]:
        found = self.find(object_id)
        if found is None:
            raise RepositoryError(self.path, f"object {object_id.decode()} is missing")
        return found

    def find(self, object_id: ObjectID) -> tuple[type[ShaFile] | None, bytes] | None:
        """Returns kind and content of an object, checked against its name: dulwich takes a cut file for a short one."""
        name = object_id.decode()
        try:
            type_number, raw = self._looked_up(object_id)
        except KeyError:
            return None
        except OSError:
            raise
        except Exception as error:
            traceback.clear_frames(error.__traceback__)  # which hold parts of a pack, and that could not be closed
            raise RepositoryError(self.path, f"object {name} is damaged: {error}") from error
        kind = object_class(type_number)
        if kind is None or sha1(framed(kind, raw)) != name:
            raise RepositoryError(self.path, f"object {name} is damaged: its content has another hash")
        return kind, raw

    def _looked_up(self, object_id: ObjectID) -> tuple[int, bytes]:
        name = object_id.decode()
        broken: Exception | None = None
        try:
            found = sizes.loose(self.path / "objects" / name[:2] / name[2:])
        except (ValueError, zlib.error) as problem:
            found, broken = None, problem  # a pack may have it whole
        if found is not None:
            return found
        try:
            self._check_packed(object_id)
            return self._store.get_raw(object_id)
        except KeyError:
            if broken is not None:
                raise broken from None
            # a person's `git gc` may have packed it between the look for its own file and the one into the packs
            self._check_packed(object_id)
            return self._store.get_raw(object_id)

    def _check_packed(self, object_id: ObjectID) -> None:
        """Raises TooLarge before the object is inflated from the pack that has it."""
        name = bytes.fromhex(object_id.decode())
        for pack in self._store.packs:
            offset_of = partial(_offset_in, pack)
            at = offset_of(name)
            if at is not None:
                sizes.check_packed(Path(f"{pack._basename}.pack"), at, offset_of)


def _offset_in(pack: Pack, name: bytes) -> int | None:
    try:
        return int(pack.index.object_offset(RawObjectID(name)))
    except (KeyError, PackFileDisappeared):  # dulwich forgets a pack that `git gc` has replaced, and looks anew
        return None


def framed(kind: type[ShaFile], raw: bytes) -> bytes:
    """Returns the bytes that git hashes, and compresses into a loose object's file."""
    return b"%s %d\0%s" % (kind.type_name, len(raw), raw)


def sha1(content: bytes) -> str:
    """Returns the name of an object, from the bytes of `framed`."""
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def is_id(value: bytes) -> bool:
    """Returns whether it has the form of an object's name."""
    return re.fullmatch(rb"[0-9a-f]{40}", value) is not None


def parts_of(path: str) -> list[bytes]:
    """Returns the names in trees that lead to a path."""
    return [segment.encode("utf-8", "backslashreplace") for segment in path.split("/")]


def slot(tree: Tree, name: bytes) -> tuple[int, ObjectID | None]:
    """Returns mode and id of a tree's entry of that name, (0, None) for none."""
    if name not in tree:
        return 0, None
    return tree[name]


def replaced(raw: bytes, name: bytes, mode: int, child: ObjectID) -> bytes | None:
    """Returns a tree's content with that entry, in the place of the one of its name or new; None for an odd tree.

    Only the entry is written anew, where parsing and writing the whole tree takes a millisecond at 500 entries. Odd are
    trees that git itself would not write: entries out of order, names twice, modes written otherwise.
    """
    entries = list(parse_tree(raw, 20))
    names = [entry for entry, _, _ in entries]
    keys = [entry + b"/" * (kind == _FOLDER) for entry, kind, _ in entries]
    is_odd = len({*names}) != len(names) or keys != sorted(keys) or _length(entries) != len(raw)
    is_other = name in names and (entries[names.index(name)][1] == _FOLDER) != (mode == _FOLDER)  # in another place
    if is_odd or is_other:
        return None
    place = bisect_left(keys, name + b"/" * (mode == _FOLDER))
    start = _length(entries[:place])
    end = _length(entries[: place + 1]) if name in names else start
    return b"%s%o %s\0%s%s" % (raw[:start], mode, name, bytes.fromhex(child.decode()), raw[end:])


def _length(entries: list[tuple[bytes, int, bytes]]) -> int:
    """Returns how many bytes these entries take: mode, blank, name, NUL, 20 bytes of the object's name."""
    return sum([len(name) + (27 if mode == _FOLDER else 28) for name, mode, _ in entries])


def write_synced(path: Path, content: bytes, mode: int) -> None:
    """Writes a new file, whose content has reached the disk on return."""
    path.unlink(missing_ok=True)  # left by a writer that was killed; mode 0444 could not be opened again
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
