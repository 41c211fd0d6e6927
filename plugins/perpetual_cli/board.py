"""What experiments measured: columns and lines for `experiments`, and its leaderboard. For the commands beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from perpetual.api import CliContext, NotFound, PerpetualError, printable
from perpetual.toolkit.claims import effect_in_words, effect_word, short_effect
from perpetual.toolkit.units import counted, shown_number

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.documents.ledger import Effect, Leaderboard, LeaderboardRow, Spread

__all__ = [
    "effect_cell", "experiment_cell", "left_out_words", "measured_cell", "result_lines", "show", "with_results",
]  # fmt: skip

Json = dict[str, Any]
_MOST_PARAMS = 8  # columns of parameters, unless they were asked for
_FIELDS = {"hypothesis": "hypothesis_id", "created": "created_at", "tag": "tags"}


def with_results(lab: Lab, items: Sequence[Json]) -> list[Json]:
    """Returns the documents of experiments with `metrics`, `effect` and `left_out`; as they are without the part."""
    ids = [item["id"] for item in items if item["id"] is not None]
    if not ids:
        return [*items]
    try:
        rows = {id: row for row in lab.runs.table(ids=ids)["items"] for id in row["experiments"]}
    except NotFound:
        raise
    except PerpetualError:  # the part that folds them is switched off or broken: `plugins list` says so
        return [*items]
    return [_with_result(item, rows.get(item["id"])) for item in items]


def _with_result(item: Json, row: LeaderboardRow | None) -> Json:
    if row is None:
        return item
    return {**item, "metrics": row["metrics"], "effect": row["effect"], "left_out": row["left_out"]}


def measured_cell(item: Json, metric: str | None) -> str:
    """Returns the mean of a metric with its sd and n, for a table; of runs that measured one value, that they did."""
    found = (item.get("metrics") or {}).get(metric)
    if found is None:
        return ""
    are_equal = found["n"] == 1 < item["runs"].get("done", 0) and not item.get("left_out")
    return f"{shown_number(found['mean'], '.4g')} (all equal)" if are_equal else _spread(found)


def _spread(found: Spread) -> str:
    noise = "" if found["sd"] is None else f" ± {shown_number(found['sd'], '.2g')}"
    return f"{shown_number(found['mean'], '.4g')}{noise} ({found['n']})"


def _verdict(lab: Lab, effect: Effect | None, id: str | None) -> str | None:
    """Returns the verdict on a hypothesis to be shown beside an effect; None where the effect alone says enough."""
    low, high = (effect["low"], effect["high"]) if effect is not None else (None, None)
    if id is None or low is None or high is None or not low <= 0 <= high:
        return None
    found = lab.hypotheses.get(id)
    return found.status if found.decided_by == "evidence" else None  # a verdict by hand says nothing of an effect


def effect_cell(effect: Effect | None, direction: str | None, verdict: str | None = None) -> str:
    """Returns an effect for a table, with the word for its way.

    Args:
        verdict: what the runs decided of its hypothesis, supported or refuted.
    """
    if effect is None:
        return ""
    word = effect_word(effect["value"], effect["low"], effect["high"], direction, verdict)
    return f"{short_effect(effect)}: {'not separable' if word.startswith('not') else word}"


def left_out_words(left_out: Mapping[str, int] | None) -> str:
    """Returns how many runs count for nothing, and why."""
    return ", ".join(f"{count} {why}" for why, count in (left_out or {}).items())


def experiment_cell(lab: Lab, item: Json) -> str:
    """Returns an experiment's effect for a table."""
    return effect_cell(
        item["effect"], item["design"]["direction"], _verdict(lab, item["effect"], item["hypothesis_id"])
    )


def result_lines(lab: Lab, item: Json) -> list[str]:
    """Returns the lines that say what an experiment measured, and what that means for its claim."""
    metric, direction = item["design"]["metric"], item["design"]["direction"]
    names = sorted(item.get("metrics") or {}, key=lambda name: name != metric)
    done = item["runs"].get("done", 0)
    lines = [f"  measured: {printable(name)} {_in_words(item['metrics'][name], done)}" for name in names]
    if item.get("effect"):
        effect = cast("Effect", item["effect"])
        words = effect_in_words(effect, direction, _verdict(lab, effect, item["hypothesis_id"]))
        lines.append("  effect: " + printable(words))
    if item.get("left_out"):
        lines.append(f"  left out: {left_out_words(item['left_out'])}")
    return lines


