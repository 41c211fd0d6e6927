"""Asks the thinker for candidates of one campaign now, without a daemon."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from perpetual.api import Conflict, TransientError, UsageError
from perpetual_campaign.campaigns import Campaigns
from perpetual_campaign.question import EditQuestion
from perpetual_thinkers.acting import acting
from perpetual_thinkers.state import in_force, state_of

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["think"]

_MOST_STEPS = 200


def think(lab: Lab, name: str) -> int:
    """Asks until the campaign has its candidates at once; returns how many steps it took.

    Raises:
        NotFound: for no campaign of that name.
        Conflict: for one that has no thinker that a person of this machine has let.
        TransientError: where the thinker fails or has reached a cap of the day; what it has edited before stays.
        UsageError: where the project has no thinker.
    """
    campaigns = Campaigns(lab)
    campaign = campaigns.named(name)
    if not campaigns.is_thinker_let(campaign):
        raise Conflict(f"no thinker may edit for {name}", hint=f"perpetual campaign think {name} --at-once 2")
    if in_force(lab) == "none":
        raise UsageError("the project has no thinker", hint="perpetual config set slots.thinker command")
    never, number = threading.Event(), 0
    with acting(lab, questions=[EditQuestion(name)], own=False) as (_, thinking):
        while number < _MOST_STEPS and thinking.step(never):
            campaigns.advance()
            number += 1
    found = state_of(lab)
    if found["reason"] is not None:
        hint = "perpetual thoughts list has its answers; what it has edited is measured all the same"
        raise TransientError(f"the thinker {found['thinker']} is not asked further now: {found['reason']}", hint=hint)
    return number
