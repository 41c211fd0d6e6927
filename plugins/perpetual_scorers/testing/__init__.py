"""The contract suite of planners: the promises of `perpetual.science.planner` as tests.

class TestAcme(PlannerContract):
@pytest.fixture
def planner(self):
return acme.planner.build({})
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, cast

import pytest

from perpetual.api import Planner

if TYPE_CHECKING:
    from perpetual.lab.bodies import DesignBody

__all__ = ["PlannerContract", "design"]

RULE = {"support": 0.8, "refute": 0.2, "prior": 0.5, "least": 2}
BASELINE = [1.0, 1.1, 0.9, 1.05, 0.95, 1.02]  # sd 0.07
_LONGEST = 1000


def design(**more: object) -> DesignBody:
    """Returns the design of a claim on a baseline that was run, as the record has it."""
    given: dict[str, object] = {
        "metric": "acc", "direction": "max", "kind": "gaussian", "claim": "improves", "baseline": "e1", "mde": 0.5,
        "noise": None, "tau": 0.0, "paired": False, "replicates": 4, "null_effect": None, "items": None,
        "baseline_runs": None, "seeds": None, "guards": None, "changes": None,
    }  # fmt: skip
    return cast("DesignBody", given | more)


class PlannerContract:
    """For every planner."""

    @pytest.fixture
    def planner(self) -> Planner:
        """Returns what is tested; overridden."""
        raise NotImplementedError

    def test_what_has_a_fair_chance_is_not_refused(self, planner: Planner) -> None:
        """An effect of seven times the noise, with four runs against six."""
        found = planner.hopeless(design(), RULE, BASELINE, planned=6, replicates=4)
        assert found is None, "it refused a claim that four runs decide"

    def test_before_a_noise_is_known_nothing_is_refused(self, planner: Planner) -> None:
        """Of a baseline that has not run, or is a number, and without a declared noise."""
        for baseline, planned in (([], 6), (1.0, 0), ([1.0], 6)):
            found = planner.hopeless(design(mde=1e-6), RULE, baseline, planned=planned, replicates=4)
            assert found is None, f"it refused without a noise, at the baseline {baseline}"

    def test_the_same_gets_the_same(self, planner: Planner) -> None:
        """And leaves what it was given as it is."""
        given, rule, baseline = design(mde=1e-4), {**RULE}, [*BASELINE]
        before = deepcopy((given, rule, baseline))
        asked = [planner.hopeless(given, rule, baseline, planned=6, replicates=4) for _ in range(2)]
        assert (given, rule, baseline) == before, "it changed what it was given"
        said = [None if each is None else each.words(("e7", 1.25)) for each in asked]
        assert said[0] == said[1], "asked again, it answered otherwise"

    def test_a_refusal_is_two_printable_lines(self, planner: Planner) -> None:
        """With a number that could decide the claim in the hint."""
        found = planner.hopeless(design(mde=1e-4), RULE, BASELINE, planned=6, replicates=4)
        for words in () if found is None else (found.words(None), found.words(("e7", 1.25))):
            for text in words:
                assert 0 < len(text) <= _LONGEST, f"{text!r:.80} is no line"
                assert text.isprintable(), f"{text!r:.80} is not printable"
            assert any(letter.isdigit() for letter in words[1]), "the hint names no number"

    def test_what_is_learned_has_its_range(self, planner: Planner) -> None:
        """A correlation lies from 0 to 1, a variance above 0; of too little nothing is learned."""
        pairs = [[(float(n), n + 0.1 * (-1) ** n) for n in range(6)], [(1.0, -1.0), (-1.0, 1.0), (2.0, -2.0)]]
        correlation = planner.seed_correlation(pairs)
        assert correlation is None or 0 <= correlation <= 1, f"{correlation} is no correlation"
        effect = planner.measured_effect([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
        assert effect is None or effect[1] > 0, "a variance is above 0"
        gap = planner.stand_in([(1.0, 0.5, 0.1), (0.8, 0.4, 0.1), (1.2, 0.5, 0.1), (0.9, 0.6, 0.1)])
        assert gap is None or gap.tau >= 0, "an sd is not below 0"
        few = planner.seed_correlation([[(1.0, 1.0)]]), planner.measured_effect([1.0], [1.0]), planner.stand_in([])
        assert few == (None, None, None), "it learned from too little"
