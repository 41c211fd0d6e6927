"""Departments with their crossing deeds attached: what `lab.runs.launch(...)` and its like are.

A department alone does not know the others; the doors are connected by `Lab` and hand such a deed to its flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.errors import UsageError, unknown
from perpetual.lab import tokens as _tokens
from perpetual.lab.context import Context
from perpetual.lab.evidence import EvidenceLedger
from perpetual.lab.experiments import Experiments
from perpetual.lab.flows import Desks
from perpetual.lab.flows import audit as _audit
from perpetual.lab.flows import captures as _captures
from perpetual.lab.flows import fold as _fold
from perpetual.lab.flows import history as _history
from perpetual.lab.flows import judge as _judge
from perpetual.lab.flows import launch as _launch
from perpetual.lab.flows import likeness as _likeness
from perpetual.lab.flows import logs as _logs
from perpetual.lab.flows import measure as _measure
from perpetual.lab.flows import pick as _pick
from perpetual.lab.flows import propose as _propose
from perpetual.lab.flows import reconcile as _reconcile
from perpetual.lab.flows import start as _start
from perpetual.lab.flows import steps as _steps
from perpetual.lab.flows import symptoms as _symptoms
from perpetual.lab.flows import wait as _wait
from perpetual.lab.flows.analyse import analyse as _analyse
from perpetual.lab.flows.code_check import CodeCheck
from perpetual.lab.flows.rebaseline import rebaseline as _rebaseline
from perpetual.lab.hypotheses import Hypotheses
from perpetual.lab.redaction import shown_record
from perpetual.lab.rights import for_agent, is_agent, person_only, withholds
from perpetual.lab.rules import by_rules, forget
from perpetual.lab.runs import QUEUE_STATES, RunLedger
from perpetual.lab.settings import Settings
from perpetual.lab.specification import Specification
from perpetual.lab.storage import Storage
from perpetual.records import Evidence, Experiment, Hypothesis, Listing, Run, from_json
from perpetual.schema import Item
from perpetual.toolkit.readers import agent_hint
from perpetual.toolkit.units import identifier, start_of

if TYPE_CHECKING:
    from perpetual.lab.flows.adopt import Item as Adopted
    from perpetual.slots.analyser import MetricValue

__all__ = [
    "AdoptionDoor",
    "EvidenceDoor",
    "ExperimentsDoor",
    "HypothesesDoor",
    "LoopDoor",
    "QueueDoor",
    "RunsDoor",
    "SettingsDoor",
    "StorageDoor",
    "by_rules",
]


_DECIDING = (
    "confidence_support_threshold",
    "confidence_refute_threshold",
    "min_replicates",
    "require_confirmation",
    "alpha",
)


class _Connected:
    _desks: Desks

    def connect(self, desks: Desks) -> None:
        """Called once, by `Lab`."""
        self._desks = desks


class HypothesesDoor(_Connected, Hypotheses):
    """`lab.hypotheses`."""

    def update(self, id: str, **changes: Any) -> Hypothesis:
        """See `perpetual.lab.flows.judge.update`: statement, prior, confidence, status, tags, why."""
        return _judge.update(self._desks, id, **changes)


class ExperimentsDoor(_Connected, Experiments):
    """`lab.experiments`."""

    def propose(
        self,
        hypothesis_id: str | None = None,
        *,
        idempotency_key: str | None = None,
        dry_run: bool = False,
        **specification: Any,
    ) -> Experiment:
        """A new proposed experiment; the other arguments are those of `perpetual.lab.specification.Specification`.

        See `perpetual.lab.flows.propose.propose` for what it raises.
        """
        spec = Specification(**specification)
        return _propose.propose(self._desks, hypothesis_id, spec, idempotency_key=idempotency_key, dry_run=dry_run)

    def propose_auto(
        self, count: int, *, dry_run: bool = False, idempotency_key: str | None = None
    ) -> list[_pick.Pick]:
        """The `count` replicates that are most worth their cost now, new experiments among them, each explained."""
        return _pick.pick(self._desks, count, dry_run=dry_run, idempotency_key=idempotency_key)

    def rebaseline(self, id: str, **options: Any) -> Experiment:
        """A baseline proposed anew under today's code: see `perpetual.lab.flows.rebaseline.rebaseline`."""
        return _rebaseline(self._desks, id, **options)

    def approve(self, id: str) -> Experiment:
        """Binds the specification; for a person (a guard rail, see `perpetual.lab.rights`)."""
        return self.approve_all([id])[0]

    def approve_all(self, ids: Sequence[str], *, allowed: bool = False) -> list[Experiment]:
        """Approves each, or none of them if one cannot be.

        Args:
            allowed: a person has let this agent approve, as by `perpetual mcp --allow-approve`.
        """
        if not allowed:
            person_only(self._desks.ctx, "approve")
        ctx = self._desks.ctx
        ctx.trust.require("approving")
        wanted = [*dict.fromkeys(map(identifier, ids))]
        check = CodeCheck(self._desks)
        codes = check.states_of(wanted)
        again = {id for id in wanted if check.is_other(ctx.need("experiment", id))}
        with ctx.store.transaction():
            approved = [self.bind(id, code=codes.get(id), again=id in again) for id in wanted]
        ctx.trust.note(ctx.store.seq())
        return approved

    def differences(self, id: str) -> dict[str, Any] | None:
        """See `perpetual.lab.flows.likeness.differences`: what is new in it beside what was approved like it."""
        return _likeness.differences(self._desks, id)

    def approval_token(self) -> dict[str, str]:
        """Makes the one-time token that lets one MCP server approve; see `perpetual.lab.tokens.issue`."""
        return _tokens.issue(self._desks.ctx)

    def redeem(self, token: str | None) -> None:
        """Uses such a token up, or raises; see `perpetual.lab.tokens.redeem`."""
        _tokens.redeem(self._desks.ctx, token)

    def reject(self, id: str, why: str) -> Experiment:
        """Says no to an experiment that has not run; an agent takes back its own proposals alone (`withdraw`)."""
        if withholds(self._desks.ctx):
            return self.withdraw(id, why=why)
        return super().reject(id, why)

    def reject_all(self, ids: Sequence[str], why: str) -> list[Experiment]:
        """Rejects each for the same reason, or none of them if one cannot be."""
        with self._desks.ctx.store.transaction():
            return [self.reject(id, why) for id in dict.fromkeys(map(identifier, ids))]


