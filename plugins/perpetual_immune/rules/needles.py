"""Fast refusal: words one of which every match of a pattern must contain.  Imported by `hit`; standard library only.

Most texts match no rule, and looking for a plain substring is far cheaper than trying a pattern at every position.
The needles are read off the pattern's own source, so that a rule cannot forget to list one.  Only the dialect
in which the rules are written is understood; where in doubt there are no needles, and the pattern is simply tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from perpetual_immune.rules.sieve import Sieve
from perpetual_redaction.vocabulary import EDGE, SHORTEST_RUN, runs_of

MIN_NEEDLE_CHARS = 2
MOST_STRINGS = 40
"""Alternatives spelt out; a pattern with more is read in parts."""
MOST_HEADS = 240
"""Words with which a match may begin; a pattern with more is looked for by its automaton."""
FEW_LETTERS = 4
"""Letters of a set that are spelt out."""
MOST_REMEMBERED = 2_048
"""Parts of patterns remembered while a pattern is read."""
GAP = r"(?:[\s*_~`>|.,:;'\"-]{1,6})"
"""What a blank of a phrase becomes."""
MOST_FALSE_STARTS = 16
"""Places at which a match may begin and does not, after which the pattern itself looks for the next one."""
_QUANTIFIER = re.compile(r"[*+?]\??|\{\d*,?\d*\}\??")
_LITERAL_ESCAPE = re.compile(r"[^A-Za-z0-9]")
_LITERAL_RUN = re.compile(r"[^\W_]{1,80}(?![?*+{])(?<![?*+{])|[^\W_](?=[?*+{])")
_LOOK = re.compile(r"\(\?<?[=!]")
_GROUP_START = re.compile(r"\((?:\?(?:[:=!]|<[=!]|[a-z-]+:|P<\w+>))?")
_CODED = re.compile(r"\\[xuUN]")  # a letter that is not seen as one
_EDGE_ESCAPES = "bsdnrtAZ"
"""Escapes that match no letter: next to them a word begins or ends."""
_EDGE_ESCAPE = re.compile(r"\\(?:[sdnrt]|[^A-Za-z0-9])")
_EMPTY = frozenset({""})
_EDGES = frozenset({EDGE})

Strings = frozenset[str] | None
"""All that a part of a pattern may match; None where that is not known or too much."""


class Parsed(NamedTuple):
    """What is known of a part of a pattern: all it may match, of which groups it holds one string each, its end."""

    strings: Strings
    groups: tuple[frozenset[str], ...]
    end: int


Heads = dict[str, frozenset[str] | None]


class Branch(NamedTuple):
    """One alternative of a pattern: groups of needles, the rarest first, of which every match holds one of each.

    `EDGE` is where a word of a needle ends.  `heads` are the words with which every match begins, of which an end may
    be missing, each with the words that can follow it, None for any; None where they are not known.
    """

    needles: tuple[tuple[str, ...], ...]
    heads: Heads | None


@dataclass(frozen=True)
class Rule:
    """A pattern and its needles; used like the pattern itself, on folded text."""

    source: str

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Returns the alternatives of the pattern, each with what a text must hold for it to match."""
        return tuple(_branches(self.source))

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """Returns the compiled pattern: all of them cost a start 150 ms, and few texts hold the needles of many."""
        return re.compile(self.source)

    @cached_property
    def sieve(self) -> Sieve:
        """Returns the automaton that refuses texts which the pattern cannot match."""
        return Sieve(self.source)

    @cached_property
    def _is_beyond_ascii(self) -> bool:
        """Returns whether most letters of the pattern are beyond ASCII, which the automaton does not tell apart."""
        letters = [char.isascii() for char in self.source if char.isalpha()]
        return sum(letters) * 2 < len(letters)

    def finditer(self, low: str) -> Iterator[re.Match[str]]:
        """Finds matches as `re.Pattern.finditer`; the automaton says where to look."""
        if not self.sieve.may_match(low):
            return
        position = false_starts = 0
        while false_starts < MOST_FALSE_STARTS and not (self._is_beyond_ascii and not low.isascii()):
            start = self.sieve.first(low, position)
            if start is None:
                break
            if start < 0:
                return
            match = self.expression.match(low, start)
            if match is None or match.end() == start:
                false_starts += 1
                position = start + 1
            else:
                position = match.end()
                yield match
        yield from self.expression.finditer(low, position)

    def at(self, low: str, positions: Iterable[int]) -> Iterator[re.Match[str]]:
        """Finds matches as `finditer`, when they can only begin at the positions, which are in order."""
        end = 0
        for position in positions:
            if position >= end:
                match = self.expression.match(low, position)
                if match is not None:
                    end = match.end()
                    yield match

    def search(self, low: str) -> re.Match[str] | None:
        """Searches as `re.Pattern.search`."""
        return next(self.finditer(low), None)


