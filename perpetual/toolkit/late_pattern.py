"""Patterns that are compiled when they are first used. Floor 0.

Compiling the patterns by which secrets are known costs 20 ms, and those of what is for a person 5: every command would
pay them, and most commands meet no text that comes as far as a pattern.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import cast
else:

    def cast(kind, value):
        return value


__all__ = ["late_pattern"]


class _Late:
    """Stands for a pattern; each method of the pattern becomes its own when it is first asked for."""

    def __init__(self, source: str, flags: int) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Callable[..., object]:
        found = getattr(re.compile(self._source, self._flags), name)  # `re` remembers what it has compiled
        setattr(self, name, found)
        return cast("Callable[..., object]", found)


def late_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """Returns what behaves as `re.compile(source, flags)` and costs nothing before its first use."""
    return cast("re.Pattern[str]", _Late(source, flags))
