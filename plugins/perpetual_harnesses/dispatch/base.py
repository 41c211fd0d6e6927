"""The slot `dispatcher`: one way to drive a harness, such as the Agent Client Protocol.

The contract
------------
*Light.* A factory imports nothing heavy, starts nothing and contacts nothing. `problem` looks for programs and modules,
and starts none.

*One turn, one process.* `turn` starts the harness, sends one prompt, and returns when the answer is there and nothing
of the harness is left: its process group, and every process that carries the turn's mark in its environment
(`PERPETUAL_DISPATCH`), is ended by id. A session is gone on with in a new process, by its id.

*It always returns a Turn.* Whatever the harness does (no login, a broken stream, a hang) is an outcome by name.
DispatchError is raised only where nothing could be started.

*Permissions are answered by the task's policy*, one request at a time and never for good: what the policy does not
allow is refused, and the turn says so.

*Limits are held by the dispatcher*, whatever the harness promises: seconds, steps, tokens and money. The turn is
cancelled where one is passed. Tokens and money are noticed when the harness reports them, so the last step may pass.

*Usage is what this turn used.* A harness that reports sums of a whole session is given the sums known before. What a
harness does not report is None, never 0.

*To be cancelled.* `cancel` may be called from another thread at any time: a `turn` that goes on returns within seconds
with the outcome `cancelled`, the next one works again.

*The environment is clean.* A harness does not take itself for one that another agent has started; it sees
`PERPETUAL_DISPATCH`, by which hooks and plugins of Perpetual stay silent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from perpetual.api import PerpetualError

__all__ = [
    "ACCEPTED",
    "KINDS",
    "OUTCOMES",
    "Asked",
    "DispatchError",
    "Dispatcher",
    "Kind",
    "Limits",
    "Outcome",
    "Row",
    "Server",
    "Task",
    "ToolUse",
    "Turn",
    "Usage",
    "worst",
]

Outcome = Literal[
    "auth_required",
    "cancelled",
    "budget_cut",
    "broken_stream",
    "no_answer",
    "server_missing",
    "permission_refused",
    "fallback_agent",
    "hook_untrusted",
    "leftover_processes",
    "usage_unknown",
    "done",
]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)  # the gravest first
# With these the answer is what was asked for; the others are failures.
ACCEPTED: frozenset[Outcome] = frozenset(("done", "usage_unknown", "leftover_processes", "hook_untrusted"))

Kind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
KINDS: tuple[Kind, ...] = get_args(Kind)  # of tool calls, as ACP names them


class DispatchError(PerpetualError):
    """A harness could not be started."""

    code = "dispatch_failed"


@dataclass(frozen=True, slots=True)
class Server:
    """An MCP server that the harness is to start.

    `env` is added to what the harness hands on. Calls of `tools`, by their names, are permitted.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    tools: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may use; None is no limit. `wall_s` is seconds, `steps` are calls of the model, `usd` US dollars."""

    wall_s: float = 600.0
    steps: int | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, US dollars and calls of the model; None where the harness does not say."""

    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: float | None = None
    steps: int | None = None

    @property
    def tokens(self) -> int | None:
        """Returns the tokens in both directions."""
        if self.tokens_in is None and self.tokens_out is None:
            return None
        return (self.tokens_in or 0) + (self.tokens_out or 0)


