"""From the event feed to the notifiers: which events, once each, in order, whatever fails in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import CorruptData, Event, PerpetualError, TransientError
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun
from perpetual_notify.consent import folder_of
from perpetual_notify.notifier import Notice, Notifier
from perpetual_notify.outbox import ENDED_EARLY, Limits, Outbox
from perpetual_notify.sending import Chosen, Delivered, deliver, fill
from perpetual_notify.topics import words_of
from tests.support import LONG_S

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
LIMITS = Limits(first_wait_s=10.0, longest_wait_s=60.0, most_attempts=4, longest_s=1000.0)


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


class Kept(Notifier):
    """Remembers what it was sent; `problem` is what it raises."""

    limit_s = 5.0

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem, self.seen, self.asked = problem, list[Notice](), 0

    def where(self) -> str:
        return "here"

    def target(self) -> str:
        return ""

    def send(self, notice: Notice) -> None:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        self.seen.append(notice)

    @property
    def titles(self) -> list[str]:
        return [notice.title for notice in self.seen]


def ready(notifier: Notifier, name: str = "kept") -> Chosen:
    return Chosen(name, notifier, None, is_accepted=True)


def sent(
    lab: Lab, notifier: Notifier, *, now_s: float = 1e6, per_hour: int = 100, at_once: bool = False, name: str = "kept"
) -> Delivered:
    """Reads the feed and delivers at a given time."""
    fill(lab, [ready(notifier, name)], LIMITS)
    found = deliver(folder_of(lab), ready(notifier, name), "test", per_hour, limits=LIMITS, at_once=at_once,
                    clock=lambda: now_s)  # fmt: skip
    assert found is not None
    return found


def stop(lab: Lab, reason: str = "all_decided", cycles: int = 3) -> None:
    lab.loop.stopped(reason, cycles)


# --- which events -----------------------------------------------------------------------------------------------------


def test_events_before_a_notifier_was_there_are_not_sent(lab: Lab) -> None:
    stop(lab)
    kept = Kept()
    assert sent(lab, kept).sent == []
    stop(lab, "budget_exhausted")
    (id,) = sent(lab, kept).sent
    assert kept.titles == ["stopped: the budget is spent"]
    assert id == f"{lab.config.project_id}-{lab.feed.last()}"
    assert sent(lab, kept).sent == []
    assert len(kept.seen) == 1


def test_each_notifier_has_its_own_beginning_and_end(lab: Lab) -> None:
    first, second = Kept(), Kept()
    fill(lab, [ready(first, "a")])
    stop(lab)
    fill(lab, [ready(first, "a"), ready(second, "b")])
    stop(lab, "queue_empty")
    fill(lab, [ready(first, "a"), ready(second, "b")])
    folder = folder_of(lab)
    for name, one in (("a", first), ("b", second)):
        deliver(folder, ready(one, name), "test", 100)
    assert (len(first.seen), second.titles) == (2, ["stopped: nothing is left to run"])
    fill(lab, [ready(first, "a")])  # b is no longer configured
    stop(lab)
    fill(lab, [ready(first, "a"), ready(second, "b")])
    deliver(folder, ready(second, "b"), "test", 100)
    assert len(second.seen) == 1  # what happened meanwhile is not sent


def test_what_waits_is_kept_while_a_notifier_is_broken(lab: Lab) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])
    stop(lab)
    fill(lab, [ready(kept)])
    stop(lab, "queue_empty")
    fill(lab, [Chosen("kept", None, PerpetualError("its password cannot be read"), is_accepted=False)])
    assert len(sent(lab, kept).sent) == 2


@pytest.mark.parametrize(
    ("reason", "kind", "words"),
    [
        ("all_decided", "stops", "every hypothesis is decided"),
        ("budget_exhausted", "stops", "the budget is spent"),
        ("failure_rate", "stops", "too many runs failed"),
        ("no_progress", "stops", "moved no hypothesis"),
        ("a_new_reason", "stops", "a_new_reason"),
        ("stop_requested", None, ""),
        ("max_cycles", None, ""),
    ],
)
def test_a_stop_is_sent_unless_it_was_asked_for(lab: Lab, reason: str, kind: str | None, words: str) -> None:
    stop(lab, reason)
    found, _ = words_of(lab, lab.feed.read()[-1], 0)
    assert (None if found is None else found.kind) == kind
    assert found is None or words in found.title


def test_waiting_for_approval_says_how_to_approve(lab: Lab) -> None:
    for number in range(7):
        lab.experiments.propose(command=f"echo {number}", title=f"idea {number}")
    stop(lab, "waiting_for_approval")
    found, _ = words_of(lab, lab.feed.read()[-1], 0)
    assert found is not None
    assert found.kind == "waits"
    assert found.text.split("\n")[0] == "e1: idea 0"
    assert found.text.endswith("and 2 more\nperpetual approve e1")


def waits(reason: str) -> Event:
    return Event(seq=9, time="2026-01-01T00:00:00Z", actor="loop", kind="daemon.waits", subject="loop",
                 payload={"reason": reason, "explanation": "as it said"})  # fmt: skip


def test_a_daemon_that_stays_and_waits_is_sent_and_a_pause_is_not(lab: Lab) -> None:
    lab.experiments.propose(command="echo 1", title="idea")
    found, _ = words_of(lab, waits("waiting_for_approval"), 0)
    assert found == ("waits", "the daemon waits: the loop waits for your approval",
                     "as it said\ne1: idea\nperpetual approve e1")  # fmt: skip
    assert words_of(lab, waits("paused"), 0) == (None, 0)  # quiet hours end by themselves
    found, _ = words_of(lab, waits("harness_down"), 0)
    assert found is not None
    assert found.text == "as it said\nperpetual doctor"


def of_agent(kind: str, actor: str = "agent:scout", **payload: object) -> Event:
    return Event(seq=9, time="2026-01-01T00:00:00Z", actor=actor, kind=f"agents.{kind}", subject="a1", payload=payload)


def test_what_an_agent_asks_is_sent_and_that_it_was_paused_by_itself(lab: Lab) -> None:
    asked, _ = words_of(lab, of_agent("asked", approval="q1", tool="shred", question=None), 0)
    assert asked == ("waits", "the agent a1 waits for your approval",
                     "it wants to call shred\nperpetual agent approvals a1\nperpetual agent approve q1")  # fmt: skip
    asked, _ = words_of(lab, of_agent("asked", approval="q1", tool="ask_person", question="which\nseed?"), 0)
    assert asked is not None
    assert asked.text.endswith("seed?\nperpetual agent approve q1 --answer TEXT")
    assert asked.text.count("\n") == 1
    paused = {"from": "running", "to": "paused", "reason": "it goes in circles"}
    found, _ = words_of(lab, of_agent("moved", **paused), 0)
    assert found == ("waits", "the agent a1 is paused", "it goes in circles\nperpetual agent resume a1")
    assert words_of(lab, of_agent("moved", "user:root", **paused), 0) == (None, 0)
    assert words_of(lab, of_agent("moved", **{**paused, "to": "running"}), 0) == (None, 0)


def test_an_event_with_an_odd_payload_holds_nothing_up(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])

    def odd(*_: object) -> None:
        raise KeyError("odd")

    monkeypatch.setattr("perpetual_notify.outbox.words_of", odd)
    stop(lab)
    sent(lab, kept)
    assert kept.titles == ["loop_stopped of loop"]
    monkeypatch.undo()
    stop(lab)
    sent(lab, kept)
    assert len(kept.seen) == 2


def test_a_decision_names_the_claim(lab: Lab) -> None:
    lab.hypotheses.add("warm-up helps")
    lab.hypotheses.update("h1", status="supported", why="seen")
    kept = Kept()
    fill(lab, [ready(kept)])
    lab.hypotheses.update("h1", status="refuted", why="wrong")
    sent(lab, kept)
    assert kept.seen[0].kind == "decisions"
    assert kept.titles == ["h1 is refuted"]
    assert kept.seen[0].text.startswith("warm-up helps\nconfidence ")


def failed(number: int, to: str = "failed") -> Event:
    return Event(seq=number, time="2026-01-01T00:00:00Z", actor="x", kind="run_status", subject=f"r{number}",
                 payload={"experiment_id": "e1", "from": "running", "to": to, "reason": "exit 1"})  # fmt: skip


def test_failures_are_sent_when_several(lab: Lab) -> None:
    """At the third in a row, and at each doubling; a killed run is no failure, and a good one ends the row."""
    failures, titles = 0, []
    for number in range(1, 25):
        found, failures = words_of(lab, failed(number, "killed" if number == 2 else "failed"), failures)
        titles += [(number, found.title)] if found is not None else []
    assert titles == [(4, "3 runs in a row failed"), (7, "6 runs in a row failed"), (13, "12 runs in a row failed")]
    _, failures = words_of(lab, failed(30, "done"), failures)
    assert failures == 0


def test_the_row_of_failures_is_kept_between_readings(lab: Lab) -> None:
    """With real runs; a row that began in one process goes on in the next."""
    kept = Kept()
    fill(lab, [ready(kept)])
    lab.experiments.propose(command="false", title="t", replicates=3)
    lab.experiments.approve("e1")
    for _ in range(3):
        lab.wait([run.id for run in lab.runs.launch("e1")], timeout_s=LONG_S)
        with Outbox(folder_of(lab)) as outbox:
            outbox.read(lab, ["failures"])
    with Outbox(folder_of(lab)) as outbox:
        assert outbox.counts("kept").pending == 1


def test_runs_of_earlier_work_are_no_failures(lab: Lab) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])
    for number in range(4):
        experiment = ImportedExperiment(f"e{number}", None, "t", "true", {})
        run = ImportedRun(f"r{number}", f"e{number}", "failed", started_at="2026-01-01T00:00:00Z",
                          ended_at="2026-01-01T00:01:00Z")  # fmt: skip
        lab.imports.take(Batch("mirrors", "adhoc", "a test", [experiment, run]))
    with Outbox(folder_of(lab)) as outbox:
        assert outbox.read(lab, ["failures"]) == 0


def test_only_the_kinds_of_the_option_are_sent(lab: Lab) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])
    lab.settings.set_config("plugins.notify.kinds", '["decisions"]')
    stop(lab)
    lab.hypotheses.add("x")
    lab.hypotheses.update("h1", status="refuted", why="wrong")
    sent(lab, kept)
    assert kept.titles == ["h1 is refuted"]


def test_a_digest_of_another_plugin_is_sent_as_it_is(lab: Lab) -> None:
    event = Event(seq=5, time="2026-01-01T00:00:00Z", actor="x", kind="digest.made", subject="d", payload={
        "title": "the morning", "text": "h1 is supported\nh2 is open"})  # fmt: skip
    found, _ = words_of(lab, event, 0)
    assert found == ("digest", "the morning", "h1 is supported\nh2 is open")


def test_secrets_and_escapes_do_not_leave(lab: Lab) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])
    lab.hypotheses.add(f"with \x1b]0;x\x07 {SECRET} " + "long " * 700)
    lab.hypotheses.update("h1", status="refuted", why="wrong")
    sent(lab, kept)
    (notice,) = kept.seen
    assert SECRET not in notice.text
    assert "\x1b" not in notice.text
    assert len(notice.text) <= 3000


# --- at least once ----------------------------------------------------------------------------------------------------


def test_a_failure_keeps_the_notice_and_its_id(lab: Lab) -> None:
    kept = Kept(TransientError("down"))
    fill(lab, [ready(kept)])
    stop(lab)
    found = sent(lab, kept, now_s=1000.0)
    assert (found.sent, str(found.problem)) == ([], "down")
    assert sent(lab, kept, now_s=1001.0).problem is None  # it is not due
    assert kept.asked == 1
    kept.problem = None
    (id,) = sent(lab, kept, now_s=1011.0).sent
    assert id == f"{lab.config.project_id}-{lab.feed.last()}"


def test_waits_grow_and_are_spread(lab: Lab) -> None:
    """Of many labs that lost one server, not all come back at the same moment."""
    due: dict[float, list[float]] = {}
    for drawn in (0.0, 1.0):
        folder = folder_of(lab) / str(drawn)
        make_folder(folder)
        with Outbox(folder, Limits(10.0, 60.0, 99, 1e9), iter([drawn] * 20).__next__) as outbox:
            outbox.keep(["kept"], lab.feed.last())
            stop(lab)
            outbox.read(lab, ["stops"])
            due[drawn] = []
            for _ in range(5):
                item = outbox.next("kept", 0.0, 10, at_once=True)
                assert item is not None
                outbox.begin("kept", item, 0.0)
                outbox.failed("kept", item, "down", 0.0)
                due[drawn].append(outbox.counts("kept").due_s or -1)
    assert due == {0.0: [5, 10, 20, 30, 30], 1.0: [10, 20, 40, 60, 60]}


def test_a_clock_that_is_set_back_holds_nothing_up(lab: Lab) -> None:
    kept = Kept(TransientError("down"))
    fill(lab, [ready(kept)])
    stop(lab)
    sent(lab, kept, now_s=1_000_000.0)
    kept.problem = None
    assert len(sent(lab, kept, now_s=1000.0).sent) == 1


def test_what_the_server_asks_for_is_waited(lab: Lab) -> None:
    kept = Kept(TransientError("busy", data={"retry_after_s": 50.0}))
    fill(lab, [ready(kept)])
    stop(lab)
    sent(lab, kept, now_s=1000.0)
    with Outbox(folder_of(lab)) as outbox:
        assert outbox.counts("kept").due_s == 1050.0


def test_after_enough_attempts_a_notice_is_given_up_and_the_next_is_sent(lab: Lab) -> None:
    kept = Kept(PerpetualError("refused"))
    fill(lab, [ready(kept)])
    stop(lab)
    stop(lab, "queue_empty")
    for attempt in range(LIMITS.most_attempts):
        sent(lab, kept, now_s=1000.0 + attempt, at_once=True)
    kept.problem = None
    sent(lab, kept, now_s=1010.0)
    assert kept.titles == ["stopped: nothing is left to run"]
    with Outbox(folder_of(lab)) as outbox:
        (dead,) = outbox.dead("kept")
        assert (dead.title, dead.attempts, dead.error) == ("stopped: every hypothesis is decided", 4, "refused")
        assert outbox.counts("kept")[:3] == (0, 1, 1)


def test_after_enough_time_a_notice_is_given_up(lab: Lab) -> None:
    kept = Kept(TransientError("down"))
    fill(lab, [ready(kept)])
    stop(lab)
    sent(lab, kept, now_s=1000.0)
    sent(lab, kept, now_s=2001.0)
    with Outbox(folder_of(lab)) as outbox:
        assert [dead.attempts for dead in outbox.dead("kept")] == [2]


def test_what_a_killed_process_was_at_counts_as_an_attempt(lab: Lab) -> None:
    """Else a notice that kills each sender would be tried for ever, at once."""
    kept = Kept()
    fill(lab, [ready(kept)])
    stop(lab)
    fill(lab, [ready(kept)])
    with Outbox(folder_of(lab), LIMITS) as outbox:
        item = outbox.next("kept", 1000.0, 10)
        assert item is not None
        outbox.begin("kept", item, 1000.0)  # and then it is killed
    with Outbox(folder_of(lab), LIMITS) as outbox:
        assert outbox.counts("kept").error == ENDED_EARLY
        assert outbox.next("kept", 1001.0, 10) is None
        again = outbox.next("kept", 1010.0, 10)
        assert again is not None
        assert (again.id, again.attempts) == (item.id, 1)


def test_a_notifier_that_exits_or_raises_anything_is_a_failure(lab: Lab) -> None:
    class Exits(Kept):
        def send(self, notice: Notice) -> None:
            raise SystemExit(3)

    fill(lab, [ready(Exits())])
    stop(lab)
    assert "SystemExit: 3" in str(sent(lab, Exits()).problem)
    assert "ValueError: odd" in str(sent(lab, Kept(ValueError("odd")), at_once=True).problem)


def test_a_notifier_that_hangs_is_left(lab: Lab) -> None:
    import threading

    ended = threading.Event()

    class Hangs(Kept):
        limit_s = -4.8  # with the slack that every notifier has: 0.2 s

        def send(self, notice: Notice) -> None:
            ended.wait(20)

    fill(lab, [ready(Hangs())])
    stop(lab)
    assert "no answer" in str(sent(lab, Hangs()).problem)
    ended.set()


# --- not too many -----------------------------------------------------------------------------------------------------


def test_beyond_the_cap_all_that_wait_become_one(lab: Lab) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])
    for number in range(20):
        stop(lab, f"reason_{number}")
    first = lab.feed.last() - 19
    found = sent(lab, kept, now_s=1000.0, per_hour=3)
    assert kept.titles == ["stopped: reason_0", "stopped: reason_1", "18 notices"]
    assert found.sent[-1] == f"{lab.config.project_id}-{first + 2}-{first + 19}"
    assert "and 8 more" in kept.seen[-1].text
    stop(lab, "later")
    stop(lab, "latest")
    assert sent(lab, kept, now_s=2000.0, per_hour=3).sent == []
    sent(lab, kept, now_s=1000.0 + 3601, per_hour=3)
    assert kept.titles[3:] == ["stopped: later", "stopped: latest"]
    with Outbox(folder_of(lab)) as outbox:
        assert outbox.counts("kept").sent == 22  # none is lost


def test_a_fold_keeps_its_id_when_it_is_sent_again(lab: Lab) -> None:
    kept = Kept(TransientError("down"))
    fill(lab, [ready(kept)])
    stop(lab, "a")
    stop(lab, "b")
    sent(lab, kept, now_s=1000.0, per_hour=1)
    stop(lab, "c")
    kept.problem = None
    sent(lab, kept, now_s=1020.0, per_hour=1)
    assert kept.titles == ["2 notices"]  # the first notice may have arrived, so no event is added to it
    assert kept.seen[0].text.split("\n")[0].endswith("stopped: a")
    sent(lab, kept, now_s=1000.0 + 3700, per_hour=1)
    assert kept.titles[1:] == ["stopped: c"]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_damaged_outbox_is_named_with_a_way_out(lab: Lab) -> None:
    kept = Kept()
    fill(lab, [ready(kept)])
    path = folder_of(lab) / "outbox.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(CorruptData, match="is damaged") as raised:
        fill(lab, [ready(kept)])
    assert str(path) in str(raised.value.hint)
    path.unlink()
    stop(lab)
    assert sent(lab, kept).sent == []  # it starts anew


def test_a_link_in_its_place_is_not_followed(lab: Lab, tmp_path: Path) -> None:
    target = tmp_path / "target"
    sqlite3.connect(target).close()
    make_folder(folder_of(lab))
    (folder_of(lab) / "outbox.sqlite").symlink_to(target)
    with pytest.raises((PerpetualError, OSError)):
        fill(lab, [ready(Kept())])


def test_a_record_from_a_backup_starts_anew(lab: Lab) -> None:
    """Its events have numbers that were read before."""
    kept = Kept()
    fill(lab, [ready(kept)])
    with Outbox(folder_of(lab)) as outbox:
        outbox.keep(["kept"], lab.feed.last())
    database = sqlite3.connect(folder_of(lab) / "outbox.sqlite")
    with database:
        database.execute("UPDATE place SET seq = 5000")
    database.close()
    fill(lab, [ready(kept)])
    stop(lab)
    assert len(sent(lab, kept).sent) == 1


def test_two_readers_put_each_event_in_once(lab: Lab, project: Path) -> None:
    fill(lab, [ready(Kept())])
    for number in range(30):
        stop(lab, f"r{number}")
    import threading

    def work() -> None:
        with Lab.open(project) as other:
            fill(other, [ready(Kept())])

    threads = [threading.Thread(target=work) for _ in range(3)]
    _run(threads)
    with Outbox(folder_of(lab)) as outbox:
        assert outbox.counts("kept").pending == 30


def _run(threads: Sequence[object]) -> None:
    for name in ("start", "join"):
        for thread in threads:
            method: Callable[[], None] = getattr(thread, name)
            method()
