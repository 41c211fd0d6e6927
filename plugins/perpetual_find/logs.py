"""The output of runs that have ended: its start and its end are indexed when logs are searched, each run once.

A run's output does not change once it has ended. A run that was lost and found again is indexed anew. The index holds
words and no text: lines are read from the files again, and pass the redactor both times. Of a file longer than two
pieces what lies between them is not searched.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import printable
from perpetual.toolkit.confined import open_file
from perpetual_find.transaction import transaction

if TYPE_CHECKING:
    from pathlib import Path

    from perpetual import Lab

__all__ = ["FILES", "PIECE_BYTES", "Line", "LogHit", "line_of", "refresh", "search_logs"]

PIECE_BYTES = 64 * 1024  # of the start of a file, and of its end
FILES = ("stdout.log", "stderr.log")
_LONGEST_LINE = 300  # characters that are shown
_COUNTED_BYTES = 64 * 2**20  # of a longer file the lines of the end have no number
_CHUNK = 2**20
_LIVE = ("queued", "launching", "running")
_TABLES = (
    "CREATE TABLE IF NOT EXISTS logs (no INTEGER PRIMARY KEY, run TEXT, file TEXT, status TEXT, "
    "UNIQUE (run, file, status))",
    "CREATE VIRTUAL TABLE IF NOT EXISTS log_words USING fts5 (body, content = '', tokenize = 'porter unicode61')",
)
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")  # colours, which would hide the word behind them


class LogHit(NamedTuple):
    """A file that matches, with what the index knows of its run."""

    run: str
    file: str
    status: str | None
    tags: str  # JSON
    archived: bool
    score: float


class Line(NamedTuple):
    """A line of a file; `number` is None in the end of a file that is too long to count."""

    number: int | None
    text: str


def refresh(lab: Lab, connection: sqlite3.Connection) -> None:
    """Indexes the output of runs that have ended and are not indexed yet, in one transaction."""
    for table in _TABLES:
        connection.execute(table)
    marks = ", ".join("?" * len(_LIVE))
    waiting = (
        f"SELECT id, status FROM records WHERE kind = 'run' AND status NOT IN ({marks}) "
        "AND NOT EXISTS (SELECT 1 FROM logs WHERE logs.run = records.id AND logs.status = records.status)"
    )
    if connection.execute(f"{waiting} LIMIT 1", _LIVE).fetchone() is None:
        return
    with transaction(connection):
        for run, status in connection.execute(waiting, _LIVE).fetchall():
            for file in FILES:
                made = connection.execute("INSERT INTO logs (run, file, status) VALUES (?, ?, ?)", (run, file, status))
                text = "\n".join(line.text for line in _lines(lab, run, file))
                if text:
                    connection.execute("INSERT INTO log_words (rowid, body) VALUES (?, ?)", (made.lastrowid, text))


def search_logs(
    connection: sqlite3.Connection, match: str, tags: Sequence[str], start: int, limit: int
) -> list[LogHit]:
    """Returns at most `limit` files that match from the number `start` on, the best first; of equals the newest."""
    tagged = "AND EXISTS (SELECT 1 FROM json_each(records.tags) WHERE json_each.value = ?) " * len(tags)
    rows = connection.execute(
        "SELECT logs.run, logs.file, records.status, records.tags, records.archived, -bm25(log_words) "
        "FROM log_words JOIN logs ON logs.no = log_words.rowid "
        "JOIN records ON records.kind = 'run' AND records.id = logs.run AND records.status = logs.status "
        f"WHERE log_words MATCH ? {tagged}ORDER BY bm25(log_words), logs.no DESC LIMIT ? OFFSET ?",
        (match, *tags, limit, start),
    )
    return [LogHit(run, file, status, tags_, bool(archived), round(score, 6))
            for run, file, status, tags_, archived, score in rows]  # fmt: skip


def line_of(lab: Lab, run: str, file: str, words: Sequence[str]) -> Line | None:
    """Returns the first line with the most of the words; None where the file is gone or has none of them now."""
    best, most = None, 0
    for line in _lines(lab, run, file):
        low = line.text.casefold()
        count = sum(word in low for word in words)
        if count > most:
            best, most = line, count
    if best is None:
        return None
    place = min(at for word in words if (at := best.text.casefold().find(word)) >= 0)
    begin = max(0, place - _LONGEST_LINE // 2) if len(best.text) > _LONGEST_LINE else 0
    return Line(best.number, best.text[begin : begin + _LONGEST_LINE])


def _lines(lab: Lab, run: str, file: str) -> Iterator[Line]:
    """Yields the lines of the start and of the end of a run's file, without secrets and control characters."""
    redactor = lab.part("redactor")
    for number, data in _pieces(lab.runs.log_dir(run) / file):
        text = redactor.text(_ANSI.sub("", data.decode("utf-8", "replace")).replace("\r", " "))
        for count, line in enumerate(text.split("\n")):
            yield Line(None if number is None else number + count, printable(line))


def _pieces(path: Path) -> Iterator[tuple[int | None, bytes]]:
    """Yields (number of the first line, bytes) of whole lines; nothing where a run has put something else there."""
    try:
        descriptor = open_file(path)
    except OSError:
        return
    with open(descriptor, "rb") as file:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode):
            return
        if seen.st_size <= 2 * PIECE_BYTES:
            yield 1, file.read(2 * PIECE_BYTES)
            return
        first = file.read(PIECE_BYTES)
        yield 1, first.rpartition(b"\n")[0] or first  # without a line that is cut
        begin, number = seen.st_size - PIECE_BYTES, None
        if seen.st_size <= _COUNTED_BYTES:
            file.seek(0)
            left, number = begin, 1
            while left > 0 and (piece := file.read(min(left, _CHUNK))):
                left, number = left - len(piece), number + piece.count(b"\n")
        file.seek(begin)
        cut, _, rest = file.read(PIECE_BYTES).partition(b"\n")
        yield None if number is None else number + 1, rest or cut
