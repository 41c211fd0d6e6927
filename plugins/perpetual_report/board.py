"""Leaderboard: experiments with the mean, sd and n of their metrics, and their parameters. The part `board`.

Each row rests on the runs that evidence counts. Rows come from a cache that is kept current, see `board_cache`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from perpetual.api import NotFound, UsageError
from perpetual.science.intervals import mean_of
from perpetual.science.versions import samples_of
from perpetual.toolkit.units import identifier, iso, seconds_of
from perpetual_report.board_cache import BROKEN, BoardCache, Cached, State
from perpetual_report.parameters import parameters
from perpetual_report.where import Key, Keys, compiled

if TYPE_CHECKING:
    from perpetual.documents.ledger import Leaderboard, LeaderboardRow, Spread
    from perpetual.lab.bodies import ExperimentBody, RunBody
    from perpetual.lab.runs.table import Measured, TableSource

__all__ = ["Board", "build"]

Row = dict[str, Any]

_LIVE = ("queued", "launching", "running")
_MOST_METRICS = 3  # shown of rows that declare none
_OWN = ("directions", "links", "renews")  # keys of a cached row that no answer has


class Board:
    """Folds and orders the rows."""

    def table(
        self,
        source: TableSource,
        *,
        ids: Sequence[str] | None,
        sort: str | None,
        reverse: bool,
        where: str | None,
        columns: Sequence[str] | None,
        tag: str | None,
        status: str | None,
        hypothesis_id: str | None,
        since: str | None,
        best: int | None,
        now: datetime,
    ) -> Leaderboard:
        """Returns the rows that match, in order; see `lab.runs.table`."""
        if best is not None and best < 1:
            raise UsageError(f"at least one row is the best, not {best}")
        start = None if since is None else _start(since, now)
        rows = _some(source, ids) if ids is not None else _everything(source)
        keys = Keys(rows)
        test = None if where is None else compiled(where, keys)
        of = None if hypothesis_id is None else identifier(hypothesis_id)
        found = [
            row
            for row in rows
            if (tag is None or tag in row["tags"])
            and (status is None or row["status"] == status)
            and (of is None or row["hypothesis_id"] == of)
            and (start is None or row["created_at"] >= start)
            and (test is None or test(row))
        ]
        order = _Order(found, keys, sort, reverse=reverse, wants_best=best is not None)
        shown = order.rows[:best]
        chosen = None if columns is None else [keys.find(name, " of --columns") for name in columns]
        return {
            "items": [_answered(row, chosen) for row in shown],
            "total": len(found),
            "columns": _differing(shown, order.key) if chosen is None else [_label(key, keys) for key in chosen],
            "sort": None if order.key is None else _label(order.key, keys),
            "direction": order.direction,
            "note": order.note(),
            "next_cursor": None,
        }


def build(options: Mapping[str, object]) -> Board:
    """Builds the part."""
    return Board()


def _start(text: str, now: datetime) -> str:
    """Returns the time, as the record writes it, that `--since` names."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        try:
            return iso(now - timedelta(seconds=seconds_of(text, "--since")))
        except OverflowError:
            return ""
        except UsageError as problem:
            hint = "a time as 2026-11-25T10:00, in UTC, or so long ago: 90m, 12h, 7d"
            raise UsageError(f"--since is no time: {text[:40]!r}", hint=hint) from problem
    return iso(found if found.tzinfo else found.replace(tzinfo=UTC))


# --- rows -----------------------------------------------------------------------------------------------------------


def _some(source: TableSource, ids: Sequence[str]) -> list[Row]:
    """Returns the rows of a few experiments, without the cache."""
    rows = [_row(each) for each in source.measured([identifier(id) for id in ids])]
    return _with_effects(rows, _effects(source, {row["hypothesis_id"] for row in rows} - {None}))


def _everything(source: TableSource) -> list[Row]:
    """Returns the row of every experiment, as the record is now."""
    token, cache = source.token(), BoardCache(source.key())
    try:
        cached = cache.read()
    except BROKEN:
        cache.drop()
        cached = None
    if cached is None or token is None or cached.state.token != token:
        cached = _refreshed(source, cache, cached, token)
    return _with_effects(cached.rows.values(), cached.effects)


def _refreshed(source: TableSource, cache: BoardCache, cached: Cached | None, token: str | None) -> Cached:
    """Returns the present rows: of what has changed since the cached state, folded anew, and the others as cached."""
    mark = source.mark()
    found = None if cached is None else _changed(source, cached)
    rows: dict[int, Row]
    if found is None:
        rows = {_number(row): row for row in map(_row, source.measured())}
        effects = _effects(source, {row["hypothesis_id"] for row in rows.values()} - {None})
        whole_rows, whole_effects = rows, effects
    else:
        assert cached is not None
        rows, subjects = found
        whole_rows = {**cached.rows, **rows}
        effects = _effects(source, subjects)
        whole_effects = {**cached.effects, **effects}
        whole_rows = dict(sorted(whole_rows.items()))
    young = source.changed(mark)
    if young is not None:
        state = State(token, tuple(mark), (sorted(young.experiments), sorted(young.hypotheses)))
        try:
            cache.write(rows, effects, state, anew=found is None)
        except BROKEN:
            cache.drop()  # a full disk, a folder that may only be read: the answer does not depend on it
    return Cached(whole_rows, whole_effects, State(token, tuple(mark), ((), ())))


