"""Starts the process that pushes: waited for by `push`, left alone by `wake`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, UsageError
from perpetual.toolkit import lock
from perpetual.toolkit.confined import make_folder, open_file
from perpetual_mirrors.outbox import is_of_interest
from perpetual_mirrors.targets import configured, file_name, folder_of, mirror_named, note_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_mirrors.documents import MirrorPush

__all__ = ["push", "wake"]

_PROGRAM = (sys.executable, "-P", "-m", "perpetual_mirrors")
_LOG = "log"
_LARGEST_LOG_BYTES = 256 * 1024
_BATCH = 200  # events that a scan looks at
_started: list[subprocess.Popen[bytes]] = []


def push(lab: Lab, to: Sequence[str] = (), *, rebuild: bool = False, dry_run: bool = False) -> list[MirrorPush]:
    """Pushes what waits to the mirrors `to`, by default to those of the configuration; returns a document for each.

    It runs in a process of its own. A mirror that fails is no error: its document says why.

    Args:
        rebuild: pushes every run that has ended anew.
        dry_run: answers what waits, and pushes nothing.

    Raises:
        UsageError: without a mirror, and for one that there is not.
        TransientError: if another process pushes to it for long.
        NotPermitted: (not_trusted) in a project that is held.
    """
    lab.trust.require("pushing runs to a tracker")
    targets = [*dict.fromkeys(to)] or configured(lab)
    if not targets:
        raise UsageError(
            "no mirror is configured", hint="perpetual config set plugins.mirrors.targets tensorboard", code="no_mirror"
        )
    for name in targets:
        mirror_named(lab, name)
    flags = [*(["--rebuild"] if rebuild else []), *(["--dry-run"] if dry_run else [])]
    return [_pushed(lab, name, flags) for name in targets]


def _pushed(lab: Lab, target: str, flags: Sequence[str]) -> MirrorPush:
    """Returns the document of one mirror, pushed to in a process of its own: what ends that harms no other."""
    log = _open_log(lab)
    try:
        done = subprocess.run(
            [*_PROGRAM, str(lab.root), target, "--answer", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, check=False,
        )  # fmt: skip
    finally:
        os.close(log)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise PerpetualError(
            f"the process that pushed to {target} ended with {done.returncode} and no answer",
            hint=f"see {folder_of(lab) / _LOG}",
        ) from None
    if "code" in answer:
        problem = PerpetualError(answer["message"], hint=answer["hint"], code=answer["code"])
        problem.exit = answer["exit"]
        raise problem
    found: MirrorPush = answer
    return found


def wake(lab: Lab) -> None:
    """Starts a process for each mirror for which something waits, unless one is at work; never waits itself.

    It is asked at each scan: without a mirror it costs the look at an option, else a small file for each mirror.
    """
    _started[:] = [process for process in _started if process.poll() is None]
    targets = configured(lab)
    if not targets:
        return
    folder, last, now_s = folder_of(lab), lab.feed.last(), time.time()
    for target in targets:
        note = note_of(folder, target)
        is_due = note.due_s is not None and note.due_s <= now_s
        if not is_due and not _has_news(lab, note.seq, last):
            continue
        if lock.is_locked(folder / f"{file_name(target)}.lock"):
            continue  # that process looks once more before it ends
        log = _open_log(lab)
        try:
            process = subprocess.Popen(
                [*_PROGRAM, str(lab.root), target], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(log)
        _started.append(process)


def _has_news(lab: Lab, seq: int, last: int) -> bool:
    """Returns whether an event after `seq` changes a run; of very many the process looks itself."""
    if last == seq:
        return False
    if last < seq or last - seq > _BATCH:
        return True
    return any(map(is_of_interest, lab.feed.read(since=seq, limit=_BATCH)))


def _open_log(lab: Lab) -> int:
    """Returns a descriptor of the log, which is emptied when it has become long."""
    make_folder(folder_of(lab))
    log = open_file(folder_of(lab) / _LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if os.fstat(log).st_size > _LARGEST_LOG_BYTES:
        os.ftruncate(log, 0)
    return log
