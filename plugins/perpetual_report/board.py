"""Leaderboard: experiments with the mean, sd and n of their metrics, and their parameters. The part `board`.

Each row rests on the runs that evidence counts. Rows come from a cache that is kept current, see `board_cache`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, cast

from perpetual.api import NotFound, PerpetualError, UsageError
from perpetual.science.intervals import mean_of
from perpetual.science.versions import samples_of
from perpetual.toolkit.units import identifier
from perpetual_report.board_cache import BROKEN, BoardCache, CachedRows, Effects, Mark, Row, State
from perpetual_report.parameters import parameters
from perpetual_report.snapshot import ADOPTED
from perpetual_report.where import Key, Keys, compiled, time_of

if TYPE_CHECKING:
    from perpetual.documents.ledger import Leaderboard, LeaderboardRow, Spread
    from perpetual.lab.bodies import ExperimentBody, RunBody
    from perpetual.lab.runs.table import TableSource

__all__ = ["Board", "build", "spread", "values_of"]

_LIVE = ("queued", "launching", "running")
_LOOKS = 3  # at a cache that others may write
_MOST_METRICS = 3  # shown of rows that declare none
_MOST_NAMED = 6  # rows in a note
_REPLAY = "replay"  # tag of the experiments of `memory replay`
_OWN = ("adopted", "directions", "links", "renews")  # keys of a cached row that no answer has


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
        since: str | None,
        best: int | None,
        now: datetime,
        tag: str | None = None,
        status: str | None = None,
        hypothesis_id: str | None = None,
    ) -> Leaderboard:
        """Returns the rows that match, in order; see `lab.runs.table`."""
        texts = {
            "sort": sort,
            "where": where,
            "since": since,
            "tag": tag,
            "status": status,
            "hypothesis_id": hypothesis_id,
        }
        _check_types(texts, {"ids": ids, "columns": columns})
        if best is not None and (type(best) is not int or best < 1):
            raise UsageError(f"best must be a whole number of at least 1, not {best}")
        start = None if since is None else time_of(since, now, "--since")

        def answer(rows: _Rows) -> Leaderboard:
            if not rows.numbers():
                return {
                    "items": [], "total": 0, "columns": [], "sort": None, "direction": None, "note": None,
                    "next_cursor": None,
                }  # fmt: skip
            keys = rows.keys()
            numbers = _matching(rows, tag=tag, status=status, hypothesis_id=hypothesis_id, start=start)
            apart = _replays(rows, numbers) if tag is None and ids is None else frozenset()
            numbers = [number for number in numbers if number not in apart] if apart else numbers
            if where is not None:
                test = compiled(where, keys, rows.column, now)
                numbers = [number for number in numbers if test(number)]
            order = _Order(rows, numbers, keys, sort, reverse=reverse, wants_best=best is not None)
            shown = rows.bodies(order.numbers[:best])
            asked = None if columns is None else dict.fromkeys(keys.find(name, " of --columns") for name in columns)
            chosen = None if asked is None else [*asked]
            return {
                "items": [_answered(row, chosen) for row in shown],
                "total": len(numbers),
                "columns": _differing(shown, order.key) if chosen is None else [_label(key, keys) for key in chosen],
                "sort": None if order.key is None else _label(order.key, keys),
                "direction": order.direction,
                "note": "; ".join(filter(None, (order.note(), *_adopted(shown), _left_out(apart)))) or None,
                "next_cursor": None,
            }

        cached = None if ids is not None else _cached(source, answer)
        return answer(_here(source, ids)) if cached is None else cached


def build(options: Mapping[str, object]) -> Board:
    """Builds the part."""
    return Board()


def _check_types(texts: Mapping[str, object], lists: Mapping[str, object]) -> None:
    """Raises UsageError that names an argument of another type, which only Python can give."""
    for name, value in texts.items():
        if value is not None and not isinstance(value, str):
            raise UsageError(f"{name} must be a text, not {value!r:.60}")
    for name, value in lists.items():
        items = value if isinstance(value, Collection) and not isinstance(value, str) else [None]
        if value is not None and not all(isinstance(item, str) for item in items):
            raise UsageError(f"{name} must be a list of texts, not {value!r:.60}")


# --- rows -----------------------------------------------------------------------------------------------------------


class _Rows(Protocol):
    """Rows by number, and their columns; `CachedRows` says what each method answers."""

    def keys(self) -> Keys: ...
    def numbers(self) -> list[int]: ...
    def column(self, key: Key) -> Mapping[int, object]: ...
    def directions(self, metric: str) -> Mapping[int, object]: ...
    def declared(self) -> Mapping[str, int]: ...
    def bodies(self, numbers: Sequence[int]) -> list[Row]: ...


class _RowsHere:
    """Rows in memory."""

    def __init__(self, rows: Iterable[Row], effects: Effects) -> None:
        self._rows = {_number(row): row for row in rows}
        for row in self._rows.values():
            known = effects.get(row["hypothesis_id"] or "", {})
            row["effect"] = next((known[id] for id in row["experiments"] if id in known), None)

    def keys(self) -> Keys:
        rows = self._rows.values()
        metrics = [name for row in rows for name in row["metrics"]]
        return Keys([*metrics, *self.declared()], [name for row in rows for name in row["params"]])

    def numbers(self) -> list[int]:
        return [*self._rows]

    def column(self, key: Key) -> Mapping[int, object]:
        found = ((number, _value(row, key)) for number, row in self._rows.items())
        return {number: value for number, value in found if value is not None and value != []}

    def directions(self, metric: str) -> Mapping[int, object]:
        rows = self._rows.items()
        return {number: row["directions"][metric] for number, row in rows if metric in row["directions"]}

    def declared(self) -> Mapping[str, int]:
        return Counter(row["metric"] for row in self._rows.values() if row["metric"])

    def bodies(self, numbers: Sequence[int]) -> list[Row]:
        return [self._rows[number] for number in numbers]


def _value(row: Row, key: Key) -> object:
    if key.kind == "field":
        found = row[key.name]
        return found["value"] if key.name == "effect" and found is not None else found
    found = row["metrics" if key.kind == "metric" else "params"].get(key.name)
    return found[key.part] if key.kind == "metric" and found is not None else found


def _here(source: TableSource, ids: Sequence[str] | None) -> _RowsHere:
    """Returns the rows of a few experiments, or of all, folded here and now."""
    rows = _rows(source, None if ids is None else [identifier(id) for id in ids])
    return _RowsHere(rows, _effects(source, _subjects(rows)))


def _cached(source: TableSource, answer: Callable[[_Rows], Leaderboard]) -> Leaderboard | None:
    """Returns the answer from the cache, brought up to the present; None where there is none to be had."""
    cache = BoardCache(source.key())
    for _ in range(_LOOKS):
        try:
            seq = _refresh(source, cache)
            if seq is not None:
                with cache.reading() as rows:
                    # A process that saw an earlier state may have filled it anew meanwhile.
                    if rows is not None and rows.state.mark[0] >= seq:
                        return answer(rows)
        except PerpetualError:
            raise
        except BROKEN:
            cache.drop()
    return None


def _refresh(source: TableSource, cache: BoardCache) -> int | None:
    """Brings the cache up to the present state; returns the last commit that it holds then, or None if it does not."""
    token = source.token()
    with cache.reading() as cached:
        if cached is not None and token is not None and cached.state.token == token:
            return cached.state.mark[0]
        base = None if cached is None else cached.state
        mark = _mark(source)
        found = None if cached is None else _changed(source, cached)
    if found is None:
        rows = _rows(source, None)
        effects = _effects(source, _subjects(rows))
    else:
        rows, subjects = found
        effects = _effects(source, subjects)
    state = State(token, mark, sorted({*source.changes(mark[2])}))
    return mark[0] if cache.write(rows, effects, state, base=base, anew=found is None) else None


def _mark(source: TableSource) -> Mark:
    """Returns the present state; what is written while it is looked at is looked at again."""
    seq, number = source.position()
    return (seq, number, *(source.event(number) or (0, "")))


def _changed(source: TableSource, cached: CachedRows) -> tuple[list[Row], set[str]] | None:
    """Returns the rows that have changed since, and the hypotheses whose effects may have.

    None where the cached state is no earlier one of this record: a backup was put back, or the record was moved.
    """
    seq, number, event_seq, digest = cached.state.mark
    if not number or source.event(number) != (event_seq, digest) or source.position()[0] < seq:
        return None
    changed = {*source.changes(event_seq), *cached.state.young}
    try:
        rows = _rows(source, [id for id in changed if id[0] == "e"])
    except NotFound:
        return None
    touched = {id for row in rows for id in (*row["experiments"], row["renews"]) if id is not None}
    return rows, {*(id for id in changed if id[0] == "h"), *_subjects(rows), *cached.linked(touched)}


def _subjects(rows: Iterable[Row]) -> set[str]:
    return {row["hypothesis_id"] for row in rows if row["hypothesis_id"] is not None}


def _matching(
    rows: _Rows, *, tag: str | None, status: str | None, hypothesis_id: str | None, start: str | None
) -> list[int]:
    """Returns the numbers of the rows that these filters leave."""
    numbers = rows.numbers()
    tests: list[tuple[str, Callable[..., bool]]] = []
    if tag is not None:
        tests.append(("tags", lambda tags: tag in (tags or ())))
    if status is not None:
        tests.append(("status", lambda found: found == status))
    if hypothesis_id is not None:
        of = identifier(hypothesis_id)
        tests.append(("hypothesis_id", lambda found: found == of))
    if start is not None:
        tests.append(("created_at", lambda found: found >= start))
    for name, test in tests:
        column = rows.column(Key("field", name))
        numbers = [number for number in numbers if test(column.get(number))]
    return numbers


def _replays(rows: _Rows, numbers: Sequence[int]) -> frozenset[int]:
    """Returns the archived runs that tested a note: they are of no claim, and nothing is picked from them."""
    tags, claims = (rows.column(Key("field", name)) for name in ("tags", "hypothesis_id"))
    found = [number for number in numbers if _REPLAY in cast("Sequence[str]", tags.get(number) or ())]
    bodies = rows.bodies([number for number in found if claims.get(number) is None])
    return frozenset(_number(row) for row in bodies if row["archived"])


def _left_out(numbers: Collection[int]) -> str:
    return f"without {len(numbers)} archived experiments of replays: --tag {_REPLAY} lists them" if numbers else ""


def _number(row: Row) -> int:
    return int(row["id"][1:])


def _rows(source: TableSource, ids: Iterable[str] | None) -> list[Row]:
    """Returns the rows of these experiments, or of every one; one that extends another is part of that one's row."""
    if ids is None:
        runs: dict[str, list[RunBody]] = {}
        for run in source.runs():
            runs.setdefault(run["experiment_id"], []).append(run)
        return [
            _row(body, [run for id in _members(body) for run in runs.get(id, ())])
            for body in source.experiments()
            if not body.get("extends")
        ]
    roots = {body.get("extends") or body["id"] for body in source.experiments(ids)}
    return [
        _row(body, [run for id in _members(body) for run in source.runs(id)])
        for body in source.experiments(sorted(roots, key=lambda id: int(id[1:])))
    ]


