"""Entry point: writes what runs have shown to memory; imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Field, RecordKind, hookimpl

if TYPE_CHECKING:
    from perpetual import Lab


@hookimpl
def perpetual_kinds() -> list[RecordKind]:
    """Brings what is kept of the notes that are written from the record."""
    return [
        RecordKind("place", {"event": Field("int", "seq of the last event that notes were written of", required=True)},
                   exported=False),
        RecordKind("case", {
            "hypothesis": Field("str", "the decided hypothesis", required=True, references="hypothesis"),
            "path": Field("str", "path of its note", required=True),
        }, indexes=("hypothesis",)),
        RecordKind("crash", {
            "run": Field("str", "the run that crashed", required=True, references="run"),
            "signature": Field("str", "eight digits of the hash of what it crashed of", required=True),
        }, indexes=("run", "signature")),
        RecordKind("failure", {
            "signature": Field("str", "eight digits of the hash of the rest", required=True),
            "path": Field("str", "path of its note", required=True),
            "program": Field("str", "name of the program", required=True),
            "cause": Field("str", "kind of the symptom, or how the runs ended", required=True),
            "exception": Field("str", "type of the exception; empty where none is named", required=True),
            "line": Field("str", "the last error line, its numbers, paths and ids masked", required=True),
            "count": Field("int", "runs that crashed so", required=True),
            "first_run": Field("str", "the first of them", required=True, references="run"),
            "first_seen": Field("str", "when that one ended (ISO 8601, UTC)", required=True),
            "last_run": Field("str", "the newest of them", required=True, references="run"),
            "last_seen": Field("str", "when that one ended (ISO 8601, UTC)", required=True),
            "runs": Field("list", "ids of the newest 20", required=True),
        }, indexes=("signature",)),
    ]  # fmt: skip


@hookimpl
def perpetual_analysed(lab: Lab) -> None:
    """Writes the notes of verdicts and crashes that are new."""
    if lab.config.methodology["memory_write_on_completion"]:
        from perpetual_notes.writing import catch_up

        catch_up(lab)