@dataclass(frozen=True, slots=True)
class Row:
    """How one harness is driven: the `dispatch` of its template.

    - `acp`: its words that speak the Agent Client Protocol on standard input and output; empty where it does not.
    - `argv`, `resume`: its words for one turn, new or going on with `{session}`. `{servers}`, `{permissions}`,
      `{agent}`, `{model}` and `{budget}` are whole words, which become none or several. The prompt goes to standard
      input, unless a word holds `{prompt}`. `parser` reads what it prints: `claude`, `codex` or `text`.
    - `model`: the words that choose a model, with `{model}`.
    - `mode`: the mode of an ACP session in which the harness asks for permissions, where that is not the default.
    - `agent`: the agent that Perpetual's scaffold gives it, where one can be chosen.
    - `drops`, `sets`: variables that it must not see, and those that it needs.
    - `asks`, `asks_by`: the harness's own names of permissions by kind, and the variable that takes a JSON object by
      which it asks for them; of the kinds that a task allows its own rules are left as they are.
    - `usage`: `prompt` where the tokens it reports are those of the whole prompt, `last_step` where they are those of
      the last call of the model.
    - `install`, `login`, `status`, `chat`: what to install, and its own commands for people.
    - `signed_in`: a pattern in what `status` prints; `variables`: keys by which it needs no login.
    """

    name: str
    acp: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    parser: str = "text"
    model: tuple[str, ...] = ()
    mode: str = ""
    agent: str = ""
    drops: tuple[str, ...] = ()
    sets: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[Kind, tuple[str, ...]] = field(default_factory=dict)
    asks_by: str = ""
    usage: str = "prompt"
    install: str = ""
    login: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    signed_in: str = ""
    variables: tuple[str, ...] = ()
    chat: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One prompt to a harness.

    - `session`: the id of a session to go on with; None begins one. `known` are the sums of that session before.
    - `agent`: the agent (a mode, in ACP) to speak with; "" takes the harness's own.
    - `allow`: kinds of tool calls that may be permitted; tools of `servers` always may.
    - `mark`: what the harness and all that it starts carry as `PERPETUAL_DISPATCH`; unique to the turn.
    - `ready`: a file that the first of `servers` makes once it was spoken to; None where that is not looked at.
    - `ready_s`: seconds that the prompt waits for it: some harnesses do not wait for their servers.
    """

    prompt: str
    cwd: Path
    mark: str
    session: str | None = None
    known: Usage = field(default_factory=Usage)
    model: str = ""
    agent: str = ""
    servers: tuple[Server, ...] = ()
    allow: frozenset[Kind] = frozenset()
    limits: Limits = field(default_factory=Limits)
    ready: Path | None = None
    ready_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One tool call: `status` is completed, failed or, where the harness never said, pending."""

    title: str
    kind: Kind = "other"
    status: str = "pending"


@dataclass(frozen=True, slots=True)
class Asked:
    """One permission that the harness asked for, and whether it was given."""

    title: str
    kind: Kind
    allowed: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """What came of one prompt.

    - `outcome`: the gravest of `outcomes`, which is empty where the turn is `done`.
    - `text`: what the model said, also where the outcome is a failure.
    - `used`: by this turn; `known`: the sums of the session afterwards, for the next task.
    - `problem`: one printable line, "" where nothing is wrong; `left`: processes that had to be ended, by name.
    """

    outcome: Outcome
    text: str = ""
    session: str | None = None
    used: Usage = field(default_factory=Usage)
    known: Usage = field(default_factory=Usage)
    tools: tuple[ToolUse, ...] = ()
    asked: tuple[Asked, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    problem: str = ""
    model: str = ""
    left: tuple[str, ...] = ()
    duration_s: float = 0.0
    dispatcher: str = ""


def worst(found: set[Outcome]) -> Outcome:
    """Returns the gravest of the outcomes, `done` where there is none."""
    return next((outcome for outcome in OUTCOMES if outcome in found), "done")


class Dispatcher(ABC):
    """One way to drive harnesses; see the contract at the top of this module."""

    name = ""

    @abstractmethod
    def problem(self, row: Row, environment: Mapping[str, str]) -> PerpetualError | None:
        """Returns why this harness cannot be driven in this way here, None if nothing is known."""

    @abstractmethod
    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        """Sends the prompt, and returns what came of it.

        Args:
            row: the harness.
            task: the prompt, and what the harness may do.
            seen: is given the model's words as they come.

        Raises:
            DispatchError: where the harness cannot be started.
        """

    @abstractmethod
    def cancel(self) -> None:
        """Ends every `turn` that goes on in another thread."""
