"""What a reference may name: the numbers of a report under the same keys, of everything, and a few words.

Imported by `cited`. A function of a `Snapshot` alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from perpetual.api import Run
from perpetual_report.board import spread, values_of
from perpetual_report.content import LIMITS, facts_of
from perpetual_report.numbers import Book, Number
from perpetual_report.snapshot import Snapshot

if TYPE_CHECKING:
    from perpetual.lab.bodies import RunBody

__all__ = ["Vocabulary", "heads_of", "is_hours", "vocabulary_of"]

_ID = re.compile(r"[herv][1-9]\d{0,15}")
_APART = ("methodology", "record")  # heads of keys that follow from no record
_EFFECT = {"effect": "effect", "low": "effect_low", "high": "effect_high"}


@dataclass
class Vocabulary:
    """Numbers by key, and words by key with their source."""

    numbers: Mapping[str, Number]
    words: Mapping[str, tuple[str, str]]

    def like(self, key: str) -> list[str]:
        """Returns the keys that are most like one that is not there."""
        from difflib import get_close_matches

        head = key.partition(".")[0]
        own = [name for name in (*self.numbers, *self.words) if name.startswith(f"{head}.")]
        return get_close_matches(key, own, n=3, cutoff=0.5) or own[:3]


def is_hours(key: str) -> bool:
    """Returns whether a number is of hours: it may be written in seconds or minutes too."""
    return key.endswith("hours")


def heads_of(keys: Iterable[str]) -> set[str] | None:
    """Returns what keys are of, where that is records alone, and the rules; None where it is the whole record."""
    heads = {key.partition(".")[0] for key in keys}
    return heads if all(_ID.fullmatch(head) or head in _APART for head in heads) else None


def vocabulary_of(snapshot: Snapshot, heads: Collection[str] | None = None) -> Vocabulary:
    """Returns every number of the record that a report of any length would have, and those of each experiment.

    Args:
        snapshot: the record, or a part of it.
        heads: of a part, what its keys may begin with: those of others follow from the whole.
    """
    book = Book()
    facts = facts_of(snapshot, book, dict.fromkeys(LIMITS, sys.maxsize))
    _experiments(snapshot, book)
    numbers = {key: number for key, number in book.numbers.items() if not key.startswith("left.")}
    words = {}
    for line in cast("list[dict[str, Any]]", facts["verdicts"]):
        id, top = line["record"].id, line["headline"]
        words[f"{id}.status"] = (line["record"].status, f"{id}{snapshot.at}")
        for name, key in _EFFECT.items():
            found = top[name] if top is not None else None
            if found is not None:
                numbers[f"{id}.{key}"] = replace(found, key=f"{id}.{key}")
    if heads is not None:
        numbers = {key: number for key, number in numbers.items() if key.partition(".")[0] in heads}
        words = {key: word for key, word in words.items() if key.partition(".")[0] in heads}
    return Vocabulary(numbers, words)


def _experiments(snapshot: Snapshot, book: Book) -> None:
    """Enters what each experiment measured and cost: the same runs count as in the leaderboard."""
    runs: dict[str, list[Run]] = {}
    for run in snapshot.runs:
        runs.setdefault(run.experiment_id, []).append(run)
    members: dict[str, list[str]] = {}
    for item in snapshot.experiments:
        members.setdefault(item.extends or item.id, []).append(item.id)
    cost: dict[str, list[float]] = {}
    for row in snapshot.debits:
        if row.kind != "reserve":
            spent = cost.setdefault(row.experiment_id, [0.0, 0.0])
            spent[0] += row.gpu_hours
            spent[1] += row.run_hours
    for item in snapshot.experiments:
        id, source = item.id, f"{item.id}{snapshot.at}"
        values, _ = values_of([_body(run) for part in members.get(id, ()) for run in runs.get(part, ())])
        ways = {guard["metric"]: guard["direction"] for guard in item.design.guards or ()}
        ways[item.design.metric or ""] = item.design.direction
        for name, found in values.items():
            _measured(book, f"{id}.{name}", found, ways.get(name), source, name)
        if id in cost:
            book.number(f"{id}.gpu_hours", cost[id][0], source)
            book.hours(f"{id}.run_hours", cost[id][1], source)


def _measured(book: Book, key: str, values: Sequence[float], way: object, source: str, metric: str) -> None:
    folded = spread(values)
    best = {"max": max, "min": min}.get(str(way))
    book.count(f"{key}.n", folded["n"], source)
    for name, value, form in (
        ("mean", folded["mean"], ".5g"),
        ("sd", folded["sd"], ".2g"),
        ("min", min(values), ".5g"),
        ("max", max(values), ".5g"),
        ("best", best(values) if best else None, ".5g"),
    ):
        book.number(f"{key}.{name}", value, source, form=form, metric=metric)


def _body(run: Run) -> RunBody:
    """Returns of a run what decides whether it counts."""
    names = ("id", "experiment_id", "replicate", "status", "tainted", "chosen_seed", "seed", "scheduler", "metrics")
    body = {name: getattr(run, name) for name in (*names, "versions")}
    return cast("RunBody", body | {"is_seed_known": run.seed is not None})
