"""The memories' suite, second room: other processes, some of which are killed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest

from perpetual.slots.memory import Memory
from perpetual.testing.memories.contract import MemoryContract
from perpetual.testing.memories.helpers import (
    PATH,
    SEED,
    Reopen,
    answer_or_error,
    given_of,
    ids_of,
    put,
)

__all__ = ["DurableMemoryContract", "Peer"]

# Another process: reads one JSON line with the factory, its options and the path, then obeys one line at a time. In
# `dying` it kills itself before its n-th change to a file in the place, and otherwise says how many changes there were.
_PEER = """
import json, os, signal, sys
from importlib import import_module
from pathlib import Path
factory, options, path = json.loads(sys.stdin.readline())
module, _, name = factory.partition(":")
memory = getattr(import_module(module), name)(options, path=Path(path))
memory.read("notes/a.md")
print(json.dumps("ready"), flush=True)
place, changes, last = str(Path(path).parent), 0, None
NAMES = {"os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
WRITING = os.O_CREAT | os.O_WRONLY | os.O_RDWR | os.O_TRUNC

def die():
    os.kill(os.getpid(), signal.SIGKILL) if hasattr(signal, "SIGKILL") else os._exit(1)

def watch(event, given):
    global changes
    if last is None or not (event in NAMES or event == "open" and given[2] & WRITING):
        return
    if any(os.path.abspath(str(one)).startswith(place) for one in given[:2] if isinstance(one, (str, os.PathLike))):
        changes += 1
        if changes == last:
            die()

for line in sys.stdin:
    deed, given = json.loads(line)
    if deed == "dying":
        last = given.pop("last")
        sys.addaudithook(watch)
        memory.commit(**given)
        answer, last = changes, None
    elif deed == "unsynced":
        from perpetual.testing.unsynced import refuse_syncing
        why = refuse_syncing()
        try:
            answer = [why, why or memory.commit(**given)]
        except Exception as problem:
            answer = [None, None]
    elif deed == "commits":
        for one in given:
            print(json.dumps(memory.commit(**one)), flush=True)
        continue
    else:
        answer = getattr(memory, deed)(**given)
        answer = [one.commit for one in answer] if deed == "history" else answer
    print(json.dumps(answer), flush=True)
"""


class Peer:
    """The same memory in another process, which has read in it before it is asked anything."""

    def __init__(self, factory: str, options: Mapping[str, object], path: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.tell(factory, dict(options), str(path))
        self._is_ready = False

    def tell(self, *words: object) -> None:
        """Says something, and does not wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def hear(self) -> object:
        """Returns the next answer; None if it has died."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def be_ready(self) -> None:
        """Waits until it has started."""
        if not self._is_ready:
            assert self.hear() == "ready", "the memory could not be opened in another process"
            self._is_ready = True

    def ask(self, deed: str, **given: object) -> object:
        """Returns what it answers."""
        self.be_ready()
        self.tell(deed, given)
        return self.hear()

    def kill(self) -> list[object]:
        """Ends the process, whatever it is doing; what it had still said."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        # Not by communicate, which passes over the lines that the reader has buffered.
        said = [] if self._process.stdout.closed else self._process.stdout.readlines()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        return [json.loads(line) for line in said if line.endswith("\n")]


class DurableMemoryContract(MemoryContract):
    """With other processes, some of which are killed; needs `factory`."""

    @pytest.fixture
    def peers(self, place: Path) -> Iterator[Callable[[], Peer]]:
        """Opens the same memory in another process."""
        begun: list[Peer] = []

        def begin() -> Peer:
            begun.append(Peer(self.factory, self.options, place / "memory"))
            return begun[-1]

        yield begin
        for peer in begun:
            peer.kill()

    def test_processes_see_what_others_commit(self, memory: Memory, peers: Callable[[], Peer]) -> None:
        """At the next call, in both directions, and each intent is known in both."""
        peer, made = peers(), list[str]()
        for intent in range(1, 7):
            given = given_of(intent)
            ours = intent % 2 == 0
            made.append(memory.commit(**given) if ours else str(peer.ask("commit", **given)))
            assert memory.read(PATH) == peer.ask("read", path=PATH) == f"version {intent}\n"
            assert (peer.ask("commit", **given) if ours else memory.commit(**given)) == made[-1]
        assert ids_of(memory) == peer.ask("history", path=PATH, limit=99) == made[::-1]

    def test_a_process_that_is_killed_has_kept_what_it_committed(
        self, memory: Memory, reopen: Reopen, peers: Callable[[], Peer]
    ) -> None:
        """Right after the answer, and read by a later object; the next intent goes on."""
        peer = peers()
        made = [str(peer.ask("commit", **given_of(intent))) for intent in (1, 2)]
        peer.kill()
        for one in (memory, reopen()):
            assert one.read(PATH) == "version 2\n"
            assert ids_of(one) == made[::-1]
        assert [put(reopen(), intent) for intent in (1, 2)] == made
        assert ids_of(memory) == made[::-1]

    def test_what_cannot_be_synced_is_not_acknowledged(
        self, memory: Memory, reopen: Reopen, peers: Callable[[], Peer]
    ) -> None:
        """Where the disk refuses it `commit` raises, which shows that it asks the disk; then it can be repeated."""
        made = put(memory, 1)
        why, answer = cast("tuple[str | None, object]", peers().ask("unsynced", **given_of(2)))
        if why is not None:
            pytest.skip(why)
        assert answer is None, f"it answered {answer!r}, and no file had reached the disk: nothing is synced"
        assert reopen().read(PATH) in ("version 1\n", "version 2\n")
        assert reopen().read(PATH, made) == "version 1\n"
        assert ids_of(reopen()) in ([made], [put(reopen(), 2), made])
        assert reopen().read(PATH) == "version 2\n"

    def test_a_commit_is_killed_at_any_step(self, memory: Memory, reopen: Reopen, peers: Callable[[], Peer]) -> None:
        """Before any change of a file: the old state or the new one is there, and the intent is committed once."""
        made = [put(memory, 1)]
        counter = peers()
        steps = counter.ask("dying", **given_of(2), last=0)
        made.append(put(memory, 2))
        assert isinstance(steps, int)
        chosen = sorted({1, steps, *random.Random(SEED).sample(range(1, steps + 1), min(4, steps))}) if steps else []
        victims = [(last, peers()) for last in chosen]
        for intent, (last, victim) in enumerate(victims, start=3):
            victim.ask("dying", **given_of(intent), last=last)
            victim.kill()
            self._check_killed(reopen, made, intent)

    def test_a_commit_is_killed_at_any_moment(self, memory: Memory, reopen: Reopen, peers: Callable[[], Peer]) -> None:
        """While a process commits one intent after the other.

        What it had answered is there, and of the next one all or nothing.
        """
        chance, made = random.Random(SEED), [put(memory, 1)]
        for victim in [peers() for _ in range(4)]:
            victim.be_ready()
            first = len(made) + 1
            victim.tell("commits", [given_of(intent) for intent in range(first, first + 500)])
            answered = [victim.hear()]
            time.sleep(chance.uniform(0, 0.02))
            made += [str(one) for one in [*answered, *victim.kill()] if one is not None]
            assert len(made) >= first, "it died by itself"
            self._check_killed(reopen, made, len(made) + 1)

    @staticmethod
    def _check_killed(reopen: Reopen, made: list[str], intent: int) -> None:
        """Checks after a kill in `intent` that all made before is whole, and the intent can be committed, once."""
        after = reopen()
        found = [answer_or_error("after a kill", after.read, PATH, commit) for commit in made[-3:]]
        assert found == [f"version {n}\n" for n in range(1, intent)][-3:]
        ids = answer_or_error("after a kill", ids_of, after)
        assert isinstance(ids, list), ids
        assert ids[-len(made) :] == made[::-1], "what was committed before is not there as it was"
        newest = answer_or_error("after a kill", after.read, PATH)
        assert (newest, len(ids)) in [(f"version {n}\n", n) for n in (intent - 1, intent)], "neither old nor new"
        once = answer_or_error("committing what was killed", put, after, intent)
        assert isinstance(once, str), once
        assert answer_or_error("committing it again", put, reopen(), intent) == once
        assert ids in (made[::-1], [once, *made[::-1]]), "the killed intent was committed twice"
        assert ids_of(reopen()) == [once, *made[::-1]]
        assert reopen().read(PATH) == f"version {intent}\n"
        made.append(once)
