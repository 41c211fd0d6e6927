"""The slot `note_form`: the form of one type of note. The provider's name is the type.

The contract
------------
*Template.* `template` answers a whole note: front matter between `---` lines, then Markdown. It holds all that it was
given; a required field that it was not given is there and empty, with a comment that says what belongs there.

*Problems.* `problems` answers what is wrong with a text, a line for each, which names the field and says what it takes;
nothing for a sound one. A template that was given every required field and a text is sound, and one that was given
nothing is not. It reads untrusted text: it raises nothing, whatever it is given, and its cost is bounded.

*Pure.* The same arguments give the same answer, and nothing else is read or written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from perpetual.api import UsageError, unknown
from perpetual_notes.front import SCOPES, Front, front_of
from perpetual_notes.words import front_matter, one_line

__all__ = ["FieldsForm", "FormField", "NoteForm"]

_LONGEST = 2_000  # characters of a field
_LONGEST_TITLE = 120
_MOST_ITEMS = 50
_COMMON = ("type", "title", "scope", "derived_from", "contradicts", "expires")


class NoteForm(ABC):
    """The form of a type of note; see the contract at the top of this module."""

    folder: str = "notes"  # where notes of the type go whose path is not named

    @abstractmethod
    def template(
        self,
        title: str = "",
        *,
        fields: Mapping[str, Sequence[str]] | None = None,
        scope: Mapping[str, Sequence[str]] | None = None,
        body: str = "",
    ) -> str:
        """Returns the text of a note with these values; what is required and missing is there, and empty."""

    @abstractmethod
    def problems(self, text: str) -> Sequence[str]:
        """Returns what is wrong with the text of a note, a line each."""


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a type's front matter.

    - `kind`: `text`, `list`, `choice`, `count` (1 or more), `share` (from 0 to 1) or `date`.
    - `meaning`: what belongs there.
    - `choices`: the words of a choice.
    """

    name: str
    kind: str
    meaning: str
    choices: tuple[str, ...] = ()
    required: bool = True


class FieldsForm(NoteForm):
    """A form that is a list of fields. `for_type` builds one; a class of its own may set `type` and `own`."""

    type: str
    own: Sequence[FormField] = ()

    @classmethod
    def for_type(cls, type: str, folder: str, own: Sequence[FormField]) -> FieldsForm:
        """Returns the form of a type with these fields."""
        form = cls()
        form.type, form.folder, form.own = type, folder, own
        return form

    def template(
        self,
        title: str = "",
        *,
        fields: Mapping[str, Sequence[str]] | None = None,
        scope: Mapping[str, Sequence[str]] | None = None,
        body: str = "",
    ) -> str:
        """Returns the text of a note with these values; what is required and missing is there, and empty."""
        given = dict(fields or {})
        own = {field.name: field for field in self.own}
        wrong = next((name for name in given if name not in own and name not in _COMMON[3:]), None)
        if wrong is not None:
            raise UsageError(unknown(f"field of a {self.type}", wrong, (*own, *_COMMON[3:])))
        odd = next((name for name in scope or {} if name not in SCOPES), None)
        if odd is not None:
            raise UsageError(unknown("scope of a note", odd, SCOPES))
        lines = front_matter({"type": self.type, "title": title, "scope": scope or {}}).splitlines()[1:-1]
        lines += [] if title else ["title:  # what it says, in one line"]
        for field in self.own:
            values = given.get(field.name, ())
            if values:
                lines.append(_written(field, values))
            elif field.required:
                lines.append(f"{field.name}:  # {field.meaning}")
        for name in _COMMON[3:]:
            if given.get(name):
                kind = "date" if name == "expires" else "list"
                lines.append(_written(FormField(name, kind, ""), given[name]))
        text = body.strip() or f"# {one_line(title, _LONGEST_TITLE)}".rstrip()
        return "\n".join(["---", *lines, "---", text, ""])

    def problems(self, text: str) -> list[str]:
        """Returns what is wrong with the text of a note, a line each."""
        try:
            front = front_of(text)
        except UsageError as problem:
            return [problem.message]
        if front is None:
            return [f"it has no front matter with `type: {self.type}` between two lines `---`"]
        return [*self._common_problems(front), *self._own_problems(front.fields)]

    def _common_problems(self, front: Front) -> list[str]:
        fields, found = front.fields, []
        if fields.get("type") != self.type:
            found.append(f"`type` is {_shown(fields.get('type'))}, not {self.type}")
        checks: tuple[tuple[str, Callable[[object], str]], ...] = (
            ("title", _title_problem), ("scope", _scope_problem), ("derived_from", _list_problem),
            ("contradicts", _list_problem), ("expires", _date_problem),
        )  # fmt: skip
        for name, check in checks:
            wrong = check(fields[name]) if name in fields else ("is missing" if name == "title" else "")
            found += [f"`{name}` {wrong}"] if wrong else []
        known = (*_COMMON, *(field.name for field in self.own))
        found += [unknown(f"field of a {self.type}", name, known) for name in fields if name not in known][:5]
        return found if front.body.strip() else [*found, "there is no text below its front matter"]

    def _own_problems(self, fields: Mapping[str, object]) -> list[str]:
        found = []
        for field in self.own:
            value = fields.get(field.name)
            if value is None or value in ("", []):
                found += [f"`{field.name}` is missing: {field.meaning}"] if field.required else []
                continue
            wrong = _CHECKS[field.kind](value) if field.kind != "choice" else _choice_problem(field, value)
            found += [f"`{field.name}` {wrong}: {field.meaning}"] if wrong else []
        return found


