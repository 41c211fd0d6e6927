"""The tools that answer the news: `perpetual_scan` at once, `perpetual_wait` when they are worth a turn.

A wait costs the agent one call, however long it lasts: it records how runs end, tells the client every few seconds how
far they are, and answers early only where a decision is due. Registered by `perpetual_mcp.tools`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from perpetual import Lab
from perpetual.api import NotPermitted, PerpetualError, Run, ToolContext, UsageError, to_json
from perpetual.toolkit.readers import waiting
from perpetual.toolkit.units import identifier, seconds_of
from perpetual_mcp.bounds import Answer, fitted, plain
from perpetual_mcp.call_context import CallContext
from perpetual_mcp.news import LIVE, live_lines, live_now, news_since, say_live
from perpetual_mcp.read_tools import run_line, say_run

if TYPE_CHECKING:
    from perpetual.api import Event

__all__ = ["MOST_WAIT", "PROGRESS_S", "perpetual_scan", "perpetual_wait"]

Amount = float | str  # a number, or text with a unit
MOST_WAIT = "PERPETUAL_MCP_MAX_WAIT"  # what this client allows of a call, e.g. 55s
_SCAN_WAIT_S = 20.0  # the most of `scan`, whose clients may give a call up after half a minute
_UNHEARD_S = 25.0  # the most of a wait whose client takes no progress: it is likely to give up after half a minute
# The most of clients whose own limit progress does not move, as they are configured without that variable.
_KNOWN_S = {"codex": 110.0, "gemini": 550.0}
_LONGEST_S = 86_400.0
PROGRESS_S = 5.0  # between two notifications
_MOST_ENDED = 20
_BAD = ("failed", "timeout", "lost", "killed")
# What is noted of a live run and asks for no decision: the others are symptoms.
_QUIET = ("retry", "aside", "metrics", "leftover", "late")

Since = Annotated[
    int | None, "News since this event: the seq of an earlier answer. Default: since your last scan or wait here."
]


class _Enough(Exception):
    """Raised inside `lab.wait` to end it."""


def perpetual_scan(
    lab: Lab,
    context: ToolContext,
    since: Since = None,
    wait: Annotated[Amount, "Of old: first wait up to 20 s for a run to end. Rather perpetual_wait."] = 0,
) -> Answer:
    """Answer at once what any process has recorded: ends of runs, evidence, verdicts; and what is live and next."""
    wait_s = seconds_of(_text_of(wait), "wait")
    if wait_s > _SCAN_WAIT_S:
        raise UsageError(f"wait is at most {_SCAN_WAIT_S:g} s, not {wait_s:g}", hint="perpetual_wait has no such limit")
    before = lab.feed.last()
    base = _base(context, since, before)
    news_since(lab, base)  # refuses a since of the future, before anything is recorded
    found = lab.scan()
    if wait_s and not found["changes"]:
        lab.loop.wait_any(wait_s)
        found = lab.scan()
    news, now = news_since(lab, base), live_now(lab)
    document = {
        "schema": "perpetual.scan/1",
        "seq": news.seq,
        "changes": news.changes,
        "verdicts": news.verdicts,
        "evidence": [*news.evidence],
        "others": news.others,
        **now.document(),
        "debits": [{key: to_json(row)[key] for key in ("run_id", "gpu_hours", "run_hours")} for row in found["debits"]],
        "problems": found["problems"],
        "truncated": not news.is_whole,
    }
    lines = news.lines()
    lines += [f"{item['run_id']} cannot be looked at: {plain(item['message'], 200)}" for item in found["problems"]]
    if not lines:
        moved = "the record has changed, and no run or verdict" if news.seq > base else "nothing has changed"
        lines = [f"{moved} since event {base}"]
    return fitted(document, "\n".join([*lines, now.said()]))


def perpetual_wait(
    lab: Lab,
    context: ToolContext,
    ids: Annotated[list[str] | None, 'Runs and experiments, e.g. ["e1", "r7"]; without them everything live.'] = None,
    timeout: Annotated[Amount, "At most so long: seconds, or with a unit, e.g. 2h."] = "10m",
    since: Since = None,
) -> Answer:
    """Wait until all of these have ended, or a decision is due: a failed run, a verdict, a person. It records ends."""
    timeout_s = seconds_of(_text_of(timeout), "timeout")
    if timeout_s > _LONGEST_S:
        raise UsageError(f"timeout is at most {_LONGEST_S:g} s, not {timeout_s:g}", hint="call again: the runs go on")
    watch = _Watch(
        lab, context, ids, _base(context, since, lab.feed.last()), min(timeout_s, _allowed_s(lab.actor, context))
    )
    watch.run()
    news, now = news_since(lab, watch.base), live_now(lab)
    ended, going = watch.ended(), [run for run in watch.runs() if run.status in LIVE]
    because = watch.because(going)
    document = {
        "schema": "perpetual.wait/1",
        "seq": news.seq,
        "because": because,
        "attention": watch.attention,
        "ended": [run_line(run) for run in ended],
        "changes": [item for item in news.changes if item["run_id"] not in {run.id for run in ended}],
        "verdicts": news.verdicts,
        "others": news.others,
        **now.document(),
        "truncated": not news.is_whole or len(ended) == _MOST_ENDED,
    }
    head = {
        "ended": "all have ended",
        "attention": f"a decision is due: {'; '.join(watch.attention)}",
        "timeout": f"{watch.limit_s:g} s are over, and the runs go on: call perpetual_wait again",
        "nothing": "there is nothing to wait for",
    }[because]
    others = news._replace(changes=[], evidence=[]).lines()  # the ends of runs are said with their metrics
    lines = [head, *(say_run(run_line(run)) for run in ended), *others, now.said()]
    return fitted(document, "\n".join(lines), own=waiting(watch.unapproved) if watch.unapproved else "")


class _Watch:
    """One wait: what it waits for, and what ends it early."""

    def __init__(self, lab: Lab, context: ToolContext, ids: Sequence[str] | None, base: int, limit_s: float) -> None:
        self.base, self.limit_s = base, limit_s
        self.attention: list[str] = []
        self.unapproved: list[str] = []
        self._lab, self._context = lab, context
        self._ids = [identifier(id) for id in dict.fromkeys(ids)] if ids else None
        self._read = base
        self._began = self._said = time.monotonic()
        self._seen: dict[str, None] = {}  # the runs that this wait is about
        news_since(lab, base)
        for run in self.runs():  # raises for an id that is neither
            self._seen[run.id] = None

    def runs(self) -> Sequence[Run]:
        """Returns the runs that are waited for, as they are now."""
        if self._ids is not None:
            return self._lab.runs.named(self._ids)
        for run in self._lab.runs.live():
            self._seen[run.id] = None
        return [self._lab.runs.get(id) for id in self._seen]

    def ended(self) -> list[Run]:
        """Returns those of them that have ended, the newest last."""
        over = [run for run in self.runs() if run.status not in LIVE]
        return sorted(over, key=lambda run: run.ended_at or "")[-_MOST_ENDED:]

    def because(self, going: Sequence[Run]) -> str:
        """Returns why the wait has ended: attention, ended, timeout or nothing."""
        if going:
            return "attention" if self.attention else "timeout"
        if self._seen and not self.unapproved:
            return "ended"
        return "attention" if self.attention else "nothing"

    def run(self) -> None:
        """Blocks until the wait is over.

        Raises:
            PerpetualError: where the client has taken the call back.
        """
        self._blocked()
        with suppress(_Enough):
            while True:
                if self._ids is None:
                    self.runs()  # those that were started meanwhile
                names = self._ids or [*self._seen]
                left_s = self.limit_s - (time.monotonic() - self._began)
                try:
                    self._lab.wait(names, timeout_s=max(0.0, left_s), tick=self._tick)
                except NotPermitted as problem:  # all of them wait for a person
                    self.attention.append(plain(problem.message, 300))
                    return
                is_over = self._ids is not None or not [run for run in self.runs() if run.status in LIVE]
                if is_over or time.monotonic() - self._began >= self.limit_s:
                    return

    def _blocked(self) -> None:
        """Notes the experiments asked for that a person has not approved: nothing of them can end."""
        asked = [self._lab.experiments.get(id) for id in self._ids or () if id[:1] == "e"]
        self.unapproved = [item.id for item in asked if item.status == "proposed"]
        idle = [item.id for item in asked if item.status == "approved"]
        self.attention += [f"{id} is not approved" for id in self.unapproved]
        self.attention += [f"{id} has no run yet: perpetual_run starts it" for id in idle]

    def _tick(self) -> None:
        """Looks at what was recorded since the last look; called by `lab.wait` after each of its own."""
        if self._context.is_cancelled():
            raise PerpetualError("the call was taken back", code="cancelled")
        for event in self._lab.events(since=self._read):
            self._read = event.seq
            self.attention += self._asks(event)
        going = [run for run in self.runs() if run.status in LIVE]
        is_waiting = bool(going) and all(run.status == "queued" for run in going)
        if is_waiting and self._lab.queue.state() == "paused":
            self.attention.append(f"the queue is paused, so {going[0].id} does not start")
        if self.attention:
            raise _Enough
        self._tell(going)

    def _asks(self, event: Event) -> list[str]:
        """Returns what an event asks of the agent; an event of a run that is not waited for asks nothing."""
        payload, subject = event.payload, event.subject
        if event.kind == "hypothesis_status":
            return [f"{subject} {payload['from']} -> {payload['to']}"]
        if event.kind == "loop_stopped" and "budget" in str(payload.get("reason")):
            return ["the budget holds no further run"]
        if not self._is_of(subject, payload):
            return []
        if event.kind == "run_status" and payload["to"] in _BAD:
            return [f"{subject} {payload['to']}" + (f" ({plain(payload['reason'], 120)})" if payload["reason"] else "")]
        if event.kind == "budget_overrun":
            return [f"{subject} runs longer than what was reserved for it"]
        if event.kind == "run_tainted":
            return [f"{subject} is tainted: what it measures weighs nothing"]
        if event.kind == "run_annotated" and payload["kind"] not in _QUIET:
            return [f"seen of {subject}: {plain(payload['text'], 200)}"]
        return []

    def _is_of(self, subject: str, payload: Mapping[str, object]) -> bool:
        """Returns whether an event is of a run that is waited for."""
        if self._ids is None or subject in self._ids:
            return True
        if subject[:1] != "r" or not subject[1:].isdecimal():
            return False
        owner = payload.get("experiment_id") or self._lab.runs.get(subject).experiment_id
        return owner in self._ids

    def _tell(self, going: Sequence[Run]) -> None:
        now = time.monotonic()
        if now - self._said < PROGRESS_S:
            return
        self._said = now
        lines = live_lines(self._lab, [run for run in going if run.status != "queued"][:3])
        message = say_live(lines, sum(run.status == "queued" for run in going)).removeprefix("live: ")
        self._context.progress(round(now - self._began, 1), None, message)


def _base(context: ToolContext, since: int | None, last: int) -> int:
    """Returns the event after which news are answered."""
    heard = context.heard if isinstance(context, CallContext) else None
    return since if since is not None else min(heard, last) if heard is not None else last


def _allowed_s(actor: str, context: ToolContext) -> float:
    """Returns how long a call of this client may last."""
    given = os.environ.get(MOST_WAIT)
    if given:
        return seconds_of(given, MOST_WAIT)
    known = [most for name, most in _KNOWN_S.items() if actor.startswith(f"mcp:{name}")]
    if known:
        return known[0]
    return _LONGEST_S if not isinstance(context, CallContext) or context.is_heard else _UNHEARD_S


def _text_of(amount: Amount) -> str:
    return amount if isinstance(amount, str) else repr(amount)
