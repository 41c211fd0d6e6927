"""A watch over a turn: where the process that drives it is killed, what the turn has started is ended at once.

The watch is a process of its own, an interpreter that has loaded nothing. It waits for the end of a pipe that the
driver holds, which the kernel closes however the driver ends, and loads what it needs only then. A watch that is killed
too is made up for by the next turn, which ends what is left of lost ones (`perpetual_harnesses.dispatch.marks`).
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from perpetual_harnesses.dispatch.base import DispatchError

__all__ = ["main", "watched"]

_WAIT = "import os, sys\nif not os.read(0, 1): os.execv(sys.argv[1], sys.argv[1:])"


@contextmanager
def watched(mark: str) -> Iterator[None]:
    """Has the processes of a turn ended if this process ends before the block does.

    Raises:
        DispatchError: where the watch cannot be started.
    """
    then = [sys.executable, "-P", "-m", "perpetual_harnesses.dispatch.guardian", mark]
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WAIT, *then],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    except OSError as problem:
        raise DispatchError(f"no watch over the turn can be started: {problem.strerror}") from problem
    assert process.stdin is not None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it was killed
            process.stdin.write(b".")
            process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()


def main() -> None:
    """Ends every process of the turn whose mark is the last word of the command line."""
    from perpetual_harnesses.dispatch.process import end_marked

    end_marked(sys.argv[-1])


if __name__ == "__main__":
    main()
