"""The contract suite of the scheduler slot: every promise of `perpetual.slots.scheduler`, as tests to be subclassed.

    class TestAcmeScheduler(SchedulerContract):
        factory = "acme_runner.scheduler:build"
        options = {"queue": "short"}

The scheduler is built with `factory`, as the kernel does, here and in other processes; a subclass may override the
fixture `scheduler` instead, and tests that need another process are skipped then. Nothing but pytest is needed. The
runs are real processes, which must see this machine's files and processes; each of them ends with its test. Where a
run's exit code is kept by another process than its parent, override `supervisor_of`; where an engine option is
compulsory, set `engine`; where the engine has a queue, override `hold`, and `requeue` where it starts jobs anew.
"""

from __future__ import annotations

from perpetual.testing.schedulers.contract import SchedulerContract

__all__ = ["SchedulerContract"]
