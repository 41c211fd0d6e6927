"""Creating a project: the folder, its configuration and methodology. Files that exist are left as they are."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from perpetual.config import FILE, FOLDER, Config, foreign, user_marks
from perpetual.errors import Conflict, ForeignProject, PerpetualError, UsageError
from perpetual.lab import store_migration
from perpetual.lab.methodology import FILE as METHODOLOGY_FILE
from perpetual.lab.methodology import KEYS, Methodology
from perpetual.lab.permissions import require_person
from perpetual.registry import Registry
from perpetual.toolkit import confined, trust_record, user_state
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.config_keys import check, check_names
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.status_file import RULES, RULES_FILE
from perpetual.toolkit.units import iso

__all__ = ["check_place", "create"]

# What a project may commit to its own repository: how it is made and how it works, and nothing heavy or private.
# What a creation that was cut off may have left; anything else in the folder was made by another program.
_OURS = {".gitignore", METHODOLOGY_FILE, store_migration.LOCK}
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
        ForeignProject: if another tool's `.perpetual/` is there.
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
            hint="take it over: perpetual adopt; or choose another folder",
        )


def _unusable(root: Path, problem: OSError) -> PerpetualError:
    return PerpetualError(
        f"no project can be created in {root}: {problem.filename or root}: {problem.strerror or problem}",
        hint=problem.hint if isinstance(problem, confined.UnsafePath) else "choose a folder that you may write",
    )


def _set_aside(root: Path, name: str) -> None:
    """Moves another tool's `.perpetual/` out of the way, whole and in one step."""
    # the files there are another tool's, so nothing of it lets an agent do this
    require_person("setting another tool's project aside", os.environ, None, marks=user_marks())
    folder, target = root / FOLDER, root / name
    if folder.is_symlink() or target.exists() or target.is_symlink():
        what = f"{folder} is a link" if folder.is_symlink() else f"{target} is there already"
        raise Conflict(f"{what}; nothing was moved", hint="move it by hand, then: perpetual adopt")
    try:
        os.rename(folder, target)
    except OSError as problem:
        raise PerpetualError(
            f"{folder} cannot be moved to {name}: {problem.strerror or problem}", hint="nothing was changed"
        ) from problem
    step("adopt:aside")


def create(
    root: Path,
    *,
    name: str | None,
    store: str | None,
    project_id: str | None,
    methodology: Mapping[str, object] | None,
    set_aside: str | None = None,
) -> bool:
    """Writes what is missing of a project in the folder `root`; answers whether it is a new one.

    Args:
        set_aside: the name, beside it, that another tool's `.perpetual/` gets if there is one: it is moved as it
            is. For a person (a guard rail, see `perpetual.lab.permissions`).

    Raises:
        NotPermitted: under a coding agent's shell, where something would be moved.
        UsageError: if `root` is no folder, or a value does not fit.
        ForeignProject: if another tool's `.perpetual/` is there.
        PluginError: if the named store is not installed.
        PerpetualError: if the folder cannot be written.
    """
    if set_aside is None or not foreign(root):
        check_place(root)
    folder = root / FOLDER
    if name is not None and not (name.strip() and name.isprintable()):
        raise UsageError(f"the project's name must be one line of text, not {name!r}")
    if store is not None:
        Registry().choose("store", store)
    chosen = dict(methodology or {})
    check_names(chosen, KEYS, "methodology")
    chosen = {key: check(KEYS[key], value, "methodology") for key, value in chosen.items()}
    if set_aside is not None and foreign(root):
        _set_aside(root, set_aside)
    if (folder / FILE).exists():
        return False
    user_state.folder()  # says that it cannot be written before anything is created
    try:
        return _write(root, name=name, store=store, project_id=project_id, methodology=chosen)
    except OSError as problem:
        raise _unusable(root, problem) from problem


def _write(
    root: Path, *, name: str | None, store: str | None, project_id: str | None, methodology: Mapping[str, object]
) -> bool:
    folder = root / FOLDER
    root.mkdir(parents=True, exist_ok=True)
    confined.check_folder(folder)
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chmod(folder, 0o700)
    with store_migration.alone(folder):
        if os.path.lexists(folder / FILE):
            return False  # another process has been quicker, and what it has drawn stays
        is_empty = {path.name for path in folder.iterdir()} <= _OURS
        drawn = project_id or secrets.token_hex(8)
        if is_empty:
            # Before config.yaml, which makes the folder a project: a crash in between leaves a record of nothing.
            _own(root, drawn, methodology)
        write_atomic(folder / ".gitignore", _IGNORE, mode=0o644)
        if not os.path.lexists(folder / METHODOLOGY_FILE):
            Methodology.write_default(folder / METHODOLOGY_FILE, methodology)
        write_atomic(folder / RULES_FILE, json.dumps({"rules": RULES}))
        # config.yaml comes last: it is what makes the folder a project
        Config.write_new(
            root,
            project=name or root.name,
            project_id=drawn,
            store=store or os.environ.get("PERPETUAL_STORE") or "tinydb",
        )
    return True


def _own(root: Path, project_id: str, methodology: Mapping[str, object]) -> None:
    """Records that this user has created the project here, with these values of the keys that protect."""
    values = {
        f"methodology.{key}": methodology.get(key, KEYS[key].default) for key in KEYS if KEYS[key].weaker is not None
    }
    trust_record.write(trust_record.new(root, project_id, "own", values, at=iso(datetime.now(UTC))))
