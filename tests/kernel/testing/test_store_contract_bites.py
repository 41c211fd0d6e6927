"""The store suite bites: each deliberately broken store fails the test that holds its promise, the whole twin none."""

from __future__ import annotations

import copy
import inspect
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar

import pytest

from perpetual.slots.store import META, Capabilities, Change, Document, Row, StoreBase, StorePage, Transaction
from perpetual.testing.memory_store import InMemoryStore
from perpetual.testing.stores import DurableStoreContract, SharedStoreContract, StoreContract, helpers
from perpetual.testing.stores.documents import Documents
from perpetual.testing.stores.extremes import Extremes
from perpetual.testing.unsynced import why_it_cannot

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


class _Patched(InMemoryStore):
    """Broken inside its transactions: `spoil` changes each of them."""

    def spoil(self, tx: Transaction) -> None:
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with super().transaction() as tx:
            self.spoil(tx)
            yield tx


class LosesAWrite(InMemoryStore):
    """The last row of a large batch never arrives."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write(batch[:-1] if len(batch) > 5 else batch)


class IgnoresTheRevision(_Patched):
    """The last writer wins."""

    def spoil(self, tx: Transaction) -> None:
        put = tx.put

        def careless(kind: str, id: str, body: Mapping[str, Any], *, expect_revision: int | None = None) -> Document:
            return put(kind, id, body)

        tx.put = careless  # type: ignore[method-assign]


class HandsOutItsOwn(InMemoryStore):
    """A reader's change changes the record."""

    def get(self, kind: str, id: str) -> Document | None:
        found = super().get(kind, id)
        row = self.read(kind, id)
        if found is None or row is None:
            return found
        return Document(kind, id, found.revision, found.number, found.seq, _Shared(row))


class _Shared(dict[str, Any]):
    """A body that writes through to the row."""

    def __init__(self, row: Row) -> None:
        super().__init__({key: value for key, value in row.items() if key[:1] != "_"})
        self._row = row

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._row[key] = value


class KeepsWhatItIsGiven(_Patched):
    """A writer's later change changes the record."""

    def spoil(self, tx: Transaction) -> None:
        stage = tx._stage

        def careless(
            tx: Transaction, kind: str, id: str, revision: int, number: int, body: Mapping[str, Any]
        ) -> Document:
            made = stage(kind, id, revision, number, body)
            tx._staged[kind, id].update({key: value for key, value in body.items() if isinstance(value, list)})
            return made

        tx._stage = MethodType(careless, tx)  # type: ignore[method-assign]


class ShowsItTooEarly(_Patched):
    """What is written is there before the end, and stays when the block fails."""

    def spoil(self, tx: Transaction) -> None:
        stage = tx._stage

        def careless(kind: str, id: str, *rest: Any) -> Document:
            made = stage(kind, id, *rest)
            self.write([(kind, id, tx._staged[kind, id])])
            return made

        tx._stage = careless  # type: ignore[method-assign, assignment]


