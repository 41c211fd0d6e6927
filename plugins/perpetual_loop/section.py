"""The sections `loop` and `handover`: the owner of the loop, and how the last session left the research."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING

from perpetual.api import Section, StatusSection
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.units import iso
from perpetual_loop.handover import handovers
from perpetual_loop.lease import lease_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["HandoverSection", "LoopSection", "build", "build_handover"]

_MOST_WORDS, _WIDTH = 350, 190  # characters of a last message, from its end


class LoopSection(StatusSection):
    """Names the owner of the loop, as the record has it; nothing where it is free."""

    def show(self, lab: Lab) -> Section | None:
        """Returns the owner."""
        found = lease_of(lab)
        if found is None or not found.is_held:
            return None
        # The status is kept and shown again, and the line is part of prompts: no time in it passes, no number counts.
        line = f"taken by {found.words} at {found.armed_at}; perpetual auto shows whether that still holds"
        data = {"session": found.session, "harness": found.harness, "actor": found.actor, "until": iso(found.until),
                "rounds_left": found.rounds_left}  # fmt: skip
        return Section("loop", [line], data)


class HandoverSection(StatusSection):
    """Says how the session that ended a turn last left the research; in the brief it comes first after what to do."""

    def show(self, lab: Lab) -> Section | None:
        """Returns what the newest handover says; nothing before the first."""
        found = next(iter(handovers(lab, limit=1)), None)
        if found is None:
            return None
        left = [f"{found.harness} ended a turn at {found.ended_at} (session {found.session[:40]})"]
        left += [f"live then: {', '.join(found.live_runs)}"] if found.live_runs else []
        left += [f"waiting for a person: {', '.join(found.waiting)}"] if found.waiting else []
        left += [f"loop: {found.armed}"] if found.armed else []
        lines = wrap(neutralise("; ".join(left)), _WIDTH)
        words = neutralise(" ".join(found.last_words.split()))
        if words:
            lines += wrap(f"its last words: {words[-_MOST_WORDS:]}", _WIDTH)
        data = {"leads": True, "session": found.session, "harness": found.harness, "live_runs": [*found.live_runs],
                "waiting": [*found.waiting], "armed": found.armed, "ended_at": found.ended_at}  # fmt: skip
        return Section("handover", lines, data)


def build_handover(options: Mapping[str, object]) -> HandoverSection:
    """Builds the section; it has no options."""
    return HandoverSection()


def build(options: Mapping[str, object]) -> LoopSection:
    """Builds the section; it has no options."""
    return LoopSection()
