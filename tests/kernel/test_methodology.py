"""The methodology: no key is decoration. Each is changed once, and something that can be seen must change with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Provider, hookimpl
from perpetual.errors import NotPermitted, PerpetualError, Refused, UsageError
from perpetual.lab.methodology import KEYS
from perpetual.records import Experiment
from perpetual.registry import Registry
from tests.decided import decided


def _run(lab: Lab, experiment: Experiment, count: int = 1) -> None:
    """Launches so many replicates, one after the other, and waits."""
    for _ in range(count):
        lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=30)


def _propose_grid(lab: Lab) -> None:
    hypothesis = lab.hypotheses.add(
        "acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0, params={"lr": [1, 2, 3, 4, 5, 6]}
    )
    pattern = lab.experiments.propose(
        hypothesis.id, command="echo acc=1.5", noise=0.05, cost_run_hours=0.5, config={"lr": 1}
    )
    lab.experiments.approve(pattern.id)


def _claim(lab: Lab, value: str = "1.5", **given: Any) -> str:
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    command = f"sh -c 'echo acc={value}$PERPETUAL_SEED'"
    given = {"noise": 0.05, "replicates": 2, "cost_run_hours": 0.001, **given}
    return lab.experiments.propose(hypothesis.id, command=command, **given).id


def _verdict(lab: Lab, value: str) -> str:
    experiment = lab.experiments.approve(_claim(lab, value))
    _run(lab, experiment, 2)
    return lab.hypotheses.get("h1").status


def _flags(lab: Lab) -> tuple[str, ...]:
    _verdict(lab, "1.5")
    return lab.hypotheses.get("h1").flags


def _copied(lab: Lab) -> bool:
    subprocess.run(["git", "init", "-q", lab.root], check=True)
    return lab.experiments.propose(command="true").resources.isolate


def _ranked(lab: Lab) -> str:
    """Which scorer is asked."""
    return type(lab.proposals.scorer).__name__


def _parked(lab: Lab) -> str:
    experiment = lab.experiments.approve(_claim(lab))
    launched = lab.loop.launch()
    lab.wait([experiment.id], timeout_s=30)
    return "parked" if launched.parked else "launched"


def _loop_approves(lab: Lab) -> int:
    _claim(lab, cost_run_hours=0.5)
    return len(lab.loop.approve())


def _agent_approves(lab: Lab) -> str:
    with pytest.MonkeyPatch.context() as under:
        under.setenv("CLAUDECODE", "1")
        try:
            return lab.experiments.approve(_claim(lab)).status
        except NotPermitted as problem:
            return problem.code


def _grid_proposals(lab: Lab) -> int:
    _propose_grid(lab)
    return len(lab.loop.propose())


def _analysed(lab: Lab) -> str:
    _verdict(lab, "1.5")
    return lab.experiments.get("e1").status


def _notes(lab: Lab) -> int:
    experiment = lab.experiments.approve(lab.experiments.propose(command="false").id)
    _run(lab, experiment)
    lab.loop.analyse()
    return len(lab.memory.list().items)


def _exposed(lab: Lab) -> str:
    lab.memory.write("notes/plain.md", "the data has 3 columns")
    try:
        return lab.memory.read("notes/plain.md", exposed_only=True)
    except PerpetualError as problem:
        return problem.code


def _written(lab: Lab) -> str:
    try:
        return str(lab.memory.write("notes/plain.md", "the data has 3 columns")["status"])
    except PerpetualError as problem:
        return problem.code


def _started(lab: Lab) -> list[str]:
    experiment = lab.experiments.approve(lab.experiments.propose(command="sleep 60", replicates=2, wall_s=60.0).id)
    return [run.status for run in lab.runs.launch(experiment.id, every=True)]


def _fits(lab: Lab) -> str:
    experiment = lab.experiments.approve(lab.experiments.propose(command="true", wall_s=3600.0).id)
    try:
        lab.runs.launch(experiment.id)
    except Refused as problem:
        return problem.code
    return "started"


def _assumed_cost(lab: Lab) -> float | None:
    return lab.experiments.get(_claim(lab, cost_run_hours=None)).score.cost_run_hours


def _assumed_wall(lab: Lab) -> float | None:
    return lab.experiments.propose(command="true").resources.wall_s


def _out_of_memory(lab: Lab) -> int:
    """How many attempts a run has had that ends for want of memory each time, after a few scans."""
    command = "sh -c 'echo torch.OutOfMemoryError: CUDA out of memory. >&2; exit 1'"
    experiment = lab.experiments.approve(lab.experiments.propose(command=command, wall_s=60.0).id)
    _run(lab, experiment)
    for _ in range(3):
        lab.wait([experiment.id], timeout_s=30)
        lab.scan()
    return len(lab.runs.list().items)


def _over_its_limit(lab: Lab) -> str:
    """What becomes of a run that goes on past its wall limit until somebody has taken note."""
    command = "sh -c 'while test ! -e noted; do sleep 0.02; done'"
    experiment = lab.experiments.approve(lab.experiments.propose(command=command, wall_s=0.2).id)
    run = lab.runs.launch(experiment.id)[0]
    while lab.runs.get(run.id).status == "running" and not lab.runs.get(run.id).annotations:
        lab.scan()
    (lab.root / "noted").touch()
    lab.wait([run.id], timeout_s=30)
    return lab.runs.get(run.id).status


def _touching(lab: Lab) -> bool:
    (lab.root / "score.py").write_text("print(1)")
    experiment = lab.experiments.approve(lab.experiments.propose(command="sh -c 'echo >>score.py'").id)
    _run(lab, experiment)
    return lab.runs.get("r1").tainted


def _assumed_silence(lab: Lab) -> float | None:
    return lab.experiments.propose(command="true").resources.no_output_s


def _grace(lab: Lab) -> int | None:
    """The signal that ends a process which needs a moment after TERM."""
    command = "sh -c 'trap \"sleep 0.7; exit 7\" TERM; echo ready; while :; do sleep 0.02; done'"
    experiment = lab.experiments.approve(lab.experiments.propose(command=command, wall_s=60.0).id)
    run = lab.runs.launch(experiment.id)[0]
    log = lab.root / run.log_dir / "stdout.log"
    for _ in range(500):
        if log.read_text():
            break
        lab.part("scheduler").wait(None, lab.root / run.log_dir, 0.02)
    return lab.runs.kill(run.id).signal


def _edited(lab: Lab) -> str:
    """What becomes of a run whose tracked code was changed since the approval."""
    git = ["git", "-C", str(lab.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    (lab.root / "model.cfg").write_text("one")
    for words in (["init", "-q"], ["add", "model.cfg"], ["commit", "-qm", "one"]):
        subprocess.run([*git, *words], check=True)
    experiment = lab.experiments.approve(lab.experiments.propose(command="true", wall_s=60.0).id)
    (lab.root / "model.cfg").write_text("two")
    try:
        return str(len(lab.runs.launch(experiment.id)[0].annotations))
    except NotPermitted as problem:
        return problem.code


def _prior_of_the_next(lab: Lab) -> float:
    decided(lab, [-0.211] * 10)
    return lab.hypotheses.add("one like the others").prior


def _booked(lab: Lab, **uses: float) -> str:
    try:
        lab.budget.debit("one", uses)
    except Refused as problem:
        return problem.code
    return "booked"


def _pauses(lab: Lab) -> bool:
    lab.experiments.approve(_claim(lab))
    return lab.loop.launch().paused is not None


def _knob(name: str) -> Callable[[Lab], object]:
    """What a scorer is given of a key; nothing at its default, where its own option holds."""
    return lambda lab: lab.proposals.state([], []).get(name)


_NOW = datetime.now().astimezone()
_AROUND_NOW = f"{_NOW - timedelta(hours=1):%H:%M}-{_NOW + timedelta(hours=2):%H:%M}"

# key -> (other keys that must be set for it to matter, the changed value, what to look at, before, after)
_KEYS: dict[str, tuple[dict[str, Any], Any, Callable[[Lab], Any], Any, Any]] = {
    "exploration_strategy": ({}, "coin", _ranked, "InformationGain", "Coin"),
    "proposal_batch_size": ({}, 1, _grid_proposals, 3, 1),
    "confidence_support_threshold": ({}, 0.9999, lambda lab: _verdict(lab, "1.5"), "supported", "open"),
    "confidence_refute_threshold": ({}, 0.0001, lambda lab: _verdict(lab, "0.7"), "refuted", "open"),
    "prior": ({}, "empirical", _prior_of_the_next, 0.5, 0.25),
    "min_replicates": ({}, 3, lambda lab: _verdict(lab, "1.5"), "supported", "open"),
    "require_confirmation": ({}, True, lambda lab: _verdict(lab, "1.5"), "supported", "open"),
    "min_information_gain_bits": ({"min_replicates": 1}, 0.99, _parked, "launched", "parked"),
    "explore_fraction": ({}, 1.0, _knob("explore_fraction"), None, 1.0),
    "cost_exponent": ({}, 0.0, _knob("cost_exponent"), None, 0.0),
    "alpha": ({}, 0.5, _flags, (), ("established",)),
    "auto_approve": ({}, True, _loop_approves, 0, 1),
    "auto_approve_max_run_hours": ({"auto_approve": True}, 0.1, _loop_approves, 1, 0),
    "agents_may_approve": ({}, True, _agent_approves, "not_permitted", "approved"),
    "auto_propose": ({}, False, _grid_proposals, 3, 0),
    "auto_analyze": ({}, False, _analysed, "analysed", "complete"),
    "memory_write_on_completion": ({}, False, _notes, 1, 0),
    "memory_exposure": ({}, "promoted", _exposed, "the data has 3 columns", "not_found"),
    "required_gates": ({}, ["immune", "acme"], _written, "candidate", "gate_missing"),
    "max_concurrent_runs": ({}, 1, _started, ["running", "running"], ["running", "queued"]),
    "max_run_hours": ({}, 0.5, _fits, "started", "budget"),
    "max_run_hours_per_day": ({}, 0.5, _fits, "started", "budget_of_day"),
    "max_calls_per_day": ({}, 1, lambda lab: _booked(lab, calls=2), "booked", "budget_of_day"),
    "max_tokens_per_day": ({}, 9, lambda lab: _booked(lab, tokens=10), "booked", "budget_of_day"),
    "max_usd_per_day": ({}, 0.1, lambda lab: _booked(lab, usd=0.2), "booked", "budget_of_day"),
    "quiet_hours": ({}, _AROUND_NOW, _pauses, False, True),
    "report_interval_hours": ({}, 6.0, lambda lab: lab.config.methodology["report_interval_hours"], None, 6.0),
    "default_cost_run_hours": ({}, 4.0, _assumed_cost, 1.0, 4.0),
    "default_wall_s": ({}, 77.0, _assumed_wall, 86400.0, 77.0),
    "no_output_s": ({}, 9.0, _assumed_silence, None, 9.0),
    "on_overrun": ({}, "warn", _over_its_limit, "timeout", "done"),
    "auto_retry": ({}, ["oom"], _out_of_memory, 1, 2),
    "max_attempts": ({"auto_retry": ["oom"]}, 3, _out_of_memory, 2, 3),
    "protected_paths": ({}, ["score.py"], _touching, False, True),
    "code_changes": ({}, "ask", _edited, "1", "code_changed"),
    "code_ignore": ({}, ["*.cfg"], _edited, "1", "0"),
    "isolate": ({}, True, _copied, False, True),
    "kill_grace_s": ({}, 0.0, _grace, None, 9),
}

_COIN = """
from perpetual.api import Score, Scorer

