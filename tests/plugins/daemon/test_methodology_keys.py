"""Every key of the methodology acts while the daemon runs: its file is edited after a turn, and the next one differs.

The daemon turns by a strategy of the test, which is given the daemon's own lab and looks at what turns do there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

from perpetual import Lab
from perpetual.errors import NotPermitted, PerpetualError, Refused
from perpetual.lab.methodology import CODE_IGNORE, FILE, KEYS
from perpetual.loop import Cycle, cycle
from perpetual.records import Experiment, Run
from perpetual.testing.projects import trust_project
from perpetual.toolkit import yamlfile
from perpetual_daemon import daemon as daemons
from perpetual_daemon.strategy import DefaultLoop
from perpetual_digest import companion as digests
from perpetual_stoppers.judge import judge
from tests.support import LONG_S, until

OUT_OF_MEMORY = "sh -c 'echo torch.OutOfMemoryError: CUDA out of memory. >&2; exit 1'"
CURVE = """
import json, os, random, time
rng = random.Random(int(os.environ["PERPETUAL_SEED"]))
level = rng.gauss(0, 1)
with open(os.environ["PERPETUAL_METRICS"], "a") as file:
    for step in range(1, 21):
        while step == 11 and not os.path.exists("go"):
            time.sleep(0.01)
        line = {"step": step, "acc": level - 5 / step + rng.gauss(0, 0.01) * (1 - step / 20)}
        print(json.dumps(line), file=file, flush=True)
