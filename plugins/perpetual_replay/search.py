"""The search for a change after which scores fell, as pure functions of the differences of pairs.

States 0 to n are n changes apart. A comparison of a later state with an earlier one runs pairs, D = score of the later
one minus score of the earlier one, and shows a fall once the e-value of E[D] < 0 reaches the bar. First the ends are
compared. A bracket (low, high] is then halved by its middle state: middle against low, and high against middle, pair
by pair in step, until one of the two shows a fall, which is the next bracket. Where both have run out of pairs the
side with the larger e-value is taken, and the step is unproven.

What is guaranteed. Every bar is T / alpha with T = `most_comparisons(n)`, and no bisection makes more comparisons: one
of the ends, two at each of ceil(log2 n) halvings, and one of the found change in the memory of the bad state. Each has
fresh pairs, whose tasks are drawn anew, so given all that came before it shows a fall that is none with a chance of at
most alpha / T, whenever it stops (Ville's inequality). Hence the chance that a bisection shows any fall that is none
is at most alpha, for every history: nothing is assumed of the scores of the other states, of their order, or of how
large the noise is.

What is not. A bracket holds a fall, and not each one: of several falls the search ends at one, perhaps a small one. A
fall that was made good again before the bad state is not looked for, since the ends are compared alone. Of a change
whose own comparison was not shown (after an unproven step) nothing is claimed unless its confirmation shows it. And
scores are those of the project's tasks, with the programs that they have today.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from perpetual_replay.evalues import curve

__all__ = ["Comparison", "Place", "Result", "bar", "decide", "follow", "halvings", "most_comparisons"]


class Comparison(NamedTuple):
    """Two states, of which the later one is asked whether it scores less."""

    later: int
    earlier: int


class Result(NamedTuple):
    """What one step's comparisons say: which of them shows a fall (None: none does), and their e-values."""

    shown: int | None
    e_values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a search is.

    - `low`, `high`: the fall lies in the changes low + 1 to high.
    - `shown`: whether these two states were compared, and the later one was shown to score less.
    - `unproven`: steps that went to a side without either being shown.
    - `comparisons`: what to compare next; empty at the end.
    - `none`: whether it ended since no fall was shown between the ends.
    """

    low: int
    high: int
    shown: bool = False
    unproven: int = 0
    comparisons: tuple[Comparison, ...] = ()
    none: bool = False


def halvings(changes: int) -> int:
    """Returns ceil(log2 n), the halvings that single one of n changes out."""
    return max(0, changes - 1).bit_length()


def most_comparisons(changes: int) -> int:
    """Returns the number of comparisons at most, among which the chance of an error is split."""
    return 2 + 2 * halvings(changes)


def bar(changes: int, alpha: float) -> float:
    """Returns the e-value from which a comparison shows a fall."""
    return most_comparisons(changes) / alpha


def decide(differences: Sequence[Sequence[float]], needed: float, max_pairs: int) -> Result | None:
    """Returns what the pairs of one step's comparisons say; None while more are needed.

    Pairs count in step: as many of each comparison as all of them have. The first that reaches the bar is shown; where
    two do by the same pair, the one with the larger e-value. The step is over with
    none shown where each later state is shown to score more.
    """
    count = min(max_pairs, *(len(one) for one in differences))
    curves = [curve(one[:count]) for one in differences]
    for place in range(count):
        values = tuple(one[place][1] for one in curves)
        if max(values) >= needed:
            return Result(values.index(max(values)), values)
        if all(one[place][0] >= needed for one in curves):
            return Result(None, values)  # the later state of each is shown to score more
    if count < max_pairs:
        return None
    return Result(None, tuple(one[-1][1] for one in curves))


def follow(changes: int, results: Sequence[Result], same: Callable[[int, int], bool]) -> Place:
    """Returns where a search over n changes is after these results of its steps, in their order.

    Args:
        changes: n, the number of changes; states are numbered 0 to n.
        results: what each step said.
        same: whether two states show agents the same, so that neither can score less: they are not compared.
    """
    low, high, shown, unproven = 0, changes, True, 0
    left = [*results]
    if changes < 1 or same(low, high):
        return Place(low, high, none=True)
    if not left:
        return Place(low, high, comparisons=(Comparison(high, low),))
    if left.pop(0).shown is None:
        return Place(low, high, none=True)
    while high - low > 1:
        middle = (low + high) // 2
        if same(middle, low):
            low = middle
        elif same(middle, high):
            high = middle
        elif not left:
            return Place(low, high, shown, unproven, (Comparison(middle, low), Comparison(high, middle)))
        else:
            result = left.pop(0)
            first, second = result.e_values
            if result.shown is None:
                unproven += 1
            shown = result.shown is not None
            is_left = result.shown == 0 if shown else first > second
            low, high = (low, middle) if is_left else (middle, high)
    return Place(low, high, shown, unproven)
