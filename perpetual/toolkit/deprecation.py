"""Names that another one has replaced: they go on working, and a warning says what to write instead. Floor 0.

In a command the warning is one line on standard error, once a process; in Python it is a
`PerpetualDeprecationWarning`; of a plugin that uses the name, `plugins list` and `plugins check` show it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["PerpetualDeprecationWarning", "announced", "collected", "warn_replaced"]

_BETWEEN = ("importlib", "_frozen_importlib", "perpetual.api", "perpetual.toolkit.deprecation")
_announce: Callable[[str], None] | None = None
_said: set[str] = set()


class PerpetualDeprecationWarning(DeprecationWarning):
    """A name of Perpetual that is replaced: `since` a version, by `replacement`; it goes with `removal`."""

    def __init__(self, name: str, replacement: str, *, since: str, removal: str) -> None:
        super().__init__(f"{name} is called {replacement} now (since {since}; it goes with {removal})")
        self.name, self.replacement, self.since, self.removal = name, replacement, since, removal


def warn_replaced(name: str, replacement: str, *, since: str, removal: str, stacklevel: int = 2) -> None:
    """Warns that the caller's caller uses a name, or an argument, that another one has replaced."""
    import warnings

    warning = PerpetualDeprecationWarning(name, replacement, since=since, removal=removal)
    warnings.warn(warning, stacklevel=stacklevel + 1)
    line = f"{_user()}: {warning}"
    if _announce is not None and line not in _said:
        _said.add(line)
        _announce(line)


def _user() -> str:
    """Returns the name of the module that uses the replaced one."""
    frame = sys._getframe(2)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_BETWEEN):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "?"))


@contextmanager
def announced(announce: Callable[[str], None] | None) -> Iterator[None]:
    """Has each warning said once by `announce` meanwhile, besides being a warning of Python; None for not at all."""
    global _announce
    before, _announce = _announce, announce
    try:
        yield
    finally:
        _announce = before


@contextmanager
def collected() -> Iterator[list[str]]:
    """Takes such warnings aside; the list holds their texts at the block's end. Other warnings go on as ever."""
    import warnings

    found: list[str] = []
    with announced(None), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", PerpetualDeprecationWarning)
        try:
            yield found
        finally:
            others = [one for one in seen if not issubclass(one.category, PerpetualDeprecationWarning)]
            texts = [str(one.message) for one in seen if issubclass(one.category, PerpetualDeprecationWarning)]
            found += dict.fromkeys(texts)
    for one in others:
        warnings.showwarning(one.message, one.category, one.filename, one.lineno, one.file, one.line)
