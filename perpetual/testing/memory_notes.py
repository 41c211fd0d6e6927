"""A memory of plain files: the twin of the real ones, for fast tests. One JSON file for each intent.

It is the smallest thing that keeps the contract of `perpetual.slots.memory`, so it shows what a memory has to do.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from perpetual.errors import CorruptData
from perpetual.slots.memory import Memory, NoteCommit, PathRefused
from perpetual.toolkit.atomic import dump_json, fsync_dir, read_json, write_atomic

__all__ = ["FolderMemory", "build"]

_FIELDS = ("path", "content", "message", "author", "when")


def _refused(segment: str) -> bool:
    """Returns whether no folder and no file may be called that."""
    odd = segment in ("", "..") or segment != segment.strip() or segment.endswith(".")
    return odd or segment.casefold().startswith(".git") or len(segment.encode()) > 255


class FolderMemory(Memory):
    """No file is named by a note's path, so no path can lead anywhere."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_lost(self) -> bool:
        """Returns False: the folder comes with the first commit."""
        return not self._folder.exists()

    def normalise(self, path: str) -> str:
        """Returns the path in composed letters, without `.` and empty segments."""
        segments = [one for one in unicodedata.normalize("NFC", path).split("/") if one not in ("", ".")]
        bad = not segments or path.startswith("/") or not path.isprintable() or len(path) > 500
        if bad or re.search(r"[\\:]", path) or any(map(_refused, segments)):
            raise PathRefused(f"{path!r} is no path of a note", hint="relative, of plain names: notes/depth.md")
        return "/".join(segments)

    def blob_id(self, content: str) -> str:
        """Returns the text's SHA-256."""
        return hashlib.sha256(content.encode("utf-8")).hexdigest()

    def commit(self, *, intent: int, path: str, content: str, message: str, author: str, when: str) -> str:
        """Returns the file of the intent's number: there whole, or not at all."""
        note, file = self.normalise(path), self._folder / f"{intent:012d}.json"
        made = self._load(file) if file.exists() else None
        if made is None:
            if not self._folder.exists():
                self._folder.mkdir(parents=True)
                fsync_dir(self._folder.parent)
            version = dict(zip(_FIELDS, (note, content, message, author, when), strict=True))
            write_atomic(file, dump_json({**version, "blob": self.blob_id(content)}))
        elif (made["path"], made["content"]) != (note, content):
            raise CorruptData(f"{file}: intent {intent} was committed before, with another path or content")
        return file.stem

    def read(self, path: str, commit: str | None = None) -> str | None:
        """Returns the newest version, or the newest up to `commit`."""
        if commit is not None and commit not in self._commits():
            return None
        for id, version in self._versions(path):
            if commit is None or id <= commit:
                return str(version["content"])
        return None

    def history(self, path: str, limit: int) -> Sequence[NoteCommit]:
        """Returns every version."""
        found = [
            NoteCommit(id, one["when"], one["author"], one["message"], one["blob"]) for id, one in self._versions(path)
        ]
        return found[:limit]

    def _commits(self) -> list[str]:
        return sorted((file.stem for file in self._folder.glob("*.json")), reverse=True)

    def _versions(self, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the newest first."""
        note = self.normalise(path)
        for id in self._commits():
            version = self._load(self._folder / f"{id}.json")
            if version["path"] == note:
                yield id, version

    def _load(self, file: Path) -> dict[str, Any]:
        try:
            version = read_json(file)
        except ValueError as problem:
            raise CorruptData(str(problem)) from problem
        if not isinstance(version, dict) or not {*_FIELDS, "blob"} <= version.keys():
            raise CorruptData(f"{file}: this is no version of a note")
        if version["blob"] != self.blob_id(version["content"]):
            raise CorruptData(f"{file}: the content is not the one that was written")
        return version


def build(options: Mapping[str, object], *, path: Path) -> FolderMemory:
    """Returns a factory as a memory's provider names it."""
    return FolderMemory(path)
