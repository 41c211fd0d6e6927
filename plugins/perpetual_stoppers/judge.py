"""Judges live runs by the stoppers in force, and stops them.

from perpetual_stoppers.judge import judge

judge(lab, dry_run=True)["runs"]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from perpetual.api import Conflict, PerpetualError, UsageError, line
from perpetual.toolkit.contained import contained
from perpetual_stoppers.rule import why_not
from perpetual_stoppers.stopper import Stopper, StopState

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Run
    from perpetual_stoppers.documents import EarlyStop, JudgedRun

    Verdict = Literal["stopped", "would_stop", "goes_on", "not_yet", "past", "not_eligible"]

__all__ = ["ACTIVE", "AT", "Judge", "judge"]

ACTIVE, AT = "stoppers.active", "stoppers.at"
_TRIAL = "scorers.trial"  # rows of the experiments of sweeps
# Begins `of` in the settings of a campaign's arms, beside a commit. Unlike their tags, an approval binds it, and unlike
# the campaign's records, it is there where that plugin is left out.
_CAMPAIGN = "campaign:"
TOO_LATE = 0.8  # of its steps: beyond, a stop saves too little


def judge(lab: Lab, *, dry_run: bool = False, stoppers: Sequence[str] | None = None) -> EarlyStop:
    """Judges each live run once, and stops those that a stopper in force stops.

    Args:
        lab: whose live runs.
        dry_run: stop nothing.
        stoppers: their names, in the place of those of the methodology's `stoppers.active`.

    Raises:
        UsageError: if a name is none of a stopper.
    """
    return Judge(lab).judge(dry_run=dry_run, stoppers=stoppers)


class _Decided(NamedTuple):
    """Which stopper stops a run, and why; by none it goes on."""

    stopper: str | None
    why: str


class Judge:
    """Judges live runs again and again; each is decided once, at its rung."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._going_on: dict[str, str] = {}

    @property
    def active(self) -> list[str]:
        """Returns the names of the stoppers in force, by the methodology as it stands now."""
        return [str(name) for name in self._lab.config.methodology[ACTIVE]]

    def judge(self, *, dry_run: bool = False, stoppers: Sequence[str] | None = None) -> EarlyStop:
        """Judges as `judge` says; a run that goes on is not asked about again."""
        names = [*stoppers] if stoppers is not None else self.active
        at = float(self._lab.config.methodology[AT])
        parts = _parts(self._lab, names)
        live = [run for run in self._lab.runs.live() if run.status == "running"] if parts else []
        self._going_on = {run.id: why for run in live if (why := self._going_on.get(run.id)) is not None}
        return {"active": names, "at": at, "runs": [self._one(run, parts, at, dry_run=dry_run) for run in live]}

    def _one(self, run: Run, parts: Mapping[str, Stopper], at: float, *, dry_run: bool) -> JudgedRun:
        experiment = self._lab.experiments.get(run.experiment_id)
        found: JudgedRun = {
            "run_id": run.id, "experiment_id": run.experiment_id, "verdict": "not_eligible", "stopper": None,
            "why": "", "rung": None, "share_done": None, "complete": 0, "stopped": 0, "baseline_complete": 0,
        }  # fmt: skip
        beside = _search(self._lab, experiment)
        reason = None if beside else _not_eligible(experiment)
        if reason is not None:
            return {**found, "why": reason}
        try:
            rung = self._lab.runs.rung(run.id, share=at, beside=beside)
        except (Conflict, UsageError) as problem:
            return {**found, "why": problem.message}
        if rung is None:
            return {**found, "verdict": "not_yet", "why": "no complete runs of one length tell where its rung is"}
        found |= {
            "rung": rung.step, "share_done": rung.share_done, "complete": len(rung.complete),
            "stopped": len(rung.stopped), "baseline_complete": len(rung.others),
        }  # fmt: skip
        if run.id in self._going_on:
            return {**found, "verdict": "goes_on", "why": self._going_on[run.id]}
        if rung.value is None:
            return {**found, "verdict": "not_yet", "why": f"it has not come to step {rung.step:g}"}
        if rung.share_done > TOO_LATE:
            return {**found, "verdict": "past", "why": f"{rung.share_done:.0%} of its steps are done"}
        if rung.sort == "plain" and not beside:
            return {**found, "why": "it is of no claim, and no claim is compared with it: those are completed"}
        sort: Literal["claim", "baseline", "search"] = "search" if beside or rung.sort == "plain" else rung.sort
        state = StopState(sort, rung.value, rung.complete, rung.stopped, rung.others, rung.peers)
        decided = _decided(parts, state)
        found |= {"stopper": decided.stopper, "why": decided.why}
        if decided.stopper is None:
            self._going_on[run.id] = decided.why
            return {**found, "verdict": "goes_on"}
        if dry_run:
            return {**found, "verdict": "would_stop"}
        try:
            self._lab.runs.stop_early(run.id, step=rung.step, by=decided.stopper, why=decided.why, beside=beside)
        except (Conflict, UsageError) as problem:  # it has ended meanwhile, or another process has stopped it
            return {**found, "verdict": "goes_on", "why": problem.message}
        return {**found, "verdict": "stopped"}


def _parts(lab: Lab, names: Sequence[str]) -> dict[str, Stopper]:
    """Returns the stoppers of these names. Raises UsageError for a name that is none."""
    by_name: dict[str, Stopper] = {}
    for qualified, part in lab.parts("stopper") if names else ():
        by_name |= {qualified: part}
        by_name.setdefault(qualified.rpartition("/")[2], part)
    for name in names:
        if name not in by_name:
            raise UsageError(f"no stopper is called {name!r}", hint=f"one of {', '.join(sorted(by_name)) or 'none'}")
    return {name: by_name[name] for name in names}


def _search(lab: Lab, experiment: Experiment) -> list[str]:
    """Returns the experiments of the search that an experiment is of, at the same length of run; empty for no search.

    A sweep's runs are evidence of nothing: its winner is claimed, and tested on seeds of its own.
    """
    if experiment.design.claim is not None:
        return []
    try:
        trials = lab.records(_TRIAL)
        own = trials.find(experiment=experiment.id)
        return [str(row["experiment"]) for each in own for row in trials.find(sweep=each["sweep"], rung=each["rung"])]
    except PerpetualError:  # without the plugin that brings sweeps there is none
        return []


def _not_eligible(experiment: Experiment) -> str | None:
    """Returns why no run of an experiment is stopped early; None where one may be."""
    design = experiment.design
    if "commit" in experiment.config and str(experiment.config.get("of")).startswith(_CAMPAIGN):
        return "it is of a pair of a campaign, which needs both runs complete"
    if design.claim is not None and not isinstance(design.baseline, str):
        return "its baseline is a number, which has no curve"
    if design.confirmation:
        return "it is a confirmation, which is completed"
    if design.stop_rule:
        return f"it has a rule of its own by which its runs end: {design.stop_rule}"
    return None


def _decided(parts: Mapping[str, Stopper], state: StopState) -> _Decided:
    """Returns the first stopper that stops the run, if the rule allows it."""
    reason = why_not(state)
    if reason is not None:
        return _Decided(None, reason)
    troubles = []
    for name, part in parts.items():
        try:
            with contained():
                why = part.why(state)
        except Exception as problem:  # noqa: BLE001 - a stopper that fails stops nothing, and its trouble is shown
            troubles.append(f"{name} failed: {type(problem).__name__}: {problem}")
            continue
        if why:
            return _Decided(name, line(str(why)))
    return _Decided(None, line("; ".join(troubles)) if troubles else "no stopper in force stops it")
