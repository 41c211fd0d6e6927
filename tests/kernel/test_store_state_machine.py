"""Every store against a plain model, in random order: whatever is done to it, it answers as two dictionaries would.

The stores are those that the registry offers, and the in-memory twin. Where several processes may write, some of the
blocks are another process's, which lives as long as the test and opens each example's store anew.

Run as a program this file is that other process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from perpetual.errors import RevisionConflict
from perpetual.registry import Registry
from perpetual.slots.store import Document, StoreBase, StoreKind, Transaction
from perpetual.testing.memory_store import InMemoryStore

Op = list[Any]  # a deed inside a block: its name and what it takes, as JSON

# One of each sort: generated ids, named ones, a ledger, and a plugin's two.
SAMPLE = StoreKind("acme_sample", prefix="s", indexes=("status", "subject"))
LOG = StoreKind("acme_log", ledger=True, indexes=("status", "subject"))
FIELDS = {"hypothesis": ("status",), "setting": (), "event": ("kind", "subject"), "acme_sample": SAMPLE.indexes,
          "acme_log": LOG.indexes}  # fmt: skip
LEDGERS = ("event", "acme_log")
DOCUMENTS = ("hypothesis", "setting", "acme_sample")
PREFIXES = {"hypothesis": "h", "setting": "", "acme_sample": "s"}


class _Leaves(Exception):
    """Ends a block that is to leave no trace."""


# --- what is done, to a store and to the model alike ----------------------------------------------------------------


def told(document: Document) -> list[Any]:
    """A document as JSON."""
    return [document.id, document.revision, document.number, document.seq, document.body]


def look(inside: Transaction, kind: str) -> list[Any]:
    """What a block sees of a kind: all, by each way of asking."""
    found = inside.find(kind)
    rows = inside.rows(kind) if kind in LEDGERS else []
    return [[told(item) for item in found], [told(item) for item in rows], inside.count(kind), inside.seq]


def perform(store: StoreBase, ops: list[Op], ends: str) -> list[Any]:
    """A block of deeds; the answers of each. It `ends` by committing, or by raising."""
    answers: list[Any] = []
    try:
        with store.transaction() as tx:
            answers += [_do(store, tx, op) for op in ops]
            if ends == "raise":
                raise _Leaves
    except _Leaves:
        pass
    return answers


def _do(store: StoreBase, tx: Transaction, op: Op) -> Any:
    name, *given = op
    if name == "look":
        return look(tx, given[0])
    if name == "append":
        return tx.append(*given)
    if name == "nested":
        return perform(store, *given)
    try:
        if name == "create":
            return told(tx.create(*given))
        kind, id, body, expected = given
        return told(tx.put(kind, id, body, expect_revision=expected))
    except RevisionConflict as problem:
        return problem.code


@dataclass
class Model:
    """The same in dictionaries: kind -> id -> [id, revision, number, seq, body]."""

    rows: dict[str, dict[str, list[Any]]] = field(default_factory=lambda: {kind: {} for kind in FIELDS})
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FIELDS, 0))
    commit: int = 0

    def perform(self, ops: list[Op], ends: str) -> list[Any]:
        """A block."""
        draft = deepcopy(self)
        draft.commit += 1
        answers = draft.block(ops, ends)
        if ends == "commit" and draft.rows != self.rows:
            self.rows, self.counters, self.commit = draft.rows, draft.counters, draft.commit
        return answers

    def block(self, ops: list[Op], ends: str) -> list[Any]:
        before = deepcopy((self.rows, self.counters))
        answers = [self._do(op) for op in ops]
        if ends == "raise":
            self.rows, self.counters = before
        return answers

    def _do(self, op: Op) -> Any:
        name, *given = op
        if name == "nested":
            return self.block(*given)
        kind = given[0]
        if name == "look":
            seen = self.all(kind)
            return [seen, seen if kind in LEDGERS else [], self.counters[kind], self.commit]
        if name == "append":
            return self._put(kind, str(self.counters[kind] + 1), given[1])[2]
        if name == "create":
            id = f"{PREFIXES[kind]}{self.counters[kind] + 1}"
            return self._put(kind, id, {**given[1], "id": id}, 0)
        return self._put(*given)

    def _put(self, kind: str, id: str, body: dict[str, Any], expected: int | None = None) -> Any:
        present = self.rows[kind].get(id)
        revision = present[1] if present else 0
        if expected not in (None, revision):
            return RevisionConflict.code
        if present is None:
            self.counters[kind] += 1
        number = present[2] if present else self.counters[kind]
        self.rows[kind][id] = [id, revision + 1, number, self.commit, dict(body)]
        return deepcopy(self.rows[kind][id])

    def all(self, kind: str, /, **equals: Any) -> list[list[Any]]:
        """What `find` has to answer."""
        rows = sorted(self.rows[kind].values(), key=lambda row: row[2])
        return deepcopy([row for row in rows if all(row[4].get(name) == value for name, value in equals.items())])

    def changes(self, since: int) -> list[tuple[int, str, str]]:
        """What the feed has to answer."""
        found = [(row[3], kind, row[0]) for kind, rows in self.rows.items() for row in rows.values() if row[3] > since]
        return sorted(found)


# --- another process ------------------------------------------------------------------------------------------------


def build(factory: str, options: dict[str, Any], path: Path) -> StoreBase:
    """A store as the kernel builds it, with the plugin's kinds."""
    module, _, name = factory.partition(":")
    store: StoreBase = getattr(import_module(module), name)(options, path=path)
    store.declare(SAMPLE)
    store.declare(LOG)
    return store


