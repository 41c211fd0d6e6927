"""From a command to its verdict: proposed, approved, run, weighed. What `perpetual try` calls.

from perpetual import Lab
from perpetual_try.trial import Trial, Wanted, answer, start

with Lab.open() as lab:
    id = Trial(lab, Wanted(command="python train.py --warmup", against="e1")).record()
    lab.wait([run.id for run in start(lab, id)])
    print(answer(lab, id)["sentence"])

The same change against the same baseline is one trial: proposing it again answers the experiment that there is, so
that nothing is tried until it works.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING, TypedDict

from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, UsageError, line, to_json, unknown
from perpetual.science.versions import baseline_to_renew, is_stale
from perpetual.science.wording import SURE, leans
from perpetual.toolkit.causes import reason_with_cause
from perpetual.toolkit.units import counted
from perpetual_cli.approval import needs
from perpetual_try.difference import difference, statement
from perpetual_try.version import Compared, compared, version_now

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Hypothesis, Run
    from perpetual_try.documents import Forecast, Measured, Smoke, Tried, TriedEffect, TryPlan

__all__ = [
    "MOST", "REPLICATES", "Ask", "Trial", "Wanted", "answer", "awaited", "extend", "ignores_seed",
    "is_unsure", "is_without_value", "members", "smoke", "start", "trial_of",
]  # fmt: skip

MOST = 12  # runs of a trial that goes on until it is decided
REPLICATES = 3
_MOST_REPLICATES = 400
_BASELINE_RUNS = 4  # with fewer hardly any number of runs against them decides
_GONE = ("rejected", "expired")
_POSITIONS = frozenset({"step", "epoch", "iter", "iteration", "time"})  # of a line of output: hardly ever its result
SEED_NOT_APPLIED = "seed not applied"  # the flag of runs that all measured the same
_LIVE = ("queued", "launching", "running")

Ask = Callable[[str, Sequence[str]], "str | None"]


class Needs(TypedDict):
    """What a run needs, as `lab.experiments.propose` takes it."""

    gpus: int
    gpu_memory_bytes: int | None
    cpus: int | None
    wall_s: float | None
    no_output_s: float | None
    memory_bytes: int | None
    nodes: int | None
    scheduler: str | None
    engine: Mapping[str, object] | None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is tried. What is None is as the baseline has it.

    Attributes:
        command: the changed command line.
        against: the experiment that it is compared with.
        mde: the smallest effect worth having; without it any improvement is claimed.
        changes: what differs on purpose beside the command: code, data or environment.
        anyway: runs although the comparison is known to be stale.
    """

    command: str
    against: str
    replicates: int = REPLICATES
    mde: float | None = None
    metric: str | None = None
    direction: str | None = None
    changes: str | None = None
    statement: str | None = None
    title: str | None = None
    notes: str = ""
    config: Mapping[str, object] | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    wall_s: float | None = None
    gpus: int | None = None
    tags: Sequence[str] = ()
    underpowered: bool = False
    anyway: bool = False


# --- what is tried ----------------------------------------------------------------------------------------------------