def _members(body: ExperimentBody) -> list[str]:
    return [body["id"], *body.get("extended_by", [])]


def _row(body: ExperimentBody, runs: Sequence[RunBody]) -> Row:
    """Returns an experiment's row, without its effect."""
    metrics, left_out = _spreads(runs)
    design = body["design"]
    directions = {guard["metric"]: guard["direction"] for guard in design.get("guards") or ()}
    if design["metric"] and design["direction"]:
        directions[design["metric"]] = design["direction"]
    return {
        "id": body["id"], "title": body["title"], "hypothesis_id": body["hypothesis_id"], "status": body["status"],
        "tags": body["tags"], "created_at": body["created_at"], "metrics": metrics,
        "params": parameters(body["command"], body["config"], body["env"]), "effect": None,
        "metric": design["metric"], "direction": design["direction"], "left_out": left_out,
        "experiments": _members(body), "directions": directions,
        "links": [link for link in (design["baseline"], design.get("runs_of")) if isinstance(link, str)],
        "renews": body.get("renews"), "archived": bool(body.get("archived")),
        "adopted": any(run["scheduler"] == ADOPTED for run in runs),
    }  # fmt: skip


def _adopted(rows: Iterable[Row]) -> Iterable[str]:
    """Yields what is to be kept in mind of rows whose runs the lab did not launch."""
    found = [row["id"] for row in rows if row["adopted"] and row["metrics"]]
    if found:
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        yield f"{', '.join(found[:_MOST_NAMED])}{more}: adopted, or recorded ad hoc; described, and no evidence"


