"""Notes that say the same, and notes that say the opposite."""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING
from zlib import crc32

from perpetual_recall.front import split

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.index import Version

__all__ = ["are_alike", "are_opposite", "near_duplicates", "shared_at_least", "shingles", "sketch"]

_ALIKE = 0.6  # Jaccard index from which two notes are one
_SAME_SUBJECT = 0.5  # of the words of two titles
_SHINGLE = 3  # words
_MOST = 64 * 1024  # characters that are looked at
_SKETCH = 16  # hashes
_SHARED = 3  # of them
_MIX, _MASK = 0x9E3779B97F4A7C15, 0x7FFFFFFFFFFFFFFF  # of a checksum, whose order says something of the text
_FOR = frozenset({"helps", "help", "improves", "better", "works", "lowers", "supported", "holds", "raises", "faster"})
_AGAINST = frozenset({"hurts", "hurt", "worsens", "worse", "fails", "refuted", "useless", "slower", "harms", "breaks"})
_VERDICTS = _FOR | _AGAINST | {"not", "no", "never"}


@lru_cache(maxsize=64)  # the notes of a block are compared in pairs
def shingles(text: str) -> frozenset[str]:
    """Returns every three words in a row of a note's text, its front matter left out."""
    words = re.findall(r"\w+", split(text)[1][:_MOST].casefold())
    if len(words) <= _SHINGLE:
        return frozenset([" ".join(words)]) if words else frozenset()
    return frozenset(" ".join(words[place : place + _SHINGLE]) for place in range(len(words) - _SHINGLE + 1))


def sketch(parts: frozenset[str]) -> list[int]:
    """Returns the 16 smallest hashes of a text's shingles, or all of fewer: notes are looked up by them.

    Each of the smallest hashes of two texts together is in both with their Jaccard index as its probability (Broder,
    On the resemblance and containment of documents, 1997), for hashes as good as random ones. So two texts of index
    0.6 share fewer than 3 of 16 with a probability of 1 in 7,000.
    """
    return sorted(crc32(it.encode("utf-8", "replace")) * _MIX & _MASK for it in parts)[:_SKETCH]


def shared_at_least(size: int) -> int:
    """Returns how many hashes a text that says the same shares with a sketch of so many."""
    return min(_SHARED, ceil(_ALIKE * size))


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


def near_duplicates(lab: Lab, text: str, *, most_s: float | None = None) -> list[Version]:
    """Returns the notes that say the same as a text, the most alike first, of those that the lab's reader may find.

    At most 20 notes are compared, those that share most of the text's sketch.

    Raises:
        TransientError: where bringing the index up to date takes more than `most_s`.
    """
    from perpetual_recall.recall import recall_of

    mine = shingles(text)
    alike = ((shingles(found.text), found) for found in recall_of(lab).resembling(lab, mine, most_s=most_s))
    ranked = sorted(
        (
            (-len(mine & other) / len(mine | other), found.note.path, found)
            for other, found in alike
            if are_alike(mine, other)
        ),
        key=lambda item: item[:2],
    )
    return [found for _, _, found in ranked]