"""
SILENT = {"memory_write_on_completion": False, "auto_propose": False}  # which other rows are about
NOTHING = Cycle(0, (), (), (), (), (), (), 0, 0.0, 0.0, 0.0, None, None)  # that a turn has done
_names = count(1)


def _turn(lab: Lab) -> Cycle:
    """One turn, and the ends of what it has launched."""
    done = cycle(lab)
    if done.launched:
        lab.wait([*done.launched], timeout_s=LONG_S)
    return done


def _claim(lab: Lab, value: str = "1.5", *, approve: bool = True, **given: object) -> Experiment:
    """A claim of its own, with an experiment."""
    name = f"acc rises in way {next(_names)}"
    hypothesis = lab.hypotheses.add(name, metric="acc", direction="max", mde=0.1, baseline=1.0)
    command = given.pop("command", f"sh -c 'echo acc={value}$PERPETUAL_SEED'")
    design = {"noise": 0.05, "replicates": 2, "cost_run_hours": 0.001, "wall_s": 60.0, **given}
    made = lab.experiments.propose(hypothesis.id, command=command, **design)  # type: ignore[arg-type]
    return lab.experiments.approve(made.id) if approve else made


def _plain(lab: Lab, command: str, **given: object) -> Experiment:
    """An approved experiment without a claim, unlike any before."""
    design = {"config": {"n": next(_names)}, "wall_s": 60.0, **given}
    return lab.experiments.approve(lab.experiments.propose(command=command, **design).id)  # type: ignore[arg-type]


def _runs(lab: Lab, experiment: Experiment) -> list[Run]:
    return [run for run in lab.runs.list().items if run.experiment_id == experiment.id]


def _verdict(value: str) -> Callable[[Lab], str]:
    def look(lab: Lab) -> str:
        made = _claim(lab, value)
        _turn(lab)
        return lab.hypotheses.get(str(made.hypothesis_id)).status

    return look


def _flags(lab: Lab) -> tuple[str, ...]:
    made = _claim(lab)
    _turn(lab)
    return tuple(flag for flag in lab.hypotheses.get(str(made.hypothesis_id)).flags if flag == "established")


def _prior(lab: Lab) -> float:
    """The prior of what is asked after ten claims that are no better: a decided one, and nine copies of it."""
    if not lab.hypotheses.list().items:
        made = _claim(lab, "0.7")
        _turn(lab)
        with lab.context.store.transaction() as tx:
            for _ in range(9):
                tx.create("hypothesis", lab.context.need("hypothesis", str(made.hypothesis_id)).body)
    return lab.hypotheses.add(f"one like the others {next(_names)}").prior


def _first_taken(lab: Lab) -> float | None:
    """The declared cost of what one turn launches: of a cheap and a dear claim, of which the dear one teaches more."""
    _claim(lab, noise=0.08, cost_run_hours=0.001)
    _claim(lab, noise=0.04, cost_run_hours=0.5)
    (id,) = _turn(lab).launched
    return lab.experiments.get(lab.runs.get(id).experiment_id).design.cost_run_hours


def _next_of_two(lab: Lab) -> str:
    """What one turn launches: of a cheap claim that is worth most again, and a dear one that has had no turn."""
    if not lab.experiments.list().items:
        _claim(lab, replicates=8, cost_run_hours=0.001)
        _claim(lab, replicates=8, cost_run_hours=0.9)
    (id,) = _turn(lab).launched
    return lab.runs.get(id).experiment_id


def _is_drawn(lab: Lab) -> bool:
    _claim(lab)
    (id,) = _turn(lab).launched
    return "drawn at random to explore" in str(lab.experiments.get(lab.runs.get(id).experiment_id).score.reason)


def _proposals(lab: Lab) -> int:
    if not lab.experiments.list().items:
        lab.queue.set_state("paused")
        grid = lab.hypotheses.add(
            "acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0, params={"lr": [1, 2, 3, 4, 5, 6]}
        )
        made = lab.experiments.propose(grid.id, command="echo acc=1.5", noise=0.05, config={"lr": 1})
        lab.experiments.approve(made.id)
    return len(cycle(lab).proposed)


def _is_launched(lab: Lab) -> bool:
    _claim(lab, replicates=1)
    return bool(_turn(lab).launched)


def _why_not(lab: Lab) -> str | None:
    _claim(lab, replicates=1, command="sh -c 'sleep 0.1; echo acc=1.5'")
    done = _turn(lab)
    return done.reason or (done.paused and done.paused.partition(" until ")[0].partition(":")[0])


def _is_approved(lab: Lab) -> bool:
    made = _claim(lab, approve=False, cost_run_hours=0.5)
    _turn(lab)
    return lab.experiments.get(made.id).status != "proposed"


def _agent_approves(lab: Lab) -> bool:
    made = _claim(lab, approve=False)
    with pytest.MonkeyPatch.context() as under:
        under.setenv("CLAUDECODE", "1")
        with suppress(NotPermitted):
            lab.experiments.approve(made.id)
    return bool(_turn(lab).launched)


def _is_analysed(lab: Lab) -> str:
    made = _claim(lab)
    _turn(lab)
    cycle(lab)
    return lab.experiments.get(made.id).status


def _is_noted(lab: Lab) -> bool:
    before = len(lab.memory.list().items)
    _plain(lab, f"sh -c 'echo ValueError: number {next(_names)} >&2; exit 3'")
    _turn(lab)
    cycle(lab)
    return len(lab.memory.list().items) > before


def _is_shown(lab: Lab) -> str:
    if not lab.memory.list().items:
        lab.memory.write("notes/plain.md", "the data has 3 columns")
    try:
        return lab.memory.read("notes/plain.md", exposed_only=True)
    except PerpetualError as problem:
        return problem.code


def _at_once(lab: Lab) -> int:
    _claim(lab, replicates=3)
    return len(_turn(lab).launched)


def _may_ask(uses: Mapping[str, float]) -> Callable[[Lab], str]:
    """What becomes of a request to a model, as a thinker books it."""

    def look(lab: Lab) -> str:
        try:
            return str(lab.budget.debit(f"ask-{next(_names)}", uses))
        except Refused as problem:
            return problem.code

    return look


def _assumed_cost(lab: Lab) -> float:
    made = _claim(lab, cost_run_hours=None, replicates=1)
    _turn(lab)
    return round(lab.experiments.get(made.id).score.cost_run_hours or 0.0, 3)


def _reserved_s(lab: Lab) -> float:
    made = _plain(lab, "true", wall_s=None)
    _turn(lab)
    (run,) = _runs(lab, made)
    reserved = float(lab.context.store.find("debit", run_id=run.id)[0].body["run_hours"])
    return round(3600 * reserved, 3)


def _silence_s(lab: Lab) -> float | None:
    made = _plain(lab, "true")
    _turn(lab)
    return lab.experiments.get(made.id).resources.no_output_s


def _over_its_limit(lab: Lab) -> str:
    """What becomes of a run that goes on past its wall limit until that was noted."""
    (lab.root / "noted").unlink(missing_ok=True)
    made = _plain(lab, "sh -c 'while test ! -e noted; do sleep 0.02; done'", wall_s=0.2)
    (id,) = cycle(lab).launched
    while lab.runs.get(id).status == "running" and not lab.runs.get(id).annotations:
        cycle(lab)
    (lab.root / "noted").touch()
    lab.wait([id], timeout_s=LONG_S)
    return _runs(lab, made)[0].status


def _attempts(lab: Lab) -> int:
    made = _plain(lab, OUT_OF_MEMORY)
    _turn(lab)
    for _ in range(3):
        lab.wait([made.id], timeout_s=LONG_S)
        cycle(lab)
    return len(_runs(lab, made))


def _is_tainted(lab: Lab) -> bool:
    (lab.root / "score.py").write_text("print(1)")
    made = _plain(lab, "sh -c 'echo >>score.py'")
    _turn(lab)
    return _runs(lab, made)[0].tainted


def _edited(lab: Lab) -> int:
    """How many runs a turn launches of an experiment whose tracked code was changed since its approval."""
    git = ["git", "-C", str(lab.root), "-c", "user.name=a", "-c", "user.email=a@b"]
    code = lab.root / "model.cfg"
    if not code.exists():
        code.write_text("0")
        for words in (["init", "-q"], ["add", "model.cfg"], ["commit", "-qm", "one"]):
            subprocess.run([*git, *words], check=True)
    _plain(lab, "true")
    code.write_text(str(next(_names)))
    return min(len(_turn(lab).launched), 1)


def _is_copied(lab: Lab) -> bool:
    if not (lab.root / ".git").exists():
        subprocess.run(["git", "init", "-q", lab.root], check=True)
    return lab.experiments.get(_plain(lab, "true").id).resources.isolate


def _grace_s(lab: Lab) -> float:
    _plain(lab, "true")
    (id,) = _turn(lab).launched
    return float(lab.context.need("run", id).body["grace_s"])


def _digest_is_due(lab: Lab) -> bool:
    """Whether the companion `digest` has a digest to write, three hours after its first look."""
    hours = digests.interval_hours(lab)
    if hours is None:
        return False
    digests.write_due(lab, hours, datetime.now(UTC))
    _plain(lab, "true")
    _turn(lab)
    return digests.write_due(lab, hours, datetime.now(UTC) + timedelta(hours=3))


def _stopped_at(lab: Lab) -> float | None:
    """The step at which a baseline's fifth run is stopped early, which has come to half of its steps."""
    (lab.root / "curve.py").write_text(CURVE)
    made = _plain(lab, f"{sys.executable} -S curve.py", metric="acc", direction="max", replicates=5)
    claim = lab.hypotheses.add(f"acc rises in way {next(_names)}", metric="acc", direction="max", mde=1.0)
    lab.experiments.propose(claim.id, command=f"echo {next(_names)}", baseline=made.id)
    go = lab.root / "go"
    go.touch()
    lab.wait([lab.runs.launch(made.id)[0].id for _ in range(4)], timeout_s=LONG_S)
    go.unlink()
    (run,) = lab.runs.launch(made.id)
    until(lambda: "acc" in (found := lab.runs.curves(run.id)) and len(found["acc"].steps) == 10)
    judge(lab)  # as the daemon's companion does
    go.touch()
    lab.wait([run.id], timeout_s=LONG_S)
    stopped = lab.runs.get(run.id).stopped
    return None if stopped is None else stopped["step"]


