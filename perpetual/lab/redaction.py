"""Keeps secrets out of the record, and takes those of older records out of what is shown. Floor 2.

Every row that the lab writes passes `Redaction.cleaned` (`StoreBase.clean`, set by `Context`). A specification is not
changed there: approval binds its bytes and a run is started from them, so `refuse_secrets` refuses one that holds a
secret, naming the field and never the value. A run gets its secrets from the environment of its launcher.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perpetual.errors import UsageError
from perpetual.toolkit.limits import LONGEST_COMMAND, fits_text

if TYPE_CHECKING:
    from perpetual.documents.status import LabStatus
    from perpetual.lab.bodies import ExperimentBody
    from perpetual.slots.redactor import Redactor

__all__ = ["CHECKED", "Redaction", "only_removes"]

B = TypeVar("B", bound=Mapping[str, object])

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
    "spec_completed", "experiment_proposed", "experiment_edited", "experiment_rejected", "hypothesis_added",
    "hypothesis_updated", "run_status", "run_annotated", "note_promoted", "note_rejected", "note_quarantined",
    "note_expired", "note_failed", "proposer_failed", "approver_failed", "run_analysed",
})  # fmt: skip
_WHOLE = frozenset({"setting", "fold", "key"})  # the kernel's own
_MARKS = r"\[redacted(?::[\w.-]{1,80})?\]|<redacted>"


class Redaction:
    """What the redactor in force makes of rows, specifications and documents.

    The redactor is asked for where a text is to be looked at: most records were checked when they were written.
    """

    def __init__(self, redactor: Callable[[], Redactor]) -> None:
        self._ask = redactor

    @cached_property
    def _redactor(self) -> Redactor:
        return self._ask()

    def cleaned(self, kind: str, body: dict[str, object]) -> dict[str, object]:
        """Returns a row as it is written: secrets replaced in all that people, runs and plugins gave it."""
        if kind in _WHOLE:
            return body
        kept = _KEPT.get(kind, frozenset())
        return {
            name: value
            if name in kept or name.startswith("approved_") or not isinstance(value, str | list | dict)
            else self._cleaned(value)
            for name, value in body.items()
        }

    def cleaned_fields(self, kind: str, body: dict[str, object], verbatim: set[str]) -> dict[str, object]:
        """Returns a row of a plugin's kind as it is written: secrets replaced, but in fields that are kept verbatim.

        Raises:
            UsageError: if one of those holds a secret.
        """
        for name in verbatim:
            if self._redactor.in_value(body.get(name)) is not None:
                raise UsageError(f"{kind}: the field {name} holds a secret", hint=_HINT, code="secret_in_record")
        return {name: value if name in verbatim else self._cleaned(value) for name, value in body.items()}

    def _cleaned(self, value: object) -> Any:
        """Replaces by form alone: the names in a row are the kernel's own."""
        if isinstance(value, str):
            return self._redactor.text(value)
        if isinstance(value, dict):
            return {self._redactor.text(name): self._cleaned(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._cleaned(item) for item in value]
        return value

    # --- refused ----------------------------------------------------------------------------------------------

    def refuse_command(self, command: str | None) -> None:
        """Raises UsageError for a command that holds a secret, or is too long for its words to be looked at."""
        fits_text(command, "the command", LONGEST_COMMAND)
        if command is not None and self._redactor.in_command(command):
            raise _refusal("the command holds a secret")

    def refuse_key(self, key: str) -> None:
        """Raises UsageError for an idempotency key that holds a secret."""
        if self._redactor.text(key) != key:
            raise _refusal("the idempotency key holds a secret")

    def refuse_secrets(
        self, command: str | None, env: Mapping[str, str], engine: Mapping[str, object] | None, **others: object
    ) -> None:
        """Raises UsageError for a specification with a secret in its command, environment, settings or options."""
        self.refuse_command(command)
        variable = self._redactor.in_variables(env)
        if variable is not None:
            raise _refusal(f"the environment variable {variable} holds a secret")
        for field, value in (*others.items(), ("engine", engine)):
            place = self._redactor.in_value(value or {})
            if place is not None:
                raise _refusal(f"{field}.{place} holds a secret" if place else f"{field} holds a secret")

    # --- shown ------------------------------------------------------------------------------------------------

    def shown_specification(self, body: ExperimentBody) -> ExperimentBody:
        """Returns an experiment's body for a reader: an older specification without its secrets."""
        if body.get(CHECKED):
            return body
        redactor = self._redactor
        shown: ExperimentBody = {**body, "config": redactor.values(body["config"])}
        shown["env"] = redactor.environment({name: str(value) for name, value in body["env"].items()})
        if body["command"] is not None:
            shown["command"] = redactor.command(body["command"])
        shown["title"], shown["notes"] = redactor.text(body["title"] or ""), redactor.text(body["notes"] or "")
        return shown

    def shown_record(self, kind: str, body: B) -> B:
        """Returns a record of another kind for a reader: one that was written before the check without its secrets."""
        return body if body.get(CHECKED) else cast("B", self.cleaned(kind, dict(body)))

    def shown_status(self, document: LabStatus) -> LabStatus:
        """Returns a document that was made of the record for a reader, without the secrets of older rows."""
        found: LabStatus = self._cleaned(document)
        return found

    def shown_event(self, kind: str, body: Mapping[str, object]) -> dict[str, object]:
        """Returns an event for a reader; only events with words of people, runs or plugins are looked at."""
        return self.cleaned("event", dict(body)) if kind in _WORDED else dict(body)

    def old_secrets(self, body: Mapping[str, object]) -> list[str]:
        """Returns the fields of an older specification that hold a secret."""
        if body.get(CHECKED):
            return []
        shown = self.shown_specification(cast("ExperimentBody", body))
        return [name for name in ("command", "env", "config", "title", "notes") if shown[name] != (body[name] or "")
                and (body[name] is not None)]  # fmt: skip


def _refusal(message: str) -> UsageError:
    return UsageError(message, hint=_HINT, code="secret_in_specification")


def only_removes(text: str, redacted: str) -> bool:
    """Returns whether `redacted` is `text` with spans replaced by a redaction mark, and holds no other words."""
    if redacted == text:
        return True
    first, *rest = re.split(_MARKS, redacted)
    if not rest or not text.startswith(first):
        return False
    position, last = len(first), rest.pop()
    for piece in rest:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return text.endswith(last) and position + len(last) <= len(text)
