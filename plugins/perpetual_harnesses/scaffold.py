"""Registering the lab with coding agents: merges what they ask for into a project's files, and takes it out again.

What stood in a file before is kept in `.perpetual/scaffold.json`, so
that removal gives the very bytes back; a file that was edited since loses only what we put there. The record is
written before the files: were the process to end between the two, the next call would find the file as it was before
and begin anew.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from perpetual.api import (
    WAYS,
    FilePlan,
    OfferedHarness,
    PerpetualError,
    PluginError,
    Scaffold,
    ScaffoldAnswer,
    ScaffoldedFile,
    ScaffoldView,
    UsageError,
    unknown,
)
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.lock import FileLock
from perpetual_harnesses import managed_blocks
from perpetual_harnesses.scaffold_edit import Asked, alike, applied, is_bare, kind, persons, undone
from perpetual_harnesses.scaffold_record import Entry, Record, digest, is_inside, read, write
from perpetual_harnesses.template import PrintingScaffold

__all__ = ["ALL", "DEFAULT", "chosen", "scaffold"]

DEFAULT = "opencode"  # where neither the call nor the folder names a harness
ALL = "all"
NO_ONE = "none"
_COMMAND = ("perpetual",)
_BACK = "its earlier content is back"


@dataclass(frozen=True)
class _Step:
    """What is to happen to one file. `content` None deletes it; `is_change` false leaves it."""

    path: str
    action: str  # created | merged | unchanged | removed | conflict
    reason: str | None = None
    before: bytes | None = None
    content: bytes | None = None
    is_change: bool = False
    entry: Entry | None = None  # what the record says of it afterwards


@dataclass
class _Job:
    """One call: the folder, what the record says, what is wanted."""

    root: Path
    force: bool
    entries: dict[str, Entry]
    removed: frozenset[str]
    seen: dict[str, str] = field(default_factory=dict)  # real path -> the path that led there first


def chosen(view: ScaffoldView, names: Sequence[str] = ()) -> list[str]:
    """Returns the harnesses that a call means: the named ones, or the recorded, or those whose files are there.

    `all` names every one that is installed, `none` none.

    Raises:
        UsageError: for a name that no plugin offers, with the nearest.
        PluginError: for a name that two distributions offer.
    """
    known = [offered.name for offered in view.harnesses]
    if NO_ONE in names:
        if len(set(names)) > 1:
            raise UsageError(f"{NO_ONE} writes no files, so it goes with no other harness")
        return []
    if names:
        names = [each for name in names for each in (known if name == ALL else [name])]
        _refuse_unknown(names, known, NO_ONE)
        return list(dict.fromkeys(view.choose(name).name for name in names))
    recorded = [name for name in read(view.folder).harnesses if name in known]
    return recorded or [offered.name for offered in view.harnesses if _stands(view, offered)] or [DEFAULT]


def _refuse_unknown(names: Iterable[str], known: Sequence[str], *others: str) -> None:
    for name in names:
        if name not in known and name.rpartition("/")[2] not in known:
            raise UsageError(
                unknown("harness", name, [*known, ALL, *others]), hint="perpetual plugins list shows what is installed"
            )


def scaffold(
    view: ScaffoldView,
    names: Sequence[str] = (),
    *,
    remove: Sequence[str] = (),
    command: Sequence[str] | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> ScaffoldAnswer:
    """Writes what these harnesses ask for, takes out what the `remove`d ones asked for.

    Args:
        names: harnesses; none named are those of `chosen`, and with `remove` given none at all.
        remove: harnesses; `all` means those of the record, or without one all that are installed.
        command: how agents start Perpetual; by default as at the last call, at first `perpetual`.
        dry_run: writes nothing and gives each file its `diff`.
        force: replaces and removes generated files that a person edited.

    Returns:
        `{harnesses, command, files: [{path, action, reason}], trust: [steps], snippets: [{harness, path, what,
        text}]}`; a snippet is for a person to put into a file outside of the project; an action `conflict` names a
        file that could not be merged and stands as it was.

    Raises:
        UsageError: for a name in both lists, or one that no plugin offers.
        CorruptData: if the record of what stood before cannot be read.
        PerpetualError: if the project's folder cannot be written.
    """
    names = chosen(view, names) if names or not remove else []
    offered = [each.name for each in view.harnesses]
    try:
        with nullcontext() if dry_run else FileLock(view.folder / "scaffold.lock"):
            record = read(view.folder)
            if ALL in remove:
                remove = record.harnesses or offered
            _refuse_unknown(remove, [*offered, *record.harnesses])
            both = sorted({*names} & {*remove})
            if both:
                raise UsageError(f"{', '.join(both)} cannot be added and removed at once")
            used = tuple(command or record.command or view.accepted or _COMMAND)
            wanted, failures = _plans(view, names, used, record.entries)
            # The record tells what to take out; the plans are for a clone, which has none.
            unwanted, _ = _plans(view, [name for name in remove if name in offered], used, record.entries)
            job = _Job(view.root, force, record.entries, frozenset(remove))
            steps = [*failures, *_steps(job, wanted, unwanted)]
            harnesses = tuple(sorted({*record.harnesses, *wanted} - {*remove}))
            if not dry_run:
                steps = _carry_out(view, steps, Record(used, harnesses, record.entries))
    except OSError as problem:
        where = problem.filename or view.folder
        raise PerpetualError(
            f"{where}: {problem.strerror or problem}", hint="the project's folder must be writable"
        ) from problem
    trust = list(dict.fromkeys(step for plan in wanted.values() for step in plan.trust))
    files = [_shown(step, dry_run) for step in steps]
    snippets = [
        {"harness": name, "path": one.path, "what": one.what, "text": one.text(view.root)}
        for name, plan in wanted.items()
        for one in (plan.snippets if isinstance(plan, PrintingScaffold) else ())
    ]
    return {
        "harnesses": list(harnesses), "command": list(used), "files": files, "trust": trust, "snippets": snippets,
    }  # fmt: skip


def _stands(view: ScaffoldView, offered: OfferedHarness) -> bool:
    """Returns whether a harness's files are in the folder."""
    try:
        return offered.build().detect(view.root)
    except Exception:  # noqa: BLE001 - a harness that cannot look was not asked for; `--harness` tells its fault
        return False