class Trial:
    """A wanted trial with all that the baseline says of it, checked; `record` writes it down.

    Attributes:
        plan: what would be tried, or what was tried before.
    """

    def __init__(self, lab: Lab, wanted: Wanted, *, key: str | None = None, ask: Ask | None = None) -> None:
        """Checks everything and writes nothing.

        Args:
            lab: of the baseline.
            wanted: what is tried.
            key: makes a second call with it answer what the first one made; by default the change itself is the key.
            ask: called with a question and the answers that there are, for what the baseline does not say.

        Raises:
            UsageError: where nothing differs, or metric or direction are not known.
            Conflict: where no run of the baseline can be compared with; its code is `stale` where they are of another
                version.
            PerpetualError: as `lab.experiments.propose` and `lab.runs.plan`.
        """
        self.lab, self.wanted, self._ask = lab, wanted, ask
        if not 1 <= wanted.replicates <= _MOST_REPLICATES:
            raise UsageError(f"--replicates takes 1 to {_MOST_REPLICATES}, not {wanted.replicates}")
        self.words = _split(wanted.command)
        self.base = _baseline(lab, wanted.against)
        self.metric = self._the_metric()
        self.direction = self._the_direction()
        self.env = {**self.base.env, **wanted.env}
        self.config = self.base.config if wanted.config is None else dict(wanted.config)
        self._version = version_now(lab, wanted.command, cwd=self.base.cwd, env=self.env,
                                    scheduler=self.base.resources.scheduler)  # fmt: skip
        self.compared = compared(lab, self.base, self.metric, self._version, wanted.changes)
        if not self.compared.runs:
            self._refuse_unmeasured()
        self.parts = self._difference()
        self._key, made, claim, self.is_new = self._rehearsed(key)
        if self.is_new:
            self._refuse_stale()
            if not lab.settings.withholds:
                self._check_place()
        self.plan = self._planned(made, claim)

    def record(self) -> str:
        """Records hypothesis and experiment, both or none, and returns the experiment's id.

        What was tried before is answered as it is.
        """
        if self.plan["experiment"] is not None:
            return self.plan["experiment"]
        with self.lab.together():
            return self._propose(self._key)[1].id

    def _refuse_unmeasured(self) -> None:
        names = self._measured_names()
        if names and self.metric not in names:
            raise UsageError(unknown("metric", self.metric, names), hint=f"perpetual runs --experiment {self.base.id}")
        if names:
            raise Conflict(f"no run of {self.base.id} counts", hint=f"perpetual runs --experiment {self.base.id}")
        raise Conflict(f"no run of {self.base.id} has measured {line(self.metric)} yet", hint=_first_runs(self.base))

    def _measured_names(self) -> list[str]:
        runs = self.lab.runs.list(status="done", experiment_id=self.base.id).items
        return [*{name: None for run in runs for name, value in run.metrics.items() if value is not None}]

    def _the_metric(self) -> str:
        known = self.wanted.metric or self.base.design.metric
        if known is not None:
            return known
        names = self._measured_names()
        results = [name for name in names if name not in _POSITIONS]
        if len(results) == 1:
            return results[0]
        if not names:
            raise Conflict(f"no run of {self.base.id} has measured anything yet", hint=_first_runs(self.base))
        asked = self._ask(f"which metric of {self.base.id} counts", names) if self._ask else None
        if asked is None:
            raise UsageError(
                f"{self.base.id} measured {', '.join(map(line, names[:8]))}", hint="--metric says which counts"
            )
        return asked

    def _the_direction(self) -> str:
        known = self.wanted.direction or (
            self.base.design.direction if self.metric == self.base.design.metric else None
        )
        if known is None:
            said = {item.prediction.direction for item in self.lab.hypotheses.list(limit=1000).items
                    if item.prediction.metric == self.metric and item.prediction.baseline == self.base.id}  # fmt: skip
            known = said.pop() if len(said) == 1 else None
        if known is None and self._ask is not None:
            known = self._ask(f"is {line(self.metric)} better at its max or its min", ("max", "min"))
        if known not in ("max", "min"):
            if known is not None:
                raise UsageError(f"a direction is max or min, not {known!r}", hint="--direction max")
            raise UsageError(f"whether more or less {line(self.metric)} is better is not known",
                             hint="--direction max, or --direction min")  # fmt: skip
        return known

    def _difference(self) -> list[str]:
        base, wanted = self.base, self.wanted
        found = difference(base.command or "", wanted.command, env=(base.env, self.env),
                           config=(base.config, self.config), changes=wanted.changes)  # fmt: skip
        meant = wanted.changes.split(",") if wanted.changes else []
        if len(found) > len(meant) or any(name in self.compared.differs for name in meant):
            return found
        if meant:
            hint = f"change it first; perpetual aa {base.id} tests it against itself"
            raise UsageError(f"the {meant[0]} is that of the runs of {base.id}: nothing differs", hint=hint)
        hint = (
            f"--changes {self.compared.stale[0]} if that is what you try"
            if self.compared.stale
            else f"change the command; perpetual aa {base.id} tests it against itself"
        )
        raise UsageError(f"this is the command of {base.id}: nothing differs", hint=hint)

    def _refuse_stale(self) -> None:
        """Raises Conflict where no run of the baseline is comparable with what would run now."""
        if not self.compared.stale or self.wanted.anyway:
            return
        aspects, base = " and ".join(self.compared.stale), self.base.id
        names = ", ".join(self.compared.names)
        were = f" ({names})" if names else ""
        raise Conflict(
            f"the {aspects} changed since the runs of {base}{were}: nothing could be decided",
            hint=f"perpetual rebaseline {base} runs it anew; --changes {','.join(self.compared.stale)} if that change "
            "is what you try; --anyway runs all the same",
            code="stale",
        )

    def _named(self, number: int) -> str:
        """Returns what names this trial: the same change of the same version against the same baseline has the same."""
        wanted, resources = self.wanted, to_json(self.base.resources)
        parts = [self.words, self.base.cwd, self.env, self.config, resources, wanted.wall_s, wanted.gpus, self.base.id,
                 self.metric, self.direction, wanted.changes, self._version]  # fmt: skip
        digest = sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]
        return f"try:{digest}" + (f":{number}" if number else "")

    def _statement(self) -> str:
        """Returns the hypothesis in words."""
        return self.wanted.statement or statement(self.parts, line(self.metric), self.direction, self.base.id)

    def resources(self) -> Needs:
        """Returns what a run needs: as the baseline's, but for what was said."""
        needed, wanted = self.base.resources, self.wanted
        return {
            "gpus": needed.gpus if wanted.gpus is None else wanted.gpus,
            "gpu_memory_bytes": needed.gpu_memory_bytes,
            "cpus": needed.cpus,
            "wall_s": needed.wall_s if wanted.wall_s is None else wanted.wall_s,
            "no_output_s": needed.no_output_s,
            "memory_bytes": needed.memory_bytes,
            "nodes": needed.nodes,
            "scheduler": needed.scheduler,
            "engine": needed.engine or None,
        }

    def _propose(self, key: str) -> tuple[Hypothesis, Experiment]:
        """Records hypothesis and experiment, or answers those that this key has made."""
        lab, wanted, base = self.lab, self.wanted, self.base
        claim = lab.hypotheses.add(
            self._statement(), metric=self.metric, direction=self.direction, mde=wanted.mde, baseline=base.id,
            tags=wanted.tags, idempotency_key=f"{key}:claim",
        )  # fmt: skip
        made = lab.experiments.propose(
            claim.id, command=wanted.command, title=wanted.title, notes=wanted.notes, config=self.config,
            cwd=base.cwd, env=self.env, tags=wanted.tags, metric=self.metric, direction=self.direction,
            mde=wanted.mde, baseline=base.id, kind=base.design.kind, claim="improves", changes=wanted.changes,
            items=base.design.items, underpowered=wanted.underpowered, replicates=wanted.replicates,
            idempotency_key=key, **self.resources(),
        )  # fmt: skip
        return claim, made

    def _check_place(self) -> None:
        """Raises what a launch would raise of the command, the folder, the machine and the budget."""
        with self.lab.together(undo=True):
            twin = self.lab.experiments.propose(
                config=self.config, cwd=self.base.cwd, env=self.env, replicates=self.wanted.replicates,
                **self.resources(),
            )  # fmt: skip
            try:
                self.lab.runs.plan(twin.id, command=self.wanted.command, every=True)
            except PerpetualError as problem:  # the twin is not recorded, and its id will be another's
                problem.message = re.sub(rf"\b{twin.id}\b", "the change", problem.message)
                problem.hint = problem.hint and re.sub(rf"\b{twin.id}\b", "ID", problem.hint)
                problem.args = (problem.message,)
                raise

    def _rehearsed(self, key: str | None) -> tuple[str, Experiment, Hypothesis, bool]:
        """Returns (key, experiment, hypothesis, is_new) as `propose` would make or find them; nothing is written."""
        for number in count():
            name = key or self._named(number)
            with self.lab.together(undo=True):
                claim, made = self._propose(name)
            try:
                is_new = self.lab.experiments.get(made.id).spec_hash != made.spec_hash
            except NotFound:
                is_new = True
            if is_new or key is not None or made.status not in _GONE:
                return name, made, claim, is_new
        raise AssertionError  # the numbers have no end

    def _planned(self, made: Experiment, claim: Hypothesis) -> TryPlan:
        design = made.design
        return {
            "experiment": None if self.is_new else made.id,
            "hypothesis": None if self.is_new else claim.id,
            "statement": claim.statement,
            "command": made.command or "",
            "cwd": made.cwd,
            "env": dict(made.env),
            "config": dict(made.config),
            "needs": needs(to_json(made)),
            "metric": design.metric or self.metric,
            "direction": design.direction or self.direction,
            "against": self.base.id,
            "mde": design.mde,
            "changes": design.changes,
            "replicates": design.replicates,
            "status": "new" if self.is_new else made.status,
            "stale": [*self.compared.stale],
            "forecast": _forecast(self.compared, made),
        }


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as problem:
        raise UsageError(
            f"the command cannot be read: {problem}", hint="quote it for the shell as a whole"
        ) from problem
    if not words:
        raise UsageError("the command is empty", hint="perpetual try 'python train.py --warmup' --against e1")
    return words


