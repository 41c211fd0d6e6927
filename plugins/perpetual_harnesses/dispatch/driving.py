"""Drives a harness in a lab's name: chooses it, books what a turn may use, records what came of it.

A turn is on record before its harness starts, with its mark. One whose driver was killed is found by the next turn: its
processes are ended, and what was booked for it stays booked, since the service may have charged for it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from perpetual.api import Conflict, NotFound, NotPermitted, PerpetualError, TransientError, UsageError, unknown
from perpetual.toolkit import platform, user_state
from perpetual.toolkit.agents import DISPATCH, DISPATCH_READY
from perpetual.toolkit.fence import neutralise
from perpetual_harnesses import scaffold_record
from perpetual_harnesses.dispatch.base import Dispatcher, DispatchError, Kind, Limits, Row, Server, Task, Turn
from perpetual_harnesses.dispatch.environment import new_mark
from perpetual_harnesses.dispatch.marks import going
from perpetual_harnesses.dispatch.permission import kind_of
from perpetual_harnesses.dispatch.records import ENDED, GOING, LOST, REFUSED, SESSION, TURN, sums_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["COMMAND", "OWN_TOOLS", "Drivable", "Driving", "Harnessed", "Known", "NotRecorded", "inside", "rows"]

HANDED_OVER = "ask"  # the purpose of turns in which an agent works on the research for a person
COMMAND = "command"  # the harness of the options `command` and `resume`
SERVER = "perpetual"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+\[\]-]{0,199}")  # of sessions and models: never an option of a command
_MOST_PROMPT_BYTES = 1 << 20
_SETTLE_S = 120.0  # for a store that is busy when an answer has come
# The tools of the lab's own server; those of plugins come to them.
OWN_TOOLS = (
    "perpetual_status", "perpetual_brief", "perpetual_hypotheses", "perpetual_experiments", "perpetual_propose",
    "perpetual_edit", "perpetual_undo", "perpetual_run", "perpetual_runs", "perpetual_logs", "perpetual_kill",
    "perpetual_scan", "perpetual_wait", "perpetual_show", "perpetual_evidence", "perpetual_memory",
    "perpetual_budget",
)  # fmt: skip


@runtime_checkable
class Drivable(Protocol):
    """A harness provider that says how it is driven; those of outside plugins may, too."""

    def driving(self) -> Row | None:
        """Returns how, None where it cannot be driven."""


@dataclass(frozen=True, slots=True)
class Harnessed:
    """A harness that could be driven: how, or why not."""

    row: Row
    dispatcher: Dispatcher | None
    name: str  # of the dispatcher
    problem: PerpetualError | None
    is_scaffolded: bool  # whether `perpetual init` wrote its files here


@dataclass(frozen=True, slots=True)
class Known:
    """A harness that is known, and whether `perpetual init` wrote its files here, or it has files here at all."""

    row: Row
    is_scaffolded: bool
    is_here: bool


class NotRecorded(PerpetualError):
    """A harness has answered, and its turn could not be recorded: `turn` has the answer."""

    code = "turn_not_recorded"

    def __init__(self, turn: Turn, problem: PerpetualError) -> None:
        super().__init__(f"the agent has answered, and its turn could not be recorded: {problem.message}",
                         hint=problem.hint)  # fmt: skip
        self.turn = turn


class Driving:
    """The harnesses of a lab.

    Args:
        lab: opened in the name that records carry.
        environment: of this process.
    """

    def __init__(self, lab: Lab, environment: Mapping[str, str] = os.environ) -> None:
        self._lab, self._environment = lab, environment
        self._options = lab.options("harnesses")
        self._dispatchers: dict[str, Dispatcher] | None = None

    def dispatchers(self) -> dict[str, Dispatcher]:
        """Returns the dispatchers by name, in the order in which they are tried: ACP first, command lines last."""
        if self._dispatchers is None:
            found: dict[str, Dispatcher] = {name.rpartition("/")[2]: one for name, one in self._lab.parts("dispatcher")}
            order = {"acp": 0, "argv": 2}
            self._dispatchers = dict(sorted(found.items(), key=lambda one: order.get(one[0], 1)))
        return self._dispatchers

    def harnesses(self) -> list[Harnessed]:
        """Returns every harness that is known, those that can be driven first, and of these the project's own first."""
        found = [self._harnessed(one) for one in self.ranked()]
        return sorted(found, key=lambda one: one.dispatcher is None)

    def ranked(self) -> list[Known]:
        """Returns every harness that is known: first those that `perpetual init` wrote here, then those with files."""
        written = {*scaffold_record.read(self._lab.root / ".perpetual").harnesses, COMMAND}
        found = [Known(row, row.name in written, is_here) for row, is_here in rows(self._lab)]
        return sorted(found, key=lambda one: (not one.is_scaffolded, not one.is_here))

    def _harnessed(self, known: Known) -> Harnessed:
        problems: list[PerpetualError] = []
        for name, dispatcher in self.dispatchers().items():
            problem = dispatcher.problem(known.row, self._environment) or self._in_project(known.row, name)
            if problem is None:
                return Harnessed(known.row, dispatcher, name, None, known.is_scaffolded)
            problems.append(problem)
        # The last way is the plainest: what is missing for it is what is easiest to install.
        installable = (
            [one for one in problems if "in the project" in one.message]
            or [one for one in problems if "installed" in one.message]
            or problems
        )
        wrong = installable[-1] if installable else DispatchError("no dispatcher is in force")
        return Harnessed(known.row, None, "", wrong, known.is_scaffolded)

    def _in_project(self, row: Row, way: str) -> PerpetualError | None:
        """Returns an error for a program that lies in the project: what came with a clone is not started."""
        words = row.acp if way == "acp" else row.argv
        place = shutil.which(words[0], path=self._environment.get("PATH")) if words else None
        if place is None or row.name == COMMAND or not inside(place, self._lab.root):
            return None
        return DispatchError(f"{place} lies in the project and is not started", hint="take the project off the PATH")

    def nothing_installed(self) -> NotFound:
        """Returns the error that names what to install."""
        installs = [f"{row.name}: {row.install}" for row, _ in rows(self._lab) if row.install and (row.acp or row.argv)]
        return NotFound(
            "no coding agent that can be driven is installed here",
            hint="install one of these: " + "; ".join(installs), code="harness_not_installed",
        )  # fmt: skip

    def choose(self, name: str | None = None) -> Harnessed:
        """Returns the harness of that name; without one, the project's own or the first that is installed.

        Raises:
            NotFound: for an unknown name; with the code `harness_not_installed` where none can be driven.
        """
        known = self.harnesses()
        if name is not None:
            named = next((one for one in known if one.row.name == name), None)
            if named is None:
                raise NotFound(unknown("harness", name, [one.row.name for one in known]), hint=_listed(known))
            if named.dispatcher is None:
                assert named.problem is not None
                raise NotFound(f"{name} cannot be driven: {named.problem.message}", hint=named.problem.hint,
                               code="harness_not_installed")  # fmt: skip
            return named
        if known and known[0].dispatcher is not None:
            return known[0]
        own = next((one.problem for one in known if one.problem and "in the project" in one.problem.message), None)
        if own is not None:
            raise NotFound(own.message, hint=own.hint, code="harness_not_installed")
        raise self.nothing_installed()

    def drive(
        self,
        prompt: str,
        *,
        harness: str | None = None,
        purpose: str = "ask",
        session: Record | None = None,
        model: str = "",
        agent: bool = False,
        allow: Sequence[Kind] | None = None,
        limits: Limits | None = None,
        with_lab: bool = True,
        cwd: Path | None = None,
        seen: Callable[[str], None] | None = None,
        started: Callable[[Dispatcher], None] | None = None,
        idempotency_key: str | None = None,
    ) -> Record:
        """Sends a prompt to a harness, and returns the turn's record once it has ended.

        Args:
            prompt: at most 1 MiB.
            harness: its name; None takes the session's, else the one that `choose` returns.
            purpose: what the turn is for, by which sessions are found again.
            session: a record of a session to go on with.
            model: the model, as the harness names it.
            agent: whether to speak with the agent of Perpetual's scaffold, where the project has it.
            allow: kinds of tool calls that may be permitted, of those that the project allows; None allows all those.
            limits: of the turn; None takes those of the configuration.
            with_lab: whether the harness gets the lab's MCP server.
            cwd: where it works, by default the project's folder.
            seen: is given the model's words as they come.
            started: is given the dispatcher before the turn, for its `cancel`.
            idempotency_key: a second call with the same key returns the first one's turn.

        Raises:
            UsageError: for a prompt, model or session that cannot be handed over.
            NotFound: where no harness can be driven.
            NotPermitted: in a held project, whose files a harness would load; and for a harness that the lab drives.
            Refused: where a cap of the day leaves no room.
            DispatchError: where the harness cannot be started; nothing stays booked for it.
        """
        _check_prompt(prompt)
        if self._environment.get(DISPATCH):
            raise NotPermitted("a coding agent that the lab drives cannot drive another", code="dispatched")
        self._lab.trust.require("driving a coding agent")
        if idempotency_key is not None and (made := self._made(idempotency_key, prompt)) is not None:
            return made
        chosen = self.choose(harness if session is None else session["harness"])
        if session is not None and harness not in (None, session["harness"]):
            raise Conflict(f"the session {session['session']} is of {session['harness']}, and not of {harness}",
                           hint="leave --harness or --continue out")  # fmt: skip
        assert chosen.dispatcher is not None
        wanted = model or str(self._options["model"] or "")
        for what, id in (("model", wanted), ("session", session["session"] if session is not None else "")):
            if id and not _ID.fullmatch(id):
                raise UsageError(f"{neutralise(id, 60)} cannot be the name of a {what}")
        self.end_lost()
        mark = new_mark()
        limits = limits or self.limits()
        lab = self._lab
        with lab.transaction():  # of two calls with one key, or about one session, one begins
            if idempotency_key is not None and (made := self._made(idempotency_key, prompt)) is not None:
                return made
            self._refuse_second(session)
            turn = self._begin(chosen, mark, prompt, purpose, idempotency_key, session)
        booked = self._booked(limits)
        try:
            self._lab.budget.debit(f"turn {mark}", booked)
        except PerpetualError as problem:
            found = Turn("budget_cut", outcomes=("budget_cut",), problem=problem.message)
            self._end(turn, found, state=REFUSED)
            raise
        try:
            with going(mark) as folder:  # which ends what is left of the lost ones, too
                servers = (self._server(mark, folder / "ready"),) if with_lab else ()
                task = Task(
                    prompt, cwd or self._lab.root, mark, session=None if session is None else session["session"],
                    known=sums_of(session), model=wanted,
                    agent=chosen.row.agent if agent and chosen.is_scaffolded else "", servers=servers,
                    allow=self.allowed(allow), limits=limits, ready=folder / "ready" if servers else None,
                    ready_s=float(str(self._options["server_wait_s"])),
                )  # fmt: skip
                if started is not None:
                    started(chosen.dispatcher)
                found = chosen.dispatcher.turn(chosen.row, task, seen)
        except DispatchError as problem:
            self._lab.budget.reconcile(f"turn {mark}", dict.fromkeys(booked, 0.0))
            found = Turn("no_answer", outcomes=("no_answer",), problem=problem.message)
            self._end(turn, found, state=REFUSED)
            raise
        return self._settled(turn, chosen, purpose, session, found, booked)

    def limits(self) -> Limits:
        """Returns the limits of a turn by the configuration."""
        options = self._options
        tokens, usd = options["tokens_per_turn"], options["usd_per_turn"]
        return Limits(float(str(options["wall_s"])), int(str(options["max_steps"])), int(str(tokens)), float(str(usd)))

    def allowed(self, asked: Sequence[Kind] | None = None) -> frozenset[Kind]:
        """Returns the kinds of tool calls that may be permitted: those asked for, of those that the project allows."""
        configured = self._options["allow"]
        assert isinstance(configured, list)
        mine = frozenset(kind_of(one) for one in configured)
        return mine if asked is None else mine & frozenset(asked)

    def end_lost(self) -> int:
        """Records which turns are lost because their driver was killed, and returns how many there were."""
        lost = 0
        for turn in self._lab.records(TURN).find(state=GOING):
            if _is_driven(turn):
                continue
            self._lab.records(TURN).update(turn.id, state=LOST, outcome="broken_stream", outcomes=["broken_stream"],
                                           problem="the process that drove the harness was ended")  # fmt: skip
            lost += 1
        return lost

    # --- inside -------------------------------------------------------------------------------------------------

    def _refuse_second(self, session: Record | None) -> None:
        """Raises Conflict while another turn of the session goes on: two at once would mix."""
        if session is None:
            return
        for turn in self._lab.records(TURN).find(session=session["session"], state=GOING):
            if _is_driven(turn):
                raise Conflict(f"the turn {turn.id} of this session goes on", hint="wait for it to end")

    def _made(self, key: str, prompt: str) -> Record | None:
        """Returns the turn of a key, if it has ended; one that is lost or was refused is driven again, with its key.

        Raises:
            Conflict: where the turn goes on, and where the key was given for another prompt.
        """
        found = self._lab.records(TURN).find(key=key)
        going = next((one for one in found if one["state"] == GOING), None)
        if going is not None:
            self.end_lost()
            going = self._lab.records(TURN).get(going.id)
            if going["state"] == GOING:
                raise Conflict(f"the turn {going.id} of this key goes on", hint="wait for it to end")
        made = next((one for one in found if one["state"] == ENDED), None)
        if made is not None and made["prompt"] not in (None, prompt):
            raise Conflict(f"the key was given for another prompt, of {made.id}", hint="take another key")
        return made

    def _booked(self, limits: Limits) -> dict[str, float]:
        options = self._options
        tokens = limits.tokens if limits.tokens is not None else int(str(options["tokens_per_turn"]))
        usd = limits.usd if limits.usd is not None else float(str(options["usd_per_turn"]))
        return {"calls": 1, "tokens": float(tokens), "usd": usd}

    def _server(self, mark: str, ready: Path) -> Server:
        """Returns the lab's MCP server, with all that it needs: some harnesses hand no variables on."""
        own = {
            "PERPETUAL_PROJECT": str(self._lab.root), "PERPETUAL_STATE_DIR": str(user_state.folder()),
            DISPATCH: mark, DISPATCH_READY: str(ready),
        }  # fmt: skip
        for name in ("PERPETUAL_CACHE_DIR", "PERPETUAL_BOOT_ID", "XDG_CONFIG_HOME", "HOME"):
            if name in self._environment:
                own[name] = self._environment[name]
        tools = frozenset((*OWN_TOOLS, *(one.name for one in self._lab.registry.serving("mcp_tool"))))
        return Server(SERVER, sys.executable, ("-P", "-m", "perpetual", "mcp", "--state"), own, tools)

    def _begin(
        self, chosen: Harnessed, mark: str, prompt: str, purpose: str, key: str | None, session: Record | None
    ) -> Record:  # fmt: skip
        me = platform.identity_of(os.getpid())
        return self._lab.records(TURN).add(
            harness=chosen.row.name, dispatcher=chosen.name, purpose=purpose, mark=mark,
            driver=None if me is None else [me.boot_id, me.pid, me.start_ticks], state=GOING, key=key, prompt=prompt,
            session=None if session is None else session["session"],
        )  # fmt: skip

    def _settle(
        self, turn: Record, chosen: Harnessed, purpose: str, session: Record | None, found: Turn,
        booked: Mapping[str, float],
    ) -> Record:  # fmt: skip
        """Books what was used, and records the turn and its session; what is not known stays as it was booked."""
        used = dict(booked)
        if found.used.tokens is not None:
            used["tokens"] = float(found.used.tokens)
        if found.used.usd is not None:
            used["usd"] = found.used.usd
        lab = self._lab
        with lab.transaction():
            lab.budget.reconcile(f"turn {turn['mark']}", used)
            self._remember(chosen, purpose, session, found)
            made = self._end(turn, found)
        if found.session is not None and purpose == HANDED_OVER:
            from perpetual_loop.handover import write_handover

            with contextlib.suppress(PerpetualError):  # the turn is on record; the next one is handed over
                write_handover(lab, found.session, harness=chosen.row.name, last_words=found.text)
        return made

    def _settled(
        self, turn: Record, chosen: Harnessed, purpose: str, session: Record | None, found: Turn,
        booked: Mapping[str, float],
    ) -> Record:  # fmt: skip
        """Settles, again while the store is busy: the answer was paid for.

        Raises:
            NotRecorded: where it cannot be recorded; it has the turn.
        """
        deadline = time.monotonic() + _SETTLE_S
        while True:
            try:
                return self._settle(turn, chosen, purpose, session, found, booked)
            except PerpetualError as problem:
                if not isinstance(problem, TransientError) or time.monotonic() > deadline:
                    raise NotRecorded(found, problem) from problem

    def _remember(self, chosen: Harnessed, purpose: str, session: Record | None, found: Turn) -> None:
        if found.session is None or not _ID.fullmatch(found.session):
            return
        known, records = found.known, self._lab.records(SESSION)
        if session is not None and session["session"] == found.session:
            records.update(session.id, turns=session["turns"] + 1, dispatcher=chosen.name, tokens_in=known.tokens_in,
                           tokens_out=known.tokens_out, usd=known.usd)  # fmt: skip
        else:
            records.add(harness=chosen.row.name, session=found.session, purpose=purpose, turns=1,
                        dispatcher=chosen.name, tokens_in=known.tokens_in, tokens_out=known.tokens_out,
                        usd=known.usd)  # fmt: skip

    def _end(self, turn: Record, found: Turn, *, state: str = ENDED) -> Record:
        refused = [one.title for one in found.asked if not one.allowed]
        return self._lab.records(TURN).update(
            turn.id, state=state, session=found.session, outcome=found.outcome, outcomes=[*found.outcomes],
            problem=found.problem, text=found.text, tools=[asdict(one) for one in found.tools], refused=refused,
            left=[*found.left], tokens_in=found.used.tokens_in, tokens_out=found.used.tokens_out, usd=found.used.usd,
            steps=found.used.steps, model=found.model, duration_s=round(found.duration_s, 3),
        )  # fmt: skip