class TearsACommit(InMemoryStore):
    """Rows arrive one by one."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        for item in batch:
            super().write([item])
            time.sleep(0.0005)


class LeavesAGap(_Patched):
    """Every third row skips a number."""

    def spoil(self, tx: Transaction) -> None:
        append = tx.append

        def careless(kind: str, row: Mapping[str, Any]) -> int:
            number = append(kind, row)
            if number % 3 == 0:
                tx._counters[kind] += 1
            return number

        tx.append = careless  # type: ignore[method-assign]


class LetsLedgersBeChanged(InMemoryStore):
    """A row of a ledger can be put anew."""

    def kind(self, name: str, *, ledger: bool | None = None) -> Any:
        return super().kind(name)


class SortsAsText(InMemoryStore):
    """h10 comes before h2."""

    def find(self, kind: str, /, **equals: Any) -> list[Document]:
        return sorted(super().find(kind, **equals), key=lambda item: item.id)


class PagesInAnyOrder(InMemoryStore):
    """A page is sorted by itself, backwards."""

    def page(self, kind: str, /, **given: Any) -> StorePage:
        page = super().page(kind, **given)
        return StorePage(page.items[::-1], page.next_cursor)


class PagesByOffset(InMemoryStore):
    """What is created between two pages makes an item come twice."""

    def page(
        self,
        kind: str,
        /,
        *,
        limit: int,
        cursor: str | None = None,
        newest_first: bool = False,
        **equals: Any,
    ) -> StorePage:
        super().page(kind, limit=limit, cursor=cursor)
        found = self.find(kind, **equals)[:: -1 if newest_first else 1]
        start = int(cursor or 0)
        more = len(found) > start + limit
        return StorePage(tuple(found[start : start + limit]), str(start + limit) if more else None)


class NeverEndsThePages(InMemoryStore):
    """An empty page follows the last one."""

    def page(self, kind: str, /, **given: Any) -> StorePage:
        page = super().page(kind, **given)
        return StorePage(page.items, str(page.items[-1].number) if page.items else None)


class SearchesAnything(InMemoryStore):
    """Fields that are no index are searched slowly instead of refused."""

    def check_fields(self, kind: str, equals: Mapping[str, Any]) -> None:
        self.kind(kind)


class KeepsAnOldIndex(InMemoryStore):
    """A changed document is still found by what it was."""

    def __init__(self) -> None:
        super().__init__()
        self._old: dict[tuple[str, str], list[Row]] = {}

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        rows = {row["_id"]: row for row in super().scan(kind, equals)}
        for (old_kind, id), versions in self._old.items():
            if equals and old_kind == kind and any(all(row.get(k) == v for k, v in equals.items()) for row in versions):
                rows.setdefault(id, self._rows[kind][id])
        return rows.values()

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        for kind, id, row in batch:
            self._old.setdefault((kind, id), []).append(row)
        super().write(batch)


class ForgetsTheNewest(InMemoryStore):
    """The feed is cut short."""

    def changes(self, since: int) -> list[Change]:
        return super().changes(since)[:2]


class TellsEveryVersion(InMemoryStore):
    """The feed names a document once for each of its writes."""

    def changes(self, since: int) -> list[Change]:
        return [
            Change(max(since + 1, change.seq - back), change.kind, change.id)
            for change in super().changes(since)
            for back in (1, 0)
        ]


class CommitsNothing(_Patched):
    """A block that wrote nothing has a number all the same."""

    def spoil(self, tx: Transaction) -> None:
        batch = tx._batch

        def careless() -> list[tuple[str, str, Row]]:
            head = {"_id": "_meta", "_rev": 1, "_no": 1, "_seq": tx.seq, "commit": tx.seq, "counters": tx._counters}
            return batch() or [("_meta", "_meta", head)]

        tx._batch = careless  # type: ignore[method-assign]


class LetsTwoIn(InMemoryStore):
    """There is no writer lock."""

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        yield


def _inside(store: StoreBase) -> Transaction | None:
    """The block in which this thread is."""
    found: Transaction | None = getattr(vars(store)["_StoreBase__open"], "transaction", None)
    return found


class NestsBadly(InMemoryStore):
    """An inner block commits by itself, so the outer one cannot take it back."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        outer: Transaction | None = _inside(self)
        with super().transaction() as tx:
            yield tx
            if outer is not None:
                self.write(tx._batch())


class KeepsWhatAnInnerBlockWrote(InMemoryStore):
    """An inner block that raises leaves its writes to the outer one."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        outer: Transaction | None = _inside(self)
        if outer is not None:
            yield outer
            return
        with super().transaction() as tx:
            yield tx


class CarriesNaN(_Patched):
    """What JSON cannot carry is kept."""

    def spoil(self, tx: Transaction) -> None:
        def careless(
            tx: Transaction, kind: str, id: str, revision: int, number: int, body: Mapping[str, Any]
        ) -> Document:
            row = {**copy.deepcopy(dict(body)), "_id": id, "_rev": revision, "_no": number, "_seq": tx.seq}
            tx._staged[kind, id] = row
            return Document(kind, id, revision, number, tx.seq, copy.deepcopy(dict(body)))

        tx._stage = MethodType(careless, tx)  # type: ignore[method-assign]


class NeverWakes(InMemoryStore):
    """`wait` answers the old number."""

    def wait(self, since: int, timeout_s: float) -> int:
        return since


class TakesLateWrites(_Patched):
    """A write after the block is taken and lost."""

    def spoil(self, tx: Transaction) -> None:
        append = tx.append
        tx.append = lambda kind, row: 0 if tx._over else append(kind, row)  # type: ignore[method-assign]


class MakesUpKinds(InMemoryStore):
    """A misspelt kind is an empty one."""

    def get(self, kind: str, id: str) -> Document | None:
        return super().get(kind, id) if kind in self.kinds else None


class StartsWithACommit(InMemoryStore):
    """An empty store claims that something was written."""

    def seq(self) -> int:
        return max(1, super().seq())


class RoundsNumbers(InMemoryStore):
    """A document comes back as some formats keep it: every number is a float."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write(
            [
                (kind, id, {key: float(item) if key == "yes" else item for key, item in row.items()})
                for kind, id, row in batch
            ]
        )