def _plans(
    view: ScaffoldView, names: Iterable[str], command: tuple[str, ...], known: Collection[str]
) -> tuple[dict[str, Scaffold], list[_Step]]:
    """Returns each harness's scaffold, and a conflict for each harness that failed to give one."""
    plans: dict[str, Scaffold] = {}
    failures: list[_Step] = []
    for name in names:
        offered = view.choose(name)
        try:
            asked = offered.build().scaffold(project=view.project, command=command)
            for plan in asked.files:
                _check(plan)
            plans[name] = replace(asked, files=tuple(_placed(view.root, plan, known) for plan in asked.files))
        except Exception as problem:  # noqa: BLE001 - a harness's fault is shown under its name and never ends the others
            plans.pop(name, None)
            failures.append(_Step(name, "conflict", f"the harness {name} failed: {problem}"))
    return plans, failures


def _check(plan: FilePlan) -> None:
    for path in (plan.path, *plan.instead):
        if plan.how not in WAYS or not is_inside(path):
            raise PluginError(f"{path!r} ({plan.how}) is no plan for a file of the project")


def _placed(root: Path, plan: FilePlan, known: Collection[str]) -> FilePlan:
    """Returns the plan with the file that it is for: the recorded one, or else the one found in the folder."""
    places = (plan.path, *plan.instead)
    recorded = [path for path in places if path in known]
    standing = [path for path in plan.instead if (root / path).exists()]
    return replace(plan, path=[*recorded, *standing, plan.path][0], instead=())


def _steps(job: _Job, wanted: Mapping[str, Scaffold], unwanted: Mapping[str, Scaffold]) -> list[_Step]:
    """Returns what is to happen, file by file."""
    new: dict[str, Asked] = {}
    for name, asked in wanted.items():
        for plan in asked.files:
            new.setdefault(plan.path, []).append((name, plan))
    old: dict[str, Asked] = {path: list(entry.plans) for path, entry in job.entries.items()}
    for name, asked in unwanted.items():
        for plan in asked.files:
            # A fresh clone has the files and no record of them.
            if plan.path not in job.entries:
                old.setdefault(plan.path, []).append((name, plan))
    steps = []
    for path in dict.fromkeys([*new, *old]):
        before = old.get(path, [])
        if path in new or any(name in job.removed for name, _ in before):
            kept = [item for item in before if item[0] not in job.removed and item[0] not in wanted]
            steps += _step(job, path, [*kept, *new.get(path, [])], before)
    return steps


