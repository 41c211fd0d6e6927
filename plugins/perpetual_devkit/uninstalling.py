"""`perpetual uninstall`: takes from this machine what Perpetual laid outside of projects' records.

Agents' files of every known project are taken out first, since what stood there before is proven by a secret of the
state folder. Then the caches and the state folder go: the entries that Perpetual makes, by their names and forms, and
nothing else that a person keeps there. A project's `.perpetual` folder stays whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from perpetual import Lab
from perpetual.api import Conflict, PerpetualError, to_json
from perpetual.toolkit import trust_record, user_state
from perpetual.toolkit.caches import cache_dir
from perpetual_devkit.installer import removal_words
from perpetual_devkit.plugin_index import FILE

__all__ = ["Left", "Uninstalled", "uninstall"]

FILES = ("place", "secret", "trust.lock", FILE)
FOLDERS = ("approve-tokens", "campaign-thinkers", "mcp", "moves", "plugin-failures", "trust", "turns")
_IN_FOLDER = re.compile(r"(?:\.?[0-9a-f]{8,}[.-].*|\..*\.tmp)\Z")  # records and tokens are named by a hash or a nonce
_TEMPORARY = re.compile(r"\.(place|secret)\.[0-9a-f]+")
_CACHED = re.compile(r"[a-z]+-[0-9a-f]{8}\.json(\.\d+)?")
_LIVE = ("launching", "running")


@dataclass(frozen=True, slots=True)
class Left:
    """One thing and what becomes of it: `action` is removed, merged, unchanged, kept, gone or conflict."""

    path: str
    action: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Uninstalled:
    """What was removed, or would be; `command` removes the package itself, which a person types."""

    items: tuple[Left, ...]
    command: str


def uninstall(*, dry_run: bool = False, forget_missing: bool = False) -> Uninstalled:
    """Removes agents' files of known projects, caches and the state folder; records stay. A second call does nothing.

    Raises:
        Conflict: (live) naming runs and services that are live, before anything is removed; (conflict) naming agents'
            files that cannot be taken out: then state and caches stay, so that the call can be repeated.
    """
    roots = [record.path for record in trust_record.stored() if _is_there(record)]
    gone = [record.path for record in trust_record.stored() if not _is_there(record)]
    _refuse_live(roots)
    items = [item for root in roots for item in _scaffold(root, dry_run=dry_run)]
    absent = "its place is empty: agents' files that were moved away with it could not be taken out later"
    items += [Left(root, "gone" if forget_missing else "conflict", absent) for root in gone]
    failed = [item for item in items if item.action == "conflict"]
    if failed:
        raise Conflict(
            "; ".join(f"{item.path}: {item.reason}" for item in failed),
            hint="mend these, or pass over projects that are deleted with --forget-missing; your state is as it was",
            data={"schema": "perpetual.uninstall/1", **to_json(Uninstalled(tuple(items), removal_words()))},
        )
    items += [*_caches(dry_run=dry_run), *_state(dry_run=dry_run)]
    items += [Left(str(Path(root, ".perpetual")), "kept", "the project's record") for root in roots]
    return Uninstalled(tuple(items), removal_words())


def _is_there(record: trust_record.Record) -> bool:
    return trust_record.identity_of(record.path) == record.identity


def _refuse_live(roots: list[str]) -> None:
    live: list[str] = []
    for root in roots:
        try:
            with Lab.open(root) as lab:
                live += [f"run {run.id} of {root}" for run in lab.runs.live() if run.status in _LIVE]
                running = [one["name"] for one in lab.services.list() if one["state"] in ("starting", "running")]
                live += [f"service {name} of {root}" for name in running]
        except PerpetualError as problem:
            raise Conflict(
                f"{root} cannot be looked at: {problem.message}",
                hint=f"mend it, or take it out: perpetual trust revoke {root}",
            ) from problem
    if live:
        hint = "perpetual kill RUN, perpetual services stop NAME; perpetual scan records what has ended"
        raise Conflict(f"live: {', '.join(live)}", hint=hint, code="live")


def _scaffold(root: str, *, dry_run: bool) -> Iterator[Left]:
    try:
        with Lab.open(root) as lab:
            done = lab.scaffold(remove=["all"], dry_run=dry_run)
    except PerpetualError as problem:
        yield Left(root, "conflict", problem.message)
        return
    for item in done["files"]:
        if item["action"] != "unchanged":
            yield Left(os.path.join(root, item["path"]), item["action"], item["reason"])


def _caches(*, dry_run: bool) -> Iterator[Left]:
    folder = cache_dir()
    names = _names(folder)
    ours = [name for name in names if _CACHED.fullmatch(name)]
    yield from _taken(folder, ours, len(ours) == len(names), "caches", dry_run=dry_run)


def _state(*, dry_run: bool) -> Iterator[Left]:
    folder = user_state.location()
    names = _names(folder)
    left = len(names)
    for name in [name for name in names if name in FOLDERS]:
        place = os.path.join(folder, name)
        if os.path.islink(place) or not os.path.isdir(place):
            continue
        inside = _names(place)
        ours = [each for each in inside if _IN_FOLDER.match(each)]
        left -= len(ours) == len(inside)
        yield from _taken(place, ours, len(ours) == len(inside), name, dry_run=dry_run)
    files = [name for name in names if name in FILES or _TEMPORARY.fullmatch(name)]
    yield from _taken(folder, files, left == len(files), "state", dry_run=dry_run)


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _taken(folder: str, names: list[str], is_all: bool, what: str, *, dry_run: bool) -> Iterator[Left]:
    """Removes files of a folder, and the folder if that is all that is in it."""
    if not os.path.isdir(folder):
        return
    item = Left(folder, "removed", f"{what}: {len(names)} files")
    try:
        for name in names if not dry_run else ():
            os.unlink(os.path.join(folder, name))
        if is_all and not dry_run:
            os.rmdir(folder)
    except OSError as problem:
        yield replace(item, action="conflict", reason=f"{what}: {problem.strerror or problem}")
        return
    if is_all:
        yield item
        return
    if names:
        yield item
    yield Left(folder, "kept", "it holds what Perpetual did not put there")
