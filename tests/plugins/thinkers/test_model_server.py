"""The template for model servers and the companion, against a server on this machine that counts its requests."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Finding, NotPermitted
from perpetual.toolkit.secret import Secret
from perpetual_thinkers.acting import work
from perpetual_thinkers.by_command import TOKEN, CommandThinker
from perpetual_thinkers.check import ThinkerCheck
from perpetual_thinkers.companion import ThinkerCompanion
from perpetual_thinkers.records import REPLY, thoughts
from perpetual_thinkers.state import state_of
from perpetual_thinkers.thinking import Thinking
from tests.plugins.thinkers.conftest import Clock, steps
from tests.plugins.thinkers.model_server import NOTE, Server, serving, template_in
from tests.support import until

# Opens the lab and works, as the companion does; dies once a reply is stored, where it is asked to.
WORKER = """\
import os, signal, sys
from perpetual import Lab
from perpetual_thinkers import thinking
from perpetual_thinkers.acting import work
if sys.argv[1] == "die":
    thinking.answer_of = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with Lab.open() as lab:
    print(work(lab))
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as server:
        monkeypatch.setenv("THINKER_URL", server.url)
        yield server


@pytest.fixture
def template(root: Path) -> Path:
    """The script as the page has it."""
    return template_in(root)


@pytest.fixture
def configured(root: Path, template: Path) -> Path:
    """The project with the template as its thinker, asked about runs alone."""
    with Lab.open(root, actor="user:test") as lab:
        lab.settings.set_config("plugins.command.command", json.dumps([sys.executable, "ask_model.py"]))
        lab.settings.set_config("plugins.command.environment", '["THINKER_URL"]')
        lab.settings.set_config("plugins.thinkers.propose", "false")
    return root


def command(template: Path) -> CommandThinker:
    return CommandThinker([sys.executable, str(template)], environment=["THINKER_URL"])


def worked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WORKER, *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_template_speaks_to_a_server(lab: Lab, clock: Clock, template: Path, server: Server) -> None:
    steps(Thinking(lab, command(template), "command", now=clock), 1)
    assert [one.state for one in thoughts(lab)] == ["used"]
    reply = lab.records(REPLY).find()[0]
    assert (reply["model"], reply["tokens_in"], reply["tokens_out"]) == ("tiny-1", 50, 7)
    assert server.keys == [None]
    assert state_of(lab, clock())["tokens_today"] == 57


@pytest.mark.slow
def test_a_kill_between_stored_and_used_asks_no_second_time(configured: Path, server: Server) -> None:
    died = worked("die")
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert len(server.asked) == 1
    with Lab.open(configured) as lab:
        assert [one.state for one in thoughts(lab)] == ["answered"]
    done = worked("on")
    assert done.returncode == 0, done.stderr
    assert len(server.asked) == len({*server.asked}) == 2  # one for each run
    with Lab.open(configured) as lab:
        assert [one.state for one in thoughts(lab)] == ["used", "used"]
        assert len(lab.records(REPLY).find()) == 2


@pytest.mark.slow
def test_a_server_that_is_down_for_a_while(lab: Lab, clock: Clock, template: Path, server: Server) -> None:
    made = Thinking(lab, command(template), "command", now=clock, draw=lambda: 0.5)
    server.is_down = True
    steps(made)
    clock.on(6)
    steps(made)
    found = state_of(lab, clock())
    assert (found["state"], found["failures"]) == ("waiting", 2)
    assert "503" in str(found["reason"])
    server.is_down = False
    clock.on(11)
    steps(made, 2)
    assert [one.state for one in thoughts(lab)][:2] == ["used", "used"]
    assert len({*server.asked}) == 2
    assert state_of(lab, clock())["failures"] == 0


def test_the_companion_asks_beside_the_loop(configured: Path, server: Server) -> None:
    stop, companion = threading.Event(), ThinkerCompanion()
    problems: list[BaseException] = []

    def run() -> None:
        try:
            with Lab.open(configured, actor="daemon") as own:
                companion.run(own, stop)
        except BaseException as problem:  # noqa: BLE001 - the test shows it
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with Lab.open(configured, actor="user:test") as lab:
            until(lambda: problems or [one.state for one in thoughts(lab)] == ["used", "used"])
            assert not problems
            assert companion.trouble() is None
            lab.settings.set_config("slots.thinker", "none")  # while it runs
            until(lambda: len(server.asked) == 2)
    finally:
        stop.set()
        began = time.monotonic()
        thread.join(30)
    assert time.monotonic() - began < 10
    assert not problems


@pytest.mark.slow
def test_the_companion_says_that_the_breaker_is_open(configured: Path, server: Server) -> None:
    server.is_down = True
    clock, stop = Clock(), threading.Event()
    companion = ThinkerCompanion(now=clock, draw=lambda: 0.5)

    def run() -> None:
        with Lab.open(configured, actor="daemon") as own:
            companion.run(own, stop)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        with Lab.open(configured) as lab:
            for count in (1, 2, 3):
                until(lambda count=count: state_of(lab, clock())["failures"] == count)  # type: ignore[misc]
                clock.on(20)
        assert len(server.asked) == 3
        until(lambda: companion.trouble() is not None)
        assert "503" in str(companion.trouble())
    finally:
        stop.set()
        thread.join(30)


def test_a_command_of_the_file_alone_does_not_count(configured: Path) -> None:
    """As of an agent that edits the configuration: the command that a person has set stays in force."""
    path = configured / ".perpetual" / "config.yaml"
    path.write_text(path.read_text().replace("ask_model.py", "evil.py"))
    with Lab.open(configured) as lab:
        options = lab.options_of(lab.registry.choose("thinker", "command"))
        assert options["command"] == [sys.executable, "ask_model.py"]
        assert "config.plugins.command.command" in [item.subject for item in lab.trust.held()]


