"""Registering the lab with coding agents: merges what a harness asks for into a project's files, and takes it out again.

`Lab.scaffold` and the command `init` come here. What stood in a file before is kept in `.perpetual/scaffold.json`, so
that removal gives the very bytes back; a file that somebody edited since loses only what we put there. The record is
written before the files: were the process to end between the two, the next call would find the file as it was before
and begin anew. Floor 2.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from perpetual.config import FOLDER, Config
from perpetual.errors import CorruptData, PluginError, UsageError, unknown
from perpetual.registry import Offer, Registry
from perpetual.slots.harness import WAYS, FilePlan, Harness, Scaffold
from perpetual.toolkit import jsonedit, marked
from perpetual.toolkit.atomic import dump_json, read_json, write_atomic

__all__ = ["DEFAULT", "RECORD", "chosen", "scaffold"]

RECORD = "scaffold.json"
DEFAULT = "mcp"  # where neither the call nor the folder names a harness
_COMMAND = ("perpetual",)


@dataclass(frozen=True)
class _Entry:
    """What the record knows of a file; `original` is None where there was no file or nobody knows."""

    existed: bool
    original: bytes | None
    written: str | None  # hash of what we wrote; None once somebody edited the file
    folders: tuple[str, ...]  # that we made for it
    plans: tuple[tuple[str, FilePlan], ...]  # with the harness that asked

    @property
    def is_known(self) -> bool:
        """Whether the bytes before us are known."""
        return not self.existed or self.original is not None


@dataclass(frozen=True)
class _Step:
    """What is to happen to one file. `content` None deletes it; `is_change` false leaves it."""

    path: str
    action: str  # created | merged | unchanged | removed | conflict
    reason: str | None = None
    before: bytes | None = None
    content: bytes | None = None
    is_change: bool = False
    entry: _Entry | None = None
    keeps_entry: bool = False  # the record says the same as before


@dataclass
class _Job:
    """One call: the folder, what the record says, what is wanted."""

    root: Path
    force: bool
    entries: dict[str, _Entry]
    removed: frozenset[str]
    seen: dict[str, str] = field(default_factory=dict)  # real path -> the path that led there first


def chosen(config: Config, registry: Registry, names: Sequence[str] = ()) -> list[str]:
    """The harnesses that a call means: those named, or those of the record, or those whose files stand there.

    Raises:
        UsageError: for a name that no plugin offers, with the nearest.
        PluginError: for a name that two distributions offer.
    """
    offers = registry.serving("harness")
    known = [offer.provider.name for offer in offers]
    for name in names:
        if name not in known and name not in [offer.qualified_name for offer in offers]:
            raise UsageError(unknown("harness", name, known), hint="perpetual plugins list shows what is installed")
    picked = [registry.choose("harness", name).provider.name for name in names]
    if picked:
        return list(dict.fromkeys(picked))
    recorded = [name for name in _read(config)["harnesses"] if name in known]
    found = [offer.provider.name for offer in offers if _build(config, registry, offer).detect(config.root)]
    return recorded or found or [DEFAULT]


def scaffold(
    config: Config,
    registry: Registry,
    names: Sequence[str],
    *,
    remove: Sequence[str] = (),
    command: Sequence[str] | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Writes what these harnesses ask for, takes out what the `remove`d ones asked for.

    Args:
        names: harnesses as `chosen` answers them.
        command: how agents start Perpetual; by default as at the last call, at first `perpetual`.
        dry_run: writes nothing and gives each file its `diff`.
        force: replaces and removes generated files that a person edited.
    Returns:
        `{harnesses, files: [{path, action, reason}], trust: [steps]}`; an action `conflict` names a file that could
        not be merged and stands as it was.

    Raises:
        UsageError: for a name in both lists, or one that no plugin offers.
    """
    both = sorted(set(names) & set(remove))
    if both:
        raise UsageError(f"{', '.join(both)} cannot be added and removed at once")
    record = _read(config)
    used = tuple(command or record["command"] or _COMMAND)
    wanted, failures = _plans(config, registry, names, used)
    unwanted, _ = _plans(config, registry, remove, used)
    job = _Job(config.root, force, dict(record["entries"]), frozenset(remove))
    steps = [*failures, *_steps(job, wanted, unwanted)]
    harnesses = sorted((set(record["harnesses"]) | set(wanted)) - set(remove))
    if not dry_run:
        steps = _carry_out(config, steps, record, {"command": list(used), "harnesses": harnesses})
    trust = list(dict.fromkeys(step for plan in wanted.values() for step in plan.trust))
    return {"harnesses": harnesses, "files": [_shown(step, dry_run) for step in steps], "trust": trust}


