"""Waiting for runs and experiments to end."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from perpetual.errors import CorruptData, NotFound, PluginError, TransientError, UnknownPlugin
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import HOSTILE, scheduler_for, sight
from perpetual.lab.kinds import RUN, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance.code_check import held_up, is_held
from perpetual.records import LIVE
from perpetual.toolkit.units import finite, identifier

if TYPE_CHECKING:
    from perpetual.documents.runs import Scanned

__all__ = ["named", "wait", "wait_any"]

_TURN_S = 0.1  # how long one of several schedulers is waited on
SWEEP_S = 1.0  # how often what other processes did is looked at while a run is waited for


def wait(
    ctx: Context,
    scan: Callable[[Collection[str]], Scanned],
    ids: Sequence[str],
    *,
    timeout_s: float | None,
    say: Callable[[str], None] | None = None,
    tick: Callable[[], None] | None = None,
) -> dict[str, str]:
    """Blocks until every named run has ended, and every named experiment has no live run; returns {id: status}.

    Sleeps on the supervisors of all live runs at once, not in a loop: the end of any is recorded within milliseconds.
    Raises what `Lab.wait` says. `scan` brings the record up to date, the runs of these ids first.
    """
    if timeout_s is not None:
        finite(timeout_s, "the timeout", minimum=0.0)
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    wanted = [_subject(ctx, id) for id in ids]
    ended: Collection[str] = ()
    said: set[str] = set()
    while True:
        problems = {item["run_id"]: item for item in scan(ended)["problems"]}
        live = [run for subject in wanted for run in _live_runs(ctx, subject)]
        for run in live:
            problem = problems.get(run.id)
            if problem is None:
                continue
            message = problem["message"]
            if problem["code"] == CorruptData.code:
                raise CorruptData(message, hint=f"perpetual kill {run.id}, then mend its folder")
            if problem["code"] == UnknownPlugin.code:
                scheduler_for(ctx, run)  # raises, with the way out
            if say is not None and message not in said:
                said.add(message)
                say(f"{run.id} cannot be looked at now: {message}")
        if tick is not None:
            tick()
        if live and all(map(is_held, live)):
            raise held_up(ctx, live[0])
        left = SWEEP_S if deadline is None else min(SWEEP_S, deadline - time.monotonic())
        if not live or left <= 0:
            return {kind_id[1]: ctx.need(*kind_id).body["status"] for kind_id in wanted}
        ended = _sleep(ctx, left)


def _sleep(ctx: Context, timeout_s: float) -> list[str]:
    """Blocks until a running run has ended, or the record has changed where none runs; returns the ended ones."""
    seen = ctx.store.seq()
    # Without those that cannot be looked at, whose end cannot be slept on: `scan` names them.
    running = {run.id: run for run in _running(ctx) if _can_be_waited_for(ctx, run)}
    schedulers: dict[str, list[RunRow]] = {}
    for run in running.values():
        schedulers.setdefault(str(run.body["scheduler"]), []).append(run)
    deadline = time.monotonic() + timeout_s
    try:
        while schedulers:
            # Of several schedulers each is waited on in turn: none can sleep on what another one started.
            for runs in schedulers.values():
                left_s = max(0.0, deadline - time.monotonic())
                turn_s = left_s if len(schedulers) == 1 else min(left_s, _TURN_S)
                folders = [(run.body["native_id"], RunRecords(ctx).log_dir(run.id)) for run in runs]
                over = scheduler_for(ctx, runs[0]).wait_any(folders, turn_s)
                if over:
                    return [runs[place].id for place in over]
            if time.monotonic() >= deadline:
                return []
    except (CorruptData, TransientError, PluginError, *HOSTILE):  # spoilt just now: the next look leaves it out
        pass
    ctx.store.wait(seen, max(0.0, min(deadline - time.monotonic(), SWEEP_S)))
    return []


def _running(ctx: Context) -> list[RunRow]:
    return [run for run in RunRecords(ctx).live() if run.body["status"] == "running"]


def _can_be_waited_for(ctx: Context, run: RunRow) -> bool:
    try:
        return sight(ctx, run).elsewhere is None
    except (CorruptData, TransientError, PluginError, *HOSTILE):
        return False


def named(ctx: Context, ids: Sequence[str]) -> list[RunRow]:
    """Returns the runs that these ids name, each once.

    A run itself, an experiment's newest attempt of each replicate.
    """
    found: dict[str, RunRow] = {}
    for kind, id in [_subject(ctx, id) for id in ids]:
        if kind == "run":
            found[id] = ctx.need(RUN, id)
            continue
        newest = {run.body["replicate"]: run for run in ctx.store.find(RUN, experiment_id=id)}
        found |= {run.id: run for run in newest.values()}
    return [*found.values()]


def wait_any(ctx: Context, timeout_s: float) -> bool:
    """Blocks until one of the live runs has ended; returns False if none is live, or `timeout_s` is over."""
    is_any = any(run.body["status"] == "running" or run.body.get("pending") for run in RunRecords(ctx).live())
    return is_any and bool(_sleep(ctx, timeout_s))


def _subject(ctx: Context, id: str) -> tuple[str, str]:
    kind = {"r": "run", "e": "experiment"}.get(identifier(id)[:1])
    if kind is None:
        hint = ctx.shown_by(id) or "r40 or e12"
        raise NotFound(f"{id} is neither a run nor an experiment", hint=hint)
    return kind, ctx.need(kind, id).id


def _live_runs(ctx: Context, subject: tuple[str, str]) -> list[RunRow]:
    kind, id = subject
    if kind == "run":
        run = ctx.need(RUN, id)
        return [run] if run.body["status"] in LIVE else []
    return [run for run in ctx.store.find(RUN, experiment_id=id) if run.body["status"] in LIVE]
