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
        found = {state: [one for one in trials.find(state=state) if not one["canary"]] for state in _STATES}
        counts = Counter({state: len(ones) for state, ones in found.items() if ones})
        pairs = lab.records(PAIR).count()
        if not counts:
            return None
        states = ", ".join(f"{count} {state}" for state, count in counts.items())
        line = f"{counted(sum(counts.values()), 'trial')} of notes: {states}; {counted(pairs, 'pair')} of runs"
        return Section("replays", (line,), {"trials": dict(counts), "pairs": pairs})


def build(options: Mapping[str, object]) -> Replays:
    """Builds the provider `replays`."""
    return Replays()
