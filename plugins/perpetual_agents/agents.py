"""`Agents(lab)`: agents as records, and every change of one in one durable transaction. Synchronous.

    agents = Agents(lab)
    agent = agents.create("scout", model="ollama:qwen3:4b", purpose="find what lowers val_loss")
    agents.move(agent.id, "start")
    agents.post(agent.id, "what should run next?")

The command line, MCP, the service and `PerpetualAgent` call these; what works on the inbox is in `serving`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack, cast

from perpetual.api import Conflict, Listing, NotFound, UsageError, unknown
from perpetual_agents import accounts
from perpetual_agents import data as checks
from perpetual_agents.data import Agent, Goal, agent_of, check_name, check_text
from perpetual_agents.fields import given
from perpetual_agents.lifecycle import STATES, Move, after
from perpetual_agents.names import (
    AGENT,
    CHANGED,
    CHECKPOINT,
    COUNTERS,
    CREATED,
    DELETED,
    MESSAGE,
    MOVED,
    POSTED,
    STEP,
)
from perpetual_agents.times import present_time
from perpetual_agents.tools import check_tools

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["OVER", "Agents", "Changes"]

_LONGEST_MESSAGE = 256 * 1024
_LISTED = "yes"
_LONG_TEXTS = frozenset({"system_prompt", "purpose", "scope"})
_SHORT_TEXTS = frozenset({"model", "adapter", "cls"})
_LISTS = frozenset({"criteria", "subscriptions", "approvals"})
_HEARS = frozenset({"subscriptions", "hypothesis"})
OVER = ("done", "failed", "dropped")  # states of a message that nothing more comes of


class Changes(TypedDict, total=False):
    """Fields of an agent that may be changed after it was made."""

    model: str | None
    system_prompt: str
    tools: Sequence[str]
    purpose: str
    scope: str
    criteria: Sequence[str]
    adapter: str | None
    cls: str | None
    hypothesis: str | None
    settings: Mapping[str, object]
    subscriptions: Sequence[str]
    approvals: Sequence[str]


class Agents:
    """The agents of a lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._agents, self._messages = lab.records(AGENT), lab.records(MESSAGE)

    # what there is

    def create(
        self, name: str, *, model: str | None = None, purpose: str = "", system_prompt: str = "",
        tools: Sequence[str] = (), scope: str = "", criteria: Sequence[str] = (), adapter: str | None = None,
        cls: str | None = None, hypothesis: str | None = None, limits: Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None, data: Mapping[str, object] | None = None,
        subscriptions: Sequence[str] = (), approvals: Sequence[str] = (), goals: Sequence[Goal] = (),
        idempotency_key: str | None = None,
    ) -> Agent:  # fmt: skip
        """Makes an agent in the state created.

        Args:
            name: letters, digits and - _ . @.
            model: as `provider:name`; None has none.
            purpose: what it is for, in the long run; `scope` what belongs to it, `criteria` when it succeeds.
            system_prompt: the words that come first, before its purpose.
            tools: names of tools; `perpetual agent tools` lists them.
            adapter: a name of its persona that a program may use.
            cls: the class that brought its state, as `module:name`.
            hypothesis: id of the hypothesis that it works on.
            limits: calls, tokens, usd and seconds of its models at most, for it and its forks together.
            settings: see `perpetual_agents.data.SETTINGS`.
            data: its own state, as JSON.
            subscriptions: types of events that go to its inbox.
            approvals: names of tools that a person approves each call of; `*` is all.
            goals: goals that it has from the start.
            idempotency_key: a call with the same key answers the first one's agent.

        Raises:
            UsageError: for a value that cannot be.
            Conflict: where the name is taken.
        """
        fields = self.checked(Changes(
            model=model, system_prompt=system_prompt, tools=tools, purpose=purpose, scope=scope, criteria=criteria,
            adapter=adapter, cls=cls, hypothesis=hypothesis, settings=settings or {}, subscriptions=subscriptions,
            approvals=approvals,
        ))  # fmt: skip
        check_name(name)
        limit = checks.check_limits(limits or {})
        with self.lab.transaction():
            if idempotency_key is not None:
                made = next(iter(self._agents.find(key=idempotency_key)), None)
                if made is not None:
                    if made["name"] != name:
                        raise Conflict(f"the idempotency key made {made['name']}", hint="use a fresh key")
                    return agent_of(made)
            self.require_free(name)
            account = accounts.new(self.lab, limit) if limit else None
            if checks.hears(fields):
                self._catch_up()
            record = self._agents.add(
                name=name, goals=[*goals], state="created", reason=None, data=dict(data or {}),
                counters=dict.fromkeys(COUNTERS, 0), branch=None, account=account, listed=_LISTED,
                key=idempotency_key, hears=checks.hears(fields), **given(fields),
            )  # fmt: skip
            self.lab.feed.emit(CREATED, record.id, {"name": name, "parent": None})
        return agent_of(record)

    def require_free(self, name: str) -> None:
        """Raises Conflict where an agent that is not deleted has the name."""
        taken = next((one for one in self._agents.find(name=name) if one["listed"]), None)
        if taken is not None:
            raise Conflict(f"{name} is the name of {taken.id}", hint=f"another name, or show {taken.id}",
                           code="name_taken")  # fmt: skip

    def checked(self, changes: Changes) -> dict[str, object]:
        """Returns changes as a record holds them. Raises UsageError for a value that cannot be."""
        found: dict[str, object] = {}
        asked: dict[str, object] = {**changes}
        for name in _LONG_TEXTS & asked.keys():
            found[name] = check_text(f"the {name.replace('_', ' ')}", asked[name])
        for name in _SHORT_TEXTS & asked.keys():
            value = asked[name]
            found[name] = None if value is None else check_text(f"the {name}", value, most=300, may_be_empty=False)
        for name in _LISTS & asked.keys():
            found[name] = checks.texts(f"one of the {name}", asked[name])
        if "tools" in changes:
            found["tools"] = check_tools(self.lab, changes["tools"])
        if "settings" in changes:
            found["settings"] = checks.check_settings(changes["settings"])
        if "hypothesis" in changes:
            id = changes["hypothesis"]
            found["hypothesis"] = None if id is None else self.lab.hypotheses.get(id).id
        return found

    def get(self, agent: str) -> Agent:
        """Returns an agent by its id or its name. Raises NotFound, naming the nearest."""
        return agent_of(self.record(agent))

    def record(self, agent: str) -> Record:
        """Returns the record of an agent by its id or its name. Raises NotFound, naming the nearest."""
        named = next((one for one in self._agents.find(name=agent) if one["listed"]), None)
        if named is not None:
            return named
        try:
            found = self._agents.get(agent)
        except NotFound:
            names = [one["name"] for one in self._agents.list(limit=500, newest_first=True, listed=_LISTED).items]
            raise NotFound(unknown("agent", agent, names), hint="perpetual agent create" if not names else
                           "perpetual agent list shows them all") from None  # fmt: skip
        if not found["listed"]:
            raise NotFound(f"{found.id} ({found['name']}) is deleted", hint="perpetual agent list")
        return found

    def list(self, *, state: str | None = None, limit: int = 100, cursor: str | None = None) -> Listing[Agent]:
        """Returns a page of agents, oldest first, of one state or of all. Raises UsageError for an unknown state."""
        if state is not None and state not in STATES:
            raise UsageError(unknown("state", state, STATES))
        equals = given({} if state is None else {"state": state})
        page = self._agents.list(limit=limit, cursor=cursor, listed=_LISTED, **equals)
        return Listing(tuple(map(agent_of, page.items)), page.next_cursor)

    def running(self) -> Sequence[Agent]:
        """Returns every agent that takes messages."""
        return [agent_of(one) for one in self._agents.find(state="running") if one["listed"]]

    def count(self) -> dict[str, int]:
        """Returns how many agents there are by state, and as `total` in all."""
        found: dict[str, int] = {state: self._agents.count(state=state) for state in STATES}
        return {**found, "total": sum(found.values())}

    # changes

    def move(self, agent: str, move: Move, *, reason: str | None = None) -> Agent:
        """Changes an agent's state.

        Raises:
            IllegalMove: where it cannot make that move.
            NotFound: for an unknown agent.
        """
        with self.lab.transaction():
            present = self.record(agent)
            state = after(present.id, present["state"], move)
            moved = self._agents.update(present.id, state=state, reason=reason)
            self._journal_move(present, state, reason)
            self.lab.feed.emit(MOVED, present.id, {"from": present["state"], "to": state, "reason": reason})
        return agent_of(moved)

    def _journal_move(self, present: Record, state: str, reason: str | None) -> None:
        self.lab.records(STEP).append(
            agent=present.id, branch=checks.branch_of(present), turn="", step="state", phase="done",
            key=f"{present.id}/state/{present.revision}",
            body={"from": present["state"], "to": state, "reason": reason},
        )  # fmt: skip

    def change(self, agent: str, **changes: Unpack[Changes]) -> Agent:
        """Changes fields of an agent.

        Raises:
            UsageError: for a value that cannot be.
            NotFound: for an unknown agent.
            NotPermitted: where an agent takes a tool off the list of those that a person approves.
        """
        with self.lab.transaction():
            present = self.record(agent)
            fields = self.checked(changes)
            kept = cast("Sequence[str]", fields.get("approvals", present["approvals"] or ()))
            if {*(present["approvals"] or ())} - {*kept}:
                self.lab.services.allows(f"letting {present['name']} call tools without a person")
            if fields.keys() & _HEARS:
                self._catch_up()
                fields["hears"] = checks.hears({**present.fields, **fields})
            changed = self._agents.update(present.id, **given(fields))
            self.lab.feed.emit(CHANGED, present.id, {"fields": sorted(changes)})
            return agent_of(changed)

    def _catch_up(self) -> None:
        """Puts the events up to now into the inboxes, before the subscriptions change."""
        from perpetual_agents.subscriptions import caught_up

        caught_up(self.lab)

    def delete(self, agent: str) -> Agent:
        """Takes an agent off the list; its records stay in the record. Raises Conflict while it runs or is paused."""
        with self.lab.transaction():
            present = self.record(agent)
            if present["state"] in ("running", "paused"):
                raise Conflict(f"{present.id} is {present['state']}", hint=f"perpetual agent stop {present.id}",
                               code="illegal_move")  # fmt: skip
            for message in self._messages.find(queue=present.id):
                self.close_message(message.id, "dropped")
            for checkpoint in self.lab.records(CHECKPOINT).find(live=present.id):
                self.lab.records(CHECKPOINT).update(checkpoint.id, live=None)
            gone = self._agents.update(present.id, listed=None, mark=None, state="deleted")
            self.lab.feed.emit(DELETED, present.id, {"name": present["name"]})
        return agent_of(gone)

    def save_data(self, agent: str, data: Mapping[str, object]) -> Agent:
        """Replaces an agent's own state as a whole; JSON. Raises UsageError where it is none, or holds a secret."""
        with self.lab.transaction():
            return agent_of(self._agents.update(self.record(agent).id, data=dict(data)))

    def count_up(self, agent: str, **more: int) -> None:
        """Adds to an agent's counters."""
        with self.lab.transaction():
            present = self.record(agent)
            counters = {name: present["counters"].get(name, 0) + more.get(name, 0)
                        for name in {**present["counters"], **more}}  # fmt: skip
            self._agents.update(present.id, counters=counters)

    # goals

    def add_goal(self, agent: str, text: str, *, status: str = "open", progress: float = 0.0) -> Goal:
        """Adds a goal. Raises UsageError for an empty text or a value that cannot be."""
        check_text("the goal", text, most=8 * 1024, may_be_empty=False)
        with self.lab.transaction():
            present = self.record(agent)
            number = 1 + max((int(goal["id"][1:]) for goal in present["goals"]), default=0)
            now = present_time()
            goal: Goal = {"id": f"g{number}", "text": text, "status": checks.goal_status(status),
                          "progress": checks.goal_progress(progress), "created_at": now, "updated_at": now}  # fmt: skip
            self._agents.update(present.id, goals=[*present["goals"], goal])
        return goal

    def update_goal(
        self, agent: str, goal: str, *, status: str | None = None, progress: float | None = None,
        text: str | None = None,
    ) -> Goal:  # fmt: skip
        """Changes a goal. Raises NotFound for an unknown one, UsageError for a value that cannot be."""
        with self.lab.transaction():
            present = self.record(agent)
            found: Goal | None = next((one for one in present["goals"] if one["id"] == goal.lower()), None)
            if found is None:
                raise NotFound(unknown(f"goal of {present.id}", goal, [one["id"] for one in present["goals"]]))
            changed: Goal = {**found, "updated_at": present_time()}
            if status is not None:
                changed["status"] = checks.goal_status(status)
            if progress is not None:
                changed["progress"] = checks.goal_progress(progress)
            if text is not None:
                changed["text"] = check_text("the goal", text, most=8 * 1024, may_be_empty=False)
            goals = [changed if one["id"] == found["id"] else one for one in present["goals"]]
            self._agents.update(present.id, goals=goals)
        return changed

    # the inbox

    def post(
        self, agent: str, text: str, *, type: str = "message", data: Mapping[str, object] | None = None,
        sender: str | None = None, key: str | None = None, due: str | None = None,
    ) -> Record:  # fmt: skip
        """Puts a message or an event into an agent's inbox; durable before it returns.

        Args:
            agent: id or name.
            text: what it says.
            type: `message`, or the type of an event.
            data: what an event carries, as JSON.
            sender: the actor that sent it; by default the lab's actor.
            key: the same key is taken once; a second call answers the first one's message.
            due: when it is to be taken up, UTC; None is at once.

        Raises:
            UsageError: for an empty or overlong text.
            Conflict: for an agent that is stopped or in error.
        """
        check_text("the message", text, most=_LONGEST_MESSAGE, may_be_empty=type != "message")
        check_text("the type of the event", type, most=200, may_be_empty=False)
        with self.lab.transaction():
            present = self.record(agent)
            if key is not None:
                key = f"{present.id}:{check_text('the key', key, most=900, may_be_empty=False)}"
                known = next(iter(self._messages.find(dedup=key)), None)
                if known is not None:
                    return known
            if present["state"] in ("stopped", "error"):
                way = "start" if present["state"] == "stopped" else "resume"
                raise Conflict(f"{present.id} is {present['state']}; it takes no messages",
                               hint=f"perpetual agent {way} {present.id}", code="not_running")  # fmt: skip
            made = self._messages.add(
                agent=present.id, sender=sender or self.lab.actor, type=type, text=text, data=dict(data or {}),
                state="pending", queue=present.id, open="yes", dedup=key, due=due, attempts=0,
            )  # fmt: skip
            self.lab.feed.emit(POSTED, present.id, {"message": made.id, "type": type})
            return made

    def has(self, agent: str, key: str) -> bool:
        """Returns whether a message with a key was taken."""
        return bool(self._messages.find(dedup=f"{self.record(agent).id}:{key}"))

    def message(self, id: str) -> Record:
        """Returns a message by its id. Raises NotFound."""
        return self._messages.get(id)

    def pending(self, agent: str) -> Sequence[Record]:
        """Returns the messages of an agent that are not over, in the order in which they came."""
        return self._messages.find(queue=self.record(agent).id)

    def first(self, agent: str) -> Record | None:
        """Returns the oldest message of an agent that is not over, None where there is none."""
        found = self._messages.list(limit=1, queue=self.record(agent).id).items
        return found[0] if found else None

    def open_messages(self) -> Sequence[Record]:
        """Returns the messages of all agents that are not over, in the order in which they came."""
        return self._messages.find(open="yes")

    def messages(self, agent: str, *, limit: int = 100, cursor: str | None = None) -> Listing[Record]:
        """Returns a page of an agent's messages, newest first."""
        return self._messages.list(limit=limit, cursor=cursor, newest_first=True, agent=self.record(agent).id)

    def close_message(self, id: str, state: str, **fields: object) -> Record:
        """Records how a message came out: `done`, `failed` or `dropped`, or `waiting` for one that goes on later."""
        over = {"queue": None, "open": None} if state in OVER else {}
        return self._messages.update(id, **given({"state": state, **over, **fields}))
