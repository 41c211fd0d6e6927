"""What a plugin author imports: markers, records, slot bases and errors, under one name. Floor 1.

Everything here is public and stays; what is not here, in `perpetual.science`, `perpetual.toolkit`, `perpetual.loop`
or `perpetual.testing` is the kernel's own. What only some need is looked up at first use: the markers, so that a chosen
provider does not load pluggy, and what a command needs (`Face` and its companions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
)
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
)
from perpetual.slots.gate import Gate, GateFinding, GateVerdict, Provenance
from perpetual.slots.gpu import Gpu, GpuBackend, GpuProcess, MigDevice, Reading
from perpetual.slots.harness import FilePlan, Harness, Listing, Scaffold
from perpetual.slots.mcp import LabOpener, McpServer
from perpetual.slots.memory import Memory, NoteCommit, PathRefused
from perpetual.slots.scheduler import EndUnreadable, Launched, LaunchError, LaunchSpec, Scheduler, Sighting
from perpetual.slots.scorer import Scorer, State
from perpetual.slots.store import META, Capabilities, Change, Document, Kind, Meta, Page, Row, StoreBase, Transaction

if TYPE_CHECKING:
    from perpetual.cli.base import Face, json_option, page_options, pass_face, printable
    from perpetual.hookspecs import hookimpl, hookspec

__all__ = [
    # markers and offers
    "API",
    "Option",
    "Provider",
    "hookimpl",
    "hookspec",
    # commands
    "Face",
    "json_option",
    "page_options",
    "pass_face",
    "printable",
    # slots
    "Analyser",
    "Analysis",
    "Capabilities",
    "Change",
    "Document",
    "Draft",
    "EndUnreadable",
    "FilePlan",
    "Gate",
    "GateFinding",
    "GateVerdict",
    "Gpu",
    "GpuBackend",
    "GpuProcess",
    "Harness",
    "Kind",
    "LabOpener",
    "LaunchError",
    "LaunchSpec",
    "Launched",
    "Listing",
    "META",
    "McpServer",
    "Memory",
    "Meta",
    "MetricReader",
    "MetricValue",
    "MigDevice",
    "NoteCommit",
    "Page",
    "PathRefused",
    "Proposer",
    "Provenance",
    "Reading",
    "Row",
    "RunFolder",
    "Scaffold",
    "Scheduler",
    "Scorer",
    "Sighting",
    "State",
    "StoreBase",
    "Transaction",
    # records
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
]

_LATER = {
    **dict.fromkeys(("hookimpl", "hookspec"), "perpetual.hookspecs"),
    **dict.fromkeys(("Face", "json_option", "page_options", "pass_face", "printable"), "perpetual.cli.base"),
}


def __getattr__(name: str) -> Any:
    home = _LATER.get(name)
    if home is None:
        raise AttributeError(f"module 'perpetual.api' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)
