"""What a harness says while a turn goes on, gathered into a `Turn`; the limits are held here."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from perpetual.toolkit.fence import neutralise
from perpetual_harnesses.dispatch.base import Asked, Kind, Outcome, Task, ToolUse, Turn, Usage, worst

__all__ = ["Gathered", "count", "difference", "money", "trouble_in"]

_N = TypeVar("_N", int, float)
MOST_TEXT_BYTES = 1 << 20
_MOST_LISTED = 1000  # tool calls and permissions that a turn keeps
_MOST_COUNT = 10**12
_STATUSES = ("pending", "in_progress", "completed", "failed")
_LONGEST_PROBLEM, _LONGEST_TITLE = 300, 120

# What harnesses print for people, on standard error or as a message of failure. [name of the outcome, pattern]
_SIGNS: tuple[tuple[Outcome, re.Pattern[str]], ...] = (
    ("fallback_agent", re.compile(r"agent .{0,100}not found.{0,40}fall(?:ing|s) ?back", re.I)),
    ("server_missing", re.compile(
        r"required MCP servers? failed to initialize|MCP server .{0,80}failed to start", re.I)),
    ("hook_untrusted", re.compile(
        r"workspace has not been trusted|Untrusted project-local configuration is disabled|untrusted hooks?", re.I)),
    ("auth_required", re.compile(
        r"authentication[ _]required|authentication_error|invalid (?:x-)?api[ -]?key|401 unauthorized|"
        r"status (?:code )?401|not logged in|please (?:run )?/?log ?in|auth_required", re.I)),
)  # fmt: skip


def trouble_in(text: str) -> set[Outcome]:
    """Returns the outcomes that a harness's words for people speak of."""
    return {outcome for outcome, sign in _SIGNS if sign.search(text)}


def count(value: object) -> int | None:
    """Returns a count that is possible, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_COUNT else None


def money(value: object) -> float | None:
    """Returns an amount that is possible, else None."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value <= _MOST_COUNT else None


def difference(now: Usage, before: Usage) -> Usage:
    """Returns what was used between two sums of one session; a sum that fell was begun anew."""
    return Usage(
        _since(now.tokens_in, before.tokens_in), _since(now.tokens_out, before.tokens_out),
        _since(now.usd, before.usd), now.steps,
    )  # fmt: skip


def _since(now: _N | None, before: _N | None) -> _N | None:
    if now is None or before is None or now < before:
        return now
    return now - before


