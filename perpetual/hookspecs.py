"""The hooks: how a plugin says what it offers. Floor 1; a plugin author reads this file and `perpetual.api`.

A plugin is a module (or object) named by an entry point of the group `perpetual.plugins`. It implements any of the
hooks below with `@hookimpl`. Its top imports nothing heavy: a hook answers `Provider` records that name a factory
as text, and the factory's module is imported only when the kernel has chosen it.

    from perpetual.api import Provider, hookimpl

    @hookimpl
    def perpetual_scorers() -> list[Provider]:
        return [Provider(slot="scorer", name="coin", factory="acme_coin.scorer:build", summary="tosses a coin")]

Calling order. Discovery asks every plugin once, one plugin at a time, each call guarded: a plugin that raises is
listed as failed with its reason, the others go on, and the failure is fatal only where the configuration chose or
the methodology requires what that plugin offers. Plugins of other distributions are imported and asked in a helper
process with a limit in time (`plugin_discovery_s`), and left out after three failures in a row.
No hook depends on the order in which plugins were registered.

Names. A bare name of a bundled part (`tinydb`, `immune`, `adopt`) means the bundled one, whatever else is installed. A
provider of another distribution that offers such a name is reached by its qualified name, `distribution/name`.
"""

# mypy: disable-error-code="empty-body"
# A specification has a signature and a docstring; pluggy never calls it.

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import pluggy

from perpetual.slots import Option, Provider
from perpetual.slots.kinds import EventKind, RecordKind
from perpetual.slots.table import Slot
from perpetual.toolkit.deprecation import warn_replaced

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.records.ledgers import Event

__all__ = ["GROUP", "REPLACED", "Replaced", "hookimpl", "hookspec", "plugin_manager"]

GROUP = "perpetual.plugins"

hookspec = pluggy.HookspecMarker("perpetual")
hookimpl = pluggy.HookimplMarker("perpetual")


class Replaced(NamedTuple):
    """The name that has replaced a hook's, since a version; the old one goes with `removal`."""

    hook: str
    since: str
    removal: str


# Old name -> what has replaced it: a plugin that implements the old one goes on as if it implemented the new one. An
# argument that is replaced stays in the specification: `@hookspec(warn_on_impl_args={NAME: WARNING})`.
REPLACED: dict[str, Replaced] = {}


class _Manager(pluggy.PluginManager):
    def parse_hookimpl_opts(self, plugin: object, name: str) -> pluggy.HookimplOpts | None:
        found = super().parse_hookimpl_opts(plugin, name)
        replaced = REPLACED.get(name)
        if found is not None and replaced is not None:
            warn_replaced(name, replaced.hook, since=replaced.since, removal=replaced.removal)
            found["specname"] = replaced.hook
        return found


def plugin_manager() -> pluggy.PluginManager:
    """Returns a manager that knows Perpetual's own hooks, those that were replaced included."""
    import perpetual.hookspecs

    manager = _Manager("perpetual")
    manager.add_hookspecs(perpetual.hookspecs)
    return manager


@hookspec
def perpetual_stores() -> list[Provider]:
    """Offers stores: where the record is kept.

    When: once, at discovery. Return: Providers with slot "store"; the configuration's `store` chooses one.
    Factory: `(options, *, path: Path) -> perpetual.api.StoreBase`. Set `head` so that `status` can stay fast.
    Failure: a failing factory ends the command; nothing is written anywhere else instead.

    Example::

        Provider(slot="store", name="tinydb", factory="perpetual_tinydb.store:open_store",
                 head="perpetual_tinydb.head:head")
    """


@hookspec
def perpetual_schedulers() -> list[Provider]:
    """Offers schedulers: engines that start, watch and end a run's process.

    When: once, at discovery. Return: Providers with slot "scheduler"; the experiment chooses one (`--scheduler`), else
    `scheduler` of the configuration. Factory: `(options) -> perpetual.api.Scheduler`. What the class says of itself:
    `engine_options` (that `--engine KEY=VALUE` takes), `inherits_env`, `passes_env`, `queues`, `places_gpus`, `batch`,
    `lost_is_final`. An engine with a queue says `pending` and its reason, and may override `launch_many`, `poll_many`
    and `fetch_logs`. Failure: a launch that raises leaves the run `failed` with the reason, its reservation released.

    Example::

        Provider(slot="scheduler", name="local", factory="perpetual_local.scheduler:build")

        class Slurm(Scheduler):
            queues = places_gpus = True
            batch = 500  # runs in one `launch_many`: an array
            engine_options = {"partition": Option("str", "short", "the queue", choices=("short", "long"))}
    """


