"""Notes as HTML that runs and fetches nothing, and which version of each had been accepted, by the events.

By markdown-it-py: no HTML of the note's own, no pictures, and links to the web and to mail alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markupsafe import Markup

from perpetual_report.publishing import Publisher

if TYPE_CHECKING:
    from markdown_it.token import Token

    from perpetual import Lab
    from perpetual.api import Event, Memory

__all__ = ["NoteVersions", "html_of"]

_LONGEST = 20_000  # characters of a note
_SCHEMES = ("https://", "http://", "mailto:")
_TOP = 4  # the level of a note's first heading: below the cell's own


def html_of(text: str) -> Markup:
    """Returns Markdown as HTML."""
    lines = "\n".join(_line(line) for line in text[:_LONGEST].splitlines())
    tokens = _parser().parse(lines)
    _tame(tokens)
    made = str(_parser().renderer.render(tokens, _parser().options, {}))
    left = len(text) - _LONGEST
    return Markup(made + (f"<p>and {left} more characters, which this page leaves out</p>\n" if left > 0 else ""))


def _line(line: str) -> str:
    """Returns a line of which unseen characters are visible: none of them must hide or turn round words."""
    return "".join(c if c.isprintable() or c in "\t\u200c\u200d" else f"\\u{ord(c):04x}" for c in line)


_made: list[MarkdownIt] = []


def _parser() -> MarkdownIt:
    if not _made:
        parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
        parser.validateLink = lambda url: url.strip().lower().startswith(_SCHEMES)  # type: ignore[method-assign]
        _made.append(parser)
    return _made[0]


def _tame(tokens: Sequence[Token]) -> None:
    """Puts headings below the page's own, lets a link vouch for nothing, and a wide table scroll by itself."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + _TOP - 1)}"
        elif token.type == "link_open":
            token.attrSet("rel", "nofollow noopener noreferrer ugc")
        elif token.type in ("th_open", "td_open"):
            token.attrs.pop("style", None)
        _tame(token.children or ())


@dataclass
class _Note:
    """A note while its events are read."""

    commits: dict[str, str]  # by the version's blob
    blob: str | None = None  # of the newest version
    promoted: str | None = None
    status: str = ""


class NoteVersions:
    """Texts of the notes that a person accepted, as far as they stood accepted after the last event.

    A note that is rejected, in quarantine or waits for a decision has no text here, whatever it was before; one that
    was accepted and has a newer version that waits has that of the acceptance.
    """

    def __init__(self, lab: Lab, events: Sequence[Event], publisher: Publisher) -> None:
        """Reads the events; texts are read when they are asked for."""
        self._memory: Memory = lab.part("memory")
        self._publisher = publisher
        self._notes: dict[str, _Note] = {}
        self.unread = 0  # texts that were asked for and could not be read
        for event in events:
            self._take(event)

    def _take(self, event: Event) -> None:
        kind, payload = event.kind, event.payload
        if not kind.startswith("note_"):
            return
        note = self._notes.setdefault(event.subject, _Note({}))
        if kind == "note_written":
            note.blob, note.status = payload["blob"], payload["status"]
        elif kind == "note_committed" and note.blob is not None:
            note.commits[note.blob] = payload["commit"]
        elif kind == "note_promoted":
            note.promoted, note.status = payload["blob"], "promoted"
        elif kind in ("note_rejected", "note_quarantined", "note_expired"):
            note.status = kind.removeprefix("note_")
            note.promoted = None

    def accepted(self, path: str) -> str | None:
        """Returns the version of a note that stands accepted, by its blob; None if none does."""
        note = self._notes.get(path)
        return None if note is None or note.status in ("rejected", "quarantined", "expired") else note.promoted

    def waiting(self) -> int:
        """Returns how many notes are not shown."""
        return sum(self.accepted(path) is None for path in self._notes)

    def text(self, path: str, blob: str) -> str | None:
        """Returns the text of an accepted version, without what may not be published; None if it cannot be read."""
        commit = self._notes[path].commits.get(blob)
        found = None if commit is None else self._memory.read(path, commit)
        if found is None or self._memory.blob_id(found) != blob:
            self.unread += 1
            return None
        return self._publisher.text(found)
