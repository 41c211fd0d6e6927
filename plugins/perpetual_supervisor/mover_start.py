"""Starts what moves a project's queue from a process that goes on, such as a command or a server, before a run ends.

As an ending supervisor does (`mover.py`): whichever gets the lock becomes the parent, and the process inherits it.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

from perpetual.toolkit import confined
from perpetual_supervisor.mover import LOCK, LOG
from perpetual_supervisor.records import MoverDocument

__all__ = ["LINGER", "start"]

LINGER = "PERPETUAL_QUEUE_LINGER_S"  # how long the process stays while runs wait; for measurements
# The shell ends at once, and so leaves no dead child to a caller that goes on.
_APART = ["/bin/sh", "-c", '"$@" &', "sh"]


def start(document: MoverDocument) -> bool:
    """Starts the process, unless one is at work or it is not to stay; returns whether it did. Raises OSError."""
    if os.environ.get(LINGER) == "0":
        return False
    folder = Path(document["folder"])
    held = confined.open_file(folder / LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        log = confined.open_file(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            subprocess.run(
                [*_APART, *document["argv"], str(held)],
                cwd=folder,
                env=document["env"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[held],
                start_new_session=True,
                check=True,
            )
        finally:
            os.close(log)
    except BlockingIOError:
        return False
    except subprocess.CalledProcessError as problem:
        raise OSError(str(problem)) from problem
    finally:
        os.close(held)
    return True
