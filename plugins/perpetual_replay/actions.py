"""What `memory replay` and `memory bisect` do, for every face: ask, wait, list, plan, write the example."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from perpetual.api import NotFound, UsageError
from perpetual_replay.show import replay
from perpetual_replay.tasks import FOLDER, read_tasks
from perpetual_replay.trials import FIRST, Trials

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_replay.documents import Bisection, Replays

__all__ = ["ask", "bisect", "bisections", "listed", "plan_of_bisection", "write_example"]

_POLL_S = 0.5


def ask(
    lab: Lab, path: str | None, *, wait: bool = False, timeout_s: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Replays:  # fmt: skip
    """Asks for the trial of a note, or of every note in the queue (`path` None), and starts what may start.

    Args:
        wait: returns once each of them is over or cannot go on.
        timeout_s: after which to return in any case, in seconds.
        say: hears of each recorded pair.

    Raises:
        UsageError: where there is no task.
        NotFound: for an unknown note.
    """
    trials = Trials(lab)
    asked = [trials.request(path)] if path is not None else trials.queue()
    waits = trials.advance()
    end = None if timeout_s is None else time.monotonic() + timeout_s
    seen: dict[str, int] = {}
    while wait and _going(trials, asked, waits) and (end is None or time.monotonic() < end):
        _pause(lab, end)
        lab.scan()
        waits = trials.advance()
        for trial in _again(lab, asked):
            if say is not None and trial["pairs"] > seen.get(trial.id, 0):
                seen[trial.id] = trial["pairs"]
                say(f"{trial['note']}: pair {trial['pairs']} of at most {trial['max_pairs']}, "
                    f"e-value {trial['e_help']:.3g}")  # fmt: skip
    return _answer(lab, trials, _again(lab, asked), waits)


def _pause(lab: Lab, end: float | None) -> None:
    """Waits until a run is over, or for a moment."""
    left = _POLL_S if end is None else max(0.0, min(_POLL_S, end - time.monotonic()))
    live = [run.id for run in lab.runs.live()]
    if live:
        lab.wait(live[:1], timeout_s=left)
    else:
        time.sleep(left)  # nothing to wait for: a run is queued, or another process is about to start one


def _going(trials: Trials, asked: list[Record], waits: dict[str, str]) -> bool:
    """Returns whether one of the trials goes on by itself: it runs, and nothing but a canary is in its way."""
    running = [trial for trial in trials.again(asked) if trial["state"] == "running"]
    return any(waits.get(trial.id) in (None, FIRST) for trial in running)


def _again(lab: Lab, asked: list[Record]) -> list[Record]:
    return Trials(lab).again(asked)


def listed(lab: Lab) -> Replays:
    """Returns every trial, the newest first, canaries among them."""
    trials = Trials(lab)
    return _answer(lab, trials, trials.newest(), {})


def _answer(lab: Lab, trials: Trials, found: list[Record], waits: dict[str, str]) -> Replays:
    status = {}
    for trial in found:
        if trial["canary"]:
            continue
        try:
            status[str(trial["note"])] = str(lab.memory.get(trial["note"]).status)
        except NotFound:
            continue  # of a record that was imported without its notes
    return {
        "items": [replay(trials, lab, trial, waits.get(trial.id)) for trial in found],
        "note_status": status,
        "tasks": len(read_tasks(lab.root)),
    }


def write_example(lab: Lab) -> list[str]:
    """Writes tasks, their program and a note on which their score depends; returns what to do next.

    Raises:
        UsageError: where one of the files is there already.
    """
    from perpetual_replay.example import FILES, NOTE, NOTE_PATH

    folder = lab.root / FOLDER
    there = next((name for name in FILES if (folder / name).exists()), None)
    if there is not None:
        raise UsageError(f"{FOLDER}/{there} exists", hint="move it away first")
    folder.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    lab.memory.write(NOTE_PATH, NOTE, type="skill_card", message="example of a note that helps",
                     idempotency_key=f"replay-example:{NOTE_PATH}")  # fmt: skip
    return [f"wrote {FOLDER}/{name}" for name in FILES] + [
        f"wrote the note {NOTE_PATH}", f"next: perpetual memory replay {NOTE_PATH} --wait",
    ]  # fmt: skip


def bisections(lab: Lab, path: str | None = None, *, limit: int = 100) -> list[Bisection]:
    """Returns the newest bisections, the newest first; of a path those that ended at a change of that note."""
    from perpetual_replay.bisections import Bisections
    from perpetual_replay.show_bisection import bisection

    known = Bisections(lab)
    found = known.newest(limit) if path is None else known.of(lab.part("memory").normalise(path))[::-1][:limit]
    return [bisection(lab, one) for one in found]


def plan_of_bisection(lab: Lab, good: str | None = None, bad: str | None = None) -> Bisection:
    """Returns what `bisect` would search, with its worst case; nothing is recorded. Raises as `bisect` does."""
    from perpetual_replay.bisections import Bisections
    from perpetual_replay.show_bisection import bisection, planned

    bisections = Bisections(lab)
    plan = bisections.plan(good, bad)
    known = bisections.known(plan)
    return planned(plan) if known is None else bisection(lab, known)


def bisect(
    lab: Lab, good: str | None = None, bad: str | None = None, *, wait: bool = False, timeout_s: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Bisection:  # fmt: skip
    """Searches for the change of a note after which replay scores fell, and starts what may start.

    Args:
        lab: whose memory it is.
        good: the state in which scores were good: a time, an event (`seq:120`; 0 is the empty memory) or a commit of
            the memory; by default the one after the first promotion, or after the first change without any.
        bad: the same of the state in which they are bad; by default now.
        wait: returns once it is over or cannot go on.
        timeout_s: after which to return in any case, in seconds.
        say: hears of each recorded pair.

    Raises:
        UsageError: without a task, for what names no state, where good is not before bad, and where what the tasks are
            shown has not changed between them.
        Conflict: where the memory does not hold the text of a version.
    """
    from perpetual_replay.bisections import Bisections
    from perpetual_replay.show_bisection import bisection

    bisections, trials = Bisections(lab), Trials(lab)
    found = bisections.request(good, bad)
    waits = bisections.advance()
    end = None if timeout_s is None else time.monotonic() + timeout_s
    seen: dict[str, int] = {}
    while wait and _is_going(bisections.again(found), waits) and (end is None or time.monotonic() < end):
        _pause(lab, end)
        lab.scan()
        waits = bisections.advance()
        for trial in bisections.trials_of(found) if say is not None else ():
            if say is not None and trial["pairs"] > seen.get(trial.id, 0):
                seen[trial.id] = trial["pairs"]
                e_value = trials.judge(trial).found.e_harm
                say(f"{trial['note']}: pair {trial['pairs']} of at most {trial['max_pairs']}, "
                    f"e-value of a fall {e_value:.3g} of {trial['bar']:.3g}")  # fmt: skip
    return bisection(lab, bisections.again(found), waits.get(found.id))


def _is_going(bisection: Record, waits: dict[str, str]) -> bool:
    return bisection["state"] == "running" and bisection.id not in waits
