"""Searchable text of each record: what people, agents and programs wrote in it, as the lab shows it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import NotFound

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["KINDS", "Entry", "entry_of"]

KINDS = ("hypothesis", "experiment", "run", "note", "evidence", "event")
# Events whose payload has words of their own; the others repeat what the records say.
_EVENTS = frozenset({
    "experiment_rejected", "note_promoted", "note_rejected", "note_quarantined", "note_expired", "methodology_set",
    "budget_set", "queue_changed", "work_adopted", "loop_stopped", "proposer_failed", "record_archived", "deed_undone",
})  # fmt: skip
_LONGEST = 64 * 1024  # characters of one record that are indexed


@dataclass(frozen=True, slots=True)
class Entry:
    """What is indexed of one record."""

    kind: str
    id: str
    status: str | None
    title: str
    body: str
    tags: tuple[str, ...] = ()
    archived: bool = False


def entry_of(lab: Lab, kind: str, id: str) -> Entry | None:
    """Returns what is indexed of a record; None for one that is not searched."""
    if kind not in _READERS and "." not in kind:
        return None
    try:
        return _READERS[kind](lab, id) if kind in _READERS else _other(lab, kind, id)
    except NotFound:
        return None


def _text(value: object) -> str:
    """Returns a value's words: of a mapping its names and values, of nothing nothing."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{name} {_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "\n".join(map(_text, value))
    return json.dumps(value, default=str)


def _joined(*values: object) -> str:
    return "\n".join(filter(None, map(_text, values)))[:_LONGEST]


def _hypothesis(lab: Lab, id: str) -> Entry:
    item = lab.hypotheses.get(id)
    words = _joined(item.prediction.metric, item.params, item.flags, item.created_by)
    return Entry("hypothesis", item.id, item.status, item.statement, words, item.tags, item.archived)


def _experiment(lab: Lab, id: str) -> Entry:
    item = lab.experiments.get(id)
    words = _joined(item.command, item.notes, item.config, item.env, item.design.metric, item.hypothesis_id,
                    item.proposed_by)  # fmt: skip
    return Entry("experiment", item.id, item.status, item.title, words, item.tags, item.archived)


def _run(lab: Lab, id: str) -> Entry:
    item = lab.runs.get(id)
    remarks = [note["text"] for note in item.annotations]
    words = _joined(item.reason, remarks, [*item.metrics], item.git.commit)
    return Entry("run", item.id, item.status, f"run of {item.experiment_id}", words)


def _note(lab: Lab, path: str) -> Entry:
    item = lab.memory.get(path)
    # The text of a rejected version is kept for audit alone; an earlier one may still be shown.
    text = lab.memory.read(path, exposed_only=item.status == "rejected")
    return Entry("note", item.path, item.status, item.title, _joined(item.path, item.type, text))


def _evidence(lab: Lab, id: str) -> Entry | None:
    item = lab.evidence.get(f"v{id}")
    if not item.reason:
        return None
    words = _joined(item.reason, item.verdict, item.actor, item.hypothesis_id, item.run_id)
    return Entry("evidence", item.id, item.kind, f"evidence on {item.hypothesis_id}", words)


def _event(lab: Lab, id: str) -> Entry | None:
    (item,) = lab.events(since=int(id) - 1, limit=1) or (None,)
    if item is None or item.kind not in _EVENTS:
        return None
    return Entry("event", id, None, f"{item.kind} {item.subject}", _joined(item.payload, item.actor))


def _other(lab: Lab, kind: str, id: str) -> Entry:
    """Returns a record of a plugin's kind."""
    fields = lab.records(kind).get(id).fields
    named = next((fields[name] for name in ("title", "name", "statement") if isinstance(fields.get(name), str)), id)
    tags, status = fields.get("tags"), fields.get("status")
    return Entry(kind, id, status if isinstance(status, str) else None, _text(named), _joined(fields),
                 tuple(map(str, tags)) if isinstance(tags, list) else ())  # fmt: skip


_READERS: dict[str, Callable[[Lab, str], Entry | None]] = {
    "hypothesis": _hypothesis, "experiment": _experiment, "run": _run, "note": _note, "evidence": _evidence,
    "event": _event,
}  # fmt: skip
