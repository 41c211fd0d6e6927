"""The documents of `perpetual agent memory`."""

from __future__ import annotations

from perpetual.documents import TypedDict
from perpetual.documents.memory import TextFinding

__all__ = [
    "ConsolidatedDocument", "MemoryDeleted", "MemoryDocument", "MemoryHitDocument", "MemoryVerdict",
    "MemoryUndone", "MemoryWriteDocument",
]  # fmt: skip


class MemoryVerdict(TypedDict):
    """What the gates said of key and value together; `span` of a finding counts from the key's first character."""

    outcome: str
    category: str | None
    findings: list[TextFinding]


class MemoryDocument(TypedDict):
    """A version of an entry.

    `status` is active, quarantined, released, rejected, deleted or pruned. `author` wrote the value; `agent`, `message`
    and `step` say in which turn. `sources` are the versions, or the steps of the journal, that it was made of. `batch`
    names the consolidation that made or pruned it, and `into` the entry that stands for one that was pruned.
    """

    id: str
    scope: str
    key: str
    value: object
    status: str
    version: int
    author: str
    agent: str | None
    message: str | None
    step: str | None
    why: str | None
    sources: list[str]
    batch: str | None
    into: str | None
    verdict: MemoryVerdict | None
    released_by: str | None
    created_at: str


class MemoryWriteDocument(MemoryDocument):
    """An entry as it was written.

    `changed` is false where it said so already. `alike` are keys that say the same, null where none were compared.
    """

    changed: bool
    alike: list[str] | None


class MemoryHitDocument(TypedDict):
    """An entry, or something that a person said, which a search found.

    `sort` is entry or said. `score` is BM25, higher is better; `cosine` is null without an embedder. Of what was said,
    `key` is the id of the message.
    """

    sort: str
    id: str
    scope: str
    key: str
    text: str
    status: str
    author: str
    score: float
    cosine: float | None
    created_at: str


class MemoryDeleted(TypedDict):
    """An entry that was deleted; `version` is the version that says so."""

    id: str
    scope: str
    key: str
    version: int


class MemoryUndone(TypedDict):
    """A consolidation that was taken back; `keys` are the entries that are as they were."""

    batch: str
    keys: list[str]


class ConsolidatedDocument(TypedDict):
    """What a consolidation did.

    `merged` are the entries that stand for others, `pruned` those others. `summary` is the entry with the summary of
    old messages, null where none was due; `covers` is of how many, `by` the model that wrote it, null for none.
    `batch` undoes the merging.
    """

    scope: str
    batch: str | None
    merged: list[str]
    pruned: list[str]
    summary: str | None
    covers: int
    by: str | None
