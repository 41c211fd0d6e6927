"""`perpetual chaos`: its judge finds what is wrong, its engine kills and cleans up, the bundled stores survive it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from perpetual.cli.app import run
from perpetual.discovery import discover
from perpetual.errors import CorruptData, PerpetualError, TransientError, UsageError
from perpetual.slots.store import Change, Row, StoreBase, Transaction
from perpetual.testing.memory_store import InMemoryStore
from perpetual.toolkit.secret import Secret
from perpetual_devkit import chaos
from perpetual_devkit.chaos import Certificate, Target, run_chaos
from perpetual_devkit.chaos_judge import Judgement, Replies, judge, read_acknowledgements
from perpetual_devkit.chaos_writer import COUNTER, MEMBERS, transact
from perpetual_devkit.scratch_calls import call_in_scratch
from perpetual_devkit.wire import from_wire, to_wire

ROUNDS = 60
SEED = 3
WAIT_S = 30.0

# --- the judge ------------------------------------------------------------------------------------------------------


def _told(store: StoreBase) -> Replies:
    """What two writers were told who took turns."""
    chance = random.Random(SEED)
    acknowledged, refused = {}, set()
    for turn in range(ROUNDS):
        ack = transact(store, f"w{turn % 2}", f"w{turn % 2}.1.{turn}", chance)
        if "refused" in ack:
            refused.add(ack["refused"])
        else:
            acknowledged[ack["token"]] = ack
    return Replies(acknowledged, frozenset(refused))


def _judged(store: StoreBase) -> Judgement:
    return judge(store, _told(store))


class LosesACommit(InMemoryStore):
    """One commit is acknowledged and never arrives."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        if batch[0][2]["commit"] != 9 or self._rows.get("lost"):
            super().write(batch)
        else:
            self._rows["lost"] = {"once": {}}


class ForgetsTheLast(InMemoryStore):
    """The members of the last commit are gone."""

    def _is_there(self, kind: str, row: Row) -> bool:
        return kind not in dict(MEMBERS) or row["_seq"] < self._rows["_meta"]["_meta"]["commit"]

    def read(self, kind: str, id: str) -> Row | None:
        row = super().read(kind, id)
        return row if row is None or self._is_there(kind, row) else None

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        return [row for row in super().scan(kind, equals) if self._is_there(kind, row)]


class TearsACommit(InMemoryStore):
    """One commit arrives without its last member."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        torn = batch[0][2]["commit"] == 9
        super().write([item for item in batch if not (torn and item[0] == "note")])


class GivesAnIdTwice(InMemoryStore):
    """Two documents of one id."""

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        rows = [*super().scan(kind, equals)]
        return [*rows, rows[3]] if kind == "experiment" and len(rows) > 3 and not equals else rows


class LosesAnUpdate(InMemoryStore):
    """The counter is written from a state that is older than the last one."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        changed = [
            (kind, id, {**row, "n": row["n"] - 1} if (kind, id) == COUNTER and row["n"] == 20 else row)
            for kind, id, row in batch
        ]
        super().write(changed)


class KeepsWhatWasRefused(InMemoryStore):
    """A block that raises is written all the same."""

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self.exclusive():
            tx = Transaction(self)
            try:
                yield tx
            finally:
                self.write(tx._batch())


class LeavesAGap(InMemoryStore):
    """A row of a ledger is missing."""

    def read(self, kind: str, id: str) -> Row | None:
        return None if (kind, id) == ("event", "7") else super().read(kind, id)


class SpoilsContent(InMemoryStore):
    """A text loses its end."""

    def write(self, batch: Sequence[tuple[str, str, Row]]) -> None:
        super().write([(kind, id, {**row, "text": row["text"][:-1]} if "text" in row else row)
                       for kind, id, row in batch])  # fmt: skip


class SkipsInTheFeed(InMemoryStore):
    """A change is not told."""

    def changes(self, since: int) -> list[Change]:
        return [change for change in super().changes(since) if change.seq != 5]


class RepeatsInTheFeed(InMemoryStore):
    """A change is told twice."""

    def changes(self, since: int) -> list[Change]:
        found = super().changes(since)
        return sorted([*found, *found[:1]], key=lambda change: change.seq)


class ShufflesTheFeed(InMemoryStore):
    """The newest comes first."""

    def changes(self, since: int) -> list[Change]:
        return super().changes(since)[::-1]