class TakesTheCallersId(_Patched):
    """A body with an id of its own is kept under that."""

    def spoil(self, tx: Transaction) -> None:
        create = tx.create

        def careless(kind: str, body: Mapping[str, Any]) -> Document:
            return tx.put(kind, body["id"], body) if "id" in body else create(kind, body)

        tx.create = careless  # type: ignore[method-assign]


class UpdatesInsteadOfReplacing(_Patched):
    """What was not written again stays."""

    def spoil(self, tx: Transaction) -> None:
        put = tx.put

        def careless(kind: str, id: str, body: Mapping[str, Any], **given: Any) -> Document:
            found = tx.get(kind, id)
            return put(kind, id, {**(found.body if found else {}), **body}, **given)

        tx.put = careless  # type: ignore[method-assign]


class CountsRevisionsByCommit(_Patched):
    """A revision is the commit's number, which grows by other documents too."""

    def spoil(self, tx: Transaction) -> None:
        stage = tx._stage

        def careless(kind: str, id: str, revision: int, number: int, body: Mapping[str, Any]) -> Document:
            return stage(kind, id, tx.seq + 1, number, body)

        tx._stage = careless  # type: ignore[method-assign]


class ChecksTheRevisionOnDisk(_Patched):
    """The block's own writes do not count."""

    def spoil(self, tx: Transaction) -> None:
        tx._row = self.read  # type: ignore[method-assign]


class CountsRowsFromTheirIndex(InMemoryStore):
    """`since` is one off."""

    def rows(self, kind: str, since: int = 0, limit: int | None = None) -> list[Document]:
        return super().rows(kind, max(0, since - 1), limit)


class LosesAWriteInACrowd(InMemoryStore):
    """The last row of a batch never arrives while other threads wait for their turn."""

    def __init__(self) -> None:
        super().__init__()
        self._inside = 0

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        with self._guard:
            self._inside += 1
        try:
            with super().exclusive():
                time.sleep(0.0005)  # the others arrive meanwhile
                yield
        finally:
            with self._guard:
                self._inside -= 1

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write(batch[:-1] if self._inside > 1 else batch)


class FindsByAnyField(InMemoryStore):
    """One equal field is enough."""

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        rows = {
            row["_id"]: row
            for field in equals
            for row in super(FindsByAnyField, self).scan(kind, {field: equals[field]})
        }
        return rows.values() if equals else super().scan(kind, equals)


class CountsAll(InMemoryStore):
    """As if everything matched."""

    def tally(self, kind: str, equals: Mapping[str, Any]) -> int:
        return super().tally(kind, {})


class ForgivesAWrongPage(InMemoryStore):
    """A cursor that is none begins anew, a limit below one is one."""

    def page(self, kind: str, /, *, limit: int, cursor: str | None = None, **given: Any) -> StorePage:
        after = cursor if cursor is not None and cursor.isdecimal() else None
        return super().page(kind, limit=max(1, limit), cursor=after, **given)


class IgnoresDeclaredIndexes(InMemoryStore):
    """A plugin's kind is known, and nothing of it is found again."""

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        return [] if kind.startswith("acme") and equals else super().scan(kind, equals)


class CountsInFloats(InMemoryStore):
    """A number is what a float makes of it."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write([(kind, id, _in_floats(row)) for kind, id, row in batch])


def _in_floats(row: Row) -> Row:
    value = row.get("value")
    return {**row, "value": int(float(value)) if isinstance(value, int) else value} if "value" in row else row


class Composes(InMemoryStore):
    """Texts are kept in one form of Unicode."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write([(kind, id, _composed(row)) for kind, id, row in batch])


def _composed(value: Any) -> Any:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_composed(item) for item in value]
    return {key: _composed(item) for key, item in value.items()} if isinstance(value, dict) else value


