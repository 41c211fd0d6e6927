"""A retriever that reads every note at each search: no index, no ranking beyond the number of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Listing, Note, NoteHit
from perpetual.toolkit.units import start_of
from perpetual_recall.retriever import Retriever
from perpetual_recall.shown import every_note, is_for_agent, text_of
from perpetual_recall.withheld import withheld
from perpetual_recall.words import any_of, excerpt, patterns_of, words_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Linear", "build"]


class Linear(Retriever):
    """Ranks by the number of words that a note holds in path, title or text, then the newest first."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        """Returns the notes with the most words first."""
        words, start = words_of(query), start_of(cursor)
        patterns, word = patterns_of(words), any_of(words)
        is_agents = is_for_agent(lab)
        found: list[tuple[int, str, int, NoteHit]] = []
        for number, note in enumerate(every_note(lab)):
            text = text_of(lab, note, for_agent=is_agents)
            if text is None:
                continue
            place = f"{note.path}\n{note.title}\n{text}".casefold()
            hits = sum(pattern.search(place) is not None for pattern in patterns)
            if hits:
                found.append((hits, note.updated_at, number, NoteHit(note, excerpt(text, word))))
        if is_agents:
            out = withheld(lab, [item[3].note.path for item in found])
            found = [item for item in found if item[3].note.path not in out]
        found.sort(key=lambda item: item[:3], reverse=True)
        page = tuple(item[3] for item in found[start : start + limit])
        return Listing(page, str(start + limit) if len(found) > start + limit else None)

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        """Returns the newest."""
        found: list[Note] = []
        notes = [*every_note(lab)]
        out = withheld(lab, [note.path for note in notes])
        for note in reversed(notes):
            if len(found) < limit and note.path not in out and text_of(lab, note, for_agent=True) is not None:
                found.append(note)
        return found


def build(options: Mapping[str, object]) -> Linear:
    """Returns the retriever as its provider names it."""
    return Linear()
