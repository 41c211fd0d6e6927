"""The schedulers' suite, fourth room: several runs at once, what an engine does by itself, and what stays true."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar

import pytest

from perpetual.errors import PerpetualError
from perpetual.slots.scheduler import LIVING, Launched, LaunchSpec, Sighting
from perpetual.testing.scheduler_site import KERNELS, LONG_S, Run, Site, said

__all__ = ["Engines"]


class Engines:
    """For every scheduler; what only an engine with a queue does needs `hold` and `requeue` of the test class."""

    settles_s: ClassVar[float] = 3.0  # how long after its end a run is looked at again

    @contextmanager
    def hold(self, site: Site) -> Iterator[None]:
        """Has the engine start nothing meanwhile. Override it for a scheduler that `queues`."""
        pytest.skip("the engine's queue cannot be held: override `hold`")
        yield

    def requeue(self, site: Site, run: Run) -> None:
        """Has the engine end a running job and start it anew. Override it for an engine that does."""
        pytest.skip("the engine is not asked to start a job anew: override `requeue`")

    def test_many_are_launched_at_once(self, site: Site) -> None:
        """Each is answered in its place, and one that cannot be started is no other's failure."""
        before = _spec(site, "count:before", "exit:0")
        site.run(before, site.scheduler.launch(before)).end()
        specs = [_spec(site, "count:many", "exit:3"), before, _spec(site, "count:many", "exit:4")]
        answers = said(site.scheduler.launch_many, specs)
        assert isinstance(answers, list), f"one failed, and all did: {answers!r}"
        kinds = [isinstance(answer, Launched) for answer in answers]
        assert kinds == [True, False, True], f"not each in its place: {answers}"
        assert isinstance(answers[1], PerpetualError)
        codes = [site.run(spec, answer).end().exit_code for spec, answer in zip(specs, answers, strict=True)
                 if isinstance(answer, Launched)]  # fmt: skip
        assert codes == [3, 4]
        assert (site.count("many"), site.count("before")) == (2, 1)
        assert site.scheduler.batch >= 1

    def test_many_are_looked_at_at_once(self, site: Site) -> None:
        """As each alone, in their order; one whose records cannot be read takes nothing from the others."""
        runs = [_launch(site, "exit:3"), _launch(site, "exit:5"), _launch(site, "note:seen", "hold:go", "exit:0")]
        site.noted("seen")
        for run in runs[:2]:
            run.end()
        for path in runs[1].spec.log_dir.rglob("*"):
            if path.is_file() and path.name not in KERNELS and path.suffix != ".log":
                path.write_bytes(b'{"state": ')
        asked = [(run.launched.native_id, run.spec.log_dir) for run in runs]
        answers = said(site.scheduler.poll_many, [*asked, (None, site.folder / "runs" / "r0")])
        assert isinstance(answers, list), f"one cannot be read, and none is: {answers!r}"
        assert len(answers) == 4
        assert (answers[0], answers[2]) == (runs[0].poll(), runs[2].poll())
        alone = said(runs[1].poll)
        assert isinstance(answers[1], Exception) if isinstance(alone, Exception) else answers[1] == alone
        assert isinstance(answers[3], Sighting)
        assert answers[3].state == "absent"
        site.release()
        runs[2].end()

    def test_logs_can_be_fetched(self, site: Site) -> None:
        """What was written so far is there after it, all of it after the end, and a second time changes nothing."""
        run = _launch(site, "out:begun\n", "note:seen", "hold:go", "out:ended\n", "exit:0")
        site.noted("seen")
        fetch = (run.launched.native_id, run.spec.log_dir)
        site.until(lambda: [said(site.scheduler.fetch_logs, *fetch), run.output()] == [None, b"begun\n"], "no output")
        site.release()
        seen = run.end()
        for _ in range(2):
            assert said(site.scheduler.fetch_logs, *fetch) is None
            assert run.output() == b"begun\nended\n"
        assert run.poll() == seen

    def test_an_end_stays(self, site: Site) -> None:
        """Also some seconds later, from the folder alone, and among many."""
        run = _launch(site, "exit:3")
        seen, deadline = run.end(), time.monotonic() + self.settles_s
        while time.monotonic() < deadline:
            assert run.poll() == seen, "it ended in another way"
            time.sleep(min(0.1, self.settles_s))
        assert site.scheduler.poll_many([(run.launched.native_id, run.spec.log_dir)]) == [seen]

    def test_a_pending_run_has_not_started(self, site: Site) -> None:
        """It says why it waits, has no start, can be cancelled, and then never ran."""
        if not site.scheduler.queues:
            return
        with self.hold(site):
            spec = _spec(site, "count:pending", "exit:0")
            run = site.run(spec, site.scheduler.launch(spec))
            assert run.launched.started_at is None, "it has started, and waits"
            seen = run.poll()
            assert (seen.state, seen.started_at, seen.age_s) == ("pending", None, None), seen
            assert seen.detail, "it does not say why it waits"
            asked = [(run.launched.native_id, spec.log_dir)]
            assert site.scheduler.wait_any(asked, 0.0) == []
            assert site.scheduler.wait(*asked[0], 0.05).state == "pending"
            assert run.cancel(LONG_S) is True
            seen = run.end()
            assert (seen.reason, seen.started_at, seen.duration_s) == ("killed", None, 0.0), seen
        assert site.count("pending") == 0

    def test_a_requeue_is_told(self, site: Site) -> None:
        """By a count or a new id, with each sighting from then on."""
        if not site.scheduler.queues:
            return
        run = _launch(site, "note:seen", "hold:go", "exit:0")
        site.noted("seen")
        before = _attempt(run.poll(), run)
        self.requeue(site, run)
        site.until(lambda: _attempt(run.poll(), run) != before, "it was started anew, and nothing says so")
        after = _attempt(run.poll(), run)
        site.until(lambda: run.poll().started_at is not None, "it was not started anew")
        assert _attempt(run.poll(), run) == after
        site.release()
        site.until(lambda: run.poll().state not in LIVING, "it does not end")
        assert _attempt(run.poll(), run) == after


def _attempt(seen: Sighting, run: Run) -> tuple[int, str]:
    return seen.requeued, seen.native_id or run.launched.native_id


def _spec(site: Site, *steps: str, **changes: object) -> LaunchSpec:
    spec = site.spec(*steps, **changes)
    return replace(spec, nonce=os.urandom(16).hex(), spec_hash="0" * 64)


def _launch(site: Site, *steps: str) -> Run:
    spec = _spec(site, *steps)
    return site.run(spec, site.scheduler.launch(spec))