def _spreads(runs: Sequence[RunBody]) -> tuple[dict[str, Spread], dict[str, int]]:
    """Returns mean, sd and n of each metric over the runs that evidence counts, and why others are left out."""
    values, left_out = values_of(runs)
    return {name: spread(found) for name, found in values.items()}, left_out


def values_of(runs: Sequence[RunBody]) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Returns the values of each metric of the runs of one experiment that count, and why others are left out.

    Failed and tainted runs and seeds picked by hand weigh nothing. So do runs that the lab did not launch, adopted or
    recorded ad hoc; as in a comparison they are described all the same: their seeds were logged, or are not known.
    Versions are not pooled: the one with most runs counts, the older of two. The same value on the same seed is the
    same run seen again.
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
    left_out = Counter([*reasons, *["of another version"] * (len(done) - len(counting))])
    values: dict[str, dict[object, float]] = {}
    for run in counting:
        for name, value in run["metrics"].items():
            if value is not None:
                same = (run["seed"], value) if run.get("is_seed_known", True) else run["id"]
                values.setdefault(name, {})[same] = value
    return {name: [*found.values()] for name, found in values.items()}, dict(left_out)


def _why_not(run: RunBody) -> str | None:
    """Returns why a run says nothing, in a word or two; None if it counts."""
    if run["status"] != "done":
        return run["status"]
    if run["tainted"]:
        return "tainted"
    return "seed picked by hand" if run["chosen_seed"] and run["scheduler"] != ADOPTED else None


