"""Tombstones: what was rejected, and whether a text says it again.

Of a note that a person or evidence took back it is the whole text; of one that a gate rejected, the lines in which the
gate found something, so that the note without them may be written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual_lineage.likeness import COSINE, Claim, claim_of, frozen, is_again, is_parted, thawed, units_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perpetual import Lab
    from perpetual.api import Event
    from perpetual_lineage.index import Connection

__all__ = ["TABLES", "Tombstone", "again", "fold", "keep", "start"]

LEDGER = "lineage.tombstone"
_LONGEST = 16 * 1024  # characters of a text that are kept
_LONGEST_WHY = 160
_MOST = 12  # tombstones that are compared with a text
_MOST_TERMS = 900
_SHARE = 0.5  # of a tombstone's words that a text must have to be compared with it
_SHARE_WITH_VECTORS = 0.2
TABLES = (
    "CREATE TABLE tombs (no INTEGER PRIMARY KEY, path TEXT, blob TEXT, event INTEGER, why TEXT, claim TEXT, "
    "text TEXT, size INTEGER, in_ledger INTEGER, UNIQUE (path, blob))",
    "CREATE INDEX tombs_blob ON tombs (blob)",
    "CREATE TABLE terms (term TEXT, tomb INTEGER, PRIMARY KEY (term, tomb)) WITHOUT ROWID",
    "CREATE INDEX terms_tomb ON terms (tomb)",
    "CREATE TABLE vouched (blob TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE vectors (embedder TEXT, digest TEXT, vector TEXT, PRIMARY KEY (embedder, digest)) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A version that was rejected: its path, why, and the claim that counts; its text where the index has it."""

    path: str
    why: str
    claim: Claim
    text: str | None


def start(lab: Lab, connection: Connection) -> None:
    """Takes up what the ledger kept: texts that newer versions have replaced."""
    cursor: str | None = None
    while True:
        page = lab.records(LEDGER).list(limit=500, cursor=cursor)
        for row in page.items:
            try:
                claim = thawed(row["claim"])
            except (KeyError, TypeError, ValueError):
                continue  # no claim as this version writes it: an imported record's, or a newer one's
            _put(connection, str(row["path"]), str(row["blob"]), int(row["event"]), str(row["why"]), claim, None)
        cursor = page.next_cursor
        if cursor is None:
            return


def fold(lab: Lab, connection: Connection, event: Event) -> None:
    """Takes up a rejection, or a promotion, which takes a tombstone away."""
    blob, path = str(event.payload.get("blob", "")), event.subject
    if event.kind == "note_promoted":
        connection.execute("INSERT OR IGNORE INTO vouched VALUES (?)", (blob,))
        rows = connection.execute("SELECT no FROM tombs WHERE blob = ? AND event < ?", (blob, event.seq)).fetchall()
        _remove(connection, [no for (no,) in rows])
        return
    is_gates = event.kind == "note_written" and event.payload.get("status") == "rejected"
    if not is_gates and event.kind not in ("note_rejected", "note_quarantined"):
        return
    connection.execute("DELETE FROM vouched WHERE blob = ?", (blob,))
    text = _text(lab, path, blob)
    if text is None:
        return  # a newer version has replaced it: what the ledger kept is there already
    why = str(event.payload.get("why", ""))
    if is_gates:
        text, why = _found_lines(lab, path, str(event.payload.get("type", "note")), text)
    if text.strip():
        from perpetual_recall.front import split

        body = (split(text)[1] or text)[:_LONGEST]
        _put(connection, path, blob, event.seq, why, claim_of(body), body)


def _text(lab: Lab, path: str, blob: str) -> str | None:
    try:
        text = lab.memory.read(path, exposed_only=False) if lab.memory.get(path).blob == blob else None
    except NotFound:
        return None
    return text


def _found_lines(lab: Lab, path: str, type: str, text: str) -> tuple[str, str]:
    """Returns the lines of a text in which gates find something, and what they find."""
    verdict = lab.memory.scan(text, path=path, type=type)
    kept: list[str] = []
    place = 0
    for line in text.splitlines(keepends=True):
        spans = (one["span"] for one in verdict["findings"])
        if any(start < place + len(line) and end > place for start, end in spans):
            kept.append(line)
        place += len(line)
    return "".join(kept), f"a gate found {verdict['category']}"


