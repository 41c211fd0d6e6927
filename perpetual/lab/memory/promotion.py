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
    from perpetual.lab.bodies import IntentBody, NoteBody
    from perpetual.records.states import NoteStatus

__all__ = ["decide", "promote", "reject", "title_of", "verdict_on"]

Asked = tuple[str, Callable[[str], StageVerdict]]  # a stage's name, and what asks it about a text
_STATUS_OF: dict[str, NoteStatus] = {
    "promote": "promoted", "reject": "rejected", "quarantine": "quarantined", "expire": "expired",
}  # fmt: skip

_MOST_EARLIER = 20  # promoted versions of a note that may be shown again

# Of text that a gate has turned down there is no accepted version to vouch for.
_PROMOTABLE = ("candidate", "quarantined", "expired")


def promote(ctx: Context, gates: Gates, note: NoteRow, why: str, *, blob: str | None, dry_run: bool) -> MemoryDecision:
    """Shows agents the newest accepted version of the note from now on, as `Notes.promote` says."""
    _check_reason("a promotion", why)
    _check_promotable(note, blob)
    text = _text(ctx, note.body["intent"])
    verdict = verdict_on(ctx, gates, note.id, note.body["type"], text)
    answer = _answer(note, "promoted", why, verdict, dry_run=dry_run)
    if verdict["outcome"] == "reject":
        raise Refused(f"the note {note.id} is not promoted: {verdict['category']}", code="note_rejected",
                      hint="the findings say which words; write a version without them",
                      data={**answer, "status": note.body["status"]})  # fmt: skip
    if dry_run or note.body["status"] == "promoted":
        return answer
    _put(ctx, note, _promoted(note, text, proven=False), answer)
    return answer


def decide(ctx: Context, gates: Gates, note: NoteRow, stages: Iterable[Asked], *, dry_run: bool) -> MemoryDecision:
    """Does as the promotion stages say, as `Notes.decide` says."""
    _check_promotable(note, None)
    text, was = _text(ctx, note.body["intent"]), note.body["status"]
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
    body = _promoted(note, text, proven=True) if grave == "promote" else _hidden(ctx, gates, note, status)
    _put(ctx, note, body, answer)
    return answer


def _promoted(note: NoteRow, text: str, *, proven: bool) -> NoteBody:
    shown, before = note.body["intent"], note.body.get("promoted")
    earlier = note.body.get("earlier", [])
    if before is not None and before != shown:
        earlier = [*earlier, (before, note.body.get("proven", False))][-_MOST_EARLIER:]
    return {**note.body, "status": "promoted", "title": title_of(text, note.id), "promoted": shown, "exposed": shown,
            "proven": proven, "earlier": earlier}  # fmt: skip


def _hidden(ctx: Context, gates: Gates, note: NoteRow, status: NoteStatus) -> NoteBody:
    """Returns the note with its newest version out of sight of agents; one that was promoted before it is shown.

    Of a newest version that is rejected already it is the shown one that goes. A version that expires takes its
    predecessors along: what replaced them held until a day.
    """
    body, kept, proven = note.body, note.body.get("promoted"), note.body.get("proven", False)
    earlier, title = [*body.get("earlier", [])], body["title"]
    if kept == body.get("intent") or body["status"] == "rejected":
        kept, earlier = None, earlier if status != "expired" else []
        while earlier and kept is None:
            before, proven = earlier.pop()
            text = _text(ctx, before)
            if verdict_on(ctx, gates, note.id, body["type"], text)["outcome"] != "reject":
                kept, title = before, title_of(text, note.id)
    return {**body, "status": status, "title": title, "promoted": kept, "exposed": kept,
            "proven": kept is not None and proven, "earlier": earlier}  # fmt: skip


def verdict_on(ctx: Context, gates: Gates, path: str, type: str, text: str) -> VerdictDocument:
    """Returns what the gates say of a text."""
    verdict, _ = gates.judge(text, TextProvenance(path, type, ctx.actor))
    findings: list[Finding] = [{**found, "part": "content"} for found in verdict.findings]
    return {"outcome": verdict.outcome, "blocked": verdict.blocked, "category": verdict.category, "findings": findings}


