"""What `perpetual verify` finds and answers; what it reads again beside the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Debit, Run
from perpetual_report.numbers import Book, Number
from perpetual_report.snapshot import ADOPTED, ENDED, Snapshot

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.documents import Verification

__all__ = ["Problem", "answer", "cited", "debits_of", "logs_of"]


class Problem(NamedTuple):
    """One thing that does not match; `where` is a place in the file, `source` one in the record."""

    number: str
    where: str
    claimed: str
    found: str
    source: str


def answer(
    format: str,
    seq: int,
    problems: Sequence[Problem],
    notes: list[str],
    *,
    checked: int = 0,
    pictures: int = 0,
    logs: int = 0,
) -> Verification:
    """Returns the answer of `perpetual verify`."""
    return {
        "ok": not problems,
        "format": format,
        "seq": seq,
        "checked": checked,
        "pictures": pictures,
        "logs": logs,
        "problems": [
            {
                "number": problem.number,
                "where": problem.where,
                "claimed": problem.claimed,
                "found": problem.found,
                "source": problem.source,
                "why": "differs",
            }
            for problem in problems
        ],
        "notes": notes,
        "fixed": 0,
    }


def debits_of(snapshot: Snapshot, rows: Sequence[Debit]) -> Iterator[Problem]:
    """Checks the ledger's rows that the file names: they must settle exactly the runs that had ended."""
    ended = {run.id for run in snapshot.runs if run.status in ENDED}
    wanted = {row.id for row in rows if row.kind == "settle" and row.run_id in ended}
    named = {row.id for row in snapshot.debits if row.kind == "settle"}
    if wanted != named:
        odd = ", ".join(sorted(wanted ^ named)[:5])
        yield Problem("debits", "the file's head", str(len(snapshot.debits)), f"not the rows of that state ({odd})",
                      f"budget{snapshot.at}")  # fmt: skip


def cited(snapshot: Snapshot, book: Book) -> Iterator[tuple[Run, list[Number]]]:
    """Yields the runs whose files are cited, each with the numbers that cite them."""
    of: dict[str, list[Number]] = {}
    for number in book.numbers.values():
        if number.run is not None and "/" in number.source and number.metric is not None:
            of.setdefault(number.run, []).append(number)
    for run in snapshot.runs:
        if run.id in of and run.scheduler != ADOPTED:
            yield run, of[run.id]


def logs_of(lab: Lab, snapshot: Snapshot, book: Book) -> Iterator[Problem]:
    """Reads every cited line again, by the readers that read it when the run ended; yields the problems."""
    for run, numbers in cited(snapshot, book):
        now = lab.runs.read_metrics(run.id)
        for number in numbers:
            assert number.metric is not None
            seen = now.get(number.metric)
            place = f"{run.id}/{seen.source}" if seen else ""
            if seen is None:
                yield Problem(number.key, number.source, number.text, "the source is gone", number.source)
            elif seen.value != number.value:
                found = "no finite number" if seen.value is None else f"{seen.value!r}"
                yield Problem(number.key, place, number.text, found, number.source)
            elif place != number.source:
                yield Problem(number.key, place, number.source, place, number.source)
