"""The schedulers' suite, second room: other processes, threads, limits, cancelling and loss; with the fixtures."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.errors import PerpetualError
from perpetual.slots.scheduler import Launched, LaunchError, LaunchSpec, Scheduler
from perpetual.testing.scheduler_site import KERNELS, LONG_S, Noted, Site, make_site, refused, said
from perpetual.testing.schedulers.engines import Engines
from perpetual.testing.schedulers.records import Records
from perpetual.toolkit import platform

__all__ = ["SchedulerContract"]

_MARK_S = 2.0  # how long a launcher is given to leave something in its run's folder, where it leaves anything
_LIMITS_S = (0.8, 8.0)  # of time, to be waited for; the second where a busy machine has not begun within the first
_SILENCES_S = (2.0, 10.0)  # the second where a busy machine has let no process write within the first


class SchedulerContract(Records, Engines):
    """For every scheduler."""

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}
    engine: ClassVar[Mapping[str, object]] = {}  # engine options of each run; where some are compulsory
    patience_s: ClassVar[float] = 30.0  # what is waited for comes at once; this only bounds a failing test

    @pytest.fixture
    def scheduler(self) -> Scheduler:
        """Returns the scheduler as the kernel builds it."""
        if not self.factory:
            raise pytest.UsageError("set `factory`, or override the fixture `scheduler`")
        module, _, name = self.factory.partition(":")
        built: Scheduler = getattr(import_module(module), name)(dict(self.options))
        return built

    @pytest.fixture
    def site(self, scheduler: Scheduler, tmp_path: Path) -> Iterator[Site]:
        """Yields where its runs live."""
        with make_site(
            tmp_path / "site",
            scheduler,
            patience_s=self.patience_s,
            factory=self.factory,
            options=self.options,
            engine=self.engine,
        ) as site:
            yield site

    def supervisor_of(self, site: Site, noted: Noted) -> platform.Identity:
        """Returns the process that keeps a run's exit code: the command's parent, if that was made for the run.

        Override it where another process does.
        """
        found, mine = platform.identity_of(noted["parent"]), platform.identity_of(os.getpid())
        assert mine is not None
        if found is None or found.pid == 1 or found.start_ticks <= mine.start_ticks:
            pytest.skip("the command's parent was not made for the run: override `supervisor_of`")
        return found

    def _end(self, site: Site, *processes: platform.Identity) -> None:
        for process in processes:
            platform.signal_process(process, signal.SIGKILL)
        site.until(lambda: not any(map(platform.is_alive, processes)), f"they survived KILL: {processes}")

    # --- the launcher's death, and other processes ----------------------------------------------------------

    def test_a_run_outlives_its_launcher(self, site: Site) -> None:
        """A killed launcher takes nothing with it, and how the run ended is known all the same."""
        launcher = site.elsewhere()
        spec = site.spec("note:seen", "hold:go", "out:after\n", "exit:3")
        run = site.run(spec, launcher.launch(spec))
        process = site.process("seen")
        launcher.kill()
        assert not platform.wait_gone(process, 0.15), "it died with its launcher"
        assert run.poll().state == "running"
        site.release()
        seen = run.end()
        assert (seen.reason, seen.exit_code, run.output()) == ("exited", 3, b"after\n")

    def test_other_processes_see_it_and_end_it(self, site: Site) -> None:
        """`poll`, `wait`, `cancel` and `logs` do not need the launcher."""
        other = site.elsewhere()
        run = site.launch("out:words", "note:seen", "hold:never")
        site.noted("seen")
        native_id, log_dir = run.launched.native_id, run.spec.log_dir
        assert other.look("poll", native_id, log_dir) == run.poll()
        assert other.look("wait", native_id, log_dir, timeout_s=0.01).state == "running"
        assert other.ask("logs", native_id, log_dir) == "words"
        assert other.ask("cancel", native_id, log_dir, by="another process", grace_s=LONG_S) is True
        seen = other.look("wait", native_id, log_dir, timeout_s=site.patience_s)
        assert (seen.state, seen.reason) == ("ended", "killed")
        assert seen == run.end()

    def test_the_folder_alone_is_enough(self, site: Site) -> None:
        """For a run whose launcher died before it noted the id."""
        run = site.launch("note:seen", "hold:never")
        site.noted("seen")
        scheduler, log_dir = site.scheduler, run.spec.log_dir
        assert scheduler.poll(None, log_dir) == run.poll()
        assert scheduler.poll(None, log_dir).state == "running"
        assert scheduler.wait(None, log_dir, 0.01).state == "running"
        assert scheduler.cancel(None, log_dir, by="the suite", grace_s=LONG_S) is True
        seen = scheduler.wait(None, log_dir, site.patience_s)
        assert (seen.state, seen.reason) == ("ended", "killed")
        assert seen == run.end()

    def test_a_folder_has_one_run(self, site: Site) -> None:
        """A second launch is refused, while it runs and after it; the run and its record stay as they are."""
        run = site.launch("count:count", "out:x", "note:seen", "hold:go", "exit:4")
        process = site.process("seen")
        refused("", site.scheduler.launch, run.spec)
        assert platform.is_alive(process)
        assert run.poll().state == "running"
        site.release()
        seen = run.end()
        assert seen.exit_code == 4
        refused("", site.scheduler.launch, run.spec)
        assert (run.poll(), run.output(), site.count()) == (seen, b"x", 1)

    def test_launchers_at_once_start_it_once(self, site: Site) -> None:
        """One of them; the others get False."""
        spec = site.spec("count:count", "exit:0")
        barrier = threading.Barrier(3)

        def launch(_: int) -> object:
            barrier.wait()
            return said(site.scheduler.launch, spec)

        with ThreadPoolExecutor(3) as pool:
            answers = [*pool.map(launch, range(3))]
        started = {answer.native_id for answer in answers if isinstance(answer, Launched)}
        assert len(started) == 1, f"started: {answers}"
        assert all(isinstance(answer, Launched | LaunchError) for answer in answers)
        seen = site.scheduler.wait(None, spec.log_dir, site.patience_s)
        assert (seen.state, seen.exit_code, site.count()) == ("ended", 0, 1)

    def test_a_launcher_that_dies_midway_is_followed(self, site: Site) -> None:
        """Whenever it was killed: another launch starts the command, unless the first one came through."""
        for number, delay_s in enumerate((0.0, 0.03, 0.2, None)):
            spec = site.spec(f"count:midway{number}", "exit:6")
            launcher = site.elsewhere()
            launcher.begin_launch(spec)
            if delay_s is None:
                site.left_something(spec.log_dir, _MARK_S)
            else:
                time.sleep(delay_s)  # the moment of its death, which may be any
            launcher.kill()
            answer = said(site.scheduler.launch, spec)
            assert isinstance(answer, Launched | LaunchError)

            def ended(spec: LaunchSpec = spec) -> bool:
                return site.scheduler.wait(None, spec.log_dir, site.patience_s).state == "ended"

            site.until(ended, f"it was never started: {answer}")
            assert site.scheduler.poll(None, spec.log_dir).exit_code == 6
            assert site.count(f"midway{number}") == 1

    # --- threads and waiting --------------------------------------------------------------------------------

    def test_threads_get_their_own_runs(self, site: Site) -> None:
        """Many threads launch, wait and look at once; no two runs have the same id."""
        specs = [site.spec(f"out:{n}", f"exit:{n}") for n in range(6)]

        def work(spec: LaunchSpec) -> tuple[str, int | None, bytes]:
            answer = said(site.scheduler.launch, spec)
            assert isinstance(answer, Launched), f"{spec.run_id} was not started: {answer}"
            run = site.run(spec, answer)
            return run.launched.native_id, run.end().exit_code, run.output()

        with ThreadPoolExecutor(3) as pool:
            found = [*pool.map(work, specs)]
        assert [rest for _, *rest in found] == [[n, str(n).encode()] for n in range(6)]
        assert len({native_id for native_id, *_ in found}) == 6

    def test_waiting_ends_with_the_run(self, site: Site) -> None:
        """At once; meanwhile other threads look at it and end it."""
        run = site.launch("note:seen", "hold:never")
        site.noted("seen")
        with ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(site.scheduler.wait, run.launched.native_id, run.spec.log_dir, 2 * site.patience_s)
            try:
                assert not wait({waiting}, 0.1).done, "it does not wait"
                looking = pool.submit(lambda: (run.poll(), run.cancel(LONG_S)))
                site.until(looking.done, "a thread that waits holds up the others")
                site.until(waiting.done, "it waits on after the end")
            finally:
                site.release("never")
        assert (looking.result()[0].state, looking.result()[1]) == ("running", True)
        assert waiting.result() == run.end()

    def test_waiting_ends_at_its_limit(self, site: Site) -> None:
        """Of a run that goes on, and not before."""
        run = site.launch("note:seen", "hold:go", "exit:0")
        site.noted("seen")
        for limit_s in (0.0, 0.1):
            before = time.monotonic()
            seen = site.scheduler.wait(run.launched.native_id, run.spec.log_dir, limit_s)
            assert seen.state == "running"
            assert limit_s - 0.01 <= time.monotonic() - before < limit_s + site.patience_s
        site.release()
        run.end()

    def test_waiting_for_any_ends_with_the_first(self, site: Site) -> None:
        """Whichever it is; then the ones that have ended are named, by their places, and before that none."""
        runs = [site.launch("note:one", "hold:go", "exit:0"), site.launch("note:two", "hold:two-goes", "exit:0")]
        site.noted("one")
        site.noted("two")
        both = [(run.launched.native_id, run.spec.log_dir) for run in runs]
        assert site.scheduler.wait_any(both, 0.0) == []
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(site.scheduler.wait_any, both, 2 * site.patience_s)
            assert not wait({waiting}, 0.1).done, "it does not wait"
            site.release("two-goes")
            site.until(waiting.done, "it waits on after the end of one")
        assert waiting.result() == [1]
        site.release()
        for run in runs:
            run.end()

    # --- limits and cancelling ------------------------------------------------------------------------------

    def test_a_run_over_its_limit_is_ended(self, site: Site) -> None:
        """TERM, the grace, KILL; it was the limit, also where the command then ends well."""
        for limit_s in _LIMITS_S:
            ready, heard = f"ready {limit_s}", f"polite {limit_s}"
            polite = site.launch(f"polite:{heard}", f"note:{ready}", "hold:never", wall_s=limit_s, grace_s=LONG_S)
            deaf = site.launch("deaf", f"child:child {limit_s}", "hold:never", wall_s=limit_s, grace_s=0.1)
            child = site.came_to(f"child {limit_s}", deaf)
            is_ready = site.came_to(ready, polite) is not None
            for run in (polite, deaf):
                seen = run.end()
                assert seen.reason == "timeout"
                assert seen.detail
                assert seen.duration_s is not None
                assert seen.duration_s > limit_s - 0.05
            if child is not None and is_ready:
                assert site.noted(heard)
                assert not platform.is_alive(child)
                return
        pytest.fail(f"commands with a limit of {limit_s:g} s do not even begin")

    def test_a_run_within_its_limit_is_left_alone(self, site: Site) -> None:
        """With a limit and without one."""
        runs = [site.launch("hold:go", "exit:0", wall_s=wall_s) for wall_s in (60.0, None)]
        begun = time.monotonic()
        site.until(lambda: time.monotonic() > begun + 0.1, "the clock stands still")
        site.release()
        assert [run.end().reason for run in runs] == ["exited", "exited"]

    def test_a_silent_run_is_ended(self, site: Site) -> None:
        """As at its limit; a scheduler that cannot watch the output says so before it starts anything."""
        for limit_s in _LIMITS_S:
            steps = ("deaf", f"note:deaf {limit_s}", "out:a word", "hold:never")
            spec = site.spec(*steps, no_output_s=limit_s, grace_s=0.1)
            if isinstance(said(site.scheduler.check, spec), LaunchError):
                refused("", site.scheduler.launch, spec)
                return
            run = site.run(spec, site.scheduler.launch(spec))
            is_deaf = site.came_to(f"deaf {limit_s}", run) is not None
            seen = run.end()
            assert seen.reason == "timeout"
            assert seen.detail
            assert seen.duration_s is not None
            assert seen.duration_s > limit_s - 0.05
            if is_deaf:
                assert seen.signal in (None, signal.SIGKILL)
                return
        pytest.fail(f"commands with a limit of {limit_s:g} s do not even begin")

    def test_a_run_that_writes_is_not_silent(self, site: Site) -> None:
        """Whether it writes to its output or logs metrics, for longer than it may be silent."""
        for limit_s in _SILENCES_S:
            specs = [site.spec(no_output_s=limit_s) for _ in range(2)]
            files = ["", str(specs[1].log_dir / "metrics.jsonl")]
            specs = [replace(spec, argv=site.argv(f"talk:{file}")) for spec, file in zip(specs, files, strict=True)]
            if isinstance(said(site.scheduler.check, specs[0]), LaunchError):
                return
            runs = [site.run(spec, site.scheduler.launch(spec)) for spec in specs]
            begun, states = time.monotonic(), ["running"] * 2
            while states == ["running"] * 2 and time.monotonic() < begun + limit_s + 0.5:
                time.sleep(0.05)
                states = [run.poll().state for run in runs]
            if states == ["running"] * 2:
                site.release()
                assert [run.end().reason for run in runs] == ["exited"] * 2
                return
        raise AssertionError("it was ended while it wrote")

    def test_a_run_of_a_run_lives_on(self, site: Site) -> None:
        """It has its own record: it does not end when the run that launched it is ended, and holds up nothing."""
        inner = site.spec("note:inner", "hold:go", "exit:3")
        outer = site.launch(argv=site.argv_launching(inner))
        process = site.process("inner")
        assert outer.cancel(0.2) is True
        assert outer.end().reason == "killed"
        assert site.scheduler.poll(None, inner.log_dir).state == "running"
        assert platform.is_alive(process)
        site.release()
        seen = site.scheduler.wait(None, inner.log_dir, site.patience_s)
        assert (seen.state, seen.reason, seen.exit_code) == ("ended", "exited", 3)

    def test_cancelling_lets_it_end_in_peace(self, site: Site) -> None:
        """TERM comes first; it was ended from outside, whatever it answered, and the record says by whom."""
        run = site.launch("polite", "note:ready", "hold:never")
        site.noted("ready")
        assert run.cancel(LONG_S, by="Ada Lovelace") is True
        seen = run.end()
        assert seen.reason == "killed"
        assert "Ada Lovelace" in str(seen.detail)
        assert site.noted("polite")

    def test_cancelling_ends_the_whole_tree(self, site: Site) -> None:
        """Children that ignore TERM too, after the grace; until then it is running."""
        children = ["child:one", *(["session:two"] if sys.platform == "linux" else [])]
        run = site.launch(*children, "note:seen", "hold:never")
        tree = [site.process(name) for name in ("seen", *(word.partition(":")[2] for word in children))]
        assert run.cancel(0.3) is True
        seen = run.poll()
        assert seen.state == "running" or not any(map(platform.is_alive, tree)), "ended, and its children live"
        assert run.end().reason == "killed"
        assert not any(map(platform.is_alive, tree))

    def test_a_further_cancellation_only_shortens_the_grace(self, site: Site) -> None:
        """A shorter grace counts; a longer one does not."""
        for name, first_s, second_s in (("slow", LONG_S, 0.0), ("quick", 0.1, LONG_S)):
            run = site.launch("deaf", f"note:{name}", "hold:never")
            site.noted(name)
            assert run.cancel(first_s) is True
            run.cancel(second_s)  # True or False: the first may have ended it by now
            seen = run.end()
            assert (seen.reason, seen.signal or signal.SIGKILL) == ("killed", signal.SIGKILL)

    def test_after_the_end_there_is_nothing_to_cancel(self, site: Site) -> None:
        """And the record stays as it is."""
        run = site.launch("exit:0")
        seen = run.end()
        assert run.cancel(0.0) is False
        assert run.poll() == seen

    def test_it_has_ended_when_all_of_it_is_gone(self, site: Site) -> None:
        """What the command left behind holds its devices: it is ended first, and the command's answer stands."""
        children = ["child:one", *(["session:two"] if sys.platform == "linux" else [])]
        names = [word.partition(":")[2] for word in children]
        run = site.launch(*children, *(f"hold:{name}" for name in names), "hold:go", "exit:8", grace_s=0.05)
        processes = [site.process(name) for name in names]
        site.release()
        seen = run.end()
        assert (seen.reason, seen.exit_code) == ("exited", 8)
        assert not any(map(platform.is_alive, processes))

    # --- ownership ------------------------------------------------------------------------------------------

    def test_only_its_own_folder_is_written(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not the home, the temporary folder, a working directory, another run's folder; nor the kernel's files."""
        for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            (site.folder / name).mkdir(mode=0o700)
            monkeypatch.setenv(name, str(site.folder / name))
        monkeypatch.setattr(tempfile, "tempdir", str(site.folder / "TMPDIR"))
        monkeypatch.chdir(site.folder / "runs")
        other = site.launch("exit:0")
        other.end()
        spec = site.spec("out:x", "hold:never")
        before, kept = site.files(spec.log_dir), site.files(site.folder / "runs" / "none")
        run = site.run(spec, site.scheduler.launch(spec))
        run.poll()
        run.cancel(LONG_S)
        run.end()
        assert site.files(spec.log_dir) == before
        after = site.files()
        assert {name: after.get(name) for name in kept} == kept

    # --- when the supervisor is lost ------------------------------------------------------------------------

    def test_a_lost_record_is_said_to_be_lost(self, site: Site) -> None:
        """Supervisor and command are killed: how it ended is unknown, and is not invented."""
        run = site.launch("out:done, exit code 0\n", "note:seen", "hold:never")
        command, supervisor = site.process("seen"), self.supervisor_of(site, site.noted("seen"))
        self._end(site, supervisor, command)
        seen = run.settled()
        assert (seen.state, seen.reason, seen.exit_code) == ("lost", None, None)
        assert seen.detail
        assert run.poll() == seen
        assert run.cancel(0.0) is False

    def test_a_command_without_its_supervisor_runs_and_can_be_ended(self, site: Site) -> None:
        """It holds its devices: it is no lost one until it is gone, with its children."""
        run = site.launch("child:one", "note:seen", "hold:never")
        tree = [site.process("one"), site.process("seen")]
        self._end(site, self.supervisor_of(site, site.noted("seen")))
        seen = run.poll()
        assert (seen.state, seen.exit_code) == ("running", None)
        assert run.cancel(0.2) is True
        assert run.settled().state == "lost"
        assert not any(map(platform.is_alive, tree))

    def test_a_command_without_its_supervisor_is_kept_to_its_limit(self, site: Site) -> None:
        """By its engine, or it is said to be overdue, and not before; then it can be ended."""
        early = site.launch("note:early", "hold:never")
        late = site.launch("note:late", "hold:never", wall_s=1.0)
        for name in ("early", "late"):
            # A late one that was so slow to start may have met its limit already.
            if platform.identity_of(site.noted(name)["pid"]) is not None:
                self._end(site, self.supervisor_of(site, site.noted(name)))
        assert (early.poll().state, early.poll().overdue) == ("running", False)

        def told() -> bool:
            seen = late.poll()
            return seen.state != "running" or seen.overdue

        site.until(told, "it runs past its limit, and no look says so")
        if late.poll().state == "running":
            assert late.cancel(0.2) is True
        assert late.settled().state in ("lost", "ended")
        assert late.poll().overdue is False
        assert early.cancel(0.0) is True

    def test_a_stranger_with_the_same_pid_is_left_alone(self, site: Site) -> None:
        """Pids are given out again: it is neither reported on nor signalled."""
        stranger = site.stranger()
        run = site.launch("note:seen", "hold:never")
        command, supervisor = site.process("seen"), self.supervisor_of(site, site.noted("seen"))
        self._end(site, supervisor, command)
        assert run.settled().state == "lost"
        # As if the kernel had given their pids to the stranger: wherever they were written down its pid stands now.
        theirs = re.compile(rf"\b({command.pid}|{supervisor.pid})\b".encode())
        for path in run.spec.log_dir.rglob("*"):
            if path.is_file():
                path.write_bytes(theirs.sub(str(stranger.pid).encode(), path.read_bytes()))
        native_id = theirs.sub(str(stranger.pid).encode(), run.launched.native_id.encode()).decode()
        for id in (native_id, None):
            assert site.scheduler.poll(id, run.spec.log_dir).state == "lost"
            assert site.scheduler.wait(id, run.spec.log_dir, 0.05).state == "lost"
            assert site.scheduler.cancel(id, run.spec.log_dir, by="the suite", grace_s=0.0) is False
        assert not platform.wait_gone(stranger, 0.1), "the stranger was signalled"

    def test_from_unreadable_records_nothing_is_made_up(self, site: Site) -> None:
        """An error of Perpetual, or the truth: never another end, and never that nothing was started."""
        run = site.launch("exit:7")
        truth = run.end()
        for path in run.spec.log_dir.rglob("*"):
            if path.is_file() and path.name not in KERNELS and path.suffix != ".log":
                path.write_bytes(b'{"state": ')
        native_id, log_dir = run.launched.native_id, run.spec.log_dir
        for look in (site.scheduler.poll, partial(site.scheduler.wait, timeout_s=0.05)):
            for id in (native_id, None):
                seen = said(look, id, log_dir)
                assert isinstance(seen, PerpetualError) or seen == truth or seen.state == "lost", seen
        ended = said(run.cancel, 0.0)
        assert ended is False or isinstance(ended, PerpetualError), "there was nothing to cancel"
