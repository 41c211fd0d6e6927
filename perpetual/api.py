"""Names that a plugin author imports: markers, records, slot bases and errors, under one name. Floor 4.

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

if TYPE_CHECKING:  # `as` says that the name is public
    from perpetual.catalogue import Offer as Offer
    from perpetual.catalogue import PluginInfo as PluginInfo
    from perpetual.commands import CliContext as CliContext
    from perpetual.commands import json_option as json_option
    from perpetual.commands import line as line
    from perpetual.commands import pass_cli as pass_cli
    from perpetual.commands import printable as printable
    from perpetual.commands.offered import OpenGroup as OpenGroup
    from perpetual.errors import ConfigError as ConfigError
    from perpetual.errors import Conflict as Conflict
    from perpetual.errors import CorruptData as CorruptData
    from perpetual.errors import ForeignProject as ForeignProject
    from perpetual.errors import NoProject as NoProject
    from perpetual.errors import NotFound as NotFound
    from perpetual.errors import NotPermitted as NotPermitted
    from perpetual.errors import PerpetualError as PerpetualError
    from perpetual.errors import PluginError as PluginError
    from perpetual.errors import Refused as Refused
    from perpetual.errors import RevisionConflict as RevisionConflict
    from perpetual.errors import TransientError as TransientError
    from perpetual.errors import UsageError as UsageError
    from perpetual.errors import unknown as unknown
    from perpetual.hookspecs import hookimpl as hookimpl
    from perpetual.hookspecs import hookspec as hookspec
    from perpetual.lab.evidence.partial_record import PartialRecord as PartialRecord
    from perpetual.lab.ledger.evidence import EvidenceFold as EvidenceFold
    from perpetual.lab.memory import NoteHit as NoteHit
    from perpetual.lab.plugin_listing import Inventory as Inventory
    from perpetual.lab.records import Record as Record
    from perpetual.lab.services import Services as Services
    from perpetual.records import Debit as Debit
    from perpetual.records import Design as Design
    from perpetual.records import Event as Event
    from perpetual.records import Evidence as Evidence
    from perpetual.records import Experiment as Experiment
    from perpetual.records import GitState as GitState
    from perpetual.records import Hypothesis as Hypothesis
    from perpetual.records import Listing as Listing
    from perpetual.records import Note as Note
    from perpetual.records import Resources as Resources
    from perpetual.records import Run as Run
    from perpetual.records import Score as Score
    from perpetual.records import Verdict as Verdict
    from perpetual.records import from_json as from_json
    from perpetual.records import to_json as to_json
    from perpetual.records.states import ExperimentStatus as ExperimentStatus
    from perpetual.records.states import HypothesisStatus as HypothesisStatus
    from perpetual.records.states import NoteStatus as NoteStatus
    from perpetual.records.states import RunStatus as RunStatus
    from perpetual.science.planner import Planner as Planner
    from perpetual.science.planner import Refusal as Refusal
    from perpetual.science.planner import StandInGap as StandInGap
    from perpetual.slots import API as API
    from perpetual.slots import Option as Option
    from perpetual.slots import Provider as Provider
    from perpetual.slots.analyser import Analyser as Analyser
    from perpetual.slots.analyser import Analysis as Analysis
    from perpetual.slots.analyser import Draft as Draft
    from perpetual.slots.analyser import MetricHistory as MetricHistory
    from perpetual.slots.analyser import MetricReader as MetricReader
    from perpetual.slots.analyser import MetricValue as MetricValue
    from perpetual.slots.analyser import Proposer as Proposer
    from perpetual.slots.analyser import RunFolder as RunFolder
    from perpetual.slots.analyser import RunOutput as RunOutput
    from perpetual.slots.analyser import Symptom as Symptom
    from perpetual.slots.capture import Artifact as Artifact
    from perpetual.slots.capture import Capture as Capture
    from perpetual.slots.capture import CodeReader as CodeReader
    from perpetual.slots.capture import CodeState as CodeState
    from perpetual.slots.capture import Isolation as Isolation
    from perpetual.slots.capture import RunChanges as RunChanges
    from perpetual.slots.capture import RunEnd as RunEnd
    from perpetual.slots.capture import RunFacts as RunFacts
    from perpetual.slots.capture import RunStart as RunStart
    from perpetual.slots.gate import Gate as Gate
    from perpetual.slots.gate import GateFinding as GateFinding
    from perpetual.slots.gate import GateVerdict as GateVerdict
    from perpetual.slots.gate import PromotionStage as PromotionStage
    from perpetual.slots.gate import StageVerdict as StageVerdict
    from perpetual.slots.gate import TextProvenance as TextProvenance
    from perpetual.slots.gpu import Gpu as Gpu
    from perpetual.slots.gpu import GpuBackend as GpuBackend
    from perpetual.slots.gpu import GpuProcess as GpuProcess
    from perpetual.slots.gpu import GpuReading as GpuReading
    from perpetual.slots.gpu import MigDevice as MigDevice
    from perpetual.slots.harness import WAYS as WAYS
    from perpetual.slots.harness import FilePlan as FilePlan
    from perpetual.slots.harness import Harness as Harness
    from perpetual.slots.harness import ListCommand as ListCommand
    from perpetual.slots.harness import Scaffold as Scaffold
    from perpetual.slots.kinds import EventKind as EventKind
    from perpetual.slots.kinds import Field as Field
    from perpetual.slots.kinds import RecordKind as RecordKind
    from perpetual.slots.mcp import LabOpener as LabOpener
    from perpetual.slots.mcp import McpServer as McpServer
    from perpetual.slots.mcp import ToolContext as ToolContext
    from perpetual.slots.memory import Memory as Memory
    from perpetual.slots.memory import NoteCommit as NoteCommit
    from perpetual.slots.memory import PathRefused as PathRefused
    from perpetual.slots.placement import DeviceStatus as DeviceStatus
    from perpetual.slots.placement import EnginePlacement as EnginePlacement
    from perpetual.slots.placement import GpuClaim as GpuClaim
    from perpetual.slots.placement import GpuNeed as GpuNeed
    from perpetual.slots.placement import GpuProcessStatus as GpuProcessStatus
    from perpetual.slots.placement import GpuStatus as GpuStatus
    from perpetual.slots.placement import InstanceStatus as InstanceStatus
    from perpetual.slots.placement import Lease as Lease
    from perpetual.slots.placement import LiveRun as LiveRun
    from perpetual.slots.placement import Placement as Placement
    from perpetual.slots.placement import PlacementProject as PlacementProject
    from perpetual.slots.placement import PlacementRequest as PlacementRequest
    from perpetual.slots.placement import PlacementSettings as PlacementSettings
    from perpetual.slots.placement import PlacementView as PlacementView
    from perpetual.slots.placement import QueuedRun as QueuedRun
    from perpetual.slots.placement import RunNote as RunNote
    from perpetual.slots.placement import Survey as Survey
    from perpetual.slots.placement import Waits as Waits
    from perpetual.slots.redactor import MASK as MASK
    from perpetual.slots.redactor import Redactor as Redactor
    from perpetual.slots.redactor import Span as Span
    from perpetual.slots.scaffolder import OfferedHarness as OfferedHarness
    from perpetual.slots.scaffolder import ScaffoldAnswer as ScaffoldAnswer
    from perpetual.slots.scaffolder import ScaffoldedFile as ScaffoldedFile
    from perpetual.slots.scaffolder import Scaffolder as Scaffolder
    from perpetual.slots.scaffolder import ScaffoldView as ScaffoldView
    from perpetual.slots.scheduler import EndUnreadable as EndUnreadable
    from perpetual.slots.scheduler import Launched as Launched
    from perpetual.slots.scheduler import LaunchError as LaunchError
    from perpetual.slots.scheduler import LaunchSpec as LaunchSpec
    from perpetual.slots.scheduler import Scheduler as Scheduler
    from perpetual.slots.scheduler import Sighting as Sighting
    from perpetual.slots.scorer import Scorer as Scorer
    from perpetual.slots.scorer import ScorerState as ScorerState
    from perpetual.slots.sections import Check as Check
    from perpetual.slots.sections import Finding as Finding
    from perpetual.slots.sections import Section as Section
    from perpetual.slots.sections import StatusSection as StatusSection
    from perpetual.slots.service import Service as Service
    from perpetual.slots.service import StopSignal as StopSignal
    from perpetual.slots.service_host import ServiceHost as ServiceHost
    from perpetual.slots.store import META as META
    from perpetual.slots.store import Capabilities as Capabilities
    from perpetual.slots.store import Change as Change
    from perpetual.slots.store import Document as Document
    from perpetual.slots.store import Row as Row
    from perpetual.slots.store import StoreBase as StoreBase
    from perpetual.slots.store import StoreKind as StoreKind
    from perpetual.slots.store import StoreMeta as StoreMeta
    from perpetual.slots.store import StorePage as StorePage
    from perpetual.slots.store import Transaction as Transaction
    from perpetual.slots.table import SLOTS as SLOTS
    from perpetual.slots.table import Slot as Slot
    from perpetual.slots.table import Suite as Suite
    from perpetual.slots.table import Template as Template
    from perpetual.toolkit.deprecation import PerpetualDeprecationWarning as PerpetualDeprecationWarning
    from perpetual.toolkit.secret import Secret as Secret
    from perpetual_cli.options import PersonOption as PersonOption
    from perpetual_cli.options import json_object as json_object
    from perpetual_cli.options import key_option as key_option
    from perpetual_cli.options import page_options as page_options

# module -> what is imported from it when it is first asked for: a plugin pays for what it uses
_HOMES = {
    "perpetual.catalogue": "Offer PluginInfo",
    "perpetual.commands": "CliContext json_option line pass_cli printable",
    "perpetual.commands.offered": "OpenGroup",
    "perpetual.errors": (
        "ConfigError Conflict CorruptData ForeignProject NoProject NotFound NotPermitted PerpetualError "
        "PluginError Refused RevisionConflict TransientError UsageError unknown"
    ),
    "perpetual.hookspecs": "hookimpl hookspec",
    "perpetual.lab.evidence.partial_record": "PartialRecord",
    "perpetual.lab.ledger.evidence": "EvidenceFold",
    "perpetual.lab.memory": "NoteHit",
    "perpetual.lab.plugin_listing": "Inventory",
    "perpetual.lab.records": "Record",
    "perpetual.lab.services": "Services",
    "perpetual.records": (
        "Debit Design Event Evidence Experiment GitState Hypothesis Listing Note Resources Run Score Verdict from_json "
        "to_json"
    ),
    "perpetual.records.states": "ExperimentStatus HypothesisStatus NoteStatus RunStatus",
    "perpetual.slots": "API Option Provider",
    "perpetual.slots.analyser": (
        "Analyser Analysis Draft MetricHistory MetricReader MetricValue Proposer RunFolder RunOutput Symptom"
    ),
    "perpetual.slots.capture": "Artifact Capture CodeReader CodeState Isolation RunChanges RunEnd RunFacts RunStart",
    "perpetual.slots.gate": "Gate GateFinding GateVerdict PromotionStage StageVerdict TextProvenance",
    "perpetual.slots.gpu": "Gpu GpuBackend GpuProcess MigDevice GpuReading",
    "perpetual.slots.harness": "WAYS FilePlan Harness ListCommand Scaffold",
    "perpetual.slots.kinds": "EventKind Field RecordKind",
    "perpetual.slots.mcp": "LabOpener McpServer ToolContext",
    "perpetual.slots.memory": "Memory NoteCommit PathRefused",
    "perpetual.slots.placement": (
        "DeviceStatus EnginePlacement GpuClaim GpuNeed GpuProcessStatus GpuStatus InstanceStatus Lease LiveRun "
        "Placement PlacementProject PlacementRequest PlacementSettings PlacementView QueuedRun RunNote Survey "
        "Waits"
    ),
    "perpetual.science.planner": "Planner Refusal StandInGap",
    "perpetual.slots.redactor": "MASK Redactor Span",
    "perpetual.slots.scaffolder": "OfferedHarness ScaffoldAnswer ScaffoldView ScaffoldedFile Scaffolder",
    "perpetual.slots.scheduler": "EndUnreadable LaunchError LaunchSpec Launched Scheduler Sighting",
    "perpetual.slots.scorer": "Scorer ScorerState",
    "perpetual.slots.sections": "Check Finding Section StatusSection",
    "perpetual.slots.service": "Service StopSignal",
    "perpetual.slots.service_host": "ServiceHost",
    "perpetual.slots.store": (
        "META Capabilities Change Document Row StoreBase StoreKind StoreMeta StorePage Transaction"
    ),
    "perpetual.slots.table": "SLOTS Slot Suite Template",
    "perpetual.toolkit.deprecation": "PerpetualDeprecationWarning",
    "perpetual.toolkit.secret": "Secret",
    "perpetual_cli.options": "PersonOption json_object key_option page_options",
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME_OF)
# names of API 1, replaced in 0.1.0
_REPLACED = {
    "Face": "CliContext",
    "Kind": "StoreKind",
    "Meta": "StoreMeta",
    "Page": "StorePage",
    "Provenance": "TextProvenance",
    "Reading": "GpuReading",
    "State": "ScorerState",
    "pass_face": "pass_cli",
}


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
