"""The daemon and /auto never go on beside each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict
from perpetual.cli.app import run
from perpetual_daemon.daemon import Daemon, Settings
from perpetual_daemon.ownership import Ownership
from perpetual_loop.lease import Lease, arm, lease_of, owner, release
from tests.support import LONG_S, until


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project, actor="user:test") as lab:
        lab.hypotheses.add("warm-up lowers the loss")
        yield lab


def test_a_daemon_that_does_not_stay_is_refused_by_name(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    arm(lab, "s-1", harness="claude-code", rounds=4)
    assert run(["daemon", "--once"]) == 6
    assert run(["daemon", "--detach", "--once"]) == 6
    said = capsys.readouterr().err
    assert "error: session s-1 of claude-code goes on by itself (4 rounds left)" in said
    assert "hint: perpetual auto stop --session s-1 ends that; --wait waits for its end" in said
    found = owner(lab)
    assert found is not None
    assert found.session == "s-1"


@pytest.mark.slow
def test_a_daemon_that_does_not_stay_ends_where_a_session_was_armed_a_moment_ago(lab: Lab) -> None:
    arm(lab, "s-1", harness="claude-code", rounds=4)
    with Lab.open(lab.root, actor="loop") as own, pytest.raises(Conflict, match="s-1 of claude-code"):
        Daemon(Settings(max_cycles=1)).run(own, threading.Event())


def test_a_daemon_that_stays_waits_for_the_end_of_the_session_and_owns_the_loop_then(lab: Lab) -> None:
    arm(lab, "s-1", harness="claude-code")
    turns: list[Lease | None] = []
    stop, own = threading.Event(), Lab.open(lab.root, actor="loop")
    daemon = Daemon(Settings(max_cycles=1, stays=True, interval_s=600.0), lambda _: turns.append(owner(lab)))
    thread = threading.Thread(target=daemon.run, args=(own, stop))
    thread.start()
    try:
        until(lambda: [event for event in lab.feed.read() if event.kind == "daemon.waits"])
        assert turns == []
        assert "s-1 of claude-code owns the loop" in daemon.health(lab).detail
        release(lab, "s-1", reason="rounds", explanation="made")  # which wakes it
        thread.join(LONG_S)
        (found,) = turns
        assert found is not None
        assert (found.harness, found.actor, found.rounds) == ("daemon", "loop", None)
        assert found.process is not None
        last = lease_of(lab)
        assert last is not None
        assert (last.is_held, last.reason) == (False, "max_cycles")
    finally:
        stop.set()
        thread.join(LONG_S)
        own.close()


def test_it_writes_the_lease_once_an_hour(lab: Lab) -> None:
    holds = Ownership()
    assert holds.keep(lab) is None
    before = lab.feed.state()
    for _ in range(3):
        assert holds.keep(lab) is None
    assert lab.feed.state() == before
    holds.end(lab, "all_decided")
    assert holds.keep(lab) is None
