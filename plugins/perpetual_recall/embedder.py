"""The slot `embedder`: vectors of texts, mixed into the similarity of notes. None is bundled."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import TYPE_CHECKING

from perpetual.api import PluginError

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.index import Connection, Version

__all__ = ["Embedder", "cosine", "with_vectors"]

_LONGEST = 8000  # characters of a note that are embedded


class Embedder(ABC):
    """Turns texts into vectors; its promises are the tests of `perpetual_recall.testing.embedders`.

    The first embedder that serves is asked, with the query and with the notes that BM25 found; vectors of notes are
    kept under the embedder's name, so one that changes its vectors changes its name.
    """

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Returns a vector of finite numbers for each text, all of one length, the same for the same text."""


def with_vectors(lab: Lab, connection: Connection, query: str, found: Sequence[Version]) -> list[Version]:
    """Returns the versions with the cosine of their vectors to the query's, where an embedder is installed.

    Raises:
        PluginError: where it answers no vectors.
    """
    parts = lab.parts("embedder") if found else []
    if not parts:
        return [*found]
    name, part = parts[0]
    known = {it.blob: vector for it in found if (vector := _kept(connection, name, it.blob)) is not None}
    new = [it for it in {it.blob: it for it in found}.values() if it.blob not in known]
    texts = [query[:_LONGEST], *(it.text[:_LONGEST] for it in new)]
    vectors = [[float(number) for number in vector] for vector in part.embed(texts)]
    if len(vectors) != len(texts) or not all(map(isfinite, (number for vector in vectors for number in vector))):
        raise PluginError(f"the embedder {name} answered no vectors", hint="perpetual plugins check names what fails")
    for it, vector in zip(new, vectors[1:], strict=True):
        known[it.blob] = vector
        connection.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (name, it.blob, json.dumps(vector)))
    return [it._replace(cosine=cosine(vectors[0], known[it.blob])) for it in found]


def _kept(connection: Connection, name: str, blob: str) -> list[float] | None:
    row = connection.execute("SELECT vector FROM vectors WHERE embedder = ? AND blob = ?", (name, blob)).fetchone()
    if row is None:
        return None
    vector: list[float] = json.loads(row[0])
    return vector


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Returns the cosine of two vectors; 0 where one is nought, or they are of different lengths."""
    size = sqrt(sum(x * x for x in one)) * sqrt(sum(y * y for y in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / size if size > 0 and len(one) == len(other) else 0.0
