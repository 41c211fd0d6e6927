"""The in-memory twin keeps the store's contract, and serves a whole lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Provider, hookimpl
from perpetual.errors import Conflict, TransientError
from perpetual.registry import Registry
from perpetual.testing.memory_store import InMemoryStore, build
from perpetual.testing.stores import StoreContract


class TestInMemoryStore(StoreContract):
    """The suite."""

    @pytest.fixture
    def store(self) -> InMemoryStore:
        """A fresh, empty store."""
        return InMemoryStore()


def test_a_lock_that_is_held_is_a_transient_error() -> None:
    from concurrent.futures import ThreadPoolExecutor

    store = InMemoryStore(lock_timeout_s=0.05)

    def late() -> None:
        with store.transaction():
            pass

    with store.transaction() as tx, ThreadPoolExecutor(1) as pool:
        tx.append("event", {})
        with pytest.raises(TransientError):
            pool.submit(late).result(10)
    late()


class _Plugin:
    @hookimpl
    def perpetual_stores(self) -> list[Provider]:
        return [Provider("store", "in-memory", "perpetual.testing.memory_store:build", "a store without a disk")]


def test_a_lab_lives_in_it(project: Path) -> None:
    registry = Registry(extra=[("twins", "memory", "1", _Plugin)])
    with Lab.open(project) as lab:
        lab.config.set("store", "in-memory")
    with Lab.open(project, registry=registry) as lab:
        hypothesis = lab.hypotheses.add("it works without a disk", metric="m", direction="max", mde=0.1, baseline=1.0)
        experiment = lab.experiments.propose(hypothesis.id, command="sh -c 'echo m=1.5$PERPETUAL_SEED'", replicates=2)
        lab.experiments.approve(experiment.id)
        runs = [run.id for run in lab.runs.launch(experiment.id, every=True)]
        assert lab.wait(runs, timeout_s=60) == dict.fromkeys(runs, "done")
        assert lab.hypotheses.get(hypothesis.id).confidence > 0.5
        # It takes one writer, so a second lab is refused and not given a record of its own.
        with pytest.raises(Conflict) as caught, Lab.open(project, registry=registry) as second:
            second.hypotheses.list()
        assert "twins/in-memory" in caught.value.message
    assert build({}, path=project).seq() == 0
