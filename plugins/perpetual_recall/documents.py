"""The documents of `perpetual memory block`, `memory search --explain` and `memory list --by worth`."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict

__all__ = ["BlockDocument", "BlockNoteLine", "Explained", "NotePrice", "NoteWorth", "PriceDocument"]


class BlockNoteLine(TypedDict):
    """A note of a block; `blob` is the version that is shown."""

    path: str
    blob: str
    type: str
    proven: bool
    same: list[str]  # paths of notes that say the same, and were merged into this one
    opposite: list[str]  # paths of notes of the block that contradict it
    trimmed: bool
    tokens: int  # what is shown of it, its line included


class BlockDocument(TypedDict):
    """The text for an agent; `tokens` are ceil(UTF-8 bytes / 4), markup included."""

    text: str
    tokens: int
    limit_tokens: int
    notes: list[BlockNoteLine]


class Explained(TypedDict):
    """The arithmetic of a note's place: `score` is half of `z_sim` and half of `z_q`."""

    path: str
    type: str
    status: str
    title: str
    bm25: float
    sim: float  # a share of the best
    good: float  # outcomes, in fractions of one over the notes of the context
    bad: float
    q: float  # (good + 1) / (good + bad + 2)
    sd: float
    z_sim: float
    z_q: float  # of q less sd
    score: float
    in_scope: bool
    left_out: str | None  # why agents are not offered it


class PriceDocument(TypedDict):
    """What a version of a note was measured to earn: `uplift` of the score, and for 1,000 tokens of the memory block.

    `low` and `high` are an interval of 90 % that holds at every number of pairs; `tokens` the mean over the tasks.
    """

    uplift: float
    low: float
    high: float
    pairs: int
    tokens: float
    per_1000_tokens: float
    low_per_1000_tokens: float
    high_per_1000_tokens: float


class NotePrice(TypedDict):
    """The price of the note that `memory show` shows; null where its newest version was not measured."""

    price: NotRequired[PriceDocument | None]


class NoteWorth(TypedDict):
    """A note with the price of its newest version; null where that was never measured."""

    path: str
    status: str
    proven: bool
    type: str
    title: str
    blob: str
    price: PriceDocument | None