def reject(ctx: Context, gates: Gates, note: NoteRow, why: str, *, blob: str | None) -> MemoryDecision:
    """Hides the newest version from agents, as `Notes.reject` says."""
    _check_reason("a rejection", why)
    kept, is_again = note.body.get("promoted"), note.body["status"] == "rejected"
    shown = _intent(ctx, kept)["blob"] if kept is not None and is_again else None
    if is_again and (shown is None or not blob or not shown.startswith(blob.lower())):
        hint = f"perpetual memory write {note.id} with another text"
        hint += f", or memory reject --blob {shown[:10]}: the one that agents are shown" if shown is not None else ""
        raise Conflict(f"{note.id} is rejected already", hint=hint)
    if shown is None:
        _check_version(note, blob)
    if is_again or note.body["status"] == "promoted":
        person_only(ctx, "taking a promotion back")
    decision: VerdictDocument = {"outcome": "reject", "blocked": True, "category": "decision", "findings": []}
    answer = _answer(note, "rejected", why, decision, dry_run=False)
    if shown is not None:
        answer["was"], answer["blob"] = "promoted", shown
    _put(ctx, note, _hidden(ctx, gates, note, "rejected"), answer)
    return answer


def _check_reason(deed: str, why: str) -> None:
    if not why.strip():
        raise UsageError(f"{deed} needs a reason", hint="--why TEXT")
    bounded(why, "the reason")


def _check_promotable(note: NoteRow, blob: str | None) -> None:
    status = note.body["status"]
    if status not in (*_PROMOTABLE, "promoted"):
        raise Conflict(f"{note.id} is {status}, and there is no accepted text to promote",
                       hint=f"perpetual memory write {note.id} with another text")  # fmt: skip
    _check_version(note, blob)


def _check_version(note: NoteRow, blob: str | None) -> None:
    if blob is not None and not (blob and note.body["blob"].startswith(blob.lower())):
        raise Conflict(
            f"the newest version of {note.id} is {note.body['blob']}, not {blob}",
            hint=f"perpetual memory show {note.id}: read it, and decide on the version that you have read",
            code="changed",
        )


def _check_unchanged(tx: LabTransaction, note: NoteRow) -> None:
    """Checks that the version that was judged is the one that is decided on: another process may have written."""
    now = tx.get(NOTE, note.id)
    if now is None or now.revision != note.revision:
        raise Conflict(f"{note.id} was changed while it was being decided on", hint="read it again", code="changed")


def _intent(ctx: Context, number: int | None) -> IntentBody:
    row = ctx.store.get(INTENT, str(number))
    assert row is not None, number
    return row.body


def _text(ctx: Context, number: int) -> str:
    return str(_intent(ctx, number)["content"])


def _answer(note: NoteRow, status: str, why: str, verdict: VerdictDocument, *, dry_run: bool) -> MemoryDecision:
    return {
        "path": note.id, "type": note.body["type"], "was": note.body["status"], "status": status,
        "blob": note.body["blob"], "why": why, "dry_run": dry_run, "verdict": verdict, "evidence": None,
    }  # fmt: skip


def _put(ctx: Context, note: NoteRow, body: NoteBody, answer: MemoryDecision) -> None:
    """Writes the note as it is from now on, and the decision in the ledger of verdicts."""
    verdict = answer["verdict"]
    with ctx.store.transaction() as tx:
        _check_unchanged(tx, note)
        tx.append(VERDICT, {
            "path": note.id, "outcome": verdict["outcome"], "category": verdict["category"],
            "findings": verdict["findings"], "blob": answer["blob"], "actor": ctx.actor, "time": ctx.now(),
            "content": None, "decision": body["status"], "why": answer["why"], "evidence": answer["evidence"],
        })  # fmt: skip
        tx.put(NOTE, note.id, body, expect_revision=note.revision)
        payload: dict[str, object] = {"blob": answer["blob"], "was": answer["was"], "why": answer["why"]}
        if body["status"] != "promoted" and body["promoted"] not in (None, note.body.get("promoted")):
            payload["restored"] = _intent(ctx, body["promoted"])["blob"]
        ctx.emit(tx, f"note_{body['status']}", note.id, payload)


def title_of(text: str, path: str) -> str:
    """Returns what a note is listed as: its first line with words after any front matter, without a heading's marks."""
    head, end, body = text.partition("\n---\n")
    for line in (body if head.startswith("---\n") and end else text).splitlines():
        words = line.strip().lstrip("#").strip()
        if words:
            return words[:120]
    return path
