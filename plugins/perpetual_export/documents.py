"""The document of `perpetual export`."""

from __future__ import annotations

from typing import Literal

from perpetual.documents import TypedDict

__all__ = ["AdHocNow", "Crate", "Export"]


class Export(TypedDict):
    """A table that was written: `what` it is of, its format, file, number of rows and names of columns.

    `columns` are the keys of a row in JSON lines. `left_out` are names beyond the most columns that a table has.
    """

    what: str
    format: str
    path: str
    rows: int
    columns: list[str]
    left_out: list[str]


class AdHocNow(TypedDict):
    """An ad-hoc run that is not in the record yet; `metrics` are its newest values, null: not finite.

    `state` unknown: it was begun on another machine. `unfinished`: its process is gone and did not finish it.
    """

    title: str
    state: Literal["running", "ended", "unfinished", "unknown"]
    started_at: str | None
    pid: int | None
    host: str | None
    axis: str | None
    step: float | None
    metrics: dict[str, float | None]


class Crate(TypedDict):
    """An RO-Crate that was written, of the record after the event `seq`.

    `artifacts` counts what runs left to keep, of which `copied` are inside; the others are described by size and hash.
    `missing` are recommended fields that no option gave; `notes` say what could not be copied.
    """

    path: str
    format: str
    seq: int
    runs: int
    files: int
    artifacts: int
    artifact_bytes: int
    copied: int
    missing: list[str]
    notes: list[str]
