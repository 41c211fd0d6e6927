"""The kinds of records of agents. Loaded at discovery: plain data, nothing heavy."""

from __future__ import annotations

from perpetual.api import EventKind, Field, RecordKind

__all__ = ["KINDS"]

_AGENT = {
    "name": Field("str", "Its name, one of its kind among those that are not deleted.", required=True),
    "model": Field("str", "The model as provider:name; null has none."),
    "system_prompt": Field("str", "The words that come before its purpose.", required=True),
    "tools": Field("list", "Names of its tools.", required=True),
    "purpose": Field("str", "What it is for, in the long run.", required=True),
    "scope": Field("str", "What belongs to its purpose and what does not.", required=True),
    "criteria": Field("list", "When it succeeds.", required=True),
    "goals": Field("list", "Its goals: {id, text, status, progress, created_at, updated_at}.", required=True),
    "adapter": Field("str", "The name that a program gives its persona."),
    "cls": Field("str", "The class that brought its typed state, as module:name."),
    "state": Field("str", "created, running, paused, stopped or error.", required=True),
    "reason": Field("str", "Why it is in that state."),
    "data": Field("dict", "Its own state, by key.", required=True, verbatim=True),
    "counters": Field("dict", "turns, messages, model_calls, tool_calls, errors, wakes.", required=True),
    "settings": Field("dict", "max_steps, max_tokens, window, checkpoint_every, timeout_s.", required=True),
    "subscriptions": Field("list", "Types of events that go to its inbox.", required=True),
    "approvals": Field("list", "Names of tools that a person approves each call of; * is all."),
    "branch": Field("str", "The line of its history that is in force; null is its first.", references="branch"),
    "account": Field(
        "str", "The account that its models are paid from; null before there is one.", references="account"
    ),
    "parent": Field("str", "The agent that it was forked from.", references="agent"),
    "hypothesis": Field("str", "The hypothesis that it works on.", references="hypothesis"),
    "key": Field("str", "The idempotency key by which it was made."),
    "hears": Field("str", "yes where events of the feed may go to its inbox."),
    "listed": Field("str", "yes while it is not deleted."),
    "mark": Field("str", "What shows that a person of this machine has let it run.", private=True),
}
_BRANCH = {
    "parent": Field("str", "The line that it goes on from: a branch, or the first one of an agent.", required=True),
    "after": Field("int", "The last step of the parent that belongs to it.", required=True),
}
_ACCOUNT = {
    "limits": Field("dict", "calls, tokens, usd, seconds at most; one that is missing has none.", required=True),
    "used": Field("dict", "calls, tokens, usd, seconds that were used.", required=True),
    "booked": Field("dict", "By the key of a call that goes on: what it may use at most.", required=True),
}
_STEP = {
    "agent": Field("str", "Whose step it is.", required=True),
    "branch": Field("str", "The line of history.", required=True),
    "turn": Field("str", "The turn, by the id of the message that it answers.", required=True),
    "step": Field("str", "message, model, tool, result, compaction or state.", required=True),
    "phase": Field("str", "begun or done.", required=True),
    "key": Field("str", "The idempotency key of its effect.", required=True),
    "body": Field("dict", "What was asked, or what came of it.", required=True),
}
_MESSAGE = {
    "agent": Field("str", "Whom it is for.", required=True),
    "sender": Field("str", "The actor that sent it.", required=True),
    "type": Field("str", "message, or the type of an event.", required=True),
    "text": Field("str", "What it says.", required=True),
    "data": Field("dict", "What an event carries.", required=True),
    "state": Field("str", "pending, working, waiting, done, failed or dropped.", required=True),
    "queue": Field("str", "The agent while it is not over."),
    "open": Field("str", "yes while it is not over."),
    "dedup": Field("str", "The agent and the key by which it is taken once."),
    "handled": Field("bool", "Whether a program's handlers were called with it."),
    "answer": Field("str", "What the agent answered."),
    "error": Field("dict", "Why it failed: {code, message, hint}."),
    "due": Field("str", "When it is due, UTC; null is at once."),
    "attempts": Field("int", "How often it was taken up.", required=True),
    "branch": Field("str", "The line of history in which it is answered."),
}
_CHECKPOINT = {
    "agent": Field("str", "Whose checkpoint it is.", required=True),
    "live": Field("str", "The agent until it is pruned."),
    "label": Field("str", "A name that a person gave it."),
    "reason": Field("str", "auto, manual, pause, stop, compaction, restore or fork.", required=True),
    "branch": Field("str", "The line of history.", required=True),
    "after": Field("int", "The number up to which steps belong to it.", required=True),
    "snapshot": Field("dict", "The agent as it was, without its history; null once it is pruned.", verbatim=True),
}
_MEMORY = {
    "scope": Field("str", "The id of the agent whose it is, shared, or shared:NAME.", required=True),
    "key": Field("str", "What the entry is called in its scope.", required=True),
    "place": Field("str", "Scope and key, which all versions of an entry share.", required=True),
    "value": Field("any", "Text or other JSON; null of a version that says that the entry is gone."),
    "status": Field("str", "active, quarantined, released, rejected, deleted or pruned.", required=True),
    "version": Field("int", "The version's number among those of its entry, from 1.", required=True),
    "author": Field("str", "The actor that wrote the value.", required=True),
    "agent": Field("str", "The agent in whose turn it was written.", references="agent"),
    "message": Field("str", "The message that this turn answered.", references="message"),
    "step": Field("str", "The key of the step that wrote it; the same is taken once."),
    "why": Field("str", "Why it was deleted, pruned or released."),
    "sources": Field("list", "Versions, or steps of the journal, that it was made of.", required=True),
    "batch": Field("str", "The consolidation that made or pruned it."),
    "into": Field("str", "The key of the entry that stands for one that was pruned."),
    "verdict": Field("dict", "What the gates said: {outcome, category, findings}."),
    "released_by": Field("str", "The person that let agents see it."),
    "current": Field("str", "The place while it is the newest accepted version."),
    "shown": Field("str", "The place while it is the version that agents see."),
    "listed": Field("str", "The scope while it is the newest accepted version."),
    "exposed": Field("str", "The scope while it is the version that agents see."),
}
_MEMORY_INDEXES = ("scope", "place", "current", "shown", "listed", "exposed", "step", "batch", "status")
_TIMER = {
    "agent": Field("str", "Whose inbox it fires into.", required=True, references="agent"),
    "repeats": Field("str", "once, every or cron.", required=True),
    "expression": Field("str", "A time, seconds, or a cron expression of five fields.", required=True),
    "zone": Field("str", "The time zone of a cron expression, such as Europe/Paris."),
    "text": Field("str", "What the message says.", required=True),
    "type": Field("str", "The type of the message.", required=True),
    "next": Field("str", "When it fires next, UTC; null once it is over."),
    "last": Field("str", "The time for which it fired last, UTC."),
    "fired": Field("int", "How often it fired.", required=True),
    "active": Field("str", "yes until it is over or cancelled."),
    "dedup": Field("str", "The agent and the key by which it is set once."),
}
_APPROVAL = {
    "agent": Field("str", "Which agent asks.", required=True, references="agent"),
    "message": Field("str", "The message in whose turn it asks.", required=True, references="message"),
    "step": Field("str", "The key of the step that waits for it.", required=True),
    "tool": Field("str", "The tool that is to be called.", required=True),
    "args": Field("dict", "The arguments of the call.", required=True),
    "digest": Field("str", "What the answer is bound to: SHA-256 of the tool and its arguments.", required=True),
    "question": Field("str", "What a person is asked; null where it is whether the tool may be called."),
    "state": Field("str", "waiting, approved or denied.", required=True),
    "waits": Field("str", "The agent until it is decided."),
    "answer": Field("str", "What the person answered, or why not."),
    "by": Field("str", "The actor that decided."),
    "decided_at": Field("str", "When, UTC."),
    "mark": Field("str", "What shows that a person of this machine decided.", private=True),
}
_CURSOR = {
    "name": Field("str", "What reads the feed.", required=True),
    "seq": Field("int", "The last event that it has read.", required=True),
}
_AGENT_INDEXES = ("name", "state", "hypothesis", "listed", "key", "hears")

