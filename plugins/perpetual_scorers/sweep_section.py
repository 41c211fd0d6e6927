"""The section of sweeps in a report: their settings, the pick, and how much each parameter matters.

Built by the report when it is written. The section is behind the mark from which `perpetual verify` checks nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

from perpetual.toolkit.units import counted, shown_number
from perpetual_report.sections import Heading, KeptSection, Part, Picture, Table, Words
from perpetual_scorers import sweeps
from perpetual_scorers.sweep_view import SWEEP

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_scorers.documents import (
        ParameterImportance,
        SweepDocument,
        SweepImportanceDocument,
        SweepReported,
        SweepSetting,
    )

__all__ = ["MOST_SWEEPS", "SweepSection", "build"]

MOST_SWEEPS = 8  # the newest
_ROWS = 20  # settings of the table: the best ones
_PAGE = 1000
_READING = (
    "The runs of a sweep choose what to test and are evidence of nothing: the best of many noisy values looks better "
    "than it is. The claim on fresh seeds says what the pick is worth."
)


def build(options: Mapping[str, object]) -> SweepSection:
    """Builds the section."""
    return SweepSection()


class SweepSection(KeptSection):
    """The section `sweeps`."""

    title = "Sweeps"

    def find(self, lab: Lab) -> dict[str, object]:
        """Returns `{sweeps, left}`: the newest sweeps with their importances, and how many older ones there are."""
        ids: list[str] = []
        cursor: str | None = None
        while True:
            page = lab.records(SWEEP).list(limit=_PAGE, cursor=cursor)
            ids += [record.id for record in page.items]
            cursor = page.next_cursor
            if cursor is None:
                break
        if not ids:
            return {}
        shown = [
            {**sweeps.show(lab, id), "importance": sweeps.importance(lab, id)} for id in reversed(ids[-MOST_SWEEPS:])
        ]
        return {"sweeps": shown, "left": max(len(ids) - MOST_SWEEPS, 0)}

    def parts(self, data: Mapping[str, object]) -> list[Part]:
        """Returns what is shown of each sweep."""
        found: list[Part] = [Words(_READING)]
        for one in cast("Sequence[SweepReported]", data["sweeps"]):
            found += _sweep(one)
        left = cast("int", data["left"])
        return [*found, Words(f"{counted(left, 'older sweep')} left out: perpetual sweep list")] if left else found


def _sweep(found: SweepReported) -> list[Part]:
    from perpetual_scorers import sweep_pictures

    parameters, shares = sweeps.parameters_in(found), found["importance"]
    better = "higher" if found["direction"] == "max" else "lower"
    runs = f"{counted(found['runs'], 'run')} ended, {found['runs_pending']} to come"
    ran = sum(one["n"] > 0 for one in found["settings"])
    return [
        Heading(f"{found['id']}: {found['metric']}, {better} is better"),
        Words(f"{found['sentence']}."),
        Words(f"{runs}. {ran} of {counted(len(found['settings']), 'setting')} measured in full."),
        Words(f"Command: {found['command']}"),
        *([] if found["claim"] is None else [Words(f"{found['claim']['setting']} is claimed as "
                                                   f"{found['claim']['hypothesis_id']}.")]),
        Picture(partial(sweep_pictures.parallel, found, parameters, shares),
                "Each line is a setting, from its parameters to the mean of its full runs at the right, where up is "
                f"better.{_left_out(found)}"),
        Picture(partial(sweep_pictures.slices, found, parameters, shares),
                "Each circle is a full run; a line joins the runs of one setting. Other parameters differ from point "
                f"to point, so that a pattern may be theirs.{_left_out(found)}"),
        *_shares(shares),
        Picture(partial(sweep_pictures.importance, found, shares), "The same shares, the largest first."),
        _settings(found),
    ]  # fmt: skip


def _left_out(found: SweepDocument) -> str:
    """Returns what the pictures do not draw."""
    from perpetual_scorers.sweep_pictures import MOST_DRAWN, MOST_PARAMETERS

    ran = sum(one["n"] > 0 for one in found["settings"])
    failed = sum(not one["n"] and one["n_failed"] > 0 for one in found["settings"])
    idle = len(found["settings"]) - ran - failed
    said = []
    if idle:
        said.append(f"{counted(idle, 'setting')} without a full run not drawn")
    if ran > MOST_DRAWN:
        said.append(f"only the best {MOST_DRAWN} settings drawn")
    if len(found["parameters"]) > MOST_PARAMETERS:
        said.append(f"{MOST_PARAMETERS} of {len(found['parameters'])} parameters drawn, by their share")
    return "".join(f" {words[:1].upper()}{words[1:]}." for words in said)


def _shares(shares: SweepImportanceDocument) -> list[Part]:
    """Returns the importances in words and as a table."""
    if shares["reason"] is not None:
        return [Words(f"Importance of the parameters: {shares['reason']}.")]
    spread, noise = shown_number(shares["spread"] or 0.0), shown_number(shares["noise"] or 0.0)
    caution = "" if shares["caution"] is None else f" {shares['caution'][:1].upper()}{shares['caution'][1:]}."
    words = (
        "Importance: the share of the metric's variance over the space that was searched which a parameter explains "
        "alone, by the fitted model. 98 % of what the model believes lies in the range, which is as good as the model. "
        "What the shares lack is what parameters do together. Over the space the metric has an sd of "
        f"{spread}, and between runs of one setting {noise}.{caution}"
    )
    ranked = sorted(shares["parameters"], key=lambda one: -(one["share"] or 0.0))
    rows = [_share(one) for one in ranked]
    return [Words(words), Table("Importance of the parameters", ("parameter", "share", "range"), rows)]


def _share(one: ParameterImportance) -> tuple[str, str, str]:
    from perpetual_scorers.sweep_pictures import where

    if one["share"] is None:
        return where(one), "-", one["reason"] or ""
    return where(one), f"{one['share']:.2f}", f"{one['low']:.2f} to {one['high']:.2f}"


def _settings(found: SweepDocument) -> Table:
    """Returns the settings, those with a value first and the best mean on top."""
    sign = -1.0 if found["direction"] == "max" else 1.0

    def order(one: SweepSetting) -> tuple[bool, bool, float]:
        return one["mean"] is None, not one["n_failed"], sign * (one["mean"] or 0.0)

    names = [one["name"] for one in found["parameters"]]
    rows = []
    for one in sorted(found["settings"], key=order)[:_ROWS]:
        pick = " (pick)" if one["id"] == found["best"] else ""
        values = [str(one["parameters"].get(name, "")) for name in names]
        failed = f" and {one['n_failed']} without a value" if one["n_failed"] else ""
        rows.append([one["id"] + pick, *values, _number(one["mean"]), _number(one["sd"]), f"{one['n']}{failed}"])
    columns = ["setting", *names, f"mean {found['metric']}", "sd", "runs"]
    return Table("Settings, the best mean first", columns, rows, left=max(len(found["settings"]) - _ROWS, 0))


def _number(value: float | None) -> str:
    return "" if value is None else shown_number(value)
