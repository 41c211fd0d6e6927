"""Checkpoints of agents: taken, listed, restored, forked and pruned.

A checkpoint is a place in the journal and the agent's own data as it was; it costs the same at any length of the
history. A restored agent, and a fork, begin a new branch of the history at that place, so nothing that happened since
is lost: restoring takes a checkpoint of the present first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack, cast

from perpetual.api import Conflict, Listing, NotFound, UsageError
from perpetual_agents import accounts
from perpetual_agents.agents import Agents, Changes
from perpetual_agents.data import Agent, agent_of, branch_of, check_name, check_text, hears
from perpetual_agents.fields import given
from perpetual_agents.memory import AgentMemory
from perpetual_agents.names import AGENT, BRANCH, CHECKPOINT, COUNTERS, CREATED, RESTORED, STEP
from perpetual_agents.subscriptions import caught_up

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_agents.documents import CheckpointDocument

__all__ = ["Checkpoints", "check_label", "fork_name"]

# What a checkpoint holds of an agent; its state, its branch and its account are not brought back.
_KEPT = ("name", "model", "system_prompt", "tools", "purpose", "scope", "criteria", "goals", "adapter", "cls", "data",
         "counters", "settings", "subscriptions", "hypothesis")  # fmt: skip
_SPARE = 5  # a fifth more than is wanted is kept, so that several are pruned at once
_IS_ID = re.compile(r"\Ak\d+\Z", re.IGNORECASE)
_AUTOMATIC = ("auto", "pause", "stop", "compaction")


class Checkpoints:
    """The checkpoints of a lab's agents."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self._agents = lab, Agents(lab)
        self._checkpoints, self._branches = lab.records(CHECKPOINT), lab.records(BRANCH)

    def take(self, agent: str, *, label: str | None = None, reason: str = "manual") -> CheckpointDocument:
        """Takes a checkpoint. One of a label is never pruned by itself.

        Raises:
            UsageError: for an overlong label.
            Conflict: for a label that another checkpoint of the agent has.
        """
        if label is not None:
            check_label(label)
        had = self._checkpoints.count(live=self._agents.record(agent).id)  # outside of the transaction it reads no row
        with self.lab.transaction():
            present = self._agents.record(agent)
            if label is not None and any(one["label"] == label for one in self._live(present.id)):
                raise Conflict(f"{present.id} has a checkpoint {label!r}", hint="another label", code="label_taken")
            made = self._checkpoints.add(
                agent=present.id, live=present.id, label=label, reason=reason, branch=branch_of(present),
                after=self.lab.records(STEP).count(), snapshot={name: present[name] for name in _KEPT},
            )  # fmt: skip
            self._prune(present.id, had + 1, int(agent_of(present).setting("keep_checkpoints")))
        return _shown(made)

    def take_due(self, agent: str, every: int) -> CheckpointDocument | None:
        """Takes one where the agent has made `every` steps since its newest; None where it has not."""
        present = self._agents.record(agent)
        newest = self._checkpoints.list(limit=1, newest_first=True, live=present.id).items
        since = newest[0]["snapshot"]["counters"] if newest else {}
        steps = sum(present["counters"].get(name, 0) - since.get(name, 0) for name in ("model_calls", "tool_calls"))
        return self.take(present.id, reason="auto") if steps >= every else None

    def _live(self, agent: str) -> list[Record]:
        return self._checkpoints.find(live=agent)

    def _prune(self, agent: str, there: int, keep: int) -> None:
        """Prunes the oldest that were taken by themselves and have no label, several at once, down to `keep`."""
        if there <= keep + keep // _SPARE:
            return
        automatic = [one for one in self._live(agent) if one["reason"] in _AUTOMATIC and one["label"] is None]
        for one in automatic[: max(0, len(automatic) - keep)]:
            self._checkpoints.update(one.id, live=None, snapshot=None)

    def prune(self, agent: str, *, keep: int) -> list[str]:
        """Prunes the checkpoints without a label but for the newest `keep`; returns the ids of those pruned."""
        if keep < 0:
            raise UsageError(f"{keep} checkpoints cannot be kept", hint="0 or more")
        with self.lab.transaction():
            loose = [one for one in self._live(self._agents.record(agent).id) if one["label"] is None]
            gone = loose[: max(0, len(loose) - keep)]
            for one in gone:
                self._checkpoints.update(one.id, live=None, snapshot=None)
        return [one.id for one in gone]

    def list(self, agent: str, *, limit: int = 100, cursor: str | None = None) -> Listing[CheckpointDocument]:
        """Returns a page of an agent's checkpoints, newest first."""
        id = self._agents.record(agent).id
        page = self._checkpoints.list(limit=limit, cursor=cursor, newest_first=True, live=id)
        return Listing(tuple(map(_shown, page.items)), page.next_cursor)

    def find(self, agent: str, checkpoint: str) -> Record:
        """Returns the record of a checkpoint by its id or its label.

        Raises:
            NotFound: where the agent has no such one.
        """
        id = self._agents.record(agent).id
        live = self._live(id)
        found = next(
            (one for one in live if checkpoint in (one["label"], one.id) or one.id == checkpoint.lower()), None
        )
        if found is None:
            known = ", ".join(one["label"] or one.id for one in live[-5:]) or "none"
            raise NotFound(f"{id} has no checkpoint {checkpoint!r}", hint=f"the newest: {known}")
        return found

    def restore(self, agent: str, checkpoint: str) -> tuple[Agent, CheckpointDocument]:
        """Brings an agent back to a checkpoint; returns it, and the checkpoint of the present that was taken first.

        Its history goes on from there. Its state, its limits and what it has used stay; its messages that are not
        over are dropped, as they belong to what is left.

        Raises:
            Conflict: while the agent runs.
            NotFound: for an unknown checkpoint.
        """
        with self.lab.transaction():
            present = self._agents.record(agent)
            if present["state"] == "running":
                raise Conflict(f"{present.id} is running", hint=f"perpetual agent pause {present.id}",
                               code="illegal_move")  # fmt: skip
            found = self.find(present.id, checkpoint)
            saved = self.take(present.id, reason="restore")
            for message in self._agents.pending(present.id):
                self._agents.close_message(message.id, "dropped")
            branch = self._branches.add(parent=found["branch"], after=found["after"])
            fields = {**_kept(found), "name": present["name"], "counters": self._agents.record(agent)["counters"]}
            fields["hears"] = hears({**present.fields, **fields})
            caught_up(self.lab)
            made = self.lab.records(AGENT).update(present.id, branch=branch.id, **given(fields))
            self.lab.feed.emit(RESTORED, present.id, {"checkpoint": found.id, "saved": saved["id"]})
        return agent_of(made), saved

    def fork(
        self, agent: str, name: str, *, checkpoint: str | None = None, data: Mapping[str, object] | None = None,
        **changes: Unpack[Changes],
    ) -> Agent:  # fmt: skip
        """Makes an agent with the same past and changes of its own; both are paid from one account.

        Args:
            agent: the agent that is forked.
            name: of the fork.
            checkpoint: where the past ends; None is the present, of which a checkpoint is taken.
            data: keys of its own state that are another's.
            changes: fields that differ, such as another model or prompt.

        Raises:
            Conflict: where the name is taken.
            NotFound: for an unknown checkpoint.
        """
        check_name(name)
        changed = self._agents.checked(changes)
        with self.lab.transaction():
            present = self._agents.record(agent)
            self._agents.require_free(name)
            at = checkpoint or self.take(present.id, reason="fork")["id"]
            found = self.find(present.id, at)
            kept = _kept(found)
            own = {**cast("dict[str, object]", kept["data"]), **(data or {})}
            branch = self._branches.add(parent=found["branch"], after=found["after"])
            caught_up(self.lab)
            made = self.lab.records(AGENT).add(**given({
                **kept, **changed, "name": name, "data": own, "counters": dict.fromkeys(COUNTERS, 0),
                "approvals": sorted({*(present["approvals"] or ()), *changes.get("approvals", ())}),
                "hears": hears({**kept, **changed}),
                "state": "created", "reason": None, "branch": branch.id, "account": accounts.of(self.lab, present.id),
                "parent": present.id, "listed": "yes",
            }))  # fmt: skip
            AgentMemory(self.lab).inherit(made.id, present.id, found.created_at)
            self.lab.feed.emit(CREATED, made.id, {"name": name, "parent": present.id})
        return agent_of(made)


def check_label(label: str) -> str:
    """Returns a label. Raises UsageError where it can be none, and for one in the form of an id."""
    check_text("the label", label, most=200, may_be_empty=False)
    if _IS_ID.match(label):
        raise UsageError(f"{label!r} has the form of an id", hint="another label")
    return label


def _kept(checkpoint: Record) -> dict[str, object]:
    """Returns what a checkpoint holds of its agent, and nothing else that its record may have been given."""
    snapshot = cast("dict[str, object]", checkpoint["snapshot"])
    return {name: snapshot[name] for name in _KEPT if name in snapshot}


def _shown(record: Record) -> CheckpointDocument:
    return {"id": record.id, "agent": record["agent"], "label": record["label"], "reason": record["reason"],
            "branch": record["branch"], "step": record["after"], "created_at": record.created_at}  # fmt: skip


def fork_name(lab: Lab, agent: str) -> str:
    """Returns a free name for a fork of an agent, such as scout-fork-2."""
    agents = Agents(lab)
    name = agents.get(agent).name
    number = 1
    while any(one["listed"] for one in lab.records(AGENT).find(name=f"{name}-fork-{number}")):
        number += 1
    return f"{name[:80]}-fork-{number}"
