"""An agent as its users see it: an id and data, without any side effect; and the checks of what it may hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

from perpetual.api import UsageError, unknown
from perpetual_agents.lifecycle import AgentState

if TYPE_CHECKING:
    from perpetual.api import Record

__all__ = [
    "GOAL_STATES", "LIMITS", "SETTINGS", "Agent", "Goal", "GoalStatus", "agent_of", "branch_of", "check_limits",
    "check_name", "check_settings", "check_text", "hears",
]  # fmt: skip

GoalStatus = Literal["open", "in_progress", "done", "failed", "dropped"]
GOAL_STATES: tuple[GoalStatus, ...] = get_args(GoalStatus)
LIMITS = ("calls", "tokens", "usd", "seconds")
# name -> default, least and greatest value
SETTINGS: dict[str, tuple[float, float, float]] = {
    "max_steps": (40, 1, 10_000),  # requests to a model in a turn
    "max_tokens": (2_000, 1, 200_000),  # of a reply
    "window": (200, 2, 100_000),  # messages that a model is shown at most
    "compact_at_tokens": (24_000, 0, 10_000_000),  # of the conversation before older turns are summarised; 0: never
    "inject_tokens": (0, 0, 100_000),  # of memory that a model is shown unasked at most; 0 shows none
    "checkpoint_every": (20, 0, 1_000_000),  # steps between two checkpoints; 0 takes none by itself
    "keep_checkpoints": (10, 1, 10_000),  # of those that were taken by themselves
    "timeout_s": (120.0, 0.1, 3_600),  # seconds of a request to a model, and of a call of a tool
    "loop_after": (3, 2, 100),  # calls of a tool that fail alike in a row before the agent is paused
}
_NAME = re.compile(r"\A[A-Za-z0-9][\w.@-]*\Z", re.ASCII)
_IS_ID = re.compile(r"\Aa\d+\Z", re.IGNORECASE)
_LONGEST_NAME = 100
_LONGEST_TEXT = 64 * 1024


class Goal(TypedDict):
    """A goal of an agent; `progress` is from 0 to 1."""

    id: str
    text: str
    status: GoalStatus
    progress: float
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent as it is recorded; `revision` tells it from what it was before."""

    id: str
    name: str
    model: str | None
    system_prompt: str
    tools: tuple[str, ...]
    purpose: str
    scope: str
    criteria: tuple[str, ...]
    goals: tuple[Goal, ...]
    adapter: str | None
    cls: str | None
    state: AgentState
    reason: str | None
    data: dict[str, object]
    counters: dict[str, int]
    settings: dict[str, float]
    subscriptions: tuple[str, ...]
    approvals: tuple[str, ...]
    branch: str
    account: str | None
    parent: str | None
    hypothesis: str | None
    created_at: str
    created_by: str
    revision: int
    mark: str | None

    def setting(self, name: str) -> float:
        """Returns a setting, its default where the agent has none of its own."""
        return self.settings.get(name, SETTINGS[name][0])


def agent_of(record: Record) -> Agent:
    """Returns the agent that a record holds."""
    return Agent(
        id=record.id, name=record["name"], model=record["model"], system_prompt=record["system_prompt"],
        tools=tuple(record["tools"]), purpose=record["purpose"], scope=record["scope"],
        criteria=tuple(record["criteria"]), goals=tuple(record["goals"]), adapter=record["adapter"], cls=record["cls"],
        state=record["state"], reason=record["reason"], data=record["data"], counters=record["counters"],
        settings=record["settings"], subscriptions=tuple(record["subscriptions"]),
        approvals=tuple(record["approvals"] or ()), branch=branch_of(record),
        account=record["account"], parent=record["parent"], hypothesis=record["hypothesis"],
        created_at=record.created_at, created_by=record.created_by, revision=record.revision, mark=record["mark"],
    )  # fmt: skip


def hears(fields: Mapping[str, object]) -> str | None:
    """Returns the field `hears` of an agent: yes where it has subscriptions or a hypothesis."""
    return "yes" if fields.get("subscriptions") or fields.get("hypothesis") else None


def branch_of(record: Record) -> str:
    """Returns the line of history that is in force of an agent; its first one has the agent's own id."""
    return str(record["branch"] or record.id)


def check_name(name: object) -> str:
    """Returns a name of an agent. Raises UsageError where it can be none, and for one in the form of an id."""
    if not isinstance(name, str) or not _NAME.match(name) or len(name) > _LONGEST_NAME:
        raise UsageError(f"{str(name)[:60]!r} cannot be an agent's name",
                         hint=f"letters, digits, - _ . @; at most {_LONGEST_NAME} characters")  # fmt: skip
    if _IS_ID.match(name):
        raise UsageError(f"{name!r} has the form of an id", hint="another name")
    return name


def check_text(what: str, text: object, *, most: int = _LONGEST_TEXT, may_be_empty: bool = True) -> str:
    """Returns a text. Raises UsageError for anything else, one that is too long, and an empty one where it may not."""
    if not isinstance(text, str):
        raise UsageError(f"{what} is a {type(text).__name__}, not a text")
    if len(text.encode("utf-8", "replace")) > most:
        raise UsageError(f"{what} is longer than {most:,} bytes", hint="put it into a file that a tool reads")
    if "\0" in text:
        raise UsageError(f"{what} holds a NUL character")
    if not (may_be_empty or text.strip()):
        raise UsageError(f"{what} is empty")
    return text


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{what} is {value!r}, not a number")
    return value


def check_settings(settings: Mapping[str, object]) -> dict[str, float]:
    """Returns settings of an agent. Raises UsageError for an unknown one, and for a value out of its range."""
    found: dict[str, float] = {}
    for name, value in settings.items():
        if name not in SETTINGS:
            raise UsageError(unknown("setting", name, SETTINGS))
        default, least, most = SETTINGS[name]
        number = _number(name, value)
        if not least <= number <= most:
            raise UsageError(f"{name} is {number:g}, not {least:g} to {most:g}")
        found[name] = int(number) if isinstance(default, int) else number
    return found


def check_limits(limits: Mapping[str, object]) -> dict[str, float]:
    """Returns limits of an account. Raises UsageError for an unknown one, and for a negative one or no number."""
    found: dict[str, float] = {}
    for name, value in limits.items():
        if name not in LIMITS:
            raise UsageError(unknown("limit", name, LIMITS))
        if value is None:
            continue
        number = _number(name, value)
        if number < 0:
            raise UsageError(f"{name} is {number:g}; a limit is 0 or more")
        found[name] = number
    return found


def goal_status(status: object) -> GoalStatus:
    """Returns a status of a goal. Raises UsageError for any other text."""
    for known in GOAL_STATES:
        if status == known:
            return known
    raise UsageError(unknown("status of a goal", str(status), GOAL_STATES))


def goal_progress(progress: object) -> float:
    """Returns a goal's progress. Raises UsageError unless it is a number from 0 to 1."""
    number = _number("progress", progress)
    if not 0.0 <= number <= 1.0:
        raise UsageError(f"progress is {number:g}, not 0 to 1", hint="0.5 is one half")
    return float(number)


def texts(what: str, found: object) -> list[str]:
    """Returns texts. Raises UsageError where one is none."""
    if isinstance(found, str) or not isinstance(found, Sequence):
        raise UsageError(f"{what} is a {type(found).__name__}, not one of a list of texts")
    return [check_text(what, one, most=8 * 1024, may_be_empty=False) for one in found]
