"""`perpetual notify`, the companion and two processes at once, with real servers and real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import NotPermitted
from perpetual.cli.app import run as command
from perpetual.toolkit.lock import FileLock
from perpetual_notify.acting import listed, send, try_out
from perpetual_notify.check import build as build_check
from perpetual_notify.companion import Notifications
from perpetual_notify.consent import folder_of
from perpetual_notify.outbox import Limits, Outbox
from tests.plugins.notify.servers import Got, Web, web_server
from tests.support import LONG_S, until

QUICK = Limits(first_wait_s=0.1, longest_wait_s=0.2)
Said = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as found:
        yield found


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


@pytest.fixture
def said(project: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """Runs a command with --json; answers its exit status, its document and what it wrote to standard error."""

    def call(*words: str) -> tuple[int, dict[str, Any], str]:
        capsys.readouterr()
        status = command([*words, "--json"])
        found = capsys.readouterr()
        return status, json.loads(found.out or "{}"), found.err

    return call


def set_up(lab: Lab, web: Web) -> None:
    """Configures the webhook, and accepts it."""
    lab.settings.set_config("plugins.notify.notifiers", "webhook")
    lab.settings.set_config("plugins.webhook.url", f"{web.url}/hook")
    try_out(lab, accepts=True)
    web.got.clear()


def titles(web: Web) -> list[str]:
    return [json.loads(got.body)["title"] for got in web.got]


def ids(web: Web) -> list[str]:
    return [json.loads(got.body)["id"] for got in web.got]


# --- consent ----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_before_a_person_accepts_where(lab: Lab, web: Web, said: Said) -> None:
    """A project's file may come from elsewhere, and name any server."""
    lab.settings.set_config("plugins.notify.notifiers", "webhook")
    lab.settings.set_config("plugins.webhook.url", f"{web.url}/hook")
    status, found, _ = said("notify", "test")
    assert status == 4
    assert found["tests"][0]["error"] == "it was not accepted here, so nothing is sent there"
    assert found["tests"][0]["where"] == web.url
    lab.loop.stopped("all_decided", 1)
    assert said("notify", "send")[0] == 4
    assert web.got == []
    assert build_check({}).examine(lab).ok is False
    status, found, _ = said("notify", "test", "--accept")
    assert (status, titles(web)) == (0, ["test notice"])
    assert build_check({}).examine(lab).ok is True


def test_another_address_has_to_be_accepted_anew(lab: Lab, web: Web) -> None:
    set_up(lab, web)
    with web_server() as other:
        lab.settings.set_config("plugins.webhook.url", f"{other.url}/hook")
        lab.loop.stopped("all_decided", 1)
        _, problems = send(lab)
        assert [problem.code for problem in problems] == ["not_accepted"]
        assert other.got == []
        lab.settings.set_config("plugins.webhook.url", f"{web.url}/hook")
        assert send(lab)[1] == []
    assert titles(web) == ["stopped: every hypothesis is decided"]  # it waited meanwhile


