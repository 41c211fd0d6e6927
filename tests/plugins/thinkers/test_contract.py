"""The bundled thinkers keep the promises of their slot, and the suite fails on each that breaks one."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Check, StatusSection
from perpetual.testing.sections import CheckContract, StatusSectionContract
from perpetual_daemon.companion import Companion
from perpetual_daemon.testing import CompanionContract
from perpetual_thinkers.base import Reply, Request, Thinker, ThinkerError
from perpetual_thinkers.by_command import CommandThinker
from perpetual_thinkers.check import build, build_section
from perpetual_thinkers.companion import ThinkerCompanion
from perpetual_thinkers.none import NoThinker
from perpetual_thinkers.testing import ThinkerContract

NAMES = [name for name, _ in inspect.getmembers(ThinkerContract, inspect.isfunction) if name.startswith("test_")]
ECHO = "import json, sys; json.load(sys.stdin); print(json.dumps({'text': '{\"note\": \"fine\"}', 'tokens_out': 5}))"


class TestNone(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return NoThinker()


class TestCommand(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return CommandThinker([sys.executable, "-c", ECHO])


class TestCommandThatIsSlow(ThinkerContract):
    """Only what it does when it is ended takes its time."""

    @pytest.fixture
    def thinker(self) -> Thinker:
        return CommandThinker([sys.executable, "-c", "import time; time.sleep(60)"], timeout_s=0.2)


class TestCommandWithoutOne(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return CommandThinker([])


class Plain(Thinker):
    """Keeps the contract."""

    def think(self, request: Request) -> Reply:
        return Reply('{"note": "fine"}', 10, 5, 0.001, "plain")


class Endless(Plain):
    def think(self, request: Request) -> Reply:
        return Reply("x" * 1_000_000)


class Raises(Plain):
    def think(self, request: Request) -> Reply:
        raise ThinkerError("two\nlines")


class ChangesTheSchema(Plain):
    def think(self, request: Request) -> Reply:
        request.schema["additionalProperties"] = False  # type: ignore[index]
        return super().think(request)


class SetsVariables(Plain):
    def think(self, request: Request) -> Reply:
        os.environ["ACME_KEY"] = "1"
        return super().think(request)


class KeepsALog(Plain):
    def open(self, root: Path) -> None:
        self.root = root

    def think(self, request: Request) -> Reply:
        (self.root / "thinker.log").write_text(request.state)
        return super().think(request)


class LeavesAProcess(Plain):
    left: list[subprocess.Popen[bytes]] = []  # noqa: RUF012 - of the test, which ends them

    def think(self, request: Request) -> Reply:
        self.left.append(subprocess.Popen(["sleep", "60"]))
        return super().think(request)


class LeavesAThread(Plain):
    done = threading.Event()

    def think(self, request: Request) -> Reply:
        threading.Thread(target=self.done.wait, args=(60,), daemon=True).start()
        return super().think(request)


class AnswersOnce(Plain):
    def __init__(self) -> None:
        self.asked: set[str] = set()

    def think(self, request: Request) -> Reply:
        if request.request_id in self.asked:
            raise ThinkerError("it was asked before")
        self.asked.add(request.request_id)
        return super().think(request)


class Stubborn(Plain):
    """Takes its time whatever is asked of it."""

    def think(self, request: Request) -> Reply:
        time.sleep(2.6)
        return super().think(request)


class EndedForGood(Plain):
    ended = False

    def cancel(self) -> None:
        self.ended = True

    def think(self, request: Request) -> Reply:
        if self.ended:
            raise ThinkerError("it was ended")
        return super().think(request)


BROKEN: dict[type[Plain], set[str]] = {
    Plain: set(),
    Endless: {"test_it_answers_or_raises_its_one_error"},
    Raises: {"test_it_answers_or_raises_its_one_error"},
    ChangesTheSchema: {"test_the_request_is_not_changed"},
    SetsVariables: {"test_it_leaves_no_traces"},
    KeepsALog: {"test_it_leaves_no_traces"},
    LeavesAProcess: {"test_it_leaves_nothing_running"},
    LeavesAThread: {"test_it_leaves_nothing_running"},
    AnswersOnce: {"test_the_same_question_may_come_again"},
    Stubborn: {"test_it_can_be_ended"},
    EndedForGood: {"test_it_works_after_it_was_ended"},
}
SLOW: dict[type[Plain], set[str]] = {Stubborn: {"test_it_can_be_ended"}}  # the other tests would wait for it as well


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    LeavesAThread.done.set()
    for process in LeavesAProcess.left:
        process.kill()
        process.wait()
    LeavesAProcess.left.clear()


def holds(name: str, thinker: Plain, root: Path) -> bool:
    """Whether a thinker passes one test of the suite."""
    test: Callable[..., None] = getattr(ThinkerContract(), name)
    thinker.open(root)
    given: dict[str, object] = {"opened": thinker, "root": root}
    try:
        test(**{key: given[key] for key in inspect.signature(test).parameters})
    except (AssertionError, pytest.fail.Exception):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Plain], tmp_path: Path) -> None:
    failed = set()
    for name in SLOW.get(kind, NAMES):
        (tmp_path / name).mkdir()
        LeavesAThread.done.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ACME_KEY", "0")
            if not holds(name, kind(), tmp_path / name):
                failed.add(name)
        LeavesAThread.done.set()
    assert failed == BROKEN[kind]


def test_every_test_of_the_suite_has_a_thinker_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == set(NAMES)


class TestCompanion(CompanionContract):
    """With a thinker that has a run to comment on."""

    @pytest.fixture
    def companion(self) -> Companion:
        return ThinkerCompanion()

    def prepare(self, lab: Lab) -> None:
        made = lab.experiments.propose(command="true", cost_run_hours=0.001)
        lab.experiments.approve(made.id)
        lab.runs.launch(made.id)
        lab.wait([made.id], timeout_s=60)
        lab.settings.set_config("slots.thinker", "command")
        lab.settings.set_config("plugins.command.command", json.dumps([sys.executable, "-c", ECHO]))
        assert lab.loop.analyse() == []


class TestThinkerCheck(CheckContract):
    @pytest.fixture
    def check(self) -> Check:
        return build({})


class TestThinkerSection(StatusSectionContract):
    @pytest.fixture
    def section(self) -> StatusSection:
        return build_section({})
