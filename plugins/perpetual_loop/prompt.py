"""What a person's prompt asks of the loop: `/auto 3`, `/stop`, or nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

from perpetual_loop.lease import MOST_ROUNDS, ROUNDS

__all__ = ["Asked", "asked_of", "rounds_of"]

_LONGEST = 64 * 1024  # characters of a prompt that are looked at
# As typed, and as a harness hands it on: a command of a project, a prompt of the server, a skill. Each stands at the
# beginning: the same words in the middle are written about them.
_TYPED = re.compile(r"\A\s*[/$](?:perpetual[-:]|mcp__perpetual__)?(auto|stop)(?![\w/.-])(.*)", re.DOTALL)
_BARE = re.compile(r"\A\s*perpetual-(auto|stop)(\s+\d{1,9})?\s*\Z")
_EXPANDED = re.compile(
    r"\A\s*(?:<command-message>[^<]{0,200}</command-message>\s*)?<command-name>/(?:perpetual[-:])?(auto|stop)"
    r"</command-name>(?:.{0,2000}?<command-args>([^<]*)</command-args>)?", re.DOTALL,
)  # fmt: skip
_FIRST = re.compile(r"\A[\s\"'(]{0,20}(\d{1,9})(?![\w.]{0,20}\d|\w)")
_NAMED = re.compile(r"(?<![\w.+-])(\d{1,9}) (?:rounds?|turns?)\b")


class Asked(NamedTuple):
    """What a prompt asks: `auto` or `stop`, and further rounds."""

    deed: str
    rounds: int


def asked_of(prompt: object) -> Asked | None:
    """Returns what a prompt asks of the loop, None where it asks nothing."""
    if not isinstance(prompt, str):
        return None
    text = prompt[:_LONGEST]
    found = _TYPED.match(text) or _BARE.match(text) or _EXPANDED.match(text)
    return None if found is None else Asked(found[1], rounds_of(found[2] or ""))


def rounds_of(words: str) -> int:
    """Returns the number right after /auto, or before the word rounds, at most `MOST_ROUNDS`; else `ROUNDS`."""
    found = _FIRST.match(words) or _NAMED.search(words)
    return ROUNDS if found is None else min(int(found[1]), MOST_ROUNDS)