class ForgetsInTheMiddle(InMemoryStore):
    """The feed from somewhere else than its start lacks its first change."""

    def changes(self, since: int) -> list[Change]:
        return super().changes(since)[1 if since else 0 :]


class HasAStaleIndex(InMemoryStore):
    """A lookup by field misses one."""

    def scan(self, kind: str, equals: Mapping[str, Any]) -> Iterable[Row]:
        return [*super().scan(kind, equals)][1 if equals else 0 :]


class Miscounts(InMemoryStore):
    """It says that there are more notes than there are."""

    def count(self, kind: str, /, **equals: Any) -> int:
        return super().count(kind, **equals) + (kind == "note")


class NumbersWithAGap(InMemoryStore):
    """A commit has a number too many."""

    def seq(self) -> int:
        return super().seq() + 1


class FindsFault(InMemoryStore):
    """It says itself that something is wrong."""

    def verify(self) -> list[str]:
        return ["a checksum is wrong"]


class IsLocked(InMemoryStore):
    """Somebody who is dead holds its lock."""

    dead = False

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        if self.seq() >= ROUNDS - 20 and self.dead:
            raise TransientError("somebody else has been writing for 0.1 s")
        with super().exclusive():
            yield


class IsCorrupt(InMemoryStore):
    """It cannot be read."""

    def seq(self) -> int:
        raise CorruptData("the journal cannot be read")


BROKEN: list[tuple[type[InMemoryStore], str]] = [
    (LosesACommit, "was acknowledged and is lost"),
    (ForgetsTheLast, "was acknowledged and is lost"),
    (TearsACommit, "is half there: it lacks its note"),
    (GivesAnIdTwice, "experiment: an id was given twice: e4"),
    (LosesAnUpdate, "setting counter says"),
    (KeepsWhatWasRefused, "was refused, and is there"),
    (LeavesAGap, "event: the numbers are not 1 to"),
    (SpoilsContent, "does not hold what"),
    (SkipsInTheFeed, "the feed has gaps or repeats itself"),
    (RepeatsInTheFeed, "the feed has gaps or repeats itself"),
    (ShufflesTheFeed, "the feed is out of order"),
    (ForgetsInTheMiddle, "is not the end of the feed"),
    (HasAStaleIndex, "the index of status does not find"),
    (Miscounts, "note: the store counts"),
    (NumbersWithAGap, "the last commit is"),
    (FindsFault, "verify: a checksum is wrong"),
    (IsCorrupt, "the store cannot be read: the journal cannot be read"),
]


def test_a_sound_store_is_found_sound() -> None:
    store = InMemoryStore()
    told = _told(store)
    assert told.refused, "no block was refused, so the test shows less than it says"
    found = judge(store, told)
    assert found.problems == []
    assert found.acknowledged == found.present == found.transactions == ROUNDS - len(told.refused)


