"""The stores' suite, third room: what outlives the object, and several processes on one record."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perpetual.slots.store import StoreBase
from perpetual.testing.stores import helpers
from perpetual.testing.stores.contract import StoreContract
from perpetual.testing.stores.helpers import PATIENCE_S, Reopen, abandoned, bodies, fill
from perpetual.toolkit.secret import carried

__all__ = ["DurableStoreContract", "SharedStoreContract"]


class DurableStoreContract(StoreContract):
    """For a store that outlives its object."""

    def test_what_was_committed_is_there_after_reopening(self, store: StoreBase, reopen: Reopen) -> None:
        """Documents with their revisions, rows, counters and commits; and it can be written on."""
        fill(store, 3)
        with store.transaction() as tx:
            tx.put("hypothesis", "h2", {"n": 9, "status": "parked", "text": "ü\u2028"})
            tx.append("event", {"n": 1})
        before = (store.find("hypothesis"), store.rows("event"), store.seq(), store.changes(0))
        store.close()
        again = reopen()
        assert (again.find("hypothesis"), again.rows("event"), again.seq(), again.changes(0)) == before
        assert bodies(again.find("hypothesis", status="parked")) == [9]
        with again.transaction() as tx:
            assert tx.create("hypothesis", {"n": 4}).id == "h4"
            assert tx.append("event", {"n": 2}) == 2
            assert tx.seq == 3

    def test_what_failed_is_not_there_after_reopening(self, store: StoreBase, reopen: Reopen) -> None:
        """A block that raised left no trace on the disk either."""
        fill(store, 1)
        with abandoned(store) as tx:
            tx.create("hypothesis", {"n": 2})
        store.close()
        again = reopen()
        assert (bodies(again.find("hypothesis")), again.seq()) == ([1], 1)

    def test_each_commit_is_on_the_disk_when_its_block_ends(self, store: StoreBase, reopen: Reopen) -> None:
        """Not only when the store is closed."""
        for n in range(1, 4):
            with store.transaction() as tx:
                tx.append("event", {"n": n})
            if store.capabilities.multiprocess:
                assert bodies(reopen().rows("event")) == [*range(1, n + 1)]
        store.close()
        assert bodies(reopen().rows("event")) == [1, 2, 3]

    def test_what_cannot_be_synced_is_not_acknowledged(self, store: StoreBase, reopen: Reopen, tmp_path: Path) -> None:
        """Where the disk refuses it a block raises at its end, which shows that it asks the disk; then all goes on."""
        if not self.factory:
            pytest.skip("it cannot be had in another process: set `factory` (and `options`) in the suite's subclass")
        fill(store, 2)
        store.close()
        asked = [self.factory, dict(self.options), str(tmp_path / "store")]
        done = subprocess.run(
            [sys.executable, "-c", _UNSYNCED], input=json.dumps(asked), capture_output=True, text=True, timeout=50,
            env=_own_path(), check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"in another process it failed: {done.stderr.strip()[-300:]}"
        why, acknowledged = json.loads(done.stdout.splitlines()[-1])
        if why is not None:
            pytest.skip(why)
        assert not acknowledged, "a block ended well, and nothing had reached the disk: nothing is synced"
        again = reopen()
        assert bodies(again.find("hypothesis")) in ([1, 2, 3], [1, 2, 3, 4])
        with again.transaction() as tx:
            tx.create("hypothesis", {"n": 5})
        assert bodies(again.find("hypothesis"))[-1] == 5
        assert again.verify() == []

    def test_opening_and_reading_change_nothing(self, store: StoreBase, reopen: Reopen, tmp_path: Path) -> None:
        """No file that is there changes or goes; a reader may have files of its own beside them."""
        fill(store, 3)
        with store.transaction() as tx:
            tx.append("event", {"n": 1})
        store.close()

        def files() -> dict[str, tuple[int, bytes]]:
            found = [path for path in tmp_path.rglob("*") if path.is_file()]
            return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}

        before = files()
        again = reopen()
        read = [again.get("hypothesis", "h1"), again.find("hypothesis", status="open"), again.rows("event"),
                again.page("hypothesis", limit=1), again.changes(0), again.seq(), again.count("event")]  # fmt: skip
        assert all(read)
        again.close()
        after = files()
        assert {path: after.get(path) for path in before} == before


# Another process: reads one JSON line with the factory, its options and the path, then obeys one line at a time.
_PEER = """
import json, sys
from importlib import import_module
from pathlib import Path
from perpetual.toolkit.secret import uncarried
factory, options, path = json.loads(sys.stdin.readline())
module, _, name = factory.partition(":")
store = getattr(import_module(module), name)(uncarried(options), path=Path(path))
print("ready", flush=True)
held = None
for line in sys.stdin:
    deed, kind, n = json.loads(line)
    if deed == "create":
        with store.transaction() as tx:
            answer = tx.create(kind, {"n": n}).id
    elif deed == "find":
        answer = [item.body["n"] for item in store.find(kind)]
    elif deed == "retired":
        answer = store.retired()
    elif deed == "begin":
        held = store.transaction()
        tx = held.__enter__()
        tx.create(kind, {"n": n})
        answer = "held"
    elif deed == "end":
        held.__exit__(None, None, None)
        answer = tx.seq
    print(json.dumps(answer), flush=True)
