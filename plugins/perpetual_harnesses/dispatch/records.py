"""The records of turns: what a harness was asked, what came of it, and the sums of each of its sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Field, RecordKind
from perpetual_harnesses.dispatch.base import Usage

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_harnesses.dispatch.documents import TurnDocument

__all__ = ["ENDED", "GOING", "LOST", "REFUSED", "SESSION", "TURN", "document_of", "kinds", "last_session", "sums_of"]

TURN, SESSION = "harnesses.turn", "harnesses.session"
GOING, ENDED, LOST, REFUSED = "going", "ended", "lost", "refused"


def kinds() -> list[RecordKind]:
    """Returns the kinds that the dispatch brings."""
    turn = {
        "harness": Field("str", "The harness that was driven.", required=True),
        "dispatcher": Field("str", "How: acp, argv, or a plugin's.", required=True),
        "purpose": Field("str", "What for: ask, think, or what a caller names.", required=True),
        "mark": Field("str", "What its processes carry in their environment.", private=True),
        "driver": Field("list", "Boot, pid and start of the process that drove it.", private=True),
        "state": Field("str", "going, ended, lost (its driver died) or refused (nothing was started).", required=True),
        "key": Field("str", "The caller's idempotency key."),
        "prompt": Field("str", "What was asked.", private=True),
        "session": Field("str", "The session's id, as the harness names it."),
        "outcome": Field("str", "How it ended, by name."),
        "outcomes": Field("list", "Everything that was not as it should be, by name."),
        "problem": Field("str", "What was wrong, in a line."),
        "text": Field("str", "What the model said.", private=True),
        "tools": Field("list", "Its tool calls: title, kind, status."),
        "refused": Field("list", "Permissions that were refused: titles."),
        "left": Field("list", "Processes that had to be ended, by name."),
        "tokens_in": Field("int", "Tokens that the model read."),
        "tokens_out": Field("int", "Tokens that the model wrote."),
        "usd": Field("float", "US dollars."),
        "steps": Field("int", "Calls of the model."),
        "model": Field("str", "The model, as the harness names it."),
        "duration_s": Field("float", "Seconds."),
    }
    session = {
        "harness": Field("str", "The harness that has it.", required=True),
        "session": Field("str", "Its id, as the harness names it.", required=True),
        "purpose": Field("str", "What it is for.", required=True),
        "dispatcher": Field("str", "How it was driven last.", required=True),
        "tokens_in": Field("int", "Sum that the harness reports, where it reports sums."),
        "tokens_out": Field("int", "Sum that the harness reports, where it reports sums."),
        "usd": Field("float", "US dollars, as the harness sums them."),
        "turns": Field("int", "Turns of the lab in it.", required=True),
    }
    return [
        RecordKind("turn", turn, indexes=("state", "key", "purpose", "session")),
        RecordKind("session", session, indexes=("session", "purpose"), exported=False),
    ]


def sums_of(record: Record | None) -> Usage:
    """Returns the sums that a session's harness has reported."""
    return Usage() if record is None else Usage(record["tokens_in"], record["tokens_out"], record["usd"])


def last_session(lab: Lab, purpose: str, harness: str | None = None) -> Record | None:
    """Returns the session that was begun last for a purpose, of one harness or of any."""
    found = [one for one in lab.records(SESSION).find(purpose=purpose) if harness in (None, one["harness"])]
    turns = [one["session"] for one in lab.records(TURN).find(purpose=purpose) if one["session"]]
    newest = {session: place for place, session in enumerate(turns)}
    return max(found, key=lambda one: (newest.get(one["session"], -1), one.number), default=None)


def document_of(record: Record) -> TurnDocument:
    """Returns a turn as people and programs are shown it."""
    tokens = [one for one in (record["tokens_in"], record["tokens_out"]) if one is not None]
    calls = record["tools"] or []
    return {
        "id": record.id, "harness": record["harness"], "dispatcher": record["dispatcher"],
        "purpose": record["purpose"], "state": record["state"], "outcome": record["outcome"],
        "outcomes": record["outcomes"] or [], "problem": record["problem"] or None, "text": record["text"] or "",
        "session_id": record["session"], "tokens": sum(tokens) if tokens else None,
        "tokens_in": record["tokens_in"], "tokens_out": record["tokens_out"], "cost": record["usd"],
        "steps": record["steps"], "model": record["model"] or None, "tools": [one["title"] for one in calls],
        "tool_calls": calls, "refused": record["refused"] or [], "left": record["left"] or [],
        "duration_s": record["duration_s"], "created_at": record.created_at,
    }  # fmt: skip
