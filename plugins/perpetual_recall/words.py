"""Words of a query that say something of its subject, and the line of a note that holds one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perpetual.api import UsageError

__all__ = ["SHORT", "any_of", "excerpt", "has_words", "patterns_of", "words_of"]

_MOST_WORDS = 32  # of a query
_LONGEST_QUERY = 20_000  # characters that are looked at
_EXCERPT = 160  # characters
_PLURAL = re.compile("(?<=..[^s])s$")
SHORT = 3  # letters of a word that is looked for at the start of words only: `is` is in `this`
_COMMON = re.compile(
    "a|an|and|any|are|as|at|be|best|better|but|by|can|did|do|does|for|from|has|have|how|i|if|in|is|it|its|me|my|not|of|"
    "on|or|our|so|than|that|the|their|them|then|there|these|they|this|to|us|was|we|were|what|when|where|which|who|why|"
    "will|with|would|you|your"
)  # words of a question that say nothing of its subject


def words_of(query: str) -> list[str]:
    """Returns the words to look for, without the `s` of a plural; common ones only where there is no other.

    Raises:
        UsageError: for a query without a word.
    """
    said = [*dict.fromkeys(re.findall(r"\w+", query[:_LONGEST_QUERY].casefold()))]
    telling = [_PLURAL.sub("", word) for word in said if not _COMMON.fullmatch(word)]
    words = [*dict.fromkeys(telling)][:_MOST_WORDS] or said[:_MOST_WORDS]
    if not words:
        raise UsageError("a search needs a word", hint='for example "warm-up"')
    return words


def has_words(query: str) -> bool:
    """Returns whether there is a word to look for."""
    return re.search(r"\w", query[:_LONGEST_QUERY]) is not None


def patterns_of(words: Sequence[str]) -> list[re.Pattern[str]]:
    """Returns what finds each word in a casefolded text."""
    return [re.compile(_place_of(word)) for word in words]


def any_of(words: Sequence[str]) -> re.Pattern[str]:
    """Returns what finds the first of the words in a casefolded text."""
    return re.compile("|".join(map(_place_of, words)))


def _place_of(word: str) -> str:
    return ("" if len(word) > SHORT else r"\b") + re.escape(word)


def excerpt(text: str, words: re.Pattern[str]) -> str:
    """Returns the first line with one of the words, or the first line of all, cut for a list."""
    title = text.partition("\n")[0]
    if words.search(title.casefold()) and len(title.splitlines()) == 1:
        return _cut(title.strip())  # mostly it is the title, and the text need not be split
    first = ""
    for line in map(str.strip, text.splitlines()):
        if line and words.search(line.casefold()):
            return _cut(line)
        first = first or line
    return _cut(first)


def _cut(line: str) -> str:
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 3] + "..."