def serve() -> None:
    """Obeys one JSON line at a time: opens a store, or performs a block, or looks."""
    store: StoreBase | None = None
    for line in sys.stdin:
        deed, *given = json.loads(line)
        answer: Any = None
        if deed == "open":
            if store is not None:
                store.close()
            store = build(given[0], given[1], Path(given[2]))
        elif store is not None and deed == "perform":
            answer = perform(store, *given)
        elif store is not None and deed == "compact":
            store.compact()
        elif store is not None and deed == "find":
            answer = [told(item) for item in store.find(given[0])]
        print(json.dumps(answer), flush=True)


class Peer:
    """That process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words: Any) -> Any:
        """What it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.communicate()


# --- the machine ----------------------------------------------------------------------------------------------------

# What may be done is written out, so that an example costs few draws: hypothesis chooses, it does not make things up.
_VALUES: list[Any] = ["open", "", None, 1, True, "1", [1], {"a": 1, "b": None}]
_BODIES: list[dict[str, Any]] = [
    {"n": 0},
    {"n": 2**63, "text": "ü\u2028\x00"},
    {"n": -0.5, "deep": {"": [{"n": 1, "rows": 1}, '{"n":1']}},
    *({"n": n, "status": value, "kind": value} for n, value in enumerate(_VALUES)),
    *({"n": n, "subject": value, "status": "open"} for n, value in enumerate(_VALUES[:4])),
]
_IDS = {"hypothesis": ["h1", "h2", "h3"], "setting": ["a/: ü\u2028"], "acme_sample": ["s1", "s2"]}
_PUTS = [
    ["put", kind, id, body, expected]
    for kind in DOCUMENTS
    for id in _IDS[kind]
    for body in _BODIES
    for expected in (None, None, None, 0, 1, 2)
]
_CREATES = [["create", kind, body] for kind in ("hypothesis", "acme_sample") for body in _BODIES]
_APPENDS = [["append", kind, body] for kind in LEDGERS for body in _BODIES]
_LOOKS = [["look", kind] for kind in FIELDS]
_EQUALS = {
    kind: [{}, *({name: value} for name in names for value in _VALUES), dict.fromkeys(names, "open")]
    for kind, names in FIELDS.items()
}


def _one_of(deeds: list[Op]) -> st.SearchStrategy[Op]:
    return st.integers(0, len(deeds) - 1).map(lambda index: deeds[index])  # `sampled_from` would print them all


_flat = st.one_of(_one_of(_PUTS), _one_of(_PUTS), _one_of(_CREATES), _one_of(_APPENDS), _one_of(_LOOKS))
_ends = st.sampled_from(["commit", "commit", "commit", "raise"])
_nested = st.builds(lambda ops, ends: ["nested", ops, ends], st.lists(_flat, max_size=3), _ends)
_ops = st.lists(st.one_of(_flat, _flat, _flat, _nested), min_size=2, max_size=10)