KINDS: tuple[RecordKind | EventKind, ...] = (
    RecordKind("agent", _AGENT, indexes=_AGENT_INDEXES, prefix="a"),
    RecordKind("branch", _BRANCH, prefix="b"),
    RecordKind("account", _ACCOUNT),
    RecordKind("step", _STEP, ledger=True, indexes=("branch", "turn")),
    RecordKind("message", _MESSAGE, indexes=("agent", "queue", "open", "dedup"), prefix="m"),
    RecordKind("checkpoint", _CHECKPOINT, indexes=("live",), prefix="k"),
    RecordKind("memory", _MEMORY, indexes=_MEMORY_INDEXES, prefix="y"),
    RecordKind("timer", _TIMER, indexes=("agent", "active", "dedup"), prefix="t"),
    RecordKind("approval", _APPROVAL, indexes=("agent", "step", "waits"), prefix="q"),
    RecordKind("cursor", _CURSOR, indexes=("name",)),
    EventKind("timed", "subject: the agent; payload: timer, next"),
    EventKind("asked", "subject: the agent; payload: approval, message, tool, question"),
    EventKind("decided", "subject: the agent; payload: approval, message, state"),
    EventKind("remembered", "subject: the scope; payload: memory, key, status"),
    EventKind("created", "subject: the agent; payload: name, parent"),
    EventKind("changed", "subject: the agent; payload: fields"),
    EventKind("moved", "subject: the agent; payload: from, to, reason"),
    EventKind("posted", "subject: the agent; payload: message, type"),
    EventKind("answered", "subject: the agent; payload: message, outcome"),
    EventKind("restored", "subject: the agent; payload: checkpoint, saved"),
    EventKind("deleted", "subject: the agent; payload: name"),
)
