"""What the tests of the TinyDB store share: other processes, a state to compare, and a user without special rights.

Imported by tests/plugins/tinydb, tests/faults and nobody else.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perpetual.slots.store import Document, StoreBase
from perpetual_tinydb.store import TinyStore, open_store

__all__ = [
    "OPTIONS",
    "append",
    "contents",
    "files",
    "fill",
    "folding",
    "fresh",
    "ns",
    "python",
    "state",
    "tick",
    "unprivileged",
]

OPTIONS = {"lock_timeout_s": 30.0}


def fresh(folder: Path) -> TinyStore:
    """The store as a new process would open it."""
    return open_store(OPTIONS, path=folder)


def folding(folder: Path) -> TinyStore:
    """A store that folds its journal into a snapshot after 2,000 bytes."""
    return TinyStore(folder, lock_timeout_s=30.0, least_fold_bytes=2000)


def append(store: StoreBase, n: int) -> None:
    """One commit with one row."""
    with store.transaction() as tx:
        tx.append("event", {"n": n})


def ns(store: StoreBase, kind: str = "event") -> list[Any]:
    """The values of a kind, in order."""
    return [item.body["n"] for item in store.find(kind)]


def state(store: StoreBase) -> dict[str, Any]:
    """Everything that a reader can see, to be compared with `==`."""
    held: dict[str, list[Document]] = {kind: store.find(kind) for kind in sorted(store.kinds)}
    found = {
        (kind, field, str(value)): [item.id for item in store.find(kind, **{field: value})]
        for kind, spec in store.kinds.items()
        for field in spec.indexes
        for value in {json.dumps(item.body.get(field)): item.body.get(field) for item in held[kind]}.values()
    }
    changes = [(change.seq, change.kind, change.id) for change in store.changes(0)]
    return {"held": held, "found": found, "changes": changes, "seq": store.seq()}


def fill(store: TinyStore) -> None:
    """Documents that were changed since, rows, values of every sort."""
    for n in range(1, 8):
        with store.transaction() as tx:
            tx.create(
                "hypothesis", {"n": n, "status": ["open", "parked", None, 1, {"a": n % 2}][n % 5], "text": "ü\u2028"}
            )
            tx.append("event", {"n": n, "kind": "a" if n % 2 else "b", "subject": f"h{n}"})
            tx.put("setting", f"s{n % 3}", {"n": n})
    with store.transaction() as tx:
        tx.put("hypothesis", "h2", {"n": 22, "status": "open"})


def files(folder: Path) -> list[str]:
    """The names in the store's folder."""
    return sorted(os.listdir(folder))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def tick(file: Path) -> None:
    """Returns once a change of the file would leave another time behind than its last one.

    Linux before 6.13 stamps files with the clock of its tick, 1 to 10 ms; a person's next change is later than that.
    """
    beside = file.with_name("clock")
    beside.touch()
    while beside.stat().st_ctime_ns <= file.stat().st_ctime_ns:
        time.sleep(0.001)
        beside.touch()
    beside.unlink()


def python(code: str, folder: Path, **given: Any) -> subprocess.Popen[str]:
    """A program that has the store open as `store`."""
    opening = (
        "import os, sys\nfrom pathlib import Path\nfrom perpetual_tinydb.store import open_store\n"
        f"store = open_store({OPTIONS!r}, path=Path({str(folder)!r}))\n"
    )
    return subprocess.Popen([sys.executable, "-c", opening + code], stdout=subprocess.PIPE, text=True, **given)


# capget(2) and capset(2), version 3: 64 bits in two words; effective, permitted, inheritable of each.
_VERSION_3 = 0x20080522
_OVERRIDE = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


@contextmanager
def unprivileged() -> Iterator[None]:
    """This thread is held to the files' permissions even where the tests run as root."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    if libc.capget(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capget")
    before = data[0]
    data[0] &= ~_OVERRIDE
    if libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        data[0] = before
        if libc.capset(header, data) != 0:
            raise OSError(ctypes.get_errno(), "capset")
