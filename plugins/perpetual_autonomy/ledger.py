"""The ledger of rights: what was earned, lost, revoked and restored, and what was approved by which right."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from perpetual.toolkit import user_state
from perpetual.toolkit.quiet import day_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["CHANGE", "RULE", "USE", "Person", "append", "day_now", "last_change", "person_said", "used_of_day", "uses"]

CHANGE, USE = "autonomy.change", "autonomy.use"
RULE = 1  # the version of the rule by which rights are earned and lost
_PAGE = 200


class Person(NamedTuple):
    """What persons said of a pair's right: whether it is revoked, and the events at which it was."""

    is_revoked: bool
    revoked_at: tuple[int, ...]
    why: str | None


def _rows(lab: Lab, kind: str) -> Iterator[Record]:
    """Yields the rows of a ledger, the newest first."""
    cursor: str | None = None
    while True:
        page = lab.records(kind).list(limit=_PAGE, cursor=cursor, newest_first=True)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _changes(lab: Lab, pair: tuple[str, str]) -> Iterator[Record]:
    return (row for row in _rows(lab, CHANGE) if (row["proposer"], row["action"]) == pair)


def last_change(lab: Lab, pair: tuple[str, str]) -> Record | None:
    """Returns the newest row of a pair that says that its right was earned or lost."""
    return next((row for row in _changes(lab, pair) if row["change"] in ("earned", "lost")), None)


def person_said(lab: Lab, pair: tuple[str, str]) -> Person:
    """Returns what persons said of a pair's right. Only a restoration that was made here lifts a revocation."""
    rows = [row for row in _changes(lab, pair) if row["change"] in ("revoked", "restored")]
    open_, why = 0, None
    for row in reversed(rows):
        if row["change"] == "revoked":
            open_, why = row.number, row["why"]
        elif row["of"] == open_ and hmac.compare_digest(str(row["mark"]), _mark(lab, pair, open_)):
            open_, why = 0, None
    return Person(bool(open_), tuple(row["seq"] for row in rows if row["change"] == "revoked"), why)


def open_revocation(lab: Lab, pair: tuple[str, str]) -> int:
    """Returns the number of the revocation in force, 0 without one."""
    newest = next((row for row in _changes(lab, pair) if row["change"] == "revoked"), None)
    return newest.number if newest is not None and person_said(lab, pair).is_revoked else 0


def append(lab: Lab, pair: tuple[str, str], change: str, *, seq: int, why: str, facts: dict[str, object]) -> Record:
    """Appends what became of a pair's right, and its event."""
    of = open_revocation(lab, pair) if change == "restored" else None
    mark = None if of is None else _mark(lab, pair, of)
    with lab.transaction():
        row = lab.records(CHANGE).append(proposer=pair[0], action=pair[1], change=change, rule=RULE, seq=seq, why=why,
                                         facts=facts, of=of, mark=mark)  # fmt: skip
        payload = {"proposer": pair[0], "action": pair[1], "right": row.number, "why": why, "rule": RULE}
        lab.feed.emit(f"autonomy.{change}", f"{pair[0]} {pair[1]}", payload)
    return row


def _mark(lab: Lab, pair: tuple[str, str], of: int) -> str:
    """Returns what makes the restoration of a revocation count: a hash keyed by a secret of this user."""
    text = json.dumps(["right", lab.config.project_id, str(lab.root), *pair, of])
    return hmac.new(user_state.secret(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def now() -> datetime:
    """Returns the present."""
    return datetime.now(UTC)


def day_now(lab: Lab) -> str:
    """Returns the day that approvals count for: this machine's, and never one before that of the newest row.

    A clock that is set back makes no day anew.
    """
    newest = lab.records(USE).list(limit=1, newest_first=True).items
    today = day_of(now())
    return max(today, str(newest[0]["day"])) if newest else today


def used_of_day(lab: Lab, action: str, day: str) -> float:
    """Returns the run-hours that rights of a class have approved on a day."""
    total = 0.0
    for row in _rows(lab, USE):
        if row["day"] < day:
            break
        total += row["run_hours"] if row["action"] == action else 0.0
    return total


def uses(lab: Lab, pair: tuple[str, str]) -> list[str]:
    """Returns the experiments that rights of a pair have approved, the newest first."""
    return [row["experiment"] for row in _rows(lab, USE) if (row["proposer"], row["action"]) == pair]
