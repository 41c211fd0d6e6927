"""The contract suite of dispatchers: the promises of `perpetual_harnesses.dispatch.base` as tests.

    class TestAcme(DispatcherContract):
        @pytest.fixture
        def dispatcher(self):
            return acme.dispatcher.build({})

        @pytest.fixture
        def row_of(self):
            return lambda behaviour: Row("acme", argv=(sys.executable, str(AGENT), behaviour))

`row_of` answers a harness that behaves as one of `BEHAVIOURS` says. For the Agent Client Protocol and for lines as
Claude Code prints them such a program is here: `acp_row` and `lines_row`.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from perpetual.toolkit.agents import DISPATCH
from perpetual_harnesses.dispatch.base import Dispatcher, DispatchError, Kind, Limits, Row, Server, Task, Turn, Usage
from perpetual_harnesses.dispatch.environment import new_mark
from perpetual_harnesses.testing.agent import ANSWER, BEHAVIOURS

__all__ = ["AGENT", "BEHAVIOURS", "DispatcherContract", "RowOf", "acp_row", "any_row", "lines_row", "living"]

AGENT = Path(__file__).with_name("agent.py")
RowOf = Callable[[str], Row]
_ENDS_S = 20.0  # within which a limit or a cancellation has ended everything, on a loaded machine
_READY = """
import json, pathlib, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/list":
        pathlib.Path(sys.argv[1]).touch()
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}), flush=True)
"""


def acp_row(behaviour: str) -> Row:
    """Returns a harness that speaks ACP and behaves so."""
    return Row("scripted", acp=(sys.executable, "-S", str(AGENT), "acp", behaviour))


def lines_row(behaviour: str) -> Row:
    """Returns a harness that prints lines as Claude Code does and behaves so."""
    words = (sys.executable, "-S", str(AGENT), "lines", behaviour)
    more = ("{permissions}", "{servers}")
    return Row("scripted", argv=(*words, *more), resume=(*words, "--resume", "{session}", *more), parser="claude")


def any_row(behaviour: str) -> Row:
    """Returns a harness that behaves so and can be driven in both ways."""
    return replace(lines_row(behaviour), acp=acp_row(behaviour).acp)


def living(mark: str) -> list[int]:
    """Returns the processes that carry a turn's mark."""
    wanted, found = f"{DISPATCH}={mark}".encode(), []
    for name in os.listdir("/proc"):
        try:
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0] if name.isdigit() else "Z"
            if state != "Z" and wanted in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.append(int(name))
        except OSError:
            continue
    return found


@dataclass
class _Made:
    """A turn, its mark, and how long it took."""

    turn: Turn
    mark: str
    seconds: float


