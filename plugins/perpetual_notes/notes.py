"""Notes of a type, in Python: `types(lab)`, `form(lab, type)`, `new(lab, type, ...)`; `lab.memory` reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotFound, UsageError, unknown
from perpetual.toolkit.reserved import known_name
from perpetual_notes.form import NoteForm

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.memory import MemoryWrite
    from perpetual_notes.documents import NoteType

__all__ = ["form", "new", "text_of", "types"]

_LONGEST_SLUG = 60


def types(lab: Lab) -> list[NoteType]:
    """Returns the types of notes that have a form, each with an empty form."""
    found = _forms(lab)
    return [{"type": name, "folder": one.folder, "template": one.template()} for name, one in sorted(found.items())]


def form(lab: Lab, type: str) -> NoteForm:
    """Returns the form of a type.

    Raises:
        UsageError: for a type that has none.
    """
    found = _forms(lab)
    if type not in found:
        raise UsageError(unknown("type of note with a form", type, sorted(found)), hint="perpetual memory new")
    return found[type]


def _forms(lab: Lab) -> dict[str, NoteForm]:
    return {known_name("note_form", name): part for name, part in lab.parts("note_form")}


def text_of(
    lab: Lab,
    type: str,
    *,
    title: str = "",
    fields: Mapping[str, Sequence[str]] | None = None,
    scope: Mapping[str, Sequence[str]] | None = None,
    body: str = "",
) -> str:
    """Returns the text of a note by the form of its type, as `new` would write it."""
    return form(lab, type).template(title, fields=fields, scope=scope, body=body)


def new(
    lab: Lab,
    type: str,
    path: str | None = None,
    *,
    title: str = "",
    fields: Mapping[str, Sequence[str]] | None = None,
    scope: Mapping[str, Sequence[str]] | None = None,
    body: str = "",
    text: str | None = None,
    message: str | None = None,
    idempotency_key: str | None = None,
) -> MemoryWrite:
    """Writes a new note by the form of its type, through the gates.

    Args:
        path: of the note; by default the type's folder and the title.
        text: the whole text, instead of what the form makes of the other values.

    Raises:
        UsageError: for what is missing or does not fit, by its field.
        Conflict: (note_exists) if there is a note of that path.
        Refused: if a gate rejects it.
    """
    text = text_of(lab, type, title=title, fields=fields, scope=scope, body=body) if text is None else text
    if wrong := form(lab, type).problems(text):
        raise UsageError(f"{type}: {'; '.join(wrong)}"[:2_000], hint="its form: perpetual memory new --json")
    place = path or path_of(lab, type, title)
    if idempotency_key is None and _exists(lab, place):
        raise Conflict(f"there is a note {place} already", hint=f"perpetual memory edit {place}", code="note_exists")
    return lab.memory.write(place, text, type=type, message=message, idempotency_key=idempotency_key)


def path_of(lab: Lab, type: str, title: str) -> str:
    """Returns where a note of this title goes that is not given a path."""
    slug = re.sub(r"[^\w]+", "-", title.lower()).strip("-_")[:_LONGEST_SLUG].strip("-_")
    return f"{form(lab, type).folder}/{slug or type}.md"


def _exists(lab: Lab, path: str) -> bool:
    try:
        lab.memory.get(path)
    except NotFound:
        return False
    return True