@pytest.mark.parametrize(("broken", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_a_broken_store_is_found_broken(broken: type[InMemoryStore], said: str) -> None:
    problems = _judged(broken()).problems
    assert any(said in problem for problem in problems), problems


def test_a_lock_that_was_left_is_named() -> None:
    store = IsLocked()
    told = _told(store)
    store.dead = True
    assert judge(store, told).problems == ["the next write was refused: somebody else has been writing for 0.1 s"]


def test_a_lost_update_of_another_writer_is_named() -> None:
    """Two read the counter, both write: the revision is what would have refused the second."""
    store = InMemoryStore()
    told = _told(store)
    counter = store.read(*COUNTER)
    assert counter is not None
    store.write([(*COUNTER, {**counter, "n": counter["n"] - 1, "_rev": counter["_rev"] - 1})])
    assert any("setting counter says" in problem for problem in judge(store, told).problems)


def test_an_acknowledgement_that_was_cut_short_says_nothing(tmp_path: Path) -> None:
    whole = json.dumps({"token": "w0.1.1", "seq": 1, "ids": []}) + "\n"
    refused = json.dumps({"refused": "w0.1.2"}) + "\n"
    (tmp_path / "w0.1").write_text(whole + refused + '{"token": "w0.1.3", "se')
    told = read_acknowledgements([tmp_path / "w0.1"])
    assert ([*told.acknowledged], told.refused) == (["w0.1.1"], frozenset({"w0.1.2"}))


# --- the engine -----------------------------------------------------------------------------------------------------

# Broken in ways that only another process's death, or a fresh process, shows.
_ACME = """
import os, time
from contextlib import contextmanager, suppress
from perpetual.api import Provider, TransientError, hookimpl
from perpetual_tinydb.store import TinyStore

class InTwoSteps(TinyStore):
    def write(self, batch):
        if len(batch) > 4:
            super().write(batch[:4])
            time.sleep(0.05)
            batch = batch[4:]
        super().write(batch)

class Forgetful(TinyStore):
    def write(self, batch):
        if batch[0][2]["commit"] == 1:
            super().write(batch)

class LockFile(TinyStore):
    @contextmanager
    def exclusive(self):
        self.folder.mkdir(exist_ok=True)
        for _ in range(20):
            try:
                os.close(os.open(self.folder / "held", os.O_CREAT | os.O_EXCL))
                break
            except FileExistsError:
                time.sleep(0.005)
        else:
            raise TransientError("the lock could not be had")
        try:
            with super().exclusive():
                yield
        finally:
            os.unlink(self.folder / "held")

def in_two_steps(options, *, path): return InTwoSteps(path, lock_timeout_s=30.0)
def forgetful(options, *, path): return Forgetful(path, lock_timeout_s=30.0)
def lock_file(options, *, path): return LockFile(path, lock_timeout_s=30.0)

@hookimpl
def perpetual_stores():
    return [Provider(slot="store", name="forgetful", factory="acme_stores:forgetful", summary="loses some")]
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution `acme` with broken stores, as an installation leaves it."""
    folder = tmp_path / "site"
    info = folder / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "acme_stores.py").write_text(_ACME)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[perpetual.plugins]\nstores = acme_stores\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))


def _run(factory: str, folder: Path, *, kills: int, writers: int | None = None, **options: Any) -> Certificate:
    place = folder / "scratch"
    place.mkdir()
    return run_chaos(Target("x", "acme/x", factory, options), kills=kills, writers=writers, seed=SEED, folder=place)


BUNDLED = [
    offer.provider for info in discover(safe=True).plugins for offer in info.offers if offer.provider.slot == "store"
]


@pytest.mark.parametrize(
    ("store", "kills"),
    [("tinydb", 6), *(pytest.param(one.name, 20, marks=pytest.mark.slow) for one in BUNDLED)],
)
def test_a_bundled_store_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, kills: int) -> None:
    place = tmp_path / "scratch"
    place.mkdir()
    code = run(["chaos", "--kills", str(kills), "--writers", "4", "--store", store, "--seed", str(SEED),
                "--folder", str(place), "--json"])  # fmt: skip
    document = json.loads(capsys.readouterr().out)
    assert (code, document["problems"], document["ok"]) == (0, [], True)
    assert (document["kills"], document["writers"], document["seed"]) == (kills, 4, SEED)
    assert document["acknowledged"] == document["present"] > 0
    assert document["transactions"] >= document["present"]
    assert sum(document["killed_in"].values()) == kills
    # About two kills of five strike inside a block or a commit: of six, none may have.
    assert kills < 20 or document["killed_in"]["block"] + document["killed_in"]["commit"] > 0
    assert document["kept"] is None
    assert [*place.iterdir()] == []


