"""The schedulers' suite, first room: what a command gets, how it ends, and what it writes. A base of the suite."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from perpetual.lab.options import check_declared, leaves_of
from perpetual.slots.scheduler import Launched, LaunchError
from perpetual.testing.scheduler_site import KERNELS, Site, refused, said
from perpetual.toolkit.units import posix_of

__all__ = ["Commands"]

_TICK_S = 0.1  # how coarse a kernel may count the start of a process
_CLOCK_S = 10.0  # by how much the times of a record may differ from this process's
# Python adds these at its own start, where the locale is not UTF-8.
_ADDED_BY_PYTHON = ("LC_CTYPE", "__CF_USER_TEXT_ENCODING")


class Commands:
    """One command, from its launch to its record."""

    # --- before anything runs -------------------------------------------------------------------------------

    def test_what_was_never_started_is_absent(self, site: Site) -> None:
        """In a folder as the kernel leaves it, and where there is none; there is nothing to wait for or to cancel."""
        scheduler, before = site.scheduler, site.spec().log_dir
        for log_dir in (before, site.folder / "runs" / "none"):
            for seen in (said(scheduler.poll, None, log_dir), said(scheduler.wait, None, log_dir, 0.05)):
                assert getattr(seen, "state", seen) == "absent"
            assert said(scheduler.cancel, None, log_dir, by="the suite", grace_s=0.0) is False
            assert scheduler.logs(log_dir) != scheduler.logs(log_dir, stderr=True)
        assert sorted(path.name for path in before.iterdir()) == [*KERNELS]

    def test_checking_starts_and_writes_nothing(self, site: Site) -> None:
        """And needs no folder of a run."""
        spec = site.spec("note:started", "exit:0")
        before = site.files()
        for one in (spec, replace(spec, run_id="check", log_dir=site.folder / "runs" / "check")):
            site.scheduler.check(one)
        assert site.files() == before

    def test_what_can_never_start_is_refused(self, site: Site) -> None:
        """By `check`: a folder or a program that is not there, or is none; the reason names it."""
        (site.work / "no-program").write_text("just a text")
        (site.work / "a-folder").mkdir()
        spec = site.spec("exit:0")
        site.scheduler.check(spec)
        refused("nowhere", site.scheduler.check, replace(spec, cwd=site.folder / "nowhere"))
        absent = [name for stem in ("absent", "no-program", "a-folder") for name in (stem, f"./{stem}")]
        for name in (*absent, str(site.work / "absent"), str(site.work / "no-program")):
            refused(name, site.scheduler.check, replace(spec, argv=(name, "x")))

    def test_a_launch_that_fails_leaves_nothing(self, site: Site) -> None:
        """`launch` says why, or the record does; nothing runs and no record says that something did."""
        (site.work / "script").write_text("#!/no/such/interpreter\n")
        (site.work / "script").chmod(0o755)
        changes: list[dict[str, object]] = [
            {"cwd": site.folder / "nowhere"},
            {"argv": ("no-such-program",)},
            {"argv": ("./script",)},
            {"env": {"A=B": "x"}},
            {"argv": (sys.executable, "a\0b")},
        ]
        for change in changes:
            spec = site.spec("exit:0", **change)
            answer = said(site.scheduler.launch, spec)
            native_id = answer.native_id if isinstance(answer, Launched) else None
            if native_id is None:
                assert isinstance(answer, LaunchError), f"{change}: {answer!r} instead of a LaunchError"
                assert answer.message.strip(), "no reason for people"
            seen = site.scheduler.wait(native_id, spec.log_dir, site.patience_s if native_id else 0.0)
            # Where the engine finds out later, the record tells.
            told = (seen.state, seen.reason) == ("ended", "exec_failed")
            assert told or (seen.state == "absent" and native_id is None), f"{change}: {seen}"

    # --- what the command gets ------------------------------------------------------------------------------

    def test_words_folder_and_environment_are_the_spec_s(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever letters they have; nothing of the launcher's environment comes along, and of a machine's own little.

        A scheduler that `inherits_env` was given all there is: the command has exactly that.
        """
        monkeypatch.setenv("OF_THE_LAUNCHER", "x")
        words = ["--", "", " two  words ", "a\nb", "$HOME `id` \\ * ~ %s", "\"'", "ü\u2028\U0001f52d", "\udcff", "-n"]
        odd = {"EMPTY": "", "LINES": "a\nb\n", "LETTERS": "ü $HOME \udcff \"'", "lower.case-name": "1", "HOME": "/x"}
        spec = site.spec()
        spec = replace(spec, argv=site.argv("note:seen", *words), env={**spec.env, **odd})
        run = site.run(spec, site.scheduler.launch(spec))
        run.end()
        seen = site.noted("seen")
        assert seen["argv"][1:] == [*spec.argv[5:]]
        assert Path(seen["cwd"]).samefile(spec.cwd)
        got = {name: value for name, value in seen["env"].items() if name not in _ADDED_BY_PYTHON}
        assert "OF_THE_LAUNCHER" not in got
        if site.scheduler.inherits_env:
            assert got == dict(spec.env)
        assert {name: got.get(name) for name in spec.env} == dict(spec.env)

    def test_a_program_is_looked_up_as_the_spec_says(self, site: Site) -> None:
        """In the `PATH` of its environment, or from its folder; the launcher's do not count."""
        folder = site.folder / "programs"
        for path, word in ((folder / "suite-tool", "found"), (site.work / "own-tool", "own")):
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"#!/bin/sh\necho {word}\n")
            path.chmod(0o755)
        for name, output in (("suite-tool", b"found\n"), ("./own-tool", b"own\n")):
            spec = site.spec(argv=(name,), env={"PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}"})
            problem = said(site.scheduler.check, spec)
            assert problem is None, f"{name} was not found: {problem}"
            answer = said(site.scheduler.launch, spec)
            assert isinstance(answer, Launched), f"{name} was not started: {answer}"
            run = site.run(spec, answer)
            assert (run.end().exit_code, run.output()) == (0, output)
        refused("sh", site.scheduler.check, site.spec(argv=("sh", "-c", "exit"), env={"PATH": str(site.marks)}))

    def test_a_request_is_honoured_or_refused(self, site: Site) -> None:
        """A small one is served, or refused in words; what no machine has is refused, or waits with its engine."""
        requests = [("cpus", 1, 10**6), ("memory_bytes", 2**30, 2**60), ("nodes", 1, 10**5)]
        for name, few, many in requests:
            spec = site.spec("exit:0", **{name: few})
            answer: object = said(site.scheduler.check, spec)
            assert answer is None or isinstance(answer, LaunchError), f"{name}={few}: {answer!r}"
            if answer is None:
                assert site.run(spec, site.scheduler.launch(spec)).end().exit_code == 0
            spec = site.spec(f"count:{name}", "exit:0", **{name: many})
            answer = said(site.scheduler.check, spec) or said(site.scheduler.launch, spec)
            if isinstance(answer, LaunchError):
                assert answer.message.strip(), "no reason for people"
                continue
            assert isinstance(answer, Launched), f"{name}={many}: {answer!r} instead of a LaunchError"
            site.scheduler.wait(answer.native_id, spec.log_dir, 0.3)
            site.scheduler.cancel(answer.native_id, spec.log_dir, by="the suite", grace_s=0.0)
            assert site.scheduler.queues, f"{name}={many} is neither refused nor waited for"
            assert site.count(name) == 0, f"it was started without its {name}"

    def test_engine_options_are_declared(self, site: Site) -> None:
        """With types and meanings, and without secrets or variables: they are in the specification, for all to read."""
        declared = site.scheduler.engine_options
        problem = said(check_declared, declared)
        assert problem is None, problem
        for keys, option in leaves_of(declared):
            assert not option.secret, f"{'.'.join(keys)} is a secret"
            assert option.variable is None, f"{'.'.join(keys)} is read from a variable"
        assert json.loads(json.dumps(site.engine_options())) == site.engine_options()

    def test_its_machine_is_named(self, site: Site) -> None:
        """Where it is known, at the start as while it runs and at the end."""
        run = site.launch("note:seen", "hold:go", "exit:0")
        site.noted("seen")
        seen = run.poll()
        site.release()
        end = run.end()
        assert seen.host is None or (seen.host.strip() and seen.host.isprintable())
        assert run.launched.host in (None, seen.host)
        assert end.host == seen.host, "known while it ran, and another at its end"

    def test_standard_input_is_empty(self, site: Site) -> None:
        """A command that asks gets an end of file, and does not wait for a keyboard."""
        run = site.launch("read", "exit:0")
        assert (run.end().exit_code, run.output()) == (0, b"0\n")

    # --- how it ends ----------------------------------------------------------------------------------------

    def test_launching_returns_at_once(self, site: Site) -> None:
        """The run goes on by itself; its id, its start and its process are known."""
        before = time.time()
        with ThreadPoolExecutor(1) as pool:
            launching = pool.submit(site.launch, "note:seen", "hold:go", "exit:0")
            try:
                site.until(launching.done, "launching waits for the end of the run")
            finally:
                site.release()
            run = launching.result()
        launched, pid = run.launched, site.noted("seen")["pid"]
        assert launched.native_id
        assert launched.native_id.isprintable()
        if launched.started_at is not None:  # else it was in the engine's queue
            assert abs(posix_of(launched.started_at) - before) < _CLOCK_S
        assert launched.pid in (None, pid)
        assert run.end().pid in (None, pid)

    def test_a_running_one_is_seen_running(self, site: Site) -> None:
        """With its start, once its command is executed; until it ends."""
        run = site.launch("note:seen", "hold:go", "exit:0")
        pid = site.noted("seen")["pid"]
        seen = run.poll()
        assert (seen.state, seen.reason, seen.exit_code, seen.ended_at) == ("running", None, None, None)
        assert seen.started_at is not None, "without a start it counts as one that may yet fail"
        assert abs(posix_of(seen.started_at) - posix_of(run.launched.started_at or seen.started_at)) < _CLOCK_S
        assert seen.pid in (None, pid)
        site.release()
        run.end()

    def test_its_age_is_told_by_a_clock_that_nobody_sets(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """While it runs, where it is known at all."""
        before = time.monotonic()
        run = site.launch("note:seen", "hold:go", "exit:0")
        site.noted("seen")
        now = time.time
        ages = []
        for step_s in (0.0, 86400.0, -86400.0):
            with monkeypatch.context() as stepped:
                stepped.setattr(time, "time", lambda step_s=step_s: now() + step_s)
                seen = run.poll()
            assert seen.state == "running"
            ages.append(seen.age_s)
        lasted_s = time.monotonic() - before
        if ages != [None] * 3:
            told = [age_s for age_s in ages if age_s is not None]
            assert len(told) == 3, f"known at one look and not at another: {ages}"
            assert told == sorted(told)
            assert all(0.0 <= age_s < lasted_s + _TICK_S for age_s in told), f"{ages} after {lasted_s} s"
        site.release()
        assert run.end().age_s is None

    def test_an_exit_code_is_told(self, site: Site) -> None:
        """As the command gave it, at each look."""
        for code in (0, 1, 255):
            run = site.launch(f"exit:{code}")
            seen = run.end()
            assert (seen.reason, seen.exit_code, seen.signal) == ("exited", code, None)
            assert run.poll() == seen

    def test_a_signal_is_told(self, site: Site) -> None:
        """A command that is ended by a signal has no exit code."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            seen = site.launch(f"die:{number}", "hold:never").end()
            assert (seen.reason, seen.exit_code, seen.signal) == ("signalled", None, number)

    def test_only_the_record_decides(self, site: Site) -> None:
        """Neither the words in a log, nor how long it has been silent."""
        fine = site.launch("err:Traceback (most recent call last):\nRuntimeError: out of memory\nKilled\n", "exit:0")
        broken = site.launch("out:training complete, exit code 0, SUCCESS, done\n", "exit:5")
        silent = site.launch("out:exit code 0\n", "note:silent", "hold:go", "exit:3")
        site.noted("silent")
        for path in silent.spec.log_dir.rglob("*"):
            os.utime(path, (1e9, 1e9))
        assert silent.poll().state == "running"
        site.release()
        ends = [(seen.reason, seen.exit_code) for seen in (fine.end(), broken.end(), silent.end())]
        assert ends == [("exited", 0), ("exited", 5), ("exited", 3)]

    def test_times_are_those_of_the_run(self, site: Site) -> None:
        """Start, end and duration in UTC and in seconds; budgets are debited by them."""
        before = time.time()
        run = site.launch("note:seen", "hold:go", "exit:0")
        site.noted("seen")
        begun = time.time()
        site.until(lambda: time.time() > begun + 0.15, "the clock stands still")
        site.release()
        seen, after = run.end(), time.time()
        assert seen.started_at is not None
        assert seen.ended_at is not None
        assert seen.duration_s is not None
        assert before - _CLOCK_S < posix_of(seen.started_at) <= posix_of(seen.ended_at) < after + _CLOCK_S
        assert 0.1 < seen.duration_s < after - before + 0.1
        assert abs(posix_of(seen.ended_at) - posix_of(seen.started_at) - seen.duration_s) < _CLOCK_S

    def test_resources_are_in_their_units(self, site: Site) -> None:
        """CPU seconds and bytes, where they are known at all."""
        seen = site.launch("burn:0.15", "exit:0").end()
        assert seen.cpu_s is None or 0.1 < seen.cpu_s < 5.0
        assert seen.max_rss_bytes is None or 64 * 2**20 < seen.max_rss_bytes < 2**30

    # --- output ---------------------------------------------------------------------------------------------

    def test_output_is_kept_as_it_is(self, site: Site) -> None:
        """Every byte of both streams, each in its file, where the metric readers look for it."""
        run = site.launch("bytes:4096", "err:an error\n", "exit:0")
        run.end()
        told, kept = bytes(range(256)) * 4096, run.output()
        is_same = kept == told  # not in the assertion: pytest would spend minutes on the difference of a megabyte
        assert is_same, f"the command wrote {len(told)} bytes, and other {len(kept)} are kept"
        assert run.output(stderr=True) == b"an error\n"
        is_same = (run.spec.log_dir / "stdout.log").read_bytes() == told
        assert is_same, "stdout.log holds something else"
        assert (run.spec.log_dir / "stderr.log").read_bytes() == b"an error\n"

    def test_output_is_there_while_it_runs(self, site: Site) -> None:
        """As soon as it was written; and all of it at the end."""
        run = site.launch("out:first\n", "hold:go", "out:second\n", "exit:0")
        site.until(lambda: run.output() == b"first\n", "what it wrote is not in its log")
        assert run.poll().state == "running"
        site.release()
        run.end()
        assert run.output() == b"first\nsecond\n"
