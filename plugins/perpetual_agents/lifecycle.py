"""The lifecycle of an agent: its states, and which moves lead from one to another. Pure.

    created --start--> running --pause--> paused --resume--> running
    running, paused --stop--> stopped --start--> running
    running, paused --fail--> error --start or resume--> running
    created, error --stop--> stopped

`running` is a duty, not a process: the agent takes messages. Which process works on them is said by a lock.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, cast

from perpetual.api import Conflict, unknown

__all__ = ["MOVES", "STATES", "AgentState", "IllegalMove", "Move", "after", "legal_moves"]

AgentState: TypeAlias = Literal["created", "running", "paused", "stopped", "error"]
Move: TypeAlias = Literal["start", "pause", "resume", "stop", "fail"]
STATES: tuple[AgentState, ...] = ("created", "running", "paused", "stopped", "error")
MOVES: dict[Move, dict[AgentState, AgentState]] = {
    "start": {"created": "running", "stopped": "running", "error": "running"},
    "pause": {"running": "paused"},
    "resume": {"paused": "running", "error": "running"},
    "stop": {"created": "stopped", "running": "stopped", "paused": "stopped", "error": "stopped"},
    "fail": {"running": "error", "paused": "error"},
}


class IllegalMove(Conflict):
    """An agent in this state cannot make this move."""

    code = "illegal_move"

    def __init__(self, agent: str, state: str, move: str) -> None:
        legal = [name for name in legal_moves(state) if name != "fail"]
        super().__init__(
            f"{agent} is {state}; it cannot {move}",
            hint=f"perpetual agent {legal[0]} {agent}" if legal else "perpetual agent list",
            data={"state": state, "move": move, "legal": legal},
        )
        self.agent, self.state, self.move, self.legal = agent, state, move, tuple(legal)


def legal_moves(state: str) -> list[Move]:
    """Returns the moves that an agent in a state can make."""
    return [move for move, ways in MOVES.items() if state in ways]


def after(agent: str, state: str, move: Move) -> AgentState:
    """Returns the state that a move leads to.

    Args:
        agent: its id, for the error.
        state: the present state.
        move: the move.

    Raises:
        IllegalMove: where the move does not start in that state.
        Conflict: for a move that there is not.
    """
    ways = MOVES.get(move)
    if ways is None:
        raise Conflict(unknown("move", move, MOVES))
    found = ways.get(cast("AgentState", state))
    if found is None:
        raise IllegalMove(agent, state, move)
    return found
