"""Keeps a foreign part from ending the process. Floor 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from perpetual.toolkit.deadline import call
from perpetual.toolkit.reserved import is_bundled

__all__ = ["PartEnded", "contained", "limited"]

T = TypeVar("T")
LIMIT_S = 30.0  # for one call of an analyser, proposer, check or section


class PartEnded(Exception):
    """A foreign part tried to end the process, by `sys.exit` or another exception that is no `Exception`."""


@contextmanager
def contained() -> Iterator[None]:
    """Turns what is no `Exception` into `PartEnded`; a keyboard interrupt goes on."""
    try:
        yield
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as problem:
        raise PartEnded(f"{type(problem).__name__}: {problem}") from problem


def limited(name: str, function: Callable[[], T], *, limit_s: float = LIMIT_S) -> T:
    """Returns what a part answers; `name` is its qualified name, and one of another distribution has `limit_s`.

    Raises:
        OutOfTime: see `deadline.call`, which interrupts in the main thread.
        PartEnded: if the part tried to end the process.
    """
    with contained():
        return function() if is_bundled(name) else call(limit_s, function)
