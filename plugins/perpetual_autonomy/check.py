"""The check `rights` of the doctor, and the section `rights` of the status: which rights are in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, ConfigError, Finding, Section, StatusSection, line
from perpetual.toolkit.units import counted
from perpetual_autonomy.ceilings import ceilings, ignored
from perpetual_autonomy.history import History
from perpetual_autonomy.rights import right_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["RightsCheck", "RightsSection", "build", "build_section"]

_SHOWN = 5


class RightsCheck(Check):
    """Says whether the ceilings fit, and whether the project's file tries to set some."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what the configuration says."""
        try:
            limits = ceilings(lab)
        except ConfigError as problem:
            return Finding(False, f"no right is in force: {problem.message}", problem.hint)
        if ignored(lab):
            return Finding(False, "the project's file sets plugins.autonomy, which counts from your own file alone",
                           "take it out of .perpetual/config.yaml")  # fmt: skip
        if not limits:
            return Finding(None, "your own configuration sets no ceiling: no right approves anything")
        return Finding(True, f"ceilings for {', '.join(limits)}; see perpetual rights")


class RightsSection(StatusSection):
    """Says which rights are in force; nothing where no ceiling is set."""

    def show(self, lab: Lab) -> Section | None:
        """Returns a line for each right that a ceiling names."""
        try:
            limits = ceilings(lab)
        except ConfigError as problem:
            return Section("rights", (line(f"no right is in force: {problem.message}"),), {})
        if not limits:
            return None
        history = History()
        history.read(lab)
        found = [right_of(lab, history, (name, action), ceiling)
                 for action, ceiling in limits.items() for name in ceiling.proposers]  # fmt: skip
        lines = [
            line(f"{one.pair[0]} {one.pair[1]}: " + ("in force" if one.in_force else f"not in force: {one.why[0]}"))
            for one in found
        ]
        more = [f"and {counted(len(lines) - _SHOWN, 'more right')}: perpetual rights"] if len(lines) > _SHOWN else []
        data = {f"{one.pair[0]} {one.pair[1]}": {"in_force": one.in_force} for one in found}
        return Section("rights", (*lines[:_SHOWN], *more), data)


def build(options: Mapping[str, object]) -> RightsCheck:
    """Builds the check; it has no options."""
    return RightsCheck()


def build_section(options: Mapping[str, object]) -> RightsSection:
    """Builds the section; it has no options."""
    return RightsSection()
