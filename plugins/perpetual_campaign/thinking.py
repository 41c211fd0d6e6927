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


def think(lab: Lab, name: str) -> str | None:
    """Asks until the campaign has its candidates at once; returns why it has no room for another, None where it has.

    Raises:
        NotFound: for no campaign of that name.
        Conflict: for one that is closed, or has no thinker that a person of this machine has let.
        TransientError: where the thinker fails or has reached a cap of the day; what it has edited before stays.
        UsageError: where the project has no thinker.
    """
    campaigns = Campaigns(lab)
    campaign = campaigns.named(name)
    if campaign["state"] != "open":
        raise Conflict(f"{name} is {campaign['state']}", hint="perpetual campaign new starts another")
    if not campaigns.is_thinker_let(campaign):
        raise Conflict(f"no thinker may edit for {name}", hint=f"perpetual campaign think {name} --at-once 2")
    if in_force(lab) == "none":
        raise UsageError("the project has no thinker", hint="perpetual config set slots.thinker command")
    never, number = threading.Event(), 0
    with acting(lab, questions=[EditQuestion(name)], own=False) as (_, thinking):
        while number < _MOST_STEPS and thinking.step(never):
            campaigns.advance()
            number += 1
        trouble = thinking.trouble()
    campaigns.advance()
    found = state_of(lab)
    if (why := found["reason"] or trouble) is not None:
        until = f" before {found['until']}" if found["until"] else ""
        hint = "what it has edited is measured; mend the thinker, and see perpetual thoughts list"
        raise TransientError(f"the thinker {found['thinker']} is not asked{until}: {why}", hint=hint)
    return campaigns.why_full(campaigns.named(name))
