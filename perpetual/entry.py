"""The command `perpetual` starts here: the fast path first, the full command line otherwise.

`status`, `brief`, `hook` and `--version` are what shells and agents call at every turn; `perpetual.fast` answers them
from the kept status without click and pluggy, or declines, and then the full command does the same more slowly.
"""

import gc
import sys

__all__ = ["main"]


def main() -> None:
    """Runs the command line and ends the process with its exit status."""
    arguments = sys.argv[1:]
    gc.disable()  # importing makes thousands of objects and no garbage; collecting in between is a tenth of a start
    if arguments and arguments[0] in ("status", "brief", "hook", "--version", "--json"):
        from perpetual.fast import answer

        text = answer(arguments)
        if text is not None:
            sys.stdout.write(text)
            return
    from perpetual.cli.app import run

    gc.enable()
    sys.exit(run(arguments))
