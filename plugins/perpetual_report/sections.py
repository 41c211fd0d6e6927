"""Sections that plugins add to a report: words, tables and pictures, as Markdown and in the page.

A section is what a provider of `report_section` builds: a callable that takes the lab and answers Markdown. One that
has two more methods is laid out in the page too, and its facts are in `perpetual report --json`:

    data(lab) -> dict            the facts, as JSON; an empty dict where there is nothing to say
    parts(data) -> list of Heading, Words, Table and Picture

A `Picture` holds a function that draws when the page needs it: Markdown has none. Whatever a part says is text: it is
escaped here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from perpetual.toolkit.contained import contained
from perpetual_report.words import inline

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = [
    "Heading",
    "KeptSection",
    "LaidOut",
    "Part",
    "Picture",
    "Section",
    "Table",
    "Words",
    "markdown",
    "sections_of",
]


class Heading(NamedTuple):
    """A heading inside the section."""

    text: str


class Words(NamedTuple):
    """A paragraph."""

    text: str


class Table(NamedTuple):
    """A table; `name` says what is in it, `left` counts rows that it leaves out."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 0


class Picture(NamedTuple):
    """A picture as SVG text, as `perpetual_report.pictures.draw` makes it, with what is to be said below it.

    `draw` answers None where there is nothing to draw.
    """

    draw: Callable[[], str | None]
    caption: str


Part = Heading | Words | Table | Picture


@runtime_checkable
class LaidOut(Protocol):
    """A section with facts and parts; `title` is its heading in the page."""

    title: str

    def __call__(self, lab: Lab) -> str:
        """Returns the section as Markdown."""

    def data(self, lab: Lab) -> dict[str, object]:
        """Returns the facts of the section."""

    def parts(self, data: Mapping[str, object]) -> Sequence[Part]:
        """Returns what is shown of the facts."""


class KeptSection(ABC):
    """A section whose facts are kept until the record changes: a long report asks for them part by part.

    A subclass names its `title`, finds its facts in `find` and lays them out in `parts`.
    """

    title: str

    def __init__(self) -> None:
        self._known: tuple[str | None, dict[str, object]] = None, {}

    def __call__(self, lab: Lab) -> str:
        """Returns the section as Markdown, empty where there is nothing to say."""
        data = self.data(lab)
        return markdown(self.title, self.parts(data)) if data else ""

    def data(self, lab: Lab) -> dict[str, object]:
        """Returns the facts of the section, as `find` does."""
        state, (known, data) = lab.feed.state(), self._known
        if state is None or state != known:
            data = self.find(lab)
            self._known = state, data
        return data

    @abstractmethod
    def find(self, lab: Lab) -> dict[str, object]:
        """Returns the facts of the section from the record, as JSON; {} where there is nothing to say."""

    @abstractmethod
    def parts(self, data: Mapping[str, object]) -> Sequence[Part]:
        """Returns what is shown of the facts."""


class Section(NamedTuple):
    """A section as it was made; `parts` and `data` are None of a plugin that answers Markdown alone."""

    name: str
    title: str
    text: str
    data: dict[str, object] | None = None
    parts: Sequence[Part] | None = None
    pictures: Sequence[str | None] = ()


def sections_of(lab: Lab, *, has_pictures: bool = False) -> list[Section]:
    """Returns the sections of plugins that say something; a line that says so replaces one that fails."""
    found = []
    for name, section in lab.parts("report_section"):
        try:
            with contained():
                made = _made(lab, name, section, has_pictures=has_pictures)
        except Exception as problem:  # noqa: BLE001 - one plugin's section must not cost the others; the report names it
            made = Section(name, name, f"*The section of {name} failed: {inline(problem)}*")
        if made.text.strip():
            found.append(made)
    for name, now in lab.status().get("sections", {}).items():
        if now["error"] is not None:
            text = f"*The section of {inline(name)} failed: {inline(now['error'])}*"
            found.append(Section(name, name, text))
        elif now["lines"]:
            listed = "\n".join(f"- {inline(line)}" for line in now["lines"])
            found.append(Section(name, name, f"## {inline(now['title'])}\n\n{listed}\n"))
    return found


def _made(lab: Lab, name: str, section: object, *, has_pictures: bool) -> Section:
    if not isinstance(section, LaidOut):
        assert callable(section)
        return Section(name, name, str(section(lab)))
    data = section.data(lab)
    if not data:
        return Section(name, section.title, "")
    parts = [*section.parts(data)]
    pictures = [part.draw() if has_pictures and isinstance(part, Picture) else None for part in parts]
    return Section(name, section.title, markdown(section.title, parts), data, parts, pictures)


def markdown(title: str, parts: Iterable[Part]) -> str:
    """Returns a section as Markdown; its pictures are left out."""
    return "\n\n".join([f"## {inline(title)}", *(text for part in parts if (text := _text(part)))]) + "\n"


def _text(part: Part) -> str:
    match part:
        case Heading():
            return f"### {inline(part.text)}"
        case Words():
            return inline(part.text)
        case Table():
            head = ["| " + " | ".join(map(inline, part.columns)) + " |", "|" + "---|" * len(part.columns)]
            rows = ["| " + " | ".join(map(inline, row)) + " |" for row in part.rows]
            left = f"\n\nAnd {part.left} more." if part.left else ""
            return inline(part.name) + ":\n\n" + "\n".join([*head, *rows]) + left
        case Picture():
            return ""
