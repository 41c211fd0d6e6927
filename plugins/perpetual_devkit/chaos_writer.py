"""A writer that `perpetual_devkit.chaos` starts and kills, as a program: `python -m perpetual_devkit.chaos_writer`.

Also what one of its transactions holds, which `chaos_judge` compares with what is there in the end. The store is one of
its own in a scratch folder, built as the kernel builds it; no project's record is ever opened here.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import select
import struct
import sys
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, final
from zlib import crc32

from perpetual.api import RevisionConflict, TransientError
from perpetual_devkit.wire import from_wire

if TYPE_CHECKING:
    from perpetual.api import StoreBase

__all__ = [
    "COUNTER",
    "MEMBERS",
    "PHASES",
    "SLOT_BYTES",
    "SLOT_FORMAT",
    "body_of",
    "build_store",
    "status_of",
    "transact",
]

# What belongs together in each transaction: (kind, how it is written), each member once.
MEMBERS: tuple[tuple[str, str], ...] = (
    ("hypothesis", "create"),
    ("experiment", "create"),
    ("experiment", "create"),
    ("event", "append"),
    ("evidence", "append"),
    ("evidence", "append"),
    ("note", "put"),
)
COUNTER = ("setting", "counter")  # the document that every transaction counts up

# Where a writer is; the engine sees it in a file that both have mapped, and after a kill it stays as it was.
PHASES = ("starting", "idle", "waiting", "block", "commit", "compaction")
STARTING, IDLE, WAITING, BLOCK, COMMIT, COMPACTION = range(6)
SLOT_FORMAT = "<QQ"  # a phase, and how many transactions the writer has acknowledged since it was started
SLOT_BYTES = struct.calcsize(SLOT_FORMAT)

_ABANDONED, _READS_FIRST, _LONG_BLOCK = 0.05, 0.25, 0.15  # shares of the transactions
_LONGEST_BLOCK_S, _LONGEST_PAUSE_S = 0.01, 0.03
_COMPACT_EVERY = 4  # transactions of the writer that compacts
_MOST_BUSY = 3  # refusals by a busy store in a row, each after its own timeout, before that is a fault
_TEXT_BYTES = (0, 40, 400, 6000)  # the last is longer than a page of memory


class Member(TypedDict):
    """What one row of a transaction holds, its generated id aside."""

    token: str
    part: int
    status: str
    text: str


@final
class Acknowledged(TypedDict):
    """The acknowledgement of a transaction: its commit, and the ids of its members in their order."""

    token: str
    seq: int
    ids: list[str]


@final
class Refused(TypedDict):
    """A transaction whose exception came out as it should."""

    refused: str


class _Abandoned(Exception):
    """Leaves a block, which must leave no trace."""


def build_store(factory: str, options: object, path: Path) -> StoreBase:
    """Returns the store as the kernel builds it from its provider."""
    assert isinstance(options, Mapping)
    module, _, name = factory.partition(":")
    store: StoreBase = getattr(import_module(module), name)(dict(options), path=path)
    return store


def status_of(token: str) -> str:
    """Returns the indexed field of a transaction's documents."""
    return ("open", "parked", "supported")[crc32(token.encode()) % 3]


def body_of(token: str, part: int) -> Member:
    """Returns what member number `part` of the transaction `token` holds, its generated id aside."""
    seed = crc32(f"{token}/{part}".encode())
    size = _TEXT_BYTES[seed % len(_TEXT_BYTES)]
    text = f"{token} {part} é\n"
    return {"token": token, "part": part, "status": status_of(token), "text": (text * (size // len(text) + 1))[:size]}


def transact(
    store: StoreBase, slot: str, token: str, chance: random.Random, phase: Callable[[int], None] = lambda number: None
) -> Acknowledged | Refused:
    """Writes one transaction of several kinds; returns its acknowledgement: `{token, seq, ids}` or `{refused: token}`.

    Some blocks are left by an exception, some expect a revision that was read before the block: refused is one whose
    exception came out as it should, so that nothing of it may ever be seen.
    """
    known: int | None = None
    if chance.random() < _READS_FIRST:
        found = store.get(*COUNTER)
        known = found.revision if found else 0
    is_abandoned = chance.random() < _ABANDONED
    pause_s = chance.uniform(0, _LONGEST_BLOCK_S) if chance.random() < _LONG_BLOCK else 0.0
    ids: list[str] = []
    phase(WAITING)
    try:
        with store.transaction() as tx:
            phase(BLOCK)
            for part, (kind, how) in enumerate(MEMBERS):
                body = body_of(token, part)
                if how == "create":
                    ids.append(tx.create(kind, body).id)
                elif how == "append":
                    ids.append(str(tx.append(kind, body)))
                else:
                    ids.append(tx.put(kind, token, body, expect_revision=0).id)
            if pause_s:
                time.sleep(pause_s)  # a block that lasts, so that kills hit it
            for kind, id in (COUNTER, ("fold", slot)):
                last = tx.get(kind, id)
                n, total = (last.body["n"], last.body["sum"]) if last else (0, 0)
                expected = last.revision if last else 0
                if known is not None and (kind, id) == COUNTER:
                    expected = known
                folded = {"n": n + 1, "sum": (total + crc32(token.encode())) % 2**32, "token": token}
                tx.put(kind, id, folded, expect_revision=expected)
            seq = tx.seq
            if is_abandoned:
                raise _Abandoned
            phase(COMMIT)
    except (_Abandoned, RevisionConflict):
        return {"refused": token}
    return {"token": token, "seq": seq, "ids": ids}


def _acknowledge(descriptor: int, what: Acknowledged | Refused) -> None:
    """Writes a line by one call: a line that was cut short by a kill was not acknowledged."""
    os.write(descriptor, json.dumps(what).encode() + b"\n")


def _is_stopped() -> bool:
    """Returns whether standard input is closed: by the engine, or because the engine has ended."""
    return bool(select.select([0], [], [], 0)[0])


def main() -> int:
    """Reads one line of JSON from standard input and writes until that is closed, or until it is killed."""
    task = json.loads(sys.stdin.readline())
    number, name = task["slot"], task["name"]
    chance = random.Random(f"{task['seed']}/{name}")
    with open(task["phases"], "r+b") as file:
        slots = mmap.mmap(file.fileno(), 0)
    acknowledged = 0

    def phase(now: int) -> None:
        struct.pack_into(SLOT_FORMAT, slots, number * SLOT_BYTES, now, acknowledged)

    descriptor = os.open(task["acknowledgements"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    store = build_store(task["factory"], from_wire(task["options"]), Path(task["path"]))
    phase(IDLE)
    busy = turn = 0
    while not _is_stopped():
        turn += 1
        token = f"{name}.{turn}"
        try:
            done = transact(store, f"w{number}", token, chance, phase)
            busy = 0
        except TransientError:
            done = {"refused": token}
            busy += 1
            if busy == _MOST_BUSY:
                raise
        _acknowledge(descriptor, done)
        acknowledged += "token" in done
        phase(IDLE)
        if task["compacts"] and turn % _COMPACT_EVERY == 0:
            phase(COMPACTION)
            store.compact()
            phase(IDLE)
        time.sleep(chance.uniform(0, _LONGEST_PAUSE_S))  # else all writers would go in step
    store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