def _branches(source: str) -> Iterator[Branch]:
    """Yields the alternatives of a pattern, also of one that is a group behind an edge of a word."""
    if _CODED.search(source):
        yield Branch((), None)
        return
    start, end = 0, len(source)
    edged = closed = False
    wrapped = _WRAPPED.match(source)
    if wrapped is not None:
        close = _alternation(source, wrapped.end()).end
        after = source[close + 1 :]
        if after in ("", r"\b"):
            start, end, edged, closed = wrapped.end(), close, wrapped.group(1) is not None, after != ""
    while True:
        branch = _read_sequence(source, start, _EDGES if edged else _EMPTY, closed)
        yield Branch(_needles(branch), _heads(source, start, edged=edged))
        if branch.end >= end:
            assert branch.end == end, f"a bracket is closed that was not opened, at {branch.end} of {source!r}"
            return
        start = branch.end + 1


_WRAPPED = re.compile(r"(\\b)?\(\?:")


def _needles(parsed: Parsed) -> tuple[tuple[str, ...], ...]:
    """Returns the groups of needles of a branch, the rarest first, without those that hold another of their group."""
    groups = parsed.groups
    if parsed.strings is not None and _is_group(parsed.strings):
        groups = (*groups, parsed.strings)
    parts = [part for group in groups for part in _parts(group)]
    return tuple(sorted(set(map(_shortest, parts)), key=cost))


def _parts(group: frozenset[str]) -> Iterator[frozenset[str]]:
    """Yields groups that a text must hold as well: the words of the needles one by one, and their rows of signs."""
    runs = [runs_of(needle) for needle in group]
    least = min(map(len, runs))
    for number in range(least):
        for at in (number, number - least):
            yield frozenset(
                _telling(needle, of_needle[at], of_needle) for needle, of_needle in zip(group, runs, strict=True)
            )
    signs = [_SIGNS.search(needle) for needle in group]
    if None not in signs:
        yield frozenset(sign.group() for sign in signs if sign is not None)
    elif not least:
        yield group


def _telling(needle: str, run: str, runs: tuple[str, ...]) -> str:
    """Returns a run of letters of a needle, the longest if that run is too short, the needle if all of them are."""
    if len(run.strip(EDGE)) >= SHORTEST_RUN:
        return run
    longest = max(runs, key=len)
    return longest if len(longest.strip(EDGE)) >= SHORTEST_RUN else needle


def cost(group: tuple[str, ...]) -> float:
    """Returns about how many texts hold a needle of the group: few and long ones are rare."""
    return sum(1.0 if needle.strip(EDGE) in _COMMON else 4.0 ** -len(needle) for needle in group)


_SIGNS = re.compile(r"[^\w\s.\x00]{2,}")
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "the you a to of and is in it for this that not are with as be on or your all do if any an by from will can i "
        "we at use new no",
    )
)


def _shortest(group: frozenset[str]) -> tuple[str, ...]:
    """Returns the needles of a group but those that begin or end with another, in order."""
    lengths = {len(needle) for needle in group}
    if len(lengths) == 1:
        return tuple(sorted(group))
    return tuple(
        sorted(
            needle
            for needle in group
            if not any(
                length < len(needle) and (needle[:length] in group or needle[-length:] in group) for length in lengths
            )
        )
    )


def _is_group(strings: frozenset[str]) -> bool:
    """Returns whether each of the strings is telling."""
    return all(len(string.strip(EDGE)) >= MIN_NEEDLE_CHARS for string in strings)


