"""The documents of `perpetual auto`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Auto", "AutoNext", "HandoverLine", "LoopOwner"]


class LoopOwner(TypedDict):
    """The owner of the loop; `rounds` and `rounds_left` are null for the daemon, whose turns have no number."""

    session: str
    harness: str
    actor: str
    armed_at: str
    renewed_at: str
    until: str
    rounds: int | None
    rounds_left: int | None


class HandoverLine(TypedDict):
    """How a session left the research when its last turn ended; `armed` names the owner of the loop then."""

    session: str
    harness: str
    actor: str
    ended_at: str
    last_words: str
    live_runs: list[str]
    waiting: list[str]
    armed: str | None
    seq: int


class Auto(TypedDict):
    """The owner of the loop now, null where it is free; how the last one ended; how sessions left the research."""

    owner: LoopOwner | None
    last_reason: str | None  # why the last owner gave it back, null while it is owned
    last_explanation: str | None
    handovers: list[HandoverLine]


class AutoNext(TypedDict):
    """What a session does at the end of a turn: goes on with `text`, or stops for `reason`."""

    session: str
    go_on: bool
    text: str | None
    reason: str | None
    explanation: str | None
    rounds_left: int | None
