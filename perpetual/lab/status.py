"""The status department: one document of where the lab stands, kept beside the store so that reading it is instant.

`status.json` is a projection: it carries the token of the store's head and of the configuration files it was computed
from, and is trusted only while both are the same. Whoever finds it stale computes it anew and replaces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perpetual.kept import STATUS_FILE, read_status
from perpetual.lab.context import Context
from perpetual.lab.present import Present
from perpetual.lab.rights import shown_version
from perpetual.slots.store import Document

if TYPE_CHECKING:  # it is given these departments and imports none
    from perpetual.lab.budget import Budget
    from perpetual.lab.runs import RunLedger

__all__ = ["Status"]

TOP = 20
_OF_HYPOTHESIS = ("id", "statement", "status", "confidence", "false_alarm_bound", "evidence_count")
_OF_RUN = ("id", "experiment_id", "replicate", "status", "started_at", "reason", "gpus", "pid")


class Status:
    """Computes the document and keeps it."""

    def __init__(self, ctx: Context, runs: RunLedger, budget: Budget) -> None:
        self._ctx, self._runs, self._budget = ctx, runs, budget
        self._present = Present(ctx)

    def document(self) -> dict[str, Any]:
        """`perpetual status` as JSON, with `brief` (what the brief needs beyond it)."""
        token = self._present.token()  # before anything is read: what changes meanwhile is of a later state
        kept = None if token is None else read_status(str(self._ctx.folder), token)
        if kept is not None:
            return kept
        self._ctx.config.refresh()  # a program that lives long was told the rules of its beginning
        document = self._compute()
        if token is not None:
            self._keep(token, document)
        return document

    def _keep(self, token: str, document: dict[str, Any]) -> None:
        from perpetual.toolkit.atomic import dump_json, write_atomic

        text = dump_json({"token": token, "document": document})
        try:
            # A lost projection is computed again, so it need not be durable.
            write_atomic(self._ctx.folder / STATUS_FILE, text, durable=False)
        except OSError:
            return  # a read-only project can still be looked at

    def _compute(self) -> dict[str, Any]:
        store = self._ctx.store
        hypotheses = store.find("hypothesis")
        experiments = store.find("experiment")
        by_status: dict[str, int] = {}
        for experiment in experiments:
            status = experiment.body["status"]
            by_status[status] = by_status.get(status, 0) + 1
        live = self._runs.live()
        notes: dict[str, int] = {}
        for note in store.find("note"):
            notes[note.body["status"]] = notes.get(note.body["status"], 0) + 1
        waiting = by_status.get("proposed", 0)
        document = {
            "project": self._ctx.config["project"],
            "seq": store.count("event"),
            "experiments": by_status,
            "hypotheses": [_pick(document, _OF_HYPOTHESIS) for document in _top(hypotheses)],
            "hypotheses_total": len(hypotheses),
            "runs": {
                "active": [_pick(run, _OF_RUN) for run in live if run.body["status"] != "queued"][:TOP],
                "queued": sum(run.body["status"] == "queued" for run in live),
            },
            "budget": self._budget.totals(),
            "memory": notes,
            "approvals_waiting": waiting,
            "queue": self._runs.queue_state(),
        }
        document["next"] = self._next(document, hypotheses, experiments)
        document["brief"] = self._brief(experiments, hypotheses)
        return document

    def _next(self, document: dict[str, Any], hypotheses: list[Document], experiments: list[Document]) -> list[str]:
        """What to do next, the most useful first; each line is a command that works as it stands or names its slot."""
        steps = []
        if document["runs"]["active"]:
            steps.append("perpetual scan  (runs are live; record those that have ended)")
        proposed = [item.id for item in experiments if item.body["status"] == "proposed"]
        if proposed:
            steps.append(f"perpetual approve {' '.join(proposed[:5])}")
        ready = [
            item.id
            for item in experiments
            if item.body["status"] in ("approved", "active")
            and sum(item.body["runs"].values()) < item.body["design"]["replicates"]
        ]
        steps += [f"perpetual run {id}" for id in ready[:3]]
        opened = [item for item in hypotheses if item.body["status"] == "open"]
        unconfirmed = [item.id for item in opened if item.body.get("needs") == "confirmation"]
        steps += [
            f"perpetual propose -h {id} --confirmation --command '... on data kept back'  ({id} is past the threshold)"
            for id in unconfirmed[:3]
        ]
        if opened and not proposed and not ready and not document["runs"]["active"]:
            steps.append(f"perpetual propose -h {opened[0].id} --command 'python train.py' --metric NAME ...")
        if not hypotheses:
            steps.append('perpetual hypotheses add "what you believe"')
        elif not opened:
            steps.append("perpetual report  (every hypothesis is decided or parked)")
        return steps

    def _brief(self, experiments: list[Document], hypotheses: list[Document]) -> dict[str, Any]:
        """The newest results and the dead ends, for the agent's brief."""
        store = self._ctx.store
        finished = [run for run in store.page("run", limit=TOP, newest_first=True).items if run.body["ended_at"]]
        titles = {item.id: item.body["title"] for item in experiments}
        metric_of = {item.id: item.body["design"]["metric"] for item in experiments}
        results = []
        for run in finished[:8]:
            declared = metric_of.get(run.body["experiment_id"])  # what the run was for comes first
            named = sorted(run.body["metrics"].items(), key=lambda item: item[0] != declared)
            metrics = {name: value for name, value in named if value is not None}
            results.append(
                {
                    "id": run.id,
                    "experiment_id": run.body["experiment_id"],
                    "title": titles.get(run.body["experiment_id"], ""),
                    "status": run.body["status"],
                    "reason": run.body["reason"],
                    "metrics": dict(list(metrics.items())[:3]),
                }
            )
        refuted = store.find("hypothesis", status="refuted")
        methodology = self._ctx.config.methodology
        notes = [note for note in store.find("note") if shown_version(note.body, methodology) is not None]
        return {
            "results": results,
            "dead_ends": [_pick(item, _OF_HYPOTHESIS) for item in refuted[-8:]],
            "cautions": {
                item.id: item.body["cautions"]
                for item in [*_top(hypotheses), *refuted[-8:]]
                if item.body.get("cautions")
            },
            "notes": [
                {"path": note.id, "title": note.body["title"], "status": note.body["status"]} for note in notes[-8:]
            ],
            "strategy": self._ctx.config.methodology["exploration_strategy"],
        }


def _top(hypotheses: list[Document]) -> list[Document]:
    """The open ones first, the newest of each status first, at most `TOP`."""
    rank = {"open": 0, "supported": 1, "refuted": 2, "parked": 3}
    return sorted(hypotheses, key=lambda item: (rank[item.body["status"]], -item.number))[:TOP]


def _pick(document: Document, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: document.body[key] for key in keys}
