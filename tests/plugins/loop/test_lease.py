"""The lease on the loop: one owner at a time, until it gives it back, its time is over or its process is gone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict, UsageError
from perpetual.toolkit.agents import DISPATCH
from perpetual.toolkit.platform import Identity, boot_id, identity_of
from perpetual_loop.lease import (
    DAEMON,
    LEASE,
    LEASE_S,
    MOST_ROUNDS,
    arm,
    lease_of,
    owner,
    release,
    renew,
)

NOW = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=LEASE_S + 1)


@pytest.fixture
def lab(project: Path) -> Lab:
    return Lab.open(project)


def test_a_free_loop_is_taken_and_given_back(lab: Lab) -> None:
    assert owner(lab, NOW) is None
    made = arm(lab, "s-1", harness="codex", rounds=3, now=NOW)
    assert (made.session, made.harness, made.rounds_left, made.actor) == ("s-1", "codex", 3, lab.actor)
    assert owner(lab, NOW) == made
    assert release(lab, "s-2", reason="rounds", explanation="not its own") is None
    assert owner(lab, NOW) == made
    assert release(lab, "s-1", reason="rounds", explanation="made") == made
    assert owner(lab, NOW) is None
    last = lease_of(lab)
    assert last is not None
    assert (last.reason, last.explanation) == ("rounds", "made")
    assert release(lab, "s-1", reason="again", explanation="again") is None
    assert [event.kind for event in lab.feed.read()][-2:] == ["loop.armed", "loop.ended"]


def test_another_session_is_refused_while_it_is_valid(lab: Lab) -> None:
    arm(lab, "s-1", harness="claude-code", now=NOW)
    with pytest.raises(Conflict, match=r"^session s-1 of claude-code owns the loop until 2026-11-27T11:00") as caught:
        arm(lab, "s-2", harness="codex", now=NOW + timedelta(seconds=LEASE_S - 1))
    assert caught.value.hint == "perpetual auto stop --session s-1 ends that"
    assert arm(lab, "s-2", harness="codex", now=LATER).session == "s-2"
    with pytest.raises(Conflict, match="s-2 of codex"):
        arm(lab, "s-1", harness="claude-code", now=LATER)


def test_a_session_arms_itself_anew(lab: Lab) -> None:
    arm(lab, "s-1", harness="codex", rounds=1, now=NOW)
    assert arm(lab, "s-1", harness="codex", rounds=99999, now=NOW).rounds_left == MOST_ROUNDS
    assert lab.records(LEASE).count() == 1


def test_an_expired_lease_is_renewed_by_its_own_session_unless_another_has_it(lab: Lab) -> None:
    arm(lab, "s-1", harness="codex", now=NOW)
    assert owner(lab, LATER) is None
    found = renew(lab, "s-1", now=LATER)
    assert found is not None
    assert found.is_valid(LATER)
    arm(lab, "s-2", harness="codex", now=LATER + timedelta(seconds=LEASE_S + 1))
    assert renew(lab, "s-1", now=LATER) is None


def test_the_end_of_its_process_frees_it_at_once(lab: Lab) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        arm(lab, "d-1", harness=DAEMON, rounds=None, process=identity_of(process.pid), now=NOW)
        with pytest.raises(Conflict, match="the daemon owns the loop"):
            arm(lab, "s-1", harness="codex", now=NOW)
        process.kill()
        process.wait()
    assert owner(lab, NOW) is None
    assert arm(lab, "s-1", harness="codex", now=NOW).session == "s-1"


def test_a_process_of_another_machine_is_known_by_its_time_alone(lab: Lab) -> None:
    arm(lab, "d-1", harness=DAEMON, rounds=None, process=Identity("another", 1, 1), now=NOW)
    assert owner(lab, NOW) is None, "this machine was started anew since"
    (row,) = lab.records("loop.lease").find()
    lab.records("loop.lease").update(row.id, process=["another", 1, 1, "elsewhere"])
    assert owner(lab, NOW) is not None
    assert owner(lab, LATER) is None


def test_the_daemon_is_not_released_without_its_name(lab: Lab) -> None:
    own = identity_of(os.getpid())
    arm(lab, "d-1", harness=DAEMON, rounds=None, process=own)
    with pytest.raises(Conflict) as caught:
        release(lab, None, reason="stop_requested", explanation="a person")
    assert caught.value.hint == "perpetual daemon stop"
    assert release(lab, "d-1", reason="all_decided", explanation="done") is not None
    assert not [event for event in lab.feed.read() if event.kind.startswith("loop.")]  # it says itself what it does


@pytest.mark.parametrize("name", ["", "a b", "x" * 201, "\x1b[2J", "--session", "é", None, 7])
def test_a_session_has_a_plain_name(lab: Lab, name: str) -> None:
    with pytest.raises(UsageError, match="a session is named by"):
        arm(lab, name, harness="codex")
    assert lab.records(LEASE).count() == 0


def test_a_driven_session_does_not_arm_itself(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISPATCH, "cycle-3")
    with pytest.raises(Conflict, match="drives this session itself"):
        arm(lab, "s-1", harness="codex")
    assert arm(lab, "d-1", harness=DAEMON, rounds=None).harness == DAEMON  # the daemon drives others


@pytest.mark.parametrize(
    "wrong",
    [{"until": "soon"}, {"until": "9999-01-01T00:00:00Z"}, {"process": ["x"]}, {"process": [boot_id(), "x", 1]}],
)
def test_a_lease_that_cannot_be_one_keeps_nobody_away(lab: Lab, wrong: dict[str, object]) -> None:
    """The record may come from elsewhere, or from another program."""
    made = arm(lab, "s-1", harness="codex", now=NOW)
    lab.records(LEASE).update(made.id, expect_revision=None, **wrong)
    assert owner(lab, NOW) is None
    assert arm(lab, "s-2", harness="codex", now=NOW).session == "s-2"
    assert lab.records(LEASE).count() == 1


def test_of_many_that_want_it_at_once_one_has_it(project: Path) -> None:
    won, refused = list[str](), list[str]()
    start = threading.Barrier(6)

    def want(name: str) -> None:
        with Lab.open(project) as lab:
            lab.status()
            start.wait()
            try:
                won.append(arm(lab, name, harness="codex").session)
            except Conflict as problem:
                refused.append(problem.message)

    threads = [threading.Thread(target=want, args=(f"s-{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(refused)) == (1, 5)
    assert all(f"session {won[0]} of codex" in message for message in refused)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_of_many_processes_that_want_it_one_has_it(tmp_path: Path, store: str) -> None:
    Lab.init(tmp_path, store=store).close()
    words = [sys.executable, "-m", "perpetual", "--project", str(tmp_path), "--json", "auto", "start", "--session"]
    for number in range(3):
        started = [
            subprocess.Popen([*words, f"s-{number}-{each}"], stdout=subprocess.PIPE, text=True) for each in range(6)
        ]
        answers = [(process.communicate()[0], process.returncode) for process in started]
        assert sorted(code for _, code in answers) == [0, 6, 6, 6, 6, 6]
        (mine,) = [json.loads(text)["owner"]["session"] for text, code in answers if code == 0]
        with Lab.open(tmp_path) as lab:
            assert release(lab, mine, reason="over", explanation="over") is not None