def _now_quiet() -> str:
    now = datetime.now().astimezone()
    return f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M}"


class Row(NamedTuple):
    """Two values of a key, what to look at, and what is seen under each; `others` are keys that it needs."""

    first: object
    second: object
    look: Callable[[Lab], object]
    before: object
    after: object
    others: Mapping[str, object] = {}


ROWS: dict[str, Row] = {
    "exploration_strategy": Row("hypothesis_driven", "round_robin", _next_of_two, "e1", "e2",
                                {"max_concurrent_runs": 1}),
    "proposal_batch_size": Row(1, 3, _proposals, 1, 2, {"auto_propose": True}),
    "confidence_support_threshold": Row(0.8, 0.9999, _verdict("1.5"), "supported", "open"),
    "confidence_refute_threshold": Row(0.2, 0.0001, _verdict("0.7"), "refuted", "open"),
    "prior": Row("even", "empirical", _prior, 0.5, 0.25),
    "min_replicates": Row(2, 3, _verdict("1.5"), "supported", "open"),
    "require_confirmation": Row(False, True, _verdict("1.5"), "supported", "open"),
    "min_information_gain_bits": Row(0.01, 0.99, _is_launched, True, False, {"min_replicates": 1}),
    "explore_fraction": Row(0.0, 1.0, _is_drawn, False, True, {"max_concurrent_runs": 1}),
    "cost_exponent": Row(1.0, 0.0, _first_taken, 0.001, 0.5, {"max_concurrent_runs": 1}),
    "alpha": Row(None, 0.5, _flags, (), ("established",)),
    "auto_approve": Row(False, True, _is_approved, False, True),
    "auto_approve_max_run_hours": Row(None, 0.1, _is_approved, True, False, {"auto_approve": True}),
    "agents_may_approve": Row(False, True, _agent_approves, False, True),
    "auto_propose": Row(False, True, _proposals, 0, 3),
    "auto_analyze": Row(True, False, _is_analysed, "analysed", "complete"),
    "memory_write_on_completion": Row(False, True, _is_noted, False, True),
    "memory_exposure": Row("scanned", "promoted", _is_shown, "the data has 3 columns", "not_found"),
    "required_gates": Row(["immune"], ["immune", "acme"], _is_noted, True, False, {"memory_write_on_completion": True}),
    "max_concurrent_runs": Row(1, 2, _at_once, 1, 2),
    "max_run_hours": Row(0.01, None, _why_not, "budget_exhausted", None),
    "max_run_hours_per_day": Row(None, (60 + 0.05) / 3600, _why_not, None, "the day's run-hours are used up"),
    "max_calls_per_day": Row(None, 1, _may_ask({"calls": 1}), "True", "budget_of_day"),
    "max_tokens_per_day": Row(None, 1000, _may_ask({"tokens": 600}), "True", "budget_of_day"),
    "max_usd_per_day": Row(None, 0.1, _may_ask({"usd": 0.06}), "True", "budget_of_day"),
    "quiet_hours": Row(None, _now_quiet(), _why_not, None, "quiet hours"),
    "report_interval_hours": Row(None, 2.0, _digest_is_due, False, True),
    "default_cost_run_hours": Row(1.0, 4.0, _assumed_cost, 1.0, 4.0),
    "default_wall_s": Row(60.0, 90.0, _reserved_s, 60.0, 90.0),
    "no_output_s": Row(None, 9.0, _silence_s, None, 9.0),
    "on_overrun": Row("kill", "warn", _over_its_limit, "timeout", "done"),
    "auto_retry": Row([], ["oom"], _attempts, 1, 2),
    "max_attempts": Row(1, 2, _attempts, 1, 2, {"auto_retry": ["oom"]}),
    "protected_paths": Row([], ["score.py"], _is_tainted, False, True),
    "code_changes": Row(None, "allow", _edited, 0, 1),
    "code_ignore": Row([*CODE_IGNORE], [*CODE_IGNORE, "*.cfg"], _edited, 0, 1),
    "isolate": Row(False, True, _is_copied, False, True),
    "kill_grace_s": Row(10.0, 0.5, _grace_s, 10.0, 0.5),
    "stoppers.active": Row([], ["curve"], _stopped_at, None, 5.0, {"max_concurrent_runs": 5}),
    "stoppers.at": Row(0.25, 0.45, _stopped_at, 5.0, 9.0, {"max_concurrent_runs": 5, "stoppers.active": ["curve"]}),
}  # fmt: skip


