"""What a plugin author imports: markers, records, slot bases and errors, under one name. Floor 4.

Everything here is public and stays; what is not here, in `perpetual.science`, `perpetual.toolkit`, `perpetual.loop`
or `perpetual.testing` is the kernel's own. What only some plugins need is imported at first use: the markers, so that
a chosen provider does not load pluggy, the command kit (`CliContext` and its companions), which loads click, and what
tools for plugins read (`Inventory` with its `PluginInfo`s and `Offer`s).

A name that another one replaced goes on working for as long as its API number is served, with a
PerpetualDeprecationWarning.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perpetual.catalogue import Offer, PluginInfo
    from perpetual.commands import (
        CliContext,
        PersonOption,
        json_object,
        json_option,
        key_option,
        line,
        page_options,
        pass_cli,
        printable,
    )
    from perpetual.commands.offered import OpenGroup
    from perpetual.errors import (
        ConfigError,
        Conflict,
        CorruptData,
        ForeignProject,
        NoProject,
        NotFound,
        NotPermitted,
        PerpetualError,
        PluginError,
        Refused,
        RevisionConflict,
        TransientError,
        UsageError,
        unknown,
    )
    from perpetual.hookspecs import hookimpl, hookspec
    from perpetual.lab.doors.evidence import PartialRecord
    from perpetual.lab.evidence import EvidenceFold
    from perpetual.lab.inventory import Inventory
    from perpetual.lab.records import Record
    from perpetual.records import (
        Debit,
        Design,
        Event,
        Evidence,
        Experiment,
        GitState,
        Hypothesis,
        Note,
        Resources,
        Run,
        Score,
        Verdict,
        from_json,
        to_json,
    )
    from perpetual.slots import API, Option, Provider
    from perpetual.slots.analyser import (
        Analyser,
        Analysis,
        Draft,
        MetricReader,
        MetricValue,
        Proposer,
        RunFolder,
        RunOutput,
        Symptom,
    )
    from perpetual.slots.capture import Capture, CodeReader, CodeState, RunChanges, RunEnd, RunFacts, RunStart
    from perpetual.slots.gate import Gate, GateFinding, GateVerdict, Provenance
    from perpetual.slots.gpu import Gpu, GpuBackend, GpuProcess, MigDevice, Reading
    from perpetual.slots.harness import WAYS, FilePlan, Harness, Listing, Scaffold
    from perpetual.slots.kinds import EventKind, Field, RecordKind
    from perpetual.slots.mcp import LabOpener, McpServer
    from perpetual.slots.memory import Memory, NoteCommit, PathRefused
    from perpetual.slots.placement import (
        DeviceStatus,
        EnginePlacement,
        GpuClaim,
        GpuNeed,
        GpuProcessStatus,
        GpuStatus,
        InstanceStatus,
        Lease,
        LiveRun,
        Placement,
        PlacementProject,
        PlacementRequest,
        PlacementSettings,
        PlacementView,
        QueuedRun,
        RunNote,
        Survey,
        Waits,
    )
    from perpetual.slots.scaffolder import (
        OfferedHarness,
        ScaffoldAnswer,
        ScaffoldedFile,
        Scaffolder,
        ScaffoldView,
    )
    from perpetual.slots.scheduler import EndUnreadable, Launched, LaunchError, LaunchSpec, Scheduler, Sighting
    from perpetual.slots.scorer import Scorer, State
    from perpetual.slots.sections import Check, Finding, Section, StatusSection
    from perpetual.slots.service import Service, StopSignal
    from perpetual.slots.store import (
        META,
        Capabilities,
        Change,
        Document,
        Kind,
        Meta,
        Page,
        Row,
        StoreBase,
        Transaction,
    )
    from perpetual.slots.table import SLOTS, Slot, Suite, Template
    from perpetual.toolkit.deprecation import PerpetualDeprecationWarning
    from perpetual.toolkit.secret import Secret

__all__ = [
    # markers and offers
    "API",
    "Option",
    "Provider",
    "hookimpl",
    "hookspec",
    "PerpetualDeprecationWarning",
    # commands
    "CliContext",
    "OpenGroup",
    "PersonOption",
    "json_object",
    "json_option",
    "key_option",
    "line",
    "page_options",
    "pass_cli",
    "printable",
    # what is installed
    "Inventory",
    "Offer",
    "PluginInfo",
    # slots
    "Analyser",
    "Analysis",
    "Capabilities",
    "Capture",
    "Change",
    "Check",
    "CodeReader",
    "CodeState",
    "DeviceStatus",
    "Document",
    "Draft",
    "EndUnreadable",
    "EnginePlacement",
    "EventKind",
    "Field",
    "FilePlan",
    "Finding",
    "Gate",
    "GateFinding",
    "GateVerdict",
    "Gpu",
    "GpuBackend",
    "GpuClaim",
    "GpuNeed",
    "GpuProcess",
    "GpuProcessStatus",
    "GpuStatus",
    "Harness",
    "InstanceStatus",
    "Kind",
    "LabOpener",
    "LaunchError",
    "LaunchSpec",
    "Launched",
    "Lease",
    "Listing",
    "LiveRun",
    "META",
    "McpServer",
    "Memory",
    "Meta",
    "MetricReader",
    "MetricValue",
    "MigDevice",
    "NoteCommit",
    "OfferedHarness",
    "Page",
    "PathRefused",
    "Placement",
    "PlacementProject",
    "PlacementRequest",
    "PlacementSettings",
    "PlacementView",
    "Proposer",
    "Provenance",
    "QueuedRun",
    "Reading",
    "RecordKind",
    "Row",
    "RunChanges",
    "RunEnd",
    "RunFacts",
    "RunFolder",
    "RunNote",
    "RunOutput",
    "RunStart",
    "SLOTS",
    "Scaffold",
    "ScaffoldAnswer",
    "ScaffoldView",
    "ScaffoldedFile",
    "Scaffolder",
    "Scheduler",
    "Scorer",
    "Secret",
    "Section",
    "Service",
    "Sighting",
    "Slot",
    "State",
    "StatusSection",
    "StopSignal",
    "StoreBase",
    "Suite",
    "Survey",
    "Symptom",
    "Template",
    "Transaction",
    "WAYS",
    "Waits",
    # records
    "Debit",
    "Design",
    "Event",
    "Evidence",
    "EvidenceFold",
    "Experiment",
    "GitState",
    "Hypothesis",
    "Note",
    "PartialRecord",
    "Record",
    "Resources",
    "Run",
    "Score",
    "Verdict",
    "from_json",
    "to_json",
    # errors
    "ConfigError",
    "Conflict",
    "CorruptData",
    "ForeignProject",
    "NoProject",
    "NotFound",
    "NotPermitted",
    "PerpetualError",
    "PluginError",
    "Refused",
    "RevisionConflict",
    "TransientError",
    "UsageError",
    "unknown",
]

# module -> what is imported from it when it is first asked for: a plugin pays for what it uses
_HOMES: dict[str, tuple[str, ...]] = {
    "perpetual.commands": (
        "CliContext",
        "PersonOption",
        "json_object",
        "json_option",
        "key_option",
        "line",
        "page_options",
        "pass_cli",
        "printable",
    ),
    "perpetual.commands.offered": ("OpenGroup",),
    "perpetual.errors": (
        "ConfigError",
        "Conflict",
        "CorruptData",
        "ForeignProject",
        "NoProject",
        "NotFound",
        "NotPermitted",
        "PerpetualError",
        "PluginError",
        "Refused",
        "RevisionConflict",
        "TransientError",
        "UsageError",
        "unknown",
    ),
    "perpetual.hookspecs": ("hookimpl", "hookspec"),
    "perpetual.lab.doors.evidence": ("PartialRecord",),
    "perpetual.lab.evidence": ("EvidenceFold",),
    "perpetual.lab.inventory": ("Inventory",),
    "perpetual.lab.records": ("Record",),
    "perpetual.records": (
        "Debit",
        "Design",
        "Event",
        "Evidence",
        "Experiment",
        "GitState",
        "Hypothesis",
        "Note",
        "Resources",
        "Run",
        "Score",
        "Verdict",
        "from_json",
        "to_json",
    ),
    "perpetual.catalogue": ("Offer", "PluginInfo"),
    "perpetual.slots": ("API", "Option", "Provider"),
    "perpetual.slots.analyser": (
        "Analyser",
        "Analysis",
        "Draft",
        "MetricReader",
        "MetricValue",
        "Proposer",
        "RunFolder",
        "RunOutput",
        "Symptom",
    ),
    "perpetual.slots.capture": ("Capture", "CodeReader", "CodeState", "RunChanges", "RunEnd", "RunFacts", "RunStart"),
    "perpetual.slots.gate": ("Gate", "GateFinding", "GateVerdict", "Provenance"),
    "perpetual.slots.gpu": ("Gpu", "GpuBackend", "GpuProcess", "MigDevice", "Reading"),
    "perpetual.slots.harness": ("WAYS", "FilePlan", "Harness", "Listing", "Scaffold"),
    "perpetual.slots.kinds": ("EventKind", "Field", "RecordKind"),
    "perpetual.slots.mcp": ("LabOpener", "McpServer"),
    "perpetual.slots.memory": ("Memory", "NoteCommit", "PathRefused"),
    "perpetual.slots.placement": (
        "DeviceStatus",
        "EnginePlacement",
        "GpuClaim",
        "GpuNeed",
        "GpuProcessStatus",
        "GpuStatus",
        "InstanceStatus",
        "Lease",
        "LiveRun",
        "Placement",
        "PlacementProject",
        "PlacementRequest",
        "PlacementSettings",
        "PlacementView",
        "QueuedRun",
        "RunNote",
        "Survey",
        "Waits",
    ),
    "perpetual.slots.scaffolder": (
        "OfferedHarness",
        "ScaffoldAnswer",
        "ScaffoldView",
        "ScaffoldedFile",
        "Scaffolder",
    ),
    "perpetual.slots.scheduler": ("EndUnreadable", "LaunchError", "LaunchSpec", "Launched", "Scheduler", "Sighting"),
    "perpetual.slots.scorer": ("Scorer", "State"),
    "perpetual.slots.sections": ("Check", "Finding", "Section", "StatusSection"),
    "perpetual.slots.service": ("Service", "StopSignal"),
    "perpetual.slots.store": (
        "Capabilities",
        "Change",
        "Document",
        "Kind",
        "META",
        "Meta",
        "Page",
        "Row",
        "StoreBase",
        "Transaction",
    ),
    "perpetual.slots.table": ("SLOTS", "Slot", "Suite", "Template"),
    "perpetual.toolkit.deprecation": ("PerpetualDeprecationWarning",),
    "perpetual.toolkit.secret": ("Secret",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}
_REPLACED = {"Face": "CliContext", "pass_face": "pass_cli"}  # names of API 1, replaced in 0.1.0


def __getattr__(name: str) -> Any:
    if name in _REPLACED:
        from perpetual.toolkit.deprecation import warn_replaced

        warn_replaced(f"perpetual.api.{name}", _REPLACED[name], since="0.1.0", removal="plugin API 1")
        name = _REPLACED[name]
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'perpetual.api' has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__]
