"""A proposal, an approval, a hypothesis and the status read as much of a large record as of a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from perpetual import Lab
from perpetual.api import StoreBase
from perpetual.lab.kinds import EXPERIMENT
from perpetual.lab.ledger.experiments import ExperimentRecords, command_key, spec_hash
from perpetual.records import to_json

if TYPE_CHECKING:
    from perpetual.lab.kinds import LabStore


@pytest.fixture(params=["tinydb", "sqlite"])
def lab(request: pytest.FixtureRequest, project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        if request.param != "tinydb":
            opened.storage.migrate(request.param)
        yield opened


def _store(lab: Lab) -> LabStore:
    return lab.context.store


def _rows_read(store: StoreBase, deed: Callable[[], object]) -> int:
    """How many rows the deed has read."""
    counted = 0
    read, slice = store.read, store.slice

    def one(kind: str, id: str) -> Any:
        nonlocal counted
        counted += 1
        return read(kind, id)

    def many(*arguments: Any, **more: Any) -> Any:
        nonlocal counted
        rows = slice(*arguments, **more)
        counted += len(rows)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "read", one)
        patch.setattr(store, "slice", many)
        deed()
    return counted


def _propose(lab: Lab, number: int, hypothesis: str = "h1", **more: Any) -> str:
    config = {"n": number}
    given = {"command": "python train.py", "config": config, "cost_run_hours": 0.1, **more}
    return lab.experiments.propose(hypothesis, **given).id


def _fill(lab: Lab, until: int) -> None:
    """More experiments like the first, written directly."""
    store = _store(lab)
    with store.transaction() as tx:
        first = tx.get(EXPERIMENT, "e1")
        assert first is not None
        for number in range(tx.count("experiment") + 1, until + 1):
            body = {**first.body, "config": {"n": number}, "title": f"n={number}"}
            tx.create("experiment", {**body, "spec_hash": spec_hash(body)})


def _deeds(lab: Lab, size: int) -> dict[str, Callable[[], object]]:
    return {
        "propose": lambda: _propose(lab, 2000 + size),
        "propose --dry-run": lambda: _propose(lab, 3000 + size, dry_run=True),
        "approve": lambda: lab.experiments.approve(f"e{size}"),
        "hypotheses add": lambda: lab.hypotheses.add(f"another {size}"),
        "status": lab.status,
    }


def test_a_proposal_reads_no_more_as_the_record_grows(lab: Lab) -> None:
    lab.hypotheses.add("it helps", metric="loss", direction="min", mde=0.1, baseline=1.0)
    _propose(lab, 1)
    read: dict[str, list[int]] = {}
    for size in (20, 200):
        _fill(lab, size)
        store = _store(lab)
        _propose(lab, 1000 + size)  # which indexes what was written directly
        for name, deed in _deeds(lab, size).items():
            read.setdefault(name, []).append(_rows_read(store, deed))
    slack = 20  # the newest ones that are not indexed yet
    grown = {name: counts for name, counts in read.items() if counts[1] > counts[0] + slack}
    assert not grown


def test_the_index_finds_what_a_look_at_all_finds(lab: Lab) -> None:
    lab.hypotheses.add("it helps", metric="loss", direction="min", mde=0.1, baseline=1.0)
    lab.hypotheses.add("another", metric="acc", direction="max", mde=0.1, baseline=1.0)
    for number in range(45):
        _propose(lab, number % 5, hypothesis=f"h{number % 2 + 1}", mde=0.1 + number / 100)
    bare = lab.experiments.propose("h1", title="a command comes later", config={"n": 0}, claim="none")
    for number in range(20):
        lab.experiments.propose(None, command="python train.py", config={"n": float(number)})
    with _store(lab).transaction() as tx:
        ExperimentRecords(lab.context).alike.keep(tx)
        document = tx.get(EXPERIMENT, bare.id)
        assert document is not None
        ExperimentRecords(lab.context).complete_spec(tx, document, "python  'train.py'")
    everything = _store(lab).find("experiment")
    assert _store(lab).get("fold", "alike") is not None
    for number in range(6):
        draft = to_json(lab.experiments.propose(None, command="python train.py", config={"n": number}, dry_run=True))
        wanted = [item.id for item in everything if command_key(item.body) == command_key(draft)]
        with Lab.open(lab.config.root) as fresh:
            for one in (lab, fresh):
                assert [item.id for item in ExperimentRecords(one.context).alike.of(draft)] == wanted
        assert (bare.id in wanted) == (number == 0)
