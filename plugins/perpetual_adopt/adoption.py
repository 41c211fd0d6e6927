"""Adopting a source into a lab, and into the project that replaces a perpetual-agent one.

Used by `command.py` and by Python programs that do the same.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual import Lab
from perpetual.api import Conflict, ForeignProject, NoProject, UsageError
from perpetual.toolkit.atomic import dump_json
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.readers import agent_steps
from perpetual_adopt.commits import Commits
from perpetual_adopt.detect import BACKUP
from perpetual_adopt.perpetual_agent import AgentProject
from perpetual_adopt.source import AUTORESEARCH, Replicate, Skipped, Source, Wanted
from perpetual_adopt.taking import Rehearsed, Wishes, rehearse, take

if TYPE_CHECKING:
    from perpetual_adopt.documents import Adoption, AdoptionSkipped

__all__ = ["adopt", "takes_over"]

_REPLICATES = 3
_BASELINE_REPLICATES = 4  # enough for a noise floor to be measured
_FOLDER = ".perpetual"


def takes_over(source: Source, lab: Callable[[], Lab], named: str | None = None) -> bool:
    """Returns whether the source's folder becomes a project of ours: it lies where ours must, and no other is meant.

    Args:
        named: the project that was asked for by name, if one was.

    Raises:
        NoProject: if there is no project that earlier work of another kind could go into.
        ForeignProject: if another perpetual-agent project is already there, or one of a newer version.
    """
    if not isinstance(source, AgentProject) or not source.path.name.startswith((_FOLDER, BACKUP)):
        lab()
        return False
    root, here = source.path.absolute().parent, Path.cwd().absolute()
    is_moved = source.path.name != _FOLDER
    if is_moved and not (root / _FOLDER).exists() and named is None and root in (here, *here.parents):
        return True  # it was moved aside, and then something ended us
    try:
        return lab().root == root and is_moved
    except (NoProject, ForeignProject):
        if not _is_meant(root, named):
            raise
        return True


def _is_meant(root: Path, named: str | None) -> bool:
    """Returns whether a command without a project means this folder: it is the named one, or no other is near."""
    if named is not None:
        return named_path(named) in (root, root / _FOLDER)
    here = Path.cwd().absolute()
    nearest = next((folder for folder in (here, *here.parents) if (folder / _FOLDER).is_dir()), root)
    return nearest == root


def adopt(
    source: Source,
    wanted: Wanted,
    lab: Callable[[], Lab],
    *,
    dry_run: bool = False,
    limit: int | None = None,
    hypothesis_id: str | None = None,
    named: str | None = None,
    safe: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Adoption:
    """Takes a source over; the document of `perpetual adopt`.

    Args:
        lab: opens the project in force.
        named: the project that was asked for by name, if one was.
        limit, hypothesis_id, dry_run, progress: see `perpetual_adopt.taking.Wishes`.

    Raises:
        Conflict: while a run of a project that would be moved aside is alive.
        NotPermitted: under a coding agent's shell, where a project would be moved.
        CorruptData: for a source that cannot be read; nothing is taken then.
    """
    is_takeover = takes_over(source, lab, named)
    if is_takeover and hypothesis_id is not None:
        raise UsageError("a project that is taken over brings its own hypotheses", hint="leave --hypothesis out")
    source.check()
    moved: dict[str, str] | None = None
    left: list[Skipped] = []
    opened = _as_it_is(lab)
    if is_takeover:
        assert isinstance(source, AgentProject)
        root = source.path.absolute().parent
        methodology, left = source.methodology()
        name, gpu_hours, place = source.name, source.limit_gpu_hours, source.path
        if place.name == _FOLDER:
            source.check_at_rest()
            place = _free(root)
            moved = {"from": os.fspath(source.path.absolute()), "to": os.fspath(place)}
        source = AgentProject(source.path if dry_run else place, wanted, is_takeover=True)
        if dry_run and (moved is not None or not (root / _FOLDER).exists()):
            with source.opened():
                planned = rehearse(source)
            return _document(source, planned, moved, left, root, name, gpu_hours, [], dry_run=True)
        if not dry_run:
            opened = _taking_place(
                root, name, methodology, gpu_hours, set_aside=place.name if moved else None, safe=safe
            )
    with opened as place_of, source.opened():
        taken = take(place_of, source, Wishes(hypothesis_id, limit, is_takeover, dry_run, progress))
        following = [] if dry_run else _next(place_of, source, taken["experiments_total"])
        bound = place_of.budget.limit_gpu_hours()
        project = str(place_of.config["project"])
        return _document(source, taken, moved, left, place_of.root, project, bound, following, dry_run=dry_run)


def _free(root: Path) -> Path:
    """Returns an unused name for the folder that is set aside."""
    target, number = root / BACKUP, 1
    while os.path.lexists(target):
        number += 1
        target = root / f"{BACKUP}-{number}"
    return target


@contextmanager
def _taking_place(
    root: Path,
    name: str,
    methodology: dict[str, object],
    gpu_hours: float | None,
    *,
    set_aside: str | None,
    safe: bool,
) -> Iterator[Lab]:
    """Yields the project beside the one that is set aside, made if it is not there yet, with its budget."""
    with Lab.init(root, name=name, methodology=methodology, set_aside=set_aside, safe=safe) as lab:
        if gpu_hours is not None:
            with suppress(Conflict):  # it was set before, by us or by a person since
                lab.budget.begin(gpu_hours)
        yield lab


@contextmanager
def _as_it_is(lab: Callable[[], Lab]) -> Iterator[Lab]:
    """Yields the project in force; its opener closes it."""
    yield lab()


def _document(
    source: Source,
    taken: Rehearsed,
    moved: dict[str, str] | None,
    left: list[Skipped],
    root: Path,
    project: str,
    limit_gpu_hours: float | None,
    following: list[str],
    *,
    dry_run: bool,
) -> Adoption:
    more: list[AdoptionSkipped] = [{"what": item.what, "why": item.why} for item in left]
    return {
        "source": os.fspath(source.path),
        "kind": source.kind,
        "name": source.name,
        "project": project,
        "path": os.fspath(root),
        "moved": moved,
        "hypotheses": taken["hypotheses"],
        "experiments": taken["experiments"],
        "runs": taken["runs"],
        "evidence": taken["evidence"],
        "notes": taken["notes"],
        "known": taken["known"],
        "skipped": [*taken["skipped"], *more],
        "budget": {
            "gpu_hours": taken["gpu_hours"],
            "run_hours": taken["run_hours"],
            "debited_gpu_hours": taken["debited_gpu_hours"],
            "limit_gpu_hours": limit_gpu_hours,
        },
        "is_complete": taken["is_complete"],
        "dry_run": dry_run,
        "next": following,
    }


# --- what to do next ----------------------------------------------------------------------------------------


def _next(lab: Lab, source: Source, number: int) -> list[str]:
    """Commands: the best of what was adopted measured again, the baseline first; else what the status says.

    Args:
        number: of experiments that there are: the next one's id is one more.
    """
    best = [(one, id) for one in source.best() if (id := lab.imports.id_of(source.kind, one.key)) is not None]
    if not best:
        following: list[str] = lab.status()["next"]
        return following
    steps: list[str] = []
    made = [f"e{number + place}" for place in range(1, len(best) + 1)]
    baseline = made[0] if best[0][0].is_baseline else None
    with Commits(source.path if source.path.is_dir() else source.path.parent) as commits:
        for one, id in best:
            steps += _again(lab, source, one, id, None if one.is_baseline else baseline, commits)
    following = [*dict.fromkeys(steps), f"perpetual approve {' '.join(made)}"]
    return agent_steps(following) if lab.settings.withholds else following


def _again(lab: Lab, source: Source, one: Replicate, id: str, baseline: str | None, commits: Commits) -> Iterator[str]:
    """Yields the commands that propose an adopted experiment anew, with the code that it had."""
    adopted = lab.experiments.get(id)
    config = dict(adopted.config)
    commit = config.pop("commit", None) if source.kind == AUTORESEARCH else one.commit
    there = commits.find(commit) if isinstance(commit, str) else None
    words = ["perpetual", "propose"]
    if adopted.hypothesis_id is not None:
        words += ["-h", adopted.hypothesis_id]
    words += ["--title", f"{'baseline' if one.is_baseline else 'again'}: {one.title} ({id})"]
    words += ["--metric", one.metric, "--direction", one.direction]
    words += ["--replicates", str(_BASELINE_REPLICATES if one.is_baseline else _REPLICATES)]
    if baseline is not None:
        words += ["--claim", "any", "--baseline", baseline]
    if config:
        words += ["--config", dump_json(config)]
    if there is not None:
        yield _worktree(lab, source, there.id)
        words += ["--cwd", f"replicates/{there.id[:10]}"]
    yield shlex.join([*words, "--command", one.command or "python train.py"])


def _worktree(lab: Lab, source: Source, commit: str) -> str:
    """Returns the code as it was at a commit, in a folder of the project."""
    folder = source.path if source.path.is_dir() else source.path.parent
    target = f"replicates/{commit[:10]}"
    if folder.resolve() == lab.root.resolve():
        return shlex.join(["git", "worktree", "add", "--detach", target, commit])
    place = os.fspath(lab.root / target)
    return shlex.join(["git", "-C", os.fspath(folder), "worktree", "add", "--detach", place, commit])
