"""Retention: which checkpoints and artifacts a policy lets go, and their removal.

A record is never removed, nor a log, nor what a metric was read from: `perpetual verify` goes back to those. A folder
goes in one rename first, so that a removal that is interrupted is finished by the next one and never half believed.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import NotPermitted
from perpetual.toolkit import confined
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual.toolkit.run_folder import ARTIFACTS, CHECKPOINTS
from perpetual.toolkit.units import posix_of
from perpetual_artifacts.listing import files_below

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run
    from perpetual_artifacts.documents import Gc, Removal

__all__ = ["collect"]

_GOING = ".gc-"  # how the name of a folder begins whose removal has begun
_LIVE = ("queued", "launching", "running")
_DAY_S = 86_400.0


def collect(lab: Lab, *, dry_run: bool = False, now: datetime | None = None) -> Gc:
    """Removes what the options of the plugin `artifacts` let go; with `dry_run` it only names it.

    Checkpoints belong to a replicate: they stay while an attempt of it is live, and their age counts from the end of
    the newest one. Each removal is an event.

    Raises:
        NotPermitted: for an agent, without `dry_run`.
    """
    if not dry_run and lab.actor.startswith(("agent:", "mcp:")):
        raise NotPermitted("removing files of runs is for a person", hint=FOR_A_PERSON)
    options = lab.options("artifacts")
    now_s = (now or datetime.now().astimezone()).timestamp()
    removed: list[Removal] = []
    kept: Counter[str] = Counter()
    newest = _newest_attempts(lab)
    for run in lab.runs.all():
        folder = lab.runs.log_dir(run.id)
        if not _is_folder(folder):
            continue
        if not dry_run:
            _finish(folder)
        newest_attempt = newest[run.experiment_id, run.replicate]
        for what, last in ((CHECKPOINTS, newest_attempt), (ARTIFACTS, run)):
            files = sizes = 0
            for item in files_below(folder / what):
                files, sizes = files + 1, sizes + (item.size_bytes if item else 0)
            if not files:
                continue
            last = newest_attempt if newest_attempt.status in _LIVE else last
            why, stays = _verdict(what, last, options, now_s)
            if why is not None and what == ARTIFACTS and run.experiment_id in _needed(lab):
                why, stays = None, "an experiment that is not over needs them"
            if why is None:
                kept[stays] += 1
                continue
            path = os.path.relpath(folder / what, lab.root)
            removal: Removal = {
                "run_id": run.id, "what": what, "path": path, "size_bytes": sizes, "files": files, "why": why,
            }  # fmt: skip
            if dry_run or _remove(lab, run, folder, removal):
                removed.append(removal)
            else:
                kept["a run is live"] += 1
    return {
        "removed": removed,
        "freed_bytes": sum(item["size_bytes"] for item in removed),
        "kept": dict(kept),
        "dry_run": dry_run,
    }


def _newest_attempts(lab: Lab) -> dict[tuple[str, int], Run]:
    found: dict[tuple[str, int], Run] = {}
    for run in lab.runs.all():
        key = run.experiment_id, run.replicate
        if key not in found or run.attempt > found[key].attempt:
            found[key] = run
    return found


def _verdict(what: str, last: Run, options: Mapping[str, object], now_s: float) -> tuple[str | None, str]:
    """Returns why a folder goes, or None with why it stays."""
    if last.status in _LIVE or last.ended_at is None:
        return None, "a run is live"
    if what == ARTIFACTS:
        key = "artifact_days"
    else:
        key = "checkpoint_days" if last.status == "done" else "unfinished_checkpoint_days"
    days = options[key]
    if not isinstance(days, (int, float)):
        return None, f"{key} keeps it"
    age = (now_s - posix_of(last.ended_at)) / _DAY_S
    if age < days:
        return None, f"younger than {key}"
    return f"{last.id} ended {age:.1f} days ago, and {key} is {days:g}", ""


def _needed(lab: Lab) -> set[str]:
    """Returns the experiments whose artifacts others start from that are not over; their runs may be another's."""
    found: set[str] = set()
    for each in lab.experiments.all():
        if each.status in ("proposed", "approved", "active"):
            firsts = {need.partition("/")[0] for need in each.resources.needs_artifacts}
            found |= firsts | {owner for id in firsts if (owner := lab.experiments.get(id).design.runs_of)}
    return found


def _is_folder(folder: Path) -> bool:
    try:
        return confined.check_folder(folder)
    except OSError:
        return False  # a link, or what is no folder: a run has put it there, and it is not ours to remove


def _finish(folder: Path) -> None:
    """Finishes removals that were interrupted."""
    for name in os.listdir(folder):
        if name.startswith(_GOING):
            shutil.rmtree(folder / name, ignore_errors=True)


def _remove(lab: Lab, run: Run, folder: Path, removal: Removal) -> bool:
    """Removes the folder, unless a further attempt has begun; a launch cannot come in between."""
    what = removal["what"]
    going = folder / f"{_GOING}{what}-{os.urandom(4).hex()}"
    with lab.transaction():
        if what == ARTIFACTS and run.experiment_id in _needed(lab):
            return False
        attempts = lab.runs.all(experiment_id=run.experiment_id)
        if any(each.replicate == run.replicate and each.status in _LIVE for each in attempts):
            return False
        lab.feed.emit(
            "artifacts.removed", run.id, {key: removal[key] for key in ("what", "size_bytes", "files", "why")}
        )
        os.rename(folder / what, going)
    shutil.rmtree(going)  # follows no link
    return True
