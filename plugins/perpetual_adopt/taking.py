"""Hands the items of a source to `lab.imports`: the limit, the hypothesis that was named, and what was left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypedDict

from perpetual import Lab
from perpetual.toolkit.import_records import (
    Batch,
    ImportedExperiment,
    ImportedHypothesis,
    ImportedNote,
    ImportedRecord,
    ImportedRun,
    Taken,
)
from perpetual_adopt.source import Item, Skipped, Source

if TYPE_CHECKING:
    from perpetual_adopt.documents import AdoptionKnown, AdoptionSkipped

__all__ = ["Adopted", "Counts", "Rehearsed", "Wishes", "rehearse", "take"]

_LISTED = 200  # of what was left out; the rest is counted
_TELL_EVERY = 200  # records
_NOUNS: dict[type, str] = {
    ImportedHypothesis: "hypotheses",
    ImportedExperiment: "experiments",
    ImportedRun: "runs",
    ImportedNote: "notes",
}


class Counts(TypedDict):
    """New records, and by noun those that an earlier import took."""

    hypotheses: int
    experiments: int
    runs: int
    evidence: int
    notes: int
    known: AdoptionKnown
    gpu_hours: float
    run_hours: float
    debited_gpu_hours: float


class Rehearsed(Counts):
    """What a source would bring."""

    skipped: list[AdoptionSkipped]
    is_complete: bool


class Adopted(Rehearsed):
    """What a source has brought."""

    experiments_total: int


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a source is taken over."""

    hypothesis_id: str | None = None  # put every experiment under this one, and make none
    limit: int | None = None  # of new experiments
    charge: bool = False  # debit the budget with the GPU-hours that the runs used
    dry_run: bool = False
    progress: Callable[[int], None] | None = None  # called with the number of items seen


@dataclass(slots=True)
class _Stream:
    """The records of a source, and what of it was left out."""

    lab: Lab
    source: Source
    wishes: Wishes
    skipped: list[Skipped] = field(default_factory=list)
    unlisted: int = 0
    is_complete: bool = True

    def records(self) -> Iterator[ImportedRecord]:
        """Yields the records up to the first new experiment beyond the limit."""
        target = self.wishes.hypothesis_id
        if target is not None:
            target = self.lab.hypotheses.get(target).id
        seen = new = 0
        for seen, item in enumerate(self.source.items(), 1):
            if self.wishes.limit is not None and self._is_new(item):
                if new >= self.wishes.limit:
                    self.is_complete = False
                    break
                new += 1
            if isinstance(item, Skipped):
                self.leave(item)
            elif target is None:
                yield item
            elif isinstance(item, ImportedExperiment):
                yield replace(item, hypothesis=None, hypothesis_id=target)
            elif not isinstance(item, ImportedHypothesis):
                yield item
            if seen % _TELL_EVERY == 0:
                self._tell(seen)
        self._tell(seen)

    def leave(self, item: Skipped) -> None:
        """Lists what was left out, or counts it."""
        if len(self.skipped) < _LISTED:
            self.skipped.append(item)
        else:
            self.unlisted += 1

    def _is_new(self, item: Item) -> bool:
        return isinstance(item, ImportedExperiment) and self.lab.imports.id_of(self.source.kind, item.key) is None

    def _tell(self, seen: int) -> None:
        if self.wishes.progress is not None:
            self.wishes.progress(seen)


def take(lab: Lab, source: Source, wishes: Wishes) -> Adopted:
    """Takes over what the record does not have yet; the counts of the document of `perpetual adopt`.

    Raises:
        TransientError: while another import into this project goes on.
        NotFound: for an unknown hypothesis.
    """
    stream = _Stream(lab, source, wishes)
    folder = source.path if source.path.is_dir() else source.path.parent
    batch = Batch(
        plugin="adopt",
        kind=source.kind,
        source=source.name,
        records=stream.records(),
        folder=folder,
        charge=wishes.charge,
        dry_run=wishes.dry_run,
    )
    taken = lab.imports.take(batch)
    for remark in taken.remarks:
        stream.leave(Skipped(remark.what, remark.why))
    stream.unlisted += taken.unlisted_remarks
    return {
        **_counts(taken),
        "skipped": _listed(stream.skipped, stream.unlisted),
        "is_complete": stream.is_complete,
        "experiments_total": taken.experiments_total,
    }


def _counts(taken: Taken) -> Counts:
    return {
        "hypotheses": taken.hypotheses,
        "experiments": taken.experiments,
        "runs": taken.runs,
        "evidence": taken.evidence,
        "notes": taken.notes,
        "known": {
            "hypotheses": taken.known["hypotheses"],
            "experiments": taken.known["experiments"],
            "runs": taken.known["runs"],
            "notes": taken.known["notes"],
        },
        "gpu_hours": taken.gpu_hours,
        "run_hours": taken.run_hours,
        "debited_gpu_hours": taken.debited_gpu_hours,
    }


def _listed(skipped: list[Skipped], unlisted: int) -> list[AdoptionSkipped]:
    more: list[AdoptionSkipped] = [{"what": f"{unlisted} more", "why": "not listed"}] if unlisted else []
    listed: list[AdoptionSkipped] = [{"what": item.what, "why": item.why} for item in skipped]
    return [*listed, *more]


def rehearse(source: Source) -> Rehearsed:
    """Returns what `take` would answer where there is no project yet."""
    taken = Taken()
    skipped: list[Skipped] = []
    for item in source.items():
        if isinstance(item, Skipped):
            skipped.append(item)
            continue
        noun = _NOUNS[type(item)]
        setattr(taken, noun, getattr(taken, noun) + 1)
        if isinstance(item, ImportedRun):
            taken.gpu_hours += item.gpu_hours or 0.0
            taken.run_hours += item.run_hours or 0.0
    taken.debited_gpu_hours = taken.gpu_hours
    return {**_counts(taken), "skipped": _listed(skipped, 0), "is_complete": True}