def _put(
    connection: Connection, path: str, blob: str, event: int, why: str, claim: Claim, text: str | None
) -> None:  # fmt: skip
    """Writes a tombstone; one without its text comes from the ledger."""
    line = "".join(c if c.isprintable() else " " for c in why[: _LONGEST_WHY + 1])
    why = line if len(line) <= _LONGEST_WHY else line[: _LONGEST_WHY - 3] + "..."
    old = connection.execute("SELECT no, in_ledger FROM tombs WHERE path = ? AND blob = ?", (path, blob)).fetchone()
    if old is not None:
        _remove(connection, [old[0]])
    in_ledger = text is None or (old is not None and bool(old[1]))
    made = connection.execute(
        "INSERT INTO tombs (path, blob, event, why, claim, text, size, in_ledger) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (path, blob, event, why, json.dumps(frozen(claim)), text, len(claim.words), in_ledger),
    )
    connection.executemany("INSERT INTO terms VALUES (?, ?)", ((word, made.lastrowid) for word in claim.words))


def _remove(connection: Connection, numbers: Iterable[int]) -> None:
    for number in numbers:
        connection.execute("DELETE FROM terms WHERE tomb = ?", (number,))
        connection.execute("DELETE FROM tombs WHERE no = ?", (number,))


def keep(lab: Lab, connection: Connection) -> None:
    """Writes the tombstones that are new to the ledger, so that a lost index has them again."""
    rows = connection.execute(
        "SELECT no, path, blob, event, why, claim FROM tombs WHERE NOT in_ledger ORDER BY no LIMIT 500"
    ).fetchall()
    for number, path, blob, event, why, claim in rows:
        key = f"tombstone:{path}:{blob}:{event}"
        lab.records(LEDGER).append(
            path=path, blob=blob, event=event, why=why, claim=json.loads(claim), idempotency_key=key
        )
        connection.execute("UPDATE tombs SET in_ledger = 1 WHERE no = ?", (number,))


def again(lab: Lab, connection: Connection, text: str) -> Tombstone | None:
    """Returns the newest rejected version whose claim a text makes again; None where there is none."""
    from perpetual_recall.front import split

    if connection.execute("SELECT 1 FROM tombs LIMIT 1").fetchone() is None:
        return None
    blob = lab.part("memory").blob_id(text)
    if connection.execute("SELECT 1 FROM vouched WHERE blob = ?", (blob,)).fetchone():
        return None
    body = split(text)[1] or text
    units = units_of(body)
    claims = [claim_of(unit) for unit in units]
    embedders = lab.parts("embedder")
    share = _SHARE_WITH_VECTORS if embedders else _SHARE
    found = _candidates(connection, claims, share)
    for tomb in found:
        if any(is_again(tomb.claim, claim) for claim in claims):
            return tomb
    return _by_vectors(lab, connection, found, units, claims) if embedders and found else None


def _candidates(connection: Connection, claims: list[Claim], share: float) -> list[Tombstone]:
    """Returns the tombstones of whose words a text has most."""
    words = sorted(frozenset().union(*(claim.words for claim in claims)))[:_MOST_TERMS]
    if not words:
        return []
    rows = connection.execute(
        "SELECT path, why, claim, text FROM (SELECT tomb, COUNT(*) AS hits FROM terms "
        f"WHERE term IN ({', '.join('?' * len(words))}) GROUP BY tomb) JOIN tombs ON tombs.no = tomb "
        "WHERE hits >= ? * size ORDER BY CAST(hits AS REAL) / size DESC, tomb DESC LIMIT ?",
        (*words, share, _MOST),
    ).fetchall()
    return [Tombstone(path, why, thawed(json.loads(claim)), text) for path, why, claim, text in rows]


def _by_vectors(
    lab: Lab, connection: Connection, found: list[Tombstone], units: list[str], claims: list[Claim]
) -> Tombstone | None:
    """Returns the first tombstone whose vector is as good as that of the text or of a sentence of it."""
    from perpetual_recall.embedder import cosine

    name, part = lab.parts("embedder")[0]
    texts = [*dict.fromkeys(tomb.text for tomb in found if tomb.text is not None)]
    known = {text: vector for text in texts if (vector := _kept(connection, name, text)) is not None}
    new = [text for text in texts if text not in known]
    vectors = [[float(number) for number in vector] for vector in part.embed([*units, *new])]
    for text, vector in zip(new, vectors[len(units) :], strict=True):
        known[text] = vector
        row = (name, _digest(text), json.dumps(vector))
        connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", row)
    for tomb in found:
        for claim, vector in zip(claims, vectors, strict=False):  # behind these are the vectors of tombstones
            is_near = tomb.text is not None and cosine(known[tomb.text], vector) >= COSINE
            if is_near and not is_parted(tomb.claim, claim):
                return tomb
    return None


def _kept(connection: Connection, name: str, text: str) -> list[float] | None:
    query = "SELECT vector FROM vectors WHERE embedder = ? AND digest = ?"
    row = connection.execute(query, (name, _digest(text))).fetchone()
    return None if row is None else [float(number) for number in json.loads(row[0])]


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()
