"""Writes `plugins/perpetual_cli/schemas/NAME.json`, the JSON schema of each document that a command answers.

Derived from the records, from `perpetual.documents` and from the `documents` of the bundled plugins; run after
changing one of them (`make schemas`). With `--check` nothing is written, and the exit status is 1 if a file is not
what would be written now.
"""

from __future__ import annotations

import json
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import TypeAdapter

from perpetual import records
from perpetual.api import Event, Evidence, Experiment, GpuStatus, Hypothesis, Note, Record, Run
from perpetual.documents import TypedDict
from perpetual.documents.kinds import KindOfRecord
from perpetual.documents.ledger import ApproveToken, Archived, Init, Leaderboard, Refolded, Undone
from perpetual.documents.machine import Completion, Doctor, Help, Setting
from perpetual.documents.memory import (
    MemoryClone,
    MemoryWrite,
    NoteHistory,
    NoteHit,
    NoteText,
    NoteWaiting,
    VerdictDocument,
)
from perpetual.documents.page import Page
from perpetual.documents.plugins import Plugin, Plugins
from perpetual.documents.provenance import Provenance
from perpetual.documents.runs import Logs, Queue, RunPage, RunPlan, Scan
from perpetual.documents.services import ServiceLine
from perpetual.documents.status import Brief, Budget, Error, Hook, StatusDocument, Version
from perpetual.documents.store import StoreCompact, StoreExport, StoreImport, StoreMigrate, StoreStats, StoreVerify
from perpetual.documents.trust import Trust, Trusted, TrustRevoked
from perpetual_adopt.documents import Adoption
from perpetual_agents.documents import (
    AgentDeleted,
    AgentDocument,
    AgentExported,
    AgentFork,
    AgentLine,
    AgentPruned,
    AgentRestored,
    AgentToolLine,
    CheckpointDocument,
    GoalDocument,
    MessageDocument,
    StepDocument,
)
from perpetual_agents.event_documents import ApprovalDocument, TimerDocument
from perpetual_agents.memory_documents import (
    ConsolidatedDocument,
    MemoryDeleted,
    MemoryDocument,
    MemoryHitDocument,
    MemoryUndone,
    MemoryWriteDocument,
)
from perpetual_artifacts.documents import Gc
from perpetual_autonomy.documents import Calibration, RightChanged, Rights
from perpetual_believed.documents import Believed
from perpetual_campaign.documents import Campaign, CampaignBranches, CampaignLine, Candidate
from perpetual_curves.documents import Curves, LiveRunDocument
from perpetual_daemon.documents import DaemonCycle, DaemonExit, DaemonLog, DaemonPlan, DaemonStatus, DaemonUnit
from perpetual_demo.documents import Demo
from perpetual_devkit.documents import (
    Chaos,
    PluginNew,
    PluginsCheck,
    PluginsInstall,
    PluginsRemove,
    PluginsSearch,
    Uninstall,
)
from perpetual_devkit.overnight import OvernightCertificate
from perpetual_digest.documents import Digest
from perpetual_export.documents import Crate, Export
from perpetual_find.documents import Found
from perpetual_harnesses.dispatch.documents import AskDocument, LoginDocument, TurnDocument, WordsDocument
from perpetual_lineage.documents import Lineage, Rejection
from perpetual_loop.documents import Auto, AutoNext
from perpetual_mirrors.documents import MirrorPushes
from perpetual_notes.documents import NoteType
from perpetual_notify.documents import NotifyList, NotifySend, NotifyTest
from perpetual_optuna.documents import SweepPruned
from perpetual_recall.documents import BlockDocument, Explained, NotePrice, NoteWorth
from perpetual_replay.documents import Bisection, Replays
from perpetual_report.documents import Comparison, Reference, Report, SiteReport, Verification
from perpetual_scorers.documents import (
    Aa,
    AaPlan,
    BenchPolicy,
    SweepClaimed,
    SweepDocument,
    SweepImportanceDocument,
    SweepLine,
)
from perpetual_scorers.plan_documents import Overturn, Power
from perpetual_stoppers.documents import EarlyStop
from perpetual_thinkers.documents import ThoughtDocument, ThoughtLine
from perpetual_try.documents import Tried, TryPlan
from perpetual_watch.documents import Watch

FOLDER = Path(__file__).resolve().parent.parent / "plugins" / "perpetual_cli" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_RECORDS = {name for name in records.__all__ if is_dataclass(getattr(records, name))}


