"""The end of a turn of an armed session: another round, or the stop with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.toolkit.agents import DISPATCH
from perpetual_loop.handover import handovers, write_handover
from perpetual_loop.lease import LEASE_S, arm, owner, release
from perpetual_loop.rounds import REASONS, Decision, clear_stop, decide, stop_path

MODEL = "mcp:a-model"


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers the loss")
        yield lab


def _step(lab: Lab) -> None:
    """What an agent records in a turn."""
    lab.hypotheses.add(f"claim {lab.feed.last()}")


def _ends(lab: Lab, made: Decision, reason: str) -> str:
    """The explanation of an end for that reason, with which the loop is free."""
    assert (made.goes_on, made.reason) == (False, reason)
    assert reason in REASONS
    assert owner(lab) is None
    return str(made.explanation)


def test_it_goes_on_as_often_as_was_asked(lab: Lab) -> None:
    arm(lab, "s", harness="codex", rounds=2)
    texts = []
    for _ in range(2):
        _step(lab)
        made = decide(lab, "s")
        assert made.text is not None
        texts.append(made.text)
    assert "(1 left after it)" in texts[0]
    assert "(0 left after it)" in texts[1]
    assert "Next:\n- perpetual propose -h h1" in texts[0]
    _step(lab)
    assert _ends(lab, decide(lab, "s"), "rounds") == "2 of 2 further rounds made"
    _step(lab)
    assert decide(lab, "s").reason == "not_armed"


def test_a_session_that_was_not_armed_stops(lab: Lab) -> None:
    assert decide(lab, "s").reason == "not_armed"
    arm(lab, "other", harness="codex")
    _step(lab)
    assert decide(lab, "s").reason == "not_armed"
    assert owner(lab) is not None


def test_no_news_ends_it(lab: Lab) -> None:
    arm(lab, "s", harness="codex")
    assert _ends(lab, decide(lab, "s"), "no_news") == "the last turn recorded nothing"
    arm(lab, "s", harness="codex")  # which is an event, and no news
    _step(lab)
    assert decide(lab, "s").goes_on
    _ends(lab, decide(lab, "s"), "no_news")


def test_the_stop_file_ends_it_and_a_fresh_start_removes_it(lab: Lab) -> None:
    arm(lab, "s", harness="codex")
    _step(lab)
    path = Path(stop_path(lab))
    path.parent.mkdir(exist_ok=True)
    path.touch()
    assert _ends(lab, decide(lab, "s"), "stop_requested").endswith(".perpetual/services/auto.stop")
    clear_stop(lab)
    assert not path.exists()
    arm(lab, "s", harness="codex")
    _step(lab)
    assert decide(lab, "s").goes_on


def test_a_spent_budget_ends_it(lab: Lab) -> None:
    lab.settings.set_methodology("max_run_hours", "0.00001")
    lab.experiments.propose("h1", command="sleep 0.1", metric="m", direction="max", noise=0.1)
    lab.experiments.approve("e1")
    arm(lab, "s", harness="codex")
    _step(lab)
    assert decide(lab, "s").goes_on  # nothing is used yet
    lab.settings.unset_methodology("max_run_hours")
    lab.runs.launch("e1")
    lab.wait(["e1"], timeout_s=60)
    lab.settings.set_methodology("max_run_hours", "0.00001")
    assert _ends(lab, decide(lab, "s"), "budget_exhausted") == "all 1e-05 run-hours are used"


def test_only_a_person_s_work_ends_it(lab: Lab) -> None:
    lab.experiments.propose("h1", command="true", metric="m", direction="max", noise=0.1)
    arm(lab, "s", harness="codex")
    _step(lab)
    _ends(lab, decide(lab, "s"), "waiting_for_person")
    lab.experiments.approve("e1")
    arm(lab, "s", harness="codex")
    _step(lab)
    made = decide(lab, "s")
    assert made.text is not None
    assert "- perpetual run e1" in made.text
    assert "approve" not in made.text


def test_nothing_left_ends_it(lab: Lab) -> None:
    arm(lab, "s", harness="codex")
    for one in lab.hypotheses.list():
        lab.hypotheses.update(one.id, status="parked", why="later")
    _ends(lab, decide(lab, "s"), "nothing_to_do")


def test_a_live_run_is_to_be_waited_for_within_the_turn(lab: Lab) -> None:
    lab.experiments.propose("h1", command="sleep 60", metric="m", direction="max", noise=0.1)
    lab.experiments.approve("e1")
    arm(lab, "s", harness="codex")
    lab.runs.launch("e1")
    try:
        made = decide(lab, "s")
        assert made.text is not None
        assert "Live: r1." in made.text
        assert "the tool perpetual_wait or `perpetual wait r1 --timeout 3600`" in made.text
        assert "still live: r1" in _ends(lab, decide(lab, "s"), "no_news")
    finally:
        lab.runs.kill("r1", grace_s=0)


def test_a_long_turn_goes_on_unless_another_has_taken_the_loop(lab: Lab) -> None:
    now = datetime.now(UTC)
    late = now + timedelta(seconds=2 * LEASE_S)
    arm(lab, "s", harness="codex", now=now)
    _step(lab)
    assert decide(lab, "s", now=late).goes_on
    found = owner(lab, late)
    assert found is not None
    assert found.session == "s"
    arm(lab, "t", harness="codex", now=late + timedelta(seconds=2 * LEASE_S))
    _step(lab)
    assert not decide(lab, "s", now=late).goes_on


def test_a_driven_session_stops(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    arm(lab, "s", harness="codex")
    _step(lab)
    monkeypatch.setenv(DISPATCH, "1")
    made = decide(lab, "s")
    assert (made.reason, made.was_armed) == ("dispatched", False)
    monkeypatch.delenv(DISPATCH)
    assert decide(lab, "s").goes_on


# --- handovers ------------------------------------------------------------------------------------------------------


def test_a_handover_says_how_a_session_left_the_research(lab: Lab) -> None:
    lab.experiments.propose("h1", command="true", metric="m", direction="max", noise=0.1)
    arm(lab, "s", harness="codex", rounds=3)
    assert write_handover(lab, "s", harness="codex", last_words="I proposed e1.\n\x1b[2Jand left")
    (found,) = handovers(lab)
    assert (found.session, found.harness, found.live_runs, found.waiting) == ("s", "codex", (), ("e1",))
    assert found.last_words == "I proposed e1.\n\\x1b[2Jand left"
    assert found.armed is not None
    assert found.armed.startswith("session s of codex, since ")


def test_a_handover_is_written_where_the_record_has_moved(lab: Lab) -> None:
    assert write_handover(lab, "s", harness="codex", last_words="one")
    assert not write_handover(lab, "s", harness="codex", last_words="two")
    assert not write_handover(lab, "t", harness="codex", last_words="of another that did other work")
    _step(lab)
    assert write_handover(lab, "s", harness="codex", last_words="three")
    assert [one.last_words for one in handovers(lab)] == ["three"]
    assert write_handover(lab, "t", harness="claude-code", last_words="four", ended="it was to")
    assert [one.session for one in handovers(lab)] == ["t", "s"]


def test_a_handover_keeps_the_end_of_long_words_and_no_secret(lab: Lab) -> None:
    secret = "AKIAIOSFODNN7EXAMPLQ"
    write_handover(lab, "s", harness="codex", last_words="x" * 100_000 + f" key {secret} end")
    (found,) = handovers(lab)
    assert len(found.last_words) <= 1600
    assert found.last_words.endswith(" end")
    assert secret not in found.last_words
    for strange in ({"a": 1}, None, 3, "\ud800"):
        _step(lab)
        assert write_handover(lab, "s", harness="codex", last_words=strange)


def test_the_status_names_who_has_taken_the_loop_in_words_that_do_not_change(lab: Lab) -> None:
    assert "loop" not in lab.status().get("sections", {})
    arm(lab, "s", harness="codex", rounds=2)
    before = lab.status()["sections"]["loop"]["lines"]
    assert before[0].startswith("taken by session s of codex at ")
    _step(lab)
    assert decide(lab, "s").goes_on
    assert lab.status()["sections"]["loop"]["lines"] == before  # a prompt's prefix stays the same
    release(lab, "s", reason="rounds", explanation="made")
    assert "loop" not in lab.status().get("sections", {})
