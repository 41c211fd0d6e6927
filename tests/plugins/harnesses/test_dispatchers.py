"""The bundled dispatchers keep the promises of their slot, and the suite fails on each twin that breaks one."""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from perpetual.api import PerpetualError
from perpetual_harnesses.dispatch.base import KINDS, Dispatcher, Limits, Row, Task, Turn, Usage
from perpetual_harnesses.dispatch.environment import new_mark
from perpetual_harnesses.dispatch.over_acp import AcpDispatcher
from perpetual_harnesses.dispatch.over_argv import ArgvDispatcher
from perpetual_harnesses.dispatch.process import end_marked
from perpetual_harnesses.testing import DispatcherContract, RowOf, acp_row, lines_row


class TestAcp(DispatcherContract):
    @pytest.fixture
    def dispatcher(self) -> Dispatcher:
        return AcpDispatcher()

    @pytest.fixture
    def row_of(self) -> RowOf:
        return acp_row

    def test_a_limit_of_money_ends_the_turn(self, dispatcher: Dispatcher, folder: Path) -> None:
        task = Task("spend", folder, new_mark(), limits=Limits(60.0, usd=2.0))
        found = dispatcher.turn(acp_row("spend"), task)
        assert found.outcome == "budget_cut"
        assert "US dollars" in found.problem
        assert 2 < (found.used.usd or 0) < 40

    def test_a_harness_that_reads_no_more_is_cut(self, dispatcher: Dispatcher, folder: Path) -> None:
        """The prompt is longer than the pipe takes, so no word to stop reaches it either."""
        code = "import sys; [print(line, flush=True) for line in sys.argv[1:]]; import time; time.sleep(600)"
        said = [{"id": 0, "result": {}}, {"id": 1, "result": {"sessionId": "s"}}]
        row = Row("deaf", acp=(sys.executable, "-S", "-c", code, *map(json.dumps, said)))
        began = time.monotonic()
        found = dispatcher.turn(row, Task("x" * 900_000, folder, new_mark(), limits=Limits(1.5)))
        assert found.outcome == "budget_cut"
        assert time.monotonic() - began < 15

    def test_a_flood_of_requests_is_cut(self, dispatcher: Dispatcher, folder: Path) -> None:
        code = (
            "import json, sys\n"
            "said = [{'id': 0, 'result': {}}, {'id': 1, 'result': {'sessionId': 's'}}]\n"
            "print(*map(json.dumps, said), sep='\\n')\n"
            "asked = json.dumps({'id': 9, 'method': 'session/request_permission', 'params': {'options': []}})\n"
            "while True: print(asked)"
        )
        began = time.monotonic()
        row = Row("flood", acp=(sys.executable, "-S", "-c", code))
        found = dispatcher.turn(row, Task("?", folder, new_mark(), limits=Limits(5.0)))
        assert found.outcome in ("broken_stream", "budget_cut")
        assert time.monotonic() - began < 15

    def test_what_was_passed_at_the_end_is_said(self, dispatcher: Dispatcher, folder: Path) -> None:
        found = dispatcher.turn(acp_row("answer"), Task("?", folder, new_mark(), limits=Limits(30.0, usd=0.1)))
        assert (found.outcome, found.text) == ("budget_cut", "The answer is 42. (prompt 1)")


class TestArgv(DispatcherContract):
    @pytest.fixture
    def dispatcher(self) -> Dispatcher:
        return ArgvDispatcher()

    @pytest.fixture
    def row_of(self) -> RowOf:
        return lines_row

    def test_a_limit_of_tokens_ends_the_turn(self, dispatcher: Dispatcher, folder: Path) -> None:
        task = Task("spend", folder, new_mark(), limits=Limits(60.0, tokens=40))
        found = dispatcher.turn(lines_row("spend"), task)
        assert found.outcome == "budget_cut"
        assert "tokens" in found.problem
        assert 40 < (found.used.tokens or 0) < 600


def test_what_a_program_has_left_printing_keeps_no_answer_back(tmp_path: Path) -> None:
    code = "import os, sys\nprint('answer', flush=True)\nif os.fork() == 0:\n while True: print('x' * 1000)"
    row = Row("any", argv=(sys.executable, "-S", "-c", code))
    began = time.monotonic()
    found = ArgvDispatcher().turn(row, Task("?", tmp_path, new_mark(), limits=Limits(30.0)))
    assert found.text.startswith("answer")
    assert time.monotonic() - began < 15


# --- twins that each break one promise -------------------------------------------------------------------------------


class Starts(AcpDispatcher):
    def problem(self, row: Row, environment: Mapping[str, str]) -> PerpetualError | None:
        Path("started").touch()
        return None


class Silent(AcpDispatcher):
    """Never hands the words on as they come."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, task)


class Forgets(AcpDispatcher):
    """Takes the sum of the session for what the turn has cost."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, replace(task, known=Usage()), seen)


