"""The thinker of a project at work, in its own name; and all there is to do at once, for a caller without a daemon."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from perpetual import Lab
from perpetual_thinkers.base import Thinker
from perpetual_thinkers.question import Question
from perpetual_thinkers.state import in_force, utc_now
from perpetual_thinkers.thinking import Thinking

__all__ = ["acting", "work"]


@contextmanager
def acting(
    lab: Lab, *, now: Callable[[], datetime] = utc_now, draw: Callable[[], float] = random.random,
    questions: Sequence[Question] | None = None, own: bool = True,
) -> Iterator[tuple[Lab, Thinking]]:  # fmt: skip
    """Yields a lab that acts as `agent:thinker-NAME`, so that no approval is a right of it, and the work on it.

    Args:
        now: returns the present time.
        draw: answers in [0, 1), for the back-off.
        questions: as for `Thinking`, and so is `own`.
        own: whether it comments on runs and proposes.

    Raises:
        NotPermitted: (not_trusted) for a thinker in a held project.
        PluginError: for a thinker that is not installed.
    """
    name = in_force(lab)
    with Lab.open(lab.root, actor=f"agent:thinker-{name}", registry=lab.registry, clock=now) as acts:
        thinker: Thinker = acts.part("thinker")
        if thinker.thinks:
            acts.trust.require("asking a thinker")
        yield acts, Thinking(acts, thinker, name, now=now, draw=draw, questions=questions, own=own)


def work(lab: Lab, *, most: int = 100) -> int:
    """Asks and does all there is to do now, in at most `most` steps; returns how many it took."""
    never = threading.Event()
    with acting(lab) as (_, thinking):
        for number in range(most):
            if not thinking.step(never):
                return number
    return most
