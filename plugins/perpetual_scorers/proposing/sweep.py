"""Sweeps: which setting of a command to run next, and which one is the best so far.

Imported by `information`, for a state that holds a sweep, and by plugins. Chance is a hash of the state, so the same
state draws the same.

A Gaussian process says what the values let one believe (`surrogate`). The next run has the highest
knowledge gradient per cost: by how much it is expected to raise the mean of the pick. Top-two Thompson sampling is the
other rule. Of more than `MOST_IN_PLAY` settings only so many take part in a call: the best ones seen, and others by
lot.

Sources: Frazier, Powell and Dayanik (2009), The Knowledge-Gradient Policy for Correlated Normal Beliefs; Russo (2020),
Simple Bayesian Algorithms for Best-Arm Identification; Li et al. (2020), A System for Massively Parallel Hyperparameter
Tuning (successive halving on rungs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.science.draws import uniform
from perpetual.science.evidence import number, quantity
from perpetual_scorers.proposing.strategies import strategy
from perpetual_scorers.proposing.surrogate import Belief, Row, cholesky, distances, fitted

if TYPE_CHECKING:
    from random import Random

MOST_IN_PLAY = 150
ETA = 3  # one setting in three goes on to the next rung
FINALISTS = 4  # and this many at least: a short run only hints at a full one
_RUNS_EACH = 4  # full runs for which one more setting is let through, where the budget goes on

_STARTS = 4  # settings that are spread out before the model chooses, and one more for each number of a setting
_FENCE = 2.0  # a value is counted as no further below the lower quartile than this many times the best is above it
_COST_FLOOR = 1 / 3600
_TRIES = 50  # draws that the leader may win before top-two takes the second of the last one
_RULES = {"top_two": "top_two", "thompson": "top_two", "round_robin": "round_robin"}


def _listed(row: Mapping[str, object], key: str) -> Sequence[object]:
    value = row.get(key)
    if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
        raise ValueError(f"{key} must be a list, not {value!r:.60} (in {row.get('id', 'the sweep')})")
    return value or ()


class _Setting:
    """One setting, read and checked. Values are oriented: bigger is better, None is a run that gave none."""

    def __init__(self, row: Mapping[str, object], sign: float, last: int) -> None:
        def values(key: str) -> list[float | None]:
            return [None if v is None else sign * quantity({key: v, "id": self.id}, key) for v in _listed(row, key)]

        if row.get("id") is None:
            raise ValueError(f"id is missing (in {dict(row)!r:.60})")
        self.id = str(row["id"])
        self.x = [quantity({"x": value, "id": self.id}, "x") for value in _listed(row, "x")]
        self.cost = number(row, "cost", 1.0)
        if self.cost < 0:
            raise ValueError(f"cost must not be negative (in {self.id})")
        self.pending = int(number(row, "pending", 0))
        self.seen, self.curve = values("seen"), values("curve")[:last]
        if self.seen:
            self.curve += [None] * (last - len(self.curve))
        self.runs = len(self.seen) + len(self.curve) + self.pending


class Sweep:
    """A sweep as a state shows it, and the runs that are picked for it. Raises ValueError that names the key."""

    def __init__(self, state: Mapping[str, object], rule: str = "") -> None:
        sweep = state.get("sweep")
        if not isinstance(sweep, Mapping):
            raise ValueError(f"sweep must be a mapping, not {sweep!r:.60}")
        if sweep.get("direction") not in ("max", "min"):
            raise ValueError(f"direction must be max or min, not {sweep.get('direction')!r:.60}")
        self.sign = 1.0 if sweep["direction"] == "max" else -1.0
        self.rungs = [number({"rungs": value, "id": "the sweep"}, "rungs") for value in _listed(sweep, "rungs")]
        if any(low >= high for low, high in zip([0.0, *self.rungs], self.rungs, strict=False)):
            raise ValueError(f"rungs must be lengths that rise, not {self.rungs!r:.60}")
        self.last = max(len(self.rungs) - 1, 0)
        rows = [row for row in _listed(sweep, "settings") if isinstance(row, Mapping)]
        if not rows or len(rows) < len(_listed(sweep, "settings")):
            raise ValueError("settings must be a list of mappings, one at least")
        settings = [_Setting(row, self.sign, self.last) for row in rows]
        if len({row.id for row in settings}) < len(settings) or len({len(row.x) for row in settings}) > 1:
            raise ValueError("settings must differ in id, and have x of one length")
        self.seed, self.rule = state.get("seed", 0), _RULES.get(rule.replace("-", "_"), "")
        self.budget = math.inf if state.get("budget_left") is None else number(state, "budget_left")
        self.settings = self._in_play(settings)
        self.distances = distances([row.x for row in self.settings])
        self._beliefs: list[Belief] = []

    def _in_play(self, settings: list[_Setting]) -> list[_Setting]:
        if len(settings) <= MOST_IN_PLAY:
            return settings

        def order(row: _Setting) -> tuple[bool, float]:
            known = [value for value in row.seen or row.curve if value is not None]
            return not row.runs, -math.fsum(known) / len(known) if known else self.lot("in play", row)

        run = sorted((row for row in settings if row.runs), key=order)[: 2 * MOST_IN_PLAY // 3]
        rest = sorted((row for row in settings if not row.runs), key=order)
        kept = {row.id for row in [*run, *rest][:MOST_IN_PLAY]}
        return [row for row in settings if row.id in kept]

    def lot(self, use: str, row: _Setting) -> float:
        """Returns a number in (0, 1) by hash."""
        return uniform(self.seed, use, row.id)

    # --- what is believed ---------------------------------------------------------------------------------------------

    def beliefs(self) -> list[Belief]:
        """Returns the beliefs by weight, given what is pending and was picked since; needs a value that was seen."""
        if not self._beliefs:
            self._beliefs = fitted(self.distances, self.values())
            for i, row in enumerate(self.settings):
                for _ in range(row.pending):
                    self._beliefs = [belief.after(i) for belief in self._beliefs]
        return self._beliefs

    def values(self) -> list[Row]:
        """Returns the values of full runs; a run without one counts as the worst, one far off as that far."""
        known = sorted(value for row in self.settings for value in row.seen if value is not None) or [0.0]
        quartile, top = known[len(known) // 4], known[-1]
        worst = max(known[0], quartile - _FENCE * (top - quartile)) if top > quartile else known[0]
        return [[worst if value is None else max(value, worst) for value in row.seen] for row in self.settings]

    def means(self) -> Row:
        """Returns the posterior means, bigger is better."""
        beliefs = self.beliefs()
        return [math.fsum(b.weight * b.mean[i] for b in beliefs) for i in range(len(self.settings))]

    def best(self) -> int:
        """Returns the setting with the best posterior mean of those that have run in full, else on the last rung."""
        furthest = max(self.last + 1 if row.seen else len(row.curve) for row in self.settings)
        if not furthest:
            raise ValueError("seen must hold a value of a setting before one is the best")
        if furthest > self.last:
            means = self.means()
            return max((i for i, row in enumerate(self.settings) if row.seen), key=means.__getitem__)
        return self._reached(furthest)[0]

    def _reached(self, rung: int) -> list[int]:
        """Returns the settings with a value of the rung before `rung`, the best first."""

        def height(i: int) -> tuple[float, float]:
            value = self.settings[i].curve[rung - 1]
            return -math.inf if value is None else value, self.lot("equal", self.settings[i])

        return sorted((i for i, row in enumerate(self.settings) if len(row.curve) >= rung), key=height, reverse=True)

    # --- what to run --------------------------------------------------------------------------------------------------

    def next(self) -> int | None:
        """Returns the setting to run now; None where the budget allows none, or where rungs wait for pending runs."""
        able = [i for i in range(len(self.settings)) if self.price(i) <= self.budget]
        started = [i for i, row in enumerate(self.settings) if row.runs]
        fresh = [i for i in able if not self.settings[i].runs]
        if self.last:
            if fresh:
                return self._apart(fresh, started)
            climber = self._climber(able)
            if climber is not None:
                return climber
            able = [i for i in able if self.settings[i].seen]
        if not able:
            return None
        if self.rule == "round_robin":
            return min(able, key=lambda i: self.settings[i].runs)
        if fresh and len(started) < _STARTS + len(self.settings[0].x):
            return self._apart(fresh, started)
        if not any(row.seen for row in self.settings):
            return min(able, key=lambda i: (self.settings[i].runs, self.lot("equal", self.settings[i])))
        return self._two(able) if self.rule == "top_two" else self._gradient(able)

    def price(self, i: int) -> float:
        """Returns the cost of a setting's next run: below the last rung the share that its length has."""
        row = self.settings[i]
        return row.cost * (self.rungs[min(len(row.curve), self.last)] / self.rungs[-1] if self.last else 1.0)

    def _apart(self, fresh: Sequence[int], started: Sequence[int]) -> int:
        def apart(i: int) -> tuple[float, float]:
            return min((self.distances[i][j] for j in started), default=0.0), self.lot("start", self.settings[i])

        return max(fresh, key=apart)

    def _climber(self, able: Sequence[int]) -> int | None:
        """Returns the setting that successive halving takes to its next rung, the highest first."""
        full = sum(len(row.seen) for row in self.settings)
        least, count = max(FINALISTS, full // _RUNS_EACH), len(self.settings)
        room = [min(max(math.ceil(count / ETA**rung), least), count) for rung in range(self.last + 1)]
        for rung in range(self.last, 0, -1):
            reached = self._reached(rung)
            top = reached[: room[rung] if len(reached) >= room[rung - 1] else len(reached) // ETA]
            for i in top:
                row = self.settings[i]
                if i in able and len(row.curve) == rung and not row.seen and not row.pending:
                    return i
        return None

    def _gradient(self, able: Sequence[int]) -> int:
        """Returns the setting with the highest knowledge gradient per cost."""
        gains = [0.0] * len(self.settings)
        for belief in self.beliefs():
            gains = [known + belief.weight * gain for known, gain in zip(gains, belief.gains(), strict=True)]
        worth = {i: gains[i] / max(self.price(i), _COST_FLOOR) for i in able}
        if max(worth.values()) <= 0:  # no single run can change the pick
            return self._two(able)
        return max(able, key=lambda i: (worth[i], self.lot("equal", self.settings[i])))

    def _two(self, able: Sequence[int]) -> int:
        """Returns the winner of a draw or, as often, of one that another setting wins; the cheaper more often."""
        rng, beliefs = self.random("two"), self.beliefs()
        roots = [cholesky(belief.covariance) for belief in beliefs]

        def ranked() -> list[int]:
            (which,) = rng.choices(range(len(beliefs)), [belief.weight for belief in beliefs])
            drawn = beliefs[which].draw(rng, roots[which])
            return sorted(able, key=drawn.__getitem__, reverse=True)

        leader = ranked()[0]
        order = next((o for o in (ranked() for _ in range(_TRIES)) if o[0] != leader), None) or ranked()
        rival = next((i for i in order if i != leader), leader)
        mine, other = (math.sqrt(max(self.price(i), _COST_FLOOR)) for i in (leader, rival))
        return leader if rng.random() < other / (mine + other) else rival

    def random(self, use: str) -> Random:
        """Returns a generator that is seeded by the state, the picks so far and `use`."""
        from random import Random

        return Random(repr((self.seed, use, [(row.id, row.seen, row.curve, row.pending) for row in self.settings])))

    def take(self, i: int) -> str:
        """Counts one more run of a setting as pending; returns the setting's id."""
        row = self.settings[i]
        self.budget -= self.price(i)
        row.pending += 1
        row.runs += 1
        self._beliefs = [belief.after(i) for belief in self._beliefs]
        return row.id


def picks(state: Mapping[str, object], k: int, config: Mapping[str, object]) -> list[str]:
    """Returns up to `k` ids of settings to run next, an id again for each further run of it; see `propose`.

    The `strategy` is the knowledge gradient per cost unless it is `top_two` (or `thompson`) or `round_robin`.
    """
    rule = str(config.get("strategy") or "")
    if rule.replace("-", "_") not in ("", "knowledge_gradient", *_RULES):
        strategy(rule)  # those that choose among claims are no rules for a sweep, and change nothing
    sweep, chosen = Sweep(state, rule), list[str]()
    while len(chosen) < k:
        i = sweep.next()
        if i is None:
            break
        chosen.append(sweep.take(i))
    return chosen


def best(state: Mapping[str, object]) -> str:
    """Returns the id of the setting with the best posterior mean, so that no single lucky run decides.

    `state` is as for `propose`. Raises ValueError that names the key that is wrong, or `seen` where nothing has run.
    """
    sweep = Sweep(state)
    return sweep.settings[sweep.best()].id
