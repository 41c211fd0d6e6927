"""Thoughts as documents, and as lines for a terminal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from perpetual.api import NotFound
from perpetual_thinkers.records import THOUGHT, Thought, replies_to, thought_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_thinkers.documents import ThoughtDocument, ThoughtLine

__all__ = ["document_of", "line_of", "page", "text_of"]


def page(lab: Lab, *, limit: int, cursor: str | None = None) -> tuple[list[ThoughtLine], str | None]:
    """Returns thoughts in short, the newest first, and the cursor of the next page."""
    found = lab.records(THOUGHT).list(limit=limit, cursor=cursor, newest_first=True)
    return [line_of(thought_of(record)) for record in found.items], found.next_cursor


def line_of(thought: Thought) -> ThoughtLine:
    """Returns a thought in short."""
    outcome = thought.outcome
    proposals = outcome.get("proposals")
    made = [
        outcome.get("note"),
        outcome.get("evidence"),
        outcome.get("candidate"),
        *(proposals if isinstance(proposals, list) else []),
    ]
    problem = outcome.get("note_problem")
    return {
        "id": thought.id, "kind": thought.kind, "subject": thought.subject, "thinker": thought.thinker,
        "state": thought.state, "attempts": thought.attempts, "made": [str(one) for one in made if one is not None],
        "reason": thought.reason or (f"no note: {problem}" if problem else None), "created_at": thought.created_at,
    }  # fmt: skip


def document_of(lab: Lab, id: str) -> ThoughtDocument:
    """Returns a thought with its question and its replies.

    Raises:
        NotFound: if there is none of that id.
    """
    try:
        thought = thought_of(lab.records(THOUGHT).get(id))
    except NotFound as problem:
        raise NotFound(f"no thought {id[:60]}", hint=problem.hint) from None
    return {
        **line_of(thought),
        "request_id": thought.request_id,
        "asked": thought.asked,
        "problem": thought.problem,
        "left_out": _texts(thought.outcome.get("left_out")),
        "ideas": _texts(thought.outcome.get("ideas")),
        "replies": [
            {"attempt": row["attempt"], "text": row["text"], "tokens_in": row["tokens_in"],
             "tokens_out": row["tokens_out"], "usd": row["usd"], "model": row["model"] or "",
             "created_at": row.created_at}
            for row in replies_to(lab, thought)
        ],
    }  # fmt: skip


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def text_of(found: ThoughtDocument) -> str:
    """Returns a thought in words."""
    lines = [f"{found['id']}  {found['kind']} {found['subject']}  {found['state']}  by {found['thinker']}",
             f"  asked {found['attempts']} times since {found['created_at']}"]  # fmt: skip
    lines += [f"  first reply refused: {found['problem']}"] if found["problem"] else []
    lines += [f"  {found['reason']}"] if found["reason"] else []
    lines += [f"  made: {', '.join(found['made'])}"] if found["made"] else []
    lines += [f"  left out: {one}" for one in found["left_out"]]
    lines += [f"  idea: {one}" for one in found["ideas"]]
    for reply in found["replies"]:
        counted = ((reply["tokens_in"], "tokens in"), (reply["tokens_out"], "tokens out"), (reply["usd"], "USD"))
        counts = ", ".join(f"{count} {words}" for count, words in counted if count is not None)
        lines += [f"  reply {reply['attempt']} {reply['model']} {counts}".rstrip(), reply["text"]]
    if found["asked"]:
        lines += ["  asked about:", json.dumps(json.loads(found["asked"]), indent=1, ensure_ascii=False)]
    return "\n".join(lines)
