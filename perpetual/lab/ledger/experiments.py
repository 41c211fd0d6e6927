"""Rows of experiments: their specifications, their approval, and the status folded from their runs."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from posixpath import normpath
from typing import TYPE_CHECKING, Any, cast

from perpetual.errors import Conflict, NotPermitted, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, HYPOTHESIS, RUN, ExperimentRow, LabTransaction
from perpetual.lab.ledger.alike import Alike
from perpetual.lab.ledger.specification import Specification
from perpetual.lab.ledger.tagged import tagged
from perpetual.lab.permissions import is_same
from perpetual.lab.redaction import CHECKED
from perpetual.records import LIVE, Experiment, Listing, Score, from_json, to_json
from perpetual.records.states import EXPERIMENT_STATES
from perpetual.toolkit.limits import LONGEST_COMMAND, fits_text
from perpetual.toolkit.units import bounded

if TYPE_CHECKING:
    from perpetual.documents.provenance import CodeStateDocument
    from perpetual.lab.bodies import DesignKeys, DraftBody

__all__ = ["ACCEPTED", "STATUSES", "ExperimentRecords", "argv_of", "command_key", "design_key", "require_unseen",
           "sources_of", "spec_hash", "words_of"]  # fmt: skip

STATUSES = EXPERIMENT_STATES

_ASK = "tell the person which one and why"
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", ";;", ">", ">>", "<", "<<", "(", ")", ">&", "|&", "&>"})


def argv_of(command: str) -> tuple[str, ...]:
    """Returns the words of a command, split as a shell splits them, but run without a shell.

    Raises:
        UsageError: for an empty command, an open quote, or a shell operator outside quotes.
    """
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        words = list(lexer)
        plain = shlex.split(command)
    except ValueError as problem:
        raise UsageError(f"the command cannot be split into words: {problem}: {command}") from problem
    if not plain:
        raise UsageError("the command is empty")
    if "\0" in command:
        raise UsageError("the command holds a NUL character, which no program can be given")
    operator = next((word for word in words if word in _OPERATORS), None)
    if operator is not None:
        raise UsageError(
            f"the command holds the shell operator {operator!r}, and commands run without a shell: {command}",
            hint=f"if you mean a shell: sh -c {shlex.quote(command)}",
        )
    first = plain[0].partition("=")
    if first[1] and first[0].isidentifier():
        raise UsageError(f"the command starts with an assignment: {plain[0]}", hint=f"put env before it: env {command}")
    return tuple(plain)


# Fields that came later: where they are not used, the hashes of earlier specifications stay as they are.
_LATER: dict[str, dict[str, object]] = {
    "resources": {"no_output_s": None, "memory_bytes": None, "nodes": None, "scheduler": None, "engine": {},
                  "isolate": False, "worktree": None, "needs_artifacts": []},
    "design": {
        "on_crash": None, "confirmation": False, "proxy": None, "proxy_of": None, "changes": None,
        "underpowered": False, "null_effect": None, "items": None, "baseline_runs": None, "guards": None,
        "stop_rule": None, "runs_of": None,
    },
}  # fmt: skip


def spec_hash(body: Mapping[str, object]) -> str:
    """Returns sha256 of the canonical JSON of command, env, cwd, config, resources and design: what approval binds."""
    parts = {key: cast(Any, body[key]) for key in ("command", "env", "cwd", "config", "resources", "design")}
    for key, unused in _LATER.items():
        parts[key] = {name: value for name, value in parts[key].items() if unused.get(name, _USED) != value}
    return _digest(parts)


def design_key(body: Mapping[str, object]) -> str:
    """Returns what makes two experiments replicates of one design: the same code and settings.

    Its replicates, resources, proposer and prediction make no new implementation of an idea, so
    such experiments share its luck (`tau`): their runs are pooled, or a claim could be repeated under another name,
    with a slightly different mde or baseline, or by another of the numbers that it prints, until it holds.
    """
    found = cast("DesignKeys", body)
    parts = {"env": found["env"], "cwd": normpath(found["cwd"] or "."), "config": _plain_numbers(found["config"])}
    claims = found["design"]["claim"] is not None
    needs = found["resources"].get("needs_artifacts") if "resources" in found else None  # other files, another design
    return _digest(
        {**parts, "command": words_of(found["command"]), "claims": claims, **({"needs": needs} if needs else {})}
    )


def command_key(body: Mapping[str, object]) -> str:
    """Returns what makes commands and settings the same, whatever is claimed of them."""
    return design_key({**body, "design": {"claim": None}})


def _plain_numbers(value: object) -> object:
    """Returns the value with whole numbers as such: 1 and 1.0 are the same setting."""
    if isinstance(value, dict):
        return {name: _plain_numbers(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def words_of(command: str | None) -> list[str] | str | None:
    """Returns the command's words, since blanks and quotes make no difference.

    Text that is no command (adopted) as it is.
    """
    try:
        return None if command is None else shlex.split(command)
    except ValueError:
        return command


def require_unseen(source: ExperimentRow) -> None:
    """Raises Conflict once an experiment has run, for a claim on its runs that is made only then."""
    if source.body["runs"]:
        raise Conflict(f"{source.id} has run, and a claim on its runs comes too late",
                       hint="propose the claim with a command: new runs", code="seen_before")  # fmt: skip


def sources_of(ctx: Context, item: ExperimentRow) -> list[str]:
    """Returns the experiments whose runs it is judged by: itself, or that whose runs it takes, with what extends it."""
    owner = item.body["design"].get("runs_of")
    return [item.id] if owner is None else [owner, *ctx.need(EXPERIMENT, owner).body.get("extended_by", [])]


NOT_TRUSTED = "its approval was made elsewhere and does not count here"
CHANGED = "it has changed since it was approved"
_USED = object()
ACCEPTED = ("approved", "active", "complete", "analysed")
_ID = re.compile(r"\b[a-z][0-9]+\b")


def _digest(parts: Mapping[str, object]) -> str:
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def _alike(ctx: Context) -> Alike:
    return Alike(ctx, command_key)


class ExperimentRecords:
    """Reads and writes the rows of experiments."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    @property
    def alike(self) -> Alike:
        """Returns the index of experiments by command and settings."""
        return self._ctx.cached(_alike)

    def drafted(self, draft: DraftBody, spec: Specification, score: Score) -> dict[str, object]:
        """Returns the record of a new proposed experiment.

        Args:
            draft: what is hashed of it (see `spec_hash`), and what is noted beside.
            spec: what it says of itself for people: title, notes, tags and priority, as they are to be kept.
        """
        self._ctx.redaction.refuse_secrets(
            draft["command"], draft["env"], draft["resources"].get("engine"),
            config=draft["config"], cwd=draft["cwd"], design=draft["design"],
        )  # fmt: skip
        return {
            **draft, CHECKED: True, "title": spec.title, "status": "proposed", "notes": spec.notes,
            "tags": [*spec.tags], "priority": spec.priority, "score": to_json(score), "runs": {},
            "proposed_by": self._ctx.actor, "approved_by": None, "created_at": self._ctx.now(),
            "spec_hash": spec_hash(draft),
        }  # fmt: skip

    def create(self, tx: LabTransaction, body: Mapping[str, object]) -> ExperimentRow:
        """Writes a new proposed experiment, as `drafted`."""
        document = tx.create(EXPERIMENT, dict(body))
        payload = {key: body[key] for key in ("hypothesis_id", "spec_hash", "title")}
        self._ctx.emit(tx, "experiment_proposed", document.id, payload)
        return document

    def get(self, id: str) -> Experiment:
        """Returns the experiment; NotFound names the nearest ids."""
        found = from_json(Experiment, self._ctx.redaction.shown_specification(self._ctx.need(EXPERIMENT, id).body))
        return _cautioned(self._ctx, [found])[0]

    @staticmethod
    def design_of(experiment: Experiment) -> str:
        """Returns what tells its design from others: a hypothesis' experiments with the same one pool their runs."""
        design = {"claim": experiment.design.claim}
        body = {"env": experiment.env, "cwd": experiment.cwd, "config": experiment.config, "design": design}
        resources = {"needs_artifacts": [*experiment.resources.needs_artifacts]}
        return design_key({**body, "command": experiment.command, "resources": resources})

    def list(
        self,
        *,
        status: str | None = None,
        hypothesis_id: str | None = None,
        tag: str | None = None,
        archived: bool = True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Listing[Experiment]:
        """Returns a page of experiments, oldest first."""
        equals: dict[str, Any] = {}
        if status is not None:
            if status not in STATUSES:
                raise UsageError(unknown("status", status, STATUSES))
            equals["status"] = status
        if hypothesis_id is not None:
            equals["hypothesis_id"] = self._ctx.need(HYPOTHESIS, hypothesis_id).id
        page = tagged(self._ctx, EXPERIMENT, tag, archived=archived, limit=limit, cursor=cursor, **equals)
        found = [from_json(Experiment, self._ctx.redaction.shown_specification(item.body)) for item in page.items]
        return Listing(tuple(_cautioned(self._ctx, found)), page.next_cursor)

    def bind(self, id: str, *, code: CodeStateDocument | None = None, again: bool = False) -> Experiment:
        """Approves the present specification: change one byte of it and it must be approved again.

        Args:
            code: the code that it would run now, which is bound as well; None where it is unknown.
            again: it is approved already, and its code is another. An approval that was made elsewhere is renewed too.

        Raises:
            Conflict: unless it is proposed.
        """
        with self._ctx.store.transaction() as tx:
            document = self._ctx.need(EXPERIMENT, id)
            body = document.body  # the caller's own copy
            is_new = body["status"] == "proposed"
            is_renewed = again or ("approved_hash" in body and not self._ctx.trust.counts(document.id, body))
            if not is_new and not (is_renewed and body.get("approved_hash") == spec_hash(body)):
                raise Conflict(f"{document.id} is {body['status']}; only a proposed experiment can be approved",
                               hint=_next_of(document.id, body["status"]))  # fmt: skip
            if is_new and (owner := body["design"].get("runs_of")):
                require_unseen(self._ctx.need(EXPERIMENT, owner))
            body |= {
                "status": "approved" if is_new else body["status"], "approved_by": self._ctx.actor,
                "approved_hash": spec_hash(body), "approved_at": self._ctx.now(),
            }  # fmt: skip
            body.pop("approved_code", None)  # of an earlier approval
            if code is not None:
                body["approved_code"] = code
            body["approved_mark"] = self._ctx.trust.seal(document.id, body)["approved_mark"]
            tx.put(EXPERIMENT, document.id, body, expect_revision=document.revision)
            if is_new:
                self._ctx.emit(tx, "experiment_approved", document.id, {"spec_hash": body["approved_hash"]})
            else:
                self._ctx.emit(tx, "code_approved", document.id, {"code": code["sha256"] if code else None})
        return self.get(document.id)

    def reject(self, id: str, why: str) -> Experiment:
        """Rejects an experiment that has not run, as `Experiments.reject` says."""
        if not why.strip():
            raise UsageError("a rejection needs a reason", hint="--why TEXT")
        bounded(why, "the reason")
        with self._ctx.store.transaction() as tx:
            document = self._ctx.need(EXPERIMENT, id)
            if document.body["status"] not in ("proposed", "approved"):
                raise Conflict(f"{document.id} is {document.body['status']}; it cannot be rejected any more",
                               hint=f"perpetual experiments {document.id}")  # fmt: skip
            return self._turn_down(tx, document, {"reason": why})

    def withdraw(self, id: str, *, why: str) -> Experiment:
        """Takes back a proposal of the caller's own, as `Experiments.withdraw` says."""
        if not why.strip():
            raise UsageError("a withdrawal needs a reason", hint="why: what was wrong with it")
        bounded(why, "the reason")
        with self._ctx.store.transaction() as tx:
            document = self._ctx.need(EXPERIMENT, id)
            status, proposer = document.body["status"], document.body["proposed_by"]
            self.check_open(document)
            if status != "proposed":
                raise NotPermitted(f"{document.id} is {status}; rejecting it is for a person", hint=_ASK)
            if not is_same(self._ctx.actor, proposer):
                raise NotPermitted(f"{document.id} was proposed by another; rejecting it is for a person", hint=_ASK)
            return self._turn_down(tx, document, {"reason": why, "withdrawn": True})

    def _turn_down(self, tx: LabTransaction, document: ExperimentRow, payload: dict[str, object]) -> Experiment:
        body = {**document.body, "status": "rejected", "rejected_because": payload["reason"]}
        stored = tx.put(EXPERIMENT, document.id, body, expect_revision=document.revision)
        self._ctx.emit(tx, "experiment_rejected", document.id, payload)
        return from_json(Experiment, stored.body)

    def complete_spec(
        self, tx: LabTransaction, document: ExperimentRow, command: str, code: Mapping[str, object] | None = None
    ) -> ExperimentRow:
        """Gives an experiment without a command the one that a person typed, which counts as their approval.

        Args:
            code: the code that it would run now; None where it is unknown.
        """
        fits_text(command, "the command", LONGEST_COMMAND)
        self._ctx.redaction.refuse_command(command)
        argv_of(command)
        body = {
            **document.body, "command": command, "approved_by": self._ctx.actor, "approved_at": self._ctx.now(),
            **({"approved_code": {**code}} if code is not None else {}),
        }  # fmt: skip
        body["spec_hash"] = body["approved_hash"] = spec_hash(body)
        if body["status"] == "proposed":
            body["status"] = "approved"
        body |= self._ctx.trust.seal(document.id, body)
        stored = tx.put(EXPERIMENT, document.id, body, expect_revision=document.revision)
        self.alike.moved(tx, stored)
        payload = {"command": command, "spec_hash": body["spec_hash"]}
        self._ctx.emit(tx, "spec_completed", document.id, payload)
        return stored

    @staticmethod
    def check_open(document: ExperimentRow) -> None:
        """Raises Conflict for an experiment that was turned down or has run out."""
        if document.body["status"] in ("rejected", "expired"):
            raise Conflict(f"{document.id} is {document.body['status']}; it does not run", hint="propose it again")

    def check_launchable(self, document: ExperimentRow) -> None:
        """Raises unless the experiment is approved, here, with exactly the specification that it has now."""
        body = document.body
        if owner := body["design"].get("runs_of"):
            raise Conflict(f"{document.id} has no runs of its own", hint=f"perpetual run {owner} --all")
        if body["status"] == "proposed":
            raise NotPermitted(
                f"{document.id} is not approved", hint=f"perpetual approve {document.id}", code="not_approved"
            )
        self.check_open(document)
        if "approved_hash" not in body:
            raise NotPermitted(
                f"{document.id} was adopted from earlier work, and is not approved here",
                hint="propose it anew, with the command to run: perpetual propose",
                code="not_approved",
            )
        if body["approved_hash"] != spec_hash(body):
            raise NotPermitted(
                f"{document.id} has changed since it was approved",
                hint="reject it and propose what it should be",
                code="not_approved",
            )
        self._ctx.trust.check(document.id, body)
        if body["command"] is None:
            raise UsageError(f"{document.id} has no command", hint=f"perpetual run {document.id} 'python train.py ...'")

    def why_not_approved(self, document: ExperimentRow) -> str | None:
        """Returns why the queue may not start an experiment; None if it is approved, here, exactly as it is now.

        The mark of an approval covers the hash of the specification, so the specification is compared with it.
        """
        if not self._ctx.trust.counts(document.id, document.body):
            return NOT_TRUSTED
        return None if document.body["approved_hash"] == spec_hash(document.body) else CHANGED

    def fold(self, tx: LabTransaction, id: str) -> str:
        """Derives status and run counts from the runs, writes them if they changed, and answers the status."""
        document = tx.get(EXPERIMENT, id)
        assert document is not None, id
        if owner := document.body["design"].get("runs_of"):
            return self.fold(tx, owner)
        hypothesis = tx.get(HYPOTHESIS, document.body["hypothesis_id"] or "")
        # Of a decided one no missing replicate is launched. It is read here, for a verdict read earlier may be over.
        decided = hypothesis is not None and hypothesis.body["status"] in ("supported", "refuted")
        runs = tx.find(RUN, experiment_id=id)
        counts = dict(sorted(Counter(run.body["status"] for run in runs).items()))
        status = document.body["status"]
        if runs:
            live = any(run.body["status"] in LIVE for run in runs)
            missing = len({run.body["replicate"] for run in runs}) < document.body["design"]["replicates"]
            if live or (missing and not decided):
                status = "active"
            else:
                status = "analysed" if all(run.body.get("analysed") for run in runs) else "complete"
        if (status, counts) != (document.body["status"], document.body["runs"]):
            tx.put(EXPERIMENT, id, {**document.body, "status": status, "runs": counts})
        for other in document.body.get("shared_by", ()) if counts else ():
            item = self._ctx.need(EXPERIMENT, other)
            if item.body["status"] in ACCEPTED and (status, counts) != (item.body["status"], item.body["runs"]):
                tx.put(EXPERIMENT, other, {**item.body, "status": status, "runs": counts})
        return str(status)


def _cautioned(ctx: Context, items: Sequence[Experiment]) -> Sequence[Experiment]:
    """Returns the experiments, each with those of its hypothesis's cautions that name it."""
    ids = {item.hypothesis_id for item in items if item.design.claim is not None} - {None}
    found = {id: ctx.store.get(HYPOTHESIS, str(id)) for id in ids}
    known = {id: item.body.get("cautions", ()) for id, item in found.items() if item is not None}
    return [
        replace(item, cautions=texts)
        if (texts := tuple(text for text in known.get(item.hypothesis_id, ()) if item.id in _ID.findall(text)))
        else item
        for item in items
    ]


def _next_of(id: str, status: str) -> str | None:
    return {
        "approved": f"it can run: perpetual run {id}",
        "active": f"it runs already: perpetual runs --experiment {id}",
        "rejected": "propose it again",
        "analysed": f"propose more of it: perpetual propose --extends {id}",
    }.get(status)