def _written(field: FormField, values: Sequence[str]) -> str:
    if field.kind == "list":
        return front_matter({field.name: [*values]}).splitlines()[1]
    value = " ".join(values)
    if field.kind in ("count", "share"):
        return f"{field.name}: {one_line(value, 40).replace(':', ' ').replace('#', ' ')}"
    return front_matter({field.name: value}).splitlines()[1]


def _shown(value: object) -> str:
    return one_line(str(value), 60)


def _text_problem(value: object) -> str:
    if not isinstance(value, str):
        return f"is {_shown(value)}, not a text"
    return f"is longer than {_LONGEST} characters" if len(value) > _LONGEST else ""


def _title_problem(value: object) -> str:
    if value is None or value == "":
        return "is missing"
    if not isinstance(value, str) or not value.strip():
        return "is no text"
    if "\n" in value.strip() or len(value) > _LONGEST_TITLE:
        return f"is not one line of at most {_LONGEST_TITLE} characters"
    return ""


def _list_problem(value: object) -> str:
    items = value if isinstance(value, list) else [value]
    if len(items) > _MOST_ITEMS:
        return f"has more than {_MOST_ITEMS} items"
    wrong = next((item for item in items if not isinstance(item, str) or _text_problem(item)), None)
    return "" if wrong is None else f"holds {_shown(wrong)}, which is no text"


def _scope_problem(value: object) -> str:
    if not isinstance(value, dict):
        return f"is no mapping of {', '.join(SCOPES)}"
    for name, items in value.items():
        if name not in SCOPES:
            return unknown("scope", str(name), SCOPES)
        if wrong := _list_problem(items):
            return f"{name} {wrong}"
    return ""


def _count_problem(value: object) -> str:
    return "" if type(value) is int and value >= 1 else f"is {_shown(value)}, not a whole number from 1"


def _share_problem(value: object) -> str:
    is_number = type(value) in (int, float)
    return "" if is_number and 0 <= float(str(value)) <= 1 else f"is {_shown(value)}, not a number from 0 to 1"


def _date_problem(value: object) -> str:
    try:
        date.fromisoformat(str(value))
    except ValueError:
        return f"is {_shown(value)}, not a date like 2026-11-30"
    return ""


def _choice_problem(field: FormField, value: object) -> str:
    return "" if value in field.choices else f"is {_shown(value)}, not {' or '.join(field.choices)}"


_CHECKS: dict[str, Callable[[object], str]] = {
    "text": _text_problem, "list": _list_problem, "count": _count_problem, "share": _share_problem,
    "date": _date_problem,
}  # fmt: skip