class _Ids(InMemoryStore):
    """Documents lie under what `name` makes of their id."""

    def name(self, id: str) -> str:
        raise NotImplementedError

    def read(self, kind: str, id: str) -> Row | None:
        return super().read(kind, self.name(id))

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write([(kind, self.name(id), row) for kind, id, row in batch])


class IgnoresCase(_Ids):
    """As some file systems do."""

    def name(self, id: str) -> str:
        return id.lower()


class CutsIds(_Ids):
    """As a column of 200 characters does."""

    def name(self, id: str) -> str:
        return id[:200]


class ComposesIds(_Ids):
    """As other file systems do."""

    def name(self, id: str) -> str:
        return unicodedata.normalize("NFC", id)


class KeepsAThousand(InMemoryStore):
    """The oldest rows make room for the newest."""

    def rows(self, kind: str, since: int = 0, limit: int | None = None) -> list[Document]:
        return super().rows(kind, since, limit)[-1000:]


class ComparesAsText(InMemoryStore):
    """Every field is a text to it."""

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        return [
            row
            for row in super().scan(kind, {})
            if all(str(row.get(field)) == str(value) for field, value in equals.items())
        ]


class DropsStrangers(InMemoryStore):
    """Compaction rewrites the kinds that it knows."""

    def compact(self) -> None:
        self._rows = {kind: rows for kind, rows in self._rows.items() if kind in self.kinds or kind == META}


class FindsFault(InMemoryStore):
    """`verify` complains of nothing in particular."""

    def verify(self) -> list[str]:
        return ["something is wrong"] if self.seq() else []


class CompactsTooMuch(InMemoryStore):
    """Compaction forgets how often a document was written."""

    def compact(self) -> None:
        with self._guard:
            for rows in self._rows.values():
                for row in rows.values():
                    if row["_id"] == "h3":
                        row["_rev"] = 1


class SaysWhatIsNoJson(InMemoryStore):
    """`describe` answers objects."""

    def describe(self) -> dict[str, Any]:
        return {"mode": "memory", "bytes": (1, 2)}


