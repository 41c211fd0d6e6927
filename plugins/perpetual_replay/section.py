"""The section `replays` of the status: trials by state, and how many pairs of runs they took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Section, StatusSection
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Replays", "build"]

_STATES = ("running", "proposed", "helps", "harms", "undecided", "stopped", "withdrawn", "expired")


class Replays(StatusSection):
    """Counts trials apart from the research: their experiments are archived, and in no other count."""

    def show(self, lab: Lab) -> Section | None:
        """Returns the counts; None before the first trial."""
        from perpetual_replay.trials import PAIR, TRIAL

        trials = lab.records(TRIAL)
        if not trials.count():
            return None
        found = [one for state in _STATES for one in trials.find(state=state) if not one["canary"]]
        counts = Counter(str(one["state"]) for one in found if one["bisection"] is None)
        bisections = len({one["bisection"] for one in found} - {None})
        pairs = lab.records(PAIR).count()
        if not found:
            return None
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        said = [f"{counted(sum(counts.values()), 'trial')} of notes: {states}"] if counts else []
        said += [counted(bisections, "bisection")] if bisections else []
        line = "; ".join([*said, f"{counted(pairs, 'pair')} of runs"])
        return Section("replays", (line,), {"trials": dict(counts), "bisections": bisections, "pairs": pairs})


def build(options: Mapping[str, object]) -> Replays:
    """Builds the provider `replays`."""
    return Replays()