def _baseline(lab: Lab, id: str) -> Experiment:
    """Returns the experiment to compare with: of what extends or renews one, that one, whose runs are all used."""
    if not re.fullmatch(r"[eE]\d+", id.strip(), re.ASCII):
        raise UsageError(
            f"--against takes the id of an experiment, not {id!r}", hint="--against e1; perpetual experiments"
        )
    found = lab.experiments.get(id)
    for name in (found.extends, found.renews):
        found = lab.experiments.get(name) if name else found
    if found.renews:
        found = lab.experiments.get(found.renews)
    return found


def awaited(lab: Lab, against: str) -> list[str]:
    """Returns the live runs of a baseline of which none has measured anything yet: a trial has to wait for them."""
    base = _baseline(lab, against)
    runs = lab.runs.named([base.id])
    if any(value is not None for run in runs for value in run.metrics.values()):
        return []
    return [run.id for run in runs if run.status in _LIVE]


def _first_runs(base: Experiment) -> str:
    """Returns how the baseline comes to its first result; more runs of it may be none that is left to start."""
    if any(base.runs.get(status) for status in _LIVE):
        return f"perpetual wait {base.id}"
    if sum(base.runs.values()) >= base.design.replicates:
        return f"perpetual runs --experiment {base.id} says why; perpetual run 'COMMAND' --wait records a new baseline"
    return f"perpetual run {base.id} --all --wait"