class IgnoresTheFence(InMemoryStore):
    """Writes go past the fence."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self.fence = None
        with super().transaction() as tx:
            yield tx


BROKEN: list[tuple[type[InMemoryStore], str]] = [
    (LosesAWrite, "test_nothing_is_lost"),
    (IgnoresTheRevision, "test_an_expected_revision_is_checked"),
    (HandsOutItsOwn, "test_what_is_handed_out_may_be_changed"),
    (KeepsWhatItIsGiven, "test_what_is_handed_in_may_be_changed"),
    (ShowsItTooEarly, "test_nothing_is_visible_before_the_end"),
    (ShowsItTooEarly, "test_a_block_that_raises_leaves_no_trace"),
    (TearsACommit, "test_a_reader_sees_all_of_a_commit_or_nothing"),
    (LeavesAGap, "test_ledgers_are_dense"),
    (LetsLedgersBeChanged, "test_ledgers_only_grow"),
    (SortsAsText, "test_finding_is_in_order_of_creation"),
    (PagesInAnyOrder, "test_paging_goes_through_everything_once"),
    (PagesByOffset, "test_paging_does_not_slip"),
    (NeverEndsThePages, "test_paging_goes_through_everything_once"),
    (SearchesAnything, "test_only_declared_indexes_are_searched"),
    (KeepsAnOldIndex, "test_a_changed_document_is_found_by_its_new_fields"),
    (ForgetsTheNewest, "test_changes_are_told_once_in_order"),
    (TellsEveryVersion, "test_changes_are_told_once_in_order"),
    (CommitsNothing, "test_commits_are_numbered"),
    (LetsTwoIn, "test_blocks_of_two_threads_do_not_overlap"),
    (NestsBadly, "test_nested_blocks_are_one"),
    (KeepsWhatAnInnerBlockWrote, "test_an_inner_block_that_raises_takes_its_writes_with_it"),
    (CarriesNaN, "test_what_is_no_json_is_refused"),
    (NeverWakes, "test_waiting_for_a_commit"),
    (TakesLateWrites, "test_a_transaction_is_over_with_its_block"),
    (MakesUpKinds, "test_unknown_kinds_are_refused"),
    (StartsWithACommit, "test_an_empty_store_holds_nothing"),
    (RoundsNumbers, "test_what_was_written_is_read"),
    (TakesTheCallersId, "test_ids_are_generated_in_order"),
    (UpdatesInsteadOfReplacing, "test_a_put_replaces_the_whole_document"),
    (CountsRevisionsByCommit, "test_revisions_grow_by_one"),
    (ChecksTheRevisionOnDisk, "test_a_write_of_the_same_block_counts"),
    (CountsRowsFromTheirIndex, "test_rows_since"),
    (LosesAWriteInACrowd, "test_threads_lose_nothing"),
    (FindsByAnyField, "test_finding_by_two_fields"),
    (CountsAll, "test_counting_what_matches"),
    (ForgivesAWrongPage, "test_a_wrong_page_is_refused"),
    (IgnoresDeclaredIndexes, "test_a_plugin_declares_its_own_kinds"),
    (FindsFault, "test_a_sound_store_finds_no_fault_with_itself"),
    (CompactsTooMuch, "test_compacting_changes_nothing_that_is_kept"),
    (SaysWhatIsNoJson, "test_what_it_says_of_itself_is_json"),
    (IgnoresTheFence, "test_a_fence_keeps_writers_out"),
    (CountsInFloats, "test_numbers_come_back_exactly"),
    (Composes, "test_texts_come_back_exactly"),
    (IgnoresCase, "test_each_id_is_its_own"),
    (CutsIds, "test_each_id_is_its_own"),
    (ComposesIds, "test_each_id_is_its_own"),
    (KeepsAThousand, "test_many_rows_stay"),
    (ComparesAsText, "test_finding_minds_the_type"),
    (DropsStrangers, "test_compacting_keeps_what_nobody_declared"),
]
_ELSEWHERE = {"test_what_the_store_promises_is_tested"}  # held by a test of its own below


def _tests(suite: type[StoreContract]) -> dict[str, Callable[..., None]]:
    """What the suite adds to the one that it is built on; its first room is not a suite by itself."""
    rooms = [suite, Documents, Extremes] if suite is StoreContract else [suite]
    return {name: test for room in rooms for name, test in vars(room).items() if name.startswith("test_")}


def _run(test: Callable[..., None], store: StoreBase) -> None:
    assert [*inspect.signature(test).parameters] == ["self", "store"]
    test(StoreContract(), store)


def test_there_is_a_broken_twin_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == set(_tests(StoreContract)) - _ELSEWHERE
    assert {name for _, name in FORGETFUL} == set(_tests(DurableStoreContract)) - {UNSYNCED}
    assert {name for _, _, name in UNSHARED} == set(_tests(SharedStoreContract))


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{broken.__name__}-{name}" for broken, name in BROKEN])
def test_a_broken_store_fails(broken: type[InMemoryStore], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    test = _tests(StoreContract)[name]
    _run(test, InMemoryStore())
    monkeypatch.setattr(helpers, "MOMENT_S", 10.0)  # what must not happen does, even if it takes its time
    # By an assertion of the suite: a twin that merely crashed would prove nothing.
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _run(test, broken())


def test_a_store_that_promises_processes_must_run_their_suite() -> None:
    class Boasts(InMemoryStore):
        capabilities = Capabilities(multiprocess=True)

    test = _tests(StoreContract)["test_what_the_store_promises_is_tested"]
    _run(test, InMemoryStore())
    with pytest.raises(AssertionError, match="SharedStoreContract"):
        _run(test, Boasts())


# --- stores that outlive their object -------------------------------------------------------------------------------


class Kept(InMemoryStore):
    """Durable as long as this process: the rows lie in a place outside of the object."""

    def __init__(self, place: dict[str, dict[str, Row]]) -> None:
        super().__init__()
        self._rows = place


class Forgets(Kept):
    """The place is not used."""

    def __init__(self, place: dict[str, dict[str, Row]]) -> None:
        super().__init__({})


class KeepsWhatFailed(Kept):
    """A block that raised is hidden from this object only: its writes are in the place when it is opened again."""

    def __init__(self, place: dict[str, dict[str, Row]]) -> None:
        super().__init__({kind: dict(rows) for kind, rows in place.items()})
        self._place = place

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write(batch)
        for kind, id, row in batch:
            self._place.setdefault(kind, {})[id] = row

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with super().transaction() as tx:
            try:
                yield tx
            except BaseException:
                for kind, id, row in tx._batch():
                    self._place.setdefault(kind, {})[id] = row
                raise


class WritesLate(Kept):
    """The last commit waits for the next one, and closing forgets it."""

    def __init__(self, place: dict[str, dict[str, Row]]) -> None:
        super().__init__({kind: dict(rows) for kind, rows in place.items()})
        self._place, self._waiting = place, list[tuple[str, str, Row]]()

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        for kind, id, row in self._waiting:
            self._place.setdefault(kind, {})[id] = row
        self._waiting = [*batch]
        super().write(batch)


class WritesWhenRead(Kept):
    """Who looks leaves a trace."""

    trace: ClassVar[Path]

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        self.trace.write_text("nobody", "utf-8")
        super().write(batch)

    def find(self, kind: str, /, **equals: Any) -> list[Document]:
        self.trace.write_text("somebody was here", "utf-8")
        return super().find(kind, **equals)


FORGETFUL: list[tuple[type[Kept], str]] = [
    (Forgets, "test_what_was_committed_is_there_after_reopening"),
    (KeepsWhatFailed, "test_what_failed_is_not_there_after_reopening"),
    (WritesLate, "test_each_commit_is_on_the_disk_when_its_block_ends"),
    (WritesWhenRead, "test_opening_and_reading_change_nothing"),
]


@pytest.mark.parametrize(("broken", "name"), FORGETFUL, ids=[broken.__name__ for broken, _ in FORGETFUL])
def test_a_store_that_forgets_fails(broken: type[Kept], name: str, tmp_path: Path) -> None:
    test = _tests(DurableStoreContract)[name]
    WritesWhenRead.trace = tmp_path / "trace"
    folder = (tmp_path,) if "tmp_path" in inspect.signature(test).parameters else ()
    for kind in (Kept, broken):
        place: dict[str, dict[str, Row]] = {}
        if kind is Kept:
            test(DurableStoreContract(), Kept(place), partial(Kept, place), *folder)
            continue
        with pytest.raises(AssertionError):
            test(DurableStoreContract(), broken(place), partial(broken, place), *folder)


# --- what reaches the disk -------------------------------------------------------------------------------------------

UNSYNCED = "test_what_cannot_be_synced_is_not_acknowledged"  # which has other processes open the store
_FILED = """
import json
from perpetual.testing.memory_store import InMemoryStore
from perpetual.toolkit.atomic import write_atomic

