"""The bundled planner keeps the promises of its slot; the suite bites; one that raises ends the proposal in words."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from perpetual import Lab
from perpetual.api import Planner, PluginError, Provider, Refusal, hookimpl
from perpetual.registry import Registry
from perpetual_scorers.planner import PowerPlanner, build
from perpetual_scorers.testing import BASELINE, RULE, PlannerContract, design

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody

NAMES = [name for name, _ in inspect.getmembers(PlannerContract, inspect.isfunction) if name.startswith("test_")]


class TestPower(PlannerContract):
    """The bundled one."""

    @pytest.fixture
    def planner(self) -> Planner:
        return build({})


def test_it_refuses_what_is_hopeless() -> None:
    found = build({}).hopeless(design(mde=1e-4), RULE, BASELINE, planned=6, replicates=4)
    assert found is not None
    message, hint = found.words(("e7", 1.25))
    assert message == "4 replicates cannot decide an mde of 0.0001 in acc"
    assert "best known 1.25 (e7)" in hint


class Said:
    def __init__(self, *words: str) -> None:
        self._words = words[0], words[1]

    def words(self, best: tuple[str, float] | None) -> tuple[str, str]:
        return self._words


class Harsh(PowerPlanner):
    """Refuses all with fewer than ten runs."""

    def hopeless(self, design: DesignBody, *given: Any, **more: Any) -> Refusal | None:
        return Said("too few", "10 runs") if given[1] else None


class Rash(PowerPlanner):
    """Guesses a noise."""

    def hopeless(self, design: DesignBody, *given: Any, **more: Any) -> Refusal | None:
        return Said("too few", "10 runs") if (design["mde"] or 1) < 0.1 else None


class Moody(PowerPlanner):
    """Counts how often it was asked, and writes into the design."""

    asked = 0

    def hopeless(self, design: DesignBody, *given: Any, **more: Any) -> Refusal | None:
        self.asked += 1
        return Said("too few", f"{self.asked} runs") if (design["mde"] or 1) < 0.1 and given[1] == BASELINE else None


class Ragged(PowerPlanner):
    """Answers several lines, and no number."""

    def hopeless(self, design: DesignBody, *given: Any, **more: Any) -> Refusal | None:
        return Said("too few\n\x1b[2J", "more") if (design["mde"] or 1) < 0.1 and given[1] == BASELINE else None


class Wild(PowerPlanner):
    """Learns a correlation beyond 1."""

    def seed_correlation(self, claims: Iterable[Sequence[tuple[float, float]]]) -> float | None:
        return 1.5


TWINS = {
    "test_what_has_a_fair_chance_is_not_refused": Harsh,
    "test_before_a_noise_is_known_nothing_is_refused": Rash,
    "test_the_same_gets_the_same": Moody,
    "test_a_refusal_is_two_printable_lines": Ragged,
    "test_what_is_learned_has_its_range": Wild,
}


def test_there_is_a_twin_for_every_promise() -> None:
    assert sorted(TWINS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_twin_with_one_broken_promise_fails(name: str) -> None:
    getattr(PlannerContract(), name)(PowerPlanner())
    with pytest.raises(AssertionError):
        getattr(PlannerContract(), name)(TWINS[name]())


class Broken(PowerPlanner):
    def hopeless(self, *given: Any, **more: Any) -> Refusal | None:
        raise SystemExit("no licence")


def test_a_planner_that_ends_the_process_ends_the_proposal_alone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ModuleType("acme_planner")
    made.__dict__["perpetual_planners"] = hookimpl(optionalhook=True)(
        lambda: [Provider("planner", "acme", "acme_planner:build")]
    )
    made.__dict__["build"] = lambda options: Broken()
    monkeypatch.setitem(sys.modules, "acme_planner", made)
    with Lab.open(lab.root, registry=Registry(extra=[("acme", "planner", "1", lambda: made)])) as other:
        other.settings.set_config("slots.planner", "acme")
        claim = other.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
        with pytest.raises(PluginError, match="the planner failed, and nothing is proposed: PartEnded: SystemExit"):
            other.experiments.propose(claim.id, command="true", noise=0.1)
        assert other.experiments.list().items == ()


@pytest.fixture
def lab(project: Any) -> Any:
    with Lab.open(project) as opened:
        yield opened