def _in_words(found: Spread, done: int) -> str:
    noise = "" if found["sd"] is None else f", sd {shown_number(found['sd'], '.2g')} between runs"
    once = " (bit-equal values count once)" if found["n"] == 1 < done else ""
    return f"{shown_number(found['mean'], '.4g')}{noise}; {counted(found['n'], 'run')}{once}"


# --- leaderboard ----------------------------------------------------------------------------------------------------


def show(cli: CliContext, found: Leaderboard, *, is_chosen: bool, empty: str) -> None:
    """Shows a leaderboard: a table with its note, or the document."""
    extra = {key: value for key, value in found.items() if key not in ("items", "next_cursor")}
    rows = found["items"]
    columns = [_Column(name, rows, cli.lab) for name in found["columns"]]
    if not is_chosen:
        hidden = [column for column in columns if column.kind == "params" and column.name != found["sort"]]
        hidden = hidden[_MOST_PARAMS:]
        columns = [column for column in columns if column not in hidden]
    else:
        hidden = []
    heads = [head for column in columns for head in column.heads]
    has_status = "status" in heads
    names = {"title": any(column.kind == "params" for column in columns) or "title" in found["columns"]}
    cli.items(
        "leaderboard",
        [*map(dict, rows)],
        None,
        ("id", *heads, "left out", "" if names["title"] else "title"),
        lambda row: (
            str(row["id"]) + ("" if has_status or not row["archived"] else ", archived"),
            *(cell for column in columns for cell in column.cells(row)),
            left_out_words(cast("Mapping[str, int]", row["left_out"])),
            "" if names["title"] else str(row["title"]),
        ),
        empty=empty,
        extra=extra,
    )
    if cli.as_json:
        return
    said = [f"{len(rows)} of {counted(found['total'], 'experiment')}"] if len(rows) < found["total"] else []
    said += [f"more parameters differ: --columns {','.join(column.name for column in hidden)}"] if hidden else []
    said += [f"note: {found['note']}"] if found["note"] else []
    from perpetual.toolkit.screen import folded

    for line in said:
        click.echo(folded(printable(line)))


class _Column:
    """One key of a leaderboard: a metric is three columns, everything else one."""

    def __init__(self, label: str, rows: Sequence[LeaderboardRow], lab: Lab) -> None:
        self.name, self._lab = label, lab
        kind, _, rest = label.partition(".")
        metrics, params = ({name for row in rows for name in row[key]} for key in ("metrics", "params"))
        stem, _, part = label.removeprefix("metric.").rpartition(".")
        self._part = ""
        if label in _FIELDS or label in ("id", "title", "status", "tags", "effect", "hypothesis_id", "created_at"):
            self.kind, self._key = "field", _FIELDS.get(label, label)
        elif label in metrics or (kind == "metric" and rest in metrics):
            self.kind, self._key = "metrics", label if label in metrics else rest
        elif label in params or kind == "param":
            self.kind, self._key = "params", label if label in params else rest
        else:
            self.kind, self._key, self._part = "metrics", stem, part

    @property
    def heads(self) -> tuple[str, ...]:
        """Returns the heads of its columns."""
        return (self.name, "sd", "n") if self.kind == "metrics" and not self._part else (self.name,)

    def cells(self, row: Json) -> tuple[str, ...]:
        """Returns its cells of a row."""
        if self.kind == "metrics":
            found = row["metrics"].get(self._key)
            if self._part:
                return ("" if found is None else _value(found[self._part]),)
            if found is None:
                return "", "", ""
            sd = "-" if found["sd"] is None else shown_number(found["sd"], ".2g")
            return shown_number(found["mean"], ".4g"), sd, str(found["n"])
        if self.kind == "params":
            return (_value(row["params"].get(self._key)),)
        if self._key == "effect":
            return (
                effect_cell(row["effect"], row["direction"], _verdict(self._lab, row["effect"], row["hypothesis_id"])),
            )
        found = row[self._key]
        if self._key == "status":
            return (f"{found}, archived" if row["archived"] else found,)
        return (" ".join(found) if isinstance(found, list) else found or "",)


def _value(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