def test_every_key_has_a_row(project: Path) -> None:
    with Lab.open(project) as lab:
        listed = {item.key for item in lab.config.methodology.items()}
    assert set(ROWS) == listed
    assert set(KEYS) < listed  # plugins bring some, too


@pytest.fixture
def root(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project whose runs have ended when the test is over; the disk is spared, since no process is killed here."""
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda descriptor: None)
    yield project
    with Lab.open(project) as lab:
        for run in lab.runs.live():
            lab.runs.kill(run.id, grace_s=0.0)


def _edit(root: Path, values: Mapping[str, object]) -> None:
    """Writes keys into the file, as an editor does, and accepts what is weaker than before."""
    for name, value in values.items():
        yamlfile.set_value(root / ".perpetual" / FILE, (name,), value)
    trust_project(root, like=root)


@pytest.mark.slow  # each key turns the loop twice
@pytest.mark.parametrize("key", ROWS)
def test_a_running_daemon_heeds_an_edited_key(key: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row, stop = ROWS[key], Event()
    seen: list[object] = []

    def turn(strategy: DefaultLoop, lab: Lab, **asked: object) -> Cycle:
        assert lab.config.methodology[key] == (row.second if seen else row.first)
        seen.append(row.look(lab))
        if len(seen) == 1:
            _edit(root, {key: row.second})
        else:
            stop.set()
        return NOTHING

    monkeypatch.setattr(DefaultLoop, "turn", turn)
    monkeypatch.setattr(daemons, "_SHORTEST_PAUSE_S", 0.0)  # the edit is there once the turn is over
    _edit(root, {**SILENT, **row.others, key: row.first})
    daemon = daemons.Daemon(daemons.Settings(interval_s=0.0))
    with Lab.open(root) as lab:
        daemon.run(lab, stop)
    assert daemon.end is not None
    assert (daemon.end.reason, daemon.end.cycles) == ("stop_requested", 2)
    assert seen == [row.before, row.after]


@pytest.mark.slow
def test_a_repeated_step_draws_the_same(root: Path) -> None:
    """Chance derives from the record, so what one turn would draw another process draws too."""
    _edit(root, {**SILENT, "explore_fraction": 0.5, "max_concurrent_runs": 1})
    with Lab.open(root) as lab:
        for n in range(4):
            _claim(lab, cost_run_hours=0.001 * 2**n, command=f"sh -c 'echo acc=1.5$PERPETUAL_SEED {n}'")
    shutil.copytree(root, root.parent / "twin")
    drawn = []
    for folder in (root, root.parent / "twin"):
        trust_project(folder, like=root)
        with Lab.open(folder) as lab:
            drawn.append([run.experiment_id for _ in range(3) for run in map(lab.runs.get, _turn(lab).launched)])
    assert drawn[0] == drawn[1]
    assert len({*drawn[0]}) > 1  # some were drawn, and the cheapest was not
