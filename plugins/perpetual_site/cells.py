"""The logbook's cells: what was done, by whom, in the order of the record. A function of the events.

A cell is one deed, with its anchor `c<seq>`. Runs of an experiment that ended one after another, with nothing done
between them, are one cell, which has the anchor of the first. Deeds that say nothing to a reader (a run is queued, a
note waits) have none; remarks on a run are in its experiment's page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from perpetual_report.publishing import Actor, Publisher
from perpetual_report.snapshot import ENDED, Snapshot
from perpetual_site.notes import NoteVersions, html_of

if TYPE_CHECKING:
    from perpetual.api import Event
    from perpetual_report.numbers import Book, Number

__all__ = ["Cell", "cells_of"]

_ID = re.compile(r"[her]\d+\Z")
_LEDGER = Actor("program", "the evidence")  # where it decided, and no one by hand
_MOST_RUNS = 12  # that a cell names


@dataclass(slots=True)
class Cell:
    """One deed; `seq` is that of its first event, which is its anchor, and `about` the hypotheses and experiments."""

    seq: int
    time: str
    actor: Actor
    deed: str
    about: list[str] = field(default_factory=list)
    text: str | None = None  # what was said: a statement, a title, a reason
    facts: list[tuple[str, Number | str]] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)  # the first of them
    runs_left: Number | None = None
    note: Markup | None = None
    is_apart: bool = False  # archived since


def cells_of(
    events: Sequence[Event], snapshot: Snapshot, book: Book, publisher: Publisher, notes: NoteVersions
) -> list[Cell]:
    """Returns the cells, the oldest first."""
    made = _Cells(snapshot, book, publisher, notes)
    for event in events:
        made.take(event)
    made.close()
    return made.cells


class _Cells:
    """Makes cells event by event."""

    def __init__(self, snapshot: Snapshot, book: Book, publisher: Publisher, notes: NoteVersions) -> None:
        self._book, self._publisher, self._notes = book, publisher, notes
        self._statements = {item.id: item.statement for item in snapshot.hypotheses}
        self._experiments = {item.id: item for item in snapshot.experiments}
        self._evidence = {row.id: row for row in snapshot.evidence}
        self._launched: dict[str, str] = {}  # the actor, by run
        self._last_row: dict[str, tuple[str, str]] = {}  # the kind and the actor of a hypothesis' newest evidence
        self._ended: list[tuple[Event, str]] = []  # events of the open group, with the status
        self.cells: list[Cell] = []

    def take(self, event: Event) -> None:
        """Takes in one event."""
        kind, payload = event.kind, event.payload
        if kind == "run_created":
            self._launched[event.subject] = event.actor
        elif kind == "run_status" and payload["to"] in ENDED:
            if self._ended and self._group(self._ended[0][0]) != self._group(event):
                self.close()
            self._ended.append((event, payload["to"]))
        elif kind == "evidence_added":
            self._last_row[payload["hypothesis_id"]] = payload["kind"], event.actor
            if payload["kind"] != "measured":
                self._add(event, self._judged(event))
        else:
            make = _DEEDS.get(kind)
            cell = make(self, event) if make is not None else self._of_plugin(event)
            if cell is not None:
                self._add(event, cell)

    def close(self) -> None:
        """Makes the cell of the runs that have ended one after another."""
        if not self._ended:
            return
        (first, _), (last, _) = self._ended[0], self._ended[-1]
        of = first.payload["experiment_id"]
        counts = Counter(status for _, status in self._ended)
        ids = [event.subject for event, _ in self._ended]
        cell = self._cell(first, "ran", [of], self._title(of))
        cell.time, cell.actor = last.time, self._publisher.actor(self._launched.get(first.subject, first.actor))
        source = f"record@{last.seq}"
        cell.facts = [
            (status, self._book.count(f"c{first.seq}.{status}", counts[status], source))
            for status in ENDED
            if counts[status]
        ]
        cell.runs = ids[:_MOST_RUNS]
        if len(ids) > _MOST_RUNS:
            cell.runs_left = self._book.count(f"c{first.seq}.more", len(ids) - _MOST_RUNS, source)
        self._ended = []
        self.cells.append(cell)

    def _group(self, event: Event) -> tuple[str, str]:
        return event.payload["experiment_id"], self._launched.get(event.subject, event.actor)

    def _add(self, event: Event, cell: Cell) -> None:
        self.close()
        self.cells.append(cell)

    def _cell(self, event: Event, deed: str, about: Sequence[str] = (), text: str | None = None) -> Cell:
        return Cell(event.seq, event.time, self._publisher.actor(event.actor), deed, [*about], text)

    def _words(self, text: object) -> str | None:
        return self._publisher.text(str(text)) if text else None

    def _title(self, experiment_id: str) -> str | None:
        found = self._experiments.get(experiment_id)
        return None if found is None else found.title

    def _family(self, experiment_id: str) -> list[str]:
        """Returns an experiment with the hypothesis that it tests."""
        found = self._experiments.get(experiment_id)
        return [experiment_id] + ([found.hypothesis_id] if found is not None and found.hypothesis_id else [])

    # --- deeds ------------------------------------------------------------------------------------------------------

    def _began(self, event: Event) -> Cell:
        return self._cell(event, "began the project", (), self._words(event.payload["name"]))

    def _stated(self, event: Event) -> Cell:
        cell = self._cell(event, "stated a hypothesis", [event.subject], self._words(event.payload["statement"]))
        prior = self._book.number(f"c{event.seq}.prior", event.payload["prior"], f"{event.subject}@{event.seq}")
        if prior is not None:
            cell.facts = [("prior", prior)]
        return cell

    def _changed(self, event: Event) -> Cell:
        keys = [key for key in event.payload if key != "was"]
        said = event.payload.get("statement")
        cell = self._cell(event, "changed a hypothesis", [event.subject], self._words(said))
        cell.facts = [("changed", ", ".join(keys))] if keys else []
        return cell

    def _verdict(self, event: Event) -> Cell:
        id, payload = event.subject, event.payload
        cell = self._cell(event, f"verdict: {payload['to']}", [id], self._statements.get(id))
        kind, by = self._last_row.get(id, ("measured", event.actor))
        cell.actor = _LEDGER if kind == "measured" else self._publisher.actor(by)
        source = f"{id}@{event.seq}"
        found = (
            ("confidence", self._book.number(f"c{event.seq}.confidence", payload["confidence"], source, form=".3f")),
            (
                "false-alarm bound",
                self._book.number(f"c{event.seq}.bound", payload.get("false_alarm_bound"), source, form=".2g"),
            ),
        )
        cell.facts = [("before", str(payload["from"])), *((name, number) for name, number in found if number)]
        return cell

    def _proposed(self, event: Event) -> Cell:
        return self._cell(event, "proposed", self._family(event.subject), self._words(event.payload["title"]))

    def _about(self, deed: str) -> Callable[[Event], Cell]:
        def make(event: Event) -> Cell:
            id = event.subject
            about = self._family(id) if id in self._experiments else [id]
            return self._cell(event, deed, about, self._title(id) or self._statements.get(id))

        return make

    def _rejected(self, event: Event) -> Cell:
        deed = "withdrew" if event.payload.get("withdrawn") else "rejected"
        return self._cell(event, deed, self._family(event.subject), self._words(event.payload.get("reason")))

    def _edited(self, event: Event) -> Cell:
        cell = self._about("edited")(event)
        cell.facts = [("changed", self._publisher.text(", ".join(map(str, event.payload["changed"]))))]
        if event.payload["voided"]:
            cell.facts.append(("approval", "void"))
        return cell

    def _renewed(self, event: Event) -> Cell:
        return self._cell(event, "renewed the baseline", [event.subject, event.payload["by"]])

    def _undone(self, event: Event) -> Cell:
        about = [event.subject] if _ID.match(event.subject) else []
        cell = self._cell(event, "took back", about)
        cell.facts = [("what", str(event.payload["kind"]).replace("_", " "))]
        return cell

    def _judged(self, event: Event) -> Cell:
        payload, row = event.payload, self._evidence.get(event.subject)
        is_retraction = payload["kind"] == "retraction"
        cell = self._cell(event, "took back evidence" if is_retraction else "judged", [payload["hypothesis_id"]])
        if row is not None:
            cell.text = row.reason
            if row.target:
                cell.facts.append(("row", row.target))
            if row.verdict:
                cell.facts.append(("verdict", row.verdict))
            strength = self._book.number(f"{row.id}.strength", row.strength, row.id)
            if strength is not None:
                cell.facts.append(("strength", strength))
        return cell

    def _accepted(self, event: Event) -> Cell | None:
        path, blob = event.subject, event.payload["blob"]
        standing = self._notes.accepted(path)
        if standing is None:
            return None  # rejected or in quarantine since: not even its name is shown
        cell = self._cell(event, "accepted a note", (), self._words(event.payload.get("why")))
        cell.facts = [("note", self._publisher.text(path))]
        if standing != blob:
            cell.facts.append(("version", "an earlier one, replaced since"))
            return cell
        text = self._notes.text(path, blob)
        cell.note = None if text is None else html_of(text)
        return cell

    def _limited(self, event: Event) -> Cell:
        limit = event.payload["limit_gpu_hours"]
        number = self._book.number(f"c{event.seq}.limit", limit, f"budget@{event.seq}", form="g")
        cell = self._cell(event, "set the budget")
        cell.facts = [("GPU-hours", number if number is not None else "no limit")]
        return cell

    def _ruled(self, event: Event) -> Cell:
        cell = self._cell(event, "set the methodology")
        cell.facts = [(self._publisher.text(event.subject), self._publisher.text(str(event.payload["value"])))]
        return cell

    def _adopted(self, event: Event) -> Cell:
        cell = self._cell(event, "took over work of another tool", (), self._words(event.payload.get("source")))
        found = (
            (name, self._book.put(f"c{event.seq}.{name}", count, str(count), f"record@{event.seq}"))
            for name in ("hypotheses", "experiments", "runs", "evidence")
            if isinstance(count := event.payload.get(name), int)
        )
        cell.facts = [(name, number) for name, number in found if number is not None]
        return cell

    def _refolded(self, event: Event) -> Cell:
        cell = self._cell(event, "folded the evidence by newer rules")
        cell.actor = Actor("program", "perpetual")
        return cell

    def _stopped(self, event: Event) -> Cell:
        return self._cell(event, "stopped the loop", (), self._words(event.payload["reason"]))

    def _of_plugin(self, event: Event) -> Cell | None:
        """Returns a deed that a plugin recorded, by its name: what its payload may show is not known here."""
        if "." not in event.kind or _ID.match(event.subject) is None:
            return None
        cell = self._cell(event, "recorded", [event.subject] if event.subject[0] != "r" else [])
        cell.runs = [event.subject] if event.subject[0] == "r" else []
        cell.facts = [("what", self._publisher.text(event.kind))]
        return cell


def _plainly(deed: str) -> Callable[[_Cells, Event], Cell]:
    return lambda cells, event: cells._about(deed)(event)


_DEEDS: Mapping[str, Callable[[_Cells, Event], Cell | None]] = {
    "project_created": _Cells._began,
    "hypothesis_added": _Cells._stated,
    "hypothesis_updated": _Cells._changed,
    "hypothesis_status": _Cells._verdict,
    "experiment_proposed": _Cells._proposed,
    "experiment_approved": _plainly("approved"),
    "approval_accepted": _plainly("accepted the approval"),
    "code_approved": _plainly("approved the changed code"),
    "baseline_renewed": _Cells._renewed,
    "experiment_edited": _Cells._edited,
    "record_archived": _plainly("archived"),
    "record_restored": _plainly("restored"),
    "deed_undone": _Cells._undone,
    "experiment_rejected": _Cells._rejected,
    "spec_completed": _plainly("gave the command"),
    "budget_set": _Cells._limited,
    "note_promoted": _Cells._accepted,
    "methodology_set": _Cells._ruled,
    "work_adopted": _Cells._adopted,
    "rules_changed": _Cells._refolded,
    "loop_stopped": _Cells._stopped,
}
