"""The section `loop` of the status: the owner of the loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Section, StatusSection
from perpetual.toolkit.units import iso
from perpetual_loop.lease import lease_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["LoopSection", "build"]


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


def build(options: Mapping[str, object]) -> LoopSection:
    """Builds the section; it has no options."""
    return LoopSection()
