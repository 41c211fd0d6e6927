"""Decisions on a note: a person's `promote` vouches for one version of it, `reject` hides it from agents.

`decide` does as the promotion stages say, by evidence.

A decision binds the version's blob, and is in the ledger of verdicts with its reason; git does not get it, since a
note's status is the store's. Used by `Notes` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from perpetual.errors import Conflict, Refused, UsageError
from perpetual.lab.context import Context
from perpetual.lab.gates import Gates
from perpetual.lab.kinds import INTENT, NOTE, VERDICT, LabTransaction, NoteRow
from perpetual.lab.permissions import person_only
from perpetual.slots.gate import DECISIONS, StageVerdict, TextProvenance
from perpetual.toolkit.units import bounded

if TYPE_CHECKING:
    from perpetual.documents.memory import Finding, MemoryDecision, VerdictDocument
    from perpetual.lab.bodies import NoteBody
    from perpetual.records.states import NoteStatus

__all__ = ["decide", "promote", "reject", "title_of", "verdict_on"]

Asked = tuple[str, Callable[[str], StageVerdict]]  # a stage's name, and what asks it about a text
_STATUS_OF: dict[str, NoteStatus] = {
    "promote": "promoted", "reject": "rejected", "quarantine": "quarantined", "expire": "expired",
}  # fmt: skip

# Of text that a gate has turned down there is no accepted version to vouch for.
_PROMOTABLE = ("candidate", "quarantined", "expired")


def promote(ctx: Context, gates: Gates, note: NoteRow, why: str, *, blob: str | None, dry_run: bool) -> MemoryDecision:
    """Shows agents the newest accepted version of the note from now on, as `Notes.promote` says."""
    _check_reason("a promotion", why)
    _check_promotable(note, blob)
    text = _text(ctx, note)
    verdict = verdict_on(ctx, gates, note.id, note.body["type"], text)
    answer = _answer(note, "promoted", why, verdict, dry_run=dry_run)
    if verdict["outcome"] == "reject":
        raise Refused(
            f"the note {note.id} is not promoted: {verdict['category']}",
            hint="the findings say which words; write a version without them",
            code="note_rejected",
            data={**answer, "status": note.body["status"]},
        )
    if dry_run or note.body["status"] == "promoted":
        return answer
    _put(ctx, note, _promoted(note, text, proven=False), answer)
    return answer


def decide(ctx: Context, gates: Gates, note: NoteRow, stages: Iterable[Asked], *, dry_run: bool) -> MemoryDecision:
    """Does as the promotion stages say, as `Notes.decide` says."""
    _check_promotable(note, None)
    text, was = _text(ctx, note), note.body["status"]
    said = {name: ask(text) for name, ask in stages}
    grave = max((one.decision for one in said.values()), key=DECISIONS.index, default="abstain")
    why = "; ".join(f"{name}: {one.reason}" for name, one in said.items() if one.decision == grave != "abstain")
    verdict = verdict_on(ctx, gates, note.id, note.body["type"], text)
    if grave == "promote" and verdict["outcome"] != "pass":
        grave, why = "wait", f"the gates say {verdict['outcome']} ({verdict['category']}): a person decides"
    status = _STATUS_OF.get(grave, was)
    if was == "promoted" and grave == "reject":
        status = "quarantined"  # what was vouched for is looked at by a person before it is gone
    answer = _answer(note, status, why, verdict, dry_run=dry_run)
    answer["evidence"] = {
        name: {"decision": one.decision, "reason": one.reason, "evidence": {**one.evidence}}
        for name, one in said.items()
    }
    is_new = status != was or (grave == "promote" and not note.body.get("proven"))
    if dry_run or not is_new:
        return answer
    body = _promoted(note, text, proven=True) if grave == "promote" else _hidden(note, status)
    _put(ctx, note, body, answer)
    return answer


def _promoted(note: NoteRow, text: str, *, proven: bool) -> NoteBody:
    shown = note.body["intent"]
    return {**note.body, "status": "promoted", "title": title_of(text, note.id), "promoted": shown, "exposed": shown,
            "proven": proven}  # fmt: skip


def _hidden(note: NoteRow, status: NoteStatus) -> NoteBody:
    """Returns the note with its newest version out of sight of agents; one that was promoted before it stays shown."""
    kept = note.body.get("promoted")
    kept = None if kept == note.body["intent"] else kept
    return {**note.body, "status": status, "promoted": kept, "exposed": kept,
            "proven": kept is not None and note.body.get("proven", False)}  # fmt: skip


def verdict_on(ctx: Context, gates: Gates, path: str, type: str, text: str) -> VerdictDocument:
    """Returns what the gates say of a text."""
    verdict, _ = gates.judge(text, TextProvenance(path, type, ctx.actor))
    findings: list[Finding] = [{**found, "part": "content"} for found in verdict.findings]
    return {"outcome": verdict.outcome, "blocked": verdict.blocked, "category": verdict.category, "findings": findings}


def reject(ctx: Context, note: NoteRow, why: str) -> MemoryDecision:
    """Hides the newest version from agents, as `Notes.reject` says."""
    _check_reason("a rejection", why)
    if note.body["status"] == "rejected":
        raise Conflict(f"{note.id} is rejected already", hint=f"perpetual memory write {note.id} with another text")
    if note.body["status"] == "promoted":
        person_only(ctx, "taking a promotion back")
    decision: VerdictDocument = {"outcome": "reject", "blocked": True, "category": "decision", "findings": []}
    answer = _answer(note, "rejected", why, decision, dry_run=False)
    _put(ctx, note, _hidden(note, "rejected"), answer)
    return answer


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
        "evidence": None,
    }


def _put(ctx: Context, note: NoteRow, body: NoteBody, answer: MemoryDecision) -> None:
    """Writes the note as it is from now on, and the decision in the ledger of verdicts."""
    verdict = answer["verdict"]
    with ctx.store.transaction() as tx:
        _check_unchanged(tx, note)
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
                "why": answer["why"],
                "evidence": answer["evidence"],
            },
        )
        tx.put(NOTE, note.id, body, expect_revision=note.revision)
        payload = {"blob": note.body["blob"], "was": note.body["status"], "why": answer["why"]}
        ctx.emit(tx, f"note_{body['status']}", note.id, payload)


def title_of(text: str, path: str) -> str:
    """Returns what a note is listed as: its first line with words after any front matter, without a heading's marks."""
    head, end, body = text.partition("\n---\n")
    for line in (body if head.startswith("---\n") and end else text).splitlines():
        words = line.strip().lstrip("#").strip()
        if words:
            return words[:120]
    return path
