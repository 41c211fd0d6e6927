"""Moving house: a whole store rebuilt beside the one in force, then put in its place in one step that no crash splits.

    .perpetual/store/          in force
    .perpetual/store.new/      being built; before `moving.json` is there it is worth nothing
    .perpetual/moving.json     the commit point: from here on the new one is in force, and the next process finishes
    .perpetual/backups/        what was in force before, whole
    .perpetual/moving.lock     held while a store is built or moved here, and by `create`, so that one project is made

Below every noun. `Context` finishes what a crash left and refuses to write to a store that was moved away under
it; `storage` and the schema upgrades move.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.errors import Conflict, CorruptData, PerpetualError
from perpetual.toolkit import confined
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.lock import FileLock

if TYPE_CHECKING:
    from datetime import datetime

    from perpetual.documents.store import StoreMoved
    from perpetual.slots.store import Row, StoreBase, StoreMeta

__all__ = ["LOCK", "MOVING", "STORE", "alone", "check_kinds", "fill", "finish", "is_pending", "move", "rows_of", "wait"]

STORE, LOCK = "store", "moving.lock"
MOVING = "store_moving"  # the code of the error while another process moves the store
_NEW, _PLAN, _BACKUPS = "store.new", "moving.json", "backups"
_BATCH = 500  # rows of one write into the new store


def is_pending(folder: Path) -> bool:
    """Returns whether a move is decided and not finished in the project directory `folder`."""
    return os.path.lexists(os.path.join(folder, _PLAN))


def finish(folder: Path) -> None:
    """Ends a move that this user decided; nothing where there is none. Safe to be cut off at any instant and repeated.

    Raises:
        CorruptData: if the plan cannot be read, or this user did not decide it (`move_records`): nothing is moved.
        PerpetualError: if a folder cannot be renamed.
    """
    if not is_pending(folder):
        return
    try:
        with alone(folder):
            _finish(folder)
    except confined.UnsafePath as problem:
        raise CorruptData(f"no store is moved: {problem}", hint=problem.hint, code=problem.code) from problem
    except OSError as problem:
        raise PerpetualError(
            f"the store of {folder} is half moved, and goes no further: {problem}",
            hint="mend the folder's rights or free some space, then run any command again",
        ) from problem


def _finish(folder: Path) -> None:
    import shutil

    from perpetual.lab import move_records
    from perpetual.toolkit import yamlfile
    from perpetual.toolkit.atomic import fsync_dir, read_json

    try:
        plan = read_json(folder / _PLAN)
        if plan is None:
            return  # another process was faster
    except ValueError as problem:
        raise _refused(folder, str(problem)) from problem
    why = move_records.wrong(plan)
    if why is not None:
        raise _refused(folder, why)
    if not move_records.is_ours(folder, plan):
        raise _refused(folder, "no move of that plan was begun here by you")
    backup, settings = folder / plan["backup"], plan["config"]
    old, new = folder / STORE, folder / _NEW
    for place in (old, new, backup):
        confined.check_folder(place)
    if new.exists():
        if old.exists() and not backup.exists():
            confined.make_folder(backup.parent)
            os.rename(old, backup)
            fsync_dir(backup.parent)
        step("move:aside")
        while True:
            try:
                os.rename(new, old)
                break
            except OSError as problem:
                if problem.errno not in (errno.ENOTEMPTY, errno.EEXIST) or _is_used(old):
                    raise
                shutil.rmtree(old)  # a writer of the old store has come by meanwhile, and was refused
        fsync_dir(folder)
    step("move:renamed")
    path = folder / "config.yaml"
    present = yamlfile.read_yaml(path) or {}
    for key, value in settings.items():
        if present.get(key) != value:
            yamlfile.set_value(path, (key,), value)
    step("move:configured")
    (folder / _PLAN).unlink()
    fsync_dir(folder)
    move_records.end(plan)


def _refused(folder: Path, why: str) -> CorruptData:
    return CorruptData(
        f"{folder / _PLAN} is not carried out: {why}",
        hint=f"remove it and {_NEW} to keep the store as it is; "
        f"a move of your own from an earlier version: put {_NEW} in the place of {STORE} by hand first",
        code="foreign_move",
    )


def _is_used(store: Path) -> bool:
    return any(path.name != "lock" for path in store.iterdir())


def wait(folder: Path) -> None:
    """Blocks until no process moves the store."""
    with alone(folder):
        return


def alone(folder: Path) -> FileLock:
    """Returns the exclusive lock on the project directory, held while a project is created or its store migrated."""
    return FileLock(folder / LOCK)


def rows_of(store: StoreBase) -> Iterator[tuple[str, Row]]:
    """Yields every (kind, row) of a store, by kind and number; hold its lock meanwhile. Raises as `check_kinds`."""
    check_kinds(store)
    for kind in sorted(store.kinds):
        for row in store.slice(kind, {}):
            yield kind, row


def check_kinds(store: StoreBase) -> None:
    """Raises Conflict if the store holds an undeclared kind, whose rows would be left behind."""
    strange = sorted(set(store.meta().counters) - set(store.kinds))
    if strange:
        raise Conflict(
            f"the record holds {strange[0]!r}, a kind that no loaded plugin declares; its rows would be left behind",
            hint="install or enable the plugin that wrote them: perpetual plugins list",
        )


def fill(target: StoreBase, rows: Iterable[tuple[str, Row]], meta: StoreMeta) -> int:
    """Writes the rows as they are, revisions, numbers and commits included; answers how many.

    Args:
        meta: of the store that they come from.
    """
    batch: list[tuple[str, str, Row]] = []
    count = 0

    def flush() -> None:
        if batch:
            with target.exclusive():
                target.write([meta.entry, *batch])
            target.settle()
            batch.clear()

    for kind, row in rows:
        batch.append((kind, row["_id"], row))
        count += 1
        if len(batch) == _BATCH:
            flush()
    flush()
    return count


def move(
    folder: Path,
    source: StoreBase,
    build: Callable[[Path], StoreBase],
    load: Callable[[StoreBase], int],
    *,
    now: datetime,
    config: Mapping[str, object],
) -> StoreMoved:
    """Builds a store anew and puts it in the place of `source`, which stands still meanwhile.

    Args:
        folder: the project directory.
        build: opens the new store at a path.
        load: fills it and answers the number of rows.
        config: keys of config.yaml that change together with the store.

    Returns:
        `{rows, commit, backup}`; the backup's path is relative to `folder`.

    Raises:
        Conflict: while another move is going on.
        TransientError: (store_moved) if another one has just ended, so that `source` is not in force.
        CorruptData: if the new store does not hold what was put into it; the old one stays in force.
    """
    import shutil

    from perpetual.lab import move_records
    from perpetual.toolkit.atomic import dump_json, write_atomic

    lock = alone(folder)
    if not lock.acquire(blocking=False):
        raise Conflict("the store is being moved by another process", hint="wait until it is done", code=MOVING)
    try:
        if source.fence is not None:
            source.fence()  # another process may have moved it just before us
        new = folder / _NEW
        if confined.check_folder(new):
            shutil.rmtree(new)  # of a move that was cut off before it was decided
        try:
            with source.exclusive():
                made = _built(new, build, load)
                backup = _free_name(folder, now)
                made["backup"] = f"{_BACKUPS}/{backup}"
                step("move:built")
                plan = move_records.begin(folder, {"format": 1, "backup": made["backup"], "config": dict(config)})
                source.retire(made["backup"])  # a writer on another machine sees no folder renamed
                step("move:retired")
                write_atomic(folder / _PLAN, dump_json(plan))
                step("move:decided")
                _finish(folder)
                return made
        except BaseException:  # Ctrl-C as well: before the commit point a half-built store is garbage
            if new.exists() and not is_pending(folder):
                shutil.rmtree(new)
                if source.retired() is not None:
                    with source.exclusive():
                        source.retire(None)
            raise
    finally:
        lock.release()


def _built(new: Path, build: Callable[[Path], StoreBase], load: Callable[[StoreBase], int]) -> StoreMoved:
    from perpetual.toolkit.atomic import fsync_dir

    target = build(new)
    try:
        rows = load(target)
        target.compact()
        problems = target.verify()
        held = sum(target.count(kind) for kind in target.kinds)
        if held != rows:
            problems.append(f"{rows} rows were written and {held} are there")
        if problems:
            raise CorruptData(f"the new store is not what was written: {problems[0]}", hint="the old one is in force")
        made: StoreMoved = {"rows": rows, "commit": target.seq(), "backup": None}
    finally:
        target.close()
    if not new.exists():
        new.mkdir(mode=0o700)  # of an empty store, which has no file yet
    fsync_dir(new)
    return made


def _free_name(folder: Path, now: datetime) -> str:
    stem = name = f"store-{now:%Y%m%dT%H%M%SZ}"
    number = 1
    while os.path.lexists(folder / _BACKUPS / name):
        number += 1
        name = f"{stem}-{number}"
    return name
