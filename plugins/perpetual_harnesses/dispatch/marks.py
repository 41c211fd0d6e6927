"""The marks of turns that go on, in the user's state folder: what a killed driver has left is found and ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perpetual.toolkit import platform, user_state
from perpetual.toolkit.atomic import write_atomic
from perpetual_harnesses.dispatch.guardian import watched
from perpetual_harnesses.dispatch.process import end_marked

__all__ = ["FOLDER", "end_lost", "going"]

FOLDER = "turns"
_NAME = re.compile(r"([0-9a-f]{32})\.json")
_LARGEST_BYTES = 4096


@contextmanager
def going(mark: str) -> Iterator[Path]:
    """Yields a folder for a turn, with its mark on file and a watch meanwhile; ends what is left of lost turns before.

    Raises:
        DispatchError: where the watch cannot be started.
        OSError, PerpetualError: where the user's state folder cannot be used: without the file nothing is started.
    """
    end_lost()
    folder = user_state.folder() / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"{mark}.json"
    me = platform.identity_of(os.getpid())
    write_atomic(file, json.dumps(None if me is None else [*me]))
    place = folder / f"{mark}.d"
    place.mkdir(mode=0o700)
    try:
        with watched(mark):
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            file.unlink()


def end_lost() -> list[str]:
    """Ends the processes of turns whose driver is dead, and returns their names."""
    folder = user_state.folder() / FOLDER
    ended: list[str] = []
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return ended
    for file in files:
        found = _NAME.fullmatch(file.name)
        if found is None or _is_driven(file):
            continue
        ended += end_marked(found[1]).values()
        shutil.rmtree(folder / f"{found[1]}.d", ignore_errors=True)
        with contextlib.suppress(OSError):
            file.unlink()
    return ended


def _is_driven(file: Path) -> bool:
    """Returns whether the driver lives; True for a file that is gone, since its turn has just ended."""
    try:
        with open(file, "rb") as stream:
            boot, pid, ticks = json.loads(stream.read(_LARGEST_BYTES))
        return platform.is_alive(platform.Identity(str(boot), int(pid), int(ticks)))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, TypeError):
        return False
