"""Notes that say the same, and notes that say the opposite."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perpetual_recall.front import split

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.index import Version

__all__ = ["are_alike", "are_opposite", "near_duplicates", "shingles"]

_ALIKE = 0.6  # Jaccard index from which two notes are one
_SAME_SUBJECT = 0.5  # of the words of two titles
_SHINGLE = 3  # words
_MOST = 64 * 1024  # characters that are looked at
_FOR = frozenset({"helps", "help", "improves", "better", "works", "lowers", "supported", "holds", "raises", "faster"})
_AGAINST = frozenset({"hurts", "hurt", "worsens", "worse", "fails", "refuted", "useless", "slower", "harms", "breaks"})
_VERDICTS = _FOR | _AGAINST | {"not", "no", "never"}


def shingles(text: str) -> frozenset[str]:
    """Returns every three words in a row of a note's text, its front matter left out."""
    words = re.findall(r"\w+", split(text)[1][:_MOST].casefold())
    if len(words) <= _SHINGLE:
        return frozenset([" ".join(words)]) if words else frozenset()
    return frozenset(" ".join(words[place : place + _SHINGLE]) for place in range(len(words) - _SHINGLE + 1))


def are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Returns whether two texts say the same."""
    whole = len(one | other)
    return whole > 0 and len(one & other) / whole >= _ALIKE


def are_opposite(one: Version, other: Version) -> bool:
    """Returns whether a note names the other as contradicted, or their titles judge one subject in opposite words."""
    if other.note.path in one.front.contradicts or one.note.path in other.front.contradicts:
        return True
    if one.front.scope != other.front.scope:
        return False
    mine, theirs = ({*re.findall(r"\w+", it.note.title.casefold())} for it in (one, other))
    subjects = mine - _VERDICTS, theirs - _VERDICTS
    whole = len(subjects[0] | subjects[1])
    is_same = whole > 0 and len(subjects[0] & subjects[1]) / whole >= _SAME_SUBJECT
    return is_same and _side(mine) * _side(theirs) < 0


def _side(words: set[str]) -> int:
    """Returns 1 for a verdict in favour, -1 for one against, 0 for none or both; a `not` turns it round."""
    side = bool(words & _FOR) - bool(words & _AGAINST)
    return -side if words & {"not", "no", "never"} else side


def near_duplicates(lab: Lab, text: str) -> list[str]:
    """Returns the paths of the notes that say the same as a text, of those that the lab's reader may find."""
    from perpetual_recall.recall import recall_of

    mine = shingles(text)
    return sorted(
        found.note.path for found in recall_of(lab).like(lab, split(text)[1]) if are_alike(mine, shingles(found.text))
    )
