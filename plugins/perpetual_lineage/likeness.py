"""Whether a text makes a claim again that another one made: words in any order, without a model.

A text is its content words (stop words left out, stemmed, words of one meaning taken as one), its numbers, and which
side it takes. Two texts make one claim if nearly all of their words match, exactly or as strings of characters, and
none of these parts them: a number of the one in the place of another number, the opposite verdict, or a named thing
(an optimiser, a data set) in the place of another. In a text too short to tell, every word counts.

Synonyms that are in no list here are other words: an embedder finds them, where one is installed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from perpetual_lineage.lexicon import COMPARISONS, LIGHT, LIGHT_ENDS, MEANINGS, NEGATIONS, PHRASES, SIDES, STOP
from perpetual_lineage.lexicon import NUMBERS as NAMED_NUMBERS

__all__ = [
    "COSINE",
    "FEWEST",
    "THRESHOLD",
    "Claim",
    "claim_of",
    "frozen",
    "is_again",
    "is_parted",
    "likeness",
    "thawed",
    "units_of",
]

FEWEST = 5  # content words and numbers below which only near-equality counts
THRESHOLD = 0.7  # of the likeness
_NEAR = 0.95  # of a short text
_LONGEST = 16 * 1024  # characters that are looked at
_MOST_UNITS = 40
_LONGEST_WORD = 40  # characters of a word that count
_MOST_FUZZY = 4_000  # pairs of words that are compared as strings
COSINE = 0.92  # of the vectors of two texts that say the same
_WORDS_A_SUBJECT = 13  # content words in which one may be replaced by another
_FUZZY = 0.6  # of the trigrams of two words that are one, misspelt or in another form
_TOKEN = re.compile(r"[^\W\d_]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NOT = re.compile(r"n['\u2019]t\b")
_END = re.compile(r"(?<=[.!?])\s|\n")
_SUFFIXES = ("isations", "izations", "isation", "ization", "ations", "ation", "ising", "izing", "ised", "ized", "ises",
             "izes", "ise", "ize", "ingly", "ings", "ing", "ments", "ment", "ness", "ences", "ence", "ions", "ion",
             "ies", "ied", "edly", "ed", "ers", "er", "es", "ly", "al", "s")  # fmt: skip


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] in "eiy" else word


_MEANING_OF = {_stem(word): _stem(group[0]) for group in MEANINGS for word in group}
_SIDE_OF = {
    word: (axis, sign)
    for axis, parts in enumerate(SIDES)
    for sign, part in zip((1, -1), parts, strict=True)
    for word in part
}


@lru_cache(maxsize=20_000)
def _content(word: str) -> str:
    stem = _stem(word)
    return _MEANING_OF.get(stem, stem)


@dataclass(frozen=True, slots=True)
class Claim:
    """A text as it is compared.

    - `words`: its content words.
    - `light`: those of them that are verbs or adverbs by their form, or take a side.
    - `numbers`: as floats.
    - `names`: content words that are written like names.
    - `sides`: the axes on which it takes one side only.
    - `odd`: whether its negations turn the verdict round.
    - `order`: the words on either side of its first comparison.
    """

    words: frozenset[str]
    light: frozenset[str]
    numbers: frozenset[float]
    names: frozenset[str]
    sides: frozenset[tuple[int, int]]
    odd: bool
    order: tuple[frozenset[str], frozenset[str]]


def frozen(claim: Claim) -> dict[str, object]:
    """Returns a claim as JSON, its words in the order of the alphabet: no text can be read from it."""
    return {
        "words": sorted(claim.words), "light": sorted(claim.light), "numbers": sorted(claim.numbers),
        "names": sorted(claim.names), "sides": sorted(map(list, claim.sides)), "odd": claim.odd,
        "order": [sorted(part) for part in claim.order],
    }  # fmt: skip


def thawed(data: Mapping[str, object]) -> Claim:
    """Returns the claim that `frozen` made this mapping of.

    Raises:
        KeyError, TypeError, ValueError: for a mapping that it did not make.
    """

    def words(value: object) -> frozenset[str]:
        return frozenset(map(str, _list(value)))

    left, right = _list(data["order"])
    sides = frozenset((int(str(axis)), int(str(sign))) for axis, sign in map(_list, _list(data["sides"])))
    numbers = frozenset(float(str(number)) for number in _list(data["numbers"]))
    return Claim(words(data["words"]), words(data["light"]), numbers, words(data["names"]), sides, bool(data["odd"]),
                 (words(left), words(right)))  # fmt: skip


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"a {type(value).__name__} is no list")
    return value


def claim_of(text: str) -> Claim:
    """Returns a text as it is compared; of a long one its first 16 KiB."""
    plain = _NOT.sub(" not", _THOUSANDS.sub("", unicodedata.normalize("NFKC", text[:_LONGEST])))
    cased = {_content(word.casefold()[:_LONGEST_WORD]) for word in _names(plain)}
    low = " ".join(plain.casefold().split())
    for phrase, one in PHRASES:
        if phrase in low:
            low = low.replace(phrase, one)
    words: list[str] = []
    light: set[str] = set()
    numbers: set[float] = set()
    sides: Counter[tuple[int, int]] = Counter()
    negations, cut = 0, -1
    for token in _TOKEN.findall(low.replace("_", " ")):
        value = float(f"{float(token):.6g}") if token[0].isdigit() else NAMED_NUMBERS.get(token)
        if value is not None:
            numbers |= {value} if isfinite(value) else set()
            continue
        token = token[:_LONGEST_WORD]
        if token in COMPARISONS and cut < 0:
            cut = len(words)
        negations += token in NEGATIONS
        if (side := _SIDE_OF.get(token)) is not None:
            sides[side] += 1
        if token not in STOP and token not in NEGATIONS and len(token) > 1:
            words.append(_content(token))
            if token.endswith(LIGHT_ENDS) or token in LIGHT or side is not None:
                light.add(words[-1])
    axes = frozenset((axis, sign) for axis, sign in sides if (axis, -sign) not in sides)
    found = frozenset(words)
    order = (frozenset(words[:cut]), frozenset(words[cut:])) if cut >= 0 else (frozenset[str](), frozenset[str]())
    return Claim(found, frozenset(light), frozenset(numbers), frozenset(cased) & found, axes, negations % 2 == 1, order)


def _names(text: str) -> Iterable[str]:
    """Yields the words that are written like names: capitals within a sentence, or after the first letter."""
    for sentence in _END.split(text):
        for place, word in enumerate(re.findall(r"[^\W\d_]+", sentence)):
            if word[1:] != word[1:].lower() or (place > 0 and word[0].isupper()):
                yield word


def units_of(text: str) -> list[str]:
    """Returns the text and, where it has several, its sentences and lines: a claim may be hidden among others."""
    parts = [part.strip() for part in _END.split(text[:_LONGEST]) if part.strip()]
    return [text, *parts[:_MOST_UNITS]] if len(parts) > 1 else [text]


def likeness(one: Claim, other: Claim) -> float:
    """Returns how much of two texts is the same, 0 to 1: the mean of matched words and of shared trigrams."""
    if not one.words or not other.words:
        return 0.0
    rest, others = _unmatched(one, other)
    dice = 1 - (len(rest) + len(others)) / (len(one.words) + len(other.words))
    return (dice + _overlap(_trigrams_of(one.words), _trigrams_of(other.words))) / 2


def _unmatched(one: Claim, other: Claim) -> tuple[set[str], set[str]]:
    """Returns the words of each that match none of the other, neither exactly nor as strings."""
    mine, theirs = set(one.words - other.words), set(other.words - one.words)
    for word in sorted(mine) if len(mine) * len(theirs) <= _MOST_FUZZY else ():
        near = max(theirs, key=lambda it: (_overlap(_trigrams(word), _trigrams(it)), it), default=None)
        if near is not None and _overlap(_trigrams(word), _trigrams(near)) >= _FUZZY:
            theirs.discard(near)
            mine.discard(word)
    return mine, theirs


def _is_of_another(one: Claim, other: Claim) -> bool:
    """Returns whether words of subjects stand in the place of others: one of them in short texts, more in long ones."""
    mine, theirs = _unmatched(one, other)
    replaced = min(len(mine - one.light), len(theirs - other.light))
    return replaced > min(len(one.words), len(other.words)) // _WORDS_A_SUBJECT


@lru_cache(maxsize=20_000)
def _trigrams(word: str) -> frozenset[str]:
    padded = f" {word} "
    return frozenset(padded[place : place + 3] for place in range(len(padded) - 2))


def _trigrams_of(words: Iterable[str]) -> frozenset[str]:
    return frozenset().union(*map(_trigrams, words))


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


def is_parted(one: Claim, other: Claim) -> bool:
    """Returns whether a number, the verdict or a name makes two texts different claims, however alike they are."""
    if one.numbers - other.numbers and other.numbers - one.numbers:
        return True
    if one.names - other.words and other.names - one.words:
        return True
    opposite = sum((axis, -sign) in other.sides for axis, sign in one.sides)
    if (opposite + (one.odd != other.odd)) % 2 == 1:
        return True
    return _is_swapped(one.order, other.order)


def _is_swapped(one: tuple[frozenset[str], frozenset[str]], other: tuple[frozenset[str], frozenset[str]]) -> bool:
    """Returns whether what is compared has changed places: what was on the left alone is on the right alone."""
    left, right = one[0] - one[1], one[1] - one[0]
    return bool(left & (other[1] - other[0])) and bool(right & (other[0] - other[1]))


def is_again(rejected: Claim, text: Claim) -> bool:
    """Returns whether a text, or a part of one, makes a rejected claim again."""
    if is_parted(rejected, text):
        return False
    score = likeness(rejected, text)
    if min(len(it.words) + len(it.numbers) for it in (rejected, text)) < FEWEST:
        return score >= _NEAR and rejected.numbers == text.numbers
    return score >= THRESHOLD and not _is_of_another(rejected, text)