class DispatcherContract:
    """For every dispatcher; see the module."""

    @pytest.fixture
    def row_of(self) -> RowOf:
        """Returns what makes a harness of a behaviour; by default one that can be driven in both bundled ways."""
        return any_row

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Returns the folder in which harnesses work."""
        made = tmp_path / "work"
        made.mkdir()
        return made

    @staticmethod
    def _task(
        folder: Path, *, session: str | None = None, known: Usage | None = None, servers: tuple[Server, ...] = (),
        allow: frozenset[Kind] = frozenset(), limits: Limits | None = None, ready: Path | None = None,
        ready_s: float = 10.0,
    ) -> Task:  # fmt: skip
        return Task("What is the answer?", folder, new_mark(), session=session, known=known or Usage(), servers=servers,
                    allow=allow, limits=limits or Limits(wall_s=60.0), ready=ready, ready_s=ready_s)  # fmt: skip

    def _made(self, dispatcher: Dispatcher, row: Row, task: Task) -> _Made:
        began = time.monotonic()
        turn = dispatcher.turn(row, task)
        return _Made(turn, task.mark, time.monotonic() - began)

    def test_problem_starts_nothing(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """It says what is missing, and None where nothing is; the program is not started for it."""
        assert dispatcher.problem(row_of("answer"), os.environ) is None
        assert dispatcher.problem(row_of("answer"), {"PATH": str(folder)}) is None, "it has its whole path"
        nothing = Row("nothing")
        problem = dispatcher.problem(nothing, os.environ)
        assert problem is not None
        assert problem.message.isprintable()
        assert [*folder.iterdir()] == []

    def test_an_answer_is_done(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """Text, session, tokens and money are what the harness said; the words come as they are said, too."""
        heard: list[str] = []
        turn = dispatcher.turn(row_of("answer"), self._task(folder), heard.append)
        assert (turn.outcome, turn.outcomes) == ("done", ())
        assert turn.text == f"{ANSWER} (prompt 1)"
        assert "".join(heard).strip() == turn.text
        assert turn.session
        assert (turn.used.tokens_in, turn.used.tokens_out, turn.used.usd) == (10, 5, 0.25)
        assert turn.duration_s > 0

    def test_a_session_goes_on_in_a_new_process(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """By its id; and money is what this turn cost, where the harness reports the sum of the session."""
        row = row_of("sums")
        first = dispatcher.turn(row, self._task(folder))
        second = dispatcher.turn(row, self._task(folder, session=first.session, known=first.known))
        assert second.outcome == "done"
        assert second.session == first.session
        assert second.text.endswith("(prompt 2)")
        assert (second.used.usd, second.known.usd) == (0.25, 0.5)

    def test_an_unknown_session_is_no_new_one(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """A session that the harness does not know is a failure by name, and not a conversation from the start."""
        try:
            turn = dispatcher.turn(row_of("answer"), self._task(folder, session="s-0-0"))
        except DispatchError:
            return
        assert turn.outcome in ("no_answer", "broken_stream")
        assert ANSWER not in turn.text

    def test_nothing_is_left(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """A process in a session of its own is ended as well, and named."""
        made = self._made(dispatcher, row_of("leave"), self._task(folder))
        assert living(made.mark) == []
        assert made.turn.outcome == "leftover_processes"
        assert made.turn.left
        assert made.turn.text.startswith(ANSWER)

    def test_a_limit_of_time_ends_the_turn(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """The harness hangs; the turn is cut, and nothing of it is left."""
        made = self._made(dispatcher, row_of("hang"), self._task(folder, limits=Limits(wall_s=1.0)))
        assert made.turn.outcome == "budget_cut"
        assert made.seconds < _ENDS_S
        assert living(made.mark) == []

    def test_a_limit_of_steps_ends_the_turn(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """A harness that calls its model for ever is cut."""
        made = self._made(dispatcher, row_of("spend"), self._task(folder, limits=Limits(wall_s=60.0, steps=3)))
        assert made.turn.outcome == "budget_cut"
        assert made.turn.used.steps is not None
        assert 3 < made.turn.used.steps < 40
        assert living(made.mark) == []

    def test_it_can_be_cancelled(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """From another thread: the turn returns soon with its name, nothing is left, and the next one works."""
        task = self._task(folder)
        found: list[Turn] = []
        thread = threading.Thread(target=lambda: found.append(dispatcher.turn(row_of("hang"), task)), daemon=True)
        thread.start()
        deadline = time.monotonic() + _ENDS_S
        while len(living(task.mark)) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        dispatcher.cancel()
        thread.join(_ENDS_S)
        assert not thread.is_alive(), "it goes on"
        assert [turn.outcome for turn in found] == ["cancelled"]
        assert living(task.mark) == []
        assert dispatcher.turn(row_of("answer"), self._task(folder)).outcome == "done"

    def test_what_the_policy_does_not_allow_is_refused(
        self, dispatcher: Dispatcher, row_of: RowOf, folder: Path
    ) -> None:
        """The turn says so by name."""
        turn = dispatcher.turn(row_of("ask"), self._task(folder))
        assert (folder / "permission").read_text() == "no"
        assert turn.outcome == "permission_refused"
        assert [one.allowed for one in turn.asked] == [False]

    def test_what_the_policy_allows_is_given_once(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """And never for good."""
        turn = dispatcher.turn(row_of("ask"), self._task(folder, allow=frozenset(("execute",))))
        assert (folder / "permission").read_text() == "yes"
        assert turn.outcome == "done"

    def test_tools_of_the_servers_are_permitted(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """And the same tool of a server that was not handed over is not."""
        server = Server("lab", sys.executable, ("-c", ""), tools=frozenset(("look",)))
        assert dispatcher.turn(row_of("tool"), self._task(folder, servers=(server,))).outcome == "done"
        other = Server("other", sys.executable, ("-c", ""), tools=frozenset(("look",)))
        turn = dispatcher.turn(row_of("tool"), self._task(folder, servers=(other,)))
        assert turn.outcome == "permission_refused"

    def test_the_servers_are_handed_over(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """With their variables; a harness that does not speak to one is named."""
        ready = folder / "ready"
        server = Server("lab", sys.executable, ("-c", _READY, str(ready)), {"LAB": "1"})
        turn = dispatcher.turn(row_of("server"), self._task(folder, servers=(server,), ready=ready))
        assert turn.outcome == "done"
        ready.unlink()
        task = self._task(folder, servers=(server,), ready=ready, ready_s=0.1)
        turn = dispatcher.turn(row_of("answer"), task)
        assert turn.outcome == "server_missing"

    @pytest.mark.parametrize(
        ("behaviour", "outcome"), [("die", "broken_stream"), ("login", "auth_required"), ("silent", "no_answer")]
    )
    def test_failures_have_names(
        self, dispatcher: Dispatcher, row_of: RowOf, folder: Path, behaviour: str, outcome: str
    ) -> None:
        """And one printable line each."""
        turn = dispatcher.turn(row_of(behaviour), self._task(folder))
        assert turn.outcome == outcome
        assert turn.problem
        assert turn.problem.isprintable()

    def test_what_is_not_said_is_unknown(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """A harness that reports no usage has used an unknown amount, which is not 0."""
        turn = dispatcher.turn(row_of("unknown"), self._task(folder))
        assert (turn.outcome, turn.text) == ("usage_unknown", f"{ANSWER} (prompt 1)")
        assert (turn.used.tokens_in, turn.used.tokens_out, turn.used.usd) == (None, None, None)

    def test_lines_that_are_no_messages_do_no_harm(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """A warning on the wrong stream is left out; a very long answer is kept in part."""
        assert dispatcher.turn(row_of("garbage"), self._task(folder)).text == f"{ANSWER} (prompt 1)"
        turn = dispatcher.turn(row_of("wordy"), self._task(folder))
        assert 1000 < len(turn.text.encode()) <= 1 << 20

    def test_the_environment_is_clean(
        self, dispatcher: Dispatcher, row_of: RowOf, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Marks of agents and secrets of runs are gone, the user's settings are there, and the turn's mark is."""
        for name in ("CLAUDECODE", "AGENT", "IS_SANDBOX", "PERPETUAL_APPROVE_TOKEN", "PERPETUAL_RUN"):
            monkeypatch.setenv(name, "1")
        monkeypatch.setenv("SOME_API_KEY", "kept")
        before = dict(os.environ)
        task = self._task(folder)
        seen: Mapping[str, str] = json.loads(dispatcher.turn(row_of("environment"), task).text)
        assert not seen.keys() & {"CLAUDECODE", "AGENT", "IS_SANDBOX", "PERPETUAL_APPROVE_TOKEN", "PERPETUAL_RUN"}
        assert seen["SOME_API_KEY"] == "kept"
        assert seen[DISPATCH] == task.mark
        assert dict(os.environ) == before

    def test_no_thread_is_left(self, dispatcher: Dispatcher, row_of: RowOf, folder: Path) -> None:
        """Neither is an open file."""
        dispatcher.turn(row_of("answer"), self._task(folder))  # what is opened once and kept
        threads, files = {*threading.enumerate()}, len(os.listdir("/proc/self/fd"))
        dispatcher.turn(row_of("answer"), self._task(folder))
        assert {*threading.enumerate()} == threads
        assert len(os.listdir("/proc/self/fd")) == files
