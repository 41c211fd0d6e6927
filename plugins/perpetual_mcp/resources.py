"""The resources: the live state of the research, and records by their ids. Used by `perpetual_mcp.server`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from perpetual import Lab
from perpetual.api import NotFound, PerpetualError, to_json
from perpetual.toolkit.fence import FENCE_BYTES, fence
from perpetual.toolkit.units import counted, shown_bound
from perpetual.toolkit.untrusted import seal
from perpetual_mcp.bounds import MOST_TOKENS, end, error_text, fit, piece, plain, size
from perpetual_mcp.read_tools import was_read
from perpetual_mcp.sessions import Labs

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from perpetual.api import Event

__all__ = ["RESOURCE", "TEMPLATES", "add_resources", "live_state", "uris_of"]

RESOURCE = "live-state://research"
TEMPLATES = ("experiment://{id}", "hypothesis://{id}", "run://{id}/log", "memory://{+path}")
_BRIEF_TOKENS = 800
_LINES = 20
_FENCE_TOKENS = -(-FENCE_BYTES // 4) + 20  # with the name of a source, and what stands around it


def live_state(lab: Lab) -> str:
    """Returns what `status`, `hypotheses list` and `budget` show, and the methodology in force, as Markdown."""
    status, spent = lab.status(), lab.budget.show()
    budget = status["budget"]
    page = lab.hypotheses.list(limit=_LINES)
    limit = "unlimited" if budget["limit_gpu_hours"] is None else f"{budget['limit_gpu_hours']:g}"
    experiments = ", ".join(f"{count} {name}" for name, count in status["experiments"].items())
    notes = ", ".join(f"{count} {name}" for name, count in status["memory"].items())
    own = [
        lab.brief(_BRIEF_TOKENS),
        "",
        "## Status",
        f"- experiments: {experiments or 'none'}; {status['approvals_waiting']} wait for a person",
        f"- runs: {len(status['runs']['active'])} live, {status['runs']['queued']} queued",
        f"- the queue is {status['queue']}",
        f"- memory: {notes or 'no notes'}",
        "",
        "## Budget",
        f"- GPU-hours: {spent['spent_gpu_hours']:.3f} spent of {limit}, {spent['reserved_gpu_hours']:.3f} reserved",
        f"- run-hours: {spent['run_hours']:.4f} used",
        *(
            f"- {key}: {line['run_hours']:.4f} run-hours, {line['gpu_hours']:.3f} GPU-hours, "
            f"{counted(line['runs'], 'run')}"
            for key, line in [*spent["by_hypothesis"].items()][:_LINES]
        ),
        "",
        "",
    ]
    foreign = [
        "## Hypotheses",
        *(
            f"- {item.id} {item.status}{', archived,' if item.archived else ''} confidence {item.confidence:.3f}, "
            f"false-alarm bound {shown_bound(item.false_alarm_bound)}, {counted(item.evidence_count, 'row')}: "
            f"{plain(item.statement, 110)}"
            for item in page.items
        ),
        *(["- more: the tool perpetual_hypotheses"] if page.next_cursor else []),
        "",
        "## Methodology in force",
        *(f"- {item.key}: {plain(json.dumps(item.value), 110)} ({item.origin})" for item in lab.settings.methodology()),
    ]
    head = "\n".join(own)
    text, rest = piece("\n".join(foreign), 0, MOST_TOKENS - size(head) - _FENCE_TOKENS)
    return head + fence(text) + ("" if rest is None else "\n(cut)")


def _record(name: str, record: object) -> str:
    document = {"schema": f"perpetual.{name}/1", **to_json(record)}
    return json.dumps(seal(fit(document, MOST_TOKENS)), ensure_ascii=False, indent=1)


def _log(lab: Lab, id: str) -> str:
    parts = []
    for stderr in (False, True):
        try:
            found = lab.runs.logs(id, stderr=stderr, tail=400)
        except NotFound as problem:
            if problem.code != "no_output":
                raise
            continue
        text = found["text"]
        shown, is_cut = end(text, MOST_TOKENS // 2 - _FENCE_TOKENS)
        note = " (its end)" if is_cut or found["truncated"] else ""
        if text:
            source = f"{found['stream']} of {found['run_id']}"
            parts.append(f"--- {source}{note}\n{fence(shown, source)}")
    return "\n".join(parts) or f"{id} has written nothing"


def _note(lab: Lab, path: str) -> str:
    text, rest = piece(lab.memory.read(path), 0, MOST_TOKENS - _FENCE_TOKENS)
    was_read(lab, [path])
    shown = fence(text, "a note")
    return shown if rest is None else f"{shown}\n(cut: the tool perpetual_memory shows the rest)"


def add_resources(server: MCPServer[object], labs: Labs) -> None:
    """Adds the live state and the templates."""
    server.resource(
        RESOURCE,
        name="research",
        title="State of the research",
        description="The brief, status, hypotheses, budget, and the methodology in force.",
        mime_type="text/markdown",
    )(_guarded(labs, live_state))
    experiments, hypotheses, runs, memory = TEMPLATES

    def experiment(id: str) -> str:
        return _read(labs, lambda lab: _record("experiment", lab.experiments.get(id)))

    def hypothesis(id: str) -> str:
        return _read(labs, lambda lab: _record("hypothesis", lab.hypotheses.get(id)))

    def log(id: str) -> str:
        return _read(labs, lambda lab: _log(lab, id))

    def note(path: str) -> str:
        return _read(labs, lambda lab: _note(lab, path))

    for uri, function, mime_type, title in (
        (experiments, experiment, "application/json", "An experiment"),
        (hypotheses, hypothesis, "application/json", "A hypothesis"),
        (runs, log, "text/plain", "The output of a run"),
        (memory, note, "text/markdown", "A note"),
    ):
        server.resource(uri, name=function.__name__, title=title, description=f"{title}, by its name.",
                        mime_type=mime_type)(function)  # fmt: skip


def _read(labs: Labs, read: Callable[[Lab], str]) -> str:
    """Returns what a resource holds, or raises the reason, with its code, as the protocol's own error."""
    from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

    try:
        return read(labs.lab())
    except PerpetualError as problem:
        kind = ResourceNotFoundError if isinstance(problem, NotFound) else ResourceError
        raise kind(f"{problem.code}\n{error_text(problem)}") from problem


def _guarded(labs: Labs, read: Callable[[Lab], str]) -> Callable[[], str]:
    def research() -> str:
        return _read(labs, read)

    return research


_FAMILIES = {"e": "experiment://{}", "h": "hypothesis://{}", "r": "run://{}/log"}


def uris_of(event: Event) -> list[str]:
    """Returns the resources that an event has changed; the live state is always one."""
    subject = event.subject
    if event.kind.startswith("note_"):
        return [RESOURCE, f"memory://{subject}"]
    if not subject[1:].isdecimal():
        return [RESOURCE]
    # A run changes the counts of its experiment, a row of the ledger the confidence of its hypothesis.
    whose = event.payload.get({"r": "experiment_id", "v": "hypothesis_id"}.get(subject[0], ""))
    found = [_FAMILIES[id[0]].format(id) for id in (subject, whose) if id and id[0] in _FAMILIES]
    return [RESOURCE, *found]