def readable(kind: Any) -> Any:
    """Returns a `TypedDict` of the standard library as pydantic reads it on this Python, those in its lists as well."""
    if get_origin(kind) is list:
        return list[readable(get_args(kind)[0])]  # type: ignore[misc]
    if sys.version_info >= (3, 12) or not is_typeddict(kind):
        return kind
    keys = {name: readable(hint) for name, hint in get_type_hints(kind).items()}
    made: Any = TypedDict(kind.__name__, keys)  # type: ignore[misc]
    made.__doc__ = kind.__doc__
    return made


# name -> a record or a TypedDict; of a tuple, the keys of all and the words of the last
DOCUMENTS: dict[str, Any] = {
    "agent": AgentDocument,
    "agent_approval": ApprovalDocument,
    "agent_approvals": Page[ApprovalDocument],
    "agent_checkpoint": CheckpointDocument,
    "agent_checkpoints": Page[CheckpointDocument],
    "agent_comparison": AgentFork,
    "agent_deleted": AgentDeleted,
    "agent_exported": AgentExported,
    "agent_goals": Page[GoalDocument],
    "agent_memories": Page[MemoryDocument],
    "agent_memory": MemoryDocument,
    "agent_memory_consolidated": ConsolidatedDocument,
    "agent_memory_deleted": MemoryDeleted,
    "agent_memory_hits": Page[MemoryHitDocument],
    "agent_memory_undone": MemoryUndone,
    "agent_memory_write": MemoryWriteDocument,
    "agent_message": MessageDocument,
    "agent_messages": Page[MessageDocument],
    "agent_pruned": AgentPruned,
    "agent_restored": AgentRestored,
    "agent_steps": Page[StepDocument],
    "agent_timer": TimerDocument,
    "agent_timers": Page[TimerDocument],
    "agent_tools": Page[AgentToolLine],
    "agents": Page[AgentLine],
    "calibration": readable(Calibration),
    "campaign": readable(Campaign),
    "campaign_branches": readable(CampaignBranches),
    "campaign_candidate": readable(Candidate),
    "campaigns": Page[CampaignLine],
    "aa": Aa,
    "aa_plan": AaPlan,
    "adoption": Adoption,
    "approve_token": ApproveToken,
    "auto": readable(Auto),
    "auto_next": AutoNext,
    "believed": Believed,
    "memory_bisect": Bisection,
    "memory_bisections": Page[Bisection],
    "memory_replay": Replays,
    "bench_policy": BenchPolicy,
    "archived": Archived,
    "brief": Brief,
    "budget": Budget,
    "chaos": Chaos,
    "chaos_daemon": OvernightCertificate,
    "comparison": Comparison,
    "completion": Completion,
    "config": Page[Setting],
    "crate": Crate,
    "curves": Curves,
    "daemon_cycle": DaemonCycle,
    "daemon_exit": DaemonExit,
    "daemon_log": DaemonLog,
    "daemon_plan": DaemonPlan,
    "daemon_status": DaemonStatus,
    "daemon_unit": DaemonUnit,
    "demo": Demo,
    "digest": readable(Digest),
    "early_stop": readable(EarlyStop),
    "doctor": Doctor,
    "error": Error,
    "event": Event,
    "events": Page[Event],
    "evidence": Evidence,
    "evidence_list": Page[Evidence],
    "experiment": Experiment,
    "experiments": Page[Experiment],
    "export": Export,
    "found": readable(Found),
    "memory_block": readable(BlockDocument),
    "memory_explained": Page[Explained],
    "memory_worth": Page[NoteWorth],
    "gc": Gc,
    "gpu_status": readable(GpuStatus),
    "help": Help,
    "hypotheses": Page[Hypothesis],
    "hypothesis": Hypothesis,
    "init": Init,
    "leaderboard": Leaderboard,
    "logs": Logs,
    "memory_clone": MemoryClone,
    "memory_lineage": readable(Lineage),
    "memory_decision": Rejection,
    "memory_scan": VerdictDocument,
    "memory_write": MemoryWrite,
    "methodology": Page[Setting],
    "mirror": readable(MirrorPushes),
    "note": (Note, NotePrice, NoteText),
    "note_history": NoteHistory,
    "note_hits": Page[NoteHit],
    "note_types": Page[NoteType],
    "notify_list": readable(NotifyList),
    "notify_send": readable(NotifySend),
    "notify_test": readable(NotifyTest),
    "note_queue": Page[NoteWaiting],
    "notes": Page[Note],
    "overturn": Overturn,
    "plugin": Plugin,
    "plugin_new": PluginNew,
    "plugins": Plugins,
    "plugins_check": PluginsCheck,
    "plugins_install": PluginsInstall,
    "plugins_remove": PluginsRemove,
    "plugins_search": PluginsSearch,
    "power": Power,
    "provenance": Provenance,
    "queue": Queue,
    "record": Record,
    "record_kinds": Page[KindOfRecord],
    "records": Page[Record],
    "refold": Page[Refolded],
    "report": Report,
    "right_changed": RightChanged,
    "rights": Rights,
    "run": (LiveRunDocument, Run),
    "run_plan": RunPlan,
    "runs": RunPage,
    "scan": Scan,
    "service": ServiceLine,
    "services": Page[ServiceLine],
    "setting": Setting,
    "status": StatusDocument,
    "site": SiteReport,
    "store_compact": StoreCompact,
    "store_export": StoreExport,
    "store_import": StoreImport,
    "store_migrate": StoreMigrate,
    "store_stats": StoreStats,
    "store_verify": StoreVerify,
    "sweep": SweepDocument,
    "sweep_claim": SweepClaimed,
    "sweep_importance": SweepImportanceDocument,
    "sweep_pruned": SweepPruned,
    "sweeps": Page[SweepLine],
    "thought": ThoughtDocument,
    "thoughts": Page[ThoughtLine],
    "ask": AskDocument,
    "words": WordsDocument,
    "logins": Page[LoginDocument],
    "turn": TurnDocument,
    "turns": Page[TurnDocument],
    "trust": Trust,
    "trust_revoked": TrustRevoked,
    "trusted": Page[Trusted],
    "try": Tried,
    "try_plan": TryPlan,
    "undone": Undone,
    "uninstall": Uninstall,
    "references": Page[Reference],
    "verification": Verification,
    "version": Version,
    "watch": readable(Watch),
}

