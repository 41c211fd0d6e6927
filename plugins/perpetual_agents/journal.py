"""The journal of an agent: each step is written before its effect and again after it, and nothing is ever changed.

A step has a key that is the same at each try. `find` says whether it was completed, begun or never reached, so an agent
that was killed goes on at the step that was in flight: what is recorded is not done again, and the one in flight is
done with the same key.

A history is a *branch*: its own steps, and those of its parent up to the step at which it was made. So a restored
agent and a fork cost the same at any length, and no step is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from perpetual_agents.names import BRANCH, STEP

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_agents.messages import Message

__all__ = ["Journal", "Kind", "Phase", "Step"]

Kind: TypeAlias = Literal["message", "model", "tool", "result", "compaction", "state"]
Phase: TypeAlias = Literal["begun", "done"]
_PAGE = 152  # rows of a read: half of the steps of a window of 200 messages


class Step(NamedTuple):
    """One row of the journal; `number` orders the rows of all agents."""

    number: int
    kind: Kind
    phase: Phase
    key: str
    turn: str
    body: dict[str, object]

    @property
    def message(self) -> Message | None:
        """Returns the message that the row adds to the conversation, None where it adds none."""
        found = self.body.get("message") if self.phase == "done" else None
        return cast("Message", found) if isinstance(found, dict) else None


class Journal:
    """Reads and writes the steps of one branch of an agent."""

    def __init__(self, lab: Lab, agent: str, branch: str) -> None:
        self.lab, self.agent, self.branch = lab, agent, branch
        self._steps, self._branches = lab.records(STEP), lab.records(BRANCH)

    def begin(self, turn: str, kind: Kind, key: str, body: Mapping[str, object]) -> Step:
        """Records that a step is about to have its effect; durable before it returns."""
        return self._write(turn, kind, "begun", key, body)

    def done(self, turn: str, kind: Kind, key: str, body: Mapping[str, object]) -> Step:
        """Records what came of a step; durable before it returns."""
        return self._write(turn, kind, "done", key, body)

    def _write(self, turn: str, kind: Kind, phase: Phase, key: str, body: Mapping[str, object]) -> Step:
        row = self._steps.append(agent=self.agent, branch=self.branch, turn=turn, step=kind, phase=phase, key=key,
                                 body=dict(body))  # fmt: skip
        return _step(row)

    def of_turn(self, turn: str) -> list[Step]:
        """Returns the steps of a turn on this branch, in order; costs the turn."""
        return [_step(row) for row in self._steps.find(turn=turn) if row["branch"] == self.branch]

    def find(self, turn: str, key: str) -> tuple[Step | None, Step | None]:
        """Returns what was recorded of a step of a turn: its begin and its end, None for each that there is not."""
        begun = done = None
        for step in self.of_turn(turn):
            if step.key == key:
                begun, done = (step, done) if step.phase == "begun" else (begun, step)
        return begun, done

    def last(self) -> int:
        """Returns the number of the newest step of this branch's history, 0 where there is none."""
        own = self._steps.list(limit=1, newest_first=True, branch=self.branch).items
        return own[0].number if own else next((step.number for step in self.newest_first()), 0)

    def newest_first(self, *, before: int | None = None) -> Iterator[Step]:
        """Yields the steps of the history from the newest on, those of its parents included.

        Args:
            before: yields only steps with a smaller number.
        """
        branch = self.branch
        while True:
            cursor = None if before is None else str(before)
            while True:
                page = self._steps.list(limit=_PAGE, cursor=cursor, newest_first=True, branch=branch)
                yield from map(_step, page.items)
                cursor = page.next_cursor
                if cursor is None:
                    break
            if not branch.startswith("b"):
                return  # the first line of an agent, which has the agent's id
            line = self._branches.get(branch)
            before = int(line["after"]) + 1 if before is None else min(before, int(line["after"]) + 1)
            branch = line["parent"]

    def own(self) -> list[Step]:
        """Returns the steps that were written on this branch itself, in order."""
        return [_step(row) for row in self._steps.find(branch=self.branch)]

    def count(self) -> int:
        """Returns how many steps were written on this branch itself."""
        return self._steps.count(branch=self.branch)


def _step(row: Record) -> Step:
    return Step(row.number, row["step"], row["phase"], row["key"], row["turn"], row["body"])