def test_what_was_accepted_does_not_travel_with_the_folder(
    lab: Lab, web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone that another user trusts, nothing is sent until that user has accepted it."""
    from perpetual.testing.projects import trust_project

    set_up(lab, web)
    clone = tmp_path / "clone"
    shutil.copytree(lab.root, clone)
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
    with Lab.open(clone) as held:
        for deed in (lambda: try_out(held, accepts=True), lambda: send(held)):
            with pytest.raises(NotPermitted) as raised:
                deed()
            assert raised.value.code == "not_trusted"
        assert build_check({}).examine(held).ok is None
        (line,) = listed(held)["notifiers"]
        assert (line["state"], line["where"]) == ("broken", "")  # not even a file that the address is in is read
    trust_project(clone)
    with Lab.open(clone) as trusted:
        assert listed(trusted)["notifiers"][0]["state"] == "unaccepted"
        trusted.loop.stopped("all_decided", 1)
        assert [problem.code for problem in send(trusted)[1]] == ["not_accepted"]
    assert web.got == []


def test_an_agent_neither_tests_nor_sends_nor_accepts(
    lab: Lab, web: Web, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(lab, web)
    monkeypatch.setenv("CLAUDECODE", "1")
    for words in (("test",), ("test", "--accept"), ("send",)):
        assert said("notify", *words)[0] == 4
    assert said("notify", "list")[0] == 0
    with Lab.open(actor="mcp:x") as agent, pytest.raises(NotPermitted):
        try_out(agent, accepts=True)
    monkeypatch.delenv("CLAUDECODE")
    lab.settings.set_methodology("agents_may_approve", "true")
    lab.settings.set_config("plugins.webhook.url", f"{web.url}/other")
    with Lab.open(actor="mcp:x") as agent, pytest.raises(NotPermitted):
        try_out(agent, accepts=True)  # which agents' approvals do not cover
    assert web.got == []


# --- the command ------------------------------------------------------------------------------------------------------


def test_without_a_notifier_nothing_is_sent(lab: Lab, said: Said) -> None:
    lab.loop.stopped("all_decided", 1)
    assert said("notify")[1]["notifiers"] == []
    status, found, _ = said("notify", "send")
    assert (status, found["error"]["code"]) == (2, "no_notifier")
    assert said("notify", "test")[0] == 2
    assert not folder_of(lab).exists()
    assert build_check({}).examine(lab).ok is None


def test_an_unknown_notifier_is_named(said: Said) -> None:
    status, found, _ = said("notify", "test", "webhok")
    assert status == 2
    assert "webhook" in found["error"]["message"]


def test_send_delivers_what_waits_and_list_shows_it(lab: Lab, web: Web, said: Said) -> None:
    set_up(lab, web)
    lab.loop.stopped("all_decided", 1)
    status, found, _ = said("notify", "send")
    assert status == 0
    assert found["read"] == 1
    assert ids(web) == found["notifiers"][0]["sent"] == [f"{lab.config.project_id}-{lab.feed.last()}"]
    _, found, _ = said("notify", "list")
    line = found["notifiers"][0]
    assert (line["state"], line["sent"], line["pending"], line["where"]) == ("ready", 1, 0, web.url)
    assert found["position"] == found["last"]
    assert "hook" not in json.dumps(found).replace("webhook", "")  # the path is often a secret


def test_a_server_that_fails_keeps_the_notice_and_says_so(lab: Lab, web: Web, said: Said) -> None:
    set_up(lab, web)
    lab.loop.stopped("all_decided", 1)
    web.answer = lambda got: (500, {}, b"oh")
    assert said("notify", "send")[0] == 3
    _, found, _ = said("notify")
    line = found["notifiers"][0]
    assert (line["state"], line["pending"], line["error"]) == ("failing", 1, f"{web.url} answered 500: oh")
    assert line["due_s"] > 0
    finding = build_check({}).examine(lab)
    assert finding.ok is False
    assert "webhook fails, 1 notice waiting" in finding.detail
    web.answer = lambda got: (404, {}, b"")
    assert said("notify", "send")[0] == 1
    web.answer = lambda got: (200, {}, b"")
    assert said("notify", "send")[0] == 0
    assert len({*ids(web)}) == 1  # three attempts at one notice
    assert build_check({}).examine(lab).ok is True


@pytest.mark.slow
def test_a_dead_notifier_delays_no_other(lab: Lab, web: Web) -> None:
    argv = [sys.executable, "-c", "import time; time.sleep(60)"]
    lab.settings.set_config("plugins.notifier.command.argv", json.dumps(argv))
    lab.settings.set_config("plugins.notifier.command.timeout_s", "0.5")
    set_up(lab, web)
    lab.settings.set_config("plugins.notify.notifiers", '["command", "nothing", "webhook"]')
    try_out(lab, ["command"], accepts=True)
    lab.loop.stopped("all_decided", 1)
    arrived: list[float] = []

    def answer(got: Got) -> tuple[int, dict[str, str], bytes]:
        arrived.append(time.monotonic())
        return 200, {}, b""

    web.answer = answer
    found, problems = send(lab)
    assert [len(one["sent"]) for one in found["notifiers"]] == [0, 0, 1]
    assert [one["pending"] for one in found["notifiers"]] == [1, 0, 0]
    assert "did not end within 0.5 s" in str(problems[0])
    assert "nothing" in str(problems[1])
    assert time.monotonic() - arrived[0] > 0.1  # not after the one that hung


# --- processes --------------------------------------------------------------------------------------------------------


def sender() -> subprocess.Popen[bytes]:
    """Starts `perpetual notify send` as a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "perpetual", "notify", "send", "--json"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)  # fmt: skip


@pytest.mark.slow
def test_a_sender_that_is_killed_repeats_the_notice_under_its_id(lab: Lab, web: Web) -> None:
    """The server has accepted the second one, and the sender is killed before it hears of that."""
    set_up(lab, web)
    for number in range(3):
        lab.loop.stopped(f"reason_{number}", 1)
    running: list[subprocess.Popen[bytes]] = []

    def answer(got: Got) -> tuple[int, dict[str, str], bytes]:
        if len(web.got) == 2:
            os.kill(running[0].pid, signal.SIGKILL)
            running[0].wait()
        return 200, {}, b""

    web.answer = answer
    running.append(sender())
    running[0].communicate(timeout=LONG_S)
    assert running[0].returncode == -signal.SIGKILL
    web.answer = lambda got: (200, {}, b"")
    with sender() as again:
        again.communicate(timeout=LONG_S)
    assert again.returncode == 0
    first, second, repeated, third = ids(web)
    assert second == repeated
    assert len({first, second, third}) == 3
    assert web.got[1].body == web.got[2].body  # word for word


