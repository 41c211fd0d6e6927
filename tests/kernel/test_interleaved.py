"""What another process does between a look at the record and the write that follows from it: the write heeds it.

The other process is a second `Lab` on the same project, with its own store. It acts at the one instant that matters: in
a part that the first lab calls there. Where the first lab holds the record's lock then, the other is told so at once.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, TransientError
from perpetual.lab import store_migration
from perpetual.lab.context import Context
from perpetual.lab.evidence.warnings import seen_before
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.methodology import Methodology
from perpetual.lab.proposals import Proposals
from perpetual.lab.runs import reconcile
from perpetual.records import Evidence, Experiment, Hypothesis, Run
from perpetual.slots.analyser import Analyser, Analysis, Draft, Proposer
from perpetual.slots.scheduler import Sighting
from perpetual.slots.store import StoreBase
from perpetual.toolkit import platform
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.units import finite
from perpetual_local.scheduler import LocalScheduler
from tests.faults.run_harness import LONG_S, approved, dead_process, until

Campaign = Callable[..., tuple[Hypothesis, Experiment]]
_CLAIM: dict[str, Any] = {"metric": "acc", "direction": "max", "mde": 0.1, "baseline": 1.0, "noise": 0.05}


@pytest.fixture
def other(lab: Lab) -> Iterator[Lab]:
    """Another process's lab, which does not wait for a record that is being written."""
    _ = lab.context.store  # opened with the patience that it has by default
    lab.settings.set_config("plugins.tinydb.lock_timeout_s", "0")
    with Lab.open(lab.root) as opened:
        yield opened