def spread(values: Sequence[float]) -> Spread:
    """Returns mean, sd and n of a metric; n counts bit-equal values once."""
    try:
        folded = mean_of(values)
    except OverflowError:  # a diverged run may print any number
        size = max(map(abs, values))
        folded = mean_of([value / size for value in values])
        sd = None if folded.sd is None else folded.sd * size
        return {"mean": folded.mean * size, "sd": sd if sd is not None and math.isfinite(sd) else None, "n": folded.n}
    return {"mean": folded.mean, "sd": folded.sd, "n": folded.n}


def _effects(source: TableSource, hypotheses: Iterable[str]) -> Effects:
    """Returns by hypothesis and experiment the effect of the design that the experiment is of."""
    return {
        id: {name: effect for lead, effect in source.effects(id).items() for name in (lead, *effect["experiments"])}
        for id in hypotheses
    }


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

    def __init__(
        self, rows: _Rows, numbers: Sequence[int], keys: Keys, sort: str | None, *, reverse: bool, wants_best: bool
    ) -> None:
        self.key: Key | None = None
        self.direction: str | None = None
        self._said = ""
        if sort is None and wants_best:
            sort = _only_metric(rows)
        if sort is not None:
            is_turned = sort.startswith("-") and sort not in {*keys.params, *keys.metrics}
            self.key = keys.find(sort[1:] if is_turned else sort, " of --sort")
            reverse ^= is_turned
        self._is_turned = reverse
        if self.key is None:
            self.numbers = [*reversed(numbers)] if reverse else [*numbers]
            return
        column = rows.column(self.key)
        self._have = [number for number in numbers if number in column]
        if self._is_by_mean:
            self.direction = self._declared(self.key.name, numbers, rows.directions(self.key.name))
        self.numbers = _ordered(numbers, column, self.key, descending=reverse ^ (self.direction == "max"))

    @property
    def _is_by_mean(self) -> bool:
        return self.key is not None and self.key.kind == "metric" and self.key.part == "mean"

    def _declared(self, name: str, numbers: Sequence[int], directions: Mapping[int, object]) -> str | None:
        """Returns the direction in which the metric is better, if the designs of the rows agree on one."""
        found = {str(directions[number]) for number in numbers if number in directions}
        if len(found) > 1:
            self._said = f"designs differ in whether more {name} is better: they are in order of size"
        elif not found:
            self._said = f"no design says whether more {name} is better: they are in order of size"
        return found.pop() if len(found) == 1 else None

    def note(self) -> str | None:
        """Returns what a reader of the first rows must know: the best of many looks better than it is."""
        if not self._is_by_mean:
            return None
        count = len(self._have)
        said = [self._said] if self._said else []
        if count > 1:
            way = "worse" if self._is_turned else "better"
            which = f"the {'worst' if self._is_turned else 'best'} of {count} looks {way} than it is"
            if self.direction is None:
                which = f"the first of {count} looks further out than it is"
            said.append(
                f"{which}, since it was picked by what it measured, luck included; "
                f"runs of e{self.numbers[0]} made after the pick show what it is worth"
            )
        return "; ".join(said) or None


def _ordered(numbers: Sequence[int], column: Mapping[int, object], key: Key, *, descending: bool) -> list[int]:
    """Returns the rows by value: numbers by size, then texts, then those without; equal ones in their own order."""
    sizes: list[tuple[float, int]] = []
    texts: list[tuple[str, int]] = []
    for number in numbers:
        value = column.get(number)
        if key.kind == "field" and key.name in ("id", "hypothesis_id") and isinstance(value, str):
            sizes.append((int(value[1:]), number))
        elif isinstance(value, (int, float)):
            sizes.append((value, number))
        elif value is not None:
            texts.append((str(value), number))
    sizes.sort(key=lambda pair: pair[0], reverse=descending)
    texts.sort(key=lambda pair: pair[0], reverse=descending)
    missing = [number for number in numbers if number not in column]
    return [*(number for _, number in sizes), *(number for _, number in texts), *missing]


def _only_metric(rows: _Rows) -> str:
    """Returns the metric that the rows declare; raises UsageError if there is not just one."""
    found = rows.declared()
    if len(found) == 1:
        return f"metric.{next(iter(found))}"
    known = ", ".join([*found][:8]) or "none is declared"
    raise UsageError("the best by which metric?", hint=f"--sort METRIC: {known}")


def _label(key: Key, keys: Keys) -> str:
    """Returns a key as it is asked for."""
    is_plain = key.kind == "field" or keys.is_plain(key.name)
    return key.label if is_plain else f"{key.kind}.{key.label}"


def _differing(rows: Sequence[Row], sort: Key | None) -> list[str]:
    """Returns the metrics to show, then the parameters and fields in which the rows differ."""
    keys = Keys((n for row in rows for n in row["metrics"]), (n for row in rows for n in row["params"]))
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
