"""A cycle of the loop reads what bears on open claims, however long the history is, and chooses as if it read all."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.lab.experiments.related import Related
from perpetual.lab.kinds import EXPERIMENT
from perpetual.lab.ledger.experiments import ExperimentRecords, spec_hash
from perpetual.loop import cycle
from perpetual.slots.store import Document, Row, StoreBase

STORES = ("tinydb", "sqlite")


@pytest.fixture(params=STORES)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    with Lab.init(tmp_path / "lab", name="long", store=request.param) as opened:
        yield opened


# --- the cost ---------------------------------------------------------------------------------------------------------


class _Reads:
    """Counts the rows that a store hands out."""

    def __init__(self, store: StoreBase, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        for name in ("read", "slice", "scan", "changes"):
            monkeypatch.setattr(store, name, self._counted(getattr(store, name)))

    def _counted(self, read: Any) -> Any:
        def counted(*given: Any, **named: Any) -> Any:
            found = read(*given, **named)
            self.rows += len(found) if isinstance(found, list) else 1
            return found

        return counted


def _claim(lab: Lab, statement: str, baseline: str) -> str:
    hypothesis = lab.hypotheses.add(statement, metric="acc", direction="max", mde=0.1, baseline=baseline)
    made = lab.experiments.propose(hypothesis.id, command=f"echo {statement}", replicates=3, cost_run_hours=0.1)
    return made.id


def _with_history(lab: Lab, count: int) -> None:
    """Adds decided claims of one experiment and one run each, all compared with one baseline, and two open ones."""
    base = lab.experiments.propose(command="echo base", metric="acc", direction="max", replicates=1, cost_run_hours=0.1)
    _claim(lab, "pattern", base.id)
    store = lab.context.store
    run: dict[str, object] = {"status": "done", "replicate": 1, "analysed": True, "metrics": {"acc": 0.5}, "seed": 1}
    run |= {"gpus": [], "ended_at": lab.context.now(), "tainted": False, "reason": None}
    with store.transaction() as tx:
        like, claim = tx.get("hypothesis", "h1"), tx.get("experiment", "e2")
        assert like is not None
        assert claim is not None
        for number in range(count):
            hypothesis = tx.create("hypothesis", {**like.body, "status": "supported"})
            body = {**claim.body, "command": f"echo {number}", "hypothesis_id": hypothesis.id, "status": "analysed"}
            made = tx.create("experiment", {**body, "runs": {"done": 1}, "spec_hash": spec_hash(body)})
            tx.create("run", {**run, "experiment_id": made.id, "hypothesis_id": hypothesis.id})
    lab.experiments.reject("e2", "a pattern")
    lab.hypotheses.update("h1", status="refuted")
    for statement in ("one", "two"):
        _claim(lab, statement, base.id)


def test_a_cycle_reads_as_much_after_a_long_history_as_after_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = {}
    for count in (250, 1_000):  # both beyond the newest experiments from which the scorer learns
        with Lab.init(tmp_path / str(count), name="long", store="sqlite") as opened:
            _with_history(opened, count)
            opened.settings.set_methodology("proposal_batch_size", "20")  # so that proposers are asked each time
            for _ in range(2):  # the first one fills what is kept in the process
                assert cycle(opened, waits_on=["queue_empty", "waiting_for_approval"]).open == 2
            seen = _Reads(opened.context.store, monkeypatch)
            opened.hypotheses.update("h1", tags=["seen"])
            done = cycle(opened, waits_on=["queue_empty", "waiting_for_approval"])
            assert done.reason == "waiting_for_approval"
            with opened.context.store.transaction():  # as launching does
                opened.context.store.page("experiment", limit=20, newest_first=True)
            reads[count] = seen.rows
    assert 0 < reads[1_000] <= reads[250] + 10, reads


# --- the choice -------------------------------------------------------------------------------------------------------


def _random_row(draw: random.Random, like: Mapping[str, Any], count: int, hypotheses: int) -> dict[str, object]:
    others = [f"e{number}" for number in range(1, count + 1)]
    claims = draw.random() < 0.7
    design = {
        **like["design"],
        "claim": "improves" if claims else None,
        "baseline": draw.choice([*others, 0.5, None]) if claims else draw.choice([None, *others[:2]]),
        "proxy_of": draw.choice(others) if draw.random() < 0.2 else None,
        "proxy": {"args": "--short", "tau": 0.1, "cost_run_hours": 0.01} if draw.random() < 0.3 else None,
        "replicates": draw.choice([1, 2, 3]),
    }
    body = {
        **like,
        "command": draw.choice(["echo a", "echo b", "echo c", "echo a --short", "echo b --short"]),
        "hypothesis_id": draw.choice([None, *(f"h{number}" for number in range(1, hypotheses + 1))]),
        "status": draw.choice(["proposed", "approved", "complete", "analysed", "analysed", "rejected"]),
        "runs": {"done": draw.choice([0, 1, 2])},
        "design": design,
    }
    if draw.random() < 0.2:
        body["extends"] = draw.choice(others)
    return {**body, "spec_hash": spec_hash(body)}


def _written(lab: Lab, draw: random.Random, like: Mapping[str, Any], edits: float = 0.3) -> None:
    with lab.transaction(), lab.context.store.transaction() as tx:
        count = tx.count("experiment")
        if draw.random() < edits:  # as an edit before its first run
            id = f"e{draw.randint(2, count)}" if count > 1 else "e1"
            found = tx.get("experiment", id)
            assert found is not None
            tx.put("experiment", id, {**_random_row(draw, like, count, 6), "id": id})
            ExperimentRecords(lab.context).alike.keep(tx, at_once=True)
            ExperimentRecords(lab.context).alike.moved(tx, lab.context.need(EXPERIMENT, id))
        else:
            tx.create("experiment", _random_row(draw, like, count, 6))


def _users(lab: Lab, id: str) -> set[str | None]:
    rows = lab.context.store.find("experiment")
    return {row.body["hypothesis_id"] for row in rows if row.body["design"]["baseline"] == id}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_what_bears_on_open_claims_gives_the_same_drafts_as_all_experiments(lab: Lab, seed: int) -> None:
    draw = random.Random(seed)
    for number in range(6):
        lab.hypotheses.add(f"acc rises {number}", metric="acc", direction="max", mde=0.1, baseline=0.5)
    lab.experiments.propose("h1", command="echo a", replicates=2, cost_run_hours=0.1)
    like = lab.context.need("experiment", "e1").body
    related = Related(lab.context)
    for _ in range(5):
        for _ in range(8):
            _written(lab, draw, like)
        with lab.together(undo=True):  # what is rolled back leaves nothing
            _written(lab, draw, like, edits=0.0)
            related.users("e1")
        opened = [lab.hypotheses.get(f"h{number}") for number in draw.sample(range(1, 7), 2)]
        everything = [lab.experiments.get(row.id) for row in lab.context.store.find("experiment")]
        bearing = [lab.experiments.get(row.id) for row in related.bearing_on(item.id for item in opened)]
        assert [item.id for item in everything if item in bearing] == [item.id for item in bearing]
        for name, proposer in lab.parts("proposer"):
            assert proposer.drafts(opened, bearing) == proposer.drafts(opened, everything), name
        for item in everything:
            assert related.users(item.id) == _users(lab, item.id), item.id


def _plain_page(found: list[Document], limit: int, after: int, *, newest_first: bool) -> list[str]:
    ordered = [*reversed(found)] if newest_first else found
    beyond = [item for item in ordered if not after or (item.number < after if newest_first else item.number > after)]
    return [item.id for item in beyond[:limit]]


@pytest.mark.parametrize("newest_first", [False, True])
def test_a_page_inside_a_transaction_holds_what_it_has_written(lab: Lab, newest_first: bool) -> None:
    store, draw = lab.context.store, random.Random(7)
    with store.transaction() as tx:
        for _ in range(20):
            tx.create("hypothesis", {"status": draw.choice(["open", "parked"])})
    with lab.together(undo=True), store.transaction() as tx:
        for number in draw.sample(range(1, 21), 8):
            changed: Row = {"id": f"h{number}", "status": draw.choice(["open", "parked"])}
            tx.put("hypothesis", f"h{number}", changed)
        for _ in range(4):
            tx.create("hypothesis", {"status": draw.choice(["open", "parked"])})
        for equals in ({}, {"status": "open"}):
            for limit in (1, 3, 10, 50):
                for after in (0, 4, 17, 22):
                    page = store.page(
                        "hypothesis", limit=limit, cursor=str(after) if after else None, newest_first=newest_first,
                        **equals,
                    )  # fmt: skip
                    found = store.find("hypothesis", **equals)
                    wanted = _plain_page(found, limit, after, newest_first=newest_first)
                    assert [item.id for item in page.items] == wanted, (equals, limit, after)
                    rest = _plain_page(found, limit + 1, after, newest_first=newest_first)
                    assert (page.next_cursor is not None) == (len(rest) > limit)
