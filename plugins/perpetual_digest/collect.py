"""Collects a digest: reads the events of its time once, then the records that they name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from math import log
from typing import TYPE_CHECKING, cast

from perpetual.api import Event, Hypothesis, NotFound
from perpetual.science.wording import leans
from perpetual.toolkit.causes import reason_with_cause
from perpetual_report.snapshot import ENDED

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import PartialRecord, Record, Run
    from perpetual.documents.ledger import Effect
    from perpetual.documents.status import LabStatus
    from perpetual_digest.documents import (
        Cost,
        Decided,
        Digest,
        Failure,
        LedgerCost,
        MethodologyChange,
        Moved,
        NoteChange,
        Now,
        Waits,
        Wrong,
    )
    from perpetual_digest.span import Span

__all__ = ["MOST", "OWN", "collected"]

MOST = 20  # of a list of the document
OWN = "digest.digest"  # the kind of the event that holds a digest
_PAGE = 500  # events read at once
_NAMED = 5  # runs of a group of failures
_WAITED = "daemon.waits"
_CURRENCIES = ("calls", "tokens", "usd")
_FIELDS = {"calls": {"calls"}, "tokens": {"tokens", "tokens_in", "tokens_out"}, "usd": {"usd"}}  # of a ledger
_BROKEN = ("failed", "timeout", "lost")
_LIVE = ("queued", "launching", "running")
_FOLDED = ("prior", "parked", "restated", "prediction")  # of a hypothesis: what its fold hangs on
_THRESHOLDS = {"supported": "confidence_support_threshold", "refuted": "confidence_refute_threshold"}
_VARIES = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")  # in a reason, from one run to the next of the same failure
_LONGEST = 300  # characters of a reason or a statement
_SURE = 1e-4  # the least confidence that has a log of its odds here


def collected(lab: Lab, span: Span) -> Digest:
    """Returns what happened in the span, from the record. Costs the events of the span, not those before."""
    seen = _Seen(lab, span)
    status = lab.status()
    past = _Past(lab, seen)
    decided = _sorted_decided([_decided(lab, past, seen, id) for id in seen.statuses if seen.has_changed(id)])
    named = {item["id"] for item in decided}
    moved = [_moved(lab, past, seen, id) for id in seen.rows if id not in named]
    moved.sort(key=lambda item: -abs(_odds(item["confidence"]) - _odds(item["confidence_before"])))
    family = status.get("family")
    return {
        "project": status["project"],
        "since": span.since,
        "until": span.until,
        "from_seq": span.first,
        "to_seq": span.last,
        "decided": decided[:MOST],
        "decided_total": len(decided),
        "moved": moved[:MOST],
        "moved_total": len(moved),
        "methodology": seen.methodology[-MOST:],
        "together": family["sentence"] if family and family["tested"] else None,
        "cost": _cost(lab, seen, span, status),
        "wrong": _wrong(lab, seen, status),
        "waits": _waits(lab, status),
        "now": _now(lab, status),
        "next": status["next"][:MOST],
    }


class _Seen:
    """What the events of the span say, each read once."""

    def __init__(self, lab: Lab, span: Span) -> None:
        self.statuses: dict[str, list[Event]] = {}
        self.priors: dict[str, float] = {}  # of hypotheses that were added
        self.edits: dict[str, dict[str, object]] = {}  # by hypothesis: values of before
        self.rows: Counter[str] = Counter()  # of evidence, by hypothesis
        self.came: set[str] = set()  # experiments, runs and rows that were not there, or had not ended
        self.ended: dict[str, str] = {}  # run -> how
        self.tainted: dict[str, None] = {}
        self.notes: dict[str, str] = {}
        self.stops: Counter[str] = Counter()
        self.waited: Counter[str] = Counter()
        self.failing: dict[str, str] = {}
        self.proposers: dict[str, None] = {}
        self.methodology: list[MethodologyChange] = []
        self.was: dict[str, object] = {}  # keys of the methodology as they were before
        self.thresholds: dict[int, dict[str, object]] = {}  # by the event that changed a status: what was in force
        self.overruns = self.retries = 0
        self.is_old = False  # an event of an early version, which does not say what a key was
        present: dict[str, object] = {}
        for event in _events(lab, span):
            self._take(event, present)
        self._fill_thresholds(lab)

    def _take(self, event: Event, present: dict[str, object]) -> None:
        kind, subject, payload = event.kind, event.subject, event.payload
        if kind == "hypothesis_status":
            self.statuses.setdefault(subject, []).append(event)
            self.thresholds[event.seq] = dict(present)
        elif kind == "hypothesis_added":
            self.priors[subject] = payload["prior"]
        elif kind == "hypothesis_updated":
            for name, value in payload.get("was", {}).items():
                self.edits.setdefault(subject, {}).setdefault(name, value)
        elif kind == "evidence_added":
            self.rows[payload["hypothesis_id"]] += 1
            self.came.add(subject)
        elif kind in ("experiment_proposed", "run_created"):
            self.came.add(subject)
        elif kind == "run_status":
            if payload["from"] not in ENDED:
                self.came.add(subject)
            if payload["to"] in ENDED:
                self.ended[subject] = payload["to"]
        elif kind == "methodology_set":
            self.is_old |= "was" not in payload
            self.was.setdefault(subject, payload.get("was"))
            present[subject] = payload["value"]
            self.methodology.append({"key": subject, "was": payload.get("was"), "value": payload["value"]})
        else:
            self._trouble(event)

    def _trouble(self, event: Event) -> None:
        """Takes what went wrong, or may have."""
        kind, subject = event.kind, event.subject
        if kind == "run_tainted":
            self.tainted[subject] = None
        elif kind == "run_retried":
            self.retries += 1
        elif kind == "budget_overrun":
            self.overruns += 1
        elif kind == "loop_stopped":
            self.stops[str(event.payload["reason"])] += 1
        elif kind == _WAITED:
            self.waited[str(event.payload["reason"])] += 1
        elif kind.endswith((".failing", ".capped")):
            plugin, _, how = kind.rpartition(".")
            self.failing[f"{plugin} {subject}"] = how
        elif kind.endswith(".recovered"):
            self.failing.pop(f"{kind.rpartition('.')[0]} {subject}", None)
        elif kind == "proposer_failed":
            self.proposers[subject] = None
        elif kind in ("note_quarantined", "note_rejected", "note_failed"):
            self.notes[subject] = kind.removeprefix("note_")
        elif kind == "note_written":
            if event.payload["status"] in ("quarantined", "rejected"):
                self.notes[subject] = event.payload["status"]
            else:
                self.notes.pop(subject, None)  # written again, and let through
        elif kind == "note_promoted":
            self.notes.pop(subject, None)

    def _fill_thresholds(self, lab: Lab) -> None:
        """Adds to what was set before each change of a status what had been in force from the start."""
        methodology = lab.config.methodology
        for found in self.thresholds.values():
            for key in _THRESHOLDS.values():
                found.setdefault(key, self.was.get(key, methodology[key]))

    def has_changed(self, id: str) -> bool:
        """Returns whether a hypothesis has another status than before, or had one meanwhile."""
        return bool(self.statuses[id])


def _events(lab: Lab, span: Span) -> Iterator[Event]:
    since = span.first
    while since < span.last:
        page = lab.events(since=since, limit=min(_PAGE, span.last - since))
        if not page:
            return
        yield from page
        since = page[-1].seq


class _Past:
    """The confidence of hypotheses at the start of the span, by the methodology of then."""

    def __init__(self, lab: Lab, seen: _Seen) -> None:
        self._lab, self._seen = lab, seen
        self._record: PartialRecord | None = None

    def confidence(self, item: Hypothesis) -> float:
        """Returns what the evidence of then said of a hypothesis; of one that was added since, its prior."""
        if item.id in self._seen.priors:
            return self._seen.priors[item.id]
        edits = self._seen.edits.get(item.id, {})
        fold = self._then().fold(item.id, **{name: edits[name] for name in _FOLDED if name in edits})
        return fold["confidence"]

    def _then(self) -> PartialRecord:
        if self._record is None:
            settings, seen = self._lab.settings, self._seen
            now = {one.key: one.value for one in settings.methodology()}
            # An event of an early version does not say what a key was: then it is as it is now, for what it is worth.
            was = {key: value for key, value in seen.was.items() if not seen.is_old or value is not None}
            self._record = self._lab.evidence.partial_record({**now, **was})
            self._record.left_out = {*seen.came, *(run.id for run in self._lab.runs.live())}
        return self._record


def _decided(lab: Lab, past: _Past, seen: _Seen, id: str) -> Decided:
    item = lab.hypotheses.get(id)
    events = seen.statuses[id]
    last = events[-1]
    status, effect = last.payload["to"], cast("Effect | None", item.effect)
    bound = last.payload.get("false_alarm_bound")
    key = _THRESHOLDS.get(status)
    declared = seen.thresholds[last.seq][key] if key else None
    by = item.decided_by if status == item.status else None
    is_measured = by in (None, "evidence")
    e_values = {"supported": item.e_support, "refuted": item.e_refute}
    return {
        "id": id,
        "statement": item.statement[:_LONGEST],
        "was": events[0].payload["from"],
        "status": status,
        "time": last.time,
        "confidence_before": past.confidence(item),
        "confidence": last.payload["confidence"],
        "confidence_now": item.confidence,
        "declared": float(str(declared)) if declared is not None and is_measured else None,
        "decided_by": by,
        "false_alarm_bound": bound,
        "e_value": e_values.get(status) if is_measured else None,
        "effect": effect,
        "leans": is_measured and leans(item.status, item.false_alarm_bound, effect),
        "flags": [*item.flags][:MOST],
        "sentence": item.sentence,
        "rows": seen.rows[id],
    }


def _sorted_decided(found: list[Decided]) -> list[Decided]:
    """Returns verdicts first, then what was parked or is open again; each in the order of time."""
    order = ("supported", "refuted", "open", "parked")
    return sorted(found, key=lambda item: (order.index(item["status"]), item["time"]))


def _moved(lab: Lab, past: _Past, seen: _Seen, id: str) -> Moved:
    item = lab.hypotheses.get(id)
    return {
        "id": id,
        "statement": item.statement[:_LONGEST],
        "status": item.status,
        "confidence_before": past.confidence(item),
        "confidence": item.confidence,
        "effect": cast("Effect | None", item.effect),
        "rows": seen.rows[id],
    }


def _odds(confidence: float) -> float:
    bounded = min(max(confidence, _SURE), 1 - _SURE)
    return log(bounded / (1 - bounded))


# --- cost -----------------------------------------------------------------------------------------------------------


def _cost(lab: Lab, seen: _Seen, span: Span, status: LabStatus) -> Cost:
    hours = [_hours(run) for run in _runs(lab, seen.ended)]
    return {
        "runs": dict(Counter(seen.ended.values())),
        "run_hours": sum(each[0] for each in hours),
        "gpu_hours": sum(each[1] for each in hours),
        "ledgers": [*_ledgers(lab, span)],
        "today": {name: used for name in _CURRENCIES if (used := lab.budget.used_of_day(name))},
        "budget": status["budget"],
    }


def _hours(run: Run) -> tuple[float, float]:
    return run.run_hours or 0.0, run.gpu_hours or 0.0


def _runs(lab: Lab, ids: Mapping[str, object]) -> Iterator[Run]:
    for id in ids:
        try:
            yield lab.runs.get(id)
        except NotFound:  # of an import that has left its runs out
            continue


def _ledgers(lab: Lab, span: Span) -> Iterator[LedgerCost]:
    """Yields what each ledger of requests to models says of the time: it has a field `calls`, or `tokens_in`."""
    for kind in lab.records.kinds():
        names = {field["name"] for field in kind["fields"]}
        if not kind["ledger"] or not names & {"calls", "tokens_in"} or not kind["count"]:
            continue
        rows = [*_recent(lab, kind["name"], span)]
        if not rows:
            continue
        sums: dict[str, float | None] = {
            currency: sum(_amount(row, name) for row in rows for name in fields & names) if fields & names else None
            for currency, fields in _FIELDS.items()
        }
        calls = float(len(rows)) if sums["calls"] is None else sums["calls"]
        yield {"ledger": kind["name"], "rows": len(rows), "calls": calls, "tokens": sums["tokens"], "usd": sums["usd"]}


def _recent(lab: Lab, kind: str, span: Span) -> Iterator[Record]:
    """Yields the rows of a ledger that are of the span, the newest first; reads no page beyond."""
    cursor: str | None = None
    while True:
        page = lab.records(kind).list(limit=100, cursor=cursor, newest_first=True)
        for row in page.items:
            if row.created_at < span.since:
                return
            yield row
        cursor = page.next_cursor
        if cursor is None:
            return


def _amount(row: Record, name: str) -> float:
    value = row.fields.get(name)
    return value if isinstance(value, int | float) else 0.0


# --- what went wrong ------------------------------------------------------------------------------------------------


def _wrong(lab: Lab, seen: _Seen, status: LabStatus) -> Wrong:
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    broken = {id: how for id, how in seen.ended.items() if how in _BROKEN}
    for run in _runs(lab, broken):
        reason = reason_with_cause(run.reason, run.annotations) or "no reason is known"
        groups.setdefault((broken[run.id], _VARIES.sub("#", reason)), []).append((run.id, reason))
    failures: list[Failure] = [
        {"status": how, "reason": found[-1][1][:_LONGEST], "count": len(found),
         "runs": [id for id, _ in found[-_NAMED:]]}
        for (how, _), found in groups.items()
    ]  # fmt: skip
    failures.sort(key=lambda item: -item["count"])
    notes: list[NoteChange] = [{"path": path, "status": how} for path, how in seen.notes.items()]
    services = [
        f"{item['name']}: {item['reason'] or 'no reason is known'}"[:_LONGEST]
        for item in status.get("services", ())
        if item["state"] == "failed"
    ]
    return {
        "failures": failures[:MOST],
        "failures_total": len(failures),
        "failed_runs": len(broken),
        "tainted": [*seen.tainted][:MOST],
        "tainted_total": len(seen.tainted),
        "overruns": seen.overruns,
        "retries": seen.retries,
        "notes": notes[:MOST],
        "notes_total": len(notes),
        "stops": [{"reason": reason, "count": count} for reason, count in seen.stops.most_common(MOST)],
        "waited": [{"reason": reason, "count": count} for reason, count in seen.waited.most_common(MOST)],
        "failing": [f"{part} {how}"[:_LONGEST] for part, how in seen.failing.items()][:MOST],
        "proposers": [*seen.proposers][:MOST],
        "services": services[:MOST],
    }


# --- what is now ----------------------------------------------------------------------------------------------------


def _waits(lab: Lab, status: LabStatus) -> Waits:
    proposed = lab.experiments.list(status="proposed", limit=MOST).items
    total = status["experiments"].get("proposed", 0)
    return {
        "approvals": [item.id for item in proposed if not item.archived],
        "approvals_total": total,
        "code_changed": status["approvals_waiting"] - total,
        "notes": status["memory"].get("quarantined", 0),
        "trust": status["trust"]["held_total"],
    }


def _now(lab: Lab, status: LabStatus) -> Now:
    active = status["runs"]["active"]
    return {
        "runs": [
            {"id": run["id"], "experiment_id": run["experiment_id"], "status": run["status"],
             "progress": None if (found := run.get("progress")) is None else str(found["text"])[:_LONGEST]}
            for run in active
        ],
        "live": sum(run["status"] in _LIVE for run in active),
        "queued": status["runs"]["queued"],
        "queue": status["queue"],
        "open": lab.hypotheses.count_open(),
    }  # fmt: skip