def _changed(source: TableSource, cached: Cached) -> tuple[dict[int, Row], set[str]] | None:
    """Returns the rows that have changed since, and the hypotheses whose effects may have; None if not known."""
    from perpetual.lab.runs.table import Mark

    changed = source.changed(Mark(*cached.state.mark))
    if changed is None:
        return None
    try:
        rows = {
            _number(row): row
            for row in map(_row, source.measured({*changed.experiments, *cached.state.young[0]}))
        }
    except NotFound:
        return None
    subjects = {*changed.hypotheses, *cached.state.young[1]} | {row["hypothesis_id"] for row in rows.values()}
    touched = {id for row in rows.values() for id in (*row["experiments"], row["renews"])} - {None}
    subjects |= {row["hypothesis_id"] for row in cached.rows.values() if touched.intersection(row["links"])}
    return rows, subjects - {None}


def _number(row: Row) -> int:
    return int(row["id"][1:])


def _row(measured: Measured) -> Row:
    """Returns an experiment's row, without its effect."""
    body = measured.experiment
    metrics, left_out = _spreads(measured.runs)
    design = body["design"]
    directions = {guard["metric"]: guard["direction"] for guard in design.get("guards") or ()}
    if design["metric"] and design["direction"]:
        directions[design["metric"]] = design["direction"]
    return {
        "id": body["id"], "title": body["title"], "hypothesis_id": body["hypothesis_id"], "status": body["status"],
        "tags": body["tags"], "created_at": body["created_at"], "metrics": metrics,
        "params": parameters(body["command"], body["config"], body["env"]), "effect": None,
        "metric": design["metric"], "direction": design["direction"], "left_out": left_out,
        "experiments": [body["id"], *body.get("extended_by", [])], "directions": directions,
        "links": [link for link in (design["baseline"], design.get("runs_of")) if isinstance(link, str)],
        "renews": body.get("renews"),
    }  # fmt: skip


def _spreads(runs: Sequence[RunBody]) -> tuple[dict[str, Spread], dict[str, int]]:
    """Returns mean, sd and n of each metric over the runs that evidence counts, and why others are left out.

    Failed and tainted runs and seeds picked by hand weigh nothing. Versions are not pooled: the one with most runs
    counts, the older of two. The same value on the same seed is the same run seen again.
    """
    done = {(run["experiment_id"], run["replicate"]): run for run in runs if _why_not(run) is None}
    samples = samples_of((run.get("versions"), run) for run in done.values())
    counting = max(samples, key=lambda sample: len(sample.items)).items if samples else []
    reasons = [
        why
        for run in runs
        if (why := _why_not(run)) is not None
        and run["status"] not in _LIVE
        and (run["experiment_id"], run["replicate"]) not in done
    ]
    left_out = Counter({"of another version": len(done) - len(counting)})
    left_out.update(reasons)
    values: dict[str, dict[object, float]] = {}
    for run in counting:
        for name, value in run["metrics"].items():
            if value is not None:
                same = run["id"] if run["seed"] is None else (run["seed"], value)
                values.setdefault(name, {})[same] = value
    return {name: _spread([*found.values()]) for name, found in values.items()}, dict(+left_out)


def _why_not(run: RunBody) -> str | None:
    """Returns why a run says nothing, in a word or two; None if it counts."""
    if run["status"] != "done":
        return run["status"]
    return "tainted" if run["tainted"] else "seed picked by hand" if run["chosen_seed"] else None


def _spread(values: Sequence[float]) -> Spread:
    folded = mean_of(values)
    return {"mean": folded.mean, "sd": folded.sd, "n": folded.n}


