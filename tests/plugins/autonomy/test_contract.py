"""The contract of approvers: the bundled one keeps it, and the suite fails on each that breaks one promise."""

from __future__ import annotations

import inspect
import itertools
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_autonomy.approver import Approver, Codes
from perpetual_autonomy.earned import Earned
from perpetual_autonomy.testing import ApproverContract
from tests.plugins.autonomy.conftest import OWN
from tests.support import LONG_S

NAMES = [name for name, _ in inspect.getmembers(ApproverContract, inspect.isfunction) if name.startswith("test_")]


@pytest.mark.slow
class TestEarned(ApproverContract):
    """The bundled one, with a ceiling, for a proposer that has earned its right."""

    @pytest.fixture
    def approver(self, own: Callable[..., None], few: None) -> Earned:
        own({"baseline-run": {**OWN["claim-run"], "proposers": ["user:contract"], "code": "any"}})
        return Earned()

    def ready(self, lab: Lab) -> None:
        made = lab.experiments.propose(command="sleep 0", claim="none", cost_run_hours=0.001)
        lab.experiments.approve(made.id)
        lab.wait([run.id for run in lab.runs.launch(made.id)], timeout_s=LONG_S)
        lab.experiments.propose(command="sleep 0.0", claim="none", cost_run_hours=0.001)

    def test_it_approves_what_is_covered(self, approver: Earned, lab: Lab) -> None:
        codes = self._codes(approver, lab)
        with lab.transaction():
            assert approver.decide(lab, codes) == {"e4": "right:1"}


class Plain(Approver):
    """Keeps the contract: approves whatever has a command, and notes it."""

    def candidates(self, lab: Lab) -> Collection[str]:
        return [item.id for item in lab.experiments.list(status="proposed").items if item.command]

    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        for id in codes:
            lab.feed.emit("autonomy.approved", id, {"right": 1})
        return {id: self.name(id) for id in codes}

    def name(self, id: str) -> str:
        return "right:1"


class Invents(Plain):
    """Names what does not wait."""

    def candidates(self, lab: Lab) -> Collection[str]:
        return [*super().candidates(lab), "e99"]


class Oversteps(Plain):
    """Approves what it was not asked about."""

    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        return {**super().decide(lab, codes), **({"e2": "right:1"} if codes else {})}


class Masquerades(Plain):
    """Approves in a person's name."""

    def name(self, id: str) -> str:
        return "user:boss"


class Eager(Plain):
    """Approves the first proposal whatever it is asked about."""

    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        return {"e1": "right:1"}


class Moody(Plain):
    """Answers otherwise each time."""

    numbers = itertools.count()

    def name(self, id: str) -> str:
        return f"right:{next(self.numbers)}"


class Approves(Plain):
    """Approves by itself."""

    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        lab.experiments.approve_all([*codes])
        return dict.fromkeys(codes, "right:1")


class Untidy(Plain):
    """Leaves a variable behind."""

    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        os.environ["LEFT_BEHIND"] = "1"
        return super().decide(lab, codes)


BREAKS = {
    Invents: "test_it_names_proposals_that_wait",
    Oversteps: "test_it_decides_about_what_it_is_given",
    Masquerades: "test_it_decides_about_what_it_is_given",
    Eager: "test_it_decides_nothing_about_nothing",
    Moody: "test_it_answers_the_same_again",
    Approves: "test_it_changes_no_proposal",
    Untidy: "test_it_leaves_the_process_as_it_is",
}


@pytest.fixture
def contract_lab(tmp_path: Path) -> Callable[[], Lab]:
    numbers = itertools.count()

    def make() -> Lab:
        lab = Lab.init(tmp_path / str(next(numbers)), name="x", actor="user:contract")
        for command in ("true", None):
            lab.experiments.propose(command=command, claim="none", cost_run_hours=0.001)
        return lab

    return make


def failing(approver: Approver, make: Callable[[], Lab], names: Collection[str]) -> set[str]:
    suite, failed = ApproverContract(), set()
    for name in names:
        with make() as lab:
            try:
                getattr(suite, name)(approver, lab)
            except AssertionError:
                failed.add(name)
    return failed


@pytest.mark.slow
def test_the_plain_one_keeps_it(contract_lab: Callable[[], Lab]) -> None:
    assert failing(Plain(), contract_lab, NAMES) == set()


@pytest.mark.slow
@pytest.mark.parametrize("broken", BREAKS, ids=lambda one: one.__name__)
def test_a_broken_promise_is_seen(
    broken: type[Plain], contract_lab: Callable[[], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ)) if broken is Untidy else None
    assert BREAKS[broken] in failing(broken(), contract_lab, [BREAKS[broken]])
