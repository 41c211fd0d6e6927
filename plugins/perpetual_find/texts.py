"""Searchable text of each record: what people, agents and programs wrote in it. Secrets are redacted once more."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["KINDS", "Entry", "entry_of"]

KINDS = ("hypothesis", "experiment", "run", "note", "evidence", "event")
# Events whose payload has words of their own; the others repeat what the records say.
_EVENTS = frozenset({
    "experiment_rejected", "note_promoted", "note_rejected", "methodology_set", "budget_set", "queue_changed",
    "work_adopted", "loop_stopped", "proposer_failed", "record_archived", "deed_undone",
})  # fmt: skip
_LONGEST = 64 * 1024  # characters of one record that are indexed

Row = Mapping[str, object]


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
    """Returns what is indexed of a row of the store; None for a row that is not searched."""
    if kind not in _READERS and "." not in kind:
        return None
    found = lab.context.store.get(kind, id)
    if found is None:
        return None
    entry = _READERS.get(kind, _other)(lab, kind, id, found.body)
    if entry is None:
        return None
    clean = lab.context.redactor.text
    return Entry(entry.kind, entry.id, entry.status, clean(entry.title), clean(entry.body[:_LONGEST]),
                 tuple(map(clean, entry.tags)), entry.archived)  # fmt: skip


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
    return json.dumps(value)


def _joined(*values: object) -> str:
    return "\n".join(filter(None, map(_text, values)))


def _row(value: object) -> Row:
    return cast("Row", value) if isinstance(value, dict) else {}


def _tags(body: Row) -> tuple[str, ...]:
    tags = body.get("tags")
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def _status(body: Row) -> str | None:
    status = body.get("status")
    return status if isinstance(status, str) else None


def _hypothesis(_: Lab, kind: str, id: str, body: Row) -> Entry:
    said = _row(body.get("prediction"))
    words = _joined(said.get("metric"), body.get("params"), body.get("flags"), body.get("created_by"))
    return Entry(kind, id, _status(body), _text(body.get("statement")), words, _tags(body), bool(body.get("archived")))


def _experiment(lab: Lab, kind: str, id: str, body: Row) -> Entry:
    shown: Row = lab.context.redaction.shown_specification(body)  # type: ignore[arg-type]
    words = _joined(shown.get("command"), shown.get("notes"), shown.get("config"), shown.get("env"),
                    _row(body.get("design")).get("metric"), body.get("hypothesis_id"), body.get("rejected_because"),
                    body.get("proposed_by"))  # fmt: skip
    return Entry(kind, id, _status(body), _text(shown.get("title")), words, _tags(body), bool(body.get("archived")))


def _run(_: Lab, kind: str, id: str, body: Row) -> Entry:
    seen = body.get("annotations")
    remarks = [_row(item).get("text") for item in seen] if isinstance(seen, list) else []
    words = _joined(body.get("reason"), remarks, [*_row(body.get("metrics"))], _row(body.get("git")).get("commit"))
    return Entry(kind, id, _status(body), f"run of {body.get('experiment_id')}", words)


def _note(lab: Lab, kind: str, id: str, body: Row) -> Entry | None:
    intent = lab.context.store.get("intent", str(body.get("intent"))) if body.get("intent") else None
    if intent is None:
        return None  # rejected: kept for audit alone
    return Entry(
        kind, id, _status(body), _text(body.get("title")), _joined(id, body.get("type"), intent.body["content"])
    )


def _evidence(_: Lab, kind: str, id: str, body: Row) -> Entry | None:
    reason = _text(body.get("reason"))
    if not reason:
        return None
    words = _joined(reason, body.get("verdict"), body.get("actor"), body.get("hypothesis_id"), body.get("run_id"))
    return Entry(kind, f"v{id}", _text(body.get("kind")), f"evidence on {body.get('hypothesis_id')}", words)


def _event(_: Lab, kind: str, id: str, body: Row) -> Entry | None:
    if body.get("kind") not in _EVENTS:
        return None
    title = f"{body.get('kind')} {body.get('subject')}"
    return Entry(kind, id, None, title, _joined(body.get("payload"), body.get("actor")))


def _other(_: Lab, kind: str, id: str, body: Row) -> Entry:
    """Returns a record of a plugin's kind."""
    words = _joined({name: value for name, value in body.items() if name not in ("id", "tags")})
    named = next((body[name] for name in ("title", "name", "statement") if isinstance(body.get(name), str)), id)
    return Entry(kind, id, _status(body), _text(named), words, _tags(body))


_READERS: dict[str, Callable[[Lab, str, str, Row], Entry | None]] = {
    "hypothesis": _hypothesis, "experiment": _experiment, "run": _run, "note": _note, "evidence": _evidence,
    "event": _event,
}  # fmt: skip
