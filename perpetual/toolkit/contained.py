"""Keeps a foreign part from ending the process. Floor 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["PartEnded", "contained"]


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
