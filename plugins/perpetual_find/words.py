"""A search as people type it, as a query of FTS5. No text of theirs reaches its parser unquoted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perpetual.api import UsageError

__all__ = ["Query", "query_of"]

_PARTS = re.compile(r'(-?)(?:"([^"]*)"?|(\S+))')
_WORD = re.compile(r"\w+")
_MOST_WORDS = 32
_LONGEST = 2000  # characters
_PREFIX = 3  # letters from which on a word also stands for what begins with it
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "so",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
    ]
)


@dataclass(frozen=True, slots=True)
class Query:
    """Terms in the language of FTS5, each quoted; `plain` are their words, for a snippet by hand."""

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]
    plain: tuple[str, ...]

    def match(self, *, every: bool) -> str:
        """Returns the query; of every term, or of any."""
        joined = (" AND " if every else " OR ").join(self.wanted)
        return f"({joined})" + "".join(f" NOT {term}" for term in self.unwanted)


def query_of(text: str) -> Query:
    """Returns the query of a text; words like `is` and `the` count only inside a phrase.

    Raises:
        UsageError: for a text that is too long or has no word to look for.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"a search has at most {_LONGEST} characters, not {len(text)}")
    wanted: dict[str, tuple[str, ...]] = {}
    unwanted: dict[str, None] = {}
    dropped: list[str] = []
    for sign, phrase, word in _PARTS.findall(text):
        found = _WORD.findall((phrase or word).casefold())
        if not found:
            continue
        if not phrase and len(found) == 1 and found[0] in _STOP_WORDS:
            dropped.append(found[0])
            continue
        term = f'"{" ".join(found)}"' + ("*" if not phrase and len(found[-1]) >= _PREFIX else "")
        if sign:
            unwanted[term] = None
        else:
            wanted[term] = tuple(found)
    if not wanted:
        if dropped:
            raise UsageError(f"{', '.join(dropped)}: too common to search for", hint="in quotes: find '\"the\"'")
        raise UsageError("a search needs a word to look for", hint='for example: perpetual find "warm-up"')
    if len(wanted) + len(unwanted) > _MOST_WORDS:
        raise UsageError(f"a search has at most {_MOST_WORDS} words")
    plain = tuple(dict.fromkeys(word for words in wanted.values() for word in words))
    return Query(tuple(wanted), tuple(unwanted), plain)
