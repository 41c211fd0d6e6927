"""Reader of one process on the store's files: brought up to date, and looked up. Writes nothing.

A reader takes no lock: one `os.stat` tells whether there is more to read. `journal` says what the files are, and writes
them; used by `journal` and `examine`.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from perpetual.api import CorruptData, ForeignProject, Row
from perpetual.toolkit.confined import look, open_file
from perpetual.toolkit.filesystems import file_sizes
from perpetual_tinydb import legacy
from perpetual_tinydb.head import FILE, head
from perpetual_tinydb.journal_format import Damaged, Entry, commits, has_commit, parse, row_line, unseal
from perpetual_tinydb.snapshot import SHARED, Key, Snapshot, key_of

__all__ = ["FORMAT", "SEAL_BYTES", "WAY_OUT", "OpenFile", "Reader"]

FORMAT = 1
_SNAPSHOT = re.compile(r"snapshot-[0-9]{1,19}")
SEAL_BYTES = 1024  # a row or two with their checksums
WAY_OUT = "nothing was changed; `perpetual store verify` lists what is damaged, and a backup of the folder mends it"


class _Header(NamedTuple):
    """The first line of a journal: the snapshot that it continues, whose rows take so many bytes, if any."""

    generation: int
    commit: int
    bytes: int
    snapshot: str | None


def _header_of(found: Mapping[str, object]) -> _Header:
    """Returns the header in a line. Raises KeyError, ValueError."""
    generation, commit, size, snapshot = found["gen"], found["commit"], found["bytes"], found["snapshot"]
    if not isinstance(generation, int) or not isinstance(commit, int) or not isinstance(size, int):
        raise ValueError("it holds no numbers where numbers belong")
    if snapshot is not None and not isinstance(snapshot, str):
        raise ValueError("it names no snapshot")
    return _Header(generation, commit, size, snapshot)


class OpenFile:
    """An open journal of one generation, closed after its last use."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = open_file(path)
        self.inode = os.fstat(self.fd).st_ino
        self._append: int | None = None

    def append_fd(self) -> int:
        """Returns the descriptor for appending; the first write opens it, so a reader need not be allowed to write."""
        if self._append is None:
            descriptor = open_file(self.path, os.O_WRONLY | os.O_APPEND)
            if os.fstat(descriptor).st_ino != self.inode:  # the caller holds the lock and has just looked
                os.close(descriptor)
                raise CorruptData(f"{self.path} was replaced by a process that does not hold the lock", hint=WAY_OUT)
            self._append = descriptor
        return self._append

    def __del__(self) -> None:
        for descriptor in (getattr(self, "fd", None), getattr(self, "_append", None)):
            if descriptor is not None:
                os.close(descriptor)


class _Tail:
    """The rows of one kind that the journal holds: newer than the snapshot's, with their own index."""

    def __init__(self, fields: Sequence[str]) -> None:
        self.lines: dict[int, bytes] = {}
        self.seqs: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.ids: dict[str, int] = {}
        self._values: dict[int, list[Key]] = {}
        self.fields: dict[str, dict[Key, dict[int, None]]] = {field: {} for field in fields}

    def declare(self, fields: Sequence[str]) -> None:
        """Indexes these fields: the kinds of plugins are declared after the journal was read."""
        if [*self.fields] == [*fields]:
            return
        self.fields = {field: {} for field in fields}
        for number, line in self.lines.items():
            row = parse(line)
            self._values[number] = [key_of(row.get(field)) for field in fields]
            for postings, new in zip(self.fields.values(), self._values[number], strict=True):
                postings.setdefault(new, {})[number] = None

    def put(self, row: Row, line: bytes) -> None:
        number = row["_no"]
        for postings, old in zip(self.fields.values(), self._values.get(number, ()), strict=False):
            del postings[old][number]
        self._values[number] = [key_of(row.get(field)) for field in self.fields]
        for postings, new in zip(self.fields.values(), self._values[number], strict=True):
            postings.setdefault(new, {})[number] = None
        self.lines[number], self.seqs[number] = line, row["_seq"]
        self.names[number], self.ids[row["_id"]] = row["_id"], number