class RunsDoor(_Connected, RunLedger):
    """`lab.runs`."""

    def launch(self, experiment_id: str, **options: Any) -> list[Run]:
        """See `perpetual.lab.flows.launch.launch`: command, every, seed, gpus, idempotency_key.

        What has ended is recorded first, and what waits goes first.
        """
        self._desks.ctx.trust.require(f"running {experiment_id}")
        _reconcile.catch_up(self._desks)
        return _launch.launch(self._desks, experiment_id, **options)

    def plan(self, experiment_id: str, **options: Any) -> dict[str, Any]:
        """What `launch` would do with the same options, or why not, without doing it."""
        return _launch.plan(self._desks, experiment_id, **options)

    def retry(self, run_id: str, *, idempotency_key: str | None = None) -> Run:
        """A new attempt of a run that ended without a result, with the same seed."""
        self._desks.ctx.trust.require(f"retrying {run_id}")
        _reconcile.catch_up(self._desks)
        return _launch.retry(self._desks, run_id, idempotency_key=idempotency_key)

    def plan_retry(self, run_id: str) -> dict[str, Any]:
        """What `retry` would do, or why not, without doing it."""
        return _launch.plan_retry(self._desks, run_id)

    def named(self, ids: Sequence[str]) -> list[Run]:
        """The runs that ids of runs and experiments name; of an experiment the newest attempt of each replicate."""
        return [from_json(Run, shown_record("run", run.body)) for run in _wait.named(self._desks, ids)]

    def look(self, run_id: str) -> tuple[str, str | None]:
        """A run's status and reason as its supervisor has them now; nothing is recorded."""
        return _reconcile.look(self._desks, run_id)

    def hints(self, run: Run) -> list[str]:
        """Returns ways out of what a run's annotations name, one for each kind that has one."""
        return _symptoms.hints(self._desks, run)

    def provenance(self, run_id: str) -> dict[str, Any]:
        """What a run was started from, as its `provenance.json` has it; see `perpetual.lab.flows.captures`."""
        return _captures.provenance(self._desks, run_id)

    def read_metrics(self, run_id: str) -> dict[str, MetricValue]:
        """What the metric readers find of a run now; see `perpetual.lab.flows.measure.read_again`."""
        return _measure.read_again(self._desks, run_id)

    def logs(self, run_id: str, **options: Any) -> dict[str, Any]:
        """See `perpetual.lab.flows.logs.logs`: stderr, tail."""
        return _logs.logs(self._desks, run_id, **options)

    def stream(self, run_id: str, **options: Any) -> Iterator[str]:
        """See `perpetual.lab.flows.logs.stream`: stderr, tail, follow."""
        return _logs.stream(self._desks, run_id, **options)

    def kill(self, run_id: str, *, grace_s: float | None = None) -> Run:
        """Ends a run and its whole process tree, and records it."""
        return from_json(Run, _reconcile.kill(self._desks, run_id, grace_s=grace_s).body)


