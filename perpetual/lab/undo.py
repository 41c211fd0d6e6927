"""`lab.undo`: takes back the caller's own last reversible deed. It is itself taken back by doing the deed again.

A deed is the events of one commit. Events carry what was (`was`), so that undoing puts it back by a change of its own:
the record keeps both. Evidence, debits and runs are never taken back, nor is what others have built on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, cast

from perpetual.errors import Conflict
from perpetual.lab.evidence.confidence import refold
from perpetual.lab.experiments.edit import check_no_circle, voided
from perpetual.lab.kinds import EVENT, EXPERIMENT, HYPOTHESIS
from perpetual.lab.ledger.archive import archive
from perpetual.lab.ledger.experiments import ExperimentRecords
from perpetual.lab.ledger.hypotheses import HypothesisRecords
from perpetual.lab.permissions import is_same
from perpetual.lab.queue import Queue
from perpetual.lab.settings import Settings

if TYPE_CHECKING:
    from perpetual.documents.ledger import Undone
    from perpetual.lab.context import Context
    from perpetual.lab.kinds import EventRow, ExperimentRow, LabTransaction
    from perpetual.records import Hypothesis

__all__ = ["undo"]

_LOOKED_AT = 1000  # newest events
_FOLLOWS = {"hypothesis_status"}  # in the same commit as what caused it
_WORDS = {
    "hypothesis_added": "the hypothesis {}", "hypothesis_updated": "the change of {}",
    "experiment_proposed": "the proposal {}", "experiment_approved": "the approval of {}",
    "experiment_rejected": "the rejection of {}", "experiment_edited": "the edit of {}",
    "record_archived": "the archiving of {}", "record_restored": "the restoring of {}",
    "methodology_set": "the setting of {}", "queue_changed": "the change of the {}",
}  # fmt: skip


def undo(ctx: Context, *, dry_run: bool = False) -> Undone:
    """Takes back one deed, as `Lab.undo` says."""
    try:
        with ctx.store.transaction() as tx:
            answer = _undo(ctx, tx, dry_run=dry_run)
            if dry_run:
                raise _DryRun
    except _DryRun:
        pass  # leaving the transaction by an exception is what keeps a dry run from writing
    return answer


def _undo(ctx: Context, tx: LabTransaction, *, dry_run: bool) -> Undone:
    events = _last_deed(ctx, tx)
    words = dict.fromkeys(_WORDS[event.body["kind"]].format(event.body["subject"]) for event in events)
    for event in reversed(events):
        if not dry_run or event.body["kind"] != "methodology_set":  # which writes a file
            _BACK[event.body["kind"]](ctx, tx, event)
        ctx.emit(tx, "deed_undone", event.body["subject"], {"seq": event.number, "kind": event.body["kind"]})
    return {
        "what": " and ".join(words),
        "kind": events[0].body["kind"],
        "subjects": [*dict.fromkeys(event.body["subject"] for event in events)],
        "seqs": [event.number for event in events],
        "time": events[0].body["time"],
        "dry_run": dry_run,
    }


def _last_deed(ctx: Context, tx: LabTransaction) -> list[EventRow]:
    """Returns the events of the newest commit of the caller's own that can be taken back and was not yet.

    Raises:
        Conflict: where there is none.
    """
    last = tx.count(EVENT)
    rows = tx.rows(EVENT, since=max(0, last - _LOOKED_AT))
    undone = {row.body["payload"]["seq"] for row in rows if row.body["kind"] == "deed_undone"}
    commits: dict[int, list[EventRow]] = {}
    for row in rows:
        commits.setdefault(row.seq, []).append(row)
    for commit in reversed([*commits.values()]):
        kinds = {row.body["kind"] for row in commit}
        own = [row for row in commit if row.body["kind"] in _BACK and not _is_over(ctx, row)]
        is_own = own and is_same(ctx.actor, own[0].body["actor"]) and not undone & {row.number for row in own}
        if is_own and kinds <= _BACK.keys() | _FOLLOWS:
            return own
    raise Conflict("nothing of yours can be undone", code="nothing_to_undo",
                   hint="perpetual evidence retract and kill for what stays; memory reject for notes")  # fmt: skip


def _is_over(ctx: Context, event: EventRow) -> bool:
    """Returns whether the event is of an approval that has ended since, or changed the order of the queue."""
    over = ("proposed", "rejected", "expired")
    if event.body["kind"] == "queue_changed":
        return "state" not in event.body["payload"]
    return event.body["kind"] == "experiment_approved" and (
        ctx.need(EXPERIMENT, event.body["subject"]).body["status"] in over
    )


def _built_on(event: EventRow, why: str) -> Conflict:
    what = _WORDS[event.body["kind"]].format(event.body["subject"])
    return Conflict(f"{what} cannot be undone: {why}", code="built_on", hint=f"perpetual find {event.body['subject']}")


def _experiment(ctx: Context, tx: LabTransaction, event: EventRow, status: str | None) -> ExperimentRow:
    """Returns the experiment of an event; raises Conflict once it has runs, another status, or others rest on it."""
    item = ctx.need(EXPERIMENT, event.body["subject"])
    if tx.find("run", experiment_id=item.id):
        raise _built_on(event, "it has runs")
    if status is not None and item.body["status"] != status:
        raise _built_on(event, f"it is {item.body['status']}")
    if event.body["kind"] == "experiment_proposed":
        named = [other.id for other in tx.find(EXPERIMENT) if other.body["status"] not in ("rejected", "expired")
                 and item.id in (other.body["design"]["baseline"], other.body["design"].get("proxy_of"),
                                 other.body["design"].get("runs_of"))]  # fmt: skip
        if named:
            raise _built_on(event, f"{', '.join(named)} rest on it")
    return item


def _added(ctx: Context, tx: LabTransaction, event: EventRow) -> None:
    item = ctx.need(HYPOTHESIS, event.body["subject"])
    found = tx.find(EXPERIMENT, hypothesis_id=item.id)
    users = [other.id for other in found if other.body["status"] not in ("rejected", "expired")]
    if users or item.body["evidence_count"]:
        verb = "tests" if len(users) == 1 else "test"
        raise _built_on(event, f"{', '.join(users)} {verb} it" if users else "it has evidence")
    HypothesisRecords(ctx).edit(item.id, parked=True)
    archive(ctx, "hypothesis", item.id, restore=False)
    refold(ctx, tx, item.id)


def _updated(ctx: Context, tx: LabTransaction, event: EventRow) -> None:
    item, was = ctx.need(HYPOTHESIS, event.body["subject"]), _was(event)
    if item.body["evidence_count"] and was.keys() & {"statement", "prior", "prediction"}:
        raise _built_on(event, "it has evidence")
    _check_same(event, item.body, event.body["payload"], was)
    restore: Callable[..., Hypothesis] = HypothesisRecords(ctx).edit
    restore(item.id, **was)
    refold(ctx, tx, item.id)


def _proposed(ctx: Context, tx: LabTransaction, event: EventRow) -> None:
    ExperimentRecords(ctx).reject(_experiment(ctx, tx, event, "proposed").id, "taken back by undo")


def _approved(ctx: Context, tx: LabTransaction, event: EventRow) -> None:
    item = _experiment(ctx, tx, event, "approved")
    tx.put(EXPERIMENT, item.id, voided(item.body))


def _rejected(ctx: Context, tx: LabTransaction, event: EventRow) -> None:
    item = _experiment(ctx, tx, event, "rejected")
    for other in tx.find(EXPERIMENT, spec_hash=item.body["spec_hash"]):
        if other.body["hypothesis_id"] == item.body["hypothesis_id"] and other.body["status"] != "rejected":
            raise _built_on(event, f"{other.id} has the same specification")
    body = {name: value for name, value in voided(item.body).items() if name != "rejected_because"}
    tx.put(EXPERIMENT, item.id, body)


def _edited(ctx: Context, tx: LabTransaction, event: EventRow) -> None:
    was, item = _was(event), ctx.need(EXPERIMENT, event.body["subject"])
    if "spec_hash" in was:
        _experiment(ctx, tx, event, "proposed")
    since = [row for row in tx.find(EVENT, subject=item.id) if row.number > event.number]
    undone = {row.body["payload"]["seq"] for row in since if row.body["kind"] == "deed_undone"}
    later = {row.number for row in since if row.body["kind"] == "experiment_edited"
             or (row.body["kind"] == "queue_changed" and was.keys() & row.body["payload"].keys())}  # fmt: skip
    if later - undone:
        raise _built_on(event, "it was edited again")
    body = {name: value for name, value in {**item.body, **was}.items() if value is not None or name in _NULLABLE}
    tx.put(EXPERIMENT, item.id, body)
    restored = ctx.need(EXPERIMENT, item.id)
    check_no_circle(ctx, item.id, restored.body["design"]["baseline"])  # that may be compared with it since
    ExperimentRecords(ctx).alike.moved(tx, restored)


def _archived(ctx: Context, _: LabTransaction, event: EventRow) -> None:
    kind = "hypothesis" if event.body["subject"].startswith("h") else "experiment"
    archive(ctx, kind, event.body["subject"], restore=event.body["kind"] == "record_archived")


def _set(ctx: Context, _: LabTransaction, event: EventRow) -> None:
    key, payload, settings = event.body["subject"], event.body["payload"], Settings(ctx)
    present = {item.key: item.value for item in settings.methodology()}
    if key not in present or present[key] != payload["value"]:
        raise _built_on(event, "it has another value now")
    was = payload["was"]
    text = was if isinstance(was, str) else ",".join(was) if isinstance(was, list) else json.dumps(was)
    settings.set_methodology(key, text)


def _queue(ctx: Context, _: LabTransaction, event: EventRow) -> None:
    if Queue(ctx).state() != event.body["payload"]["state"]:
        raise _built_on(event, f"the queue is {Queue(ctx).state()}")
    Queue(ctx).set_state(str(_kept(event)))


class _DryRun(Exception):
    """No error: it leaves a transaction without writing."""


def _kept(event: EventRow) -> object:
    found = event.body["payload"].get("was")
    if found is None:
        raise _built_on(event, "it was recorded by an earlier version, which did not keep what was")
    return found


def _was(event: EventRow) -> dict[str, object]:
    return cast("dict[str, object]", _kept(event))


def _check_same(
    event: EventRow, body: Mapping[str, object], said: Mapping[str, object], was: Mapping[str, object]
) -> None:
    if changed := [name for name in was if body.get(name) != said.get(name)]:
        raise _built_on(event, f"{', '.join(changed)} changed again since")


_NULLABLE = ("command", "cwd", "hypothesis_id", "approved_by", "extends", "renews")
_BACK = {
    "hypothesis_added": _added, "hypothesis_updated": _updated, "experiment_proposed": _proposed,
    "experiment_approved": _approved, "experiment_rejected": _rejected, "experiment_edited": _edited,
    "record_archived": _archived, "record_restored": _archived, "methodology_set": _set, "queue_changed": _queue,
}  # fmt: skip
