"""What a search of memory answers: full text always, and vectors where an embedder is installed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Protocol, cast

from perpetual_agents.memory import reads_as_agent, together
from perpetual_agents.memory_index import Found, index_of, search
from perpetual_agents.memory_text import match_of

if TYPE_CHECKING:
    import sqlite3

    from perpetual import Lab
    from perpetual_agents.memory_documents import MemoryHitDocument

__all__ = ["found"]

_CANDIDATES = 20  # that vectors put in order
_SPARE = 8  # that are fetched beyond those asked for, where an agent is not shown all
_LONGEST = 8_000  # characters that are embedded


class _Embedder(Protocol):
    """What serves in the slot `embedder`, which another plugin brings."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Returns a vector for each text."""


def found(lab: Lab, query: str, scopes: Sequence[str], *, k: int, said: bool) -> list[MemoryHitDocument]:
    """Returns the hits of a search, the best first; see `AgentMemory.search`."""
    match, for_agents = match_of(query), reads_as_agent(lab)
    embedders = lab.parts("embedder") if "embedder" in lab.registry.slots else []
    most = max(k, _CANDIDATES) if embedders else k
    with index_of(lab).of(lab) as connection:
        rows = search(connection, match, scopes, for_agents=for_agents, said=said, most=most + _SPARE * for_agents)
        if for_agents:
            rows = _harmless(lab, rows, most)
        ranked = (
            _by_vectors(connection, embedders[0], query, rows) if embedders and rows else [(one, None) for one in rows]
        )
    return [_hit(one, cosine) for one, cosine in ranked[:k]]


def _harmless(lab: Lab, rows: list[Found], most: int) -> list[Found]:
    """Returns at most `most` rows that an agent may read together: nothing that a person said and no gate would pass.

    Pieces of an attack are left out, and the next ones take their places.
    """
    rows = [one for one in rows if not one.is_said or lab.memory.scan(one.text)["outcome"] == "pass"]
    while out := together(lab, [one.text for one in rows[:most]]):
        rows = [one for place, one in enumerate(rows) if place not in out]
    return rows[:most]


def _by_vectors(
    connection: sqlite3.Connection, embedder: tuple[str, object], query: str, rows: Sequence[Found]
) -> list[tuple[Found, float | None]]:  # fmt: skip
    """Returns the rows by the mean of BM25 as a share of the best and of the cosine; as they are where that fails."""
    name, part = embedder
    try:
        vectors = _vectors(connection, name, part, query, rows)
        cosines = [_cosine(vectors[0], vector) for vector in vectors[1:]]
    except Exception:  # noqa: BLE001 - an embedder is a foreign part, and full text works without it
        return [(one, None) for one in rows]
    best = max(-one.rank for one in rows) or 1.0
    scored = zip(rows, cosines, strict=True)
    return [*sorted(scored, key=lambda it: -(-it[0].rank / best + max(0.0, it[1])))]


def _vectors(
    connection: sqlite3.Connection, name: str, part: object, query: str, rows: Sequence[Found]
) -> list[list[float]]:
    """Returns the vectors of the query and of each row; those of versions are kept under the embedder's name."""
    known: dict[str, list[float]] = {}
    for one in rows:
        kept = connection.execute("SELECT vector FROM vectors WHERE embedder = ? AND id = ?", (name, one.id)).fetchone()
        if kept is not None:
            known[one.id] = json.loads(kept[0])
    new = [one for one in rows if one.id not in known]
    texts = [query[:_LONGEST], *(one.text[:_LONGEST] for one in new)]
    made = [[float(number) for number in vector] for vector in cast("_Embedder", part).embed(texts)]
    if len(made) != len(texts) or not all(map(isfinite, (number for vector in made for number in vector))):
        raise ValueError("the embedder answered no vectors")
    for one, vector in zip(new, made[1:], strict=True):
        known[one.id] = vector
        connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (name, one.id, json.dumps(vector)))
    return [made[0], *(known[one.id] for one in rows)]


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the cosine of two vectors; 0 where one is nought."""
    size = sqrt(sum(x * x for x in one)) * sqrt(sum(y * y for y in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / size if size > 0 else 0.0


def _hit(one: Found, cosine: float | None) -> MemoryHitDocument:
    return {"sort": "said" if one.is_said else "entry", "id": one.id, "scope": one.scope, "key": one.key,
            "text": one.text, "status": one.status, "author": one.author, "score": -one.rank, "cosine": cosine,
            "created_at": one.at}  # fmt: skip
