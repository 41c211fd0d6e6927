"""Which files a command may replace: those that an earlier call of it wrote. Imported by commands with `-o FILE`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from perpetual.api import PerpetualError, UsageError
from perpetual.toolkit.confined import UnsafePath, is_inside, look

__all__ = ["check_replaceable"]


def check_replaceable(output: Path, marks: Iterable[bytes], what: str) -> None:
    """Checks that no file is at a path but an empty one, or one that the command wrote earlier.

    A slip of the fingers in `-o` would otherwise be the end of a program, or of the record itself.

    Args:
        output: the path that a person named.
        marks: one of which is in each file that the command writes.
        what: such a file in words, as `report`.

    Raises:
        UsageError: for another file, a link, a device, a pipe or a folder, and inside a `.perpetual`.
        PerpetualError: if the file cannot be read.
    """
    hint = "choose another file with -o"
    if is_inside(os.path.realpath(output)):
        raise UsageError(f"{output} is inside a .perpetual", hint=hint)
    try:
        old = output.read_bytes() if look(output) is not None else b""
    except UnsafePath as problem:
        raise UsageError(f"{output} is not replaced: {problem.strerror}", hint=hint) from problem
    except OSError as problem:
        raise PerpetualError(f"{output} cannot be read: {problem.strerror or problem}", hint=hint) from problem
    if old.strip() and not any(mark in old for mark in marks):
        raise UsageError(f"{output} is no {what} and is not replaced", hint=f"{hint}, or remove that one")