class Coin(Scorer):
    def score(self, state):
        return [Score(None, None, 1.0, "heads") for _ in state["candidates"]]

def build(options):
    return Coin()
"""


class _CoinPlugin:
    @hookimpl
    def perpetual_scorers(self) -> list[Provider]:
        return [Provider("scorer", "coin", "acme_coin:build", "tosses a coin")]


def test_every_key_of_the_methodology_has_a_case() -> None:
    assert set(_KEYS) == set(KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("key", _KEYS)
def test_every_key_of_the_methodology_changes_something(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others, changed, look, before, after = _KEYS[key]
    (tmp_path / "acme_coin.py").write_text(_COIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry(extra=[("acme", "coin", "1", _CoinPlugin)])
    seen = []
    for name, methodology in (("before", others), ("after", {**others, key: changed})):
        with Lab.init(tmp_path / name, methodology=methodology, project_id="fixed", registry=registry) as lab:
            assert lab.config.methodology[key] == methodology.get(key, lab.config.methodology[key])
            try:
                seen.append(look(lab))
            finally:
                for run in lab.runs.live():
                    lab.runs.kill(run.id, grace_s=0.0)
    monkeypatch.delitem(sys.modules, "acme_coin", raising=False)
    assert seen == [before, after]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("confidence_support_threshold", "confidence_refute_threshold"),
        ("confidence_refute_threshold", "confidence_support_threshold"),
    ],
)
def test_the_two_thresholds_do_not_meet(lab: Lab, first: str, second: str) -> None:
    lab.settings.set_methodology(first, "0.5")
    with pytest.raises(UsageError):
        lab.settings.set_methodology(second, "0.5")