def _step(job: _Job, path: str, plans: Asked, before: Asked) -> list[_Step]:
    """Returns the step for one file, in a list; an empty one where nothing is to be reported."""
    entry = job.entries.get(path)
    try:
        real = os.path.realpath(job.root / path)
        if not Path(real).is_relative_to(os.path.realpath(job.root)):
            raise ValueError("it leads outside of the project")
        if not is_inside(Path(real).relative_to(os.path.realpath(job.root)).as_posix()):
            raise ValueError("it leads into a folder that is not for files of agents")
        other = job.seen.setdefault(real, path)
        if other != path:
            return [_Step(path, "unchanged", f"it is the same file as {other}", entry=entry)]
        current = _bytes_of(Path(real))
        if current is None and (plans or not entry) and all(plan.existing_only for _, plan in plans or before):
            return []
        kinds = {kind(plan) for _, plan in (*plans, *before)}
        if len(kinds) > 1:
            raise ValueError(f"plans of different kinds meet there ({', '.join(sorted(kinds))})")
        return [(_own if "own" in kinds else _merge)(job, path, current, plans, before)]
    except (OSError, ValueError) as problem:
        return [_Step(path, "conflict", _located(path, problem), entry=entry)]


def _located(path: str, problem: OSError | ValueError) -> str:
    """Returns the problem with the file's name and, where it is known, the line."""
    if isinstance(problem, UnicodeDecodeError):
        line = problem.object.count(b"\n", 0, problem.start) + 1
        return f"{path}:{line}: it is not UTF-8"
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    where, _, rest = text.partition(": ")
    return f"{path}:{where[5:]}: {rest}" if where.startswith("line ") and rest else f"{path}: {text}"


def _bytes_of(path: Path) -> bytes | None:
    """Reads a file; None where there is none; ValueError where none can be."""
    if path.is_symlink():  # that nothing could resolve
        raise ValueError("it is a symbolic link that leads nowhere but to itself")
    if path.exists():
        if not path.is_file():
            raise ValueError("it is no regular file")
        return path.read_bytes()
    above = next(parent for parent in path.parents if parent.exists())
    if not above.is_dir():
        raise ValueError(f"{above.name} is no folder")
    return None


def _own(job: _Job, path: str, current: bytes | None, plans: Asked, before: Asked) -> _Step:
    """Plans the step for a file that belongs to a harness alone."""
    entry = job.entries.get(path)
    text = None if current is None else current.decode("utf-8", "replace")
    untouched = text is not None and managed_blocks.is_untouched(text)
    stamped = text is not None and managed_blocks.has_stamp(text)
    if not plans:
        if current is None:
            return _Step(path, "unchanged", "it is not there")
        if not untouched and not (job.force and entry is not None):
            return _Step(path, "unchanged", "edited by hand" if stamped or entry else "Perpetual did not write it")
        original = None if entry is None else entry.original
        return _Step(path, "removed", None if original is None else _BACK, current, original, True)
    wanted = managed_blocks.stamp(path, plans[-1][1].text).encode("utf-8")
    if current is None:
        return _Step(path, "created", None, None, wanted, True, _entry(job, path, None, wanted, plans))
    if text is not None and text.replace("\r\n", "\n").encode("utf-8") == wanted:
        return _Step(path, "unchanged", entry=_entry(job, path, current, current, plans))
    if untouched or job.force:
        reason = "brought up to date" if untouched else "replaced"
        return _Step(path, "merged", reason, current, wanted, True, _entry(job, path, current, wanted, plans))
    reason = "edited by hand" if stamped or entry else "Perpetual did not write it; --force replaces it"
    return _Step(path, "unchanged", reason, entry=entry)


