"""The record every rule family yields, and what they share about context.  Imported by the rule modules and `scanner`.

A hit is evidence, not a verdict: weights of different families in one neighbourhood add up, and the scanner compares
the sum with its thresholds.  A weight of 3 is enough alone, 2 asks for a second look, 1 only supports another family.
"""

# ruff: noqa: E501 - word lists and patterns are only readable whole

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from perpetual_immune.rules.index import numbered
from perpetual_immune.rules.needles import GAP, Rule

STRONG = 3.0
MEDIUM = 2.0
WEAK = 1.0


@dataclass(frozen=True, slots=True)
class Hit:
    """One piece of evidence at `[start, end)` of the view that was searched."""

    rule: str
    family: str
    weight: float
    start: int
    end: int


_PIECES = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^\\\[ ()*+]+|.", re.S)
_LETTERS = re.compile(r"\\.|[A-Z]+", re.S)


@lru_cache(maxsize=8)  # every family folds the same few views
def fold(text: str) -> str:
    """Returns `text` in lower case, character for character, so that offsets stay what they were."""
    lower = text.lower()
    return lower if len(lower) == len(text) else _TWO_WHEN_LOWER.join(map(str.lower, text.split(_TWO_WHEN_LOWER)))


_TWO_WHEN_LOWER = "\u0130"
"""The only letter that is two characters in lower case; it stays."""


def pattern(source: str) -> Rule:
    """Makes a rule for folded text: lower-case, which is several times faster than a pattern that ignores case."""
    return Rule(_LETTERS.sub(lambda m: m.group(0) if m.group(0)[0] == "\\" else m.group(0).lower(), source))


def phrase(source: str) -> Rule:
    r"""Returns the rule of a `pattern` in which a blank matches any short run of blanks, emphasis or punctuation.

    A blank inside a character class stays a blank. In a group that repeats words and blanks, the two share no character:
    `\w` is a letter or a digit there, and a class is without the characters of such runs. So a text has one way to be
    parted into them; otherwise a row of underscores would take exponential time. Only words repeat without end.
    """
    pieces = _PIECES.findall(source)
    looped = _of_loops(pieces)
    made = [_piece(piece, place in looped) for place, piece in enumerate(pieces)]
    for place in range(1, len(made)):
        if pieces[place][0] in "*+" and pieces[place - 1][0] in "[)":
            made[place] = f"{{{'01'[pieces[place][0] == '+']},{64 if pieces[place - 1][0] == '[' else 8}}}"
    return pattern("".join(made))


_LETTER = r"[^\W_]"
_IN_GAPS = frozenset("w *_~`>|.,:;'\"-")
"""The characters of gaps, and the w of `\\w`."""
_CLASS_CHARS = re.compile(r"\\.|.", re.S)


def _piece(piece: str, is_looped: bool) -> str:
    if piece == " ":
        return GAP
    if not is_looped or r"\w" not in piece or piece.startswith("[^"):
        return piece
    more = "".join(char for char in _CLASS_CHARS.findall(piece.strip("[]")) if char.lstrip("\\") not in _IN_GAPS)
    return rf"(?:{_LETTER}|[{more}])" if more else _LETTER


def _of_loops(pieces: list[str]) -> set[int]:
    """Returns the places of pieces within a group that holds a blank and is repeated, or may be left out."""
    open_groups: list[int] = []
    found: set[int] = set()
    for place, piece in enumerate(pieces):
        if piece == "(":
            open_groups.append(place)
        elif piece == ")" and open_groups:
            start = open_groups.pop()
            is_repeated = place + 1 < len(pieces) and pieces[place + 1][0] in "*+?{"
            if is_repeated and " " in pieces[start:place]:
                found.update(range(start, place))
    return found


_LOOSE_WORDS = re.compile(r"\(\?:(?:\\w\+ | \\w\+)\)\{(\d),(\d)\}")
LETTERS_PER_WORD = 8


def squeezed(source: str) -> Rule:
    """Returns the same phrase for text that lost its blanks; runs of any words become a bounded run of letters."""
    loose = _LOOSE_WORDS.sub(lambda m: rf"\w{{0,{LETTERS_PER_WORD * int(m.group(2))}}}", source)
    loose = loose.replace(r"\w+", r"\w{1,10}").replace(r"\w*", r"\w{0,10}")  # next to each other they must stay bounded
    return pattern(_PIECES.sub(lambda m: "" if m.group(0) in (" ", r"\b") else m.group(0), loose))


