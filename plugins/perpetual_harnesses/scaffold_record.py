"""Record of what init wrote and replaced: `.perpetual/scaffold.json`. Used by the scaffolder alone.

The file lies in the project's folder, so a clone may bring one that was made to write anything anywhere. A record is
believed where its `mark` is this user's: a hash over it, keyed by a secret that no project can read. Of another record
only the names of its harnesses count. Every path in a record obeys the law of plans (`is_inside`).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NotRequired, TypedDict

from perpetual.api import WAYS, CorruptData, FilePlan, PerpetualError
from perpetual.toolkit import user_state
from perpetual.toolkit.atomic import dump_json, read_file, read_json, write_atomic
from perpetual.toolkit.confined import FOLDER, UnsafePath, explain

__all__ = ["FILE", "Entry", "Record", "digest", "is_inside", "read", "write"]

FILE = "scaffold.json"


class _EntryDocument(TypedDict):
    """An entry as it is written."""

    existed: bool
    original: str | None  # base64
    written: str | None
    folders: list[str]
    plans: list[tuple[str, dict[str, Any]]]  # the fields of a FilePlan


class _Document(TypedDict):
    """The record as it is written; `mark` is put last."""

    format: int
    command: list[str]
    harnesses: list[str]
    files: dict[str, _EntryDocument]
    mark: NotRequired[str]


@dataclass(frozen=True)
class Entry:
    """What the record knows of a file; `original` is None where there was no file or that is unknown."""

    existed: bool
    original: bytes | None
    written: str | None  # hash of what we wrote; None once the file was edited
    folders: tuple[str, ...]  # that we made for it
    plans: tuple[tuple[str, FilePlan], ...]  # with the harness that asked

    @property
    def is_known(self) -> bool:
        """Returns whether the bytes before our first write are known."""
        return not self.existed or self.original is not None

    def stands_as_left(self, current: bytes) -> bool:
        """Returns whether the file is unedited: it is as we wrote it, or as it was before us."""
        return self.is_known and (digest(current) == self.written or current == self.original)


@dataclass(frozen=True)
class Record:
    """`.perpetual/scaffold.json`."""

    command: tuple[str, ...]
    harnesses: tuple[str, ...]
    entries: dict[str, Entry]


def digest(content: bytes) -> str:
    """Returns a content's hash as the record keeps it."""
    return hashlib.sha256(content).hexdigest()


def read(folder: Path) -> Record:
    """Returns the record of a project's `.perpetual`; an empty one if there is none.

    Raises:
        CorruptData: if the file does not hold one.
    """
    path = folder / FILE
    try:
        data = read_json(path)
        if data is None:
            return Record((), (), {})
        harnesses = tuple(map(str, data["harnesses"]))
        if not _is_ours(data):
            return Record((), harnesses, {})
        entries = {name: _entry_of(item) for name, item in data["files"].items()}
        for name, entry in entries.items():
            for place in (name, *entry.folders, *(plan.path for _, plan in entry.plans)):
                if not is_inside(place):
                    raise ValueError(f"{place!r} is no place for a file of the project")
        return Record(_texts(data["command"]), harnesses, entries)
    except UnsafePath as problem:
        raise explain(problem) or problem from problem
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CorruptData(
            f"{path}: no record of what init wrote: {problem}",
            hint="delete that file; removal then takes out what it recognises",
        ) from problem


def is_inside(path: str) -> bool:
    """Returns whether a recorded or planned path is relative, stays in the project, and leaves its repository alone."""
    parts = PurePosixPath(path).parts
    return (
        bool(parts)
        and not any(char in path for char in "\0\\:")
        and parts[0] not in ("/", "//", FOLDER)
        and not any(part == ".." or part.lower().rstrip(" .") in (".git", "git~1", ".git~1") for part in parts)
        and not path.startswith("~")
    )


def _is_ours(data: Mapping[str, object]) -> bool:
    """Returns whether this user wrote the record; not known where the state folder cannot be read."""
    mark = data.get("mark")
    try:
        return isinstance(mark, str) and hmac.compare_digest(mark.encode(), _mark(data).encode())
    except PerpetualError:
        return False


def _mark(data: Mapping[str, object]) -> str:
    text = dump_json({key: value for key, value in data.items() if key != "mark"})
    return hmac.new(user_state.secret(), b"scaffold\0" + text.encode("utf-8"), hashlib.sha256).hexdigest()


def _entry_of(item: _EntryDocument) -> Entry:
    original = None if item["original"] is None else base64.b64decode(item["original"], validate=True)
    plans = tuple(
        (name, FilePlan(**{**plan, "keys": tuple(plan["keys"]), "instead": ()}))
        for name, plan in ((p[0], p[1]) for p in item["plans"])
    )
    folders = _texts(item["folders"])
    for name, plan in plans:
        _texts([name, plan.path, plan.how, plan.text])
        _texts([*plan.keys])
        if plan.how not in WAYS or {type(plan.existing_only), type(plan.comments)} != {bool}:
            raise ValueError(f"a plan of {name} is none")
    if {type(item["existed"])} != {bool} or type(item["written"]) not in (str, type(None)):
        raise ValueError("an entry is none")
    return Entry(item["existed"], original, item["written"], folders, plans)


def _texts(found: object) -> tuple[str, ...]:
    """Returns a list of texts; raises ValueError for anything else."""
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError("it holds no texts where texts belong")
    return tuple(found)


def write(folder: Path, record: Record) -> None:
    """Writes the record unless the file already holds it."""
    files: dict[str, _EntryDocument] = {
        path: {
            "existed": entry.existed,
            "original": None if entry.original is None else base64.b64encode(entry.original).decode("ascii"),
            "written": entry.written,
            "folders": list(entry.folders),
            "plans": [(name, asdict(plan)) for name, plan in entry.plans],
        }
        for path, entry in record.entries.items()
    }
    document: _Document = {
        "format": 1,
        "command": list(record.command),
        "harnesses": list(record.harnesses),
        "files": files,
    }
    document["mark"] = _mark(document)
    path, text = folder / FILE, dump_json(document) + "\n"
    try:
        present = read_file(path)
    except (FileNotFoundError, ValueError):
        present = None
    if present != text.encode("utf-8"):
        write_atomic(path, text)
