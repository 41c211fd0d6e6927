"""One question to a coding agent, as `perpetual ask` and Python put it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perpetual.api import NotFound, UsageError, unknown
from perpetual.toolkit.units import seconds_of
from perpetual_harnesses.dispatch.base import KINDS, Dispatcher
from perpetual_harnesses.dispatch.driving import Driving
from perpetual_harnesses.dispatch.permission import kind_of
from perpetual_harnesses.dispatch.records import TURN, document_of, last_session

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_harnesses.dispatch.documents import TurnDocument

__all__ = ["asked", "turn_named"]

PURPOSE = "ask"
_LONGEST_S = 7 * 86_400.0


def asked(
    lab: Lab, prompt: str, *, harness: str | None = None, go_on: bool = False, model: str = "",
    timeout: str | None = None, allow: Sequence[str] | None = None, idempotency_key: str | None = None,
    seen: Callable[[str], None] | None = None, started: Callable[[Dispatcher], None] | None = None,
) -> TurnDocument:  # fmt: skip
    """Asks a coding agent, which has the lab's tools at hand, and returns what came of it.

    Args:
        lab: the project.
        prompt: what to ask.
        harness: its name; by default that of the session, or the project's own.
        go_on: whether to go on with the session of the last question.
        model: the model, as the harness names it.
        timeout: seconds, or with a unit; of an agent at most what the configuration says.
        allow: kinds of tool calls that may be permitted, of those that the project allows.
        idempotency_key: a second call with the same key returns the first one's turn.
        seen: is given the model's words as they come.
        started: is given the dispatcher, whose `cancel` ends the turn.

    Raises:
        UsageError: for a kind that there is not, or what cannot be handed over.
        NotFound: where there is no session to go on with, or no harness that can be driven.
        Refused: where a cap of the day leaves no room.
    """
    wrong = next((one for one in allow or () if one not in KINDS), None)
    if wrong is not None:
        raise UsageError(unknown("kind of tool call", wrong, KINDS), hint=f"there is {', '.join(KINDS)}")
    session = None
    if go_on:
        session = last_session(lab, PURPOSE, harness)
        if session is None:
            raise NotFound("there is no session to go on with", hint="perpetual ask PROMPT begins one")
    driving = Driving(lab)
    limits = driving.limits()
    if timeout is not None:
        asked_s = min(seconds_of(timeout, "--timeout"), _LONGEST_S)
        # A limit of the configuration is a person's to lift.
        limits = replace(
            limits, wall_s=min(asked_s, limits.wall_s) if lab.actor.startswith(("agent:", "mcp:")) else asked_s
        )
    turn = driving.drive(
        prompt, harness=harness, purpose=PURPOSE, session=session, model=model, agent=True,
        allow=None if allow is None else [kind_of(one) for one in allow], limits=limits, seen=seen, started=started,
        idempotency_key=idempotency_key,
    )  # fmt: skip
    return document_of(turn)


def turn_named(lab: Lab, id: str) -> TurnDocument:
    """Returns a turn.

    Raises:
        NotFound: if there is none of that id.
    """
    try:
        return document_of(lab.records(TURN).get(id))
    except NotFound as problem:
        raise NotFound(f"no turn {id[:60]}", hint="perpetual turns list") from problem