@hookspec
def perpetual_gpu_backends() -> list[Provider]:
    """Offers GPU backends: which devices there are and how they fare.

    When: once, at discovery. Return: Providers with slot "gpus"; `gpus` chooses one.
    Factory: `(options) -> perpetual.api.GpuBackend`. Failure: no driver is not one: it is zero devices and a reason.

    Example::

        Provider(slot="gpus", name="nvml", factory="perpetual_nvml.devices:build")
    """


@hookspec
def perpetual_scorers() -> list[Provider]:
    """Offers scorers: which candidate is worth its cost.

    When: once, at discovery. Return: Providers with slot "scorer"; the methodology's `exploration_strategy` names
    one (`hypothesis_driven` is `information-gain`). Factory: `(options) -> perpetual.api.Scorer`.
    Failure: a raising scorer ends the proposal, nothing is launched.

    Example::

        Provider(slot="scorer", name="information-gain", factory="perpetual_scorers.information_gain:build")
    """


@hookspec
def perpetual_memories() -> list[Provider]:
    """Offers memories: where accepted notes are kept with their history.

    When: once, at discovery. Return: Providers with slot "memory"; `memory` chooses one.
    Factory: `(options, *, path: Path) -> perpetual.api.Memory`. Failure: the note stays in the store with its
    intent, and the commit is repeated later.

    Example::

        Provider(slot="memory", name="git", factory="perpetual_git.memory:open_memory")
    """


@hookspec
def perpetual_gates() -> list[Provider]:
    """Offers gates: what judges a note before anybody reads it.

    When: once, at discovery. Return: Providers with slot "gate"; every active one is asked, the most severe verdict
    wins. The methodology's `required_gates` names those without which no note is written at all. `redact` may replace
    spans by a redaction mark (`[redacted]`, `[redacted:RULE]`) and change nothing else.
    Factory: `(options) -> perpetual.api.Gate`. Failure: closed: a gate that raises counts as `reject`.
    A gate of another distribution is built and asked in a helper process; without an answer after `plugin_gate_s` the
    process is killed, which counts as `reject`.

    Example::

        Provider(slot="gate", name="immune", factory="perpetual_immune.gate:build")
    """


@hookspec
def perpetual_promotion_stages() -> list[Provider]:
    """Offers promotion stages: what decides by evidence whether a note is promoted, beside the gates that scan it.

    When: once, at discovery. Return: Providers with slot "promotion_stage"; every active one is asked, and the gravest
    decision counts. Factory: `(options) -> perpetual.api.PromotionStage`. Failure: a stage that raises counts as
    `wait`: the note stays as it is, and its error is in the answer.

    Example::

        Provider(slot="promotion_stage", name="replay", factory="perpetual_replay.stage:build")
    """


@hookspec
def perpetual_redactors() -> list[Provider]:
    """Offers redactors: what finds the secrets in all that is recorded and shown.

    When: once, at discovery. Return: Providers with slot "redactor"; `redactor` chooses one. A project's file alone
    chooses no other than the user's: see `perpetual trust`. Factory: `(options) -> perpetual.api.Redactor`.
    Failure: closed: without a redactor nothing is recorded, and of the record only what was checked before is shown.

    Example::

        Provider(slot="redactor", name="secrets", factory="perpetual_redaction.redactor:build")
    """


@hookspec
def perpetual_harnesses() -> list[Provider]:
    """Offers harnesses: coding agents whose configuration `perpetual init` can write.

    When: once, at discovery. Return: Providers with slot "harness", chosen by `init --harness NAME`.
    Factory: `(options) -> perpetual.api.Harness`. Failure: the other harnesses' files are still written.

    Example::

        Provider(slot="harness", name="claude-code", factory="perpetual_harnesses.template:claude_code")
    """


