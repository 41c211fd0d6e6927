"""THE table of slots: what there is to fill, by which hook it is offered, how a provider is chosen, built and proven.

Registry, configuration, doctor, `plugins list|new|check` and the contract suites read this table and no other list. A
plugin adds rows with `perpetual_slots`; `Registry.slots` holds Perpetual's own rows and those of plugins. Floor 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = ["METHODOLOGY", "SLOTS", "Selection", "Slot", "Suite", "Template", "thaw_slot"]

Selection = Literal["one", "all", "methodology"]
METHODOLOGY: Selection = "methodology"


@dataclass(frozen=True, slots=True)
class Suite:
    """The contract suite of a slot.

    - `home`: `module:class`. A class with a class method `for_provider(factory, options)` answers the class to use.
    - `given`: how the suite gets what it tests: `part` (a fixture builds it once), `factory` (class attributes
      `factory` and `options`, to open it again and in other processes), `command` (a fixture with the words of a
      program that serves it).
    - `fixture`: name of that fixture.
    - `own_form`: the suite speaks in a form of its own choice, which a provider need not know: a failure is no verdict.
    """

    home: str
    given: Literal["part", "factory", "command"] = "part"
    fixture: str = ""
    own_form: bool = False

    @property
    def label(self) -> str:
        """Returns the suite as people read it, `module.attribute`."""
        return self.home.replace(":", ".")


@dataclass(frozen=True, slots=True)
class Template:
    """What `plugins new` writes for a slot.

    - `in_force`: the line by which a project comes to use the provider; `{0}` is its name.
    - `summary`: what the example does.
    - `options`: its options, key -> (type, default, meaning) as source text.
    - `needs`: what the example depends on besides Perpetual.
    - `folder`: `package:folder` with `part/SLOT.py.j2` and `tests/SLOT.py.j2`.
    """

    in_force: str
    summary: str
    options: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    folder: str = "perpetual_templates:plugin"


@dataclass(frozen=True, slots=True)
class Slot:
    """One row: something that providers fill.

    - `name`: what a `Provider` names; small letters, digits and underscores.
    - `hook`: the hook whose implementations answer the providers.
    - `noun`: what one of its providers is called.
    - `base`: `module:class` of what a factory answers; None for a plain callable or a click command.
    - `selection`: `one` (the configuration chooses), `all` (every provider serves), `methodology` (a key of
      methodology.yaml chooses).
    - `key`: the key that chooses. None for a slot of a plugin: then `slots: {<name>: provider}` in config.yaml does.
    - `default`: the provider in force where nothing is chosen.
    - `arguments`: what a factory gets besides `(options)`.
    - `suite`, `template`: its contract suite, and what `plugins new` writes.
    """

    name: str
    hook: str
    noun: str
    base: str | None = None
    selection: Selection = "all"
    key: str | None = None
    default: str | None = None
    arguments: tuple[str, ...] = ()
    suite: Suite | None = None
    template: Template | None = None

    @property
    def is_additive(self) -> bool:
        """Returns whether every provider serves."""
        return self.selection == "all"


def thaw_slot(data: Mapping[str, Any]) -> Slot:
    """Returns the slot that `dataclasses.asdict` made this mapping of; lists stand for tuples, as in JSON."""
    suite, template = data["suite"], data["template"]
    if template is not None:
        options = {key: tuple(words) for key, words in template["options"].items()}
        template = Template(**{**template, "options": options, "needs": tuple(template["needs"])})
    return Slot(
        **{**data, "arguments": tuple(data["arguments"]), "suite": suite and Suite(**suite), "template": template}
    )


SLOTS: dict[str, Slot] = {
    slot.name: slot
    for slot in (
        Slot("store", "perpetual_stores", "store", "perpetual.slots.store:StoreBase", "one", "store", "tinydb",
             arguments=("path",), suite=Suite("perpetual.testing.stores:StoreContract", "factory"),
             template=Template("perpetual init --store {0}", "one JSON file, replaced at every commit",
                               {"timeout_s": ("float", "30.0", "seconds to wait for another writer")})),
        Slot("scheduler", "perpetual_schedulers", "scheduler", "perpetual.slots.scheduler:Scheduler", "one",
             "scheduler", "local", suite=Suite("perpetual.testing.schedulers:SchedulerContract", "factory"),
             template=Template("perpetual config set scheduler {0}", "processes on this machine")),
        Slot("gpus", "perpetual_gpu_backends", "GPU backend", "perpetual.slots.gpu:GpuBackend", "one", "gpus", "nvml",
             suite=Suite("perpetual.testing.gpus:GpuContract", "factory"),
             template=Template("perpetual config set gpus {0}", "devices listed by hand",
                               {"uuids": ("list", "[]", "ids of the devices")})),
        Slot("placement", "perpetual_placements", "placement", "perpetual.slots.placement:Placement", "one",
             "placement", "gpus", suite=Suite("perpetual.testing.placements:PlacementContract", fixture="placement"),
             template=Template("perpetual config set placement {0}", "whole GPUs, strictly in the queue's order")),
        Slot("memory", "perpetual_memories", "memory", "perpetual.slots.memory:Memory", "one", "memory", "git",
             arguments=("path",), suite=Suite("perpetual.testing.memories:MemoryContract", "factory"),
             template=Template("perpetual config set memory {0}", "one JSON file per version")),
        Slot("mcp", "perpetual_mcp_servers", "MCP server", "perpetual.slots.mcp:McpServer", "one", "mcp", "mcp",
             suite=Suite("perpetual.testing.mcp_servers:McpContract", "command", "command"),
             template=Template("perpetual config set mcp {0}", "by hand, on standard input and output")),
        Slot("scorer", "perpetual_scorers", "scorer", "perpetual.slots.scorer:Scorer", METHODOLOGY,
             "exploration_strategy", "information-gain",
             suite=Suite("perpetual.testing.scorers:ScorerContract", "factory"),
             template=Template("perpetual methodology set exploration_strategy {0}", "the cheapest first")),
        Slot("gate", "perpetual_gates", "gate", "perpetual.slots.gate:Gate",
             suite=Suite("perpetual.testing.gates:GateContract", "factory"),
             template=Template("perpetual memory write notes/a.md 'judged by {0}'",
                               "puts notes with unwanted words aside",
                               {"words": ("list", '["do not read"]', "the unwanted words")})),
        Slot("promotion_stage", "perpetual_promotion_stages", "promotion stage", "perpetual.slots.gate:PromotionStage",
             suite=Suite("perpetual.testing.promotion_stages:PromotionStageContract", fixture="stage"),
             template=Template("perpetual memory queue", "promotes what a team's review lists",
                               {"file": ("str", '"reviews.txt"', "path below the project's folder"),
                                "least": ("int", "2", "reviewers that a promotion needs")})),
        Slot("redactor", "perpetual_redactors", "redactor", "perpetual.slots.redactor:Redactor", "one", "redactor",
             "secrets", suite=Suite("perpetual.testing.redactors:RedactorContract", "factory"),
             template=Template("perpetual config set redactor {0}", "the known forms, and a site's own tokens",
                               {"prefix": ("str", '"acme_"', "how the site's own tokens begin")})),
        Slot("harness", "perpetual_harnesses", "harness", "perpetual.slots.harness:Harness",
             suite=Suite("perpetual.testing.harnesses:HarnessContract", fixture="harness"),
             template=Template("perpetual init -H {0}", "an agent that speaks MCP")),
        Slot("scaffolder", "perpetual_scaffolders", "scaffolder", "perpetual.slots.scaffolder:Scaffolder", "one",
             "scaffolder", "files", suite=Suite("perpetual.testing.scaffolders:ScaffolderContract",
                                                fixture="scaffolder"),
             template=Template("perpetual config set scaffolder {0}", "names the reviewers of agents' files",
                               {"owners": ("str", '"CODEOWNERS"', "The file that names the owners.")})),
        Slot("capture", "perpetual_captures", "capture", "perpetual.slots.capture:Capture",
             suite=Suite("perpetual.testing.captures:CaptureContract", fixture="capture"),
             template=Template("perpetual runs r1 --provenance --json", "the hashes of data files",
                               {"files": ("list", '["data.csv"]', "paths below the project's folder")})),
        Slot("metric_reader", "perpetual_metric_readers", "metric reader", "perpetual.slots.analyser:MetricReader",
             suite=Suite("perpetual.testing.analysis:MetricReaderContract", fixture="reader", own_form=True),
             template=Template("perpetual scan", "`name value` lines of a file",
                               {"file": ("str", '"metrics.txt"', "name of the file in the run's folders")})),
        Slot("analyser", "perpetual_analysers", "analyser", "perpetual.slots.analyser:Analyser",
             suite=Suite("perpetual.testing.analysis:AnalyserContract", fixture="analyser"),
             template=Template("perpetual scan", "says why runs failed")),
        Slot("proposer", "perpetual_proposers", "proposer", "perpetual.slots.analyser:Proposer",
             suite=Suite("perpetual.testing.analysis:ProposerContract", fixture="proposer", own_form=True),
             template=Template("perpetual propose --auto 1", "twice the learning rate")),
        Slot("command", "perpetual_commands", "command",
             template=Template("perpetual {0}", "Count the hypotheses by status.", needs=("click>=8.2,<9",))),
        Slot("mcp_tool", "perpetual_mcp_tools", "MCP tool",
             template=Template("perpetual mcp", "Counts the hypotheses with a status.")),
        Slot("report_section", "perpetual_report_sections", "report section",
             template=Template("perpetual report", "what the research has cost")),
        Slot("service", "perpetual_services", "service", "perpetual.slots.service:Service",
             suite=Suite("perpetual.testing.services:ServiceContract", fixture="service"),
             template=Template("perpetual services start {0}", "counts the events of the feed")),
        Slot("check", "perpetual_checks", "check", "perpetual.slots.sections:Check",
             suite=Suite("perpetual.testing.sections:CheckContract", fixture="check"),
             template=Template("perpetual doctor", "whether there is room for results",
                               {"least_bytes": ("int", "1_000_000", "bytes that must be free")})),
        Slot("status_section", "perpetual_status_sections", "status section", "perpetual.slots.sections:StatusSection",
             suite=Suite("perpetual.testing.sections:StatusSectionContract", fixture="section"),
             template=Template("perpetual status", "how many claims are open")),
    )
}  # fmt: skip