def _forecast(found: Compared, made: Experiment) -> Forecast | None:
    lasted = [run.duration_s for run in found.runs if run.duration_s is not None]
    if not lasted:
        return None
    sizes = [run.max_rss_bytes for run in found.runs if run.max_rss_bytes is not None]
    hours = fmean(lasted) / 3600 * made.design.replicates
    return {
        "duration_s": fmean(lasted),
        "memory_bytes": max(sizes, default=None),
        "run_hours": hours * max(1, made.resources.gpus),
        "gpu_hours": hours * made.resources.gpus,
        "runs": len(lasted),
        "source": found.runs[0].experiment_id,
    }


# --- runs -------------------------------------------------------------------------------------------------------------


def start(lab: Lab, id: str) -> Sequence[Run]:
    """Approves the experiment, if it is proposed, starts every run that is missing, and returns the started ones.

    Raises:
        NotPermitted: for an agent: the proposal stays, for a person.
        Refused: if the budget does not hold a single one.
    """
    experiment = lab.experiments.get(id)
    if experiment.status in _GONE:
        raise Conflict(f"{experiment.id} is {experiment.status}", hint=f"perpetual experiments {experiment.id}")
    if experiment.status == "proposed":
        if lab.settings.withholds:
            raise NotPermitted(
                f"{experiment.id} is proposed; running it is for a person, by perpetual try {experiment.id}",
                hint="propose more, or end your turn",
                data={"experiment": experiment.id, "hypothesis": experiment.hypothesis_id},
            )
        with _unless(lambda: lab.experiments.get(experiment.id).status != "proposed"):
            lab.experiments.approve(experiment.id)
    if not _missing(lab, experiment):
        return ()
    with _unless(lambda: not _missing(lab, experiment)):
        return lab.runs.launch(experiment.id, every=True)
    return ()


def _missing(lab: Lab, experiment: Experiment) -> int:
    return experiment.design.replicates - len(lab.runs.named([experiment.id]))


@contextmanager
def _unless(done: Callable[[], bool]) -> Iterator[None]:
    """Ignores a Conflict where another process has done meanwhile what the block was to do."""
    try:
        yield
    except Conflict:
        if not done():
            raise


