"""Thinkers: a model or a harness that comments on runs and proposes experiments beside the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from perpetual import Lab
    from perpetual_thinkers.documents import ThinkersState

__all__ = ["state_of", "work"]


def state_of(lab: Lab, now: datetime | None = None) -> ThinkersState:
    """Returns the thinker in force, what it has used today, and whether its breaker is open; `now` is a time (UTC)."""
    from perpetual_thinkers.state import state_of as found

    return found(lab, now)


def work(lab: Lab, *, most: int = 100) -> int:
    """Asks the thinker all there is to ask now, without a daemon, in at most `most` steps; returns how many it took."""
    from perpetual_thinkers.acting import work as done

    return done(lab, most=most)
