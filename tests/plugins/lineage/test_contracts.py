"""The parts keep their slots' promises, and a cascade takes back exactly what derives from its source."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.api import PromotionStage
from perpetual.testing.gates import GateContract
from perpetual.testing.promotion_stages import PromotionStageContract
from perpetual_lineage import ancestry, folding, stages, withholder
from perpetual_recall.testing.withholders import WithholderContract
from perpetual_recall.withheld import Withholder


@pytest.mark.slow  # a project for each of its tests
class TestLineageStage(PromotionStageContract):
    @pytest.fixture
    def stage(self) -> PromotionStage:
        return stages.lineage({})


@pytest.mark.slow  # a project for each of its tests
class TestExpiryStage(PromotionStageContract):
    @pytest.fixture
    def stage(self) -> PromotionStage:
        return stages.expiry({})


class TestLineageGate(GateContract):
    factory = "perpetual_lineage.gates:lineage"
    judges_text = False


class TestTombstonesGate(GateContract):
    factory = "perpetual_lineage.gates:tombstones"
    judges_text = False


class TestRatesGate(GateContract):
    factory = "perpetual_lineage.gates:rates"
    judges_text = False


@pytest.mark.slow  # a project for each of its tests
class TestWithholder(WithholderContract):
    @pytest.fixture
    def withholder(self) -> Withholder:
        return withholder.build({})


@pytest.fixture(scope="module")
def connection() -> Iterator[sqlite3.Connection]:
    made = sqlite3.connect(":memory:", isolation_level=None)
    for table in folding.TABLES:
        made.execute(table)
    yield made
    made.close()


_SIZE = 9
_graphs = st.sets(st.tuples(st.integers(0, _SIZE - 1), st.integers(0, _SIZE - 1)).filter(lambda it: it[0] != it[1]))


def _dependents(edges: set[tuple[int, int]], roots: set[int], stops: set[int]) -> set[int]:
    """The notes below some roots, as the definition says: by following one edge at a time until nothing is new."""
    found: set[int] = set()
    while True:
        new = {low for low, high in edges if (high in roots or high in found) and low not in stops} - found
        if not new:
            return found
        found |= new


@given(edges=_graphs, roots=st.sets(st.integers(0, _SIZE - 1), min_size=1), vouched=st.sets(st.integers(0, _SIZE - 1)),
       missing=st.sets(st.integers(0, _SIZE - 1), max_size=2))  # fmt: skip
@settings(max_examples=150)
def test_exactly_the_transitive_dependents_lose_their_ground(
    connection: sqlite3.Connection, edges: set[tuple[int, int]], roots: set[int], vouched: set[int], missing: set[int]
) -> None:
    roots, vouched = roots - missing, vouched - roots
    connection.execute("DELETE FROM notes")
    connection.execute("DELETE FROM edges")
    present = [number for number in range(_SIZE) if number not in missing]
    for number in present:
        taken = 50 if number in roots else 0
        connection.execute(
            "INSERT INTO notes VALUES (?, '', 'note', 'candidate', ?, 0, 1, ?, '', ?, ?, 0, 0, 'wrong', NULL, '[]')",
            (str(number), number + 1, 60 if number in vouched else 0, taken, taken),
        )
    kept = {(low, high) for low, high in edges if low not in missing}
    connection.executemany("INSERT INTO edges VALUES (?, ?)", ((str(low), str(high)) for low, high in kept))
    wanted = _dependents(kept, roots, vouched)
    assert {int(path) for path in ancestry.lost(connection, map(str, present))} == wanted
    for number in present:
        assert (str(number) in ancestry.lost(connection, [str(number)])) == (number in wanted), "alone as with others"
    for number in {*present} - roots:
        would = {int(state.path) for state, _ in ancestry.follows(connection, str(number), 100)}
        assert would == _dependents(kept, {number}, set()) - {number}, "the preview names exactly these"
    for root in roots:
        below = {int(path) for path in ancestry.below(connection, str(root))}
        assert below == _dependents(kept, {root}, set()) - {root}


def test_long_lineages_are_bounded(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM notes")
    connection.execute("DELETE FROM edges")
    length = ancestry.MOST + 500
    connection.executemany(
        "INSERT INTO notes VALUES (?, '', 'note', 'candidate', ?, 0, 1, 0, '', ?, ?, 0, 0, 'wrong', NULL, '[]')",
        ((f"n{number}", number + 1, 9 * (number == 0), 9 * (number == 0)) for number in range(length)),
    )
    connection.executemany(
        "INSERT INTO edges VALUES (?, ?)", ((f"n{number + 1}", f"n{number}") for number in range(length - 1))
    )
    found = ancestry.lost(connection, [f"n{length - 1}", "n5000"])
    assert found["n5000"].source == "n0"
    assert "more than" in found[f"n{length - 1}"].why, "its ground is not known, so it is not offered"
    assert len(ancestry.below(connection, "n0")) == ancestry.MOST
