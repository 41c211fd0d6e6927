"""Many processes at one store: deaths, locks, forks, readers; and the head token that tells of commits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual.errors import TransientError
from perpetual.registry import Registry
from perpetual_tinydb.head import head
from perpetual_tinydb.store import TinyStore, open_store
from tests.plugins.tinydb.helpers import (
    append,
    files,
    fresh,
    ns,
    python,
)

LONG_S = 100.0


LONG_S = 100.0


def test_eight_processes_lose_nothing(folder: Path, store: TinyStore) -> None:
    """Each compacts now and then under the others' hands."""
    code = """
children = []
for worker in range(8):
    if not (child := os.fork()):
        ids = []
        for n in range(50):
            with store.transaction() as tx:
                ids.append(tx.create("hypothesis", {"n": 1000 * worker + n, "status": "open"}).id)
            if n % 8 == worker:
                store.compact()
        (store.folder.parent / f"ids-{worker}").write_text(" ".join(ids))
        os._exit(0)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
    assert python(code, folder).communicate(timeout=LONG_S)[0] == "[0, 0, 0, 0, 0, 0, 0, 0]\n"
    answers = [(folder.parent / f"ids-{worker}").read_text().split() for worker in range(8)]
    ids = [id for answer in answers for id in answer]
    assert len(ids) == len(set(ids)) == 400
    assert sorted(ids) == sorted(f"h{n}" for n in range(1, 401))
    for seen in (store, fresh(folder)):
        assert sorted(ns(seen, "hypothesis")) == sorted(1000 * w + n for w in range(8) for n in range(50))
        assert (seen.count("hypothesis"), seen.seq()) == (400, 400)
        assert [item.number for item in seen.find("hypothesis", status="open")] == [*range(1, 401)]
    for number, answer in enumerate(answers):  # each process got the ids of its own documents
        mine = [store.get("hypothesis", id) for id in answer]
        assert [item.body["n"] for item in mine if item] == [1000 * number + n for n in range(50)]
    assert store.verify() == []
    assert len(files(folder)) == 4  # lock, journal, and the pair of one snapshot


def test_a_writer_that_is_killed_leaves_every_acknowledged_write(folder: Path, store: TinyStore) -> None:
    code = """
def say(words):
    # In one piece: where PYTHONUNBUFFERED is set `print` writes a line's end by itself, and a kill may come between.
    os.write(1, f"{words}\\n".encode())

for line in sys.stdin:
    if child := os.fork():
        os.waitpid(child, 0)
        say("dead")
        continue
    say(os.getpid())
    n = store.count("event")
    while True:
        with store.transaction() as tx:
            tx.append("event", {"n": n, "text": "x" * 3000})
            tx.put("setting", "last", {"n": n})
        say(n)
        n += 1
        if n % 7 == 0:
            store.compact()
"""
    acknowledged = -1
    worker = python(code, folder, stdin=subprocess.PIPE)
    assert worker.stdout is not None
    assert worker.stdin is not None
    try:
        for round in range(12):
            worker.stdin.write("go\n")
            worker.stdin.flush()
            child = int(worker.stdout.readline())
            for _ in range(1 + round):
                acknowledged = int(worker.stdout.readline())
            os.kill(child, signal.SIGKILL)  # at whatever it is doing: it goes on while we come to this line
            while (line := worker.stdout.readline().strip()) != "dead":
                acknowledged = int(line)
            for seen in (store, fresh(folder)):
                found = ns(seen)
                assert found == [*range(len(found))]
                assert len(found) - 1 in (acknowledged, acknowledged + 1)  # the last may have died after its commit
                last = seen.get("setting", "last")
                assert last is not None
                assert last.body["n"] == found[-1]
    finally:
        worker.kill()
        worker.communicate()
    assert acknowledged >= 70
    append(store, len(store.rows("event")))  # and no lock is left
    assert store.verify() == []


def test_a_lock_that_another_process_holds_is_a_transient_error(folder: Path) -> None:
    holder = python(
        "with store.transaction() as tx:\n    print('held', flush=True)\n    sys.stdin.readline()\n",
        folder,
        stdin=subprocess.PIPE,
    )
    impatient = open_store({"lock_timeout_s": 0.05}, path=folder)
    deeds: tuple[Callable[[], object], ...] = (lambda: append(impatient, 1), impatient.compact, impatient.verify)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for deed in deeds:
            with pytest.raises(TransientError) as caught:
                deed()
            assert str(folder) in caught.value.message
            assert (caught.value.exit, impatient.rows("event")) == (3, [])
    finally:
        holder.communicate("\n", timeout=60)
    for deed in deeds:
        deed()


def test_a_forked_child_and_its_parent_share_the_store(folder: Path, store: TinyStore) -> None:
    """With the object that was open before the fork, files and all."""
    code = """