def test_a_store_that_loses_writes_is_exit_1(acme: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # On a busy machine the writers between two kills may have acknowledged one transaction, which is kept.
    arguments = ["chaos", "--kills", "4", "--writers", "2", "--store", "forgetful", "--folder", str(tmp_path)]
    assert run([*arguments, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["ok"], document["provider"]) == (False, "acme/forgetful")
    assert any("is lost" in problem for problem in document["problems"])
    kept = Path(document["kept"])
    assert (kept / "store" / "journal.jsonl").exists()
    assert run(arguments) == 1
    shown = capsys.readouterr().out
    assert "acme/forgetful: NOT SOUND after 4 kills of 2 writers" in shown
    assert "  problem: " in shown


SECRETIVE = """
from perpetual_tinydb.store import open_store

def build(options, *, path):
    assert options["token"].reveal() == "s3cret"
    return open_store({"lock_timeout_s": 30.0}, path=path)
"""


def test_a_store_with_a_secret_is_killed_and_no_file_holds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_secretive.py").write_text(SECRETIVE)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = _run("acme_secretive:build", tmp_path, kills=1, writers=1, token=Secret("token", lambda: "s3cret"))
    assert (found.ok, found.problems) == (True, [])
    options = {"a": [{"b": Secret("token", lambda: "s3cret")}], "c": (1, None)}
    back = from_wire(json.loads(json.dumps(to_wire(options))))
    assert isinstance(back, dict)
    assert (back["a"][0]["b"].reveal(), back["c"]) == ("s3cret", [1, None])


@pytest.mark.slow
def test_a_check_with_suites_kills_writers_too(acme: None) -> None:
    found = call_in_scratch("store", "acme/forgetful", "acme_stores:forgetful", {})
    assert (found.ok, "is lost" in found.detail) == (False, True), found


@pytest.mark.slow
def test_a_commit_in_two_steps_is_torn_by_a_kill(acme: None, tmp_path: Path) -> None:
    found = _run("acme_stores:in_two_steps", tmp_path, kills=12, writers=2)
    assert any("is half there" in problem for problem in found.problems), found
    assert not found.ok


@pytest.mark.slow
def test_a_lock_that_outlives_its_holder_stops_the_storm(acme: None, tmp_path: Path) -> None:
    found = _run("acme_stores:lock_file", tmp_path, kills=20, writers=2)
    assert any("ended by itself with status 1" in problem and "the lock could not be had" in problem
               for problem in found.problems), found.problems  # fmt: skip
    assert not found.ok


def test_a_store_that_became_unreadable_is_named(acme: None, tmp_path: Path) -> None:
    (tmp_path / "site" / "acme_blind.py").write_text(
        "from acme_stores import TinyStore\n"
        "class Blind(TinyStore):\n    def rows(self, *a, **k): raise OSError('the disk is gone')\n"
        "def build(options, *, path): return Blind(path, lock_timeout_s=30.0)\n"
    )
    found = _run("acme_blind:build", tmp_path, kills=1, writers=1)
    assert found.problems == ["the store cannot be judged: OSError: the disk is gone"]


def test_a_store_without_a_disk_takes_one_writer_and_survives_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes one writer, not 2"):
        run_chaos(Target("twin", "acme/twin", "perpetual.testing.memory_store:build", {}), kills=1, writers=2)
    found = _run("perpetual.testing.memory_store:build", tmp_path, kills=2)
    assert found.writers == 1
    assert (found.acknowledged > 0, found.present, found.ok) == (True, 0, False)


def test_windows_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(chaos, "sys", _Windows())
    with pytest.raises(PerpetualError, match="Windows does not have") as caught:
        run_chaos(Target("x", "y", "z:z", {}), kills=1, folder=tmp_path)
    assert caught.value.exit == 1
    assert [*tmp_path.iterdir()] == []


class _Windows:
    platform = "win32"


# --- its end --------------------------------------------------------------------------------------------------------


@pytest.fixture
def storm(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A storm under way in another process, and its writers."""
    command = [sys.executable, "-m", "perpetual", "chaos", "--kills", "100000", "--writers", "2",
               "--folder", str(tmp_path)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert " of 100000 kills, " in process.stderr.readline()
    children = psutil.Process(process.pid).children()
    yield process, children
    process.kill()
    process.communicate()
    for child in children:
        with suppress(psutil.NoSuchProcess):
            child.kill()


@pytest.mark.slow
def test_ctrl_c_ends_every_writer(storm: tuple[subprocess.Popen[str], list[psutil.Process]], tmp_path: Path) -> None:
    process, children = storm
    assert children
    process.send_signal(signal.SIGINT)
    out, told = process.communicate(timeout=WAIT_S)
    assert (process.returncode, out) == (130, "")
    assert told.endswith("error: interrupted\n")
    _, alive = psutil.wait_procs(children, timeout=WAIT_S)  # one that has ended may wait for its new parent to notice
    assert alive == []
    assert [*tmp_path.iterdir()] == []


@pytest.mark.slow
def test_writers_end_with_an_engine_that_is_killed(
    storm: tuple[subprocess.Popen[str], list[psutil.Process]],
) -> None:
    process, children = storm
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=WAIT_S)
    assert alive == []
