"""Floor 2. `Lab` is the facade: command line, MCP, loop and Python call it, one method per operation.

    with Lab.open() as lab:
        h = lab.hypotheses.add("warm-up lowers val_loss", metric="val_loss", direction="min", mde=0.05, baseline=2.31)
        e = lab.experiments.propose(h.id, command="python train.py --warmup 500", replicates=3)
        lab.experiments.approve(e.id)
        run = lab.runs.launch(e.id)[0]
        lab.wait([run.id], timeout_s=600)
        print(lab.hypotheses.get(h.id).confidence)

Answers are records; errors are `perpetual.errors.*`. Safe in threads; a context manager.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perpetual.config import MARKS, find_project
from perpetual.errors import PluginError
from perpetual.lab.config import LabConfig
from perpetual.lab.context import Clock, Context, utc_now
from perpetual.lab.evidence_rules import by_rules
from perpetual.lab.permissions import actor_name, is_agent
from perpetual.lab.trust import VARIABLE
from perpetual.registry import Registry
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.reserved import is_bundled

if TYPE_CHECKING:
    from perpetual.catalogue import Offer
    from perpetual.documents.ledger import Undone
    from perpetual.documents.machine import DoctorCheck
    from perpetual.documents.runs import Scanned
    from perpetual.documents.status import LabStatus, SectionNow
    from perpetual.lab.budget import Budget
    from perpetual.lab.events import Feed
    from perpetual.lab.evidence import EvidenceLedger
    from perpetual.lab.experiments import Experiments
    from perpetual.lab.hypotheses import Hypotheses
    from perpetual.lab.imports import Imports
    from perpetual.lab.loop import Loop
    from perpetual.lab.memory import Notes
    from perpetual.lab.plugin_listing import Inventory
    from perpetual.lab.proposals import Proposals
    from perpetual.lab.queue import Queue
    from perpetual.lab.records import Records
    from perpetual.lab.runs import Runs
    from perpetual.lab.services import Services
    from perpetual.lab.settings import Settings
    from perpetual.lab.status import Status
    from perpetual.lab.storage import Storage
    from perpetual.lab.trust_review import TrustReview
    from perpetual.records import Event
    from perpetual.slots.scaffolder import ScaffoldAnswer

__all__ = ["Lab"]


class _Undone(Exception):
    """Ends a rehearsal's transaction."""


