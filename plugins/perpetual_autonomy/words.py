"""The board and the rights as lines for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import line
from perpetual.toolkit.units import counted, shown_hours

if TYPE_CHECKING:
    from perpetual_autonomy.documents import Board, Calibration, Costs, Predictions, Priors, Rights, RightShown

__all__ = ["board_lines", "right_lines"]


def board_lines(found: Calibration) -> list[str]:
    """Returns the board in lines."""
    if not found["proposers"]:
        return ["no proposer has declared anything yet"]
    lines = [text for one in found["proposers"] for text in _board(one)]
    left = found["total"] - len(found["proposers"])
    more = [f"and {counted(left, 'more proposer')}: --proposer NAME"] if left else []
    return [*lines, *more, *(f"note: {text}" for text in found["notes"])]


def _board(one: Board) -> list[str]:
    return [*map(_safe, (one["proposer"], *(f"  {text}" for text in (
        *_priors(one["priors"]), *_costs(one["costs"]), *_predictions(one["predictions"])))))]  # fmt: skip


def _priors(found: Priors) -> list[str]:
    counts = {
        "open": found["open"], "parked": found["parked"], "decided by hand": found["by_hand"],
        "with the default prior": found["not_declared"],
        "of which it was not recorded whether the prior was declared": found["unknown"],
    }  # fmt: skip
    apart = [f"{count} {words}" for words, count in counts.items() if count]
    rest = f"; not counted: {', '.join(apart)}" if apart else ""
    score = found["brier"]
    if score is None:
        return [f"priors: {found['why']}{rest}"]
    lines = [
        f"priors: Brier score {score['score']:.3f} over {found['decided']} decided claims, "
        f"{found['supported']} supported "
        f"(always the base rate: {score['base_rate']:.3f}, always one half: {score['even']:.3f}){rest}"
    ]
    lines += [
        f"  stated {one['stated']:.2f} (n {one['n']}): supported {one['share']:.2f}, "
        f"95 % interval {one['low']:.2f} to {one['high']:.2f}"
        for one in found["bins"]
    ]
    return lines


def _costs(found: Costs) -> list[str]:
    ended = f"; {found['censored']} ended early, which cost at least what they took" if found["censored"] else ""
    ended += f" ({found['censored_above']} had passed the declared cost)" if found["censored_above"] else ""
    lost = f"; {found['lost']} of unknown length" if found["lost"] else ""
    if found["median_ratio"] is None or found["share_above"] is None:
        return [f"costs: {found['why']}{ended}{lost}"]
    bounds = (f", 95 % interval {found['low']:.2f} to {found['high']:.2f}"
              if found["low"] is not None and found["high"] is not None else "")  # fmt: skip
    return [
        f"costs: median {found['median_ratio']:.2f} of the declared run-hours over {found['experiments']} experiments"
        f"{bounds}; {found['runs_above']} of {found['runs']} runs that were done took more{ended}{lost}"
    ]


def _predictions(found: Predictions) -> list[str]:
    if found["median_ratio"] is None:
        return [f"effects: {found['why']}"]
    return [f"effects: {found['covered']} of {found['measured']} measured intervals hold the declared effect; "
            f"median {found['median_ratio']:.2f} of it"]  # fmt: skip


def right_lines(found: Rights) -> list[str]:
    """Returns the rights in lines."""
    lines = [f"problem: {found['problem']}"] if found["problem"] else []
    lines += [
        f"ceiling of {one['action']}: {shown_hours(one['run_hours'])} a replicate, "
        f"{shown_hours(one['run_hours_per_day'])} a day ({shown_hours(one['used_today'])} used on {found['day']}), "
        f"{'the same code' if one['code'] == 'same' else 'any code'}, "
        f"for {', '.join(one['proposers']) or 'no proposer'}"
        for one in found["ceilings"]
    ]
    lines += [text for one in found["rights"] for text in _right(one)]
    return [*map(_safe, (*lines, *found["notes"]))]


def _safe(text: str) -> str:
    """Returns a line whose words of others move no cursor, with its indent."""
    words = text.lstrip(" ")
    return " " * (len(text) - len(words)) + line(words)


def _right(one: RightShown) -> list[str]:
    head = f"{one['proposer']} {one['action']}: "
    count = f"{one['clean']} in a row" + (f" of {one['needed']}" if one["needed"] is not None else "")
    pending = f"; {one['pending']} goes on" if one["pending"] else ""
    last = [f"  last incident: {one['last_incident']['words']}"] if one["last_incident"] else []
    if one["in_force"]:
        name = f"right:{one['right']}" if one["right"] is not None else "from the loop's next turn on"
        return [f"{head}in force ({name}), {count}{pending}", *last]
    return [f"{head}not in force, {count}{pending}", *(f"  {why}" for why in one["why"]), *last]