class StoreMachine(RuleBasedStateMachine):
    """One example: a fresh store and a fresh model."""

    factory = ""
    options: dict[str, Any] = {}  # noqa: RUF012 - given by the test, as the class is made
    peer: Peer | None = None
    is_durable = True

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory(prefix="store-machine-")
        self.path = Path(self.place.name) / "store"
        self.store = build(self.factory, self.options, self.path)
        self.model = Model()
        if self.peer is not None:
            self.peer.ask("open", self.factory, self.options, str(self.path))

    @rule(ops=_ops, ends=_ends)
    def writes(self, ops: list[Op], ends: str) -> None:
        assert perform(self.store, ops, ends) == self.model.perform(ops, ends)

    @precondition(lambda self: self.peer is not None)
    @rule(ops=_ops, ends=_ends)
    def another_process_writes(self, ops: list[Op], ends: str) -> None:
        assert self.peer is not None
        assert self.peer.ask("perform", ops, ends) == self.model.perform(ops, ends)

    @precondition(lambda self: self.peer is not None)
    @rule(kind=st.sampled_from([*FIELDS]))
    def another_process_reads(self, kind: str) -> None:
        assert self.peer is not None
        assert self.peer.ask("find", kind) == self.model.all(kind)

    @rule(how=st.sampled_from(["_finds", "_finds", "_pages", "_reads_rows", "_gets", "_feed"]), data=st.data())
    def reads(self, how: str, data: st.DataObject) -> None:
        kind = data.draw(st.sampled_from(LEDGERS if how == "_reads_rows" else [*FIELDS]))
        getattr(self, how)(kind, data)

    def _finds(self, kind: str, data: st.DataObject) -> None:
        equals = data.draw(st.sampled_from(_EQUALS[kind]))
        assert [told(item) for item in self.store.find(kind, **equals)] == self.model.all(kind, **equals)
        assert self.store.count(kind, **equals) == len(self.model.all(kind, **equals))

    def _pages(self, kind: str, data: st.DataObject) -> None:
        equals, limit = data.draw(st.sampled_from(_EQUALS[kind])), data.draw(st.integers(1, 4))
        newest_first = data.draw(st.booleans())
        expected = self.model.all(kind, **equals)
        if newest_first:
            expected.reverse()
        seen: list[list[Any]] = []
        cursor: str | None = None
        while True:
            page = self.store.page(kind, limit=limit, cursor=cursor, newest_first=newest_first, **equals)
            seen += [told(item) for item in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page.items) == limit
        assert seen == expected

    def _reads_rows(self, kind: str, data: st.DataObject) -> None:
        since, limit = data.draw(st.integers(0, 6)), data.draw(st.none() | st.integers(1, 4))
        expected = self.model.all(kind)[since:]
        assert [told(row) for row in self.store.rows(kind, since=since, limit=limit)] == expected[:limit]

    def _gets(self, kind: str, data: st.DataObject) -> None:
        id = data.draw(st.sampled_from(_IDS.get(kind, ["0", "1", "2", "9"])))
        found = self.store.get(kind, id)
        assert (None if found is None else told(found)) == self.model.rows[kind].get(id)

    def _feed(self, kind: str, data: st.DataObject) -> None:
        since = data.draw(st.integers(0, self.model.commit + 1))
        expected = self.model.changes(since)
        assert [(item.seq, item.kind, item.id) for item in self.store.changes(since)] == expected
        if expected:
            assert self.store.wait(since, 5.0) == self.model.commit

    @precondition(lambda self: self.is_durable)
    @rule()
    def is_opened_again(self) -> None:
        self.store.close()
        self.store = build(self.factory, self.options, self.path)

    @precondition(lambda self: self.is_durable)
    @rule(by_peer=st.booleans())
    def compacts(self, by_peer: bool) -> None:
        if by_peer and self.peer is not None:
            self.peer.ask("compact")
        else:
            self.store.compact()

    @invariant()
    def counts(self) -> None:
        assert self.store.seq() == self.model.commit
        assert {kind: self.store.count(kind) for kind in FIELDS} == self.model.counters

    def teardown(self) -> None:
        """At the end everything is looked at, by who wrote it and by who opens it."""
        try:
            assert self.store.verify() == []
            opened = [self.store]
            if self.is_durable:
                opened.append(build(self.factory, self.options, self.path))
            for store in opened:
                for kind, questions in _EQUALS.items():
                    for equals in questions:
                        assert [told(item) for item in store.find(kind, **equals)] == self.model.all(kind, **equals)
                store.close()
        finally:
            self.place.cleanup()


