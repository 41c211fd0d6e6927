"""Going on with an autoresearch loop: its table is adopted, and a campaign begins at its best commit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import UsageError, line
from perpetual.toolkit.import_records import ImportedExperiment, ImportedRun
from perpetual_campaign.campaigns import REPLICATES, Campaigns

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_adopt.source import Source

__all__ = ["adopt", "project_of"]

_KEPT = ("keep", "kept", "baseline", "advance", "improved")
_PROGRAM = "train.py"
_WALL_S = 600.0  # those loops end a run after ten minutes
_PROTECTED = ("prepare.py", "program.md", "pyproject.toml", "uv.lock", "*.tsv")


def adopt(
    lab: Lab, source: str, *, name: str | None = None, command: str | None = None, edit: Sequence[str] = (),
    protect: Sequence[str] = (), mde: float | None = None, metric: str | None = None, direction: str | None = None,
    replicates: int = REPLICATES, max_pairs: int | None = None, budget_run_hours: float | None = None,
    max_candidates: int | None = None, wall_s: float | None = None, gpus: int = 0, thinker: int = 0,
) -> Record:  # fmt: skip
    """Takes the table of an autoresearch loop over, and starts a campaign at the commit of its best row.

    What the loop kept was measured once, and not in pairs with what it replaced: it is shown, and counts for nothing.

    Args:
        lab: the project in the loop's folder.
        source: that folder, or its table.
        wall_s: the limit of a run; None is ten minutes, as those loops have it.

    Raises:
        NotFound: where there is no such table.
        UsageError: where the folder is not the project's, or no kept row has a commit that is there.
    """
    from perpetual_adopt.adoption import adopt as take
    from perpetual_adopt.detect import find
    from perpetual_adopt.source import AUTORESEARCH, Wanted

    wanted = Wanted((), metric, direction)
    found = find(source, AUTORESEARCH, wanted)
    folder = found.path if found.path.is_dir() else found.path.parent
    if folder.resolve() != lab.root.resolve():
        raise UsageError(f"the loop lies in {line(folder)}, and the project in {lab.root}",
                         hint="a campaign works on its project's repository: perpetual init there")  # fmt: skip
    found.check()
    best, measured, better = _best(found)
    campaigns = Campaigns(lab)
    if (commit := campaigns.git.commit_of(best)) is None:
        raise UsageError(f"the repository has no commit {line(best)}", hint="fetch it, or start with campaign new")
    take(found, wanted, lambda: lab)
    return campaigns.new(
        name or _slug(lab.root.name), command=command or _command(folder), metric=measured, direction=better,
        edit=edit or (_PROGRAM,), protect=[*protect, *_PROTECTED], mde=mde, replicates=replicates, max_pairs=max_pairs,
        budget_run_hours=budget_run_hours, max_candidates=max_candidates, gpus=gpus, base=commit,
        wall_s=_WALL_S if wall_s is None else wall_s,
        thinker=thinker,
    )  # fmt: skip


def project_of(source: str) -> None:
    """Makes a project of the folder in which an autoresearch loop lies; raises NotFound where there is none."""
    from perpetual import Lab
    from perpetual_adopt.detect import find
    from perpetual_adopt.source import AUTORESEARCH, Wanted

    found = find(source, AUTORESEARCH, Wanted())
    folder = (found.path if found.path.is_dir() else found.path.parent).resolve()
    Lab.init(folder, name=folder.name).close()


def _best(source: Source) -> tuple[str, str, str]:
    """Returns the commit of the best kept row, the metric and its direction."""
    kept: dict[str, tuple[str, str, str]] = {}
    found: list[tuple[float, str, str, str]] = []
    for item in source.items():
        if isinstance(item, ImportedExperiment):
            commit = str((item.config or {}).get("commit") or "")
            if commit and any(tag in _KEPT for tag in item.tags) and item.metric and item.direction:
                kept[item.key] = (commit, item.metric, item.direction)
        elif isinstance(item, ImportedRun) and item.experiment in kept:
            commit, metric, direction = kept[item.experiment]
            value = item.metrics.get(metric)
            if value is not None and item.commit is not None:
                found.append((value if direction == "min" else -value, item.commit, metric, direction))
    if not found:
        raise UsageError(f"{source.name} has no kept row whose commit is in the repository",
                         hint="perpetual campaign new starts at the commit that is checked out")  # fmt: skip
    return min(found)[1:]


def _command(folder: Path) -> str:
    return f"uv run {_PROGRAM}" if (folder / "pyproject.toml").exists() else f"python {_PROGRAM}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-") or "autoresearch"