class BeginsAnew(AcpDispatcher):
    """Begins a new session where the harness does not know the old one."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        found = super().turn(row, task, seen)
        return found if found.text or not task.session else super().turn(row, replace(task, session=None), seen)


class Leaves(AcpDispatcher):
    """Looks for nothing that is left: it gives every turn a mark that it does not look for."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        words = (sys.executable, "-S", "-c", _UNMARKED, task.mark, *row.acp)
        return super().turn(replace(row, acp=words), replace(task, mark="another"), seen)


_UNMARKED = "import os, sys; os.environ['PERPETUAL_DISPATCH'] = sys.argv[1]; os.execvp(sys.argv[2], sys.argv[2:])"


class Patient(AcpDispatcher):
    """Holds no limit but that of time."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, replace(task, limits=Limits(wall_s=5.0)), seen)


class Endless(AcpDispatcher):
    """Takes a limit that was passed for an end."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        found = super().turn(row, task, seen)
        return replace(found, outcome="done") if found.outcome == "budget_cut" else found


class Deaf(AcpDispatcher):
    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, replace(task, limits=Limits(wall_s=2.0)), seen)

    def cancel(self) -> None:
        """Ends nothing."""


class Lenient(AcpDispatcher):
    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, replace(task, allow=frozenset(KINDS)), seen)


class Strict(AcpDispatcher):
    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, replace(task, allow=frozenset()), seen)


class KeepsServers(AcpDispatcher):
    """Hands no server over."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(row, replace(task, servers=()), seen)


class NamesNothing(AcpDispatcher):
    """Has one name for every failure."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        found = super().turn(row, task, seen)
        return (
            found if found.outcome in ("done", "usage_unknown") else replace(found, outcome="cancelled", problem="\x1b")
        )


class Guesses(AcpDispatcher):
    """Says 0 for what it does not know."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        found = super().turn(row, task, seen)
        return replace(found, used=Usage(0, 0, 0.0), outcome="done")


class Hoards(AcpDispatcher):
    """Keeps all that is said."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        found = super().turn(row, task, seen)
        return replace(found, text=found.text * 2 if len(found.text) > 1000 else found.text)


class Unclean(AcpDispatcher):
    """Lets the harness see what is around it."""

    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        return super().turn(replace(row, sets={"CLAUDECODE": os.environ.get("CLAUDECODE", "")}), task, seen)


class LeavesAThread(AcpDispatcher):
    def turn(self, row: Row, task: Task, seen: Callable[[str], None] | None = None) -> Turn:
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
        return super().turn(row, task, seen)


TWINS: dict[type[AcpDispatcher], set[str]] = {
    Starts: {"test_problem_starts_nothing"},
    Silent: {"test_an_answer_is_done"},
    Forgets: {"test_a_session_goes_on_in_a_new_process"},
    BeginsAnew: {"test_an_unknown_session_is_no_new_one"},
    Leaves: {"test_nothing_is_left"},
    Patient: {"test_a_limit_of_steps_ends_the_turn"},
    Endless: {"test_a_limit_of_time_ends_the_turn"},
    Deaf: {"test_it_can_be_cancelled"},
    Lenient: {"test_what_the_policy_does_not_allow_is_refused", "test_tools_of_the_servers_are_permitted"},
    Strict: {"test_what_the_policy_allows_is_given_once"},
    KeepsServers: {"test_the_servers_are_handed_over"},
    NamesNothing: {"test_failures_have_names"},
    Guesses: {"test_what_is_not_said_is_unknown"},
    Hoards: {"test_lines_that_are_no_messages_do_no_harm"},
    Unclean: {"test_the_environment_is_clean"},
    LeavesAThread: {"test_no_thread_is_left"},
}
NAMES = {name for name, _ in inspect.getmembers(DispatcherContract, inspect.isfunction) if name.startswith("test_")}


def holds(name: str, dispatcher: Dispatcher, folder: Path, patch: pytest.MonkeyPatch) -> bool:
    """Returns whether a dispatcher passes one test of the suite."""
    test = getattr(DispatcherContract(), name)
    given = {"dispatcher": dispatcher, "row_of": acp_row, "folder": folder, "monkeypatch": patch,
             "behaviour": "login", "outcome": "auth_required"}  # fmt: skip
    try:
        test(**{key: given[key] for key in inspect.signature(test).parameters})
    except AssertionError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[AcpDispatcher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in sorted(TWINS[kind]):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        dispatcher = kind()
        try:
            assert not holds(name, dispatcher, folder, monkeypatch), name
        finally:
            AcpDispatcher.cancel(dispatcher)
            end_marked("another")


def test_every_test_of_the_suite_has_a_twin_that_fails_it() -> None:
    assert set().union(*TWINS.values()) == NAMES
