"""Output of a run: its log files, kept to their limit, and whether it has written anything recently.

For the supervisor (`supervisor.py`) alone: only light parts of the standard library at the top. Descriptors and not
names: they lead to the command's own files even when the folder is moved or removed, where a log that no reader can see
would fill the disk all the same.
"""

from __future__ import annotations

import os

from perpetual.toolkit import confined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LOGS = ("stdout.log", "stderr.log")
# Written by the command itself, where it logs metrics: a run that does nothing else is not silent.
METRICS = "metrics.jsonl"
CUT_TRIES = 3  # for a log that grows while its end is read
LARGEST_TAIL_BYTES = 4 * 1024 * 1024


class Captured:
    """The output of one run, in the current folder; the logs are made here if they are missing."""

    def __init__(self, limit_bytes: int | None) -> None:
        """Logs over `limit_bytes` are cut by `cut`; None: never. Raises OSError."""
        self._limit_bytes = limit_bytes
        self._logs = [confined.open_file(name, os.O_RDWR | os.O_APPEND | os.O_CREAT) for name in LOGS]
        self._cuts = [(0, 0) for _ in LOGS]
        self._seen = self._written()

    @property
    def is_limited(self) -> bool:
        """Returns whether a log may still have to be cut."""
        return self._limit_bytes is not None

    def has_grown(self) -> bool:
        """Returns whether something was written since the last call. What was cut out of a log counts as written."""
        before, self._seen = self._seen, self._written()
        return any(now > then for now, then in zip(self._seen, before, strict=True))

    def cut(self, complain: Callable[[str], None]) -> None:
        """Cuts the logs to their limit; a failure is reported once, and the cut not retried."""
        if self._limit_bytes is None:
            return
        try:
            for number, descriptor in enumerate(self._logs):
                self._cuts[number] = cut_log(descriptor, self._limit_bytes, self._cuts[number])
        except OSError as exc:
            complain(f"the logs are no longer kept to their limit: {exc}")
            self._limit_bytes = None

    def _written(self) -> list[int]:
        """Returns how many bytes each file has received in all."""
        found = [
            os.fstat(descriptor).st_size + dropped - marker_bytes
            for descriptor, (dropped, marker_bytes) in zip(self._logs, self._cuts, strict=True)
        ]
        try:
            found.append(os.stat(METRICS).st_size)
        except OSError:
            found.append(0)  # it logs none, or the folder was removed
        return found


def cut_log(descriptor: int, limit_bytes: int, before: tuple[int, int]) -> tuple[int, int]:
    """Cuts the middle out of a log over its limit; returns (bytes dropped so far, length of the marker in it).

    `descriptor` is open for reading and appending. The first half of the limit stays, and the end of the file, with a
    marker between. The file keeps its identity, because the child holds it open for appending. What the child writes
    between the last look at the size and the cut is lost; the cut after the end of the run loses nothing.
    """
    size = os.fstat(descriptor).st_size
    if size <= limit_bytes:
        return before
    dropped, marker_bytes = before
    head_bytes, tail_bytes = limit_bytes // 2, min(limit_bytes // 4, LARGEST_TAIL_BYTES)
    for _ in range(CUT_TRIES):
        size = os.fstat(descriptor).st_size
        if size <= limit_bytes:  # the command itself has emptied it
            return before
        tail = os.pread(descriptor, tail_bytes, size - tail_bytes)
        if os.fstat(descriptor).st_size == size:
            break
    dropped += size - head_bytes - len(tail) - marker_bytes
    text = f"at least {dropped} bytes dropped: this log is limited to {limit_bytes} bytes"
    marker = f"\n[... {text} ...]\n".encode()
    os.ftruncate(descriptor, head_bytes)
    os.write(descriptor, marker + tail)
    return dropped, len(marker)