@hookspec
def perpetual_mcp_servers() -> list[Provider]:
    """Offers MCP servers: the lab for agents that speak the Model Context Protocol.

    When: once, at discovery. Return: Providers with slot "mcp"; `mcp` chooses one.
    Factory: `(options) -> perpetual.api.McpServer`. Failure: `perpetual mcp` ends with the reason on stderr.

    Example::

        Provider(slot="mcp", name="mcp", factory="perpetual_mcp.server:build")
    """


@hookspec
def perpetual_placements() -> list[Provider]:
    """Offers placements: which GPUs a run gets, and what it waits for.

    When: once, at discovery. Return: Providers with slot "placement"; `placement` chooses one. It reads the machine
    through the GPU backend in force, and the lab through a `perpetual.api.PlacementView`. A scheduler whose engine
    assigns GPUs offers its own (`Scheduler.placement`). Factory: `(options) -> perpetual.api.Placement`. Failure: where
    none can be built, runs that need GPUs are refused, and the others start.

    Example::

        Provider(slot="placement", name="gpus", factory="perpetual_gpus.placement:build")
    """


@hookspec
def perpetual_scaffolders() -> list[Provider]:
    """Offers scaffolders: what merges the files that harnesses ask for, and takes them out again.

    When: once, at discovery. Return: Providers with slot "scaffolder"; `scaffolder` chooses one. It sees the folder and
    the harnesses by a `perpetual.api.ScaffoldView`, also where there is no project yet. Factory:
    `(options) -> perpetual.api.Scaffolder`. Failure: `perpetual init` refuses to name a harness, and
    `perpetual init -H none` works.

    Example::

        Provider(slot="scaffolder", name="files", factory="perpetual_harnesses.files:build")
    """


@hookspec
def perpetual_captures() -> list[Provider]:
    """Offers captures: what a run is started from, and what has become of that when it ends.

    When: once, at discovery. Return: Providers with slot "capture"; all are asked in `order`, bundled ones before
    others. `before` answers facts for the run's provenance.json and may write files into the run's folder; `after`
    answers taints; `code_reader` reads the code that approval binds. Factory: `(options) -> perpetual.api.Capture`.
    Failure: noted beside the run, which starts all the same. Two things fail closed: protected paths that no capture
    compared taint the run, and an experiment whose approval is bound to code does not start while that code cannot be
    read.

    Example::

        Provider(slot="capture", name="dvc", factory="acme_dvc.capture:build", summary="hashes of DVC's data sets")
    """


@hookspec
def perpetual_metric_readers() -> list[Provider]:
    """Offers metric readers: how a finished run's numbers are found.

    When: once, at discovery. Return: Providers with slot "metric_reader"; all are asked in `order`, and for each
    metric the first that has it wins, bundled readers before others; a reader that differs from them is noted.
    Factory: `(options) -> perpetual.api.MetricReader`.
    Failure: noted beside the run (its annotations); the other readers are still asked.

    Example::

        Provider(slot="metric_reader", name="results-file", factory="perpetual_metrics.readers:results", order=10)
    """


@hookspec
def perpetual_analysers() -> list[Provider]:
    """Offers analysers: what a finished run means in words.

    When: once, at discovery. Return: Providers with slot "analyser", called in `order` for each finished run.
    Factory: `(options) -> perpetual.api.Analyser`. Its optional `symptoms` says why a run failed, from its output, and
    `hint` gives a way out. A symptom of kind `oom` allows the retry that `auto_retry` asks for.
    Failure: kept with the run's analysis or beside the run; evidence does not depend on it.

    Example::

        Provider(slot="analyser", name="rules", factory="perpetual_metrics.analyser:build")
    """


@hookspec
def perpetual_proposers() -> list[Provider]:
    """Offers proposers: where new experiments come from.

    When: once, at discovery. Return: Providers with slot "proposer", called in `order` when the loop has room.
    Factory: `(options) -> perpetual.api.Proposer`. Failure: named; the others are still asked.

    Example::

        Provider(slot="proposer", name="rules", factory="perpetual_metrics.proposer:build")
    """