def _build(config: Config, registry: Registry, offer: Offer) -> Harness:
    provider = offer.provider
    built: Harness = registry.build(offer, config.options(provider.name, provider.options))
    return built


def _plans(
    config: Config, registry: Registry, names: Iterable[str], command: tuple[str, ...]
) -> tuple[dict[str, Scaffold], list[_Step]]:
    """Each harness's scaffold, and a conflict for each harness that failed to answer one."""
    plans: dict[str, Scaffold] = {}
    failures: list[_Step] = []
    project = config["project"] or config.root.name
    for name in names:
        offer = registry.choose("harness", name)
        try:
            plans[name] = _build(config, registry, offer).scaffold(project=project, command=command)
            for plan in plans[name].files:
                _check(plan)
        except Exception as problem:  # noqa: BLE001 - a harness's fault is told under its name and never ends the others
            plans.pop(name, None)
            failures.append(_Step(name, "conflict", f"the harness {name} failed: {problem}"))
    return plans, failures


def _check(plan: FilePlan) -> None:
    parts = PurePosixPath(plan.path).parts
    if plan.how not in WAYS or not parts or parts[0] in ("/", FOLDER) or ".." in parts:
        raise PluginError(f"{plan.path!r} ({plan.how}) is no plan for a file of the project")


def _steps(job: _Job, wanted: Mapping[str, Scaffold], unwanted: Mapping[str, Scaffold]) -> list[_Step]:
    """What is to happen, file by file."""
    new: dict[str, list[tuple[str, FilePlan]]] = {}
    for name, plan_set in wanted.items():
        for plan in plan_set.files:
            new.setdefault(plan.path, []).append((name, plan))
    old: dict[str, list[tuple[str, FilePlan]]] = {path: list(entry.plans) for path, entry in job.entries.items()}
    for name, plan_set in unwanted.items():
        for plan in plan_set.files:
            # A fresh clone has the files and no record of them.
            if plan.path not in job.entries:
                old.setdefault(plan.path, []).append((name, plan))
    steps = []
    for path in dict.fromkeys([*new, *old]):
        before = old.get(path, [])
        touched = path in new or any(name in job.removed for name, _ in before)
        if touched:
            kept = [item for item in before if item[0] not in job.removed and item[0] not in wanted]
            steps += _step(job, path, [*kept, *new.get(path, [])], before)
    return steps


def _step(
    job: _Job, path: str, plans: list[tuple[str, FilePlan]], before: list[tuple[str, FilePlan]]
) -> list[_Step]:
    """What is to happen to one file: nothing to tell (`[]`), or one step."""
    entry = job.entries.get(path)
    try:
        real = os.path.realpath(job.root / path)
        if not Path(real).is_relative_to(os.path.realpath(job.root)):
            raise ValueError("it leads outside of the project")
        other = job.seen.setdefault(real, path)
        if other != path:
            return [_Step(path, "unchanged", f"it is the same file as {other}", keeps_entry=True)]
        current = _bytes_of(Path(real))
        if current is None and all(plan.existing_only for _, plan in plans) and (plans or not before):
            return []
        ways = {plan.how for _, plan in (*plans, *before)}
        if "own" in ways and len(ways) > 1:
            raise ValueError("one plan owns it, another one merges into it")
        work = _own if "own" in ways else _merge
        return [work(job, path, current, entry, plans, before)]
    except (OSError, ValueError) as problem:
        told = problem.strerror or str(problem) if isinstance(problem, OSError) else str(problem)
        where, _, rest = told.partition(": ")
        told = f"{path}:{where[5:]}: {rest}" if where.startswith("line ") else f"{path}: {told}"
        return [_Step(path, "conflict", told, keeps_entry=True)]


