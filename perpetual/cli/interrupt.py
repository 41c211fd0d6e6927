"""Ctrl-C: what is one, and how it is shown. Used by the program's start too, so it imports next to nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

__all__ = ["EXIT", "is_interrupt", "tell", "wants_json"]

EXIT = 130  # 128 and the signal's number, as shells have it


def is_interrupt(problem: BaseException | None) -> bool:
    """Returns whether Ctrl-C is behind an error: an import that is interrupted can fail with another one."""
    seen: set[int] = set()
    while problem is not None and id(problem) not in seen:
        if isinstance(problem, KeyboardInterrupt):
            return True
        seen.add(id(problem))
        problem = problem.__cause__ or problem.__context__
    return False


def wants_json(arguments: Sequence[str]) -> bool:
    """Returns whether a command line is to be answered as JSON; what follows `--` is a command line of a run."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in own or os.environ.get("PERPETUAL_OUTPUT") == "json"


def tell(arguments: Sequence[str]) -> int:
    """Says that a command line was interrupted, in the form that it asks for; the exit status."""
    if wants_json(arguments):
        error = f'{{"code": "interrupted", "message": "interrupted", "hint": null, "exit": {EXIT}}}'
        sys.stdout.write(f'{{"schema": "perpetual.error/1", "error": {error}}}\n')
        sys.stdout.flush()
    else:
        sys.stderr.write("error: interrupted\n")
    return EXIT
