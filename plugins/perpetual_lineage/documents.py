"""The documents of `perpetual memory reject` and `perpetual memory lineage`."""

from __future__ import annotations

from perpetual.documents import TypedDict
from perpetual.documents.memory import MemoryDecision

__all__ = ["Follower", "Lineage", "Rejection", "Source"]


class Follower(TypedDict):
    """A note that loses its ground with another one.

    `status` is its status before, `now` the one after (the same where it was not decided on), `through` the source by
    which it derives from the rejected note.
    """

    path: str
    status: str
    now: str
    through: str


class Rejection(MemoryDecision, total=False):
    """What was decided about the version `blob` of a note; `was` is its status before, `verdict` what the gates say.

    `evidence` is what promotion stages decided on, by their names; null for a decision of a person. `shown` is the
    version that agents are shown from now on, promoted before; null for none. `derived` are the notes that follow a
    rejection: taken back too, or with `kept` left to a person.
    """

    shown: str | None
    derived: list[Follower]
    kept: bool


class Source(TypedDict):
    """A note that another one derives from; `status` is null where there is no such note."""

    path: str
    status: str | None


class Lineage(TypedDict):
    """What a note derives from, and what derives from it, the nearest first.

    `lost` says why it is not offered; `review` why a promoted one whose source was taken back is left to a person.
    """

    path: str
    status: str
    lost: str | None
    review: str | None
    sources: list[Source]
    derived: list[Source]
