"""Waiting for runs, with what happens to them on standard error. Used by `run --wait`, `wait` and `try`.

At a terminal a block of lines is drawn over: how many of the runs have ended, the time so far and about the time left,
and each live run. Elsewhere, with `--plain`, NO_COLOR or a dumb terminal, one line is written as each run ends. Under
`--json` nothing is written. Ctrl-C ends the waiting alone: the runs go on.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

import click

from perpetual.api import CliContext, PerpetualError, line
from perpetual.toolkit.redraw import is_plain
from perpetual.toolkit.units import posix_of

if TYPE_CHECKING:
    from types import FrameType

    from rich.live import Live

    from perpetual import Lab
    from perpetual.api import Run

__all__ = ["LIVE", "Earlier", "Interrupted", "earlier_like", "ended_line", "going_on", "left_s", "live_columns",
           "plain_option", "shown_seconds", "wait_for"]  # fmt: skip

LIVE = ("queued", "launching", "running")
_MOST_LINES = 8  # live runs
_BAR = 24  # columns
_MINUTE, _HOUR = 60, 3600


class Interrupted(PerpetualError):
    """Ctrl-C ended the waiting; the runs go on."""

    code = "interrupted"
    exit = 130


class Earlier(NamedTuple):
    """How long runs like these took."""

    duration_s: float  # the mean
    runs: int
    experiment_id: str


def plain_option(command: Callable[..., object]) -> Callable[..., object]:
    """Gives a command `--plain`."""
    return click.option("--plain", is_flag=True, help="Write a line for each end, and draw nothing over.")(command)


def wait_for(
    cli: CliContext,
    ids: Sequence[str],
    *,
    timeout_s: float | None = None,
    plain: bool = False,
    are_new: bool = False,
) -> Sequence[Run]:
    """Blocks until the runs that these ids name have ended, shows how they fare, and returns them.

    Args:
        ids: of runs and experiments.
        timeout_s: seconds after which they are returned as they are then.
        plain: draws nothing over.
        are_new: the caller has just started them, so that each end is said, however early.

    Raises:
        Interrupted: by Ctrl-C, with what goes on and how to follow or end it.
    """
    lab, shown = cli.lab, _shown(cli, plain=plain, are_new=are_new)

    with going_on(lab, ids) as interrupts, shown:

        def tick() -> None:
            interrupts.check()
            if not cli.as_json:
                shown.update(lab.runs.named(ids))

        lab.wait(ids, timeout_s=timeout_s, say=shown.say, tick=tick)
    return lab.runs.named(ids)


class _Interrupts:
    """Hears Ctrl-C, and remembers it: Python drops an exception in a destructor, and an import can fail instead."""

    def __init__(self) -> None:
        self.is_heard = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.is_heard = True
        raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt where one was dropped."""
        if self.is_heard:
            raise KeyboardInterrupt


@contextmanager
def going_on(lab: Lab, ids: Sequence[str]) -> Iterator[_Interrupts]:
    """Raises Interrupted where Ctrl-C ends the block, which started or awaits the runs that these ids name."""
    before = signal.getsignal(signal.SIGINT)
    interrupts = before if isinstance(before, _Interrupts) else _Interrupts()
    is_ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if is_ours:
        signal.signal(signal.SIGINT, interrupts)
    try:
        yield interrupts
    except BaseException as problem:
        if interrupts.is_heard or isinstance(problem, KeyboardInterrupt):
            raise _interrupted(lab, ids) from None
        raise
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


def _interrupted(lab: Lab, ids: Sequence[str]) -> Interrupted:
    known = lab.runs.named(ids)
    live = [run for run in known if run.status in LIVE]
    if not known:
        return Interrupted("interrupted", hint="perpetual runs lists what was started")
    if not live:
        return Interrupted("interrupted; all runs have ended", hint="perpetual scan records what they measured")
    named, owners = [run.id for run in live], [*dict.fromkeys(run.experiment_id for run in live)]
    going = [run.id for run in live if run.status != "queued"]
    waiting = [run.id for run in live if run.status == "queued"]
    parts = [f"{_few(going)} {'goes' if len(going) == 1 else 'go'} on"] if going else []
    parts += [f"{_few(waiting)} {'waits' if len(waiting) == 1 else 'wait'} in the queue"] if waiting else []
    subject = owners[0] if len(owners) == 1 else " ".join(named)
    kills = f"perpetual kill {subject}" if len(owners) == 1 else "perpetual kill RUN"
    return Interrupted(
        f"interrupted; {' and '.join(parts)}", hint=f"perpetual wait {subject} follows, {kills} ends them"
    )


