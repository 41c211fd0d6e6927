"""Consolidation: entries of memory that say the same become one, and old messages of an agent become a summary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, cast

from perpetual import Lab
from perpetual.api import TransientError
from perpetual_agents.agents import Agents
from perpetual_agents.compaction import compact
from perpetual_agents.journal import Journal
from perpetual_agents.memory import AgentMemory, Judged
from perpetual_agents.memory_index import index_of, is_person, resembling
from perpetual_agents.memory_text import are_alike, shingles
from perpetual_agents.serving import busy, handlers_of
from perpetual_agents.turn import Turn

if TYPE_CHECKING:
    from perpetual_agents.data import Agent
    from perpetual_agents.journal import Step
    from perpetual_agents.memory_documents import ConsolidatedDocument, MemoryDocument
    from perpetual_agents.model import ModelBackend

__all__ = ["consolidate", "merge"]

_PAGE = 500
_RESEMBLING = 50
_LONGEST = 60 * 1024  # characters of a merged text


class Merge(NamedTuple):
    """Entries of which one stands for the others; `text` is None where it says what they say already."""

    into: MemoryDocument
    others: list[MemoryDocument]
    text: str | None


def consolidate(
    lab: Lab, agent: str, *, scope: str | None = None, backend: ModelBackend | None = None
) -> ConsolidatedDocument:
    """Merges entries of an agent's memory that say the same, and summarises its old messages.

    What a person wrote is neither merged nor pruned, and every version stays in the history. `AgentMemory.undo` takes
    the merging back, with the batch that is answered. The summary is made as a compaction's is, of the turns beyond
    half of the agent's limits.

    Args:
        lab: the project.
        agent: an agent's id or name.
        scope: a shared scope instead, of which there are entries only.
        backend: what asks models; None is the one in force.

    Raises:
        TransientError: while another process works on the agent.
        LimitReached: where a limit does not hold the request for the summary.
    """
    memory, one = AgentMemory(lab), Agents(lab).get(agent)
    home = memory.scope(scope or one.id)
    batch, merges = merge(lab, home)
    step = None if scope is not None else asyncio.run(_summarise(lab, one, backend))
    body = step.body if step is not None else {}
    return {
        "scope": home, "batch": batch, "merged": [found.into["key"] for found in merges],
        "pruned": [other["key"] for found in merges for other in found.others],
        "summary": cast("str | None", body.get("memory")),
        "covers": step.message.get("covers", 0) if step is not None and step.message is not None else 0,
        "by": cast("str | None", body.get("model")),
    }  # fmt: skip


async def _summarise(lab: Lab, agent: Agent, backend: ModelBackend | None) -> Step | None:
    async with busy(lab, agent.id) as held:
        if not held:
            raise TransientError(f"another process works on {agent.id}", hint="try again once it is idle")
        asks = backend if backend is not None else cast("ModelBackend", lab.part("model_backend"))
        with Lab.open(lab.root, actor=f"agent:{agent.name}", registry=lab.registry) as acts:
            journal = Journal(acts, agent.id, agent.branch)
            last = await asyncio.to_thread(journal.last)
            turn = Turn(acts, agent, id=f"consolidation/{last}", text="", sender=lab.actor, type="message",
                        journal=journal, tools={}, backend=asks, handlers=handlers_of(lab))  # fmt: skip
            try:
                return await compact(turn, now=True)
            finally:
                await asks.close()


def merge(lab: Lab, scope: str) -> tuple[str | None, list[Merge]]:
    """Merges the entries of a scope that say the same, in one transaction; returns its batch and what was merged.

    The newest of them stands for the others, with the lines of theirs that it lacks. Where the gates would not pass
    that, they are left as they are.
    """
    memory = AgentMemory(lab)
    merges = _groups(lab, memory, scope)
    if not merges:
        return None, []
    ids = sorted(one["id"] for found in merges for one in (found.into, *found.others))
    batch = f"c{sha256(' '.join(ids).encode()).hexdigest()[:12]}"
    judged: list[tuple[Merge, Judged | None]] = []
    for found in merges:
        said = memory.judge(scope, found.into["key"], found.text) if found.text is not None else None
        if said is None or said.status == "active":
            judged.append((found, said))
    done: list[Merge] = []
    with lab.transaction():
        for found, said in judged:
            if not all(_is_present(memory, one) for one in (found.into, *found.others)):
                continue  # written meanwhile
            if said is not None:
                sources = [one["id"] for one in (found.into, *found.others)]
                memory.keep(said, sources=sources, batch=batch, author=found.into["author"])
            for other in found.others:
                memory.prune(scope, other["key"], into=found.into["key"], batch=batch)
            done.append(found)
    return (batch if done else None), done


def _is_present(memory: AgentMemory, one: MemoryDocument) -> bool:
    newest = memory.history(one["scope"], one["key"], limit=1).items
    return bool(newest) and newest[0]["id"] == one["id"]


def _groups(lab: Lab, memory: AgentMemory, scope: str) -> list[Merge]:
    entries = {one["id"]: one for one in _entries(memory, scope)}
    parts = {id: shingles(str(one["value"])) for id, one in entries.items()}
    group = {id: id for id in entries}

    def root(id: str) -> str:
        while group[id] != id:
            group[id] = group[group[id]]
            id = group[id]
        return id

    with index_of(lab).of(lab) as connection:
        for id, one in entries.items():
            for other in resembling(connection, scope, str(one["value"]), most=_RESEMBLING):
                if other.id != id and other.id in entries and are_alike(parts[id], parts[other.id]):
                    group[root(id)] = root(other.id)
    found: dict[str, list[MemoryDocument]] = {}
    for id in entries:
        found.setdefault(root(id), []).append(entries[id])
    merges = []
    for alike in found.values():
        if len(alike) > 1:
            into, *others = sorted(alike, key=lambda one: (one["created_at"], one["id"]), reverse=True)
            text = _merged(into, others)
            if len(text) <= _LONGEST:
                merges.append(Merge(into, others, text if text != into["value"] else None))
    return merges


def _entries(memory: AgentMemory, scope: str) -> list[MemoryDocument]:
    """Returns the texts of a scope that agents wrote and that agents see."""
    found: list[MemoryDocument] = []
    cursor: str | None = None
    while True:
        page = memory.list(scope, limit=_PAGE, cursor=cursor)
        found += [one for one in page.items if one["status"] in ("active", "released")
                  and isinstance(one["value"], str) and not is_person(one["author"])]  # fmt: skip
        cursor = page.next_cursor
        if cursor is None:
            return found


def _merged(into: MemoryDocument, others: Sequence[MemoryDocument]) -> str:
    """Returns a text with the lines of the others that it lacks."""
    text = str(into["value"])
    lines = {" ".join(line.split()).casefold() for line in text.splitlines()}
    for other in others:
        for line in str(other["value"]).splitlines():
            plain = " ".join(line.split()).casefold()
            if plain and plain not in lines:
                lines.add(plain)
                text = f"{text}\n{line}"
    return text
