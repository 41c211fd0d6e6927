"""The record as it was at a moment, beside the record now. Reads what has come since, and the hypotheses asked for.

The evidence of then is folded by the same part of the record as a report's, so that both say the same. What the record
said then is read from the events that changed it: a fold by today's rules may differ, and is never shown as said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from perpetual.api import Event, Evidence, Hypothesis, UsageError
from perpetual.toolkit.units import identifier, shown_number
from perpetual_report.moments import Moment, moment_of
from perpetual_report.snapshot import ENDED, everything, number_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import EvidenceFold
    from perpetual.documents.ledger import Effect
    from perpetual_believed.documents import Belief, Believed, BelievedHypothesis, Change, Said

__all__ = ["believed"]

_MOST_CHANGES = 50  # of one hypothesis, the newest
_LIVE = ("queued", "launching", "running")
_FOLDED = ("prior", "parked", "restated", "prediction")  # of a hypothesis: what its fold hangs on
_MOVING = ("evidence_added", "run_status", "run_tainted", "hypothesis_updated")
_SAME = 1e-9


def believed(
    lab: Lab, hypothesis: str | None = None, *, at: str, limit: int = 20, cursor: str | None = None
) -> Believed:
    """Returns what the record said at a moment, and what has changed since.

    Args:
        lab: whose record is read.
        hypothesis: only this one.
        at: the moment: a time (without an offset a local one), so long ago as `3d`, `seq:N` or `commit:REV`.
        limit: how many hypotheses, the oldest first.
        cursor: the `next_cursor` of the page before.

    Raises:
        UsageError: for what is no moment, one before the record began or in the future,
            or a hypothesis that came after it.
        NotFound: for an unknown hypothesis.
    """
    past = _Past(lab, moment_of(lab, at))
    if hypothesis is None:
        page = lab.hypotheses.list(limit=limit, cursor=cursor)
        items, following = page.items, page.next_cursor
    else:
        items, following = (lab.hypotheses.get(identifier(hypothesis)),), None
        if items[0].id in past.added:
            raise UsageError(
                f"{items[0].id} was added after {past.moment.time}, at {items[0].created_at}", hint="a later moment"
            )
    known = [item for item in items if item.id not in past.added]
    return {
        "at": past.moment.time,
        "by": past.moment.by,
        "seq": past.seq,
        "seq_now": past.seq + len(past.later),
        "items": [past.item(item) for item in known],
        "next_cursor": following if len(known) == len(items) else None,
        "added": sorted(past.added, key=number_of),
        "changes": past.common(),
    }


class _Past:
    """The record after an event, and what came later."""

    def __init__(self, lab: Lab, moment: Moment) -> None:
        self._lab, self.moment = lab, moment
        self.later = lab.events(since=moment.seq)
        # A status is written with what changed it: both are of one moment.
        settled = 0
        while settled < len(self.later) and self.later[settled].kind == "hypothesis_status":
            settled += 1
        self.later, self.seq = self.later[settled:], moment.seq + settled
        self.added = {event.subject for event in self.later if event.kind == "hypothesis_added"}
        self._record = lab.evidence.partial_record(self._methodology())
        self._record.left_out = {*self._missing()}
        self._roots: dict[str, set[str]] = {}

    def _methodology(self) -> dict[str, object]:
        """Returns every key's value of then."""
        was: dict[str, object] = {}
        for event in self.later:
            if event.kind == "methodology_set":
                if "was" not in event.payload:  # of an old record, which is read whole
                    return self._lab.settings.methodology_at(self.seq)
                was.setdefault(event.subject, event.payload["was"])
        return {item.key: item.value for item in self._lab.settings.methodology()} | was

    def _missing(self) -> Iterator[str]:
        """Yields the experiments, runs and rows that were not there, and the runs that had not ended."""
        for status in _LIVE:
            yield from (run.id for run in everything(self._lab.runs.list, status=status))
        seen: set[str] = set()
        for event in self.later:
            if event.kind in ("experiment_proposed", "run_created", "evidence_added"):
                seen.add(event.subject)
                yield event.subject
            elif event.kind == "run_status" and event.subject not in seen:
                seen.add(event.subject)
                if event.payload["from"] not in ENDED:
                    yield event.subject

    def item(self, record: Hypothesis) -> BelievedHypothesis:
        """Returns a hypothesis then and now."""
        own: dict[str, Any] = {}
        for event in self.later:
            if event.kind == "hypothesis_updated" and event.subject == record.id:
                for name, value in event.payload.get("was", {}).items():
                    own.setdefault(name, value)
        fold = self._record.fold(record.id, **{name: own[name] for name in _FOLDED if name in own})
        effect = self._record.effect(record.id, fold) if fold["evidence_count"] else None
        then = _then(record, own, fold, effect)
        changes = [*self._changes(record)]
        said = self._said(record, changes)
        return {
            "id": record.id,
            "said": said,
            "then": then,
            "now": _now(record),
            "differs": said["status"] != then["status"]
            or (said["confidence"] is not None and abs(said["confidence"] - then["confidence"]) > _SAME),
            "changes": changes[-_MOST_CHANGES:],
            "changes_left": max(0, len(changes) - _MOST_CHANGES),
        }

    def _said(self, record: Hypothesis, changes: Sequence[Change]) -> Said:
        """Returns what the row of the hypothesis said: what it was changed from since, or what it says now."""
        moved = {change["seq"] for change in changes if change["kind"] in _MOVING}
        status: str | None = None
        is_moved = False
        for event in self.later:
            is_moved |= event.seq in moved or event.kind == "methodology_set"
            if event.kind == "hypothesis_status" and event.subject == record.id:
                status = status or event.payload["from"]
            elif event.kind == "rules_changed" and not is_moved and record.id in event.payload["hypotheses"]:
                was = event.payload["hypotheses"][record.id]["was"]
                return {"status": was["status"], "confidence": was["confidence"]}
        return {"status": status or record.status, "confidence": None if is_moved or status else record.confidence}

    # --- what has changed ---------------------------------------------------------------------------------------------

    def common(self) -> list[Change]:
        """Returns the changes that concern every hypothesis."""
        return [_change(event, _COMMON[event.kind](event)) for event in self.later if event.kind in _COMMON]

    def _changes(self, record: Hypothesis) -> Iterator[Change]:
        """Yields the events since that are about a hypothesis, its experiments or what they are compared with."""
        own = {item.id: item for item in everything(self._lab.experiments.list, hypothesis_id=record.id)}
        compared = {item.design.baseline for item in own.values() if isinstance(item.design.baseline, str)}
        rows: dict[str, Evidence] | None = None
        for event in self.later:
            kind, payload = event.kind, event.payload
            if kind == "evidence_added" and payload["hypothesis_id"] == record.id:
                if rows is None:
                    rows = {row.id: row for row in everything(self._lab.evidence.list, hypothesis_id=record.id)}
                yield _change(event, _row_in_words(rows[event.subject]))
            elif kind in ("run_status", "run_tainted") and (kind == "run_tainted" or payload["to"] in ENDED):
                id = payload["experiment_id"]
                if id in own or self._root(id) & compared:
                    of = id if id in own else f"{id}, which it is compared with,"
                    how = "was tainted" if kind == "run_tainted" else f"ended: {payload['to']}"
                    yield _change(event, f"{event.subject} of {of} {how}")
            elif kind == "baseline_renewed" and record.id in payload["hypotheses"]:
                yield _change(event, f"{event.subject} was renewed by {payload['by']}: the code changed")
            elif event.subject in (record.id, *own) and kind in _WORDS:
                yield _change(event, _WORDS[kind](event))

    def _root(self, id: str) -> set[str]:
        """Returns an experiment with those that its runs add to."""
        if id not in self._roots:
            found = {id}
            item = self._lab.experiments.get(id)
            for name in (item.extends, item.renews):
                if name is not None:
                    found |= self._root(name)
            self._roots[id] = found
        return self._roots[id]