@hookspec
def perpetual_commands() -> list[Provider]:
    """Offers commands of the `perpetual` program.

    When: once, at discovery. Return: Providers with slot "command": `name` is the command, `summary` its line in
    `--help`. A command named `GROUP.NAME`, where GROUP is one of Perpetual's own groups (`plugins`, `store`, `memory`),
    is its subcommand NAME: `perpetual GROUP NAME`. Factory: `module:attribute` naming a click command, imported when it
    is called. With `--json` a subcommand answers through `CliContext`; what it prints besides goes to standard error.
    Failure: a name of Perpetual's own or of a bundled command means that one; yours is then called by its full name,
    `distribution/name`, or `perpetual GROUP distribution/NAME`. A name that the group itself has already is refused.

    Example::

        Provider(slot="command", name="report", factory="perpetual_report.command:report", summary="Write a report")
        Provider(slot="command", name="store.cost", factory="acme_cost.command:cost", summary="What the record costs")
    """


@hookspec
def perpetual_mcp_tools() -> list[Provider]:
    """Offers tools for the MCP server.

    When: once, at discovery. Return: Providers with slot "mcp_tool": `name` is the tool.
    Factory: `(options) -> callable(lab, **arguments)`, which may be a coroutine function and may take a
    `perpetual.api.ToolContext`. Failure: the server starts without that tool and says so.

    Example::

        Provider(slot="mcp_tool", name="acme_weather", factory="acme.tools:weather", summary="Weather of the cluster")
    """


@hookspec
def perpetual_report_sections() -> list[Provider]:
    """Offers sections of the report.

    When: once, at discovery. Return: Providers with slot "report_section", placed by `order`.
    Factory: `(options) -> callable(lab) -> str` (Markdown). Failure: the section is replaced by a line that names it.

    Example::

        Provider(slot="report_section", name="carbon", factory="acme.carbon:build", order=500)
    """


@hookspec
def perpetual_services() -> list[Provider]:
    """Offers services: what a plugin keeps running for a project, such as a loop, a server or a bridge.

    When: once, at discovery. Return: Providers with slot "service"; `perpetual services start NAME` runs one in a
    process of its own, one for each project. Factory: `(options) -> perpetual.api.Service`. While a service runs,
    observers hear of each event at once.
    Failure: a service that raises has failed; its reason is kept, and shown by `services list` and the doctor.

    Example::

        Provider(slot="service", name="bell", factory="acme_bell.service:build", summary="rings when a run ends")
    """


@hookspec
def perpetual_checks() -> list[Provider]:
    """Offers checks of `perpetual doctor`.

    When: once, at discovery. Return: Providers with slot "check"; the provider's name is the check's.
    Factory: `(options) -> perpetual.api.Check`. Failure: a check that raises is a finding that names it.

    Example::

        Provider(slot="check", name="licence", factory="acme.licence:build", summary="whether the licence is valid")
    """


@hookspec
def perpetual_status_sections() -> list[Provider]:
    """Offers sections of the status, the brief and the report: where a plugin's own work stands.

    When: once, at discovery. Return: Providers with slot "status_section", placed by `order`.
    Factory: `(options) -> perpetual.api.StatusSection`. It reads the record; the status is kept and shown again until
    the record or the configuration changes, but for its `live`. Failure: the section says that it failed, and how.

    Example::

        Provider(slot="status_section", name="alarms", factory="acme_bell.status:build")
    """


@hookspec
def perpetual_event(event: Event, lab: Lab, options: Mapping[str, object]) -> None:
    """Hears what happened.

    When: after the transaction that appended the event is durable, outside of it, at least once per event and
    plugin, in order; at once while a service runs, else at the next scan. Arguments, of which the plugin names those
    that it wants: `event`, a frozen `perpetual.records.Event`, its payload the plugin's own copy; `lab`, the project's
    lab, opened in the process in which the plugin is called; `options`, those of `perpetual_options`, as in force.
    Return: nothing. Failure: named by `perpetual doctor`; the event is offered again at the next scan.
    An observer of another distribution is called in a helper process, which lives as long as the lab is open
    and is killed after `plugin_observer_s`; it is left out after three failures in a row.

    Example::

        @hookimpl
        def perpetual_event(event, options):
            if event.kind == "hypothesis_status":
                ring_the_bell(options["channel"], event.subject)
    """


