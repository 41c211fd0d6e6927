"""Scopes, keys and values of memory: what may be one, the text that gates and searches read, and how alike two are."""

from __future__ import annotations

import json
import re
from math import ceil
from typing import TYPE_CHECKING
from zlib import crc32

from perpetual.api import UsageError
from perpetual.toolkit.foreign import DEEPEST
from perpetual.toolkit.jsoncopy import json_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "SHARED", "are_alike", "check_key", "check_shared", "check_value", "is_shared", "likeness", "match_of",
    "shared_at_least", "shingles", "sketch", "text_of",
]  # fmt: skip

SHARED = "shared"
_SHARED_NAME = re.compile(r"\Ashared(?::[A-Za-z0-9][\w.@-]{0,99})?\Z", re.ASCII)
_LONGEST_KEY = 200  # characters
_LONGEST_VALUE = 64 * 1024  # bytes
_ALIKE = 0.6  # Jaccard index from which two texts say the same
_SHINGLE = 3  # words
_SKETCH = 16  # hashes
_SHARED_HASHES = 3  # of them
_MIX, _MASK = 0x9E3779B97F4A7C15, 0x7FFFFFFFFFFFFFFF
_MOST_WORDS = 32  # of a query
_LONGEST_QUERY = 20_000  # characters that are looked at
_SHORT = 3  # letters of a word that is matched as a whole
_COMMON = re.compile(
    "a|an|and|are|as|at|be|but|by|can|did|do|does|for|from|has|have|how|i|if|in|is|it|its|me|my|not|of|on|or|our|so|"
    "than|that|the|their|them|then|there|these|they|this|to|us|was|we|were|what|when|where|which|who|why|will|with|"
    "would|you|your"
)


def is_shared(scope: str) -> bool:
    """Returns whether a scope is one that several agents share."""
    return scope == SHARED or scope.startswith(f"{SHARED}:")


def check_shared(scope: str) -> str:
    """Returns a shared scope. Raises UsageError for a name that cannot be one."""
    if not _SHARED_NAME.match(scope):
        raise UsageError(f"{scope[:60]!r} is no scope", hint="an agent's id or name, shared, or shared:NAME")
    return scope


def check_key(key: object) -> str:
    """Returns a key: one line of printable text. Raises UsageError for anything else."""
    if not isinstance(key, str) or not key.strip() or key != key.strip() or not key.isprintable():
        raise UsageError(f"{str(key)[:60]!r} cannot be a key", hint="one line of printable text")
    if len(key) > _LONGEST_KEY:
        raise UsageError(
            f"the key is longer than {_LONGEST_KEY} characters", hint="a short name; the rest is its value"
        )
    return key


def check_value(value: object) -> object:
    """Returns a copy of a value: text or other JSON.

    Raises:
        UsageError: for null, an empty text, what JSON cannot carry, what is nested too deeply, and more than 64 KiB.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        raise UsageError("the value is empty", hint="perpetual agent memory ID delete KEY takes an entry away")
    copied = json_copy(value, "the value")
    if _depth(copied) > DEEPEST:
        raise UsageError(f"the value is nested more than {DEEPEST} levels deep")
    size = len(copied.encode() if isinstance(copied, str) else json.dumps(copied, ensure_ascii=False).encode())
    if size > _LONGEST_VALUE:
        raise UsageError(
            f"the value is longer than {_LONGEST_VALUE:,} bytes", hint="keep a file, and its path as value"
        )
    return copied


def _depth(value: object) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        level = [inner for one in level if isinstance(one, dict | list)
                 for inner in (one.values() if isinstance(one, dict) else one)]  # fmt: skip
    return deepest


def text_of(value: object) -> str:
    """Returns a value as text: a text as it is, other JSON as JSON with its texts unescaped below it.

    The gates judge this, so that no escape hides a word from them.
    """
    if isinstance(value, str):
        return value
    plain = "\n".join(_texts(value))
    shown = json.dumps(value, ensure_ascii=False)
    return f"{shown}\n{plain}" if plain else shown


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def match_of(query: str) -> str:
    """Returns a query of FTS5 for any of the words, or what begins with a long one; common words are left out.

    Raises:
        UsageError: for a query without a word.
    """
    said = [*dict.fromkeys(re.findall(r"\w+", query[:_LONGEST_QUERY].casefold()))]
    words = ([word for word in said if not _COMMON.fullmatch(word)] or said)[:_MOST_WORDS]
    if not words:
        raise UsageError("a search needs a word", hint='for example "warm-up"')
    return " OR ".join(f'"{word}"{" *" * (len(word) > _SHORT)}' for word in words)


def shingles(text: str) -> frozenset[str]:
    """Returns every three words in a row of a text."""
    words = re.findall(r"\w+", text.casefold())
    if len(words) <= _SHINGLE:
        return frozenset([" ".join(words)]) if words else frozenset()
    return frozenset(" ".join(words[place : place + _SHINGLE]) for place in range(len(words) - _SHINGLE + 1))


def sketch(parts: frozenset[str]) -> list[int]:
    """Returns the 16 smallest hashes of a text's shingles, or all of fewer.

    Two texts of Jaccard index 0.6 share fewer than 3 of 16 with a probability of 1 in 7,000.
    """
    return sorted(crc32(it.encode("utf-8", "replace")) * _MIX & _MASK for it in parts)[:_SKETCH]


def shared_at_least(size: int) -> int:
    """Returns how many hashes a text that says the same shares with a sketch of so many."""
    return min(_SHARED_HASHES, ceil(_ALIKE * size))


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Returns the Jaccard index of two texts' shingles."""
    whole = len(one | other)
    return len(one & other) / whole if whole else 0.0


def are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Returns whether two texts say the same: three fifths of their shingles are the same."""
    return likeness(one, other) >= _ALIKE
