"""`make bench`, second part: what the stores cost, as ratios to what cannot be cheaper, side by side in one run.

The floors are an append with fdatasync of the same bytes, and a bare `sqlite3` with two indexes in the journal mode
that the store uses. A durable write is compared in wall time, which is mostly the disk's; everything else in CPU time.
Each round runs all contestants in turn; the best round counts. Nothing here is a test: a figure over its goal is said.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from perpetual.lab.store_migration import fill
from perpetual.registry import Registry
from perpetual.slots.store import StoreBase, StoreMeta

ROUNDS = 15
BODY: dict[str, Any] = {
    "status": "proposed", "title": "x" * 60, "command": "python train.py --lr 0.1",
    "config": {"lr": 0.1, "depth": 4, "text": "y" * 300}, "resources": {"gpus": 1, "cpus": 4, "wall_s": 3600},
    "design": {"metric": "loss", "direction": "min", "baseline": 1.0, "mde": 0.1, "replicates": 3}, "notes": "z" * 200,
}  # fmt: skip
STORES = ("tinydb", "sqlite")


class Row(NamedTuple):
    """One figure: `ratio` to its floor, or None where `value` stands for itself."""

    what: str
    value: str
    ratio: float | None
    goal: float | None


@cache
def factory_of(name: str) -> Callable[..., StoreBase]:
    """Returns what builds the bundled store of that name, with its default options."""
    registry = Registry()
    offer = registry.choose("store", name)
    options = {key: option.default for key, option in (offer.provider.options or {}).items()}
    return partial(registry.load(offer), options)


def opened(name: str, path: Path) -> StoreBase:
    """Returns the bundled store of that name at a path."""
    return factory_of(name)(path=path)


def body_of(number: int) -> dict[str, Any]:
    """Returns about 0.9 KB; twenty share a hypothesis."""
    return {**BODY, "id": f"e{number}", "hypothesis_id": f"h{number // 20}", "spec_hash": f"{number:064x}"}


def filled(name: str, path: Path, size: int) -> StoreBase:
    """Returns a store with so many experiments, one to a commit as they would have come."""
    store = opened(name, path)
    rows = (("experiment", {"_id": f"e{n}", "_rev": 1, "_no": n, "_seq": n, **body_of(n)}) for n in range(1, size + 1))
    fill(store, rows, StoreMeta(size, {"experiment": size}))
    return store


class Bare:
    """`sqlite3` with nothing around it: the same documents, two indexes, one commit each."""

    def __init__(self, path: Path, size: int, mode: str) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None, timeout=60.0)
        self.connection.execute(f"PRAGMA journal_mode={mode}")
        self.connection.execute("PRAGMA synchronous=FULL")
        columns = "number INTEGER PRIMARY KEY, id TEXT, owner TEXT, body TEXT"
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS document ({columns})")
        self.connection.execute("CREATE INDEX IF NOT EXISTS by_id ON document (id)")
        self.connection.execute("CREATE INDEX IF NOT EXISTS by_owner ON document (owner)")
        self.number = 0
        self.connection.execute("BEGIN")
        for _ in range(size):
            self._insert()
        self.connection.execute("COMMIT")

    def _insert(self) -> None:
        self.number += 1
        body = body_of(self.number)
        self.connection.execute(
            "INSERT INTO document (id, owner, body) VALUES (?, ?, ?)",
            (body["id"], body["hypothesis_id"], json.dumps(body)),
        )

    def write(self) -> None:
        """Inserts one row, durably."""
        self.connection.execute("BEGIN IMMEDIATE")
        self._insert()
        self.connection.execute("COMMIT")

    def get(self, id: str) -> Any:
        """Returns one document by its id."""
        return json.loads(self.connection.execute("SELECT body FROM document WHERE id = ?", (id,)).fetchone()[0])

    def find(self, owner: str) -> list[Any]:
        """Returns the documents of one owner."""
        rows = self.connection.execute("SELECT body FROM document WHERE owner = ? ORDER BY number", (owner,))
        return [json.loads(body) for (body,) in rows]


def best(
    rounds: int, clock: Callable[[], float], repeat: int, deeds: dict[str, Callable[[], object]]
) -> dict[str, float]:
    """Seconds of one call of each deed: the best of the interleaved rounds."""
    found = dict.fromkeys(deeds, float("inf"))
    for _ in range(rounds):
        for name, deed in deeds.items():
            begun = clock()
            for _ in range(repeat):
                deed()
            found[name] = min(found[name], (clock() - begun) / repeat)
    return found


def owned_by(store: StoreBase, hypothesis_id: str) -> object:
    """Returns the experiments of one hypothesis, by index."""
    return store.find("experiment", hypothesis_id=hypothesis_id)


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.0f} us"


def writes_and_reads(scratch: Path, rounds: int, sizes: list[int]) -> list[Row]:
    """Returns durable writes, gets and finds at each size."""
    rows: list[Row] = []
    flat: dict[str, dict[int, float]] = {name: {} for name in STORES}
    for size in sizes:
        names = [name for name in STORES if size <= 10_000 or name == "sqlite"]
        stores = {name: filled(name, scratch / f"{name}-{size}", size) for name in names}
        mode = str(stores["sqlite"].describe()["mode"]) if "sqlite" in stores else "truncate"
        bare = Bare(scratch / f"bare-{size}.db", size, "WAL" if "wal" in mode.lower() else "TRUNCATE")
        line = json.dumps(
            {"k": "experiment", "r": {**body_of(1), "_id": "e1", "_rev": 1, "_no": 1, "_seq": 1}}
        ).encode()
        line += b"\n" + b'{"n":12345,"rows":1,"c":"00000000"}\n'
        raw = os.open(scratch / f"raw-{size}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def append(raw: int = raw, line: bytes = line) -> None:
            os.write(raw, line)
            os.fdatasync(raw)

        counter = iter(range(size + 1, 10**9))

        def write(store: StoreBase, counter: Any = counter) -> None:
            with store.transaction() as tx:
                tx.create("experiment", body_of(next(counter)))

        deeds: dict[str, Callable[[], object]] = {"raw": append, "bare": bare.write}
        deeds |= {name: partial(write, store) for name, store in stores.items()}
        wall = best(rounds, time.perf_counter, 20, deeds)
        cpu = best(rounds, time.process_time, 20, deeds)
        for name in names:
            floor = "raw" if name == "tinydb" else "bare"
            rows.append(Row(f"{name}: durable write at {size}", _us(wall[name]), wall[name] / wall[floor], 2.0))
            flat[name][size] = cpu[name]
        ids = iter(range(1, 10**9))

        def get(read: Callable[[str], object], ids: Any = ids, size: int = size) -> None:
            read(f"e{next(ids) * 7919 % size + 1}")

        def find(read: Callable[[str], object], ids: Any = ids, size: int = size) -> None:
            read(f"h{next(ids) * 31 % max(1, size // 20 - 1) + 1 if size >= 60 else 1}")

        deeds = {"bare": partial(get, bare.get)}
        deeds |= {name: partial(get, partial(store.get, "experiment")) for name, store in stores.items()}
        reads = best(rounds, time.process_time, 200, deeds)
        deeds = {"bare": partial(find, bare.find)}
        deeds |= {name: partial(find, partial(owned_by, store)) for name, store in stores.items()}
        finds = best(rounds, time.process_time, 20, deeds)
        for name in names:
            rows.append(Row(f"{name}: get by id at {size}", _us(reads[name]), reads[name] / reads["bare"], 2.0))
            rows.append(Row(f"{name}: find 20 rows at {size}", _us(finds[name]), finds[name] / finds["bare"], 2.0))
        if size == 10_000:
            rows += _opens(rounds, scratch, names)
        for store in stores.values():
            store.close()
        bare.connection.close()
        os.close(raw)
    for name, costs in flat.items():
        if len(costs) > 1:
            small, large = min(costs), max(costs)
            what = f"{name}: CPU of a write, {large} to {small} records"
            rows.append(Row(what, _us(costs[large]), costs[large] / costs[small], 1.5))
    return rows


def _opens(rounds: int, scratch: Path, names: list[str]) -> list[Row]:
    """Returns opening and one look; SQLite's own open of the same file is the floor, which parses the same schema."""

    def bare() -> None:
        connection = sqlite3.connect(scratch / "sqlite-10000" / "store.sqlite")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.close()

    def ours(name: str) -> None:
        store = opened(name, scratch / f"{name}-10000")
        store.get("experiment", "e5")
        store.close()

    for name in names:  # what a running lab leaves: a folded journal
        with_folded = opened(name, scratch / f"{name}-10000")
        with_folded.compact()
        with_folded.close()
    deeds: dict[str, Callable[[], object]] = {"bare": bare}
    deeds |= {name: partial(ours, name) for name in names}
    found = best(rounds, time.process_time, 3, deeds)
    goals = {"sqlite": 3.0}
    return [
        Row(f"{name}: cold open at 10000", _us(found[name]), found[name] / found["bare"], goals.get(name))
        for name in names
    ]