def _named(event: Event) -> str:
    """Returns which fields were changed, from what to what where that is short."""
    payload, was = event.payload, event.payload.get("was", {})
    parts = [
        f"{name} {_short(was[name])} -> {_short(payload[name])}" if name in was else name
        for name in payload
        if name not in ("was", "confidence", "restated")
    ]
    return f"{event.subject} corrected: {', '.join(parts)}"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _status_in_words(event: Event) -> str:
    payload = event.payload
    return f"{event.subject} {payload['from']} -> {payload['to']} (confidence {payload['confidence']:.3f})"


def _row_in_words(row: Evidence) -> str:
    """Returns a row of the evidence in words."""
    if row.kind == "measured":
        value = "no value" if row.value is None else f"{row.metric} {shown_number(row.value, '.6g')}"
        return f"{row.id} measured {value} ({row.run_id} of {row.experiment_id})"
    if row.kind == "retraction":
        return f"{row.id} takes back {row.target}: {row.reason or ''}"
    return f"{row.id} {row.kind} {row.verdict or ''}: {row.reason or ''}"


_WORDS: dict[str, Callable[[Event], str]] = {
    "hypothesis_updated": _named,
    "hypothesis_status": _status_in_words,
    "experiment_proposed": lambda event: f"{event.subject} proposed",
    "experiment_approved": lambda event: f"{event.subject} approved",
    "experiment_rejected": lambda event: f"{event.subject} rejected",
    "experiment_edited": lambda event: f"{event.subject} edited: {', '.join(event.payload['changed'])}",
    "code_approved": lambda event: f"the code of {event.subject} approved anew",
    "record_archived": lambda event: f"{event.subject} archived",
    "record_restored": lambda event: f"{event.subject} shown again",
}
_COMMON: dict[str, Callable[[Event], str]] = {
    "methodology_set": lambda event: (
        f"{event.subject} set to {_short(event.payload['value'])} (was {_short(event.payload.get('was'))})"
    ),
    "rules_changed": lambda event: (
        f"the rules of evidence changed to version {event.payload['rules']}: "
        f"{', '.join(event.payload['hypotheses'])} folded anew"
    ),
}


def _change(event: Event, text: str) -> Change:
    return {"seq": event.seq, "time": event.time, "actor": event.actor, "kind": event.kind, "subject": event.subject,
            "text": text}  # fmt: skip


def _then(record: Hypothesis, own: Mapping[str, Any], fold: EvidenceFold, effect: Effect | None) -> Belief:
    return {
        "statement": own.get("statement", record.statement),
        "prior": own.get("prior", record.prior),
        "status": fold["status"],
        "decided_by": fold["decided_by"],
        "confidence": fold["confidence"],
        "e_support": fold["e_support"],
        "e_refute": fold["e_refute"],
        "false_alarm_bound": fold["false_alarm_bound"],
        "evidence_count": fold["evidence_count"],
        "counting": fold["counting"],
        "effect": effect,
        "sentence": fold["sentence"],
    }


def _now(record: Hypothesis) -> Belief:
    return {
        "statement": record.statement,
        "prior": record.prior,
        "status": record.status,
        "decided_by": record.decided_by,
        "confidence": record.confidence,
        "e_support": record.e_support,
        "e_refute": record.e_refute,
        "false_alarm_bound": record.false_alarm_bound,
        "evidence_count": record.evidence_count,
        "counting": record.counting if record.evidence_count else 0,
        "effect": cast("Effect | None", record.effect),
        "sentence": record.sentence,
    }
