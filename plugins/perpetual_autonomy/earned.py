"""The approver `earned`: approves what a right in force covers, inside the user's ceilings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from perpetual_autonomy.approver import PREFIX, Approver, Codes
from perpetual_autonomy.ceilings import Ceiling, ceilings
from perpetual_autonomy.covers import Known, worst_hours
from perpetual_autonomy.history import History, action_of, experiment_of
from perpetual_autonomy.ledger import USE, day_now, used_of_day
from perpetual_autonomy.rights import Right, is_agent, note_changes

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment

__all__ = ["Earned", "build"]

_ROUNDING = 1e-9  # of sums of run-hours


class Earned(Approver):
    """Approves by rights; see `perpetual_autonomy.rights`. Under a coding agent's shell it approves nothing."""

    def __init__(self) -> None:
        self._history = History()
        self._known: tuple[int, Known] | None = None  # as of an event

    def candidates(self, lab: Lab) -> Collection[str]:
        """Returns the proposals of proposers whose right is in force, and that fit below its ceiling."""
        limits = _limits(lab)
        if not limits:
            return ()
        rights = {right.pair: right for right in note_changes(lab, self._history, limits) if right.in_force}
        if not rights:
            return ()
        found = {item.id for item in lab.experiments.all(status="proposed") if _fits(lab, item, rights) is not None}
        if found:
            self._approved(lab, anew=True)  # before the transaction: it reads every experiment
        return found

    def _approved(self, lab: Lab, *, anew: bool) -> Known:
        """Returns what persons have approved; with `anew` as of now."""
        last = lab.feed.last()
        if self._known is None or (anew and self._known[0] != last):
            self._known = last, Known(lab)
        return self._known[1]

    def decide(self, lab: Lab, codes: Codes) -> Mapping[str, str]:
        """Returns the names of the rights by which the proposals are approved, and books their hours."""
        limits = _limits(lab)
        rights = {right.pair: right for right in note_changes(lab, self._history, limits) if right.in_force}
        day = day_now(lab)
        known, used, found = self._approved(lab, anew=False), dict[str, float](), dict[str, str]()
        room = _Room(lab)
        for id, code in codes.items():
            item = experiment_of(lab, id)
            fit = None if item is None else _fits(lab, item, rights)
            if item is None or fit is None or known.problem(item, code, fit[1].code) is not None:
                continue
            right, ceiling, hours = fit
            action = right.pair[1]
            if action not in used:
                used[action] = used_of_day(lab, action, day)
            if used[action] + hours > ceiling.run_hours_per_day + _ROUNDING or not room.takes(item, hours):
                continue
            used[action] += hours
            number = int(right.number or 0)
            lab.records(USE).append(experiment=id, spec_hash=item.spec_hash, proposer=right.pair[0], action=action,
                                    right=number, run_hours=hours, day=day)  # fmt: skip
            lab.feed.emit("autonomy.approved", id, {"right": number, "proposer": right.pair[0], "action": action,
                                                    "run_hours": hours, "day": day})  # fmt: skip
            found[id] = f"{PREFIX}{number}"
        return found


class _Room:
    """What the budget leaves, less what is approved meanwhile."""

    def __init__(self, lab: Lab) -> None:
        self._run_hours = lab.budget.room_run_hours()
        self._gpu_hours = lab.budget.totals()["left_gpu_hours"]

    def takes(self, item: Experiment, hours: float) -> bool:
        """Returns whether the hours fit, and takes them."""
        gpu_hours = hours if item.resources.gpus else 0.0
        runs, gpus = self._run_hours, self._gpu_hours
        if (runs is not None and hours > runs + _ROUNDING) or (gpus is not None and gpu_hours > gpus + _ROUNDING):
            return False
        self._run_hours = None if runs is None else runs - hours
        self._gpu_hours = None if gpus is None else gpus - gpu_hours
        return True


def _limits(lab: Lab) -> dict[str, Ceiling]:
    """Returns the ceilings in force: none for an agent, whose environment may name another configuration."""
    return {} if lab.trust.state() == "held" or is_agent(lab) else ceilings(lab)


def _fits(lab: Lab, item: Experiment, rights: Mapping[tuple[str, str], Right]) -> tuple[Right, Ceiling, float] | None:
    """Returns the right, its ceiling and all hours of a proposal that the right may approve; else None."""
    right = rights.get((item.proposed_by, action_of(item.design)))
    hours = worst_hours(lab, item)
    is_plain = item.command is not None and not item.design.runs_of
    if right is None or right.ceiling is None or right.number is None or hours is None or not is_plain:
        return None
    if hours[0] > right.ceiling.run_hours + _ROUNDING:
        return None
    return right, right.ceiling, hours[1]


def build(options: Mapping[str, object]) -> Earned:
    """Builds the approver; what it may approve is in the user's own configuration, and no option."""
    return Earned()