@lru_cache(maxsize=MOST_REMEMBERED)
def _alternation(source: str, position: int) -> Parsed:
    """Returns what is known of the alternation at `position`, and where it ends."""
    branches = []
    while True:
        branch = _sequence(source, position)
        branches.append(branch)
        position = branch.end
        if position >= len(source) or source[position] == ")":
            break
        position += 1
    if len(branches) == 1:
        return branches[0]
    union: set[str] = set()
    for branch in branches:
        if branch.strings is None:
            break
        union |= branch.strings
    else:
        if len(union) <= MOST_STRINGS:
            return Parsed(frozenset(union), (), position)
    told: set[str] = set()
    for branch in branches:
        groups = branch.groups if branch.strings is None or not _is_group(branch.strings) else (branch.strings,)
        if not groups:
            return Parsed(None, (), position)
        told |= min(groups, key=_cost_of)
    return Parsed(None, (frozenset(told),), position)


def _cost_of(group: AbstractSet[str]) -> float:
    return cost(tuple(group))


_WORD_ALONE = re.compile(r"([^\W_]{1,40})(\??)(?=[|)])")


def _sequence(source: str, position: int) -> Parsed:
    """Returns what is known of the sequence at `position`, and where it ends."""
    word = _WORD_ALONE.match(source, position)  # most branches are one
    if word is None:
        return _read_sequence(source, position)
    text = word.group(1)
    return Parsed(frozenset((text, text[:-1]) if word.group(2) else (text,)), (), word.end())


@lru_cache(maxsize=MOST_REMEMBERED)
def _read_sequence(
    source: str, position: int, strings: frozenset[str] = _EMPTY, closed: bool = False
) -> Parsed:  # `strings` is what goes before; a closed one has the edge of a word behind it
    groups: list[frozenset[str]] = []
    whole = True
    while position < len(source) and source[position] not in "|)":
        atom, of_atom, position = _atom(source, position)
        quantifier = _QUANTIFIER.match(source, position)
        if quantifier is not None:
            position = quantifier.end()
            kind = quantifier.group()
            if kind[0] == "?":
                atom, of_atom = None if atom is None else atom | _EMPTY, ()
            elif kind[0] == "*" or kind.startswith(("{0", "{,")):
                atom, of_atom = None, ()
            elif atom != _EDGES:  # once or more: the first of them is there
                if atom is not None and _is_group(atom):
                    of_atom = (*of_atom, atom)
                atom = None
        groups += of_atom
        if atom is not None and len(atom) * len(strings) <= 2 * MOST_STRINGS:
            joined = frozenset([_joined(one, other) for one in strings for other in atom])
            if len(joined) <= MOST_STRINGS:
                strings = joined
                continue
        if _is_group(strings):
            groups.append(strings)
        strings, whole = _EMPTY if atom is None else atom, False
    if closed:
        strings = frozenset([_joined(one, EDGE) for one in strings])
    if whole:
        return Parsed(strings, tuple(groups), position)
    if _is_group(strings):
        groups.append(strings)
    return Parsed(None, tuple(groups), position)


def _joined(one: str, other: str) -> str:
    return one + (other[1:] if other[:1] == EDGE == one[-1:] else other)


@lru_cache(maxsize=MOST_REMEMBERED)
def _atom(source: str, position: int) -> Parsed:
    """Returns what is known of the atom at `position`, and where it ends."""
    run = _LITERAL_RUN.match(source, position)
    if run is not None:
        return Parsed(frozenset({run.group()}), (), run.end())
    char = source[position]
    if char == "(":
        if source.startswith(GAP, position):
            return Parsed(_EDGES, (), position + len(GAP))
        header = _GROUP_START.match(source, position)
        assert header is not None
        inner = _alternation(source, header.end())
        if header.group().endswith(("=", "!")):  # it requires nothing here
            return Parsed(_EMPTY, (), inner.end + 1)
        return inner._replace(end=inner.end + 1)
    if char == "[":
        end = _class_end(source, position)
        return Parsed(_of_class(source[position + 1 : end - 1]), (), end)
    if char == "\\":
        escaped = source[position + 1]
        if _LITERAL_ESCAPE.match(escaped):
            return Parsed(frozenset({escaped}), (), position + 2)
        return Parsed(_EDGES if escaped in _EDGE_ESCAPES else None, (), position + 2)
    if char in "^$":
        return Parsed(_EDGES, (), position + 1)
    return Parsed(None if char == "." else frozenset({char}), (), position + 1)


