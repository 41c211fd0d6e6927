"""Events of the lab's feed that go to the inboxes of agents: those that an agent subscribes to, and its hypothesis's.

A cursor in the record says how far the feed was read; it moves in the transaction that puts the messages into the
inboxes, and a message of an event is taken once. An agent hears only of what came after it subscribed.

No circles: an agent never hears of what it did itself. Events of agents (`agents.*`) go only to those that subscribe to
that very type, never to the agent that they are about, and not where they say that an event was put into an inbox or
that one of another agent was answered.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import NotFound
from perpetual_agents.agents import Agents
from perpetual_agents.data import Agent, agent_of
from perpetual_agents.names import AGENT, CHANGED, CREATED, CURSOR, DELETED, MESSAGE, MOVED, RESTORED

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Event

__all__ = ["RUN_ENDED", "SENDER", "Subscriptions", "caught_up", "types_of"]

RUN_ENDED = "run_ended"  # the type of a `run_status` that ends a run
SENDER = "event:"  # what the sender of such a message begins with; the actor of the event follows
_OWN = "agents."
_ENDED = ("done", "failed", "killed", "timeout", "lost")
_ENDS = frozenset({RUN_ENDED, "run_status"})  # types under which the end of a run is heard
_DECIDED = ("experiment_approved", "experiment_rejected")
_HEARS = ("created", "running", "paused")  # states in which an agent's inbox takes messages
_CHANGES = frozenset({CREATED, CHANGED, MOVED, RESTORED, DELETED})  # after which other agents may hear
_FEED = "feed"
_BATCH = 500
_FURTHEST = 200  # events that were read without a message before the cursor is moved all the same
_MOST = 32 * 1024  # characters that the gates judge of one event


class _Due(NamedTuple):
    agent: Agent
    event: Event
    type: str


class Subscriptions:
    """Puts events into inboxes. Keeps the subscriptions in memory, so one object serves for long."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self._agents, self._cursors = lab, Agents(lab), lab.records(CURSOR)
        self._hearers: list[Agent] | None = None

    def catch_up(self) -> int:
        """Delivers what came since the cursor; returns the seq of the last event that was read."""
        last = self.lab.feed.last()
        self._hearers = None
        if not self.lab.records(AGENT).count(hears="yes"):
            return last
        since = self._position(last)
        while events := self.lab.feed.read(since=since, limit=_BATCH):
            self.deliver(events)
            since = events[-1].seq
        return since

    def deliver(self, events: Sequence[Event]) -> int:
        """Delivers events that follow on those that were delivered; returns how many messages were new."""
        if not events:
            return 0
        due = self._heard(events)
        last = events[-1].seq
        if not due and last - self._position(last) < _FURTHEST:
            return 0
        bodies = {event.seq: self._body(event) for event in {one.event.seq: one.event for one in due}.values()}
        count = 0
        with self.lab.transaction():
            since = self._position(last)
            for one in due:
                if one.event.seq > since:
                    count += self._post(one, bodies[one.event.seq])
            self.move(max(since, last))
        return count

    def awaited(self) -> set[str]:
        """Returns the ids of the agents for which an event is on its way, or the end of a live run; changes nothing."""
        found = next(iter(self._cursors.find(name=_FEED)), None)
        if found is None or not self.lab.records(AGENT).count(hears="yes"):
            return set()
        self._hearers = None
        hearers = self._all()
        due = {one.agent.id for one in self._heard(self.lab.feed.read(since=found["seq"], limit=_BATCH))}
        live = {run.experiment_id for run in self.lab.runs.live()}
        if not live:
            return due
        homes = {self.lab.experiments.get(id).hypothesis_id for id in live}
        for one in hearers:
            if (one.hypothesis or "") in homes or not _ENDS.isdisjoint(one.subscriptions):
                due.add(one.id)
        return due

    def move(self, seq: int) -> None:
        """Moves the cursor."""
        found = next(iter(self._cursors.find(name=_FEED)), None)
        if found is None:
            self._cursors.add(name=_FEED, seq=seq)
        elif found["seq"] != seq:
            self._cursors.update(found.id, seq=seq)

    def _position(self, last: int) -> int:
        """Returns how far the feed was read; a feed that was never read counts as read up to `last`."""
        found = next(iter(self._cursors.find(name=_FEED)), None)
        if found is not None:
            return int(found["seq"])
        self.move(last)
        return last

    def _heard(self, events: Sequence[Event]) -> list[_Due]:
        """Returns which agents hear of which events."""
        if any(event.kind in _CHANGES for event in events):
            self._hearers = None
        hearers, homes = self._all(), dict[str, str | None]()
        return [one for event in events for one in self._due(event, hearers, homes)] if hearers else []

    def _all(self) -> list[Agent]:
        """Returns the agents that may hear of events."""
        if self._hearers is None:
            self._hearers = [agent_of(one) for one in self.lab.records(AGENT).find(hears="yes") if one["listed"]]
        return self._hearers

    def _due(self, event: Event, hearers: Sequence[Agent], homes: dict[str, str | None]) -> list[_Due]:
        types = types_of(event)
        found: list[_Due] = []
        for agent in hearers:
            if agent.state not in _HEARS or event.actor == f"agent:{agent.name}":
                continue
            type = next((one for one in types if one in agent.subscriptions), None)
            if type is None and agent.hypothesis is not None and agent.hypothesis == self._home(event, homes):
                type = types[0]
            if type is not None:
                found.append(_Due(agent, event, type))
        if found and event.kind.startswith(_OWN):
            return [one for one in found if event.subject != one.agent.id and not self._is_echo(event)]
        return found

    def _home(self, event: Event, homes: dict[str, str | None]) -> str | None:
        """Returns the hypothesis that an event decides something of, None for any other event."""
        if event.kind == "hypothesis_status":
            return event.subject
        if event.kind in _DECIDED:
            experiment = event.subject
        elif types_of(event)[0] == RUN_ENDED:
            experiment = str(event.payload.get("experiment_id"))
        else:
            return None
        if experiment not in homes:
            try:
                homes[experiment] = self.lab.experiments.get(experiment).hypothesis_id
            except NotFound:
                homes[experiment] = None
        return homes[experiment]

    def _is_echo(self, event: Event) -> bool:
        """Returns whether an event of agents comes from an event that was delivered: two agents would go in circles."""
        id = event.payload.get("message")
        if id is None:
            return False
        try:
            message = self.lab.records(MESSAGE).get(str(id))
        except NotFound:
            return True
        return str(message["sender"]).startswith(SENDER) or str(message["type"]).startswith(_OWN)

    def _body(self, event: Event) -> dict[str, object]:
        """Returns what a message carries of an event; a payload that the gates reject is withheld."""
        payload: Mapping[str, object] = event.payload
        verdict = self.lab.memory.scan(json.dumps(payload, ensure_ascii=False)[:_MOST])
        if verdict["outcome"] == "reject":
            payload = {"withheld": verdict["category"] or "rejected"}
        return {"kind": event.kind, "subject": event.subject, "actor": event.actor, "time": event.time,
                "payload": dict(payload)}  # fmt: skip

    def _post(self, due: _Due, body: Mapping[str, object]) -> bool:
        """Puts one event into one inbox; returns whether it was new there."""
        try:
            present = self._agents.get(due.agent.id)
        except NotFound:  # it was deleted meanwhile
            return False
        if present.state not in _HEARS:
            return False
        key = f"feed/{due.event.seq}"
        if self._agents.has(present.id, key):
            return False
        data = {"type": due.type, "id": key, "data": dict(body)}
        self._agents.post(present.id, "", type=due.type, data=data, sender=f"{SENDER}{due.event.actor}"[:200], key=key)
        return True


def types_of(event: Event) -> tuple[str, ...]:
    """Returns the types under which an event is heard, the narrowest first."""
    if event.kind == "run_status" and event.payload.get("to") in _ENDED:
        return RUN_ENDED, event.kind
    return (event.kind,)


def caught_up(lab: Lab) -> None:
    """Delivers everything up to now; called in the transaction that changes a subscription."""
    found = Subscriptions(lab)
    with lab.transaction():
        found.catch_up()
        found.move(lab.feed.last())