# An experiment that a dry run would propose has no id yet.
DRY_RUN = frozenset({"experiment", "experiments"})

# In another program's form, so without our `schema` key.
FOREIGN: dict[str, Any] = {"hook": Hook}


def schema_of(name: str, document: Any, *, ours: bool = True) -> dict[str, Any]:
    """Returns the schema of one document; `ours` requires the key `schema` with the document's name and version."""
    title = f"perpetual.{name}/1"
    properties: dict[str, Any] = {"schema": {"const": title}} if ours else {}
    shared: dict[str, Any] = {}
    required, description = [*properties], ""
    for part in document if isinstance(document, tuple) else (document,):
        derived = _tidy(TypeAdapter(part).json_schema(mode="serialization"))
        properties |= derived["properties"]
        required += derived.get("required", [])
        shared |= derived.get("$defs", {})
        description = derived.get("description", "")
    if name in DRY_RUN:
        planned = shared["Experiment"]["properties"] if "Experiment" in shared else properties
        planned["id"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    return {
        "$schema": DIALECT,
        "$id": f"urn:perpetual:{name}:1",
        "title": title if ours else name,
        "description": description,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": True,
        "$defs": shared,
    }


def _tidy(node: Any, *, is_schema: bool = True) -> Any:
    """Returns the schema without titles and defaults; a record's keys are always there, default or not."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    if not is_schema:  # a mapping of names to schemas
        return {name: _tidy(item) for name, item in node.items()}
    tidy = {
        key: _tidy(value, is_schema=key not in ("properties", "$defs"))
        for key, value in node.items()
        if key not in ("title", "default")
    }
    if node.get("title") in _RECORDS and "properties" in node:
        tidy["required"] = list(node["properties"])
    return tidy


def render() -> dict[str, str]:
    """Returns every file's name and text."""
    schemas = {name: schema_of(name, document) for name, document in DOCUMENTS.items()}
    schemas |= {name: schema_of(name, document, ours=False) for name, document in FOREIGN.items()}
    return {f"{name}.json": json.dumps(schema, indent=2) + "\n" for name, schema in sorted(schemas.items())}


def stale() -> list[str]:
    """Returns the names of files that are missing, out of date, or of no document any more."""
    wanted = render()
    found = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    return sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))


def main(arguments: list[str]) -> int:
    """Writes what is stale, or with `--check` names it."""
    names = stale()
    if "--check" in arguments:
        for name in names:
            print(f"stale: {FOLDER / name} (run tools/make_schemas.py)", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    wanted = render()
    for name in names:
        path = FOLDER / name
        if name in wanted:
            path.write_text(wanted[name], "utf-8")
        else:
            path.unlink()
        print(f"{'wrote' if name in wanted else 'removed'} {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
