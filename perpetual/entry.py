"""The command `perpetual` starts here: the fast path first, the full command line otherwise.

`status`, `brief`, `hook`, `--help` and `--version` are what shells and agents call at every turn;
`perpetual.cli.fastpath` answers them from what is kept, without click and pluggy, or declines, and then the full
command does it more slowly.
"""

import gc
import io
import sys

TYPE_CHECKING = False  # as typing's, whose import this path cannot afford
if TYPE_CHECKING:
    import signal
else:
    try:
        import _signal as signal  # without the enums that `signal` makes of it: a tenth of an instant command
    except ImportError:  # no CPython
        import signal

__all__ = ["main"]

_INTERRUPTED = 130
_GC_THRESHOLD = 50_000  # new objects before the garbage is looked for; Python's own is 700


def main() -> None:
    """Runs the command line and ends the process with its exit status; Ctrl-C is handled from the first import on."""
    arguments = sys.argv[1:]
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        _open_streams()
    if not _speaks_utf8():
        for stream in (sys.stdout, sys.stderr):  # what they have no bytes for is shown by its number
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
    except BaseException as problem:  # noqa: BLE001 - raised again, if Ctrl-C is not behind it
        status = _interrupted(problem, arguments)
    if status == _INTERRUPTED:
        # An interrupt inside of `exec` of a text (as where a class is made) leaves a flag in the interpreter, by which
        # it ends itself by SIGINT after its cleaning up, and a caller reads -2. The next text takes the flag back.
        exec("")
    # A second Ctrl-C during interpreter shutdown exits at once, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)


def _open_streams() -> None:
    """Opens closed standard streams to the null device; else the next file that is opened gets their output.

    `sys.stdin` stays None: a command that reads it can say that there is nothing.
    """
    import os

    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:  # the lowest free number each time
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as the program is


def _speaks_utf8() -> bool:
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"


def _run(arguments: list[str]) -> int:
    gc.disable()  # importing makes thousands of objects and no garbage; collecting in between is a tenth of a start
    if arguments and arguments[0] in ("status", "brief", "hook", "--version", "--help", "-h", "--json"):
        from perpetual.cli.fastpath import answer

        text = answer(arguments)
        if text is not None and (text.isascii() or _speaks_utf8()):
            try:
                sys.stdout.write(text)
                sys.stdout.flush()
            except BrokenPipeError:
                raise
            except OSError as problem:  # full
                from perpetual.cli.app import output_failed

                return output_failed(problem, arguments)
            return 0
    if arguments and arguments[0] == "mcp":
        from perpetual.toolkit.resident import hand_over

        if (status := hand_over(arguments)) is not None:
            return status
    from perpetual.cli.app import run

    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)  # what the command imports yet is no garbage either
    gc.enable()
    return run(arguments)


def _interrupted(problem: BaseException, arguments: list[str]) -> int:
    """Shows an interrupt before the command line could; raises any other exception again."""
    from perpetual.cli import interrupt

    if not interrupt.is_interrupt(problem):
        raise problem
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # one answer is enough
    return interrupt.tell(arguments)