class Lab(AbstractContextManager["Lab"]):
    """One project's lab, in the folder `root`, acting in the name of `actor`. Use `Lab.open` or `Lab.init`.

    Use it in a `with` block, or call `close`.
    """

    def __init__(self, ctx: Context) -> None:
        self.context = ctx
        self.config, self.registry, self.root, self.actor = ctx.config, ctx.registry, ctx.config.root, ctx.actor

    # Each component is imported and made when it is first asked for: a command pays for what it uses.

    @cached_property
    def budget(self) -> Budget:
        """Returns the budget: what was spent, and the limit."""
        from perpetual.lab.budget import Budget

        return Budget(self.context)

    @cached_property
    def memory(self) -> Notes:
        """Notes, behind the gates."""
        from perpetual.lab.memory import Notes

        notes = self.context.cached(Notes)
        notes.lab = self
        return notes

    @cached_property
    def hypotheses(self) -> Hypotheses:
        """Claims and their confidence."""
        from perpetual.lab.hypotheses import Hypotheses

        return Hypotheses(self.context)

    @cached_property
    def experiments(self) -> Experiments:
        """Proposals, approvals and designs."""
        from perpetual.lab.experiments import Experiments

        return Experiments(self.context)

    @cached_property
    def runs(self) -> Runs:
        """Runs: started, watched, ended."""
        from perpetual.lab.runs import Runs

        return Runs(self.context)

    @cached_property
    def evidence(self) -> EvidenceLedger:
        """Returns the ledger of evidence."""
        from perpetual.lab.evidence import EvidenceLedger

        return EvidenceLedger(self.context)

    @cached_property
    def storage(self) -> Storage:
        """Returns the store as a whole: verified, exported, moved."""
        from perpetual.lab.storage import Storage

        return Storage(self.context)

    @cached_property
    def settings(self) -> Settings:
        """Returns the keys of configuration and methodology."""
        from perpetual.lab.settings import Settings

        return Settings(self.context)

    @cached_property
    def proposals(self) -> Proposals:
        """Candidates, and what the scorer says of them."""
        from perpetual.lab.proposals import Proposals

        return self.context.cached(Proposals)

    @cached_property
    def feed(self) -> Feed:
        """Returns the feed of events."""
        from perpetual.lab.events import Feed

        feed = Feed(self.context)
        feed.lab = self  # for observers that ask for it
        return feed

    @cached_property
    def queue(self) -> Queue:
        """Returns the runs that wait."""
        from perpetual.lab.queue import Queue

        return Queue(self.context)

    @cached_property
    def loop(self) -> Loop:
        """Returns the steps of the autonomous loop."""
        from perpetual.lab.loop import Loop

        return Loop(self.context, self, lambda: self._ask_bundled("perpetual_analysed"))

    @cached_property
    def imports(self) -> Imports:
        """Returns foreign work, which a plugin reads from another tool's files."""
        from perpetual.lab.imports import Imports

        return Imports(self.context, self)

    @cached_property
    def trust(self) -> TrustReview:
        """Returns what of this project its user accepts."""
        from perpetual.lab.trust_review import TrustReview

        return TrustReview(self.context, self.feed)

    @cached_property
    def records(self) -> Records:
        """Records of the kinds that plugins bring."""
        from perpetual.lab.records import Records

        return Records(self.context)

    @cached_property
    def services(self) -> Services:
        """Returns what plugins keep running; raises PluginError where no host of services is in force."""
        from perpetual.lab.permissions import person_only

        if "service_host" not in self.registry.slots:
            why = "services cannot be reached: no host of services is in force"
            raise PluginError(why, hint="perpetual plugins list")
        found: Services = self.part("service_host").services(self, partial(person_only, self.context))
        return found

    @cached_property
    def _status(self) -> Status:
        from perpetual.lab.plugin_sections import offered_notes, status_sections
        from perpetual.lab.status import Status

        sections, notes = partial(status_sections, self), partial(offered_notes, self)
        return Status(self.context, self.budget, sections, self.progress, notes)

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        actor: str | None = None,
        safe: bool = False,
        registry: Registry | None = None,
        clock: Clock = utc_now,
    ) -> Lab:
        """Opens the project at `path`, or the nearest one above the working directory.

        Args:
            actor: the name that records carry; None is the user's, or the agent's whose shell it is, where no person's
                name is taken.
            safe: loads bundled plugins only.
            registry: the plugins to use; None finds those that are installed.
            clock: returns the present time, in UTC.

        Raises:
            NoProject: if there is none.
            ForeignProject: if it is another tool's or a newer version's.
            ConfigError: if one of its files does not fit.
        """
        config = LabConfig(find_project(explicit=str(path) if path is not None else None))
        plugins = registry or Registry.of(config, safe=safe)
        shell = actor_name(config[MARKS])
        name = shell if actor is None or (is_agent(shell) and not is_agent(actor)) else actor
        lab = cls(Context(config, plugins, actor=name, clock=clock))
        if os.environ.get(VARIABLE):
            lab.trust.from_environment()
        by_rules(lab.context)
        return lab

    @classmethod
    def init(
        cls,
        path: str | Path = ".",
        *,
        name: str | None = None,
        store: str | None = None,
        budget_gpu_hours: float | None = None,
        methodology: Mapping[str, object] | None = None,
        project_id: str | None = None,
        set_aside: str | None = None,
        actor: str | None = None,
        safe: bool = False,
        registry: Registry | None = None,
        clock: Clock = utc_now,
    ) -> Lab:
        """Creates a project in the folder `path` and opens it; an existing one is opened as it is.

        Args:
            name: the project's name, by default the folder's.
            store: what its record is kept in, by its provider's name.
            budget_gpu_hours: the limit of a new project.
            methodology: keys that methodology.yaml starts with.
            project_id: the id that every seed derives from; by default a new one.
            set_aside: the name that another tool's `.perpetual/` gets if there is one.
            actor, safe, registry, clock: as `open` takes them.
        """
        from perpetual.lab.create import create

        root = named_path(path)
        made = create(root, name=name, store=store, methodology=methodology, project_id=project_id, set_aside=set_aside)
        lab = cls.open(root, actor=actor, safe=safe, registry=registry, clock=clock)
        lab.feed.begin(lab.config.project_id, lab.config["project"])
        if made and budget_gpu_hours is not None:
            lab.budget.begin(budget_gpu_hours)
        return lab

    @contextmanager
    def together(self, *, undo: bool = False) -> Iterator[None]:
        """Records all that the block records or, if it raises, nothing; with `undo` never anything: a rehearsal."""
        with suppress(_Undone), self.context.store.transaction():
            yield
            if undo:
                raise _Undone

    def scan(self, *, analyse: bool = True, first: Collection[str] = ()) -> Scanned:
        """Records what has happened to the runs, then analyses them, starts runs that wait, and writes notes to git.

        Args:
            analyse: False leaves analyses and notes to a later call, as the methodology's `auto_analyze` may.
            first: ids of runs to look at before the others, since a caller waits for them.

        Returns:
            `{changes: [{run_id, experiment_id, from, to, reason}], debits, evidence, problems: [{run_id, code,
            message}], elsewhere: [{run_id, where}]}`; `elsewhere` only where there is one. A run that cannot be looked
            at stays as it is and holds up no other.
        """
        from perpetual.lab.runs import reconcile

        self._ask_bundled("perpetual_scan")
        answer = reconcile.record(self.context, self.feed.deliver, analyse=analyse, first=first)
        if analyse and self.config.methodology["auto_analyze"]:
            self._ask_bundled("perpetual_analysed")
        self.feed.deliver()
        return answer

    def _ask_bundled(self, hook: str) -> None:
        if not self.context.trust.is_held:
            for name in filter(is_bundled, self.registry.implementers(hook)):
                self.registry.ask(name, hook, lab=self)

    def wait(
        self, ids: Sequence[str], *, timeout_s: float | None = None, say: Callable[[str], None] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> dict[str, str]:  # fmt: skip
        """Blocks until every named run has ended and no named experiment has a live run; returns `{id: status}`.

        Args:
            ids: ids of runs and experiments.
            timeout_s: seconds after which the statuses of then are returned; None waits on.
            say: called with what keeps a run from being looked at, each message once.
            tick: called after each look at the runs: about once a second, and when one has ended.

        Raises:
            NotFound: for an id that is neither.
            CorruptData: for a run whose end cannot be known any longer.
            UnknownPlugin: for a run whose scheduler is not installed.
            NotPermitted: where all of them wait for a person to approve changed code.
        """
        from perpetual.lab.runs import wait

        return wait.wait(self.context, lambda first: self.scan(first=first), ids, timeout_s=timeout_s, say=say,
                         tick=tick)  # fmt: skip

    def status(self) -> LabStatus:
        """Returns where the lab stands: the document of `perpetual status`; a run that is over is not said to run."""
        from perpetual.toolkit.status_file import has_stopped

        found = self._status.document()
        if any(has_stopped(str(self.context.folder), run["id"]) for run in found["runs"]["active"]):
            from perpetual.lab.runs.reconcile import as_seen

            for run in found["runs"]["active"]:
                run["status"], run["reason"] = as_seen(self.context, run["id"], run["status"], run["reason"])
        if live := self.live_sections():
            found["sections"] = {**found.get("sections", {}), **live}
        return found

    def live_sections(self) -> dict[str, SectionNow]:
        """Returns sections of what goes on outside of the record now, by name, such as ad-hoc runs."""
        from perpetual.lab.plugin_sections import status_sections

        return status_sections(self, live=True)

    def progress(self, run_ids: Sequence[str]) -> dict[str, dict[str, object]]:
        """Returns how far live runs are, by run: step, metrics, speed, seconds left; of others nothing."""
        from perpetual.lab.plugin_sections import progress_of

        return progress_of(self, run_ids)

    def brief(self, tokens: int = 800, *, of: LabStatus | None = None) -> str:
        """Returns the status as text for an agent, in at most `tokens` tokens; `of` is a status to use instead."""
        from perpetual.brief import render

        return render(self.status() if of is None else of, tokens)

    def events(self, *, since: int = 0, limit: int | None = None) -> list[Event]:
        """Returns the feed's events with a seq above `since`, in order, at most `limit` (None: all)."""
        return self.feed.read(since=since, limit=limit)

    def options(self, plugin: str) -> dict[str, object]:
        """Returns the options in force of a plugin itself, which it names by `perpetual_options`; {} if it has none.

        Raises:
            NotFound: if no such plugin is loaded.
            ConfigError: for a key that it does not have, or a value that does not fit.
        """
        return self.context.options.of_plugin(plugin)

    def options_of(self, offer: Offer) -> dict[str, object]:
        """Returns the options in force of a provider; raises ConfigError as `options` does."""
        return self.context.options.of(offer)

    def scaffold(
        self,
        names: Sequence[str] = (),
        *,
        remove: Sequence[str] = (),
        command: Sequence[str] | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> ScaffoldAnswer:
        """Registers the lab with coding agents, by writing their files.

        Args:
            names: harnesses; none named are those that the project chose, and with `remove` given none at all.
            remove: harnesses whose files are taken out; `all` means those of the last calls.
            command: how agents start Perpetual.
            dry_run: writes nothing and gives each file its `diff`.
            force: replaces and removes generated files that a person edited.

        Raises:
            UsageError: for a name in both lists, or one that is not offered.
            CorruptData: if what stood there before cannot be read.
        """
        from perpetual.lab.scaffolding import scaffold

        if not dry_run:
            self.trust.require("writing files for agents")
        record = self.context.trust.record
        accepted = () if record is None else record.scaffold or ()
        answer = scaffold(
            self.config,
            self.registry,
            names,
            remove=remove,
            command=command,
            accepted=accepted,
            dry_run=dry_run,
            force=force,
        )
        words = tuple(answer["command"])
        record = self.context.trust.record
        if not dry_run and record is not None and record.scaffold != words:
            self.context.trust.change(lambda found: replace(found, scaffold=words))
        return answer

    def undo(self, *, dry_run: bool = False) -> Undone:
        """Takes back the caller's own last deed that can be: what was added, proposed, approved, edited, set or hidden.

        Called again, it takes back the one before; an undo itself is taken back by doing the deed again. Nothing is
        deleted. A `dry_run` only says what it would be.

        Raises:
            Conflict: (nothing_to_undo) where there is none; (built_on) for a deed that others have built on.
        """
        from perpetual.lab.undo import undo

        return undo(self.context, dry_run=dry_run)

    def doctor(self) -> list[DoctorCheck]:
        """Checks the machine and the project; returns the findings, each `{check, ok, detail, hint}`."""
        from perpetual.lab.doctor import Doctor
        from perpetual.lab.plugin_sections import plugin_checks
        from perpetual.lab.scaffolding import examine

        found = Doctor(self.context, self.feed).examine(plugin_checks(self))
        # Asking an agent's program about a held project would have it read what the project says.
        return found if self.context.trust.is_held else [*found, *examine(self.config, self.registry)]

    def inventory(self) -> Inventory:
        """Returns what this lab is made of: plugins with their state, and the machine's devices."""
        from perpetual.lab.plugin_listing import Inventory

        return Inventory(self.config, self.registry, self.context)

    def part(self, slot: str) -> Any:
        """Returns the provider in force for a slot of which one serves; see `perpetual.slots.table`.

        Raises:
            UsageError: for a slot in which several serve, for one that there is not, and for the store.
            PluginError: if the provider cannot be chosen or built.
        """
        return self.context.part(slot)

    def parts(self, slot: str) -> list[tuple[str, Any]]:
        """Returns every provider that serves in a slot as (qualified name, object), in order."""
        return self.context.parts(slot)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Joins what is written inside the block: all of it is recorded at the block's end, or none of it.

        Other writers wait meanwhile, so nothing slow belongs inside. What starts or ends a process does not belong
        there either: that is no part of the record.
        """
        with self.context.store.transaction():
            yield

    def close(self) -> None:
        """Closes the store. Runs go on."""
        self.context.close()

    def __exit__(self, *_: object) -> None:
        self.close()
