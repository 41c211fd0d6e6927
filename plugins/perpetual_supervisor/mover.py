"""What a supervisor starts when its run is over: one short process per project, which moves the queue on.

Each ending supervisor leaves its word, an empty file `wake-PID-TICKS` in the project's folder for this, and then tries
the lock there. Whichever gets it becomes the parent of the process, which inherits the lock; the others leave it at
their word, for the process that holds the lock looks at these files again before and after it lets go of it. So of
fifty ends at once one process comes, and no end is missed. The process gets the environment that
is in the launch document, and nothing of the run.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import NoReturn

    from perpetual.toolkit.platform import Identity
    from perpetual_supervisor.records import MoverDocument
else:
    try:
        import _signal as signal  # as in `supervisor.py`
    except ImportError:  # no CPython
        import signal

LOCK, LOG, WAKE = "lock", "log", "wake-"
HELD = 3  # the descriptor on which the process finds the lock
_FLAGS = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Mover:
    """The process that an ending run starts; its folder is held open, so that it is found again when it was renamed."""

    def __init__(self, document: MoverDocument) -> None:
        import fcntl  # now: when the run ends, the installation may be gone

        self._lock = fcntl.flock
        self._exclusive = fcntl.LOCK_EX | fcntl.LOCK_NB
        self._argv, self._env = [*document["argv"]], {**document["env"]}
        self._folder = os.open(document["folder"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def start(self, me: Identity | None, complain: Callable[[str], None]) -> None:
        """Leaves word that this supervisor is about to end, and starts the process unless one is at work."""
        try:
            if me is not None:
                name = f"{WAKE}{me.pid}-{me.start_ticks}"
                os.close(os.open(name, os.O_WRONLY | _FLAGS, 0o600, dir_fd=self._folder))
            held = os.open(LOCK, os.O_RDWR | _FLAGS, 0o600, dir_fd=self._folder)
            try:
                self._lock(held, self._exclusive)
            except BlockingIOError:
                return
            log = os.open(LOG, os.O_WRONLY | os.O_APPEND | _FLAGS, 0o600, dir_fd=self._folder)
            if os.fork() == 0:
                self._become(held, log)
        except OSError as problem:
            complain(f"the queue was not moved on: {problem}")

    def _become(self, held: int, log: int) -> NoReturn:
        """Executes the process, in the child: in a session of its own, with the lock and its log alone."""
        try:
            os.setsid()
            os.fchdir(self._folder)
            for name in ("SIGHUP", "SIGINT", "SIGTERM", "SIGCHLD", "SIGPIPE"):
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            null, held, log = os.open(os.devnull, os.O_RDWR), os.dup(held), os.dup(log)
            for number, to in ((null, 0), (log, 1), (log, 2), (held, HELD)):
                os.dup2(number, to)
            os.set_inheritable(HELD, True)  # where it had that number, nothing was copied
            os.closerange(HELD + 1, 1024)
            os.execve(self._argv[0], self._argv, self._env)
        except OSError as problem:
            os.write(2, f"cannot run {self._argv[0]}: {problem}\n".encode("utf-8", "backslashreplace"))
        finally:
            os._exit(127)
