"""The needles of whole tables, kept in the user's cache: reading them off 546 patterns costs a process 0.7 s."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from perpetual import __version__
from perpetual.toolkit import caches
from perpetual_immune.rules import needles
from perpetual_immune.rules.needles import Branch, Heads, Rule
from perpetual_redaction import vocabulary

__all__ = ["branches_of"]

_KIND = "needles"
_FILES = (needles.__file__, vocabulary.__file__)  # what reads them: a change computes them anew


def branches_of(rules: Sequence[Rule]) -> list[tuple[Branch, ...]]:
    """Returns the alternatives of each rule as `Rule.branches` does, from the cache where they are known."""
    digest = hashlib.sha256(repr([rule.source for rule in rules]).encode()).hexdigest()
    key = f"{__version__} {digest}"
    found = _read(caches.load(_KIND, key), len(rules))
    if found is None:
        found = [rule.branches for rule in rules]
        caches.save(_KIND, key, [[[branch.needles, _plain(branch.heads)] for branch in one] for one in found], _FILES)
    return found


def _plain(heads: Heads | None) -> dict[str, list[str] | None] | None:
    if heads is None:
        return None
    return {head: None if following is None else sorted(following) for head, following in heads.items()}


def _read(kept: object, rules: int) -> list[tuple[Branch, ...]] | None:
    """Returns what the cache holds; None where it is nothing of that form."""
    if not isinstance(kept, list) or len(kept) != rules:
        return None
    try:
        return [tuple(Branch(_needles(groups), _heads(heads)) for groups, heads in one) for one in kept]
    except (AttributeError, TypeError, ValueError):
        return None


def _needles(groups: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(_text, group)) for group in groups)


def _heads(heads: dict[str, list[str] | None] | None) -> Heads | None:
    if heads is None:
        return None
    return {head: None if following is None else frozenset(map(_text, following)) for head, following in heads.items()}


def _text(found: object) -> str:
    if not isinstance(found, str):
        raise TypeError(found)
    return found
