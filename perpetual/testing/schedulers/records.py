"""The schedulers' suite, third part: whose word the records in a run's folder are, and whose processes."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from perpetual.errors import CorruptData
from perpetual.testing.scheduler_site import KERNELS, LONG_S, Site, said
from perpetual.testing.schedulers.commands import Commands
from perpetual.toolkit import platform
from perpetual.toolkit.hosts import HOST_VARIABLE

__all__ = ["Records"]

_NONCE, _SPEC_HASH = "5f" * 16, "c0" * 32


class Records(Commands):
    """Folders that a run has written into, copies of folders, and folders that machines share."""

    def test_no_end_is_believed_while_the_supervisor_lives(self, site: Site) -> None:
        """The run can write what it likes: an exit record that lies in its folder while it runs is not its end."""
        ended, run = site.launch("exit:3"), site.launch("note:seen", "hold:go", "exit:4")
        ended.end()
        site.noted("seen")
        left = {path.name for path in ended.spec.log_dir.iterdir()} - {*KERNELS}
        forged = [name for name in sorted(left) if not (run.spec.log_dir / name).exists()]
        for name in forged:
            shutil.copyfile(ended.spec.log_dir / name, run.spec.log_dir / name)
        for known in (run.launched.native_id, None):
            seen = said(site.scheduler.poll, known, run.spec.log_dir)
            is_running = isinstance(seen, CorruptData) or getattr(seen, "state", None) == "running"
            assert is_running, f"ended by its own word: {seen}"
        site.release()
        assert run.end().exit_code == 4, "what lay there before was taken for its end"

    def test_records_are_bound_to_the_run(self, site: Site) -> None:
        """Each sighting has the nonce and the hash of its specification, where the scheduler `binds_runs`."""
        run = site.launch("note:seen", "hold:go", "exit:0", nonce=_NONCE, spec_hash=_SPEC_HASH)
        site.noted("seen")
        sightings = [run.poll(), site.scheduler.poll(None, run.spec.log_dir)]
        site.release()
        sightings.append(run.end())
        if site.scheduler.binds_runs:
            assert {(seen.nonce, seen.spec_hash) for seen in sightings} == {(_NONCE, _SPEC_HASH)}

    def test_a_copy_ends_nothing(self, site: Site) -> None:
        """The folder's copy names processes that are not its own: they are not signalled, by id or by folder."""
        run = site.launch("note:seen", "hold:go", "exit:5")
        process = site.process("seen")
        copy = site.folder / "runs" / "copy"
        shutil.copytree(run.spec.log_dir, copy)
        for folder in (copy, site.folder / "runs" / "imported"):
            for known in (run.launched.native_id, None):
                answer = said(site.scheduler.cancel, known, folder, by="the suite", grace_s=0.0)
                assert answer is not True, "it says that it ended the run of another folder"
        assert not platform.wait_gone(process, 0.2), "the original was ended"
        site.release()
        assert run.end().exit_code == 5

    def test_a_live_run_is_of_this_boot(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever a variable says that a test of reboots has left in the environment."""
        run = site.launch("note:seen", "hold:never")
        site.noted("seen")
        with monkeypatch.context() as left:
            left.setenv(platform.BOOT_ID_VARIABLE, "of another boot")
            assert run.poll().state == "running"
            assert run.cancel(LONG_S) is True
        assert run.end().reason == "killed"

    def test_another_machine_loses_nothing(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A machine that shares the folder cannot see the processes: they are not lost for that."""
        if not site.scheduler.binds_runs:
            return  # its engine knows of other machines, or it has none
        run = site.launch("note:seen", "hold:never")
        noted = site.noted("seen")
        # Where the file system keeps its locks to each machine, neither lock nor process is seen from the other one.
        for pid in (noted["parent"], noted["pid"]):
            identity = platform.identity_of(pid)
            if identity is not None and pid != os.getpid():
                platform.signal_process(identity, signal.SIGKILL)
                platform.wait_gone(identity, LONG_S)
        with monkeypatch.context() as there:
            there.setenv(platform.BOOT_ID_VARIABLE, "of another machine")
            there.setenv(HOST_VARIABLE, "another machine")
            for known in (run.launched.native_id, None):
                seen = site.scheduler.poll(known, run.spec.log_dir)
                assert (seen.state, seen.elsewhere is not None) == ("running", True), seen
                assert site.scheduler.cancel(known, run.spec.log_dir, by="the suite", grace_s=0.0) is False
        assert run.settled().state == "lost"
