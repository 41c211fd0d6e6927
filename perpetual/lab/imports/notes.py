"""Notes of an imported record: what made them visible elsewhere does not count here. Used by `storage`.

An export is a file that anyone can write. Its notes come in as candidates: the gates of this project judge the texts
again before an agent sees one, and a promotion is for a person here to give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perpetual.lab.gates import Gates
from perpetual.lab.memory.promotion import title_of
from perpetual.lab.permissions import PLAIN_TYPES
from perpetual.slots.memory import PathRefused
from perpetual.slots.store import Row

__all__ = ["judged"]

_VERSIONS = ("intent", "exposed", "promoted")
_STATUS_OF = {"pass": "candidate", "quarantine": "quarantined", "reject": "rejected"}
_DECIDED = ("rejected", "expired")

Rows = Iterator[tuple[str, Row]]


def judged(read: Callable[[], Rows], gates: Gates) -> Rows:
    """Yields the rows of an export with each note as the gates here judge it.

    Args:
        read: the rows from the first one on, each time it is called.
    """
    wanted = {str(row[key]) for kind, row in read() if kind == "note" for key in _VERSIONS if row.get(key) is not None}
    outcomes, titles = {}, {}
    for kind, row in read():
        if kind == "intent" and str(row["_id"]) in wanted:
            outcomes[str(row["_id"])], titles[str(row["_id"])] = _judge(gates, row)
    for kind, row in read():
        yield kind, _note(row, outcomes, titles) if kind == "note" else row


def _judge(gates: Gates, intent: Row) -> tuple[str, str]:
    """Returns what the gates here say of a version, and its title."""
    path, content, message = str(intent.get("path")), str(intent.get("content")), str(intent.get("message"))
    try:
        verdict, clean, _ = gates.judge_note(path, "note", content, message)
    except PathRefused:
        return "reject", path
    # A secret that is taken out only here is still in the imported text.
    outcome = "reject" if verdict.outcome != "reject" and clean != content else verdict.outcome
    return outcome, title_of(content, path)


def _note(row: Row, outcomes: dict[str, str], titles: dict[str, str]) -> Row:
    path = str(row.get("path"))
    passed = [str(row[key]) for key in _VERSIONS[1:] if outcomes.get(str(row.get(key))) == "pass"]
    shown: object = None
    if passed and row.get("type") in PLAIN_TYPES:
        shown = row["exposed"] if str(row["exposed"]) == passed[0] else row["promoted"]
    newest = str(row.get("intent"))
    status = row.get("status")
    if status not in _DECIDED:
        outcome = outcomes.get(newest, "reject")
        if status == "quarantined" and outcome == "pass":
            outcome = "quarantine"  # what made it so was taken out of the text, and no person has decided yet
        status = _STATUS_OF[outcome]
    title = titles[str(shown)] if shown is not None else titles[newest] if status == "candidate" else path
    return {**row, "status": status, "title": title, "exposed": shown, "promoted": None, "earlier": []}