class Filed(InMemoryStore):
    def __init__(self, path):
        super().__init__()
        self._file = path
        if path.exists():
            self._rows = json.loads(path.read_text("utf-8"))

    def write(self, batch):
        super().write(batch)
        write_atomic(self._file, json.dumps(self._rows), durable={durable})

def build(options, *, path):
    return Filed(path)
"""


@pytest.mark.skipif(why_it_cannot() is not None, reason=str(why_it_cannot()))
@pytest.mark.parametrize("durable", [True, False])
def test_a_store_that_never_syncs_fails(durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"filed_{durable}".lower()
    (tmp_path / f"{name}.py").write_text(_FILED.format(durable=durable), "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    build = import_module(name).build
    reopen = partial(build, {}, path=tmp_path / "store")

    class Suite(DurableStoreContract):
        factory = f"{name}:build"

    if durable:
        _tests(DurableStoreContract)[UNSYNCED](Suite(), reopen(), reopen, tmp_path)
        return
    with pytest.raises(AssertionError, match="nothing is synced"):
        _tests(DurableStoreContract)[UNSYNCED](Suite(), reopen(), reopen, tmp_path)


# --- stores that several processes share ----------------------------------------------------------------------------


class Shared(InMemoryStore):
    """What another process would see is here what another thread sees."""

    capabilities = Capabilities(multiprocess=True)


class SaysNothing(Shared):
    """The kernel would refuse the second process."""

    capabilities = Capabilities()


class LetsAnotherProcessIn(Shared):
    """There is no lock between processes."""

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        yield


class HearsNothing(Shared):
    """Another process's commit wakes nobody."""

    def wait(self, since: int, timeout_s: float) -> int:
        return since