def _few(ids: Sequence[str]) -> str:
    return ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")


# --- how long it takes ------------------------------------------------------------------------------------------------


def earlier_like(lab: Lab, experiment_id: str) -> Earlier | None:
    """Returns how long the runs of this experiment took, else those of its baseline; None where none has ended well."""
    experiment = lab.experiments.get(experiment_id)
    for id in (experiment.id, experiment.extends, experiment.renews, experiment.design.baseline):
        if isinstance(id, str):
            runs = lab.runs.list(status="done", experiment_id=id).items
            lasted = [run.duration_s for run in runs if run.duration_s is not None]
            if lasted:
                return Earlier(fmean(lasted), len(lasted), id)
    return None


def left_s(runs: Sequence[Run], lasts_s: Mapping[str, float], now_s: float) -> float | None:
    """Returns about how many seconds it takes until all of these runs have ended.

    As many run at once as do now. None where nothing is known of one, or all take longer than runs like them did.

    Args:
        lasts_s: how long a run of an experiment takes, by its id.
        now_s: POSIX seconds.
    """
    work = 0.0
    live = [run for run in runs if run.status in LIVE]
    going = [run for run in live if run.started_at is not None and run.status == "running"]
    for run in live:
        whole = lasts_s.get(run.experiment_id)
        if whole is None:
            return None
        work += whole if run.started_at is None else max(0.0, whole - (now_s - posix_of(run.started_at)))
    left = work / max(1, len(going))
    return left if left >= 1 else None


