"""The check `thinker` of the doctor, and the section `thinker` of the status: whether it works, and what was used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, Finding, PerpetualError, Section, StatusSection
from perpetual.toolkit.units import counted
from perpetual_thinkers.base import Thinker
from perpetual_thinkers.state import state_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_thinkers.documents import ThinkersState

__all__ = ["ThinkerCheck", "ThinkerSection", "build", "build_section"]

_ALONE = "the rules analyse and propose alone"


class ThinkerCheck(Check):
    """Says whether the thinker in force can be asked; asks it nothing."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what the configuration and the record say."""
        found = state_of(lab)
        if found["state"] == "none":
            return Finding(None, f"no thinker is in force; {_ALONE}")
        try:
            thinker: Thinker = lab.part("thinker")
        except PerpetualError as problem:
            return Finding(False, problem.message, problem.hint)
        wrong = thinker.problem()
        if wrong is not None:
            return Finding(False, wrong.message, wrong.hint)
        if found["state"] == "open":
            return Finding(False, _sentence(found), "perpetual thoughts list")
        return Finding(True, _sentence(found))


class ThinkerSection(StatusSection):
    """Says what the thinker did and whether it fails; nothing where there is none and never was one."""

    def show(self, lab: Lab) -> Section | None:
        """Returns where it stands."""
        found = state_of(lab)
        if found["state"] == "none" and not found["thoughts"]:
            return None
        lines = [_sentence(found)]
        if found["thoughts"]:
            states = ", ".join(f"{count} {state}" for state, count in found["thoughts"].items())
            lines.append(f"{counted(sum(found['thoughts'].values()), 'thought')}: {states} (perpetual thoughts list)")
        return Section("thinker", [line[:300] for line in lines], {**found})


def _sentence(found: ThinkersState) -> str:
    name, reason, until = found["thinker"], found["reason"], found["until"]
    if found["state"] == "none":
        return f"no thinker is in force; {_ALONE}"
    if found["state"] == "open":
        failed = f"{name} has failed {found['failures']} times in a row"
        return f"{failed}, and is not asked until {until}; {_ALONE}: {reason}"
    if found["state"] == "waiting":
        return f"{name} has failed, and is asked again after {until}: {reason}"
    if found["state"] == "capped":
        return f"{name} is not asked any more today; {_ALONE}: {reason}"
    used = f"{counted(found['calls_today'], 'call')} and {counted(found['tokens_today'], 'token')} today"
    return f"{name}: {used}" + (f", {found['usd_today']:.2f} USD" if found["usd_today"] else "")


def build(options: Mapping[str, object]) -> ThinkerCheck:
    """Builds the check; it has no options."""
    return ThinkerCheck()


def build_section(options: Mapping[str, object]) -> ThinkerSection:
    """Builds the section; it has no options."""
    return ThinkerSection()
