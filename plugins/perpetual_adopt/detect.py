"""Recognising what stands at a place: which tool wrote it, and the reader that reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perpetual.api import NotFound, UsageError
from perpetual.toolkit.named_path import named_path
from perpetual_adopt.autoresearch import Autoresearch, is_table, tables_in
from perpetual_adopt.mlflow_database import DatabaseStore, is_database
from perpetual_adopt.mlflow_files import FileStore, is_store
from perpetual_adopt.perpetual_agent import DATABASE, AgentProject, is_project
from perpetual_adopt.source import AGENT, AUTORESEARCH, MLFLOW, Source, Wanted

__all__ = ["BACKUP", "find"]

BACKUP = ".perpetual-agent-backup"  # what a project that was taken over becomes
_LOOKED_FOR = (
    f".perpetual/{DATABASE} (perpetual-agent), a .tsv table with the columns commit and status (autoresearch), "
    "mlruns/ or mlflow.db (MLflow)"
)
_Found = tuple[str, Path, Callable[[], Source]]


def find(place: str, kind: str | None, wanted: Wanted) -> Source:
    """Returns the one source at a place: a folder, a file, or `sqlite:///FILE`.

    Raises:
        NotFound: if there is no such place, or nothing at it.
        UsageError: if there is more than one.
    """
    path = named_path(place.removeprefix("sqlite:///"))
    if place.startswith("sqlite:///") and kind is None:
        kind = MLFLOW
    if not path.exists():
        raise NotFound(f"there is no {place}", hint="name a folder, or one of the files of the earlier tool")
    found = [one for one in (_in_folder if path.is_dir() else _in_file)(path, wanted) if kind in (None, one[0])]
    if not found:
        what = f"nothing of {kind}" if kind else "no earlier work"
        raise NotFound(f"{path} holds {what}", hint=f"what is looked for: {_LOOKED_FOR}")
    if len(found) > 1:
        listed = "; ".join(f"{name}: {where}" for name, where, _ in found)
        kinds = sorted({name for name, _, _ in found})
        way_out = " or ".join(f"--from {name}" for name in kinds) if len(kinds) > 1 else "name one of them"
        raise UsageError(f"{path} holds more than one kind of earlier work: {listed}", hint=way_out)
    return found[0][2]()


def _in_file(path: Path, wanted: Wanted) -> list[_Found]:
    if is_table(path):
        return [(AUTORESEARCH, path, lambda: Autoresearch([path], wanted))]
    if is_database(path):
        return [(MLFLOW, path, lambda: DatabaseStore(path, wanted))]
    if path.name == DATABASE and is_project(path.parent):
        return [_agent(path.parent, wanted)]
    return []


def _in_folder(folder: Path, wanted: Wanted) -> list[_Found]:
    found: list[_Found] = []
    backups = sorted(folder.glob(f"{BACKUP}*"), key=lambda path: path.stat().st_mtime, reverse=True)
    place = next((one for one in (folder / ".perpetual", folder, *backups) if is_project(one)), None)
    if place is not None:
        found.append(_agent(place, wanted))
    tables = tables_in(folder)
    if tables:
        found.append((AUTORESEARCH, tables[0] if len(tables) == 1 else folder, lambda: Autoresearch(tables, wanted)))
    for store in (folder / "mlruns", folder):
        if is_store(store):
            found.append((MLFLOW, store, lambda store=store: FileStore(store, wanted)))  # type: ignore[misc]
            break
    if is_database(folder / "mlflow.db"):
        found.append((MLFLOW, folder / "mlflow.db", lambda: DatabaseStore(folder / "mlflow.db", wanted)))
    return found


def _agent(folder: Path, wanted: Wanted) -> _Found:
    return AGENT, folder, lambda: AgentProject(folder, wanted)
