"""Keeps secrets out of the record, and takes those of older records out of what is shown. Floor 2.

Every row that the lab writes passes `cleaned` (`StoreBase.clean`, set by `Context`). A specification is not changed
there: approval binds its bytes and a run is started from them, so `refuse_secrets` refuses one that holds a secret,
naming the field and never the value. A run gets its secrets from the environment of its launcher.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perpetual.errors import UsageError

__all__ = [
    "CHECKED",
    "cleaned",
    "cleaned_fields",
    "old_secrets",
    "only_removes",
    "refuse_command",
    "refuse_key",
    "refuse_secrets",
    "shown_event",
    "shown_record",
    "shown_status",
    "shown_specification",
]

CHECKED = "checked_for_secrets"  # of a document: it was, when it was written
_HINT = "export it where perpetual is started (runs inherit that environment), or let the program read a file"
# What approval, git or the kernel compare byte by byte. Texts of notes were redacted before they were hashed.
_KEPT: dict[str, frozenset[str]] = {
    "experiment": frozenset({"command", "env", "config", "cwd", "resources", "design", "spec_hash"}),
    "run": frozenset({"native_id", "nonce", "spec_hash", "provenance_sha256", "seed", "gpus", "git"}),
    "note": frozenset({"path", "blob", "commit"}),
    "intent": frozenset({"path", "content", "message", "blob", "author", "when"}),
    "verdict": frozenset({"path", "content", "blob"}),
    "event": frozenset({"time", "actor", "kind", "subject"}),
}
_WORDED = frozenset({
    "spec_completed", "experiment_proposed", "experiment_rejected", "hypothesis_added", "hypothesis_updated",
    "run_status", "run_annotated", "note_promoted", "note_rejected", "note_failed", "proposer_failed",
})  # fmt: skip
_WHOLE = frozenset({"setting", "fold", "key"})  # the kernel's own


def cleaned(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """Returns a row as it is written: secrets replaced in all that people, runs and plugins gave it."""
    if kind in _WHOLE:
        return body
    kept = _KEPT.get(kind, frozenset())
    return {
        name: value
        if name in kept or name.startswith("approved_") or not isinstance(value, str | list | dict)
        else _cleaned(value)
        for name, value in body.items()
    }


def cleaned_fields(kind: str, body: dict[str, Any], verbatim: set[str]) -> dict[str, Any]:
    """Returns a row of a plugin's kind as it is written: secrets replaced, but in the fields that are kept verbatim.

    Raises:
        UsageError: if one of those holds a secret.
    """
    from perpetual.toolkit.redact import secret_in_value

    for name in verbatim:
        place = secret_in_value(body.get(name))
        if place is not None:
            raise UsageError(f"{kind}: the field {name} holds a secret", hint=_HINT, code="secret_in_record")
    return {name: value if name in verbatim else _cleaned(value) for name, value in body.items()}


def _cleaned(value: Any) -> Any:
    """Replaces by form alone: the names in a row are the kernel's own."""
    from perpetual.toolkit.redact import redact_text

    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {redact_text(name): _cleaned(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    return value


def refuse_command(command: str | None) -> None:
    """Raises UsageError for a command that holds a secret."""
    from perpetual.toolkit.redact import secret_in_command

    if command is not None and secret_in_command(command):
        raise _refusal("the command holds a secret")


def refuse_key(key: str) -> None:
    """Raises UsageError for an idempotency key that holds a secret."""
    from perpetual.toolkit.redact import redact_text

    if redact_text(key) != key:
        raise _refusal("the idempotency key holds a secret")


def refuse_secrets(body: Mapping[str, Any]) -> None:
    """Raises UsageError for a specification that holds a secret, in its command, environment, settings or options."""
    from perpetual.toolkit.redact import secret_in_value, secret_in_variables

    refuse_command(body.get("command"))
    variable = secret_in_variables(body.get("env") or {})
    if variable is not None:
        raise _refusal(f"the environment variable {variable} holds a secret")
    engine = body.get("engine") or (body.get("resources") or {}).get("engine")
    for field, value in (*((name, body.get(name)) for name in ("config", "cwd", "design")), ("engine", engine)):
        place = secret_in_value(value or {})
        if place is not None:
            raise _refusal(f"{field}.{place} holds a secret" if place else f"{field} holds a secret")


def _refusal(message: str) -> UsageError:
    return UsageError(message, hint=_HINT, code="secret_in_specification")


_MARKS = re.compile(r"\[redacted(?::[\w.-]{1,80})?\]|<redacted>")


def only_removes(text: str, redacted: str) -> bool:
    """Returns whether `redacted` is `text` with spans replaced by a redaction mark, and holds no other words."""
    if redacted == text:
        return True
    first, *rest = _MARKS.split(redacted)
    if not rest or not text.startswith(first):
        return False
    position, last = len(first), rest.pop()
    for piece in rest:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return text.endswith(last) and position + len(last) <= len(text)


def shown_specification(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an experiment's body for a reader: an older specification without its secrets."""
    from perpetual.toolkit.redact import redact_command, redact_environment, redact_text, redact_value

    if body.get(CHECKED):
        return dict(body)
    shown = {**body, "config": redact_value(body["config"])}
    shown["env"] = redact_environment({name: str(value) for name, value in body["env"].items()})
    if body["command"] is not None:
        shown["command"] = redact_command(body["command"])
    for name in ("title", "notes"):
        shown[name] = redact_text(body[name] or "")
    return shown


def shown_record(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a record of another kind for a reader: one that was written before the check without its secrets."""
    return dict(body) if body.get(CHECKED) else cleaned(kind, dict(body))


def shown_status(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a document that was made of the record for a reader, without the secrets of older rows."""
    found: dict[str, Any] = _cleaned(document)
    return found


def shown_event(kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an event for a reader; only events with words of people, runs or plugins are looked at."""
    return cleaned("event", dict(body)) if kind in _WORDED else dict(body)


def old_secrets(body: Mapping[str, Any]) -> list[str]:
    """Returns the fields of an older specification that hold a secret."""
    if body.get(CHECKED):
        return []
    shown = shown_specification(body)
    return [name for name in ("command", "env", "config", "title", "notes") if shown[name] != (body[name] or "")
            and (body[name] is not None)]  # fmt: skip
