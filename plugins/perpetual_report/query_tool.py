"""The leaderboard as a tool of the MCP server: `perpetual_query`. Built by the server when it starts."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from perpetual import Lab
from perpetual.api import UsageError
from perpetual.documents.ledger import Spread

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

if TYPE_CHECKING:
    from perpetual.documents.ledger import LeaderboardRow

__all__ = ["build"]

_ROWS = 10
_MOST_ROWS = 100
_MOST_BYTES = 3000  # clients are sent an answer twice, as text and as structure, in 2000 tokens together


# `QueryRow` and `QueryEffect` are a `LeaderboardRow` and its `Effect` without the keys that no answer of 3000 bytes has
# room for, as `how`. A TypedDict cannot leave keys of another out, so they are written here again; the tests compare
# both types key by key.


class QueryEffect(TypedDict):
    """The change against the baseline with its interval; positive is better."""

    value: float
    low: float | None
    high: float | None
    n: int
    n_baseline: int | None
    metric: str
    baseline: float | str


class QueryRow(TypedDict):
    """An experiment: its metrics and parameters of the columns; `left_out` counts runs that weigh nothing.

    Lists hide what is archived; a leaderboard shows it, since the best was picked from it as well.
    """

    id: str
    title: str
    hypothesis_id: str | None
    status: str
    archived: bool
    tags: list[str]
    created_at: str
    metrics: dict[str, Spread]
    params: dict[str, object]
    effect: QueryEffect | None
    left_out: dict[str, int]


class QueryAnswer(TypedDict):
    """Experiments in order; `total` is how many matched, `note` what the first rows do not show."""

    schema: Literal["perpetual.leaderboard/1"]
    items: list[QueryRow]
    total: int
    columns: list[str]
    sort: str | None
    direction: str | None
    note: str | None
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., QueryAnswer]:
    """Builds the tool."""
    return _query


def _query(
    lab: Lab,
    sort: Annotated[str | None, "A metric (best first), a parameter or a field; -KEY turns it round."] = None,
    where: Annotated[str | None, "As in: lr<0.1 and (opt=adam or tag=wide) and val_acc>=0.9"] = None,
    columns: Annotated[list[str] | None, "Metrics and parameters; by default those that differ."] = None,
    tag: Annotated[str | None, "Only with this tag."] = None,
    status: Annotated[str | None, "proposed, approved, ..., analysed."] = None,
    hypothesis: Annotated[str | None, "Only its, e.g. h1."] = None,
    since: Annotated[str | None, "Proposed since a time (ISO 8601, UTC), or 12h, 7d ago."] = None,
    limit: Annotated[int, "At most 100."] = _ROWS,
) -> QueryAnswer:
    """Shows experiments in order, with mean, sd and n of their metrics, parameters and effect. Evidence decides.

    The best of many looks better than it is: see `note`.
    """
    if not 1 <= limit <= _MOST_ROWS:
        raise UsageError(f"limit is 1 to {_MOST_ROWS}, not {limit}")
    found = lab.runs.table(
        sort="id" if sort is None else sort, where=where, columns=columns, tag=tag, status=status,
        hypothesis_id=hypothesis, since=since, best=limit,
    )  # fmt: skip
    rows = [_row(row, found["columns"]) for row in found["items"]]
    answer: QueryAnswer = {
        "schema": "perpetual.leaderboard/1",
        "items": rows,
        "total": found["total"],
        "columns": found["columns"],
        "sort": found["sort"],
        "direction": found["direction"],
        "note": found["note"],
        "truncated": len(rows) < found["total"],
    }
    while len(rows) > 1 and len(json.dumps(answer).encode()) > _MOST_BYTES:
        rows.pop()  # the list of the answer: the last ones are the least asked for
        answer["truncated"] = True
    return answer


def _row(row: LeaderboardRow, columns: list[str]) -> QueryRow:
    """Returns a row with the metrics and parameters of the columns alone."""
    wanted = {name for column in columns for name in (column, column.partition(".")[2], column.rpartition(".")[0])}
    effect = row["effect"]
    return {
        "id": row["id"],
        "title": row["title"][:80],
        "hypothesis_id": row["hypothesis_id"],
        "status": row["status"],
        "archived": row["archived"],
        "tags": row["tags"][:5],
        "created_at": row["created_at"],
        "metrics": {name: spread for name, spread in row["metrics"].items() if name in wanted},
        "params": {name: value for name, value in row["params"].items() if name in wanted},
        "effect": None
        if effect is None
        else {
            "value": effect["value"], "low": effect["low"], "high": effect["high"], "n": effect["n"],
            "n_baseline": effect["n_baseline"], "metric": effect["metric"], "baseline": effect["baseline"],
        },
        "left_out": row["left_out"],
    }  # fmt: skip


_query.reads_only = True  # type: ignore[attr-defined]