def extend(lab: Lab, id: str, replicates: int, *, key: str | None = None) -> str:
    """Proposes more runs of a trial, which are pooled with its own, and returns the new experiment's id.

    Raises:
        Conflict: if its hypothesis is decided for sure, it has runs of its own to run, or what would run now cannot be
            compared with the baseline's runs (`stale`).
    """
    root = trial_of(lab, id)
    _refuse_uncomparable(lab, root)
    return lab.experiments.propose(extends=root.id, replicates=replicates, idempotency_key=key).id


def _refuse_uncomparable(lab: Lab, root: Experiment) -> None:
    """Raises Conflict where more runs would count for nothing, as they would be of another version."""
    if not isinstance(root.design.baseline, str) or root.design.metric is None:
        return
    base = _baseline(lab, root.design.baseline)
    version = version_now(lab, root.command or "", cwd=root.cwd, env=root.env, scheduler=root.resources.scheduler)
    stale = compared(lab, base, root.design.metric, version, root.design.changes).stale
    if stale:
        raise Conflict(f"the {' and '.join(stale)} changed since the runs of {base.id}: more runs would not count",
                       hint=f"perpetual rebaseline {base.id} runs it anew", code="stale")  # fmt: skip


def trial_of(lab: Lab, id: str) -> Experiment:
    """Returns the experiment that an id of a trial, or of more runs of it, stands for.

    Raises:
        UsageError: for an experiment that claims nothing.
    """
    found = lab.experiments.get(id)
    found = lab.experiments.get(found.extends) if found.extends else found
    if found.hypothesis_id is None or found.design.claim is None:
        raise UsageError(f"{found.id} claims nothing", hint=f"perpetual run {found.id} --all --wait runs it; "
                         f"perpetual try 'COMMAND' --against {found.id} compares with it")  # fmt: skip
    return found


def members(lab: Lab, root: Experiment) -> list[Experiment]:
    """Returns a trial's experiments: itself, and what extends it and was not turned down."""
    cursor: str | None = None
    found = []
    while True:
        page = lab.experiments.list(hypothesis_id=root.hypothesis_id, limit=1000, cursor=cursor)
        found += [item for item in page.items if root.id in (item.id, item.extends) and item.status not in _GONE]
        cursor = page.next_cursor
        if cursor is None:
            return found


def smoke(trial: Trial, seconds: float, *, wait: Callable[[Sequence[str]], object] | None = None) -> Smoke:
    """Runs a trial's command for a short time as an exploration, which is evidence for nothing.

    Args:
        trial: what is tried; it need not be recorded.
        seconds: after which the run is ended.
        wait: called with the run's id, and returns once it has ended; by default `lab.wait`.
    """
    lab, found, needed = trial.lab, trial.plan, trial.resources()
    needed["wall_s"] = seconds
    made = lab.experiments.propose(
        command=found["command"], title=line(f"smoke run: {found['command']}")[:80], tags=("smoke",),
        config=found["config"], cwd=found["cwd"], env=found["env"], **needed,
    )  # fmt: skip
    started = start(lab, made.id)
    (wait or lab.wait)([started[0].id])
    run = lab.runs.get(started[0].id)
    return {
        "run_id": run.id,
        "status": run.status,
        "duration_s": run.duration_s,
        "memory_bytes": run.max_rss_bytes,
        "measured": run.metrics.get(found["metric"]) is not None,
    }


# --- the answer -------------------------------------------------------------------------------------------------------


def is_without_value(run: Run, metric: str | None) -> bool:
    """Returns whether a run ended without success, or without a value that counts."""
    return run.status != "done" or run.tainted or metric is None or run.metrics.get(metric) is None


def ignores_seed(found: Tried) -> bool:
    """Returns whether all runs measured the same, so that more of them would show no noise either."""
    return found["effect"] is not None and found["effect"]["low"] is None and SEED_NOT_APPLIED in found["flags"]


def is_unsure(found: Tried) -> bool:
    """Returns whether more runs might decide a trial, or make its support sure."""
    leaning = found["verdict"] == "supported" and leans(found["verdict"], found["false_alarm_bound"], found["effect"])
    return found["verdict"] == "open" or leaning


