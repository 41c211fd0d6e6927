"""Tells by its words which needles a text may hold.  Used by the secrets' rules and by the memory scanner.

Texts repeat their words, so what a word holds is looked up once and remembered.  A text then costs one look at each
of its different words, however many needles there are.  Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from operator import or_
from threading import RLock
from typing import TypeVar

from perpetual.toolkit.late_pattern import late_pattern

__all__ = ["EDGE", "MOST_SETS", "Remembered", "VOCABULARY", "Vocabulary", "runs_of", "words_of"]

MOST_WORDS = 20_000
"""Words remembered; when there are more, the memory starts anew."""
MOST_SETS = 2_000
"""Sets of bits or of names remembered."""
LONGEST_WORD = 24
"""A longer word is hardly met again and is not remembered."""
SHORTEST_RUN = 2
"""Letters that a needle must have in a row to be found by words; one with fewer is looked for in the text itself."""
EDGE = "\0"
"""In a needle: here a word begins or ends."""
_ASCII_WORD = late_pattern(r"[a-z]+")
_WORD = late_pattern(r"[^\W\d_]+")
_SIGN = late_pattern(r"[^a-z\s]")
_NO_SIGNS = dict.fromkeys(map(ord, "abcdefghijklmnopqrstuvwxyz \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"))
_UNSEEN = frozenset("abcdefghijklmnopqrstuvwxyz \t\n")
_SIGNS = late_pattern(r"[^\w\s.]{2}")


Asked = TypeVar("Asked")
Known = TypeVar("Known")


@lru_cache(maxsize=8)  # every table asks about the same view
def words_of(lower: str) -> frozenset[str]:
    """Returns the runs of letters in a text in lower case."""
    return frozenset((_ASCII_WORD if lower.isascii() else _WORD).findall(lower))


class Remembered(dict[Asked, Known]):
    """What is known of words or of other things, worked out when one is first met."""

    def __init__(self, work_out: Callable[[Asked], Known], most: int = MOST_WORDS) -> None:
        """Takes what works it out, and for how many it is kept."""
        super().__init__()
        self._work_out = work_out
        self._most = most

    def __missing__(self, asked: Asked) -> Known:
        """Works it out; a long word is hardly met again and is not remembered."""
        known = self._work_out(asked)
        if not isinstance(asked, str) or len(asked) <= LONGEST_WORD:
            if len(self) >= self._most:
                self.clear()
            self[asked] = known
        return known


class Vocabulary:
    """Groups of needles, each with one bit; a needle stands for its longest run of letters."""

    def __init__(self) -> None:
        """Starts without groups."""
        self._groups: dict[frozenset[str], int] = {}
        self._filed: dict[str, dict[str, int]] = {}
        self._signs: dict[str, dict[str, int]] = {}
        self._known: Remembered[str, int] = Remembered(self._learnt)
        self._lock = RLock()  # a table may be filed while another thread reads
        self._read = lru_cache(maxsize=8)(self._held)

    def add(self, needles: Iterable[str]) -> int:
        """Returns the bit of a group of needles in lower case; texts that hold one of them get it."""
        group = frozenset(needles)
        with self._lock:
            return self._added(group)

    def _added(self, group: frozenset[str]) -> int:
        bit = self._groups.get(group)
        if bit is not None:
            return bit
        bit = self._groups[group] = 1 << len(self._groups)
        for needle in group:
            run = _longest_run(needle)
            letters = run.strip(EDGE)
            if len(letters) < SHORTEST_RUN:
                sign = max(needle.split(EDGE), key=len)
                first = min(sign, key=_commonness)
                first = "" if first in _UNSEEN else first
                signs = self._signs.setdefault(first, {})
                signs[sign] = signs.get(sign, 0) | bit
            else:
                filed = self._filed.setdefault(letters[:3], {})
                filed[run] = filed.get(run, 0) | bit
        self._known.clear()
        return bit

    def __len__(self) -> int:
        """Returns how many groups there are."""
        return len(self._groups)

    def of_word(self, word: str) -> int:
        """Returns the bits of the groups of which a run of letters in lower case may hold a needle."""
        with self._lock:
            return self._known[word]

    @staticmethod
    def is_in_words(needles: Iterable[str]) -> bool:
        """Returns whether the words of a text tell that it may hold one of the needles, whatever its signs."""
        return all(len(_longest_run(needle).strip(EDGE)) >= SHORTEST_RUN for needle in needles)

    @staticmethod
    def is_telling(needles: Iterable[str]) -> bool:
        """Returns whether few texts hold one of the needles by chance: each has letters in a row, or signs in a row."""
        return all(
            any(len(run.strip(EDGE)) >= SHORTEST_RUN for run in runs_of(needle))
            or _SIGNS.search(max(needle.split(EDGE), key=len)) is not None
            for needle in needles
        )

    def held(self, lower: str) -> int:
        """Returns the bits of the groups of which a text in lower case may hold a needle, and of all that it holds."""
        return self._read(lower, len(self._groups))

    def _held(self, lower: str, groups: int) -> int:
        """Returns the bits; `groups` is how many there are, so that nothing is kept that was read with fewer."""
        with self._lock:
            return self._bits(lower)

    def _bits(self, lower: str) -> int:
        held = reduce(or_, map(self._known.__getitem__, words_of(lower)), 0)
        for first in self._signs.keys() & {"", *_signs_in(lower)}:
            for sign, bits in self._signs[first].items():
                if sign in lower:
                    held |= bits
        return held

    def _learnt(self, word: str) -> int:
        pieces = {word[at : at + size] for size in (2, 3) for at in range(len(word) - size + 1)}
        bounded = f"{EDGE}{word}{EDGE}"
        bits = 0
        for piece in self._filed.keys() & pieces:
            for run, of_run in self._filed[piece].items():
                if run in bounded:
                    bits |= of_run
        return bits


def _commonness(char: str) -> int:
    """Returns a number that is smaller for characters that fewer texts hold; letters are not looked for."""
    return (
        99
        if char.isalpha() or char.isspace()
        else ".,-1025346789'\"():/".find(char) + 20
        if char in ".,-1025346789'\"():/"
        else 0
    )


@lru_cache(maxsize=4_096)
def runs_of(needle: str) -> tuple[str, ...]:
    """Returns the runs of letters of a needle, each with its edges: another sign in the needle is an edge, too."""
    found = []
    for match in _WORD.finditer(needle):
        first = EDGE if match.start() else ""
        last = EDGE if match.end() < len(needle) else ""
        found.append(f"{first}{match.group()}{last}")
    return tuple(found)


def _signs_in(lower: str) -> Iterable[str]:
    """Returns the characters of a text but its plain letters and blanks."""
    return lower.translate(_NO_SIGNS) if lower.isascii() else _SIGN.findall(lower)


def _longest_run(needle: str) -> str:
    return max(runs_of(needle), key=len, default="")


VOCABULARY = Vocabulary()
"""The needles of all rules, so that a text is looked at once."""