def test_the_doctor_says_what_is_missing(root: Path) -> None:
    def found() -> Finding:
        with Lab.open(root) as lab:
            return ThinkerCheck().examine(lab)

    assert found().ok is False
    assert "trust" in str(found().hint)
    with Lab.open(root, actor="user:test") as lab:
        lab.settings.set_config("plugins.command.command", '["no-such-program-here"]')
        assert "not there" in found().detail
        lab.settings.set_config("slots.thinker", "none")
        assert found().ok is None


def test_a_held_project_asks_nothing(configured: Path, server: Server) -> None:
    from perpetual.lab.trust_review import revoke

    revoke(str(configured))
    with Lab.open(configured) as lab, pytest.raises(NotPermitted, match="held"):
        work(lab)
    assert server.asked == []


def test_the_token_is_a_secret_of_its_own_variable(lab: Lab, clock: Clock, template: Path, server: Server) -> None:
    thinker = CommandThinker([sys.executable, str(template)], environment=["THINKER_URL"],
                             token=Secret("token", lambda: "sk-loopback-0001"))  # fmt: skip
    steps(Thinking(lab, thinker, "command", now=clock), 1)
    assert server.keys == ["Bearer sk-loopback-0001"]


# --- the program ------------------------------------------------------------------------------------------------------


def answer(root: Path, program: str, **options: object) -> str:
    """What the thinker says of a program: its text, or its error."""
    from perpetual_thinkers.base import ThinkerError
    from perpetual_thinkers.testing import example

    thinker = CommandThinker([sys.executable, "-c", program], **options)  # type: ignore[arg-type]
    thinker.open(root)
    try:
        return thinker.think(example()).text
    except ThinkerError as problem:
        return problem.message


SHOW = "import json, os; print(json.dumps({'text': %s}))"


def test_its_environment_is_minimal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("PASSED", "yes")
    names = answer(tmp_path, SHOW % "' '.join(os.environ)", environment=["PASSED"]).split()
    assert "PASSED" in names
    assert not {"CLAUDECODE", "AWS_SECRET_ACCESS_KEY", "PERPETUAL_STATE_DIR", TOKEN} & {*names}
    assert answer(tmp_path, SHOW % "os.getcwd()") == str(tmp_path)


@pytest.mark.slow
def test_it_is_killed_with_what_it_started(tmp_path: Path) -> None:
    import psutil

    program = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('child', 'w').write(str(child.pid)); time.sleep(60)"
    )
    assert answer(tmp_path, program, timeout_s=1.5) == "no answer in 1.5 s"
    pid = int((tmp_path / "child").read_text())
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


def test_a_child_that_holds_the_output_is_not_waited_for(tmp_path: Path) -> None:
    program = (
        "import json, subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(json.dumps({'text': 'done'}))"
    )
    began = time.monotonic()
    assert answer(tmp_path, program, timeout_s=50.0) == "done"
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "longer than"),
        ("import json; print(json.dumps({'text': 'x' * 100_000}))", "longer than"),
        ("print('[' * 100_000)", "not one JSON object"),
        ("print('{\"answer\": 1}')", "no `text`"),
        ("raise SystemExit('first\\n\\x1b[31mno key')", "status 1: \\x1b[31mno key"),
        ('import os; os.close(0); print(\'{"text": "early"}\')', "early"),
        ("import os; os.kill(os.getpid(), 9)", "status -9"),
    ],
)
def test_a_bad_program_is_one_line(tmp_path: Path, program: str, said: str) -> None:
    found = answer(tmp_path, program)
    assert said in found
    assert found.isprintable()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    from perpetual_thinkers.base import ThinkerError
    from perpetual_thinkers.testing import example

    with pytest.raises(ThinkerError, match="not there"):
        CommandThinker(["no-such-program-here"]).think(example())


# --- with the daemon --------------------------------------------------------------------------------------------------


def daemon(*words: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-m", "perpetual", "daemon", *words], capture_output=True, text=True,
                          check=False, timeout=300)  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_the_daemon_does_not_end_before_the_thinker_has_spoken(configured: Path, server: Server) -> None:
    """The rules have nothing left, so it would end at once; the thinker proposes, and then a person is waited for."""
    proposal = {"proposals": [{"like": "e1", "args": {"--lr": 0.01}, "why": "a smaller step"}]}
    server.answer = lambda state: json.dumps(proposal) if '"room"' in state else NOTE
    with Lab.open(configured, actor="user:test") as lab:
        lab.settings.set_config("plugins.thinkers.propose", "true")
    code, said = daemon("--require-llm")
    with Lab.open(configured) as lab:
        (made,) = lab.experiments.list(status="proposed")
        assert made.proposed_by == "agent:thinker-command"
    assert (code, "waiting_for_approval" in said) == (4, True), said


@pytest.mark.slow
def test_the_daemon_ends_where_the_thinker_is_down(configured: Path, server: Server) -> None:
    """Only where it was asked to: else it goes on by the rules, and ends since they have nothing left."""
    server.is_down = True
    with Lab.open(configured, actor="user:test") as lab:
        lab.settings.set_config("plugins.command.command", '["false"]')
    code, said = daemon("--stay", "--require-llm", "--interval", "1")
    assert (code, "harness_down" in said) == (3, True), said
    code, said = daemon()
    assert (code, "queue_empty" in said) == (0, True), said