class AnswersAgain(Shared):
    """What was found is answered for half a second, whoever wrote meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, tuple[float, list[Document]]] = {}

    def find(self, kind: str, /, **equals: Any) -> list[Document]:
        at, found = self._found.get(kind, (0.0, []))
        if time.monotonic() - at > 0.5:
            found = super().find(kind, **equals)
            self._found[kind] = (time.monotonic(), found)
        return found


class LocksForATerm(Shared):
    """A lock that is older than a second is free."""

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        if not self._writer.acquire(timeout=1.0):
            yield
            return
        try:
            yield
        finally:
            self._writer.release()


class Peer:
    """Obeys as the suite's other process does, from a thread of its own."""

    def __init__(self, store: StoreBase) -> None:
        self.store = store
        self._thread = ThreadPoolExecutor(1)
        self._held: ExitStack | None = None

    def ask(self, deed: str, kind: str = "hypothesis", n: int = 0) -> Any:
        """What it answers."""
        return self._thread.submit(getattr(self, f"_{deed}"), kind, n).result(60)

    def end(self) -> None:
        """Dies in its block, if it is in one."""
        self._thread.submit(self._die).result(60)

    def _create(self, kind: str, n: int) -> str:
        with self.store.transaction() as tx:
            return tx.create(kind, {"n": n}).id

    def _find(self, kind: str, n: int) -> list[int]:
        return [item.body["n"] for item in self.store.find(kind)]

    def _begin(self, kind: str, n: int) -> str:
        self._held = ExitStack()
        self._held.enter_context(self.store.transaction()).create(kind, {"n": n})
        return "held"

    def _end(self, kind: str, n: int) -> int:
        if self._held is not None:
            self._held.close()
            self._held = None
        return self.store.seq()

    def _die(self) -> None:
        if self._held is not None:
            self._held.__exit__(SystemExit, SystemExit(), None)
            self._held = None


class Elsewhere(Peer):
    """Another process has a record of its own."""

    def __init__(self, store: StoreBase) -> None:
        super().__init__(Shared())


class CommitsWhenItDies(Peer):
    """What a process had begun is kept."""

    def _die(self) -> None:
        self._end("", 0)


UNSHARED: list[tuple[type[Shared], type[Peer], str]] = [
    (SaysNothing, Peer, "test_it_says_that_processes_may_share_it"),
    (Shared, Elsewhere, "test_another_process_s_writes_are_seen"),
    (LetsAnotherProcessIn, Peer, "test_blocks_of_two_processes_do_not_overlap"),
    (Shared, CommitsWhenItDies, "test_a_process_that_dies_in_a_block_leaves_no_trace"),
    (HearsNothing, Peer, "test_a_commit_of_another_process_ends_the_waiting"),
    (AnswersAgain, Peer, "test_another_process_s_writes_are_seen_at_once"),
    (LocksForATerm, Peer, "test_a_block_is_alone_for_as_long_as_it_takes"),
]


def _share(name: str, store: Shared, made: type[Peer]) -> None:
    test = _tests(SharedStoreContract)[name]
    peer = made(store)
    try:
        if "peer" in inspect.signature(test).parameters:
            test(SharedStoreContract(), store, peer)
        else:
            test(SharedStoreContract(), store)
    finally:
        peer.end()


@pytest.mark.parametrize(("broken", "peer", "name"), UNSHARED, ids=[name for _, _, name in UNSHARED])
def test_a_store_that_processes_cannot_share_fails(
    broken: type[Shared], peer: type[Peer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _share(name, Shared(), Peer)
    monkeypatch.setattr(helpers, "MOMENT_S", 10.0)  # what must not happen does, even if it takes its time
    with pytest.raises(AssertionError):
        _share(name, broken(), peer)


@pytest.mark.slow
def test_an_outsider_gets_the_failures_from_pytest(tmp_path: Path) -> None:
    import subprocess
    import sys

    module = tmp_path / "test_acme.py"
    module.write_text(
        "import pytest\n"
        "from perpetual.testing.memory_store import InMemoryStore\n"
        "from perpetual.testing.stores import StoreContract\n"
        "class Acme(InMemoryStore):\n"
        "    def check_fields(self, kind, equals): self.kind(kind)\n"
        "class TestGood(StoreContract):\n"
        "    factory = 'perpetual.testing.memory_store:build'\n"
        "class TestBad(StoreContract):\n"
        "    @pytest.fixture\n"
        "    def store(self): return Acme()\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(module)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    failed = [line for line in found.stdout.splitlines() if line.startswith("FAILED")]
    assert [line.split(" ")[1] for line in failed] == ["test_acme.py::TestBad::test_only_declared_indexes_are_searched"]