class EvidenceDoor(_Connected, EvidenceLedger):
    """`lab.evidence`."""

    def add(
        self,
        hypothesis_id: str,
        *,
        verdict: str,
        why: str,
        strength: float = 1.0,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Evidence:
        """An opinion, bounded: see `perpetual.lab.flows.judge.judge`."""
        return _judge.judge(self._desks, hypothesis_id, verdict=verdict, strength=strength, why=why, run_id=run_id,
                            idempotency_key=idempotency_key)  # fmt: skip

    def retract(self, evidence_id: str, *, why: str) -> Evidence:
        """Takes a row back by a new row."""
        return _judge.retract(self._desks, evidence_id, why=why)

    def refold(self, *, check: bool = False) -> list[dict[str, Any]]:
        """Folds every hypothesis anew; answers those whose stored fold differed."""
        trust = self._desks.ctx.trust
        with trust.lifted() if check else nullcontext():  # a check locks the store, and writes nothing
            return _judge.refold_all(self._desks, check=check)

    def effects(self, hypothesis_id: str) -> dict[str, dict[str, Any]]:
        """What each design of a hypothesis measured, with its interval, by the experiment whose prediction holds."""
        return _fold.effects_of(self._desks, self._desks.ctx.need("hypothesis", hypothesis_id).id)

    def history(self, *, until: int | None = None, last: int = 100) -> dict[str, list[dict[str, Any]]]:
        """What the ledger said of each hypothesis, step by step; see `perpetual.lab.flows.history.history`."""
        return _history.history(self._desks, until=until, last=last)


class SettingsDoor(_Connected, Settings):
    """`lab.settings`."""

    moved: Sequence[dict[str, Any]] = ()  # hypotheses that the last setting moved, as `evidence.refold` answers them

    def set_methodology(self, name: str, text: str) -> Item:
        """Writes one key; where it says when a hypothesis is decided, every fold is made anew."""
        return self._refolded(super().set_methodology(name, text))

    def unset_methodology(self, name: str) -> Item:
        """Takes one key out of the file; where it says when a hypothesis is decided, every fold is made anew."""
        return self._refolded(super().unset_methodology(name))

    def _refolded(self, item: Item) -> Item:
        self.moved = _judge.refold_all(self._desks) if item.key in _DECIDING else []
        return item


class StorageDoor(_Connected, Storage):
    """`lab.storage`."""

    def verify(self) -> list[str]:
        """See `perpetual.lab.flows.audit.examine`: what is wrong with the record, each a sentence."""
        with self._desks.ctx.trust.lifted():  # it locks the store, and writes nothing
            problems = _audit.examine(self._desks)
        return [str(agent_hint(problem)) for problem in problems] if withholds(self._desks.ctx) else problems

    def import_file(self, path: str | Path, *, dry_run: bool = False) -> dict[str, Any]:
        """See `perpetual.lab.storage.Storage.import_file`; older folds are made anew when opened."""
        answer = super().import_file(path, dry_run=dry_run)
        if not dry_run:
            forget(self._desks.ctx.folder)
        return answer


class QueueDoor:
    """`lab.queue`."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def state(self) -> str:
        """`running`, `paused` or `draining`."""
        return self._desks.runs.queue_state()

    def waiting(self, *, limit: int = 100, cursor: str | None = None) -> Listing[Run]:
        """A page of the runs that wait, in the order in which they will be started."""
        runs = [from_json(Run, shown_record("run", run.body)) for run in _start.waiting(self._desks)]
        start = start_of(cursor)
        return Listing(tuple(runs[start : start + limit]), str(start + limit) if len(runs) > start + limit else None)

    def places(self, runs: Sequence[Run], *, before: int = 0) -> list[dict[str, Any]]:
        """Where each of a page's runs stands, and what it waits for as it was when somebody last looked (`scan`).

        Args:
            runs: what `waiting` has answered.
            before: how many runs stand before the page.

        Returns:
            `{run_id, position, priority, score, waits_for}` each; runs of one priority start by score, then by age.
        """
        experiments = {run.experiment_id: self._desks.experiments.get(run.experiment_id) for run in runs}
        return [
            {
                "run_id": run.id,
                "position": position,
                "priority": experiments[run.experiment_id].priority,
                "score": experiments[run.experiment_id].score.score,
                "waits_for": run.reason,
            }
            for position, run in enumerate(runs, before + 1)
        ]

    def set_state(self, state: str) -> str:
        """Pauses, drains or resumes the queue.

        Raises:
            UsageError: for an unknown state.
            NotPermitted: where an agent would lift what a person has set; its own pause it lifts.
        """
        if state not in QUEUE_STATES:
            raise UsageError(unknown("state of the queue", state, QUEUE_STATES))
        ctx = self._desks.ctx
        ctx.trust.require("changing the queue")
        with ctx.store.transaction() as tx:
            before, by = self._desks.runs.queue_set()
            if before != state and before != "running" and not is_agent(by):
                person_only(ctx, f"changing a queue that a person has set to {before}")
            if before != state or (is_agent(by) and not for_agent(ctx)):  # a person may repeat what an agent set
                tx.put("setting", "queue", {"state": state, "by": ctx.actor})
            if before != state:
                ctx.emit(tx, "queue_changed", "queue", {"state": state})
        return state


class LoopDoor:
    """`lab.loop`: the steps that the autonomous loop is made of; each may be repeated without harm."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def analyse(self) -> list[str]:
        """Has finished runs put into words and verdicts noted; answers the ids of the runs."""
        return _analyse(self._desks)

    def propose(self) -> list[str]:
        """Asks the proposers while there is room for proposals; answers the new experiments' ids."""
        return _steps.propose(self._desks)

    def approve(self) -> list[str]:
        """Approves what the methodology lets the loop approve; answers the ids."""
        return _steps.approve(self._desks)

    def launch(self) -> _steps.Launches:
        """Starts the replicates that are most worth their cost, while there is room."""
        return _steps.launch(self._desks)

    def halt_reason(self) -> tuple[str, str] | None:
        """Why nothing more should be launched, as (reason, explanation), or None."""
        return _steps.halt_reason(self._desks)

    def stop_reason(self, launches: _steps.Launches) -> tuple[str, str] | None:
        """Why the loop should stop now, as (reason, explanation), or None."""
        return _steps.stop_reason(self._desks, launches)

    def stopped(self, reason: str, cycles: int) -> None:
        """Notes in the feed that the loop stopped."""
        ctx = self._desks.ctx
        with ctx.store.transaction() as tx:
            ctx.emit(tx, "loop_stopped", "loop", {"reason": reason, "cycles": cycles})

    def wait_any(self, timeout_s: float) -> bool:
        """Waits until one of the live runs has ended; False if the time was over before."""
        return _wait.wait_any(self._desks, timeout_s)


class AdoptionDoor:
    """`lab.adoption`: earlier work, which a plugin reads from another tool's files."""

    def __init__(self, desks: Desks, make: Callable[[Context], Any]) -> None:
        self._desks, self._make = desks, make

    def take(self, items: Iterable[Adopted], *, kind: str, source: str, **options: Any) -> dict[str, Any]:
        """Takes it into the record in the name `adopt:<kind>`; see `perpetual.lab.flows.adopt.adopt`.

        An agent that adopts stays one, in the name `agent:adopt:<kind>`: files that say something are its word for it.
        """
        from perpetual.lab.flows.adopt import adopt

        name = f"agent:adopt:{kind}" if is_agent(self._desks.ctx.actor) else f"adopt:{kind}"
        other = self._make(self._desks.ctx.acting_as(name))
        return adopt(other.desks, items, kind=kind, source=source, by=self._desks.ctx.actor, **options)

    def id_of(self, kind: str, key: str) -> str | None:
        """The id that a record of that source has here, or None."""
        from perpetual.lab.flows.adopt import adopted_id

        return adopted_id(self._desks, kind, key)
