"""The handler `loops`: an agent that does the same failing thing again and again is paused, with the reason.

The same call of a tool that fails alike `loop_after` times, with no call between that succeeds, is a loop; so is the
same error of a model in as many turns one after the other. Each repetition waits longer than the one before. What was
counted before a person let the agent run again counts no longer.
"""

from __future__ import annotations

import json
import re
from asyncio import sleep
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, cast

from perpetual.toolkit.fence import neutralise
from perpetual_agents.handler import Handler, Pause
from perpetual_agents.model import ModelError
from perpetual_agents.names import STEP

if TYPE_CHECKING:
    from perpetual_agents.messages import Call, Message
    from perpetual_agents.model import ModelReply, ModelRequest
    from perpetual_agents.turn import Turn

__all__ = ["LoopDetected", "LoopsHandler", "alike", "build"]

_LONGEST_S = 30.0  # of a wait before a repetition
_MOST = 200  # characters of an error that are compared
_LONGEST_LINE = 400  # characters of it in the reason
_FENCE = re.compile(r"(?m)^(?:<<untrusted text|>>end) [^\n]*$")
_VARYING = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8,}\b|\d+", re.IGNORECASE)  # hashes too, as the mark of a fence


class _Made(NamedTuple):
    form: str
    result: Message


class LoopDetected(Pause):
    """An agent does the same failing thing again and again."""

    code = "loop_detected"
    exit = 7


class LoopsHandler(Handler):
    """Counts failures that are alike.

    Args:
        backoff_s: seconds before the first repetition of a call that failed; each further one waits twice as long.
    """

    def __init__(self, backoff_s: float = 0.5) -> None:
        self._backoff_s = backoff_s

    async def turn(self, turn: Turn, proceed: Callable[[], Awaitable[Message]]) -> Message:
        """Raises LoopDetected instead of an error of the model that ended the turns before as well."""
        try:
            return await proceed()
        except ModelError as failed:
            problem, most = failed, int(turn.agent.setting("loop_after"))
            count = 1 + await turn.blocking(lambda: _failed_turns(turn, problem, most - 1))
            if count < most:
                raise
            raise LoopDetected(
                f"{turn.agent.name} failed {count} times in a row with: {_line(problem.message)}",
                hint=f"mend it, then: perpetual agent resume {turn.agent.id}",
            ) from problem

    async def model(
        self, turn: Turn, request: ModelRequest, proceed: Callable[[ModelRequest], Awaitable[ModelReply]]
    ) -> ModelReply:
        """Asks the model unless the newest calls are a loop. Raises LoopDetected."""
        most = int(turn.agent.setting("loop_after"))
        made = _made(turn)
        if made and _repeats(made) >= most:
            fresh = await turn.blocking(lambda: _since_running(turn, made))
            if (count := _repeats(fresh)) >= most:
                last = made[-1].result
                raise LoopDetected(
                    f"{turn.agent.name} called {last.get('name')} {count} times with the same arguments, and each call "
                    f"failed: {_line(last['text'])}",
                    hint=f"perpetual agent logs {turn.agent.id}, then: perpetual agent resume {turn.agent.id}",
                )
        return await proceed(request)

    async def tool(self, turn: Turn, call: Call, proceed: Callable[[Call], Awaitable[Message]]) -> Message:
        """Makes the call, after a wait where the same one has just failed."""
        count = _failures_of(turn, call)
        if count and self._backoff_s and not await turn.blocking(lambda: _is_recorded(turn)):
            await sleep(min(_LONGEST_S, self._backoff_s * 2 ** (count - 1)))
        return await proceed(call)


def alike(text: str) -> str:
    """Returns an error without what varies from one time to the next, such as numbers and addresses."""
    return _VARYING.sub("#", text.strip()[:_MOST])


def _line(text: str) -> str:
    """Returns an error on one line, without the fence around it."""
    return neutralise(" ".join(_FENCE.sub("", text).split()), _LONGEST_LINE)


def _made(turn: Turn) -> list[_Made]:
    """Returns the calls of the turn with their results, in order."""
    found: list[_Made] = []
    waiting: list[Call] = []
    for message in turn.messages:
        if message["role"] == "assistant":
            waiting = [*message.get("calls", ())]
        elif message["role"] == "tool" and waiting:
            found.append(_Made(_form(waiting.pop(0)), message))
    return found


def _form(call: Call) -> str:
    """Returns what makes a call the same as another one."""
    return json.dumps([call["name"], call["args"]], sort_keys=True)


def _repeats(made: Sequence[_Made]) -> int:
    """Returns how often the newest call failed alike, up to the newest call that succeeded."""
    count = 0
    for one in reversed(made):
        if not one.result.get("is_error"):
            break
        newest = made[-1]
        count += one.form == newest.form and alike(one.result["text"]) == alike(newest.result["text"])
    return count


def _failures_of(turn: Turn, call: Call) -> int:
    """Returns how often a call failed, up to the newest call that succeeded."""
    failed = list(takewhile(lambda one: one.result.get("is_error"), reversed(_made(turn))))
    return sum(one.form == _form(call) for one in failed)


def _is_recorded(turn: Turn) -> bool:
    return turn.journal.find(turn.id, turn.key)[1] is not None


def _since_running(turn: Turn, made: Sequence[_Made]) -> Sequence[_Made]:
    """Returns the calls that were made since the agent was let run; all of them where no journal says when."""
    numbers = [step.number for step in turn.journal.of_turn(turn.id) if step.kind == "tool" and step.phase == "done"]
    if len(numbers) < len(made):
        return made
    begin = _running_since(turn)
    return [one for one, number in zip(made, numbers, strict=False) if number > begin]  # a replay has fewer so far


def _running_since(turn: Turn) -> int:
    """Returns the number of the step by which the agent was let run last, 0 where there is none."""
    page = turn.lab.records(STEP).list(limit=20, newest_first=True, branch=turn.journal.branch, turn="")
    return next((row.number for row in page.items if row["step"] == "state" and row["body"].get("to") == "running"), 0)


def _failed_turns(turn: Turn, problem: ModelError, most: int) -> int:
    """Returns how many turns before this one ended with the same error, `most` at most."""
    count = 0
    for step in turn.journal.newest_first():
        if count == most or (step.kind == "state" and step.body.get("to") == "running"):
            break
        if step.kind == "result" and step.phase == "done":
            error = cast("Mapping[str, object]", step.body.get("error") or {})
            if error.get("code") != problem.code or alike(str(error.get("message"))) != alike(problem.message):
                break
            count += 1
    return count


def build(options: Mapping[str, object]) -> LoopsHandler:
    """Builds the handler."""
    return LoopsHandler(float(str(options["backoff_s"])))