class Reader:
    """One process's view of the files. Not safe in threads by itself: the store guards it."""

    def __init__(self, folder: Path, fields: Callable[[], Mapping[str, Sequence[str]]]) -> None:
        """`fields` answers the indexed fields of each kind. Nothing is opened yet."""
        self.folder, self.path = folder, folder / FILE
        self.fields = fields
        self.forget()

    def forget(self) -> None:
        """Drops what was read: the next look reads the files from their beginning."""
        self._file: OpenFile | None = None
        self.generation = 0
        self._base = self._end = 0  # offsets behind the header, and behind the last whole commit
        self._size = 0  # of the file when it was last looked at
        self._seal = b""  # the last bytes before `_end`: they tell the file that was read from another one
        self._mtime_ns = 0  # of the file when it was last looked at
        self._snapshot: Snapshot | None = None
        self._legacy: str | None = None  # where there is no journal: the head of the file of the format before
        self.commit = 0
        self._tails: dict[str, _Tail] = {}
        self._last: dict[str, int] = {}
        self._feed: list[tuple[int, str, int]] = []

    # --- reading the files ----------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Brings the view up to the files' present state.

        Raises:
            CorruptData: for files that no store left so.
            OSError: if they cannot be read.
        """
        try:
            self._look()
        except BaseException:
            self.forget()  # cut off between two steps (Ctrl-C, a file that cannot be read) it is no state at all
            raise

    def _look(self) -> None:
        found = look(self.path)
        if found is None:
            self._refresh_without()
            return
        self._size = found.st_size
        if self._file is None or found.st_ino != self._file.inode:
            self._load()
        elif found.st_size < self._end:
            self._load()  # a backup was put in its place
        elif found.st_size > self._end or found.st_mtime_ns != self._mtime_ns:
            self._advance()
        self._mtime_ns = found.st_mtime_ns

    def _refresh_without(self) -> None:
        """Loads the state of a folder that has no journal: it is new, or of the format before."""
        token = head(os.fspath(self.folder))
        if self._file is None and token == self._legacy:
            return
        self.forget()
        rows: list[tuple[str, Row]] = []
        try:
            if token:
                self.commit, rows = legacy.load(self.folder)
        except FileNotFoundError:  # the token was of a journal that has come since the look for it
            self._look()
            return
        if not token and any(self.folder.glob("snapshot-*")):
            if look(self.path) is not None:
                self._look()
                return
            raise CorruptData(f"{self.path} is missing beside its snapshot", hint=WAY_OUT)
        for kind, row in rows:
            self._apply(kind, row, row_line(kind, row)[:-1])
        self._legacy = token

    def _load(self) -> None:
        """Loads a generation from its start; again if it is replaced meanwhile."""
        for _ in range(100):
            self.forget()
            try:
                self._file = OpenFile(self.path)
                header = self._header()
                self.generation = header.generation
                if header.snapshot is not None:
                    self._snapshot = self._open_snapshot(self.folder / header.snapshot, header.bytes)
            except FileNotFoundError:
                if self._file is not None and os.path.exists(self.path) and self._is_current():
                    self._corrupt(f"{header.snapshot}.jsonl is missing", self._file.path)
                continue
            self.commit = header.commit
            self._last = {kind: self._snapshot.last(kind) for kind in self._snapshot.kinds()} if self._snapshot else {}
            self._advance()
            return
        raise CorruptData(f"{self.path} is replaced faster than it can be read", hint=WAY_OUT)

    def _is_current(self) -> bool:
        found = look(self.path)
        return self._file is not None and found is not None and found.st_ino == self._file.inode

    def _header(self) -> _Header:
        assert self._file is not None
        start = os.pread(self._file.fd, 4096, 0)
        end = start.find(b"\n")
        try:
            found = unseal(start[: max(end, 0)])
            version = found["format"]
            header = _header_of(found) if version == FORMAT else None
        except (Damaged, KeyError, TypeError, ValueError) as problem:
            self._corrupt(f"it does not begin as a journal does: {problem}", self.path, problem)
        if header is None:
            raise ForeignProject(
                f"{self.path} has format {version}; this Perpetual knows {FORMAT}", hint="upgrade perpetual-lab"
            )
        self._base = self._end = end + 1
        self._seal = start[: end + 1]
        return header

    def _open_snapshot(self, stem: Path, size: int) -> Snapshot:
        if not _SNAPSHOT.fullmatch(stem.name) or stem.parent != self.folder:
            self._corrupt("it names no snapshot of this folder", self.path)
        try:
            return Snapshot(stem, size, self.fields())
        except (Damaged, KeyError, TypeError) as problem:
            self._corrupt(str(problem), stem.with_suffix(".jsonl"), problem)

    def _corrupt(self, what: str, path: Path, problem: Exception | None = None) -> NoReturn:
        where = f" at byte {problem.offset}" if isinstance(problem, Damaged) else ""
        raise CorruptData(f"{path} cannot be read{where}: {what}", hint=WAY_OUT) from problem

    def _advance(self) -> None:
        """Applies the commits behind the last known one. What follows the last whole one is left alone."""
        assert self._file is not None
        for attempt in (1, 2):
            data = self._rest()
            if data is None:
                self._load()  # the file was written over in place: a backup was put back
                return
            try:
                start = self._end
                for commit in commits(data, start):
                    if self.commit and commit.number not in (self.commit, self.commit + 1):
                        raise Damaged(f"commit {commit.number} follows commit {self.commit}", self._end)
                    for entry in commit.entries:
                        self._apply(entry.kind, entry.row, _line_of(data, entry, start))
                    self._seal = data[max(commit.end - start - SEAL_BYTES, 0) : commit.end - start]
                    self._end = commit.end
                    self.commit = max(self.commit, commit.number)
                return
            except Damaged as problem:
                rest = data[self._end - start :]
                # a writer that cuts off a torn end while it is read here makes both look like damage, once
                if has_commit(rest) and attempt == 2:
                    self._corrupt(f"{problem}, and a commit stands behind it", self.path, problem)
                if not has_commit(rest):
                    return
            except (KeyError, TypeError, AttributeError) as problem:
                self._corrupt(f"it holds what no store writes: {problem}", self.path, problem)

    def _rest(self) -> bytes | None:
        """Returns the bytes behind the last known commit; None if that commit is gone."""
        assert self._file is not None
        size = os.fstat(self._file.fd).st_size
        parts, position = [], self._end - len(self._seal)
        while position < size and (part := os.pread(self._file.fd, size - position, position)):
            parts.append(part)
            position += len(part)
        found = b"".join(parts)
        return found[len(self._seal) :] if found.startswith(self._seal) else None

    def _apply(self, kind: str, row: Row, line: bytes) -> None:
        tail = self._tails.get(kind)
        if tail is None:
            tail = self._tails[kind] = _Tail(self.fields().get(kind, ()))
        tail.put(row, line)
        number = row["_no"]
        self._last[kind] = max(number, self._last.get(kind, 0))
        self._feed.append((row["_seq"], kind, number))

    # --- looking things up ----------------------------------------------------------------------------------

    def counters(self) -> dict[str, int]:
        """Returns the greatest number of each kind."""
        return {kind: number for kind, number in self._last.items() if number}

    def last(self, kind: str) -> int:
        """Returns the greatest number of the kind, 0 without rows."""
        return self._last.get(kind, 0)

    def number(self, kind: str, id: str) -> int | None:
        """Returns the number of the row with that id."""
        tail = self._tails.get(kind)
        found = tail.ids.get(id) if tail else None
        if found is None and self._snapshot is not None:
            columns = self._snapshot.kind(kind)
            found = columns.number(id) if columns else None
        return found

    def row(self, kind: str, number: int) -> Row | None:
        """Returns the row, decoded anew: the caller's own."""
        tail = self._tails.get(kind)
        line = tail.lines.get(number) if tail else None
        if line is not None:
            return parse(line)
        if self._snapshot is None:
            return None
        try:
            return self._snapshot.row(kind, number)
        except Damaged as problem:
            self._corrupt(str(problem), self._snapshot.path, problem)

    def candidates(self, kind: str, equals: Mapping[str, object]) -> tuple[Sequence[int], str | None]:
        """Numbers in order, among which all rows are whose fields equal the values: the fewest that an index names.

        The second is the field whose index it was, if each of these rows has its value.
        """
        best: list[int] | None = None
        used: str | None = None
        tail = self._tails.get(kind)
        if tail is not None:
            tail.declare(self.fields().get(kind, ()))
        columns = self._snapshot.kind(kind) if self._snapshot else None
        for field, value in equals.items():
            key = key_of(value)
            old = columns.postings(field, key) if columns else ()
            new = tail.fields.get(field) if tail else {}
            if old is None or new is None:
                continue  # declared since the rows were written: the other fields, or all rows, must do
            newer = tail.lines if tail else {}
            if newer and old and min(newer) <= old[-1]:
                numbers = [number for number in old if number not in newer]
            else:  # the tail replaces no row of the snapshot, as in a ledger: nothing is to be left out
                numbers = [*old]
            numbers += new.get(key, ())
            if best is None or len(numbers) < len(best):
                best, used = numbers, field if key != SHARED else None
        return (range(1, self.last(kind) + 1) if best is None else sorted(best)), used

    def changes(self, since: int) -> Iterator[tuple[int, str, str]]:
        """Yields (seq, kind, id) of each row whose latest commit is later than `since`."""
        if self._snapshot is not None:
            for seq, kind, number, id in self._snapshot.changes(since):
                if kind not in self._tails or number not in self._tails[kind].lines:
                    yield seq, kind, id
        for seq, kind, number in self._feed[bisect_right(self._feed, since, key=lambda item: item[0]) :]:
            tail = self._tails[kind]
            if tail.seqs[number] == seq:
                yield seq, kind, tail.names[number]

    # --- for readers of the files ---------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot | None:
        """Returns the snapshot under the journal."""
        return self._snapshot

    def holds(self, kind: str, number: int) -> bool:
        """Returns whether there is a row of that number."""
        if kind in self._tails and number in self._tails[kind].lines:
            return True
        columns = self._snapshot.kind(kind) if self._snapshot else None
        return columns is not None and columns.place(number) is not None

    def sizes(self) -> dict[str, int]:
        """Returns the bytes of each file."""
        return file_sizes(self.folder)


def _line_of(data: bytes, entry: Entry, start: int) -> bytes:
    return data[entry.offset - start : entry.offset - start + entry.length]
