"""What init wrote, and what stood there before: `.perpetual/scaffold.json`. Used by `perpetual.lab.scaffold` alone."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import asdict, dataclass
from typing import Any

from perpetual.config import Config
from perpetual.errors import CorruptData
from perpetual.slots.harness import FilePlan
from perpetual.toolkit.atomic import dump_json, read_json, write_atomic

__all__ = ["FILE", "Entry", "Record", "digest", "read", "write"]

FILE = "scaffold.json"


@dataclass(frozen=True)
class Entry:
    """What the record knows of a file; `original` is None where there was no file or nobody knows."""

    existed: bool
    original: bytes | None
    written: str | None  # hash of what we wrote; None once somebody edited the file
    folders: tuple[str, ...]  # that we made for it
    plans: tuple[tuple[str, FilePlan], ...]  # with the harness that asked

    @property
    def is_known(self) -> bool:
        """Whether the bytes before us are known."""
        return not self.existed or self.original is not None

    def stands_as_left(self, current: bytes) -> bool:
        """Whether nobody edited the file since: it is as we wrote it, or as it was before us."""
        return self.is_known and (digest(current) == self.written or current == self.original)


@dataclass(frozen=True)
class Record:
    """`.perpetual/scaffold.json`."""

    command: tuple[str, ...]
    harnesses: tuple[str, ...]
    entries: dict[str, Entry]


def digest(content: bytes) -> str:
    """A content's hash as the record keeps it."""
    return hashlib.sha256(content).hexdigest()


def read(config: Config) -> Record:
    """The record; an empty one if there is none.

    Raises:
        CorruptData: if the file does not hold one.
    """
    path = config.folder / FILE
    try:
        data = read_json(path)
        if data is None:
            return Record((), (), {})
        entries = {name: _entry_of(item) for name, item in data["files"].items()}
        return Record(tuple(data["command"]), tuple(data["harnesses"]), entries)
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise CorruptData(
            f"{path}: no record of what init wrote: {problem}",
            hint="delete that file; removal then takes out what it recognises",
        ) from problem


def _entry_of(item: dict[str, Any]) -> Entry:
    original = None if item["original"] is None else base64.b64decode(item["original"], validate=True)
    plans = tuple(
        (name, FilePlan(**{**plan, "keys": tuple(plan["keys"]), "instead": ()}))
        for name, plan in ((p[0], p[1]) for p in item["plans"])
    )
    return Entry(item["existed"], original, item["written"], tuple(item["folders"]), plans)


def write(config: Config, record: Record) -> None:
    """Writes the record unless it stands there already."""
    files = {
        path: {
            "existed": entry.existed,
            "original": None if entry.original is None else base64.b64encode(entry.original).decode("ascii"),
            "written": entry.written,
            "folders": list(entry.folders),
            "plans": [[name, asdict(plan)] for name, plan in entry.plans],
        }
        for path, entry in record.entries.items()
    }
    document = {"format": 1, "command": list(record.command), "harnesses": list(record.harnesses), "files": files}
    path, text = config.folder / FILE, dump_json(document) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text)
