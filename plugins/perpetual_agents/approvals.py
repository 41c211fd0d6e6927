"""What agents ask persons: whether a tool may be called, and questions. An answer is bound to the very call.

The turn that asks ends for now, and its message waits. A person's answer sets the message pending again in the same
transaction, so the turn goes on at the same step, in whichever process, after any crash. An answer holds for the tool
and the arguments that were shown: for others the person is asked anew. It carries a mark that is keyed by a secret of
the user, so an answer that was written into the record behind Perpetual's back counts as none.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotFound, UsageError
from perpetual.toolkit import user_state
from perpetual_agents.agents import Agents
from perpetual_agents.data import check_text
from perpetual_agents.names import APPROVAL, ASKED, DECIDED, MESSAGE
from perpetual_agents.times import present_time

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_agents.event_documents import ApprovalDocument
    from perpetual_agents.messages import Call

__all__ = ["Approvals"]

_WAITS = "yes"
_LONGEST_ANSWER = 16 * 1024
_OVER = ("done", "failed", "dropped")


class Approvals:
    """The approvals of a lab's agents."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self._agents, self._approvals = lab, Agents(lab), lab.records(APPROVAL)

    def asked(self, agent: str, message: str, step: str, call: Call, question: str | None) -> ApprovalDocument:
        """Returns what was asked for a step, and records it where this very call was not asked for yet.

        Args:
            agent, message: ids of the agent, and of the message in whose turn it asks.
            step: the key of the step.
            call: the call that waits.
            question: what the person is asked; None is whether the tool may be called.
        """
        digest = _digest(call)
        with self.lab.transaction():
            for found in reversed(self._approvals.find(step=step)):
                if found["digest"] == digest and (found["state"] == "waiting" or self._is_marked(found)):
                    return _shown(found)
                if found["waits"]:
                    self._approvals.update(found.id, state="void", waits=None)
            made = self._approvals.add(agent=agent, message=message, step=step, tool=call["name"], args=call["args"],
                                       digest=digest, question=question, state="waiting", waits=_WAITS)  # fmt: skip
            self.lab.feed.emit(ASKED, agent, {"approval": made.id, "message": message, "tool": call["name"],
                                               "question": question})  # fmt: skip
        return _shown(made)

    def waits(self, approval: str) -> bool:
        """Returns whether an approval is still to be decided."""
        return str(self._approvals.get(approval)["state"]) == "waiting"

    def get(self, approval: str) -> ApprovalDocument:
        """Returns an approval. Raises NotFound."""
        return self._seen(self._approvals.get(approval))

    def list(self, agent: str | None = None, *, waiting: bool = True) -> Sequence[ApprovalDocument]:
        """Returns what an agent asks, or what all ask, oldest first.

        Args:
            agent: id or name.
            waiting: whether those that were decided are left out.
        """
        equals: dict[str, object] = {} if agent is None else {"agent": self._agents.record(agent).id}
        if waiting:
            equals["waits"] = _WAITS
        found = map(self._seen, self._approvals.find(**equals))
        return [one for one in found if not waiting or one["state"] == "waiting"]

    def approve(self, approval: str, *, answer: str | None = None) -> ApprovalDocument:
        """Lets the call be made, or answers the question; the turn goes on.

        Raises:
            NotPermitted: where an agent asks for it.
            Conflict: where it was decided, or its message is over.
            UsageError: for a question without an answer.
            NotFound: for an unknown one.
        """
        return self._decide(approval, "approved", answer)

    def deny(self, approval: str, *, why: str) -> ApprovalDocument:
        """Refuses the call, whose reason the model reads; the turn goes on. Raises as `approve`."""
        return self._decide(approval, "denied", check_text("the reason", why, may_be_empty=False))

    def _decide(self, approval: str, state: str, answer: str | None) -> ApprovalDocument:
        self.lab.services.allows("answering what an agent asks a person")
        if answer is not None:
            check_text("the answer", answer, most=_LONGEST_ANSWER, may_be_empty=False)
        with self.lab.transaction():
            found = self._seen(self._approvals.get(approval))
            if found["state"] != "waiting":
                raise Conflict(f"{found['id']} is {found['state']} already", hint="perpetual agent approvals",
                               code="already_decided", data={"state": found["state"]})  # fmt: skip
            if found["question"] is not None and answer is None:
                raise UsageError(f"{found['id']} asks a question", hint=f"perpetual agent approve {found['id']} "
                                 "--answer TEXT", code="no_answer")  # fmt: skip
            decided = self._approvals.update(found["id"], state=state, waits=None, answer=answer, by=self.lab.actor,
                                             decided_at=present_time())  # fmt: skip
            decided = self._approvals.update(decided.id, mark=self._mark(decided))  # of what was kept of the answer
            if self._agents.message(decided["message"])["state"] == "waiting":
                self._agents.close_message(decided["message"], "pending", error=None)
            self.lab.feed.emit(DECIDED, decided["agent"], {"approval": decided.id, "message": decided["message"],
                                                            "state": state})  # fmt: skip
        return _shown(decided)

    def _seen(self, record: Record) -> ApprovalDocument:
        """Returns an approval; one whose message is over is void."""
        shown = _shown(record)
        try:
            is_over = self.lab.records(MESSAGE).get(record["message"])["state"] in _OVER
        except NotFound:
            is_over = True
        if shown["state"] == "waiting" and is_over:
            shown["state"] = "void"
        return shown

    def _is_marked(self, record: Record) -> bool:
        return record["state"] in ("approved", "denied") and hmac.compare_digest(str(record["mark"]),
                                                                                 self._mark(record))  # fmt: skip

    def _mark(self, record: Record) -> str:
        decided = [record[name] for name in ("agent", "message", "step", "digest", "state", "answer", "by")]
        text = json.dumps(["approval", self.lab.config.project_id, str(self.lab.root), record.id, decided])
        return hmac.new(user_state.secret(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _digest(call: Call) -> str:
    text = json.dumps([call["name"], call["args"]], sort_keys=True)
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _shown(record: Record) -> ApprovalDocument:
    return {
        "id": record.id, "agent": record["agent"], "message": record["message"], "tool": record["tool"],
        "args": record["args"], "question": record["question"],
        "state": record["state"], "answer": record["answer"], "by": record["by"], "created_at": record.created_at,
        "decided_at": record["decided_at"],
    }  # fmt: skip