def _bytes_of(path: Path) -> bytes | None:
    if path.exists() and not path.is_file():
        raise ValueError("it is no regular file")
    return path.read_bytes() if path.exists() else None


def _own(
    job: _Job,
    path: str,
    current: bytes | None,
    entry: _Entry | None,
    plans: list[tuple[str, FilePlan]],
    before: list[tuple[str, FilePlan]],
) -> _Step:
    """A file that is a harness's alone."""
    text = None if current is None else current.decode("utf-8", "replace")
    untouched = text is not None and marked.is_untouched(text)
    if not plans:
        if current is None:
            return _Step(path, "unchanged", "it is not there")
        if untouched or (job.force and entry is not None):
            original = entry.original if entry is not None else None
            reason = None if original is None else "its earlier content is back"
            return _Step(path, "removed", reason, current, original, True)
        reason = "edited by hand" if text is not None and marked.has_stamp(text) else "Perpetual did not write it"
        return _Step(path, "unchanged", reason)
    wanted = marked.stamp(path, plans[-1][1].text).encode("utf-8")
    made = _entry(job, path, current, wanted, entry, plans)
    if current is None:
        return _Step(path, "created", None, None, wanted, True, made)
    if text is not None and text.replace("\r\n", "\n").encode("utf-8") == wanted:
        return _Step(path, "unchanged", None, entry=made)
    if untouched or job.force:
        return _Step(path, "merged", "brought up to date" if untouched else "replaced", current, wanted, True, made)
    ours = entry is not None or (text is not None and marked.has_stamp(text))
    reason = "edited by hand" if ours else "Perpetual did not write it; --force replaces it"
    return _Step(path, "unchanged", reason, keeps_entry=True)


def _merge(
    job: _Job,
    path: str,
    current: bytes | None,
    entry: _Entry | None,
    plans: list[tuple[str, FilePlan]],
    before: list[tuple[str, FilePlan]],
) -> _Step:
    """A file that we share with people."""
    new, gone = _unique(plans), _unique(before)
    if current is None:
        if not new:
            return _Step(path, "unchanged", "it is not there")
        content = _applied(path, None, new).encode("utf-8")
        return _Step(path, "created", None, None, content, True, _entry(job, path, None, content, entry, plans))
    text = current.decode("utf-8")  # a UnicodeDecodeError is a ValueError: a conflict
    restored = False
    content_after: bytes | None
    if entry is not None and entry.is_known and (_digest(current) == entry.written or current == entry.original):
        restored = not new
        base = None if entry.original is None else entry.original.decode("utf-8")
        content_after = _applied(path, base, new).encode("utf-8") if new else entry.original
    else:
        undone = _undone(path, text, gone, new, entry)
        content_after = _applied(path, undone, new).encode("utf-8")
        if not new and entry is not None and not entry.existed and undone.strip() in ("", "{}"):
            content_after = None
    if content_after == current:
        unneeded = None if new else "nothing of Perpetual's is in it"
        shared = "another harness uses it" if new and gone and not _is_wanted(plans, before) else None
        return _Step(path, "unchanged", unneeded or shared, entry=_kept(job, path, current, entry, plans))
    made = _entry(job, path, current, content_after, entry, plans) if new else None
    if new and len(new) >= len(gone):
        return _Step(path, "merged", None, current, content_after, True, made)
    reason = "edited since: only what Perpetual put there was taken out"
    if new:
        reason = "what another harness uses stays"
    elif restored or content_after is None:
        reason = "its earlier content is back" if content_after is not None else ""
    return _Step(path, "removed", reason or None, current, content_after, True, made)