@pytest.mark.slow
def test_two_senders_at_once_send_each_notice_once(lab: Lab, web: Web) -> None:
    set_up(lab, web)
    lab.settings.set_config("plugins.notify.per_hour", "100")
    for number in range(12):
        lab.loop.stopped(f"reason_{number}", 1)

    def slowly(got: Got) -> tuple[int, dict[str, str], bytes]:
        time.sleep(0.03)
        return 200, {}, b""

    web.answer = slowly
    senders = [sender() for _ in range(3)]
    for one in senders:
        out, _ = one.communicate(timeout=LONG_S)
        assert one.returncode == 0, out
    assert titles(web) == [f"stopped: reason_{number}" for number in range(12)]
    assert len({*ids(web)}) == 12


def test_a_sender_that_holds_the_lock_is_not_raced(lab: Lab, web: Web) -> None:
    from perpetual_notify.sending import chosen, deliver

    set_up(lab, web)
    (item,) = chosen(lab)
    with FileLock(folder_of(lab) / "webhook.lock"):
        assert deliver(folder_of(lab), item, "test", 10) is None


# --- the companion ----------------------------------------------------------------------------------------------------


@pytest.fixture
def companion(project: Path) -> Iterator[Notifications]:
    """Runs the companion in a thread with a lab of its own, as the daemon does."""
    found, stop = Notifications(QUICK), threading.Event()

    def work() -> None:
        with Lab.open(project, actor="daemon") as own:
            found.run(own, stop)

    thread = threading.Thread(target=work)
    thread.start()
    yield found
    began_s = time.monotonic()
    stop.set()
    thread.join(LONG_S)
    assert not thread.is_alive()
    assert time.monotonic() - began_s < 10


@pytest.mark.slow
def test_the_companion_sends_as_things_happen(lab: Lab, web: Web, companion: Notifications) -> None:
    """Also to a notifier that was configured after it had begun."""
    set_up(lab, web)
    lab.loop.stopped("all_decided", 1)
    until(lambda: titles(web) == ["stopped: every hypothesis is decided"])
    assert companion.trouble() is None


@pytest.mark.slow
def test_the_companion_goes_on_after_a_failure_and_says_what_is_wrong(
    lab: Lab, web: Web, companion: Notifications
) -> None:
    set_up(lab, web)
    web.answer = lambda got: (500, {}, b"")
    lab.loop.stopped("all_decided", 1)
    until(lambda: "webhook, 1 waiting" in (companion.trouble() or ""))
    web.answer = lambda got: (200, {}, b"")
    until(lambda: companion.trouble() is None)
    assert len({*ids(web)}) == 1
    with Outbox(folder_of(lab)) as outbox:
        assert outbox.counts("webhook")[:3] == (0, 1, 0)


@pytest.mark.slow
def test_a_companion_whose_server_hangs_still_leaves(lab: Lab, web: Web, companion: Notifications) -> None:
    set_up(lab, web)
    hung = threading.Event()

    def hangs(got: Got) -> tuple[int, dict[str, str], bytes]:
        hung.set()
        time.sleep(8)
        return 200, {}, b""

    web.answer = hangs
    lab.loop.stopped("all_decided", 1)
    assert hung.wait(LONG_S)


# --- the daemon -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_daemon_says_why_it_stopped_before_it_ends(lab: Lab, web: Web) -> None:
    """Its process ends with the loop; the notice does not wait for the next one."""
    set_up(lab, web)
    done = subprocess.run(
        [sys.executable, "-m", "perpetual", "daemon"], capture_output=True, timeout=LONG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert titles(web) == ["stopped: nothing is left to run"]


@pytest.mark.slow
def test_a_daemon_whose_server_is_down_leaves_the_notice_for_later(lab: Lab, web: Web) -> None:
    set_up(lab, web)
    web.answer = lambda got: (503, {}, b"")
    done = subprocess.run(
        [sys.executable, "-m", "perpetual", "daemon"], capture_output=True, timeout=LONG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    web.answer = lambda got: (200, {}, b"")
    found, problems = send(lab)
    assert problems == []
    assert len(found["notifiers"][0]["sent"]) == 1
    assert len({*ids(web)}) == 1
