"""Asking a thinker: one question at a time, each stored before it is asked and each reply before it is used.

A thought goes `asking` -> `answered` -> `used`, or ends as `refused` (two answers that did not fit), `failed` (no
answer after many tries) or `dropped` (the question has no point any longer). Every step is a transaction, and the next
step follows from the record alone: after kill -9 a stored reply is used and its question is not asked again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, TransientError
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.lock import FileLock
from perpetual_thinkers import applying, caps
from perpetual_thinkers.base import KINDS, MOST_REPLY_BYTES, Reply, Request, Thinker, ThinkerError
from perpetual_thinkers.breaker import Breaker
from perpetual_thinkers.records import (
    ANSWERED,
    ASKING,
    DROPPED,
    FAILED,
    REFUSED,
    REPLY,
    THOUGHT,
    USED,
    Thought,
    is_own,
    mark_of,
    replies_to,
    thought_of,
    thoughts,
)
from perpetual_thinkers.replies import BadReply, answer_of
from perpetual_thinkers.requests import PROJECT, about_proposals, about_run, again, ledger_head, schema_of
from perpetual_thinkers.state import utc_now

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run
    from perpetual.slots.service import StopSignal
    from perpetual_thinkers.question import Question

__all__ = ["Thinking"]

_MOST_ATTEMPTS = 8  # at one question
_LOOK_S = 0.1
_LEAVES_S = 2.0
_LONGEST_S = 3700.0  # for one answer; the limits of a thinker's own are shorter
_PENDING = ("approved", "active")
_IDEAS = 10  # of earlier thoughts, that a question for proposals holds
_LONGEST_ERROR = 300


class Thinking:
    """The work of a thinker on a lab, which acts in its name.

    Args:
        lab: opened in the thinker's name.
        name: the thinker's, as records carry it.
        now: returns the present time.
        draw: answers in [0, 1), for the back-off.
        questions: of plugins, which are asked too; None asks those that are installed.
        own: whether it comments on runs and proposes.
    """

    def __init__(
        self, lab: Lab, thinker: Thinker, name: str, *, now: Callable[[], datetime] = utc_now,
        draw: Callable[[], float] = random.random, questions: Sequence[Question] | None = None, own: bool = True,
    ) -> None:  # fmt: skip
        self._lab, self._thinker, self._name, self._now = lab, thinker, name, now
        self._breaker = Breaker(lab, name, draw)
        self._options = lab.options("thinkers")
        self._lock = FileLock(lab.root / ".perpetual" / "thinkers.lock")
        self._idle_head = ""  # the head at which there was nothing to propose
        found = [part for _, part in lab.parts("question")] if questions is None else questions
        self._questions: dict[str, Question] = {one.kind: one for one in found if one.kind not in KINDS}
        self._kinds = (*KINDS, *self._questions) if own else (*self._questions,)
        self._troubles: dict[str, str] = {}
        thinker.open(lab.root)

    def step(self, stop: StopSignal) -> bool:
        """Uses one reply, or asks one question; returns whether there was something to do."""
        if not self._thinker.thinks or not self._lock.acquire(blocking=False):
            return False
        try:
            for thought in thoughts(self._lab, state=ANSWERED):
                if thought.kind in self._kinds:
                    self._take(thought)
                    return True
            if self.waits_until() is not None:
                return False
            chosen = self._next()
            return chosen is not None and self._ask(chosen, stop)
        finally:
            self._lock.release()

    def waits_until(self) -> datetime | None:
        """Returns until when nothing is asked, after a failure; None where a question may be asked."""
        state, now = self._breaker.state(self._now()), self._now()
        return state.until if state.until is not None and state.until > now else None

    def trouble(self) -> str | None:
        """Returns why the thinker is not asked, where its breaker is open, or why a plugin asked nothing."""
        state = self._breaker.state(self._now())
        if not state.is_open or state.until is None:
            return next(iter(self._troubles.values()), None)
        return f"the thinker {self._name} has failed {state.failures} times in a row: {state.error}"

    # --- what to ask ---------------------------------------------------------------------------------------------

    def _next(self) -> Thought | None:
        """Returns the question to ask now: one that has no answer yet, else a new one."""
        for thought in sorted(thoughts(self._lab, state=ASKING), key=lambda one: one.attempts):
            if thought.kind not in self._kinds:
                continue
            if thought.attempts >= _MOST_ATTEMPTS:
                self._change(thought, state=FAILED, reason=f"no answer after {thought.attempts} calls")
            elif not thought.asked:
                self._change(thought, state=DROPPED, reason="its question stayed in the project that it came from")
            elif thought.kind == "propose" and not self._may_propose():
                self._change(thought, state=DROPPED, reason="there is no need of proposals any longer")
            elif thought.kind in self._questions and (why := self._questions[thought.kind].closed(self._lab, thought)):
                self._change(thought, state=DROPPED, reason=neutralise(why, _LONGEST_ERROR))
            elif thought.thinker == self._name:
                return thought
        asked = self._of_plugins()  # before comments, of which there may be many: runs wait for what comes of it
        if asked is not None:
            return self._new(*asked)
        methodology = self._lab.config.methodology
        if "analyse" in self._kinds and self._options["analyse"] and methodology["auto_analyze"]:
            run = self._run_to_analyse()
            if run is not None:
                return self._new(about_run(self._lab, run, head=ledger_head(self._lab), max_tokens=self._most()),
                                 run.id)  # fmt: skip
        return self._for_proposals() if "propose" in self._kinds else None

    def _of_plugins(self) -> tuple[Request, str] | None:
        """Returns what a plugin asks now, and about what; one that cannot say holds up no other."""
        for kind, question in self._questions.items():
            try:
                asked = question.new(self._lab, thinker=self._name)
            except PerpetualError as problem:
                self._troubles[kind] = neutralise(f"the question {kind}: {problem.message}", _LONGEST_ERROR)
                continue
            self._troubles.pop(kind, None)
            if asked is not None:
                return asked
        return None

    def _schema(self, kind: str) -> Mapping[str, object]:
        return self._questions[kind].schema() if kind in self._questions else schema_of(kind)

    def _most(self) -> int:
        return int(str(self._options["max_tokens"]))

    def _run_to_analyse(self) -> Run | None:
        """Returns the oldest of the newest runs that the rules have analysed and no thinker was asked about."""
        newest = int(str(self._options["analyse_runs"]))
        asked = {thought.subject for thought in thoughts(self._lab, kind_of_question="analyse")}
        found = None
        for run in self._lab.runs.list(limit=newest):
            if run.id in asked or run.ended_at is None:
                continue
            if self._lab.experiments.get(run.experiment_id).status == "analysed":
                found = run
        return found

    def _may_propose(self) -> bool:
        """Returns whether less is proposed, approved or live than a batch holds, and the rules have nothing new."""
        methodology = self._lab.config.methodology
        if not methodology["auto_propose"] or not self._options["propose"] or not self._lab.hypotheses.count_open():
            return False
        room = applying.room(self._lab)
        pending = (
            sum(len(self._lab.experiments.list(status=status, limit=room + 1)) for status in _PENDING) if room else 0
        )
        if room - pending <= 0:
            return False
        return not any(pick.new for pick in self._lab.experiments.propose_auto(room, dry_run=True))

    def _for_proposals(self) -> Thought | None:
        if not self._options["propose"]:
            return None
        head = ledger_head(self._lab)
        if head == self._idle_head or not self._may_propose():
            return None
        earlier = thoughts(self._lab, kind_of_question="propose")
        ideas = [str(idea) for thought in thoughts(self._lab, state=USED)[-_IDEAS:]
                 for idea in _list(thought.outcome.get("ideas"))][-_IDEAS:]  # fmt: skip
        request = about_proposals(self._lab, room=applying.room(self._lab), ideas=ideas, head=head,
                                  max_tokens=self._most())  # fmt: skip
        if any(thought.request_id == request.request_id for thought in earlier):
            self._idle_head = head  # it was asked about this very record
            return None
        return self._new(request, PROJECT)

    def _new(self, request: Request, subject: str) -> Thought:
        made = self._lab.records(THOUGHT).add(
            idempotency_key=f"{request.request_id}:thought", request_id=request.request_id,
            kind_of_question=request.kind, subject=subject, thinker=self._name, state=ASKING, attempts=0,
            asked=request.state, max_tokens=request.max_tokens,
        )  # fmt: skip
        return thought_of(made)

    # --- asking --------------------------------------------------------------------------------------------------

    def _ask(self, thought: Thought, stop: StopSignal) -> bool:
        """Asks, and stores the reply; returns whether anything was asked."""
        request = thought.request(self._schema(thought.kind))
        request = request if thought.problem is None else again(request, thought.problem)
        day, attempt = caps.day_of(self._now()), thought.attempts + 1
        key = f"thinker:{request.request_id}:{attempt}"
        booked = caps.worst_case(self._lab, request, day)
        with self._lab.together():
            why = caps.book(self._lab, key, booked)
            if why is None:
                self._change(thought, attempts=attempt)
        if why is not None:
            self._breaker.capped(why, day)
            return False
        try:
            reply = self._answer(request, stop)
        except ThinkerError as problem:
            if stop.is_set():
                return False  # it was ended by this process, and is asked again by the next one
            self._breaker.failed(problem.message, self._now())
            return True
        with self._lab.together():  # as it came, before anything is done with it
            stored = self._lab.records(REPLY).append(
                thought=thought.id, request_id=thought.request_id, attempt=attempt, day=day, text=reply.text,
                tokens_in=reply.tokens_in, tokens_out=reply.tokens_out, usd=reply.usd, model=reply.model,
            )  # fmt: skip
            caps.settle(self._lab, key, booked, reply)
            self._change(thought, attempts=attempt, state=ANSWERED, mark=mark_of(thought, stored))
        self._take(thought_of(self._lab.records(THOUGHT).get(thought.id)))
        return True

    def _answer(self, request: Request, stop: StopSignal) -> Reply:
        """Returns the reply, asked for in a thread of its own so that a stop is heard meanwhile.

        Raises:
            ThinkerError: whatever went wrong, in one line.
        """
        found: list[Reply | Exception] = []

        def ask() -> None:
            try:
                found.append(_checked(self._thinker.think(request)))
            except Exception as problem:  # noqa: BLE001 - of any plugin; it is named as the reason
                found.append(problem)

        thread = threading.Thread(target=ask, name="thinker", daemon=True)
        thread.start()
        deadline = time.monotonic() + _LONGEST_S
        while thread.is_alive():
            thread.join(_LOOK_S)
            if thread.is_alive() and (stop.is_set() or time.monotonic() > deadline):
                self._thinker.cancel()
                thread.join(_LEAVES_S)
                break
        answer = found[0] if found else ThinkerError("the thinker gave no answer in time")
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, ThinkerError):
            raise answer
        said = answer.message if isinstance(answer, PerpetualError) else str(answer)
        raise ThinkerError(neutralise(f"{type(answer).__name__}: {said}", _LONGEST_ERROR)) from answer

    # --- using ---------------------------------------------------------------------------------------------------

    def _take(self, thought: Thought) -> None:
        """Uses the last reply; what the record refuses ends the thought, so that it holds up no other."""
        try:
            self._use(thought)
        except TransientError:
            raise
        except PerpetualError as problem:
            self._change(thought, state=REFUSED, reason=neutralise(problem.message, _LONGEST_ERROR))
            if thought.kind in self._questions:  # another question of its kind may fare the same, and costs as much
                self._breaker.failed(f"its answer could not be used: {problem.message}", self._now())

    def _use(self, thought: Thought) -> None:
        """Does what the last reply says, or asks once more, or leaves it to the rules."""
        replies, question = replies_to(self._lab, thought), self._questions.get(thought.kind)
        last = replies[-1]
        if not is_own(thought, last):
            self._change(thought, state=DROPPED, reason="its answer was not given to this user's program")
            return
        try:
            answer = answer_of(str(last["text"]), self._schema(thought.kind))
            if question is not None:
                question.check(self._lab, thought, answer)
            else:
                applying.check(self._lab, thought, answer)
        except BadReply as problem:
            if thought.problem is None:
                self._change(thought, state=ASKING, problem=str(problem))
            else:
                self._change(thought, state=REFUSED, reason=str(problem))
                self._breaker.failed(f"two answers that did not fit: {problem}", self._now())
            return
        if question is not None:
            outcome = question.use(self._lab, thought, answer)
            if outcome is None:
                why = question.closed(self._lab, thought) or "its answer is not needed any longer"
                self._change(thought, state=DROPPED, reason=neutralise(why, _LONGEST_ERROR))
            else:
                self._change(thought, state=USED, outcome={**outcome})
            self._breaker.succeeded(self._now())
            return
        outcome = applying.write_note(self._lab, thought, answer, model=str(last["model"] or ""))
        with self._lab.together():
            outcome |= applying.record(self._lab, thought, answer, verdicts=bool(self._options["verdicts"]))
            self._change(thought, state=USED, outcome=outcome)
        self._breaker.succeeded(self._now())

    def _change(self, thought: Thought, **fields: object) -> None:
        self._lab.records(THOUGHT).update(thought.id, expect_revision=None, **fields)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _checked(reply: object) -> Reply:
    """Returns a reply that keeps the contract.

    Raises:
        ThinkerError: for one that does not.
    """
    if not isinstance(reply, Reply) or not isinstance(reply.text, str):
        raise ThinkerError(f"the answer is a {type(reply).__name__}, not a Reply with a text")
    text = reply.text.encode("utf-8", "replace").decode()
    if len(text.encode()) > MOST_REPLY_BYTES:
        raise ThinkerError(f"the answer's text is longer than {MOST_REPLY_BYTES} bytes")
    counts = [_count(reply.tokens_in), _count(reply.tokens_out)]
    usd = float(reply.usd) if isinstance(reply.usd, (int, float)) and 0 <= reply.usd < 1e9 else None
    return Reply(text, counts[0], counts[1], usd, neutralise(reply.model, 100))


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 10**9 else None