def inside(place: str, root: Path) -> bool:
    """Returns whether a program lies below a folder, links followed."""
    return os.path.realpath(place).startswith(os.path.join(os.path.realpath(root), ""))


def rows(lab: Lab) -> list[tuple[Row, bool]]:
    """Returns the harnesses that say how they are driven, and whether their files are in the project."""
    found: list[tuple[Row, bool]] = []
    for name, harness in ((full.rpartition("/")[2], one) for full, one in lab.parts("harness")):
        row = harness.driving() if isinstance(harness, Drivable) else None
        if row is not None:
            found.append((row if row.name == name else _named(row, name), bool(harness.detect(lab.root))))
    own = _of_command(lab)
    return [*found, *([(own, True)] if own is not None else [])]


def _is_driven(turn: Record) -> bool:
    """Returns whether the process that drives a turn lives."""
    driver = turn["driver"]
    if not isinstance(driver, list) or len(driver) != 3:
        return False
    return platform.is_alive(platform.Identity(str(driver[0]), int(driver[1]), int(driver[2])))


def _named(row: Row, name: str) -> Row:
    from dataclasses import replace

    return replace(row, name=name)


def _of_command(lab: Lab) -> Row | None:
    """Returns the harness of the options `command` and `resume`, None where there is none."""
    options = lab.options("harnesses")
    command, resume = options["command"], options["resume"]
    assert isinstance(command, list)
    assert isinstance(resume, list)
    if not command:
        return None
    return Row(COMMAND, argv=tuple(map(str, command)), resume=tuple(map(str, resume)), model=("{model}",))


def _listed(known: Sequence[Harnessed]) -> str:
    return "there is " + ", ".join(one.row.name for one in known)


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise UsageError("the prompt is empty", hint="perpetual ask 'where does the research stand?'")
    if len(prompt.encode("utf-8", "replace")) > _MOST_PROMPT_BYTES:
        raise UsageError(f"the prompt is longer than {_MOST_PROMPT_BYTES} bytes")
