"""The documents that commands answer and that are no records: their keys and types, for the JSON schemas.

Imported by `tools/make_schemas.py` and the tests; no command needs it. `DOCUMENTS` names every schema: a record as
itself, a list as the plural, anything else as a `TypedDict` of one of the modules beside this one, a family each. Keys
may be added; a key that stands stays.
"""

from __future__ import annotations

from typing import Any

from perpetual.api import Event, Evidence, Experiment, GpuStatus, Hypothesis, Note, Record, Run
from perpetual_cli.documents.bundled import Adoption, BenchPolicy, Chaos, Comparison, Demo, Report, Verification
from perpetual_cli.documents.ledger import ApproveToken, Init, Refolded
from perpetual_cli.documents.machine import Completion, Doctor, Setting
from perpetual_cli.documents.memory import MemoryDecision, MemoryWrite, NoteHistory, NoteHit, NoteText, NoteWaiting
from perpetual_cli.documents.page import Page
from perpetual_cli.documents.plugins import (
    Plugin,
    PluginNew,
    Plugins,
    PluginsCheck,
    PluginsInstall,
    PluginsRemove,
    PluginsSearch,
    Uninstall,
)
from perpetual_cli.documents.provenance import Provenance
from perpetual_cli.documents.records import KindOfRecord
from perpetual_cli.documents.runs import Logs, Queue, RunPlan, Scan
from perpetual_cli.documents.services import ServiceLine
from perpetual_cli.documents.state import Brief, Budget, Error, Hook, StatusDocument, Version
from perpetual_cli.documents.store import StoreCompact, StoreExport, StoreImport, StoreMigrate, StoreStats, StoreVerify
from perpetual_cli.documents.trust import Trust, Trusted, TrustRevoked
from perpetual_cli.documents.typed import readable

__all__ = ["DOCUMENTS", "DRY_RUN", "FOREIGN"]

# name -> a record or a TypedDict; of a tuple, the keys of all and the words of the last
DOCUMENTS: dict[str, Any] = {
    "adoption": Adoption,
    "approve_token": ApproveToken,
    "bench_policy": BenchPolicy,
    "brief": Brief,
    "budget": Budget,
    "chaos": Chaos,
    "comparison": Comparison,
    "completion": Completion,
    "config": Page[Setting],
    "demo": Demo,
    "doctor": Doctor,
    "error": Error,
    "event": Event,
    "events": Page[Event],
    "evidence": Evidence,
    "evidence_list": Page[Evidence],
    "experiment": Experiment,
    "experiments": Page[Experiment],
    "gpu_status": readable(GpuStatus),
    "hypotheses": Page[Hypothesis],
    "hypothesis": Hypothesis,
    "init": Init,
    "logs": Logs,
    "memory_decision": MemoryDecision,
    "memory_write": MemoryWrite,
    "methodology": Page[Setting],
    "note": (Note, NoteText),
    "note_history": NoteHistory,
    "note_hits": Page[NoteHit],
    "note_queue": Page[NoteWaiting],
    "notes": Page[Note],
    "plugin": Plugin,
    "plugin_new": PluginNew,
    "plugins": Plugins,
    "plugins_check": PluginsCheck,
    "plugins_install": PluginsInstall,
    "plugins_remove": PluginsRemove,
    "plugins_search": PluginsSearch,
    "provenance": Provenance,
    "queue": Queue,
    "record": Record,
    "record_kinds": Page[KindOfRecord],
    "records": Page[Record],
    "refold": Page[Refolded],
    "report": Report,
    "run": Run,
    "run_plan": RunPlan,
    "runs": Page[Run],
    "scan": Scan,
    "service": ServiceLine,
    "services": Page[ServiceLine],
    "setting": Setting,
    "status": StatusDocument,
    "store_compact": StoreCompact,
    "store_export": StoreExport,
    "store_import": StoreImport,
    "store_migrate": StoreMigrate,
    "store_stats": StoreStats,
    "store_verify": StoreVerify,
    "trust": Trust,
    "trust_revoked": TrustRevoked,
    "trusted": Page[Trusted],
    "uninstall": Uninstall,
    "verification": Verification,
    "version": Version,
}

# An experiment that a dry run would propose has no id yet.
DRY_RUN = frozenset({"experiment", "experiments"})

# In another program's form, so without our `schema` key.
FOREIGN: dict[str, Any] = {"hook": Hook}