@hookspec
def perpetual_scan(lab: Lab) -> None:
    """Catches up with what a bundled plugin keeps outside the record; asked at the beginning of each scan.

    When: before the runs are looked at, in a project that is not held. Return: nothing. Failure: the next scan asks
    again. Plugins of other distributions are not asked: a service is theirs.

    Example::

        @hookimpl
        def perpetual_scan(lab):
            record_what_was_left(lab)
    """


@hookspec
def perpetual_analysed(lab: Lab) -> None:
    """Looks at what runs have shown, once they are analysed; `lab.events` says what is new. As `perpetual_scan`."""


@hookspec
def perpetual_options() -> dict[str, Option]:
    """Names options of the plugin itself, for its observers, commands and services.

    When: once, at discovery. Return: Options by key. They are set by `perpetual config set plugins.plugin.NAME.KEY`, or
    `plugins.NAME.KEY` for short, where NAME is the plugin's; `lab.options("NAME")` answers those in force, checked.
    Failure: the plugin is listed as failed.

    Example::

        @hookimpl
        def perpetual_options():
            return {"channel": Option("str", "#lab", "where the bell rings", variable="ACME_CHANNEL"),
                    "token": Option("str", None, "token of the chat server", secret=True)}
    """


@hookspec
def perpetual_slots() -> list[Slot]:
    """Brings slots of a plugin's own: families of parts that it and other plugins fill.

    When: first of all at discovery, so that every plugin may fill them. Return: Slots; each brings its hook, which
    other plugins implement with `@hookimpl(optionalhook=True)` and answer with Providers. A slot chosen by the
    configuration (`selection="one"`) is set by `perpetual config set slots.NAME PROVIDER`; `lab.part(name)` and
    `lab.parts(name)` answer what serves. `plugins check` runs its suite, `plugins new` writes its template.
    Failure: a slot or hook that exists already, or a name that cannot be one: the plugin is listed as failed.

    Example::

        @hookimpl
        def perpetual_slots():
            return [Slot("critic", "acme_critics", "critic", "acme_critics.base:Critic",
                         suite=Suite("acme_critics.testing:CriticContract", fixture="critic"))]
    """


@hookspec
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings kinds of records and of events of a plugin's own.

    When: once, at discovery; the answer is plain data and is cached. Return: RecordKinds, whose full names are
    `PLUGIN.NAME`; `lab.records(name)` adds, finds and changes their rows in the lab's transactions, with the plugin's
    name and version on each. `plugins check` writes rows, exports and imports them, and tries upgrades, on the rows
    that `upgrade.examples = {1: {"loud": True}}` names. And EventKinds, which `lab.feed.emit(name, subject, payload)`
    appends to the feed. Rows stay readable, verified and exported after the plugin is gone.
    Failure: a kind that can be none: the plugin is listed as failed.

    Example::

        @hookimpl
        def perpetual_kinds():
            return [RecordKind("alarm", {"run": Field("str", "the run that rang", required=True, references="run"),
                                         "loudness": Field("float", "decibels")}, indexes=("run",)),
                    EventKind("rang", "subject: the alarm; payload: loudness")]
    """


@hookspec
def perpetual_methodology() -> dict[str, Option]:
    """Brings keys of methodology.yaml: how research is done with the plugin.

    When: once, at discovery; the answer is plain data and is cached. Return: Options by key; the full name in the file
    is `PLUGIN.KEY`, shown and set by `perpetual methodology`, read as `lab.config.methodology["PLUGIN.KEY"]`. Types
    are int, float, bool, str and list. Setting one is an event, and for a person.
    Failure: an option that can be none: the plugin is listed as failed.

    Example::

        @hookimpl
        def perpetual_methodology():
            return {"loudest": Option("float", 90.0, "Decibels above which no alarm rings.", minimum=0.0)}
    """


@hookspec
def perpetual_hookspecs() -> list[object]:
    """Brings plain hooks of a plugin's own, which it calls itself with `lab.registry.call`.

    When: first of all, so that other plugins may implement them. Return: modules or classes with `@hookspec`s.
    Failure: the plugin is listed as failed.

    Example::

        @hookimpl
        def perpetual_hookspecs():
            import acme_teams.hookspecs
            return [acme_teams.hookspecs]
    """
