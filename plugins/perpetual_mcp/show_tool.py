"""The tool that reads any record: `perpetual_show`. Registered by `perpetual_mcp.tools`.

The tools `perpetual_hypotheses`, `perpetual_evidence` and `perpetual_memory` write too, so a client that asks a person
before every tool that does not only read would ask for each look at them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar

from perpetual import Lab
from perpetual.api import Listing, UsageError, to_json
from perpetual.toolkit.units import identifier, start_of
from perpetual_mcp.bounds import Answer, fitted, listed, plain
from perpetual_mcp.read_tools import (
    Cursor,
    Limit,
    evidence_line,
    hypothesis_line,
    list_evidence,
    list_hypotheses,
    list_runs,
    measured_line,
    perpetual_experiments,
    read_memory,
    run_line,
    say_evidence,
    say_experiment,
    say_hypothesis,
    say_run,
    show_hypothesis,
    show_run,
)

if TYPE_CHECKING:
    from perpetual.api import Evidence, Experiment, Hypothesis, Run
    from perpetual_mcp.read_tools import EvidenceLine

__all__ = ["perpetual_show"]

T = TypeVar("T")
L = TypeVar("L", bound=Mapping[str, object])
_ID = re.compile(r"[A-Za-z]\d{1,9}")
_PAGE = 200  # records that a search reads at a time


def perpetual_show(
    lab: Lab,
    what: Annotated[str, "An id (h1, e2, r4, v3), a note's path, or hypotheses, experiments, runs, evidence, notes."],
    query: Annotated[str | None, "Of a kind: only those with these words; of evidence also a hypothesis: h1."] = None,
    limit: Limit = None,
    cursor: Cursor = None,
) -> Answer:
    """Show one record in full, or list or search a kind of them. It changes nothing that was stated or measured."""
    word = what.strip()
    if _ID.fullmatch(word):
        if query is not None:
            raise UsageError("an id names one record; query is for a kind", hint='what="runs"')
        return _one(lab, identifier(word))
    kind = _kind_of(word)
    if kind is None:
        if query is not None:
            raise UsageError(f"there is no kind {plain(word)!r}", hint=f"there is {', '.join(_LISTS)}")
        return read_memory(lab, "show", word, None, None, "time", limit, cursor)
    return _LISTS[kind](lab, (query or "").strip(), limit, cursor)


def _one(lab: Lab, id: str) -> Answer:
    """Returns one record in full."""
    if id[0] == "h":
        return show_hypothesis(lab, id)
    if id[0] == "e":
        return perpetual_experiments(lab, id)
    if id[0] == "r":
        return show_run(lab, id)
    if id[0] != "v":
        raise UsageError(f"{plain(id)} is no id of a record", hint="h1, e2, r4 or v3")
    row = to_json(lab.evidence.get(id))
    document = {
        "schema": "perpetual.evidence_list/1",
        "items": [],
        "evidence": row,
        "next_cursor": None,
        "truncated": False,
    }
    return fitted(document, say_evidence(evidence_line(row)))


def _kind_of(word: str) -> str | None:
    """Returns the kind that a word names, in the singular or the plural; None where it names none."""
    plural = {"hypothesis": "hypotheses", "experiment": "experiments", "run": "runs", "note": "notes"}
    found = plural.get(word.lower(), word.lower())
    return found if found in _LISTS else None


def _search(
    schema: str,
    one: str,
    pages: Callable[..., Listing[T]],
    text: Callable[[T], str],
    line: Callable[[T], L],
    say: Callable[[L], str],
    query: str,
    limit: int | None,
    cursor: str | None,
) -> Answer:
    """Returns the records whose text has every word of a query; the cursor counts those found.

    Args:
        one: the key of a single record in documents of this schema, which a list leaves null.
        text: the words that a record is found by.
    """
    words, start = query.lower().split(), start_of(cursor)

    def fetch(count: int) -> Listing[T]:
        found: list[T] = []
        page: Listing[T] | None = None
        while len(found) <= start + count and (page is None or page.next_cursor is not None):
            page = pages(limit=_PAGE, cursor=None if page is None else page.next_cursor)
            found += [item for item in page.items if _has(text(item).lower(), words)]
        end = start + count
        return Listing(tuple(found[start:end]), str(end) if len(found) > end else None)

    empty = f"no record has these words: {plain(query, 120)}"
    return listed(schema, fetch, line, say, limit=limit, empty=empty, extra={one: None})


def _has(text: str, words: list[str]) -> bool:
    return all(word in text for word in words)


def _hypotheses(lab: Lab, query: str, limit: int | None, cursor: str | None) -> Answer:
    if not query:
        return list_hypotheses(lab, None, limit, cursor)

    def text(item: Hypothesis) -> str:
        return " ".join([item.id, item.status, item.statement, item.prediction.metric or "", *item.tags])

    return _search("perpetual.hypotheses/1", "hypothesis", lab.hypotheses.list, text, hypothesis_line, say_hypothesis,
                   query, limit, cursor)  # fmt: skip


def _experiments(lab: Lab, query: str, limit: int | None, cursor: str | None) -> Answer:
    if not query:
        return perpetual_experiments(lab, limit=limit, cursor=cursor)

    def text(item: Experiment) -> str:
        said = (item.id, item.status, item.hypothesis_id, item.title, item.command, item.notes, *item.tags)
        return " ".join(map(str, filter(None, said)))

    return _search("perpetual.experiments/1", "experiment", lab.experiments.list, text, partial(measured_line, lab),
                   say_experiment, query, limit, cursor)  # fmt: skip


def _runs(lab: Lab, query: str, limit: int | None, cursor: str | None) -> Answer:
    if not query:
        return list_runs(lab, None, None, None, limit, cursor)

    def text(item: Run) -> str:
        return " ".join([say_run(run_line(item)), item.reason or "", *item.metrics])

    return _search("perpetual.runs/1", "run", lab.runs.list, text, run_line, say_run, query, limit, cursor)


def _evidence(lab: Lab, query: str, limit: int | None, cursor: str | None) -> Answer:
    if not query or _ID.fullmatch(query):
        return list_evidence(lab, identifier(query) if query else None, limit, cursor)

    def line(item: Evidence) -> EvidenceLine:
        return evidence_line(to_json(item))

    return _search("perpetual.evidence_list/1", "evidence", lab.evidence.list, lambda item: say_evidence(line(item)),
                   line, say_evidence, query, limit, cursor)  # fmt: skip


def _notes(lab: Lab, query: str, limit: int | None, cursor: str | None) -> Answer:
    return read_memory(lab, "search" if query else "list", None, query or None, None, "time", limit, cursor)


_LISTS = {
    "hypotheses": _hypotheses,
    "experiments": _experiments,
    "runs": _runs,
    "evidence": _evidence,
    "notes": _notes,
}