# --- the stores -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Candidate:
    """A store to be run."""

    factory: str
    options: dict[str, Any]
    is_durable: bool


TWIN = Candidate("perpetual.testing.memory_store:build", {}, False)


def candidates() -> list[Any]:
    """The twin, and each store that the registry offers, with its own default options."""
    found = [pytest.param(TWIN, id="twin")]
    for offer in Registry().serving("store"):
        options = {name: option.default for name, option in (offer.provider.options or {}).items()}
        found.append(pytest.param(Candidate(offer.provider.factory, options, True), id=offer.provider.name))
    return found


@contextmanager
def machine(candidate: Candidate) -> Iterator[type[StoreMachine]]:
    """The machine's class for one store, with its other process."""
    with tempfile.TemporaryDirectory(prefix="store-machine-") as place:
        store = build(candidate.factory, candidate.options, Path(place) / "store")
        is_shared = store.capabilities.multiprocess
        store.close()
    peer = Peer() if is_shared else None
    try:
        yield type(
            "StoreMachine",
            (StoreMachine,),
            {
                "factory": candidate.factory,
                "options": candidate.options,
                "peer": peer,
                "is_durable": candidate.is_durable,
            },
        )
    finally:
        if peer is not None:
            peer.end()


def _bounded(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[*HealthCheck],
        report_multiple_bugs=False,
    )


def test_the_registry_names_the_bundled_store() -> None:
    assert "tinydb" in [param.id for param in candidates()]


@pytest.mark.parametrize("candidate", candidates())
def test_a_store_answers_as_its_model(candidate: Candidate) -> None:
    with machine(candidate) as made:
        run_state_machine_as_test(made, settings=_bounded(10, 25))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("most", [pytest.param(80, marks=pytest.mark.slow), pytest.param(400, marks=pytest.mark.soak)])
@pytest.mark.parametrize("candidate", candidates())
def test_a_store_answers_as_its_model_for_long(candidate: Candidate, most: int) -> None:
    with machine(candidate) as made:
        run_state_machine_as_test(made, settings=_bounded(most, 50))


# --- the machine itself ---------------------------------------------------------------------------------------------


_write, _read, _scan = InMemoryStore.write, InMemoryStore.read, InMemoryStore.scan


def _loses_a_row(store: InMemoryStore, batch: Any) -> None:
    _write(store, batch[:-1] if len(batch) > 3 else batch)


def _changes_a_ledger(store: InMemoryStore, batch: Any) -> None:
    _write(store, [(kind, "1" if kind == "event" else id, row) for kind, id, row in batch])


def _forgets_revisions(store: InMemoryStore, kind: str, id: str) -> Any:
    row = _read(store, kind, id)
    return {**row, "_rev": 1} if row and kind == "hypothesis" else row


def _knows_no_null(store: InMemoryStore, kind: str, equals: Any) -> Any:
    return [row for row in _scan(store, kind, equals) if all(name in row for name in equals)]


@pytest.mark.parametrize(
    ("method", "defect"),
    [
        ("write", _loses_a_row),
        ("write", _changes_a_ledger),
        ("read", _forgets_revisions),
        ("scan", _knows_no_null),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_store_that_does_not_is_found_out(
    monkeypatch: pytest.MonkeyPatch, method: str, defect: Callable[..., Any]
) -> None:
    """The twin with one defect each."""
    monkeypatch.setattr(InMemoryStore, method, defect)
    bounded = settings(_bounded(40, 25), phases=[Phase.generate])  # found, and not made small
    with machine(TWIN) as made, pytest.raises(AssertionError):
        run_state_machine_as_test(made, settings=bounded)


if __name__ == "__main__":
    serve()