_WRITER = """
import sys, os
sys.path.insert(0, {tools!r})
from pathlib import Path
from bench_store import Bare, body_of, opened
name, path, count = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
if name == "raw":
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
elif name in ("TRUNCATE", "WAL"):
    bare = Bare(path, 0, name)
else:
    store = opened(name, path)
print("ready", flush=True)
sys.stdin.readline()
for n in range(count):
    if name == "raw":
        os.write(file, str(body_of(n)).encode())
        os.fdatasync(file)
    elif name in ("TRUNCATE", "WAL"):
        bare.write()
    else:
        with store.transaction() as tx:
            tx.create("experiment", body_of(n))
print("done", flush=True)
"""


def crowd(scratch: Path, processes: int = 8, count: int = 500) -> list[Row]:
    """Measures processes that write at once, from their start to the last one's end.

    An append of eight processes is synced by the file system for several of them at a time, which no database with one
    writer can do: what `sqlite3` alone reaches in the store's mode is the floor of the store `sqlite`.
    """
    probe = opened("sqlite", scratch / "crowd-probe")
    bare = "WAL" if "wal" in str(probe.describe()["mode"]).lower() else "TRUNCATE"
    probe.close()
    took: dict[str, float] = {}
    rows = []
    for name in ("raw", bare, *STORES):
        path = scratch / f"crowd-{name}"
        ended = _crowded(name, path, processes, count, took)
        if name == "raw":
            continue
        kept = ""
        if name in STORES:
            store = opened(name, path)
            kept = f", {len({item.id for item in store.find('experiment')})} of {processes * count}"
            store.close()
        if name == "sqlite":
            kept += f", {took[bare] / took[name]:.2f} of sqlite3 alone"
        kept += "" if ended == ["done"] * processes else ", ERRORS"
        label = name if name in STORES else f"sqlite3 alone ({name})"
        rows.append(Row(f"{label}: {processes} processes x {count} (rate to raw, goal >= 0.4)",
                        f"{processes * count / took[name]:.0f}/s{kept}", took["raw"] / took[name], None))  # fmt: skip
    return rows