def _of_class(members: str) -> Strings:
    """Returns what a set of characters is for a word: its edge if it has no letter, one of few letters, or unknown."""
    if members.startswith("^"):
        return None
    if members.isalpha() and len(members) <= FEW_LETTERS:
        return frozenset(members)
    plain = _EDGE_ESCAPE.sub("", members)
    return None if any(char.isalpha() or char == "\\" for char in plain) else _EDGES


def _class_end(source: str, position: int) -> int:
    position += 1
    if source[position] == "^":
        position += 1
    first = True
    while source[position] != "]" or first:
        position += 2 if source[position] == "\\" else 1
        first = False
    return position + 1


def _heads(source: str, position: int, *, edged: bool) -> Heads | None:
    """Returns the words, from their edge on, with which every match of a branch begins, each with the next ones."""
    heads = _heads_of_sequence(source, position, edged=edged)
    if heads is None or len(heads) > MOST_HEADS:
        return None
    if edged:
        heads = frozenset([_joined(EDGE, head) for head in heads])
    found: dict[str, frozenset[str] | None] = {}
    for head in heads:
        word = _HEAD.match(head)
        if word is None:
            return None
        name = word.group(1) + (EDGE if word.group(2) else "")
        second = _SECOND.match(head, word.end(1))
        known = found.get(name, frozenset())
        found[name] = None if second is None or known is None else known | {second.group(1)}
    return found


_SECOND = re.compile(r"[^\W_a-z]{0,9}[\W\d_]{1,9}([^\W\d_]+)[\W\d_]")
_HEAD = re.compile(rf"{EDGE}([^\W\d_]{{2,}}|[^\W\d_](?=[^a-z]))([^a-z]?)")


def _heads_of_alternation(source: str, position: int, *, edged: bool = False) -> tuple[Strings, int]:
    heads: set[str] | None = set()
    while True:
        of_branch = _heads_of_sequence(source, position, edged=edged)
        heads = None if heads is None or of_branch is None else heads | of_branch
        position = _sequence(source, position).end
        if position >= len(source) or source[position] == ")":
            break
        position += 1
    return None if heads is None or len(heads) > MOST_HEADS else frozenset(heads), position


def _heads_of_sequence(source: str, position: int, *, edged: bool) -> Strings:
    strings = _EMPTY
    while position < len(source) and source[position] not in "|)":
        start = position
        atom, _, position = _atom(source, position)
        if strings in (_EMPTY, _EDGES):  # what stands before the word would belong to the match
            if source[start] == "(" and not _LOOK.match(source, start):
                header = _GROUP_START.match(source, start)
                assert header is not None
                inner, _ = _heads_of_alternation(source, header.end(), edged=edged)
                if inner is None:
                    return None
            elif source.startswith("\\b", start):
                edged = True
            elif not edged or not source[start].isalpha():
                return None
        quantifier = _QUANTIFIER.match(source, position)
        kind = "" if quantifier is None else quantifier.group()
        position += len(kind)
        if atom is None and source[start] == "(":
            header = _GROUP_START.match(source, start)
            assert header is not None
            atom, _ = _heads_of_alternation(source, header.end(), edged=edged)
            last = True
        else:
            last = kind[:1] in ("*", "+", "{")
        if kind[:1] in ("*", "?") or kind.startswith(("{0", "{,")):
            if atom is None or last:
                return strings if all(len(string) > 1 for string in strings) else None
            atom = atom | _EMPTY
        if atom is None:
            return strings
        joined = frozenset(_joined(one, other) for one in strings for other in atom)
        if len(joined) > MOST_HEADS:
            return strings
        strings = joined
        if last:
            return strings
    return strings