def shown_seconds(seconds: float) -> str:
    """Returns a time that is still counted: `42 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02} min"


def live_columns(lab: Lab, run: Run) -> list[str]:
    """Returns what is shown of a live run beside its id, state and time: the metrics that are known of it so far."""
    del lab  # for columns that read more of the run than its record
    return [f"{line(name)} {value:.6g}" for name, value in run.metrics.items() if value is not None][:3]


def ended_line(run: Run, metric: str | None) -> str:
    """Returns the line of a run that has ended: `r5 done 0.93`."""
    value = run.metrics.get(metric) if metric is not None else None
    if value is not None:
        said = f" {value:.6g}"
    elif run.status == "done" and metric is not None:
        said = f" without {line(metric)}"
    else:
        said = f" ({line(run.reason)})" if run.reason else ""
    return f"{run.id} {run.status}{said}"


# --- what is shown ----------------------------------------------------------------------------------------------------


class _Quiet:
    """Shows nothing but what is in the way of waiting."""

    def __init__(self, cli: CliContext) -> None:
        self.cli, self.metrics = cli, _Metrics(cli.lab)

    def __enter__(self) -> _Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, text: str) -> None:
        """Writes a remark."""
        self.cli.progress(line(text))

    def update(self, runs: Sequence[Run]) -> None:
        """Shows how the runs fare now."""


class _Lines(_Quiet):
    """Writes a line as each run ends."""

    def __init__(self, cli: CliContext, *, are_new: bool) -> None:
        super().__init__(cli)
        self._ended_before: set[str] | None = set() if are_new else None
        self._waits: dict[str, str] = {}

    def update(self, runs: Sequence[Run]) -> None:
        """Writes a line for each run that has ended since the look before; of runs that are not new none at first."""
        ended = {run.id for run in runs if run.status not in LIVE}
        before, self._ended_before = self._ended_before, ended
        for run in runs:
            if before is not None and run.id in ended - before:
                self.say(ended_line(run, self.metrics[run.experiment_id]))
        self._say_what_for(runs)

    def _say_what_for(self, runs: Sequence[Run]) -> None:
        """Writes once for what each run waits, where none of them is under way."""
        queued = [run for run in runs if run.status == "queued" and run.reason]
        if any(run.status in ("launching", "running") for run in runs):
            return
        for run in queued:
            if self._waits.get(run.id) != run.reason:
                self._waits[run.id] = str(run.reason)
                self.say(f"{run.id} waits: {line(run.reason)}")


class _Drawn(_Lines):
    """Draws the runs over and over at a terminal; a line for each that has ended stays above."""

    def __init__(self, cli: CliContext, *, are_new: bool) -> None:
        super().__init__(cli, are_new=are_new)
        self._screen: Live | None = None
        self._since_s = time.time()
        self._ended = -1
        self._lasts_s: dict[str, float] = {}

    def __exit__(self, *_: object) -> None:
        if self._screen is not None:
            self._screen.stop()

    def say(self, text: str) -> None:
        """Writes a remark above what is drawn."""
        if self._screen is None:
            super().say(text)
        else:
            self._screen.console.print(line(text), markup=False, highlight=False, soft_wrap=True)

    def update(self, runs: Sequence[Run]) -> None:
        """Draws how the runs fare now."""
        super().update(runs)
        if self._screen is None and not any(run.status in LIVE for run in runs):
            return  # before anything was drawn all had ended
        from rich.console import Group
        from rich.text import Text

        lines = [Text(text, no_wrap=True, overflow="ellipsis") for text in self._text(runs)]
        self._on_screen().update(Group(*lines), refresh=True)

    def _say_what_for(self, runs: Sequence[Run]) -> None:
        """Says nothing: the reason is beside each run that is drawn."""

    def _on_screen(self) -> Live:
        if self._screen is None:
            from rich.console import Console
            from rich.live import Live

            self._screen = Live(console=Console(stderr=True, highlight=False), auto_refresh=False, transient=True)
            self._screen.start()
        return self._screen

    def _text(self, runs: Sequence[Run]) -> list[str]:
        now_s = time.time()
        live, ended = [run for run in runs if run.status in LIVE], [run for run in runs if run.status not in LIVE]
        full = _BAR * len(ended) // max(1, len(runs))
        if len(ended) != self._ended:  # else nothing more is known
            self._ended = len(ended)
            found = {run.experiment_id: earlier_like(self.cli.lab, run.experiment_id) for run in runs}
            self._lasts_s = {id: each.duration_s for id, each in found.items() if each is not None}
        left = left_s(runs, self._lasts_s, now_s)
        later = f", about {shown_seconds(left)} left" if left is not None else ""
        head = f"[{'#' * full}{'.' * (_BAR - full)}] {len(ended)} of {len(runs)} done, "
        lines = [f"{head}{shown_seconds(now_s - self._since_s)}{later}"]
        lines += [self._line(run, now_s) for run in live[:_MOST_LINES]]
        return [*lines, f"  and {len(live) - _MOST_LINES} more"] if len(live) > _MOST_LINES else lines

    def _line(self, run: Run, now_s: float) -> str:
        since = "" if run.started_at is None else f" {shown_seconds(max(0.0, now_s - posix_of(run.started_at)))}"
        why = f" ({line(run.reason)})" if run.status == "queued" and run.reason else ""
        return f"  {run.id} {run.status}{since}{why}" + "".join(f"  {cell}" for cell in live_columns(self.cli.lab, run))


class _Metrics(dict[str, "str | None"]):
    """The metric that the runs of an experiment are for, by its id, looked up once."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self._lab = lab

    def __missing__(self, experiment_id: str) -> str | None:
        found = self._lab.experiments.get(experiment_id).design.metric
        self[experiment_id] = found
        return found


def _shown(cli: CliContext, *, plain: bool, are_new: bool) -> _Quiet:
    if cli.as_json:
        return _Quiet(cli)
    return (_Lines if cli.for_agent or is_plain(asked=plain) else _Drawn)(cli, are_new=are_new)
