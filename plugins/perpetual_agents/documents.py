"""The documents of `perpetual agent`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = [
    "AgentDeleted",
    "AgentDocument",
    "AgentError",
    "AgentExported",
    "AgentFork",
    "AgentLine",
    "AgentPruned",
    "AgentRestored",
    "AgentToolLine",
    "CheckpointDocument",
    "Counters",
    "GoalDocument",
    "MessageDocument",
    "StepDocument",
    "Usage",
]  # fmt: skip


class GoalDocument(TypedDict):
    """A goal; `status` is open, in_progress, done, failed or dropped, `progress` from 0 to 1."""

    id: str
    text: str
    status: str
    progress: float
    created_at: str
    updated_at: str


class AgentLine(TypedDict):
    """An agent in a list.

    `state` is created, running, paused, stopped or error. `activity` says what goes on: working (a process works on a
    message), waiting (messages are due and no process works on them), interrupted (a process ended while it worked),
    approval (it waits for a person), idle, or null where the agent takes no messages.
    """

    id: str
    name: str
    model: str | None
    state: str
    activity: str | None
    reason: str | None
    purpose: str
    hypothesis: str | None
    parent: str | None
    inbox: int
    turns: int
    created_at: str


class Usage(TypedDict):
    """What the models of an agent and of its forks have used, and their limits; a limit that is not set is null."""

    account: str | None
    used: dict[str, float]
    booked: dict[str, float]
    limits: dict[str, float | None]


class Counters(TypedDict):
    """How often an agent did what; steps that were answered from the journal are not counted again."""

    turns: int
    messages: int
    model_calls: int
    tool_calls: int
    errors: int
    wakes: int


class AgentDocument(AgentLine):
    """An agent as a whole; `data` is its own state, `next` what a person may do now."""

    system_prompt: str
    scope: str
    criteria: list[str]
    tools: list[str]
    goals: list[GoalDocument]
    data: dict[str, object]
    counters: Counters
    settings: dict[str, float]
    subscriptions: list[str]
    approvals: list[str]
    usage: Usage
    checkpoints: int
    notes: list[str]
    next: list[str]


class AgentError(TypedDict):
    """Why a message failed, or what it waits for."""

    code: str
    message: str
    hint: str | None


class MessageDocument(TypedDict):
    """A message to an agent, and what came of it.

    `state` is pending, working, waiting, done, failed or dropped. `mock` says that no real model answered.
    """

    id: str
    agent: str
    sender: str
    type: str
    text: str
    state: str
    answer: str | None
    error: AgentError | None
    mock: bool
    due: str | None
    attempts: int
    created_at: str


class CheckpointDocument(TypedDict):
    """A checkpoint; `step` is the last step that belongs to it.

    `reason` is auto, manual, pause, stop, compaction, restore or fork.
    """

    id: str
    agent: str
    label: str | None
    reason: str
    branch: str
    step: int
    created_at: str


class AgentRestored(AgentDocument):
    """The agent as it was brought back; `saved` is the checkpoint of what it was before."""

    restored: str
    saved: str


class AgentFork(TypedDict):
    """Two agents that share a past, side by side: what differs, what each answered since, and what each used."""

    agents: list[AgentLine]
    differs: dict[str, list[object]]
    answers: list[list[MessageDocument]]
    steps: list[dict[str, int]]


class StepDocument(TypedDict):
    """A step of an agent's journal; `phase` is begun or done, `key` the idempotency key of its effect."""

    number: int
    turn: str
    kind: str
    phase: str
    key: str
    text: str
    body: dict[str, object]


class AgentDeleted(TypedDict):
    """An agent that was taken off the list; its records stay."""

    id: str
    name: str


class AgentPruned(TypedDict):
    """The ids of the checkpoints that were pruned."""

    pruned: list[str]


class AgentExported(TypedDict):
    """A bundle that was written: `steps` of the agent's history, and the file."""

    agent: str
    path: str
    steps: int
    bytes: int


class AgentToolLine(TypedDict):
    """A name of a tool that agents may have."""

    name: str
