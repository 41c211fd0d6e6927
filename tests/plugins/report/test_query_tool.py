"""The row that agents are answered is the leaderboard's own, with fewer keys."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from perpetual.documents.ledger import Effect, Leaderboard, LeaderboardRow
from perpetual_report.query_tool import QueryAnswer, QueryEffect, QueryRow


@pytest.mark.parametrize(
    ("short", "whole", "reworded"),
    [
        (QueryEffect, Effect, set()),
        (QueryRow, LeaderboardRow, {"effect"}),
        (QueryAnswer, Leaderboard, {"schema", "items", "truncated"}),
    ],
)
def test_what_both_types_hold_is_the_same(short: type, whole: type, reworded: set[str]) -> None:
    said, meant = get_type_hints(short), get_type_hints(whole)
    assert said.keys() - meant.keys() <= {"schema", "truncated"}
    assert {name: kind for name, kind in said.items() if name not in reworded} == {
        name: meant[name] for name in said if name not in reworded
    }
