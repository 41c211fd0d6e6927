"""The documents of `perpetual mirror`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["MirrorPush", "MirrorPushes"]


class MirrorPush(TypedDict):
    """What was pushed to one mirror.

    `folder` is where its files are, if it keeps any. `unchanged` runs had news that change nothing there. `waiting` are
    the runs that are not in it as they are now, `error` why one of them failed last. `seq` is the last event read.
    """

    target: str
    folder: str
    pushed: list[str]
    unchanged: int
    waiting: list[str]
    error: str | None
    seq: int


class MirrorPushes(TypedDict):
    """What `perpetual mirror` did; with `dry_run` nothing was pushed."""

    targets: list[MirrorPush]
    dry_run: bool
