"""Checks of a store after its writers were killed; the program that `perpetual_devkit.chaos` starts at the end.

A process of its own judges, so that it sees what is in the files and nothing that a writer still had in memory.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from perpetual.api import PerpetualError
from perpetual_devkit.chaos_writer import COUNTER, MEMBERS, Acknowledged, Refused, body_of, build_store, status_of
from perpetual_devkit.wire import from_wire

if TYPE_CHECKING:
    from perpetual.api import Document, StoreBase

__all__ = ["Judgement", "Replies", "judge", "read_acknowledgements"]

_PARTS: dict[str, list[int]] = {}
for _part, (_kind, _) in enumerate(MEMBERS):
    _PARTS.setdefault(_kind, []).append(_part)
_HOW = dict(MEMBERS)
_ORDER = {kind: number for number, kind in enumerate(_PARTS)}
_LONGEST_LOCK_S = 5.0  # there is no other process: a write that takes longer waits for a dead one
_AFTER = "after the storm"


@dataclass(frozen=True, slots=True)
class Replies:
    """What the writers got as answers: by token what was acknowledged, and the tokens whose block was refused."""

    acknowledged: Mapping[str, Acknowledged]
    refused: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Judgement:
    """How much of what was acknowledged is present, how many transactions there are, and what is wrong."""

    acknowledged: int
    present: int
    transactions: int
    problems: list[str]


@dataclass(slots=True)
class _Found:
    """What the store holds: its documents by kind, and by token and part."""

    kinds: dict[str, list[Document]] = field(default_factory=dict)
    parts: dict[str, dict[int, list[Document]]] = field(default_factory=dict)

    def seqs(self) -> dict[str, set[int]]:
        """Returns the commits that each transaction's members belong to."""
        return {token: {item.seq for items in parts.values() for item in items} for token, parts in self.parts.items()}


def read_acknowledgements(files: Iterable[Path]) -> Replies:
    """Reads the writers' own files; a last line without its end was cut short, and does not count."""
    acknowledged: dict[str, Acknowledged] = {}
    refused: set[str] = set()
    for path in files:
        for line in path.read_bytes().split(b"\n")[:-1]:
            reply: Acknowledged | Refused = json.loads(line)
            if "refused" in reply:
                refused.add(reply["refused"])
            else:
                acknowledged[reply["token"]] = reply
    return Replies(acknowledged, frozenset(refused))


def judge(store: StoreBase, replies: Replies, *, write: bool = True) -> Judgement:
    """Checks everything that must hold; `write` also tries whether the store can be written to at once."""
    try:
        found = _read(store)
        problems = [
            *_numbering(store, found),
            *_transactions(found, replies),
            *_counters(store, found),
            *_commits(store, found),
            *_feed(store, found),
            *_indexes(store, found),
            *(f"verify: {problem}" for problem in store.verify()),
        ]
        if write:
            problems += _writing(store)
    except PerpetualError as problem:
        return Judgement(len(replies.acknowledged), 0, 0, [f"the store cannot be read: {problem.message}"])
    present = sum(token in found.parts for token in replies.acknowledged)
    return Judgement(len(replies.acknowledged), present, len(found.parts), problems)


def _read(store: StoreBase) -> _Found:
    found = _Found()
    for kind in _PARTS:
        found.kinds[kind] = [*store.rows(kind)] if _HOW[kind] == "append" else store.find(kind)
        for item in found.kinds[kind]:
            token, part = item.body.get("token"), item.body.get("part")
            found.parts.setdefault(str(token), {}).setdefault(part if isinstance(part, int) else -1, []).append(item)
    return found


def _numbering(store: StoreBase, found: _Found) -> Iterator[str]:
    """Ids unique and dense, ledgers dense."""
    for kind, items in found.kinds.items():
        numbers = [item.number for item in items]
        if numbers != [*range(1, len(numbers) + 1)]:
            yield f"{kind}: the numbers are not 1 to {len(numbers)} in order: {_few(_gaps(numbers))}"
        if store.count(kind) != len(items):
            yield f"{kind}: the store counts {store.count(kind)} and holds {len(items)}"
        twice = [id for id, times in Counter(item.id for item in items).items() if times > 1]
        if twice:
            yield f"{kind}: an id was given twice: {_few(twice)}"
        prefix = {"create": store.kind(kind).prefix, "append": ""}.get(_HOW[kind])
        if prefix is not None:
            for item in items:
                if item.id != f"{prefix}{item.number}":
                    yield f"{kind} {item.id} has the number {item.number}"


def _gaps(numbers: list[int]) -> list[int]:
    """Returns the numbers that are missing or too many."""
    times = Counter(numbers)
    return sorted({n for n, count in times.items() if count > 1} | (set(range(1, len(numbers) + 1)) - times.keys()))


