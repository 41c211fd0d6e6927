"""Schema of the database: its tables, and the SQL that makes and asks them. Imported by `store.py` alone.

    _meta(commit_number, counters)           one row: the last commit, and the counter of each kind as JSON
    hypothesis(number, id, rev, seq, body)   a table for each kind of documents; body is the document as JSON
    event(number, seq, body)                 a table for each ledger, which triggers keep from every change

Each field that a kind declares has an index on `json_extract(body, '$."field"')`. Documents have one on `seq` for the
feed; a ledger is in that order by its numbers. The triggers stand in the file, so that they hold for whatever program
opens it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from perpetual.api import StoreKind

__all__ = ["APPLICATION_ID", "LAYOUT", "Table", "build", "condition", "faults", "table"]

APPLICATION_ID = 0x50657270  # "Perp", shown by file(1)
LAYOUT = 1  # PRAGMA user_version

_PLAIN = re.compile(r"[a-z][a-z0-9_]*")
_META = """CREATE TABLE _meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  commit_number INTEGER NOT NULL,
  counters TEXT NOT NULL
)"""
_EXACT = 2**31  # smaller whole numbers are the same to SQLite and to Python, however JSON spells them


def quoted(name: str) -> str:
    """Returns a quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def table_of(kind: str) -> str:
    """Returns the table's name: an unusual kind in hex, since SQLite ignores case and reserves some names."""
    return kind if _PLAIN.fullmatch(kind) and not kind.startswith("sqlite_") else f"kind {kind.encode().hex()}"


def path_of(field: str) -> str | None:
    """Returns the JSON path of a top-level field as an SQL literal, or None if a path cannot name it."""
    if not field.isprintable() or '"' in field or "\\" in field:
        return None
    return "'$.\"" + field.replace("'", "''") + "\"'"


@dataclass(frozen=True, slots=True)
class Table:
    """A kind's table: its name, and the SQL that all have need of."""

    kind: StoreKind
    name: str
    parts: dict[str, str]  # name -> SQL of what makes it: the table first, then indexes and triggers
    select: str  # to be gone on with a condition; answers number, seq, body, id, revision
    count: str  # the same; answers how many
    insert: str  # of (number, seq, body) into a ledger, else of (number, id, revision, seq, body)
    feed: str  # of what was written after a commit: seq, id


@cache
def table(kind: StoreKind) -> Table:
    """Returns the table, indexes and triggers of a kind as it is declared."""
    name = table_of(kind.name)
    quote = quoted(name)
    id, revision = ("CAST(number AS TEXT)", "1") if kind.ledger else ("id", "rev")
    later = "seq > ?"
    if kind.ledger:
        # From the newest back to the first that is not later: as many steps as there are later ones.
        last = f"SELECT number FROM {quote} WHERE seq <= ? ORDER BY number DESC LIMIT 1"
        later = f"number > coalesce(({last}), 0)"
        insert = f"INSERT INTO {quote} (number, seq, body) VALUES (?, ?, ?)"
    else:
        insert = (
            f"INSERT INTO {quote} (number, id, rev, seq, body) VALUES (?, ?, ?, ?, ?) ON CONFLICT (number) DO UPDATE "
            "SET id = excluded.id, rev = excluded.rev, seq = excluded.seq, body = excluded.body"
        )
    return Table(
        kind,
        name,
        {**_table(kind), **_indexes(kind), **_triggers(kind)},
        f"SELECT number, seq, body, {id}, {revision} FROM {quote} WHERE ",
        f"SELECT count(*) FROM {quote} WHERE ",
        insert,
        f"SELECT seq, {id} FROM {quote} WHERE {later}",
    )


def _table(kind: StoreKind) -> dict[str, str]:
    name = table_of(kind.name)
    own = "" if kind.ledger else "id TEXT NOT NULL UNIQUE, rev INTEGER NOT NULL, "
    columns = f"number INTEGER PRIMARY KEY, {own}seq INTEGER NOT NULL, body TEXT NOT NULL"
    return {name: f"CREATE TABLE {quoted(name)} ({columns})"}


def _indexes(kind: StoreKind) -> dict[str, str]:
    name = table_of(kind.name)
    expressions = {} if kind.ledger else {f"{name} by seq": "seq"}
    for field in kind.indexes:
        path = path_of(field)
        if path is not None:
            plain = field if _PLAIN.fullmatch(field) else field.encode().hex()
            expressions[f"{name} by field {plain}"] = f"json_extract(body, {path})"
    return {
        index: f"CREATE INDEX {quoted(index)} ON {quoted(name)} ({expression})"
        for index, expression in expressions.items()
    }


def _triggers(kind: StoreKind) -> dict[str, str]:
    """Returns the triggers that keep a ledger as it is; none for documents.

    The trigger on INSERT keeps the numbers dense, and with that refuses INSERT OR REPLACE, which removes the old row
    without calling the one on DELETE.
    """
    if not kind.ledger:
        return {}
    name = table_of(kind.name)
    refusal = f"{kind.name} is a ledger: its rows are appended, never changed or removed".replace("'", "''")
    dense = f"WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM {quoted(name)}) "
    return {
        f"{name} {deed.lower()}": (
            f"CREATE TRIGGER {quoted(f'{name} {deed.lower()}')} BEFORE {deed} ON {quoted(name)} "
            f"{dense if deed == 'INSERT' else ''}BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
        )
        for deed in ("UPDATE", "DELETE", "INSERT")
    }


def build(connection: sqlite3.Connection, kinds: Iterable[StoreKind]) -> None:
    """Fills a new database: no commit yet, a table for each kind."""
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={LAYOUT}")
    connection.execute(_META)
    connection.execute("INSERT INTO _meta VALUES (1, 0, '{}')")
    for kind in kinds:
        for statement in table(kind).parts.values():
            connection.execute(statement)


def faults(connection: sqlite3.Connection, table: Table, names: set[str], count: int, commit: int) -> list[str]:
    """Returns what is wrong with a kind of which the store has counted `count` up to that commit, each a few words."""
    problems = [f"the trigger {name!r} is missing" for name in _triggers(table.kind) if name not in names]
    quote = quoted(table.name)
    ((rows, last, seq),) = connection.execute(
        f"SELECT count(*), coalesce(max(number), 0), coalesce(max(seq), 0) FROM {quote}"
    ).fetchall()
    if not rows == last == count:
        problems.append(f"{count} were counted, {rows} are there, and the last has number {last}")
    if seq > commit:
        problems.append(f"a row is of commit {seq}, and the last commit was {commit}")
    spoilt = connection.execute(f"SELECT number FROM {quote} WHERE NOT json_valid(body) LIMIT 1").fetchall()
    return problems + [f"row {number} is no JSON document" for (number,) in spoilt]


def condition(equals: Mapping[str, object]) -> tuple[list[str], list[int | str]]:
    """Returns SQL conditions with their parameters that every match fulfils, but perhaps not only matches.

    What equals what is Python's affair (`1 == 1.0 == True`, lists by their items); SQL narrows where the two surely
    agree: text, truth, whole numbers that both hold exactly, and null, which is what a missing field equals.
    """
    terms: list[str] = []
    values: list[int | str] = []
    for field, value in equals.items():
        path = path_of(field)
        if path is None:
            continue
        if value is None:
            terms.append(f"json_extract(body, {path}) IS NULL")
        elif (isinstance(value, int) and abs(value) < _EXACT) or (isinstance(value, str) and "\0" not in value):
            terms.append(f"json_extract(body, {path}) = ?")
            values.append(value)
    return terms, values
