"""Numbers and texts that the record could not carry are mistakes of who gave them, from Python and over MCP too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import UsageError

_HUGE = 10**400  # no float; JSON carries it
_ENDLESS = 10**5000  # Python writes no such number as text
_DEEDS: dict[str, Callable[[Lab, Any], object]] = {
    "prior": lambda lab, value: lab.hypotheses.add("x", prior=value),
    "mde": lambda lab, value: lab.hypotheses.add("x", metric="m", direction="max", mde=value, baseline=1.0),
    "baseline": lambda lab, value: lab.hypotheses.add("x", metric="m", direction="max", mde=1.0, baseline=value),
    "noise": lambda lab, value: lab.experiments.propose(None, command="true", metric="m", noise=value),
    "cost": lambda lab, value: lab.experiments.propose(None, command="true", cost_run_hours=value),
    "priority": lambda lab, value: lab.experiments.propose(None, command="true", priority=value),
}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab.init(tmp_path / "project")


@pytest.mark.parametrize("value", [_HUGE, -_HUGE, _ENDLESS], ids=["huge", "low", "endless"])
@pytest.mark.parametrize("name", _DEEDS)
def test_a_number_beyond_all_floats_is_refused(lab: Lab, name: str, value: int) -> None:
    with lab, pytest.raises(UsageError):
        _DEEDS[name](lab, value)


def test_numbers_that_json_cannot_carry_are_refused(lab: Lab) -> None:
    with lab:
        with pytest.raises(UsageError, match=r"config.* bits, which JSON does not carry"):
            lab.experiments.propose(None, command="true", config={"a": [_ENDLESS]})
        with pytest.raises(UsageError, match="the idempotency key holds bytes that are no text"):
            lab.hypotheses.add("x", idempotency_key="\ud800")
        assert lab.experiments.propose(None, command="true", config={"a": _HUGE}).config == {"a": _HUGE}
