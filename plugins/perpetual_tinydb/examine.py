"""Faults of a store's files, read anew from the disk: `verify` of the TinyDB store. Used by `store` alone."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from perpetual.api import PerpetualError
from perpetual.toolkit.confined import read_bytes
from perpetual_tinydb.journal_format import Damaged, is_whole
from perpetual_tinydb.reader import Reader
from perpetual_tinydb.snapshot import Snapshot, key_of

__all__ = ["examine"]


def examine(view: Reader) -> list[str]:
    """Returns each problem as a sentence. The view must have read nothing yet."""
    try:
        view.refresh()
    except PerpetualError as problem:
        return [problem.message]
    except OSError as problem:
        return [f"{problem.filename or view.folder} cannot be read: {problem.strerror or problem}"]
    problems = _examine_snapshot(view.snapshot, view.fields()) if view.snapshot is not None else []
    problems += [
        f"{view.path}: {kind} {number} is missing"
        for kind, last in sorted(view.counters().items())
        for number in range(1, last + 1)
        if not view.holds(kind, number)
    ]
    for path in sorted(view.folder.glob("quarantine-*")):
        try:
            if is_whole(read_bytes(path)):
                problems.append(f"{path} was cut off as half written, but ends as a whole commit does")
        except OSError as problem:
            problems.append(f"{path} cannot be read: {problem.strerror or problem}")
    return problems


def _is_in(number: int, postings: Sequence[int]) -> bool:
    index = bisect_left(postings, number)
    return index < len(postings) and postings[index] == number


def _examine_snapshot(snapshot: Snapshot, fields: Mapping[str, Sequence[str]]) -> list[str]:
    """Checks every line's checksum, and the index against the rows."""
    if snapshot.rebuilt:
        return [f"{snapshot.path.with_suffix('.index')} is missing or damaged; it is derived: store compact"]
    problems = []
    try:
        for kind, row, offset, length in snapshot.scan():
            columns = snapshot.kind(kind)
            place = columns.place(row["_no"]) if columns else None
            if columns is None or place != (offset, length) or columns.number(row["_id"]) != row["_no"]:
                problems.append(f"{snapshot.path}: the index misses {kind} {row['_id']}")
                continue
            for field in fields.get(kind, ()):
                postings = columns.postings(field, key_of(row.get(field)))
                if postings is not None and not _is_in(row["_no"], postings):
                    problems.append(f"{snapshot.path}: the index of {field} misses {kind} {row['_id']}")
    except Damaged as problem:
        problems.append(f"{snapshot.path} cannot be read at byte {problem.offset}: {problem}")
    except (KeyError, TypeError) as problem:
        problems.append(f"{snapshot.path} holds what no store writes: {problem}")
    return problems
