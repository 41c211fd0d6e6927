"""Projects of the first format: one file `store.json`, which every commit replaced. Read here, never written.

The first commit of this version turns it into a journal and keeps the file beside it. Used by `reader` and `journal`.
"""

from __future__ import annotations

from pathlib import Path

from perpetual.api import CorruptData, Row
from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.confined import look, read_bytes
from perpetual.toolkit.foreign import parse_json

__all__ = ["FILE", "exists", "load", "retire"]

FILE = "store.json"


def exists(folder: Path) -> bool:
    """Returns whether the folder holds a store of that format."""
    return look(folder / FILE) is not None


def load(folder: Path) -> tuple[int, list[tuple[str, Row]]]:
    """Returns the number of the last commit, and every (kind, row).

    Raises:
        CorruptData: if the file is not what a store wrote.
    """
    path = folder / FILE
    try:
        tables: dict[str, dict[str, Row]] = parse_json(read_bytes(path), most=1024**3)
        commit = int(tables["_meta"]["1"]["commit"])
        rows = [(kind, row) for kind in sorted(tables) if kind != "_meta" for row in tables[kind].values()]
        for kind, row in rows:
            if tables[kind].get(str(row["_no"])) is not row or not isinstance(row["_id"], str):
                raise ValueError(f"{kind}: a row is not where its number says")
            int(row["_rev"]), int(row["_seq"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        reason = str(problem) if isinstance(problem, ValueError) else "it does not hold what a store holds"
        raise CorruptData(
            f"{path} cannot be read: {reason}", hint="the file was changed from outside; put back a copy of it"
        ) from problem
    return commit, sorted(rows, key=lambda item: (item[1]["_seq"], item[0], item[1]["_no"]))


def retire(folder: Path) -> None:
    """Puts the file aside, once a journal holds what it held."""
    (folder / FILE).rename(folder / f"{FILE}.old")
    fsync_dir(folder)
