"""Row 16: out of memory, and other ends with a known cause: told beside the exit record, tried again only if wanted."""

from __future__ import annotations

import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.lab.runs.reconcile import scan
from perpetual.slots.scheduler import Sighting
from perpetual.toolkit import platform
from tests.faults.run_harness import LONG_S, approved, die, opened, single_books, supervisor_of, until

CUDA = "echo 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.' >&2; exit 1"


def test_an_out_of_memory_end_is_shown_with_a_way_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(project) as lab:
        (started,) = lab.runs.launch(approved(lab, f"echo step 1 >&2; {CUDA}"))
        lab.wait([started.id], timeout_s=LONG_S)
        ended = lab.runs.get(started.id)
        assert (ended.status, ended.exit_code, ended.reason) == ("failed", 1, "exit code 1")
        text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
        assert ended.annotations == ({"kind": "oom", "text": text, "source": "stderr.log:2"},)
        assert len(lab.runs.list().items) == 1  # auto_retry is empty: nothing is tried again by itself
    capsys.readouterr()
    assert run(["runs", started.id]) == 0
    shown = capsys.readouterr().out
    assert f"seen: {text} (stderr.log:2)" in shown
    assert "hint: a smaller batch" in shown
    assert "--gpu-memory" in shown


def test_memory_of_this_machine_that_runs_out(project: Path) -> None:
    """A real one: the address space is bounded, and Python asks for more."""
    with opened(project) as lab:
        script = f"ulimit -v 4000000; exec {sys.executable} -I -S -c 'bytearray(2**40)'"
        (started,) = lab.runs.launch(approved(lab, script))
        lab.wait([started.id], timeout_s=LONG_S)
        (seen,) = lab.runs.get(started.id).annotations
        assert (seen["kind"], seen["text"]) == ("oom", "MemoryError")


def test_words_of_a_run_that_succeeded_are_not_read(project: Path) -> None:
    with opened(project, auto_retry="oom") as lab:
        (started,) = lab.runs.launch(approved(lab, CUDA.replace("exit 1", "exit 0")))
        lab.wait([started.id], timeout_s=LONG_S)
        assert (lab.runs.get(started.id).status, lab.runs.get(started.id).annotations) == ("done", ())
        assert len(lab.runs.list().items) == 1


def test_the_kernel_s_killer_as_the_supervisor_saw_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record's own words are the ones that count; the state is `failed`, as for any signal."""
    detail = "killed by signal 9 while the kernel's out-of-memory killer was at work on this machine"
    with opened(project) as lab:
        (started,) = lab.runs.launch(approved(lab, "echo MemoryError; kill -KILL $$"))
        scheduler = lab.part("scheduler")
        assert scheduler.wait(started.native_id, lab.runs.log_dir(started.id), LONG_S).state == "ended"
        real = scheduler.poll(started.native_id, lab.runs.log_dir(started.id))
        told = Sighting(**{name: getattr(real, name) for name in Sighting.__slots__} | {"detail": detail})
        monkeypatch.setattr(scheduler, "poll", lambda native_id, log_dir: told)
        lab.scan()
        ended = lab.runs.get(started.id)
        assert (ended.status, ended.signal) == ("failed", signal.SIGKILL)
        assert ended.annotations == ({"kind": "oom", "text": detail, "source": "exit record"},)
        assert detail in str(ended.reason)


# --- tried again by itself --------------------------------------------------------------------------------------------


def test_a_run_out_of_memory_is_retried_with_its_seed_as_often_as_configured(project: Path) -> None:
    with opened(project, auto_retry="oom", max_attempts="3") as lab:
        experiment = approved(lab, CUDA)
        (first,) = lab.runs.launch(experiment)
        assert lab.wait([experiment], timeout_s=LONG_S) == {experiment: "analysed"}
        runs = single_books(lab)
        assert [(item.attempt, item.replicate, item.status) for item in runs] == [
            (1, 1, "failed"),
            (2, 1, "failed"),
            (3, 1, "failed"),
        ]
        assert {item.seed for item in runs} == {first.seed}
        told = [event for event in lab.events() if event.kind == "run_retried"]
        assert [(event.subject, event.payload) for event in told] == [
            ("r2", {"run_id": "r1", "attempt": 2, "cause": "oom"}),
            ("r3", {"run_id": "r2", "attempt": 3, "cause": "oom"}),
        ]
        assert {event.actor for event in told} == {lab.actor}


def test_other_failures_are_not_tried_again(project: Path) -> None:
    with opened(project, auto_retry="oom,lost") as lab:
        (started,) = lab.runs.launch(approved(lab, "echo 'No space left on device' >&2; exit 1"))
        lab.wait([started.id], timeout_s=LONG_S)
        assert [item["kind"] for item in lab.runs.get(started.id).annotations] == ["disk"]
        assert len(lab.runs.list().items) == 1


def test_a_retry_beyond_the_budget_is_named_and_left(project: Path) -> None:
    """Two runs of which each reserves nearly all that is left: the second attempt finds no room."""
    with opened(project, auto_retry="oom", max_run_hours="1.0") as lab:
        (first,) = lab.runs.launch(approved(lab, f"while test ! -e go; do sleep 0.02; done; {CUDA}", wall_s=1800.0))
        (other,) = lab.runs.launch(approved(lab, "exec sleep 600", wall_s=1800.0))
        lab.settings.set_methodology("max_run_hours", "0.9")
        (project / "go").touch()
        lab.wait([first.id], timeout_s=LONG_S)
        ended = lab.runs.get(first.id)
        assert [item["kind"] for item in ended.annotations] == ["oom", "retry"]
        # Of the 0.9 hours the other run holds 0.5, and the first has used what it took to come here.
        told = re.search(r"0\.500 run-hours and (0\.\d+)", ended.annotations[1]["text"])
        assert told is not None
        assert 0.35 < float(told[1]) <= 0.4
        assert ended.annotations[1]["source"] == "oom"
        assert [item.id for item in lab.runs.list().items] == [other.id, first.id]