def _once(deed: Callable[[], object], part: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """The part, at whose first call the deed is done too, before it or after it."""
    waiting = [deed]

    def replaced(*arguments: Any, **named: Any) -> Any:
        if waiting and not after:
            waiting.pop()()
        answer = part(*arguments, **named)
        if waiting:
            waiting.pop()()
        return answer

    return replaced


def _refused(deed: Callable[[], object]) -> Callable[[], None]:
    """The deed, for which it is too early or too late: the record is being written."""

    def tried() -> None:
        with pytest.raises(TransientError):
            deed()

    return tried


# --- runs -----------------------------------------------------------------------------------------------------------


def test_a_run_that_comes_to_share_a_folder_is_known_at_measuring(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan that began before is no excuse for another run's number."""
    own = approved(lab, "while test ! -e go; do sleep 0.02; done", metric="acc")
    theirs = approved(lab, "echo '{\"acc\": 0.9}' > results.json", metric="acc")
    run = lab.runs.launch(own)[0]

    def meanwhile() -> None:
        second = other.runs.launch(theirs)[0]
        scheduler = other.part("scheduler")
        assert scheduler.wait(second.native_id, other.runs.log_dir(second.id), LONG_S).state == "ended"
        (lab.root / "go").touch()
        assert scheduler.wait(run.native_id, other.runs.log_dir(run.id), LONG_S).state == "ended"

    monkeypatch.setattr(reconcile, "look_at", _once(meanwhile, reconcile.look_at))
    lab.scan()
    assert lab.runs.get(run.id).metrics == {}
    assert lab.runs.get(run.id).shares_folder
    assert lab.storage.verify() == []


def test_the_canceller_of_a_run_is_known_at_measuring(lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no cause is sought in what its shell says of that."""
    run = lab.runs.launch(approved(lab, "echo Killed >&2; echo there; exec sleep 600"))[0]
    until(lab, run.id, "there")

    def meanwhile() -> None:
        document = other.context.need(RUN, run.id)
        with other.context.store.transaction() as tx:
            RunRecords(other.context).change(tx, document, {"cancelled_by": "somebody"})
        command = platform.identity_of(run.pid or 0)
        assert command is not None
        platform.signal_process(command, signal.SIGTERM)
        assert other.part("scheduler").wait(run.native_id, other.runs.log_dir(run.id), LONG_S).state == "ended"

    monkeypatch.setattr(LocalScheduler, "poll_many", _once(meanwhile, LocalScheduler.poll_many))
    lab.scan()
    ended = lab.runs.get(run.id)
    assert ended.status == "failed"
    assert not any(item["kind"] == "killed" for item in ended.annotations)


@pytest.mark.parametrize("state", ["absent", "running"])
def test_a_run_that_another_launcher_starts_by_now_is_left_to_it(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Its first launcher had died; another process has queued it again, and is about to start it."""
    lab.queue.set_state("paused")
    (run,) = lab.runs.launch(approved(lab, "true"))

    def launching(by: Lab, identity: platform.Identity | None) -> None:
        assert identity is not None
        with by.context.store.transaction() as tx:
            values = {"status": "launching", "launcher": list(identity)}
            RunRecords(by.context).change(tx, by.context.need(RUN, run.id), values)

    launching(lab, dead_process())
    stale = lab.context.need(RUN, run.id)
    launching(other, platform.identity_of(os.getpid()))
    if state == "absent":
        reconcile.back_to_queue(lab.context, stale, reconcile.no_changes())
    else:
        seen = Sighting("running", pid=os.getpid(), started_at="2026-01-01T00:00:00Z")
        reconcile.adopt(lab.context, stale, seen, reconcile.no_changes())
    assert lab.runs.get(run.id).status == "launching"
    launching(other, dead_process())


@pytest.mark.parametrize(("before", "after"), [("launching", "queued"), ("queued", "launching")])
def test_a_run_that_moves_while_it_is_looked_for_is_live_once(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    lab.queue.set_state("paused")
    (run,) = lab.runs.launch(approved(lab, "true"))

    def move(by: Lab, status: str) -> None:
        with by.context.store.transaction() as tx:
            RunRecords(by.context).change(tx, by.context.need(RUN, run.id), {"status": status})

    if before != "queued":
        move(lab, before)
    store = lab.context.store
    monkeypatch.setattr(store, "find", _once(lambda: move(other, after), store.find, after=True))
    assert [(item.id, item.status) for item in lab.runs.live()] == [(run.id, after)]


# --- verdicts -------------------------------------------------------------------------------------------------------


def test_a_fold_heeds_the_thresholds_of_now(lab: Lab, other: Lab, campaign: Campaign) -> None:
    """Whoever has the lab open since before a person set them would undo what they decided."""
    hypothesis, experiment = campaign()
    lab.wait([run.id for run in lab.runs.launch(experiment.id, every=True)], timeout_s=LONG_S)
    assert lab.hypotheses.get(hypothesis.id).status == "supported"
    other.settings.set_methodology("min_replicates", "3")
    assert other.hypotheses.get(hypothesis.id).status == "open"
    lab.evidence.add(hypothesis.id, verdict="supports", why="seen")
    assert lab.hypotheses.get(hypothesis.id).status == "open"
    assert other.storage.verify() == []


def test_the_feed_tells_what_a_key_was(lab: Lab, other: Lab) -> None:
    """And not what it had been when the lab was opened: yesterday's verdicts rest on it."""
    assert lab.config.methodology["min_replicates"] == 2
    other.settings.set_methodology("min_replicates", "3")
    lab.settings.set_methodology("min_replicates", "4")
    told = [event.payload for event in lab.events() if event.kind == "methodology_set"]
    assert told == [{"value": 3, "was": 2}, {"value": 4, "was": 3}]


def test_evidence_that_comes_during_a_check_is_no_difference(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = lab.hypotheses.add("acc rises").id
    store = lab.context.store

    def meanwhile() -> None:
        other.evidence.add(id, verdict="supports", why="seen")

    monkeypatch.setattr(store, "find", _once(meanwhile, store.find, after=True))
    assert lab.evidence.refold(check=True) == []
    assert lab.hypotheses.get(id).evidence_count == 1


def test_a_write_during_a_check_of_the_store_is_no_fault(lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.hypotheses.add("acc rises")
    store = lab.context.store
    monkeypatch.setattr(store, "slice", _once(_refused(lambda: other.hypotheses.add("loss falls")), store.slice))
    assert lab.storage.verify() == []


class _Words(Analyser):
    """Concludes what it is asked about; the first time somebody does something meanwhile."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile, self.asked = [meanwhile], list[tuple[str, str]]()

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> None:
        return None

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis:
        self.asked.append((hypothesis.id, hypothesis.status))
        if self.meanwhile:
            self.meanwhile.pop()()
        return Analysis(summary="", text=f"# {hypothesis.id} is {hypothesis.status}\n")


def _use(monkeypatch: pytest.MonkeyPatch, slot: str, part: object) -> None:
    parts = Context.parts
    monkeypatch.setattr(
        Context, "parts", lambda self, wanted: [("own", part)] if wanted == slot else parts(self, wanted)
    )


def test_a_reopened_hypothesis_is_not_concluded(lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for statement in ("acc rises", "loss falls"):
        lab.hypotheses.update(lab.hypotheses.add(statement).id, status="supported")
    words = _Words(lambda: other.hypotheses.update("h2", status="open"))
    _use(monkeypatch, "analyser", words)
    lab.loop.analyse()
    lab.loop.note()
    assert words.asked == [("h1", "supported")]
    assert [note.path.rpartition("/")[2] for note in lab.memory.list().items] == ["h1.md"]
    other.hypotheses.update("h2", status="refuted")
    lab.loop.analyse()
    lab.loop.note()
    assert words.asked == [("h1", "supported"), ("h2", "refuted")]


# --- proposals ------------------------------------------------------------------------------------------------------


def test_one_claim_that_two_propose_at_once_is_one_experiment(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = lab.hypotheses.add("acc rises").id

    def theirs() -> Experiment:
        return other.experiments.propose(id, command="true", **_CLAIM)

    monkeypatch.setattr("perpetual.lab.experiments.propose.seen_before", _once(_refused(theirs), seen_before))
    lab.experiments.propose(id, command="true", **_CLAIM)
    with pytest.raises(Conflict, match="tried before"):
        theirs()
    assert len(lab.experiments.list().items) == 1


class _Thinks(Proposer):
    """Has an idea for each hypothesis; while it thinks, somebody does something."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self.meanwhile = meanwhile

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        self.meanwhile()
        return [Draft(item.id, {"command": f"echo {item.id}", **_CLAIM}, "an idea") for item in hypotheses]


def test_the_loop_proposes_nothing_for_what_is_decided_by_now(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for statement in ("acc rises", "loss falls"):
        lab.hypotheses.add(statement)
    _use(monkeypatch, "proposer", _Thinks(lambda: other.hypotheses.update("h1", status="refuted")))
    made = [lab.experiments.get(id) for id in lab.loop.propose()]
    assert [item.hypothesis_id for item in made] == ["h2"]


def test_nothing_is_launched_while_it_is_decided_what_to_park(
    lab: Lab, other: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hypothesis is parked where nothing teaches enough: what is approved or started meanwhile would."""
    lab.settings.set_methodology("min_information_gain_bits", "1000")
    hypothesis, experiment = campaign()
    _, further = campaign(approve=False)
    deeds = [lambda: other.runs.launch(experiment.id), lambda: other.experiments.approve(further.id)]
    scored = Proposals.score
    tried = 0

    def score(self: Proposals, state: Any) -> Any:
        nonlocal tried
        for deed in deeds:
            _refused(deed)()
            tried += 1
        return scored(self, state)

    monkeypatch.setattr(Proposals, "score", score)
    assert hypothesis.id in lab.loop.launch().parked
    assert tried


# --- the store and the budget ---------------------------------------------------------------------------------------


def test_a_first_budget_replaces_none(lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    deed = _refused(lambda: other.budget.begin(5.0))
    monkeypatch.setattr("perpetual.lab.budget.finite", _once(deed, finite))
    assert lab.budget.begin(1.0)["limit_gpu_hours"] == 1.0
    with pytest.raises(Conflict):
        other.budget.begin(5.0)


def test_an_import_replaces_nothing_that_came_meanwhile(
    lab: Lab, other: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "record.jsonl"
    lab.storage.export_file(path)
    monkeypatch.setattr(store_migration, "move", _once(lambda: other.hypotheses.add("acc rises"), store_migration.move))
    with pytest.raises(Conflict, match="records of its own"):
        lab.storage.import_file(path)
    assert [item.statement for item in lab.hypotheses.list().items] == ["acc rises"]
    assert other.hypotheses.add("loss falls").id == "h2"  # and it stays where it was


def test_a_record_that_was_just_moved_is_not_moved_from_where_it_was(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.hypotheses.add("acc rises")

    def meanwhile() -> None:
        other.storage.migrate("sqlite")
        other.hypotheses.add("loss falls")

    monkeypatch.setattr(FileLock, "acquire", _once_at("moving.lock", meanwhile, FileLock.acquire))
    with pytest.raises(TransientError) as caught:
        lab.storage.migrate("sqlite")
    assert caught.value.code == "store_moved"
    assert len(lab.hypotheses.list().items) == 2
    assert lab.config["store"] == "sqlite"


def _once_at(name: str, deed: Callable[[], object], acquire: Callable[..., bool]) -> Callable[..., bool]:
    """Taking a lock, before which the deed is done the first time that it is the one of this name."""
    waiting = [deed]

    def replaced(self: FileLock, **given: Any) -> bool:
        if waiting and Path(self.path).name == name:
            waiting.pop()()
        return acquire(self, **given)

    return replaced


def test_a_store_that_is_moved_while_it_is_opened_is_not_written(
    lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.hypotheses.add("acc rises")
    with Lab.open(lab.root) as late:
        build = late.context.build_store

        def built(name: str, path: Path, **given: Any) -> StoreBase:
            store = build(name, path, **given)
            monkeypatch.undo()
            other.storage.migrate("sqlite")
            return store

        monkeypatch.setattr(late.context, "build_store", built)
        with pytest.raises(TransientError) as caught:
            late.hypotheses.add("loss falls")
        assert caught.value.code == "store_moved"
        assert late.hypotheses.add("loss falls").id == "h2"
    assert len(other.hypotheses.list().items) == 2


def test_no_empty_record_is_read_between_the_two_stores(lab: Lab, other: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.hypotheses.add("acc rises")
    assert len(other.hypotheses.list().items) == 1
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.append(len(other.hypotheses.list().items)))

    def step(name: str) -> None:
        if name == "move:aside":
            reader.start()
            reader.join(0.3)  # one that does not wait for the new store has answered by then

    monkeypatch.setattr(store_migration, "step", step)
    lab.storage.migrate("sqlite")
    reader.join(LONG_S)
    assert seen == [1]


def test_a_writer_between_the_two_stores_stops_no_migration(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes the lock of the store, for which it makes the folder, and is refused."""
    lab.hypotheses.add("acc rises")

    def step(name: str) -> None:
        if name == "move:aside":
            folder = lab.context.folder / store_migration.STORE
            folder.mkdir()
            with FileLock(folder / "lock"):
                assert not (folder / "journal.jsonl").exists()

    monkeypatch.setattr(store_migration, "step", step)
    assert lab.storage.migrate("sqlite")["to"] == "sqlite"
    assert lab.hypotheses.add("loss falls").id == "h2"
    assert lab.storage.verify() == []


def test_two_processes_that_create_a_project_at_once_create_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn for it, and every seed follows from that, is drawn once."""
    made: list[Lab] = []
    rival = threading.Thread(target=lambda: made.append(Lab.init(tmp_path, name="rival")))

    def meanwhile() -> None:
        rival.start()
        rival.join(0.3)  # one that does not wait has created its own by then

    monkeypatch.setattr(Methodology, "write_default", _once(meanwhile, Methodology.write_default))
    with Lab.init(tmp_path, name="first") as lab:
        rival.join(LONG_S)
        with made[0] as late:
            assert (late.config["project"], late.config["project_id"]) == ("first", lab.config["project_id"])


# --- what is compared with what -------------------------------------------------------------------------------------


def test_an_extension_that_is_a_baseline_moves_the_claims_compared_with_it(lab: Lab) -> None:
    """The record would say something else than the ledger until the hypothesis is folded for another reason."""

    def run(id: str) -> None:
        lab.wait([run.id for run in lab.runs.launch(id, every=True)], timeout_s=LONG_S)

    baseline = approved(lab, "echo acc=1.0$PERPETUAL_SEED", metric="acc", replicates=2)
    run(baseline)
    more = lab.experiments.approve(lab.experiments.propose(extends=baseline, replicates=2).id).id
    id = lab.hypotheses.add("acc rises").id
    claim = approved(lab, "echo acc=1.5$PERPETUAL_SEED", hypothesis_id=id, replicates=2, **{**_CLAIM, "baseline": more})
    run(claim)
    assert lab.hypotheses.get(id).confidence == 0.5
    run(more)
    assert lab.storage.verify() == []
    assert lab.hypotheses.get(id).confidence > 0.5