@dataclass
class Gathered:
    """The state of one turn that goes on.

    - `used`: by this turn, as far as the harness has said.
    - `sums`: of the whole session, where it reports those.
    """

    task: Task
    seen: Callable[[str], None] | None = None
    outcomes: set[Outcome] = field(default_factory=set)
    used: Usage = field(default_factory=Usage)
    sums: Usage = field(default_factory=Usage)
    session: str | None = None
    model: str = ""
    problem: str = ""
    began: float = field(default_factory=time.monotonic)
    _text: list[str] = field(default_factory=list)
    _bytes: int = 0
    _tools: dict[str, ToolUse] = field(default_factory=dict)
    _asked: list[Asked] = field(default_factory=list)
    is_over: bool = False  # a limit was passed, or the turn was cancelled: nothing more is permitted
    is_cut: bool = False  # more was said than is kept

    def say(self, text: str) -> None:
        """Takes words of the model."""
        room = MOST_TEXT_BYTES - self._bytes
        if room <= 0 or not text:
            self.is_cut = self.is_cut or bool(text)
            return
        kept = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
        self.is_cut = self.is_cut or len(kept) < len(text)
        self._bytes += len(kept.encode())
        self._text.append(kept)
        if self.seen is not None:
            self.seen(kept)

    def begin_words(self) -> None:
        """Begins a new message of the model: what it said before a tool call is kept as a paragraph of its own."""
        if self._text and not self._text[-1].endswith("\n"):
            self.say("\n\n")

    def replace_text(self, text: str) -> None:
        """Takes the final message where the harness gives it whole."""
        self._text, self._bytes, seen, self.seen = [], 0, self.seen, None
        self.say(text)
        self.seen = seen

    @property
    def text(self) -> str:
        """Returns what the model has said."""
        return "".join(self._text).strip()

    def tool(self, id: str, *, title: str | None = None, kind: Kind | None = None, status: str | None = None) -> None:
        """Takes what is new of a tool call."""
        if id not in self._tools and len(self._tools) >= _MOST_LISTED:
            return
        known = self._tools.get(id, ToolUse(""))
        self._tools[id] = ToolUse(
            neutralise(title, _LONGEST_TITLE) if title else known.title,
            kind or known.kind,
            status if status in _STATUSES else known.status,
        )

    def title_of(self, id: str) -> str:
        """Returns the title of a tool call as far as it is known."""
        return self._tools[id].title if id in self._tools else ""

    def kind_of(self, id: str) -> Kind:
        """Returns the kind of a tool call as far as it is known."""
        return self._tools[id].kind if id in self._tools else "other"

    def asked(self, title: str, kind: Kind, *, allowed: bool) -> None:
        """Takes a permission that was asked for, and what was answered."""
        if not allowed:
            self.outcomes.add("permission_refused")
        if len(self._asked) < _MOST_LISTED:
            self._asked.append(Asked(neutralise(title, _LONGEST_TITLE), kind, allowed))

    def step(self) -> None:
        """Takes one more call of the model."""
        self.used = replace(self.used, steps=(self.used.steps or 0) + 1)

    def blame(self, outcome: Outcome, problem: str = "") -> None:
        """Takes that something is wrong; of several sentences the first is kept."""
        self.outcomes.add(outcome)
        if problem and not self.problem:
            self.problem = neutralise(problem, _LONGEST_PROBLEM)

    def passed(self) -> str | None:
        """Returns the limit that the turn has passed, as a sentence, or None."""
        limits, used = self.task.limits, self.used
        if limits.steps is not None and used.steps is not None and used.steps > limits.steps:
            return f"the turn took more than {limits.steps} steps"
        if limits.tokens is not None and used.tokens is not None and used.tokens > limits.tokens:
            return f"the turn used {used.tokens} tokens, and {limits.tokens} were allowed"
        if limits.usd is not None and used.usd is not None and used.usd > limits.usd:
            return f"the turn cost {used.usd:.4f} US dollars, and {limits.usd:g} were allowed"
        return None

    def left_s(self) -> float:
        """Returns the seconds that are left to the turn."""
        return self.began + self.task.limits.wall_s - time.monotonic()

    def turn(self, dispatcher: str, left: tuple[str, ...], errors: str) -> Turn:
        """Returns what came of the turn.

        Args:
            dispatcher: its name.
            left: processes that had to be ended.
            errors: the end of standard error.
        """
        found = set(self.outcomes)
        # A failure that the harness did explain is named by its explanation.
        found |= trouble_in(errors) - ({"auth_required"} if self.text and "broken_stream" not in found else set())
        if (passed := self.passed()) is not None and "cancelled" not in found:
            self.blame("budget_cut", passed)  # also where it is known at the end alone
            found.add("budget_cut")
        if left:
            found.add("leftover_processes")
        if self.task.ready is not None and not self.task.ready.exists() and not found & {"auth_required", "cancelled"}:
            found.add("server_missing")
        if not self.text and not found & _EXPLAIN_SILENCE:
            found.add("no_answer")
        if self.used.tokens is None and self.used.usd is None:
            found.add("usage_unknown")
        problem = self.problem or _SENTENCES.get(worst(found), "")
        if left and worst(found) == "leftover_processes":
            problem = f"it left processes behind, which were ended: {', '.join(left[:5])}"
        return Turn(
            outcome=worst(found), text=self.text, session=self.session, used=self.used, known=self._known(),
            tools=tuple(self._tools.values()), asked=tuple(self._asked),
            outcomes=tuple(sorted(found - {"done"}, key=lambda one: list(_SENTENCES).index(one))),
            problem=neutralise(problem, _LONGEST_PROBLEM), model=neutralise(self.model, 100), left=left,
            duration_s=time.monotonic() - self.began, dispatcher=dispatcher,
        )  # fmt: skip

    def _known(self) -> Usage:
        """Returns the sums for the next turn: what this one did not report stays as it was."""
        known, sums = self.task.known, self.sums
        return Usage(
            known.tokens_in if sums.tokens_in is None else sums.tokens_in,
            known.tokens_out if sums.tokens_out is None else sums.tokens_out,
            known.usd if sums.usd is None else sums.usd,
        )


# A turn without an answer is named by its cause where there is one: OpenCode ends a turn at a refused permission.
_EXPLAIN_SILENCE = frozenset(("auth_required", "cancelled", "budget_cut", "broken_stream", "permission_refused"))

_SENTENCES: dict[Outcome, str] = {
    "auth_required": "the harness wants a login",
    "cancelled": "the turn was cancelled",
    "budget_cut": "a limit of the turn was passed",
    "broken_stream": "the harness ended in the middle of the turn",
    "no_answer": "the model said nothing",
    "server_missing": "the harness did not start the lab's MCP server",
    "permission_refused": "the harness asked for a permission that the lab does not give",
    "fallback_agent": "the harness does not know the agent, and took its own",
    "hook_untrusted": "the harness leaves out the project's hooks or settings until a person trusts them",
    "leftover_processes": "the harness left processes behind, which were ended",
    "usage_unknown": "the harness does not say what the turn used",
}