def test_a_run_of_a_decided_hypothesis_is_not_tried_again_and_says_so(project: Path) -> None:
    """The others decide it first, and then the one without memory ends."""
    with opened(project, auto_retry="oom") as lab:
        design = {"metric": "acc", "direction": "max", "mde": 0.1, "baseline": 1.0, "noise": 0.05, "replicates": 6}
        waits = f"while test ! -e go; do sleep 0.02; done; {CUDA}"
        script = f"if test $PERPETUAL_RUN = r1; then {waits}; fi; echo acc=2.$PERPETUAL_SEED"
        hypothesis = lab.hypotheses.add("acc rises").id
        lab.runs.launch(approved(lab, script, **design, hypothesis_id=hypothesis), every=True)
        lab.wait(["r2", "r3", "r4", "r5", "r6"], timeout_s=LONG_S)
        assert lab.hypotheses.get(hypothesis).status == "supported"
        (project / "go").touch()
        lab.wait(["r1"], timeout_s=LONG_S)
        (note,) = (note for note in lab.runs.get("r1").annotations if note["kind"] == "retry")
        text = f"not tried again by itself: what it would measure is decided, {hypothesis} is supported"
        assert note == {"kind": "retry", "text": text, "source": "oom"}
        assert len(lab.runs.list().items) == 6


def test_two_scans_at_once_try_it_again_once(project: Path) -> None:
    with opened(project, auto_retry="oom", max_attempts="9") as lab:
        lab.queue.set_state("running")
        (started,) = lab.runs.launch(approved(lab, CUDA))
        lab.part("scheduler").wait(started.native_id, lab.runs.log_dir(started.id), LONG_S)
        lab.queue.set_state("paused")  # so that the second attempt waits, and no third one is made
        labs = [Lab.open(project) for _ in range(4)]
        barrier = threading.Barrier(len(labs))

        def one(other: Lab) -> None:
            barrier.wait(LONG_S)
            scan(other.context)

        threads = [threading.Thread(target=one, args=(other,)) for other in labs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for other in labs:
            other.close()
        assert [(item.id, item.attempt, item.status) for item in single_books(lab)] == [
            ("r1", 1, "failed"),
            ("r2", 2, "queued"),
        ]


@pytest.mark.parametrize("wanted", [True, False])
def test_a_lost_run_is_retried_only_where_configured(project: Path, wanted: bool) -> None:
    """Lost with its supervisor: tried again if that is wanted, and never otherwise; its charge is called a bound."""
    with opened(project, auto_retry="lost" if wanted else "") as lab:
        experiment = approved(lab, "echo up; exec sleep 600")
        (started,) = lab.runs.launch(experiment)
        until(lab, started.id, "up")
        child = platform.identity_of(started.pid or 0)
        die(supervisor_of(lab, started))
        assert child is not None
        die(child)
        lab.scan()
        runs = single_books(lab)
        assert [(item.attempt, item.status) for item in runs] == [(1, "lost"), (2, "running")][: 1 + wanted]
        assert runs[0].duration_s is None
        assert "a bound" in str(runs[0].reason)
        assert 0 <= (runs[0].run_hours or 0) < 600 / 3600
        lab.scan()
        assert len(lab.runs.list().items) == 1 + wanted


def test_a_reboot_with_a_queue(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ran is lost and stays so; what was queued is still queued, and starts at the next scan."""
    with opened(project, max_concurrent_runs="1") as lab:
        experiment = approved(lab, "echo up; exec sleep 600", replicates=2)
        first, second = lab.runs.launch(experiment, every=True)
        until(lab, first.id, "up")
        identities = [supervisor_of(lab, first), platform.identity_of(first.pid or 0)]
        for identity in identities:
            assert identity is not None
            die(identity)
        monkeypatch.setenv(platform.BOOT_ID_VARIABLE, "the next boot")
        assert lab.runs.get(second.id).status == "queued"
        changes = lab.scan()["changes"]
        assert [(item["run_id"], item["from"], item["to"]) for item in changes] == [
            (first.id, "running", "lost"),
            (second.id, "queued", "running"),
        ]
        assert str(changes[0]["reason"]).startswith("reboot")
        assert [item.attempt for item in single_books(lab)] == [1, 1]


def test_a_run_killed_by_hand_is_not_retried(project: Path) -> None:
    """Also where its supervisor had died before, so that it can only be called lost."""
    with opened(project, auto_retry="lost,oom") as lab:
        (started,) = lab.runs.launch(approved(lab, "echo MemoryError; exec sleep 600"))
        until(lab, started.id, "MemoryError")
        die(supervisor_of(lab, started))
        ended = lab.runs.kill(started.id, grace_s=0.0)
        assert ended.status == "lost"
        assert f"cancelled by {lab.actor}" in str(ended.reason)
        assert [item["kind"] for item in ended.annotations] == ["oom"]
        (second,) = lab.runs.launch(approved(lab, "echo MemoryError; exec sleep 600"))
        until(lab, second.id, "MemoryError")
        assert lab.runs.kill(second.id, grace_s=0.0).status == "killed"
        assert len(lab.runs.list().items) == 2
        assert platform.start_ticks(second.pid or 0) is None
