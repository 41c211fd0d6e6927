"""Named steps between launching and accounting: the places where a test has a process die.

Code that writes to two places (the record and a run's folder, the record and git) calls `step` between
them. In production that is one comparison with None. A process that was started with PERPETUAL_DIE_AT=NAME ends itself
at the first step of that name by SIGKILL, as a lost machine or the kernel's out-of-memory killer would end it: no
handler runs and nothing is flushed.

It is safe to leave in: the variable is read once, when this module is first imported, and acts on the process that has
it and on no other. It is taken out of the environment at once, so neither supervisors nor runs inherit it. Whatever
can set a process's environment can kill that process anyway.
"""

from __future__ import annotations

import os
import signal

__all__ = ["STEPS", "step"]

# In the order of a run's life. tests/plugins/demo kill the program at each and let it go on.
STEPS: dict[str, str] = {
    "loop:scanned": "the loop has looked at the runs",
    "loop:analysed": "ended runs were put into words",
    "approve:decided": "an approver has booked what it approves, and nothing is committed",
    "loop:approved": "proposals were made and approved",
    "launch:reserved": "the run is in the record, queued, with its worst case reserved",
    "launch:launching": "the record says that it is being launched",
    "launch:prepared": "its folder holds its configuration",
    "launch:spec": "its folder holds what the supervisor is to start; there is no supervisor yet",
    "launch:forked": "a supervisor was started and has not answered",
    "launch:started": "the supervisor has answered; the record does not know yet",
    "launch:noted": "the record says that it is running",
    "loop:launched": "the room for runs is filled",
    "loop:noted": "what was learned is in memory",
    "scan:ended": "the exit record was seen",
    "scan:measured": "the metrics were read",
    "scan:evidence": "the evidence is folded and the debit settled, and nothing is committed",
    "scan:settled": "all of it is committed",
    "note:intent": "a note and the intent to commit it are in the record, and git lacks it",
    "note:committed": "git has the note, and the record does not know",
    "move:built": "a new store holds what the old one holds, and nothing says so",
    "move:retired": "the old store says that it was replaced, and it is in force as nothing else says so",
    "move:decided": "the new store is in force; the old one is still in its place",
    "move:aside": "the old store is among the backups, and there is none in its place",
    "move:renamed": "the new store is in its place; the configuration names the old one",
    "move:configured": "all is done but for taking the plan away",
    "adopt:aside": "another tool's folder is moved aside, and there is no project in its place",
    "adopt:laid": "files of runs that are about to be adopted lie ready",
    "adopt:written": "a batch of earlier work is in the record; its runs have no folders yet",
    "loop:stopped": "the record says why the loop stopped",
    "agent:begun": "a step of an agent is recorded as begun; agent:begun:3 is the third of its turn",
    "agent:effect": "it has had its effect, and nothing says so",
    "agent:done": "its result is in the record",
}

_DIE_AT = os.environ.pop("PERPETUAL_DIE_AT", None)


def step(name: str, number: int | None = None) -> None:
    """Marks that the step `name`, a key of `STEPS`, was reached; by its number too where there are several."""
    if _DIE_AT in (name, f"{name}:{number}"):
        os.kill(os.getpid(), signal.SIGKILL)