def _merge(job: _Job, path: str, current: bytes | None, plans: Asked, before: Asked) -> _Step:
    """Plans the step for a file that is shared with people."""
    entry = job.entries.get(path)
    removing = any(name in job.removed for name, _ in before)
    theirs: list[FilePlan] = []
    if current is not None and not (job.force and (plans or entry)):
        theirs = persons(current.decode("utf-8"), alike([*plans, *before]), entry)
        plans = [item for item in plans if item[1] not in theirs]
        before = [item for item in before if item[1] not in theirs]
    left_alone = _theirs(theirs)
    new, gone = alike(plans), alike(before)
    content: bytes | None
    if theirs and not plans and not before:
        return _Step(path, "unchanged", left_alone, entry=None if removing else entry)
    if current is None:
        if not new or removing:
            return _Step(path, "unchanged", "it is not there")
        content = applied(path, None, new).encode("utf-8")
        return _Step(path, "created", None, None, content, True, _entry(job, path, None, content, plans))
    edited = entry is None or not entry.stands_as_left(current)
    if entry is not None and not edited:
        base = None if entry.original is None else entry.original.decode("utf-8")
        content = applied(path, base, new).encode("utf-8") if new else entry.original
    else:
        left = undone(path, current.decode("utf-8"), gone, new, entry)
        content = applied(path, left, new).encode("utf-8")
        if not new and entry is not None and not entry.existed and is_bare(left, gone):
            content = None
    made = _entry(job, path, current, content, plans) if new else None
    if content == current:
        shared = "another harness uses it" if removing and new else None
        return _Step(path, "unchanged", left_alone or shared, entry=made)
    if not removing:
        return _Step(path, "merged", left_alone, current, content, True, made)
    reason = "edited since: only what Perpetual put there was taken out" if edited else _BACK
    if new:
        reason = "what another harness uses stays"
    reason = left_alone or reason
    return _Step(path, "removed", None if content is None else reason, current, content, True, made)


def _theirs(plans: Sequence[FilePlan]) -> str | None:
    """Returns the reason why these places are left alone, None where there are none."""
    places = dict.fromkeys(".".join(plan.keys) for plan in plans)
    return f"{', '.join(places)} is a person's own entry; --force replaces it" if places else None


def _entry(job: _Job, path: str, current: bytes | None, content: bytes | None, plans: Asked) -> Entry:
    """Returns the record's entry for a file that now holds `content` and held `current`."""
    entry = job.entries.get(path)
    if content == current:
        # Without an entry it is a clone of a project that was set up elsewhere: what was there before is unknown.
        return replace(entry, plans=tuple(plans)) if entry else Entry(True, None, None, (), tuple(plans))
    assert content is not None
    if entry is None or current is None:
        folders = [parent.as_posix() for parent in PurePosixPath(path).parents[:-1]]
        missing = tuple(folder for folder in folders if not (job.root / folder).exists())
        return Entry(current is not None, current, digest(content), missing, tuple(plans))
    written = digest(content) if entry.stands_as_left(current) else None
    return replace(entry, written=written, plans=tuple(plans))


def _carry_out(view: ScaffoldView, steps: list[_Step], record: Record) -> list[_Step]:
    """Writes the record, then the files, then the record without what is gone; answers what really happened."""
    after = {step.path: step.entry for step in steps if step.entry is not None}
    write(view.folder, replace(record, entries={**record.entries, **after}))
    done: list[_Step] = []
    for step in steps:
        try:
            if step.is_change:
                _put(view.root, step)
            done.append(step)
        except OSError as problem:
            old = record.entries.get(step.path)
            done.append(_Step(step.path, "conflict", _located(step.path, problem), entry=old))
    entries = dict(record.entries)
    for step in done:
        entries.pop(step.path, None)
        if step.entry is not None:
            entries[step.path] = step.entry
    write(view.folder, replace(record, entries=entries))
    gone = [record.entries[step.path] for step in done if step.path in record.entries and step.path not in entries]
    for folder in sorted({folder for entry in gone for folder in entry.folders}, key=len, reverse=True):
        place = view.root / folder
        if place.is_dir() and not any(place.iterdir()):
            place.rmdir()
    return done


def _put(root: Path, step: _Step) -> None:
    """Replaces, makes or deletes one file; its rights stay."""
    real = Path(os.path.realpath(root / step.path))
    if step.content is None:
        real.unlink()
        return
    real.parent.mkdir(parents=True, exist_ok=True)
    mode = real.stat().st_mode & 0o777 if step.before is not None else None
    write_atomic(real, step.content, mode=0o644 if mode is None else mode)
    if mode is not None:
        os.chmod(real, mode)  # the umask may have narrowed it


def _shown(step: _Step, dry_run: bool) -> ScaffoldedFile:
    shown: ScaffoldedFile = {"path": step.path, "action": step.action, "reason": step.reason}
    if dry_run:
        shown["diff"] = _diff(step) if step.is_change else ""
    return shown


def _diff(step: _Step) -> str:
    from difflib import unified_diff

    one, other = (
        "" if content is None else content.decode("utf-8", "replace") for content in (step.before, step.content)
    )
    names = ("/dev/null" if step.before is None else step.path, "/dev/null" if step.content is None else step.path)
    lines = unified_diff(one.splitlines(), other.splitlines(), *names, lineterm="")
    return "\n".join(lines)
