"""The files of the store and what they hold: an append-only journal over the last snapshot, and how both are written.

    lock                 flock of the one writer; never renamed, never removed
    journal.jsonl        a header, then commits; each is one write at the end, and on the disk before it is acknowledged
    snapshot-N.*         the rows of all commits before the journal's first
    quarantine-N-OFFSET  bytes that a crash left half written, cut off the journal by the next writer

A reader takes no lock (`reader`). A writer appends behind the last whole commit. When the journal has outgrown the
snapshot a new pair replaces both: snapshot, then journal, by rename, each durable before the next step, so that a crash
at any instant leaves one generation whole. Used by `tables` and `store`.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from perpetual.api import CorruptData, PerpetualError, Row
from perpetual.toolkit.atomic import fsync_data, fsync_dir, write_atomic
from perpetual.toolkit.confined import UnsafePath, look, read_bytes
from perpetual_tinydb import legacy
from perpetual_tinydb.journal_format import commit_line, dump, row_line, seal
from perpetual_tinydb.reader import FORMAT, SEAL_BYTES, WAY_OUT, OpenFile, Reader
from perpetual_tinydb.snapshot import write_snapshot

__all__ = ["Journal"]

LEAST_FOLD_BYTES = 1 << 20  # a journal below this is never worth a snapshot
Batch = Sequence[tuple[str, Row]]


class Journal(Reader):
    """The view of a writer. Callers of methods that change the files hold the lock and have just looked."""

    def __init__(
        self,
        folder: Path,
        fields: Callable[[], Mapping[str, Sequence[str]]],
        *,
        least_fold_bytes: int = LEAST_FOLD_BYTES,
    ) -> None:
        """Implements `Reader`; a journal of fewer than `least_fold_bytes` is not folded into a snapshot."""
        super().__init__(folder, fields)
        self._least_fold_bytes = least_fold_bytes
        self.compaction_problem: str | None = None
        self._fold_at = 0  # no compaction is tried below this offset

    def append(self, number: int, batch: Batch) -> object:
        """Puts a commit behind the last one; answers a token for `settle`. All or nothing.

        Raises:
            OSError: if it could not be written; nothing has changed.
        """
        if self._file is None:
            self._begin()
        file = self._file
        assert file is not None
        if self._size != self._end:
            self._cut_torn()
        lines = [row_line(kind, row) for kind, row in batch]
        data = b"".join([*lines, commit_line(number, len(lines))])
        descriptor = file.append_fd()
        try:
            if (written := os.write(descriptor, data)) != len(data):
                raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written: no space left")
        except OSError:
            self._size = -1
            # if even this fails the next writer cuts the rest off
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        self._take(number, batch, lines, data)
        self._mtime_ns = os.fstat(descriptor).st_mtime_ns  # or the next look would read what is known
        least = max(self._least_fold_bytes, self._snapshot.size if self._snapshot else 0)
        if self._end - self._base > least and self._end >= self._fold_at:
            self._compact_if_it_can_be()
        return file

    def _take(self, number: int, batch: Batch, lines: Sequence[bytes], data: bytes) -> None:
        """Applies to the view what was written to the file."""
        try:
            for (kind, row), line in zip(batch, lines, strict=True):
                self._apply(kind, row, line[:-1])
            self._end += len(data)
            self._size = self._end
            self._seal = data[-SEAL_BYTES:]
            self.commit = max(self.commit, number)
        except BaseException:
            self.forget()
            raise

    def settle(self, file: object = None) -> None:
        """Returns once the commit (by default all that was read) is on the disk.

        Raises:
            OSError: if the disk would not confirm.
        """
        wanted = file if isinstance(file, OpenFile) else self._file
        if wanted is not None:
            fsync_data(wanted.fd)

    def _begin(self) -> None:
        """Creates the first generation: an empty journal, or one over the rows of the format before."""
        if self._legacy:
            self.compact()
            return
        if look(self.path) is not None:  # the view was lost since; what is there is never overwritten
            self.refresh()
            return
        write_atomic(self.path, _header_line(1, None, 0))
        fsync_dir(self.folder.parent)  # the folder may be as new, and all that is in it goes with its name
        self._load()

    def _cut_torn(self) -> None:
        """Keeps aside what a crash left behind the last whole commit, then truncates the journal."""
        assert self._file is not None
        torn = self._rest()
        if torn is None:
            raise CorruptData(f"{self.path} was overwritten by a process that does not hold the lock", hint=WAY_OUT)
        if torn:
            self._set_aside(torn)
            descriptor = self._file.append_fd()
            os.ftruncate(descriptor, self._end)
            fsync_data(descriptor)

    def _set_aside(self, torn: bytes) -> None:
        stem = path = self.folder / f"quarantine-{self.generation}-{self._end}"
        number = 1
        while os.path.lexists(path):
            if _is_same(path, torn):
                return  # by a writer that died before it could cut
            number += 1
            path = stem.with_name(f"{stem.name}-{number}")
        write_atomic(path, torn)

    def _compact_if_it_can_be(self) -> None:
        """Compacts after a commit, which stays: a journal that cannot be folded now grows on and is folded later."""
        end = self._end
        try:
            self.compact()
        except (OSError, PerpetualError) as problem:
            self.compaction_problem = str(problem)
            self._fold_at = end + self._least_fold_bytes  # not at every commit anew: each try costs the whole snapshot

    def compact(self) -> None:
        """Replaces snapshot and journal by a new pair that holds the same.

        Raises:
            OSError: if there is no room; the old pair stands.
            CorruptData: if a row cannot be read; likewise.
        """
        if self._file is not None and self._size != self._end:
            self._cut_torn()  # what a crash left is kept aside before the journal goes
        generation = self.generation + 1
        name = f"snapshot-{generation}"
        inode = self._file.inode if self._file else None
        try:
            size = write_snapshot(self.folder / name, self.commit, self._all_rows(), self.fields())
            fsync_dir(self.folder)  # the new journal must not be there without the snapshot it names
            write_atomic(self.path, _header_line(generation, name, self.commit, size))
        except BaseException:
            # the room is needed, unless the journal was replaced and it was its durability that could not be had
            with contextlib.suppress(OSError):
                found = look(self.path)
                if inode == (found.st_ino if found is not None else None):
                    self._unlink_snapshots(lambda stem: stem == name)
            raise
        if legacy.exists(self.folder):
            legacy.retire(self.folder)
        self.forget()
        self.refresh()
        self.compaction_problem, self._fold_at = None, 0
        self._unlink_snapshots(lambda stem: stem != name)
        for path in self.folder.glob(".*.tmp"):  # of writers that died; the lock is held
            path.unlink(missing_ok=True)

    def _unlink_snapshots(self, is_meant: Callable[[str], bool]) -> None:
        for path in self.folder.glob("snapshot-*"):
            if is_meant(path.stem):
                path.unlink(missing_ok=True)

    def _all_rows(self) -> Iterator[tuple[str, Row, bytes]]:
        for kind in sorted(self._last):
            tail = self._tails.get(kind)
            for number in range(1, self._last[kind] + 1):
                row = self.row(kind, number)
                if row is None:
                    continue
                if tail is not None and number in tail.lines:
                    yield kind, row, tail.lines[number] + b"\n"
                elif self._snapshot is not None:
                    yield kind, row, self._snapshot.line(kind, number)


def _is_same(path: Path, content: bytes) -> bool:
    try:
        return read_bytes(path, limit=len(content)) == content
    except UnsafePath:
        return False


def _header_line(generation: int, snapshot: str | None, commit: int, size: int = 0) -> bytes:
    named = f'"snapshot":{dump(snapshot)},"bytes":{size}'
    return seal(f'{{"format":{FORMAT},"gen":{generation},{named},"commit":{commit}')