for n in range(20):
    with store.transaction() as tx:
        tx.append("event", {"n": n})
store.compact()
with store.transaction() as tx:
    tx.append("event", {"n": 20})
children = []
for worker in range(3):
    child = os.fork()
    if child == 0:
        for n in range(10):
            with store.transaction() as tx:
                tx.append("event", {"n": 100 * worker + n})
            if n == 5:
                store.compact()
        os._exit(0 if store.count("event") >= 31 else 1)
    children.append(child)
for n in range(10):
    with store.transaction() as tx:
        tx.append("event", {"n": 1000 + n})
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], store.count("event"))
"""
    assert python(code, folder).communicate(timeout=60)[0] == "[0, 0, 0] 61\n"
    assert sorted(ns(store)) == sorted(
        [*range(21), *(100 * w + n for w in range(3) for n in range(10)), *range(1000, 1010)]
    )
    assert store.verify() == []


def test_readers_do_not_wait_for_a_writer(store: TinyStore) -> None:
    append(store, 1)
    inside, leave = threading.Event(), threading.Event()

    def write() -> None:
        with store.transaction() as tx:
            tx.append("event", {"n": 2})
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(60)
    read: list[int] = []
    reader = threading.Thread(target=lambda: read.extend(ns(store)))
    reader.start()
    reader.join(30)
    blocked = reader.is_alive()
    leave.set()
    thread.join(60)
    reader.join(60)
    assert not blocked
    assert read == [1]


# --- the head token -------------------------------------------------------------------------------------------------


def test_every_commit_has_a_head_of_its_own(folder: Path, store: TinyStore) -> None:
    assert head(str(folder)) == ""
    seen = []
    for n in range(200):
        with store.transaction() as tx:
            tx.put("setting", "x", {"n": n % 2})  # the same length, again and again, within one tick of the clock
        seen.append(head(str(folder)))
        assert head(str(folder)) == seen[-1]
    assert len(set(seen)) == 200
    with store.transaction() as tx:
        tx.find("setting")
    with pytest.raises(ZeroDivisionError), store.transaction() as tx:
        tx.put("setting", "x", {"n": 1 / 0})
    assert head(str(folder)) == seen[-1]
    store.compact()
    assert head(str(folder)) not in seen


def test_another_process_s_commit_changes_the_head(folder: Path, store: TinyStore) -> None:
    append(store, 1)
    code = """
from perpetual_tinydb.head import head
for line in sys.stdin:
    with store.transaction() as tx:
        tx.put("setting", "x", {"n": 1})
    print(head(str(store.folder)), flush=True)
"""
    peer = python(code, folder, stdin=subprocess.PIPE)
    try:
        assert peer.stdin is not None
        assert peer.stdout is not None
        seen = [head(str(folder))]
        for _ in range(20):
            peer.stdin.write("go\n")
            peer.stdin.flush()
            told = peer.stdout.readline().strip()
            seen.append(head(str(folder)))
            assert seen[-1] == told
            append(store, 1)
            seen.append(head(str(folder)))
        assert len(set(seen)) == 41
    finally:
        peer.kill()
        peer.communicate()


def test_the_offered_head_is_this_one_and_is_light() -> None:
    offer = Registry().choose("store", "tinydb")
    assert offer.provider.head == "perpetual_tinydb.head:head"
    code = "import sys, perpetual_tinydb.head\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30).stdout
    assert not {"tinydb", "perpetual.api", "json", "pathlib", "pluggy"} & set(out.split())
