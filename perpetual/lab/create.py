"""Creating a project: the folder, its configuration and methodology. What stands there already is left as it is."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perpetual.config import FILE, FOLDER, Config, foreign
from perpetual.errors import ForeignProject, PerpetualError, UsageError
from perpetual.methodology import FILE as METHODOLOGY_FILE
from perpetual.methodology import KEYS, Methodology
from perpetual.registry import Registry
from perpetual.schema import check, check_names
from perpetual.toolkit.atomic import write_atomic

__all__ = ["check_place", "create"]

# What a project may commit to its own repository: how it is made and how it works, and nothing heavy or private.
_IGNORE = """\
# Everything here but the configuration stays out of the project's own repository.
*
!.gitignore
!config.yaml
!methodology.yaml
"""


def check_place(root: Path) -> None:
    """Refuses a folder in which no project can be.

    Raises:
        UsageError: if it, or a folder above it, is a file.
        ForeignProject: if another tool's `.perpetual/` stands there.
        PerpetualError: if it cannot be looked at.
    """
    folder = root / FOLDER
    try:
        nearest = next(place for place in (root, *root.parents) if place.exists())
        is_foreign = folder.is_dir() and foreign(root)
    except OSError as problem:
        raise _unusable(root, problem) from problem
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file, not a folder")
    if is_foreign:
        raise ForeignProject(
            f"{folder} belongs to another tool (it holds graph.db); nothing was changed",
            hint="choose another folder, or move that one away",
        )


def _unusable(root: Path, problem: OSError) -> PerpetualError:
    return PerpetualError(
        f"no project can be created in {root}: {problem.filename or root}: {problem.strerror or problem}",
        hint="choose a folder that you may write",
    )


def create(
    root: Path,
    *,
    name: str | None,
    store: str | None,
    project_id: str | None,
    methodology: Mapping[str, Any] | None,
) -> bool:
    """Writes what is missing of a project in the folder `root`; answers whether it is a new one.

    Raises:
        UsageError: if `root` is no folder, or a value does not fit.
        ForeignProject: if another tool's `.perpetual/` stands there.
        PluginError: if the named store is not installed.
        PerpetualError: if the folder cannot be written.
    """
    check_place(root)
    folder = root / FOLDER
    if name is not None and not (name.strip() and name.isprintable()):
        raise UsageError(f"the project's name must be one line of text, not {name!r}")
    if store is not None:
        Registry().choose("store", store)
    chosen = dict(methodology or {})
    check_names(chosen, KEYS, "methodology")
    chosen = {key: check(KEYS[key], value, "methodology") for key, value in chosen.items()}
    is_new = not (folder / FILE).exists()
    if is_new:
        try:
            _write(root, name=name, store=store, project_id=project_id, methodology=chosen)
        except OSError as problem:
            raise _unusable(root, problem) from problem
    return is_new


def _write(
    root: Path, *, name: str | None, store: str | None, project_id: str | None, methodology: Mapping[str, Any]
) -> None:
    folder = root / FOLDER
    root.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    write_atomic(folder / ".gitignore", _IGNORE, mode=0o644)
    if not (folder / METHODOLOGY_FILE).exists():
        Methodology.write_default(folder / METHODOLOGY_FILE, methodology)
    # config.yaml comes last: it is what makes the folder a project
    Config.write_new(
        root,
        project=name or root.name,
        project_id=project_id or secrets.token_hex(8),
        store=store or "tinydb",
    )