def _crowded(name: str, path: Path, processes: int, count: int, took: dict[str, float]) -> list[str]:
    """Has the processes write; notes the seconds, and answers the last line of each."""
    words = [sys.executable, "-c", _WRITER.format(tools=str(Path(__file__).parent)), name, str(path), str(count)]
    workers: list[subprocess.Popen[str]] = []
    for _ in range(processes):
        worker = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        worker.stdout.readline()  # one after the other: the first makes the file
        workers.append(worker)
    begun = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    ended = [worker.communicate()[0].strip() for worker in workers]
    took[name] = time.perf_counter() - begun
    return ended


def waiting(scratch: Path, name: str, idle_s: float) -> list[Row]:
    """Returns how soon another store object's commit is heard of, and what waiting costs while nothing happens."""
    here, there = opened(name, scratch / f"wait-{name}"), opened(name, scratch / f"wait-{name}")
    with there.transaction() as tx:
        tx.append("event", {"n": 0})
    latencies: list[float] = []
    for _ in range(200):
        heard: list[float] = []
        since = here.seq()
        ready = threading.Event()

        def listen(since: int = since, heard: list[float] = heard, ready: threading.Event = ready) -> None:
            ready.set()
            here.wait(since, 10.0)
            heard.append(time.perf_counter())

        thread = threading.Thread(target=listen)
        thread.start()
        ready.wait()
        time.sleep(0.005)
        with there.transaction() as tx:
            tx.append("event", {"n": 1})
        committed = time.perf_counter()
        thread.join()
        latencies.append(heard[0] - committed)
    latencies.sort()
    p95 = 1e3 * latencies[int(0.95 * len(latencies))]
    before = time.process_time()
    here.wait(here.seq(), idle_s)
    idle = (time.process_time() - before) * 300 / idle_s
    here.close()
    there.close()
    return [
        Row(f"{name}: wait hears a commit, p95 (goal <= 20 ms)", f"{p95:.1f} ms", None, None),
        Row(f"{name}: idle wait, CPU in 5 min (goal <= 0.2 s)", f"{idle:.2f} s", None, None),
    ]


def main() -> None:
    """Prints the table; `--json` prints one document instead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds of idle waiting that are measured")
    parser.add_argument("--large", action="store_true", help="100,000 records too")
    options = parser.parse_args()
    # on the disk of this checkout: a folder for temporary files may be memory
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent.parent, prefix=".bench-") as folder:
        scratch = Path(folder)
        sizes = [100, 1000, 10_000, *([100_000] if options.large else [])]
        rows = writes_and_reads(scratch, options.rounds, sizes) + crowd(scratch)
        for name in STORES:
            rows += waiting(scratch, name, options.idle)
    if options.json:
        print(json.dumps({"rounds": options.rounds, "rows": [row._asdict() for row in rows]}))
        return
    print(f"stores: best of {options.rounds} interleaved rounds, SQLite {sqlite3.sqlite_version}")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:6.2f}x"
        over = row.ratio is not None and row.goal is not None and row.ratio > row.goal
        verdict = "" if row.goal is None else f"goal <= {row.goal:g}: {'MISSED' if over else 'met'}"
        print(f"{row.what:60} {row.value:>24} {ratio:>8}  {verdict}")


if __name__ == "__main__":
    main()