_REPORTING = re.compile(
    r"\b(?:phrases?|strings?|payloads?|prompts? (?:like|such)|attack(?:s|ers?)?|adversar\w+|jailbreaks?|injections?|e\.g\.|for (?:example|instance)|such as"
    r"|detect\w*|flag(?:s|ged)|block(?:s|ed|ing)|reject(?:s|ed)|filter(?:s|ed)|tests? (?:for|whether|that|if|of)|tr(?:ies|ied|ying)|attempt(?:s|ed|ing)? to|whether"
    r"|report(?:s|ed|ing)? (?:that|of)|describ(?:es|ed|ing)|warns?|prevent\w*|mitigat\w+|stud(?:y|ied|ies)|paper|variants?|classif\w+|benchmark\w*|containing|quot(?:e|es|ed|ing))\b"
    r"[^.!?\n]{0,60}$",
    re.I,
)
_SAID = re.compile(
    r"\b(?:says?|said|saying|contain(?:s|ed)?|includ\w+|like|call(?:s|ed)|nam(?:ed|ing)|known|titled|asks?|asked|told|tells?|text|sentences?|examples?|words?|messages?|rules?|regex|patterns?"
    r"|match\w*|found|saw|seen|wrote|written|with|the|an?|of|and|or|option|flag|function|is|was)\b[^.!?\n]{0,24}$",
    re.I,
)
_NEGATED = re.compile(
    r"(?:\bnever\b(?! ?mind)|\bdo(?:es)? not\b|\bdon['’]?t\b|\bdoesn['’]?t\b|\bdid(?:n['’]?t| not)\b|\bcannot\b|\bcan['’]?t\b|\bwon['’]?t\b"
    r"|\bmust not\b|\bshould(?:n['’]?t| not)\b|\bavoid(?:s|ed|ing)?\b|\binstead of\b|\brather than\b|\bwithout\b|\bnot to\b|\brefus\w+ to\b"
    r"|\bno need to\b|\bprevent\w* \w{0,12}\b|\bdangerous\b)[^.!?\n]{0,30}$",
    re.I,
)
_QUOTES = "\"'`“”‘’«»„「」"
_SUBJECT = Rule(
    r"\b(?:prompt.injection|jailbreak\w*|red.?team\w*|adversarial|attackers?|attacks?|vulnerabilit\w+|mitigat\w+|owasp|threat model"
    r"|malicious|exploit\w*|payloads?|detector|classifier|scanner|guardrails?|sanitiz\w+|sanitis\w+|untrusted)\b"
)
_SUBJECTS = numbered([_SUBJECT])
_SUBJECT_CHARS = 8_000
_FEWEST_SUBJECTS = 3


def reported(text: str, start: int, end: int) -> bool:
    """Returns whether the match at `[start, end)` is mentioned, not said: after a term of the trade, or quoted."""
    before = text[max(0, start - 90) : start]
    stop = max(before.rfind("."), before.rfind("!"), before.rfind("?"), before.rfind("\n"))
    if _REPORTING.search(before, 0 if before.endswith("e.g.", 0, stop + 1) else stop + 1):
        return True
    opening = before[-2:].strip()
    if opening and opening[-1] in _QUOTES and any(mark in text[end : end + 80] for mark in _QUOTES):
        return _SAID.search(before[:-1].rstrip(_QUOTES + " ")) is not None
    return False


_QUOTATION = re.compile(r"[\"“„«]([^\"“”„«»\n]{1,600})[\"”“»]")


def quoted_speech(text: str, start: int, end: int) -> bool:
    """Returns whether `[start, end)` lies within one pair of quotation marks of `text`."""
    for match in _QUOTATION.finditer(text, max(0, start - 600), min(len(text), end + 600)):
        if match.start(1) <= start and end <= match.end(1) + 1:
            return True
    return False


def negated(text: str, start: int) -> bool:
    """Returns whether the words right before `start` negate what follows."""
    return _NEGATED.search(text[max(0, start - 45) : start]) is not None


@lru_cache(maxsize=8)  # every category asks about the same few views
def about_security(low: str) -> bool:
    """Returns whether the whole folded text discusses attacks (at least three terms of the trade, and does not shout them)."""
    terms = [match for _, matches in _SUBJECTS.found(low) for match in islice(matches, _FEWEST_SUBJECTS)]
    return len(terms) >= _FEWEST_SUBJECTS and terms[-1].end() <= _SUBJECT_CHARS