def _transactions(found: _Found, replies: Replies) -> Iterator[str]:
    """Checks each transaction: all members once with their content, or none; the acknowledged, never the refused."""
    for token, parts in found.parts.items():
        lacking = [kind for part, (kind, _) in enumerate(MEMBERS) if part not in parts]
        if lacking:
            yield f"{token} is half there: it lacks its {_few(lacking)}"
        for part, items in sorted(parts.items()):
            if len(items) > 1:
                yield f"{token} is there twice: {_few([f'{item.kind} {item.id}' for item in items])}"
            for item in items:
                if not _is_content(item, token, part):
                    yield f"{item.kind} {item.id} does not hold what {token} wrote"
        if token in replies.refused:
            yield f"{token} was refused, and is there"
    for token, ack in replies.acknowledged.items():
        if token not in found.parts:
            yield f"{token} was acknowledged and is lost"
            continue
        for part, id in enumerate(ack["ids"]):
            for item in found.parts[token].get(part, ()):
                if (item.id, item.seq) != (id, ack["seq"]):
                    yield (f"{token} was acknowledged as {item.kind} {id} of commit {ack['seq']}, "
                           f"and is {item.id} of {item.seq}")  # fmt: skip


def _is_content(item: Document, token: str, part: int) -> bool:
    if not 0 <= part < len(MEMBERS) or MEMBERS[part][0] != item.kind or item.revision != 1:
        return False
    made = {"id": item.id} if MEMBERS[part][1] == "create" else {}
    return item.body == {**body_of(token, part), **made}


def _counters(store: StoreBase, found: _Found) -> Iterator[str]:
    """Checks that what is folded from transaction to transaction equals the fold over those that are there."""
    by_writer: dict[str, list[str]] = {}
    for token in found.parts:
        by_writer.setdefault(token.split(".")[0], []).append(token)
    for kind, id, tokens in (
        (*COUNTER, [*found.parts]),
        *(("fold", slot, tokens) for slot, tokens in sorted(by_writer.items())),
    ):
        counter = store.get(kind, id)
        shown = (counter.body["n"], counter.body["sum"], counter.revision) if counter else (0, 0, 0)
        expected = (len(tokens), sum(crc32(token.encode()) for token in tokens) % 2**32, len(tokens))
        if shown != expected:
            yield f"{kind} {id} says {shown[0]} in revision {shown[2]}, and there are {expected[0]} transactions"


def _commits(store: StoreBase, found: _Found) -> Iterator[str]:
    """Checks that each transaction is one commit, numbered 1, 2, 3, ..."""
    numbers: list[int] = []
    for token, seqs in found.seqs().items():
        if len(seqs) > 1:
            yield f"{token} belongs to the commits {_few(sorted(seqs))}"
        numbers += seqs
    if sorted(numbers) != [*range(1, store.seq() + 1)]:
        yield (f"the last commit is {store.seq()}, and {len(numbers)} are there: "
               f"{_few(_gaps(sorted(numbers)) or [*range(len(numbers) + 1, store.seq() + 1)])}")  # fmt: skip


def _feed(store: StoreBase, found: _Found) -> Iterator[str]:
    """Checks that the feed has everything once, in order; and the same from the middle."""
    items = [item for items in found.kinds.values() for item in items]
    items += [*store.find(COUNTER[0]), *store.find("fold")]
    expected = sorted((item.seq, item.kind, item.id) for item in items)
    given = [(change.seq, change.kind, change.id) for change in store.changes(0)]
    if [seq for seq, _, _ in given] != sorted(seq for seq, _, _ in given):
        yield "the feed is out of order"
    if sorted(given) != expected:
        differs = Counter(given)
        differs.subtract(expected)
        wrong = [f"{kind} {id} of {seq}" for (seq, kind, id), times in differs.items() if times]
        yield f"the feed has gaps or repeats itself: {_few(wrong)}"
    middle = store.seq() // 2
    later = [(change.seq, change.kind, change.id) for change in store.changes(middle)]
    if later != [one for one in given if one[0] > middle]:
        yield f"the feed since commit {middle} is not the end of the feed"


def _indexes(store: StoreBase, found: _Found) -> Iterator[str]:
    """Checks that a look-up by an indexed field finds what a full scan finds."""
    for kind, items in found.kinds.items():
        if "status" not in store.kind(kind).indexes:
            continue
        for status in sorted({status_of(token) for token in found.parts}):
            expected = [item.id for item in items if item.body.get("status") == status]
            if [item.id for item in store.find(kind, status=status)] != expected:
                yield f"{kind}: the index of status does not find what is {status}"


def _writing(store: StoreBase) -> Iterator[str]:
    """Checks that no lock is left: the next write goes through at once, and is there."""
    began = time.monotonic()
    before = store.seq()
    try:
        with store.transaction() as tx:
            tx.put("key", _AFTER, {"seq": before})
    except PerpetualError as problem:
        yield f"the next write was refused: {problem.message}"
        return
    took_s = time.monotonic() - began
    if took_s > _LONGEST_LOCK_S:
        yield f"a lock was left: the next write took {took_s:.1f} s"
    written = store.get("key", _AFTER)
    if written is None or written.body != {"seq": before} or store.seq() != before + 1:
        yield "the next write is not there"
    yield from (f"verify after the next write: {problem}" for problem in store.verify())


def _few(items: Iterable[object], most: int = 5) -> str:
    listed = [str(item) for item in items]
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def main() -> int:
    """Reads one line of JSON from standard input, and answers the judgement as JSON."""
    task = json.loads(sys.stdin.readline())
    acknowledged = read_acknowledgements(sorted(Path(task["acknowledgements"]).iterdir()))
    store = build_store(task["factory"], from_wire(task["options"]), Path(task["path"]))
    found = judge(store, acknowledged)
    store.close()
    document = {name: getattr(found, name) for name in ("acknowledged", "present", "transactions", "problems")}
    sys.stdout.write(json.dumps(document) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
