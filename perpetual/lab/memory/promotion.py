"""Decisions of a person on a note: `promote` vouches for one version of it, `reject` hides it from agents.

A decision binds the version's blob, and is in the ledger of verdicts with its reason; git does not get it, since a
note's status is the store's. Used by `Notes` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.errors import Conflict, Refused, UsageError
from perpetual.lab.context import Context
from perpetual.lab.gates import Gates
from perpetual.lab.kinds import INTENT, NOTE, VERDICT, LabTransaction, NoteRow
from perpetual.lab.permissions import person_only
from perpetual.slots.gate import TextProvenance
from perpetual.toolkit.units import bounded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perpetual.documents.memory import Finding, MemoryDecision, VerdictDocument

__all__ = ["promote", "reject", "title_of"]

# Of text that a gate has turned down there is no accepted version to vouch for.
_PROMOTABLE = ("candidate", "quarantined", "expired")


def promote(ctx: Context, gates: Gates, note: NoteRow, why: str, *, blob: str | None, dry_run: bool) -> MemoryDecision:
    """Shows agents the newest accepted version of the note from now on, as `Notes.promote` says."""
    _check_reason("a promotion", why)
    _check_promotable(note, blob)
    text = _text(ctx, note)
    verdict, _ = gates.judge(text, TextProvenance(note.id, note.body["type"], ctx.actor))
    findings: list[Finding] = [{**found, "part": "content"} for found in verdict.findings]
    verdict_now: VerdictDocument = {
        "outcome": verdict.outcome,
        "blocked": verdict.blocked,
        "category": verdict.category,
        "findings": findings,
    }
    answer = _answer(note, "promoted", why, verdict_now, dry_run=dry_run)
    if verdict.blocked:
        raise Refused(
            f"the note {note.id} is not promoted: {verdict.category}",
            hint="the findings say which words; write a version without them",
            code="note_rejected",
            data={**answer, "status": note.body["status"]},
        )
    if dry_run or note.body["status"] == "promoted":
        return answer
    with ctx.store.transaction() as tx:
        _check_unchanged(tx, note)
        shown = note.body["intent"]
        body = {
            **note.body,
            "status": "promoted",
            "title": title_of(text, note.id),
            "promoted": shown,
            "exposed": shown,
        }
        _decide(ctx, tx, note, body, verdict=verdict_now, why=why)
    return answer


def reject(ctx: Context, note: NoteRow, why: str) -> MemoryDecision:
    """Hides the newest version from agents, as `Notes.reject` says."""
    _check_reason("a rejection", why)
    if note.body["status"] == "rejected":
        raise Conflict(f"{note.id} is rejected already", hint=f"perpetual memory write {note.id} with another text")
    if note.body["status"] == "promoted":
        person_only(ctx, "taking a promotion back")
    decision: VerdictDocument = {"outcome": "reject", "blocked": True, "category": "decision", "findings": []}
    with ctx.store.transaction() as tx:
        _check_unchanged(tx, note)
        kept = note.body.get("promoted")
        kept = None if kept == note.body["intent"] else kept
        body = {**note.body, "status": "rejected", "promoted": kept, "exposed": kept}
        _decide(ctx, tx, note, body, verdict=decision, why=why)
    return _answer(note, "rejected", why, decision, dry_run=False)


def _check_reason(deed: str, why: str) -> None:
    if not why.strip():
        raise UsageError(f"{deed} needs a reason", hint="--why TEXT")
    bounded(why, "the reason")


def _check_promotable(note: NoteRow, blob: str | None) -> None:
    status = note.body["status"]
    if status not in (*_PROMOTABLE, "promoted"):
        raise Conflict(
            f"{note.id} is {status}, and there is no accepted text to promote",
            hint=f"perpetual memory write {note.id} with another text",
        )
    if blob is not None and not (blob and note.body["blob"].startswith(blob.lower())):
        raise Conflict(
            f"the newest version of {note.id} is {note.body['blob']}, not {blob}",
            hint=f"perpetual memory show {note.id}: read it, and promote the version that you have read",
            code="changed",
        )


def _check_unchanged(tx: LabTransaction, note: NoteRow) -> None:
    """Checks that the version that was judged is the one that is decided on: another process may have written."""
    now = tx.get(NOTE, note.id)
    if now is None or now.revision != note.revision:
        raise Conflict(f"{note.id} was changed while it was being decided on", hint="read it again", code="changed")


def _text(ctx: Context, note: NoteRow) -> str:
    row = ctx.store.get(INTENT, str(note.body["intent"]))
    assert row is not None, note.id
    return str(row.body["content"])


def _answer(note: NoteRow, status: str, why: str, verdict: VerdictDocument, *, dry_run: bool) -> MemoryDecision:
    return {
        "path": note.id,
        "type": note.body["type"],
        "was": note.body["status"],
        "status": status,
        "blob": note.body["blob"],
        "why": why,
        "dry_run": dry_run,
        "verdict": verdict,
    }


def _decide(
    ctx: Context, tx: LabTransaction, note: NoteRow, body: Mapping[str, object], *, verdict: VerdictDocument, why: str
) -> None:
    tx.append(
        VERDICT,
        {
            "path": note.id,
            "outcome": verdict["outcome"],
            "category": verdict["category"],
            "findings": verdict["findings"],
            "blob": note.body["blob"],
            "actor": ctx.actor,
            "time": ctx.now(),
            "content": None,
            "decision": body["status"],
            "why": why,
        },
    )
    tx.put(NOTE, note.id, body, expect_revision=note.revision)
    ctx.emit(tx, f"note_{body['status']}", note.id, {"blob": note.body["blob"], "was": note.body["status"], "why": why})


def title_of(text: str, path: str) -> str:
    """Returns what a note is listed as: its first line with words, without the marks of a heading."""
    for line in text.splitlines():
        words = line.strip().lstrip("#").strip()
        if words:
            return words[:120]
    return path
