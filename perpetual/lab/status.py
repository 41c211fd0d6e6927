"""`lab.status`: one document of where the lab stands, kept beside the store so that reading it is instant.

`status.json` is a projection: it carries the token of the store's head and of the configuration files it was computed
from, and is trusted only while both are the same. A reader that finds it stale computes it anew and replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING

from perpetual.brief import for_agents
from perpetual.lab.context import Context
from perpetual.lab.evidence.family import tested
from perpetual.lab.kinds import EVENT, EXPERIMENT, HYPOTHESIS, RUN, ExperimentRow, HypothesisRow
from perpetual.lab.ledger.archive import is_archived
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.ledger.tagged import tagged
from perpetual.lab.permissions import for_agent
from perpetual.lab.state_token import Present
from perpetual.lab.trust_questions import held_items
from perpetual.records import one_line
from perpetual.records.states import EXPERIMENT_STATES, HYPOTHESIS_STATES, NOTE_STATES
from perpetual.science.discoveries import base_rate, discoveries, expected_false, in_words
from perpetual.science.versions import baseline_to_renew, is_stale
from perpetual.science.wording import leans
from perpetual.slots.store import Document
from perpetual.toolkit.causes import reason_with_cause
from perpetual.toolkit.service_state import service_states
from perpetual.toolkit.status_file import FIRST_STEP, STATUS_FILE, read_status

if TYPE_CHECKING:
    from perpetual.documents.status import (
        BriefFacts,
        FamilyNow,
        HypothesisLine,
        LabStatus,
        NoteLine,
        ProposedLine,
        ResultLine,
        RunLine,
        SectionNow,
    )
    from perpetual.documents.trust import HeldLine
    from perpetual.lab.bodies import HypothesisBody, RunBody
    from perpetual.lab.budget import Budget
    from perpetual.lab.kinds import ExperimentRow, KindName
    from perpetual.slots.store_rows import Body

__all__ = ["Status"]

ALPHA = 0.05  # false discovery rate where the methodology declares none
TOP = 20
_RECENT = 8
_LONGEST_COMMAND = 200  # characters of one that waits
_OFFERED = 3  # of each sort of step


class Status:
    """Computes the document and keeps it."""

    def __init__(
        self,
        ctx: Context,
        budget: Budget,
        sections: Callable[[], dict[str, SectionNow]],
        progress: Callable[[Sequence[str]], dict[str, dict[str, object]]],
        notes: Callable[[int], list[NoteLine]],
    ) -> None:
        self._ctx, self._runs = ctx, RunRecords(ctx)
        self._budget, self._sections, self._progress, self._notes = budget, sections, progress, notes
        self._present = Present(ctx)

    def document(self) -> LabStatus:
        """Returns `perpetual status` as JSON, with `brief` (what only the brief needs) and the reader's next steps."""
        found: LabStatus = {**self._document(), "services": service_states(str(self._ctx.folder))}
        if active := found["runs"]["active"]:
            now = self._progress([run["id"] for run in active if run["status"] == "running"])
            active = [{**run, "progress": now.get(run["id"])} for run in active]
            found["runs"] = {**found["runs"], "active": active}
        return for_agents(found) if for_agent(self._ctx) else found

    def _document(self) -> LabStatus:
        token = self._present.token()  # before anything is read: what changes meanwhile is of a later state
        kept = None if token is None else read_status(str(self._ctx.folder), token)
        if kept is not None:
            return kept
        self._ctx.config.refresh()  # a program that lives long has read the rules at its start
        document = self._ctx.redaction.shown_status(self._compute())
        if token is not None:
            self._keep(token, document)
        return document

    def _keep(self, token: str, document: LabStatus) -> None:
        from perpetual.toolkit.atomic import dump_json, write_atomic

        if self._ctx.trust.is_held:
            return  # a held project is only read
        text = dump_json({"token": token, "document": document})
        try:
            # A lost projection is computed again, so it need not be durable.
            write_atomic(self._ctx.folder / STATUS_FILE, text, durable=False)
        except OSError:
            return  # a read-only project can still be looked at

    def _compute(self) -> LabStatus:
        store = self._ctx.store
        live = self._runs.live()
        held = sorted({run.body["experiment_id"] for run in live if run.body.get("code_held")})
        top = self._top()
        hidden = Counter[str](item.body["status"] for item in self._archived(EXPERIMENT))
        by_status = dict(Counter(self._counts("experiment", EXPERIMENT_STATES)) - hidden)
        trust = self._ctx.trust
        foreign: list[HeldLine] = [
            {"kind": item.kind, "subject": item.subject, "why": item.why} for item in held_items(self._ctx)
        ]
        document: LabStatus = {
            "project": self._ctx.config["project"],
            "seq": store.count("event"),
            "experiments": by_status,
            "hypotheses": [
                {**_hypothesis_line(item.body), "stale": is_stale(item.body.get("cautions", ()))} for item in top
            ],
            "hypotheses_total": store.count("hypothesis") - len(self._archived(HYPOTHESIS)),
            "runs": {
                "active": [_run_line(run.body) for run in live if run.body["status"] != "queued"][:TOP],
                "queued": sum(run.body["status"] == "queued" for run in live),
            },
            "budget": self._budget.totals(),
            "memory": self._counts("note", NOTE_STATES),
            "approvals_waiting": by_status.get("proposed", 0) + len(held),
            "queue": self._runs.queue_state(),
            "trust": {"state": trust.state(), "why": trust.why, "held": foreign[:TOP], "held_total": len(foreign)},
            "family": self._family(),
            "next": [],
            "sections": self._sections(),
            "brief": self._brief(top),
        }
        document["next"] = ["perpetual trust"] if trust.is_held else self._next(document, held)
        if foreign and not trust.is_held:
            document["next"].insert(0, "perpetual trust --show")
        return document

    def _family(self) -> FamilyNow:
        """Returns what is said of all tested claims together; a decision by hand was no test."""
        bodies = tested(self._ctx)
        for_it = {body["id"]: body["e_support"] for body in bodies}
        supported = [body["id"] for body in bodies if body["status"] == "supported"]
        alpha = self._ctx.config.methodology["alpha"] or ALPHA
        # At most one of a claim's two e-values is of a statement that is true, so the larger one serves for both.
        found = discoveries({body["id"]: max(body["e_support"], body["e_refute"]) for body in bodies}, alpha)
        share = base_rate(for_it.values())
        false = expected_false(for_it, supported, share)
        return {
            "tested": len(bodies),
            "supported": len(supported),
            "expected_false": false,
            "base_rate": share if bodies else None,
            "alpha": alpha,
            "discoveries": found,
            "sentence": in_words(len(bodies), len(supported), false, found, share),
        }

    def _counts(self, kind: str, states: Sequence[str]) -> dict[str, int]:
        """Returns how many there are in each state that any is in."""
        counts = {state: self._ctx.store.count(kind, status=state) for state in states}
        return {state: count for state, count in counts.items() if count}

    def _top(self) -> list[HypothesisRow]:
        """Returns the hypotheses that are shown.

        The open ones first, the newest of each status first, at most `TOP`.
        """
        found: list[HypothesisRow] = []
        for state in HYPOTHESIS_STATES:
            if len(found) < TOP:
                found += self._newest(HYPOTHESIS, TOP - len(found), status=state)
        return found

    def _each(self, kind: KindName[Body], status: str) -> Iterator[Document[Body]]:
        """Yields all that match, oldest first, read a page at a time, so that early ends of the loop read few pages."""
        cursor: str | None = None
        while True:
            page = self._ctx.store.page(kind, limit=TOP, cursor=cursor, status=status)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    def _newest(self, kind: KindName[Body], limit: int, status: str | None = None) -> Sequence[Document[Body]]:
        equals: dict[str, object] = {} if status is None else {"status": status}
        page = tagged(self._ctx, kind, None, limit=limit, cursor=None, archived=False, newest_first=True, **equals)
        return page.items

    def _archived(self, kind: KindName[Body]) -> Sequence[Document[Body]]:
        """Returns the rows that are hidden."""
        events = self._ctx.store.find(EVENT, kind="record_archived")
        found = (self._ctx.store.get(kind, id) for id in dict.fromkeys(item.body["subject"] for item in events))
        return [item for item in found if item is not None and is_archived(item)]

    def _next(self, document: LabStatus, held: Sequence[str]) -> list[str]:
        """Returns what to do next, the most useful first.

        Each line is a command that works as it stands or names its slot.
        """
        store, steps = self._ctx.store, []
        confirm = self._ctx.config.methodology["require_confirmation"]
        if document["runs"]["active"]:
            live = [*dict.fromkeys(run["experiment_id"] for run in document["runs"]["active"])][:_OFFERED]
            steps.append(f"perpetual wait {' '.join(live)}  (runs are live; it records how they end)")
        proposed = [item.id for item in store.page(EXPERIMENT, limit=5, status="proposed").items]
        if proposed:
            steps.append(f"perpetual approve {' '.join(proposed)}")
        if held:  # their code was changed since
            steps.append(f"perpetual approve {' '.join(held[:_OFFERED])}")
        begun = merge(
            *(self._each(EXPERIMENT, status=state) for state in ("approved", "active")), key=lambda item: item.number
        )
        lacking = (
            item.id
            for item in begun
            if not item.body["design"].get("runs_of")
            and sum(item.body["runs"].values()) < item.body["design"]["replicates"]
            and self._ctx.trust.counts(item.id, item.body)  # another one is refused, and shown by `perpetual trust`
        )
        ready = [*islice(lacking, _OFFERED)]
        steps += [f"perpetual run {id}" for id in ready]
        opened = store.page(HYPOTHESIS, limit=1, status="open").items
        waiting = self._each(HYPOTHESIS, status="open") if confirm else ()
        unconfirmed = [*islice((item.id for item in waiting if item.body.get("needs") == "confirmation"), _OFFERED)]
        steps += [
            f"perpetual propose -h {id} --confirmation --command '... on data kept back'  ({id} is past the threshold)"
            for id in unconfirmed
        ]
        if not proposed:
            stale = (baseline_to_renew(item.body.get("cautions", ())) for item in self._each(HYPOTHESIS, "open"))
            steps += [
                f"perpetual rebaseline {id}  (it ran on other code, data or environment than its claims)"
                for id in dict.fromkeys(islice(filter(None, stale), _OFFERED))
            ]
        if opened and not proposed and not ready and not document["runs"]["active"]:
            first = opened[0].body
            metric = "" if first["prediction"]["metric"] else " --metric NAME ..."
            step = f"perpetual propose -h {opened[0].id} --command 'python train.py ...'{metric}"
            if first.get("more_runs") and first["effect"]:
                step = f"perpetual try --more {first['effect']['experiments'][0]} --replicates {first['more_runs']}"
            steps.append(step)
        if not store.count("hypothesis"):
            over = ((it.id, it.body) for it in self._each(EXPERIMENT, "analysed") if not it.body.get("archived"))
            found = next((id for id, body in over if body["design"]["metric"] and body["runs"].get("done")), None)
            first_claim = FIRST_STEP if not store.count("experiment") else 'perpetual hypotheses add "what you believe"'
            steps.append(f"perpetual try 'COMMAND' --against {found}" if found else first_claim)
        elif not opened:
            steps += [
                f"perpetual try --more {line['effect']['experiments'][0]}  ({line['id']} leans: more runs make it sure)"
                for line in document["hypotheses"][:_OFFERED]
                if line["status"] == "supported"
                and line["effect"]
                and leans("supported", line["false_alarm_bound"], line["effect"])
            ]
            steps.append("perpetual report  (every hypothesis is decided or parked)")
        return steps

    def _brief(self, top: Sequence[HypothesisRow]) -> BriefFacts:
        """Returns the newest results and the dead ends, for the agent's brief."""
        finished = [run for run in self._newest(RUN, TOP) if run.body["ended_at"]][:_RECENT]
        results: list[ResultLine] = []
        for run in finished:
            experiment = self._ctx.need(EXPERIMENT, run.body["experiment_id"]).body
            declared = experiment["design"]["metric"]  # what the run was for comes first
            named = sorted(run.body["metrics"].items(), key=lambda item: item[0] != declared)
            metrics = {name: value for name, value in named if value is not None}
            results.append(
                {
                    "id": run.id,
                    "experiment_id": run.body["experiment_id"],
                    "title": experiment["title"],
                    "status": run.body["status"],
                    "reason": reason_with_cause(run.body["reason"], run.body.get("annotations", ())),
                    "metrics": dict(list(metrics.items())[:3]),
                }
            )
        refuted = self._newest(HYPOTHESIS, _RECENT, status="refuted")[::-1]
        return {
            "proposed": [
                self._proposed(item) for item in self._ctx.store.page(EXPERIMENT, limit=5, status="proposed").items
            ],
            "results": results,
            "dead_ends": [_hypothesis_line(item.body) for item in refuted],
            "cautions": {item.id: item.body["cautions"] for item in (*top, *refuted) if item.body.get("cautions")},
            "notes": self._notes(_RECENT),
            "strategy": self._ctx.config.methodology["exploration_strategy"],
            "is_redacted": True,  # kept ones of earlier versions are not
            "agents_may_approve": self._ctx.config.methodology["agents_may_approve"],
        }

    def _proposed(self, experiment: ExperimentRow) -> ProposedLine:
        """Returns an experiment that waits for a person, with its command where the title does not say it."""
        body = self._ctx.redaction.shown_specification(experiment.body)
        title, command = one_line(body["title"]), one_line(body["command"] or "")
        shown = command if len(command) <= _LONGEST_COMMAND else command[: _LONGEST_COMMAND - 3] + "..."
        return {"id": experiment.id, "title": title, "command": None if command in ("", title) else shown}


def _hypothesis_line(body: HypothesisBody) -> HypothesisLine:
    """Returns a hypothesis in the status; what came later is missing in older rows."""
    return {
        "id": body["id"],
        "statement": body["statement"],
        "status": body["status"],
        "confidence": body["confidence"],
        "false_alarm_bound": body.get("false_alarm_bound"),
        "evidence_count": body["evidence_count"],
        "counting": body.get("counting"),
        "decided_by": body.get("decided_by"),
        "effect": body.get("effect"),
        "sentence": body.get("sentence"),
    }


def _run_line(body: RunBody) -> RunLine:
    return {
        "id": body["id"],
        "experiment_id": body["experiment_id"],
        "replicate": body["replicate"],
        "status": body["status"],
        "started_at": body["started_at"],
        "reason": body["reason"],
        "gpus": body["gpus"],
        "pid": body["pid"],
    }