def _effects(source: TableSource, hypotheses: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Returns by hypothesis and experiment the effect of the design that the experiment is of."""
    return {
        id: {name: effect for lead, effect in source.effects(id).items() for name in (lead, *effect["experiments"])}
        for id in hypotheses
    }


def _with_effects(rows: Iterable[Row], effects: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    found = []
    for row in rows:
        known = effects.get(row["hypothesis_id"])
        if known:
            row["effect"] = next((known[id] for id in row["experiments"] if id in known), None)
        found.append(row)
    return found


def _answered(row: Row, chosen: Sequence[Key] | None) -> LeaderboardRow:
    """Returns a row with the metrics and parameters that were asked for, or all of them."""
    answer = {key: value for key, value in row.items() if key not in _OWN}
    if chosen is not None:
        for kind, name in (("metric", "metrics"), ("param", "params")):
            wanted = {key.name for key in chosen if key.kind == kind}
            answer[name] = {key: value for key, value in row[name].items() if key in wanted}
    return cast("LeaderboardRow", answer)


# --- order ----------------------------------------------------------------------------------------------------------


class _Order:
    """The rows in the order that was asked for: missing values last, whichever way it goes."""

    def __init__(self, rows: Sequence[Row], keys: Keys, sort: str | None, *, reverse: bool, wants_best: bool) -> None:
        self.key, self.direction, self.said = None, None, ""
        self.is_by_metric, turned = False, reverse
        if sort is None and wants_best:
            sort = _only_metric(rows)
        if sort is not None:
            is_turned = sort.startswith("-") and not {sort} & {*keys.params, *keys.metrics}
            self.key = keys.find(sort[1:] if is_turned else sort, " of --sort")
            turned ^= is_turned
        self.is_by_metric = self.key is not None and self.key.kind == "metric" and self.key.part == "mean"
        if self.is_by_metric:
            self.direction = self._declared(rows)
        self.is_turned = turned
        self.rows = self._ordered(rows, descending=turned ^ (self.direction == "max"))

    def _declared(self, rows: Sequence[Row]) -> str | None:
        """Returns the direction in which the metric is better, if the designs of the rows agree on one."""
        assert self.key is not None
        found = {row["directions"].get(self.key.name) for row in rows if self.key.of(row) is not None} - {None}
        if len(found) > 1:
            self.said = f"designs differ in whether more {self.key.name} is better: the smallest is first"
        elif not found:
            self.said = f"no design says whether more {self.key.name} is better: the smallest is first"
        return found.pop() if len(found) == 1 else None

    def _ordered(self, rows: Sequence[Row], *, descending: bool) -> list[Row]:
        if self.key is None:
            return [*reversed(rows)] if descending else [*rows]
        numbers, texts, missing = [], [], []
        for row in rows:
            value = self.key.of(row)
            if isinstance(value, (int, float)):
                numbers.append((value, row))
            elif value is None or value == []:
                missing.append(row)
            elif self.key.kind == "field" and self.key.name in ("id", "hypothesis_id"):
                numbers.append((int(str(value)[1:]), row))
            else:
                texts.append((str(value), row))
        numbers.sort(key=lambda pair: pair[0], reverse=descending)
        texts.sort(key=lambda pair: pair[0], reverse=descending)
        return [*(row for _, row in numbers), *(row for _, row in texts), *missing]

    def note(self) -> str | None:
        """Returns what a reader of the first rows must know: the best of many looks better than it is."""
        if not self.is_by_metric or self.key is None:
            return None
        key = self.key
        count = sum(key.of(row) is not None for row in self.rows)
        said = [self.said] if self.said else []
        if count > 1:
            way = "worse" if self.is_turned else "better"
            which = f"the {'worst' if self.is_turned else 'best'} of {count} looks {way} than it is"
            if self.direction is None:
                which = f"the first of {count} looks further out than it is"
            said.append(
                f"{which}, since it was picked by what it measured, luck included; runs made after the pick show what "
                f"it is worth: perpetual propose --extends {self.rows[0]['id']} --replicates 3"
            )
        return "; ".join(said) or None


def _only_metric(rows: Sequence[Row]) -> str:
    """Returns the metric that the rows declare; raises UsageError if there is not just one."""
    found = Counter(row["metric"] for row in rows if row["metric"])
    if len(found) == 1:
        return f"metric.{[*found][0]}"
    known = ", ".join([*found][:8]) or "none is declared"
    raise UsageError("the best by which metric?", hint=f"--sort METRIC: {known}")


def _label(key: Key, keys: Keys) -> str:
    """Returns a key as it is asked for."""
    is_both = key.name in keys.metrics and key.name in keys.params
    return f"{key.kind}.{key.label}" if is_both and key.kind != "field" else key.label


def _differing(rows: Sequence[Row], sort: Key | None) -> list[str]:
    """Returns the metrics to show, then the parameters and fields in which the rows differ."""
    keys = Keys(rows)
    declared = [name for name, _ in Counter(row["metric"] for row in rows if row["metric"]).most_common()]
    names = [name for name in declared if name in keys.metrics]
    if sort is not None and sort.kind == "metric":
        names = [*dict.fromkeys([sort.name, *names])]
    metrics = [Key("metric", name) for name in names or [*keys.metrics][:_MOST_METRICS]]
    params = [Key("param", name) for name in keys.params if _differ(row["params"].get(name) for row in rows)]
    if sort is not None and sort.kind == "param" and sort not in params:
        params.append(sort)
    found = [_label(key, keys) for key in (*metrics, *params)]
    found += [name for name in ("status", "tags") if _differ(row[name] for row in rows)]
    return [*found, *(["effect"] if any(row["effect"] for row in rows) else [])]


def _differ(values: Iterable[object]) -> bool:
    found = [*values]
    return any(value != found[0] or type(value) is not type(found[0]) for value in found[1:])