"""


# Another process: commits once, and once more when nothing can be synced; it ends without closing anything.
_UNSYNCED = """
import json, os, sys
from importlib import import_module
from pathlib import Path
from perpetual.testing.unsynced import refuse_syncing
factory, options, path = json.load(sys.stdin)
module, _, name = factory.partition(":")
store = getattr(import_module(module), name)(options, path=Path(path))
with store.transaction() as tx:
    tx.create("hypothesis", {"n": 3})
why, acknowledged = refuse_syncing(), False
if why is None:
    try:
        with store.transaction() as tx:
            tx.create("hypothesis", {"n": 4})
        acknowledged = True
    except Exception:
        pass
print()
print(json.dumps([why, acknowledged]), flush=True)
os._exit(0)
"""


def _own_path() -> dict[str, str]:
    """Returns this process's environment and import path, for another one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class Peer:
    """The same store in another process."""

    def __init__(self, factory: str, options: Mapping[str, object], path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._tell([factory, carried(dict(options)), str(path)])  # through a pipe: shown nowhere
        assert self._hear() == "ready"

    def _tell(self, words: list[object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, deed: str, kind: str = "hypothesis", n: int = 0) -> object:
        """Returns what it answers."""
        self._tell([deed, kind, n])
        return json.loads(self._hear())

    def end(self) -> None:
        """Ends the process, whatever it is doing."""
        self._process.kill()
        self._process.communicate()


class SharedStoreContract(DurableStoreContract):
    """For a store that several processes may write; needs `factory`."""

    @pytest.fixture
    def peer(self, store: StoreBase, tmp_path: Path) -> Iterator[Peer]:
        """Yields the same store in another process."""
        other = Peer(self.factory, self.options, tmp_path / "store")
        yield other
        other.end()

    def test_it_says_that_processes_may_share_it(self, store: StoreBase) -> None:
        """Otherwise the kernel would refuse the second one."""
        assert store.capabilities.multiprocess

    def test_another_process_s_writes_are_seen(self, store: StoreBase, peer: Peer) -> None:
        """At the next read, in both directions, with ids that never clash."""
        for n in range(1, 4):
            fill(store, 0)
            with store.transaction() as tx:
                assert tx.create("hypothesis", {"n": 10 * n}).id == f"h{2 * n - 1}"
            assert peer.ask("create", n=10 * n + 1) == f"h{2 * n}"
            expected = [value for m in range(1, n + 1) for value in (10 * m, 10 * m + 1)]
            assert bodies(store.find("hypothesis")) == expected
            assert peer.ask("find") == expected
            assert store.seq() == 2 * n
        found = store.get("hypothesis", "h6")
        assert found is not None
        assert found.body["n"] == 31

    def test_another_process_s_writes_are_seen_at_once(self, store: StoreBase, peer: Peer) -> None:
        """Also where the same thing was read a moment before: what was read is not kept for a while."""
        for n in range(1, 6):
            assert len(store.find("hypothesis")) == n - 1
            assert store.get("hypothesis", f"h{n}") is None
            seq = store.seq()
            peer.ask("create", n=n)
            assert store.get("hypothesis", f"h{n}") is not None, "what was read a moment before is answered again"
            assert bodies(store.find("hypothesis")) == [*range(1, n + 1)]
            assert (store.count("hypothesis"), store.seq()) == (n, seq + 1)

    def test_a_block_is_alone_for_as_long_as_it_takes(self, store: StoreBase, peer: Peer) -> None:
        """The lock has no term: a block that takes seconds is not joined by another process's."""
        peer.ask("begin", n=1)
        done = threading.Event()

        def write() -> None:
            with store.transaction() as tx:
                tx.create("hypothesis", {"n": 2})
            done.set()

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        assert not done.wait(helpers.LONG_MOMENT_S), "another block began while this one went on"
        peer.ask("end")
        assert done.wait(PATIENCE_S)
        assert bodies(store.find("hypothesis")) == [1, 2]

    def test_blocks_of_two_processes_do_not_overlap(self, store: StoreBase, peer: Peer) -> None:
        """While one writes, the other reads what was committed and waits with its own writes."""
        fill(store, 1)
        assert peer.ask("begin", n=2) == "held"
        assert bodies(store.find("hypothesis")) == [1]
        entered = threading.Event()

        def write() -> None:
            with store.transaction() as tx:
                entered.set()
                tx.create("hypothesis", {"n": 3})

        thread = threading.Thread(target=write)
        thread.start()
        assert not entered.wait(helpers.MOMENT_S)
        assert peer.ask("end") == 2
        thread.join(PATIENCE_S)
        assert [(item.id, item.body["n"]) for item in store.find("hypothesis")] == [("h1", 1), ("h2", 2), ("h3", 3)]

    def test_a_process_that_dies_in_a_block_leaves_no_trace(self, store: StoreBase, peer: Peer) -> None:
        """And delays no other process."""
        fill(store, 1)
        assert peer.ask("begin", n=2) == "held"
        peer.end()
        with store.transaction() as tx:
            assert tx.create("hypothesis", {"n": 3}).id == "h2"
        assert bodies(store.find("hypothesis")) == [1, 3]

    def test_a_commit_of_another_process_ends_the_waiting(self, store: StoreBase, peer: Peer) -> None:
        """`wait` hears of it."""
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(store.wait, 0, PATIENCE_S)
            peer.ask("create", n=1)
            assert waiting.result(PATIENCE_S) == 1