def answer(lab: Lab, id: str, *, tested: Smoke | None = None) -> Tried:
    """Returns what a trial has come to, in one sentence, with effect and interval.

    Args:
        id: of its experiment, or of more runs of it.
        tested: the smoke run before it.
    """
    root = trial_of(lab, id)
    found = lab.hypotheses.get(root.hypothesis_id or "")
    parts = members(lab, root)
    runs = [*lab.runs.named([item.id for item in parts])]
    metric = root.design.metric
    lacking = [run for run in runs if is_without_value(run, metric)]
    more = found.more_runs
    missing = sum(item.design.replicates for item in parts) - len(runs)
    return {
        "experiment": root.id,
        "hypothesis": found.id,
        "runs": [run.id for run in runs],
        "effect": _effect(found, [item.id for item in parts]),
        "verdict": found.status,
        "sentence": _sentence(found, runs, lacking),
        "statement": found.statement,
        "confidence": found.confidence,
        "false_alarm_bound": found.false_alarm_bound,
        "measured": [_measured(run, metric) for run in runs],
        "missing": missing,
        "more_runs": more,
        "flags": [*found.flags],
        "smoke": tested,
        "next": _next(found, root, lacking, more, missing),
    }


def _effect(found: Hypothesis, ids: Sequence[str]) -> TriedEffect | None:
    effect = found.effect
    if effect is None or not {*effect["experiments"]} & {*ids}:
        return None
    return {"value": effect["value"], "low": effect["low"], "high": effect["high"], "n": effect["n"],
            "n_baseline": effect["n_baseline"], "metric": effect["metric"]}  # fmt: skip


def _measured(run: Run, metric: str | None) -> Measured:
    value = run.metrics.get(metric) if metric is not None else None
    return {
        "run_id": run.id,
        "status": run.status,
        "value": value,
        "reason": reason_with_cause(run.reason, run.annotations),
    }


def _sentence(found: Hypothesis, runs: Sequence[Run], lacking: Sequence[Run]) -> str:
    if found.sentence:
        return found.sentence
    if not runs:
        return "Not measured: no run has started."
    live = [run for run in runs if run.status in _LIVE]
    if live:
        return f"Not measured yet: {counted(len(live), 'run')} {'is' if len(live) == 1 else 'are'} live."
    whys: dict[str, int] = {}
    for run in lacking:
        cause = reason_with_cause(run.reason, run.annotations)
        why = f"{run.status}, {line(cause)}" if cause else run.status
        whys[why] = whys.get(why, 0) + 1
    said = "; ".join(f"{counted(n, 'run')} {why}" for why, n in [*whys.items()][:3])
    return f"Not measured: {said or 'no run gave a value that counts'}."


def _next(found: Hypothesis, root: Experiment, lacking: Sequence[Run], more: int | None, missing: int) -> str | None:
    """Returns the command that goes on from here; None where nothing is left to do."""
    live = [run.id for run in lacking if run.status in _LIVE]
    if live:
        return f"perpetual wait {root.id}"
    if lacking:
        failed = lacking[-1]
        return f"perpetual logs {failed.id}" + (" --stderr" if failed.status == "failed" else "")
    if missing > 0:
        return f"perpetual try {root.id}"
    leaning = found.status == "supported" and leans(found.status, found.false_alarm_bound, found.effect)
    if found.status != "open" and not leaning:
        return None
    if is_stale(found.flags):
        renewed = baseline_to_renew(found.flags)
        return None if renewed is None else f"perpetual rebaseline {renewed}"
    if more is None:  # hardly any number of runs, unless the noise is not known yet, or the evidence is strong
        is_noise_known = found.effect is not None and found.effect["low"] is not None
        is_strong = leaning and found.false_alarm_bound is not None and found.false_alarm_bound <= 1 / SURE
        is_vain = (is_noise_known and not is_strong) or SEED_NOT_APPLIED in found.flags
        few = 0 if found.effect is None else found.effect["n_baseline"] or 0
        if is_vain and isinstance(root.design.baseline, str) and 0 < few < _BASELINE_RUNS:
            return f"perpetual propose --extends {root.design.baseline} --replicates {_BASELINE_RUNS} --approve --run"
        return None if is_vain else f"perpetual try --more {root.id} --replicates 1"
    return f"perpetual try --more {root.id} --replicates {more}"
