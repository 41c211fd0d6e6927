"""The pictures that a report holds: confidence step by step, effects, budget, runs over time, and what hangs on what.

Imported by `document`. Each is bounded and says what it leaves out; nothing is shown by colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from perpetual.api import Experiment, Run
from perpetual_report.effects import Effect
from perpetual_report.pictures import Mark, axes_of, colour, draw, dress, legend, short, spread
from perpetual_report.snapshot import ADOPTED, ENDED, Snapshot, number_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from perpetual_report.content import DesignFacts, StepFacts

__all__ = ["BARS", "NODES", "budget", "confidence", "drawn_runs", "effects", "graph", "timeline"]

_WIDTH = 9.2  # inches of every picture
BARS = 60  # runs in the timeline
NODES = 40  # experiments in the graph
_STEPS, _DESIGNS = 60, 24
_NAMED = 3  # experiments of one design
_CHARACTER = 0.86  # of the graph's hundred units, at its font size, rather too much than too little
_KINDS = {
    "prior": Mark("ink", "s", "prior"),
    "changed by hand": Mark("amber", "s", "changed by hand"),
    "measured": Mark("blue", "o", "measured"),
    "baseline run": Mark("grey", "o", "baseline run"),
    "judged": Mark("violet", "D", "judged"),
    "manual": Mark("amber", "s", "by hand"),
    "retraction": Mark("red", "X", "retraction"),
}
_STATUSES = {
    "done": ("green", ""),
    "failed": ("red", "///"),
    "timeout": ("amber", "\\\\\\"),
    "killed": ("violet", "xxx"),
    "lost": ("grey", "..."),
    "running": ("blue", ""),
}


def confidence(name: str, statement: str, steps: Sequence[StepFacts], bounds: tuple[float, float]) -> str:
    """Draws the folded confidence after each row; the thresholds as lines, each step named by its run."""
    kept = steps[-_STEPS:]
    values = [step["record"].fold["confidence"] for step in kept]
    ends = f"from {values[0]:.3f} to {values[-1]:.3f} in {len(kept)} steps"

    def paint(figure: Figure) -> None:
        axes = axes_of(figure, left=0.6, right=0.85)
        dress(axes)
        axes.set_ylim(-0.04, 1.04)
        axes.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
        axes.set_xlim(-0.6, max(len(kept) - 0.4, 4.5))
        places = range(len(kept))
        axes.step(places, values, where="post", color=colour("blue"), linewidth=1.8, zorder=2)
        for value, word in ((bounds[0], "supported"), (bounds[1], "refuted")):
            axes.axhline(value, color=colour("soft"), linewidth=1.1, linestyle=(0, (4, 3)))
            axes.annotate(f"{word}\nat {value:g}", (1.0, value), xycoords=("axes fraction", "data"), va="center",
                          xytext=(5, 0), textcoords="offset points", color=colour("soft"), fontsize=9)  # fmt: skip
        for kind, mark in _KINDS.items():
            of = [place for place in places if kept[place]["what"] == kind]
            if of:
                axes.plot(of, [values[place] for place in of], linestyle="none", markersize=7, marker=mark.marker,
                          color=colour(mark.colour), label=mark.word, zorder=3)  # fmt: skip
        back = [place for place in places if (row := kept[place]["row"]) and row.retracted_by]
        if back:
            axes.plot(back, [values[place] for place in back], linestyle="none", markersize=13, marker="o",
                      markerfacecolor="none", markeredgecolor=colour("red"), markeredgewidth=1.4,
                      label="taken back later", zorder=4)  # fmt: skip
        axes.set_xticks([])
        for place in spread(len(kept), 20):  # words by themselves: a tick is five artists, and pictures are many
            axes.text(place, -0.05, _step_name(kept[place]), transform=axes.get_xaxis_transform(), ha="center",
                      va="top", fontsize=9, color=colour("ink"))  # fmt: skip
        axes.set_ylabel("confidence")
        legend(axes)

    return draw(
        name, f"Confidence: {short(statement, 90)}", f"The folded confidence goes {ends}.", (_WIDTH, 3.1), paint
    )


def _step_name(step: StepFacts) -> str:
    row, run = step["row"], step["run"]
    if row is None:
        return run or "prior"
    return f"{row.id}\n{run}" if run else str(row.id)


def effects(name: str, metric: str, designs: Sequence[DesignFacts]) -> str:
    """Draws each design's effect with its 95 % interval, its seeds behind; lines at 0 and the effect worth having."""
    kept = [(item, drawn) for item in designs if (drawn := item["drawn"]) and drawn.interval is not None][-_DESIGNS:]
    words = "; ".join(_effect_words(", ".join(item["members"]), drawn) for item, drawn in kept)

    def paint(figure: Figure) -> None:
        labels = [_design_name(item) for item, _ in reversed(kept)]
        axes = axes_of(figure, left=0.25 + 0.082 * max(map(len, labels)), right=0.2)
        dress(axes, grid="x")
        axes.axvline(0.0, color=colour("ink"), linewidth=1.2)
        named: set[str] = set()
        for place, (item, drawn) in enumerate(reversed(kept)):
            _forest_line(axes, place, drawn, item["experiment"].design.mde, named)
        axes.set_yticks(range(len(kept)), labels)
        axes.set_ylim(-0.7, len(kept) - 0.3)
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel(f"improvement in {short(metric, 40)} over the baseline (right of 0 is better)")
        legend(axes)

    return draw(name, f"Effects on {short(metric, 60)}", words, (_WIDTH, 1.35 + 0.42 * len(kept)), paint)


def _design_name(item: DesignFacts) -> str:
    """Returns a design's experiments, as far as there is room, with the title of the one whose prediction holds."""
    members = item["members"]
    ids = ", ".join(members) if len(members) <= _NAMED else f"{members[0]} and {len(members) - 1} more"
    return f"{ids}  {short(item['experiment'].title, 34)}"


def _forest_line(axes: Any, place: int, effect: Effect, mde: float | None, named: set[str]) -> None:
    """Draws one design; `named` are the words that the legend has already."""

    def word(text: str) -> str | None:
        known = text in named
        named.add(text)
        return None if known else text

    interval = effect.interval
    assert interval is not None
    axes.plot(effect.points, [place + 0.22] * len(effect.points), linestyle="none", markersize=4.5, marker="o",
              markerfacecolor="none", markeredgecolor=colour("grey"), markeredgewidth=1.2, label=word("one seed"),
              zorder=2)  # fmt: skip
    if mde is not None:
        axes.plot([mde, mde], [place - 0.32, place + 0.32], color=colour("amber"), linewidth=2.0, linestyle=(0, (2, 1)),
                  label=word("effect worth having"))  # fmt: skip
    if interval.low is not None and interval.high is not None:
        axes.plot([interval.low, interval.high], [place, place], color=colour("blue"), linewidth=2.2,
                  solid_capstyle="butt", label=word("95 % interval"), zorder=3)  # fmt: skip
    axes.plot([interval.mean], [place], linestyle="none", markersize=7.5, color=colour("blue"),
              marker="D" if interval.low is not None else "d", label=word("mean difference"), zorder=4)  # fmt: skip


def _effect_words(id: str, effect: Effect) -> str:
    interval = effect.interval
    assert interval is not None
    if interval.low is None or interval.high is None:
        return f"{id}: {interval.mean:+.4g}, {effect.how}"
    return f"{id}: {interval.mean:+.4g}, 95 % interval {interval.low:+.4g} to {interval.high:+.4g}"


def _places(times: Sequence[datetime]) -> list[float]:
    """Returns times as places on an axis: matplotlib takes them as they are, which its types do not say."""
    return cast("list[float]", [*times])


def budget(name: str, snapshot: Snapshot) -> str:
    """Draws hours spent and reserved over time against the limit: GPU-hours, or run-hours where no GPU was wanted."""
    is_gpu = any(row.gpu_hours for row in snapshot.debits)
    unit = "GPU-hours" if is_gpu else "run-hours"
    times, spent, held = _balance(snapshot, is_gpu=is_gpu)
    limits = [(_moment(time), limit) for time, limit in snapshot.limits] if is_gpu else []

    def paint(figure: Figure) -> None:
        axes = axes_of(figure, left=0.7)
        dress(axes)
        scale, word = _scale(max([*spent, *(a + b for a, b in zip(spent, held, strict=True))], default=0.0), unit)
        down = [value * scale for value in spent]
        both = [(a + b) * scale for a, b in zip(spent, held, strict=True)]
        axes.fill_between(_places(times), down, both, step="post", color=colour("amber"), alpha=0.35, linewidth=0,
                          label="reserved for runs that go on")  # fmt: skip
        axes.step(_places(times), down, where="post", color=colour("blue"), linewidth=2.0, label="spent")
        if limits and limits[-1][1] is not None:
            changed = [(time, limit) for time, limit in limits if limit is not None]
            known = [(max(time, times[0]), limit * scale) for time, limit in changed]
            known.append((max(times[-1], known[-1][0]), known[-1][1]))
            axes.step(_places([time for time, _ in known]), [limit for _, limit in known], where="post",
                      color=colour("red"), linewidth=1.6, linestyle=(0, (4, 3)), label="limit")  # fmt: skip
        axes.set_ylim(bottom=0.0)
        axes.set_ylabel(word)
        _dates(axes, times)
        legend(axes)

    total = f"{spent[-1]:.4g} {unit} spent and {held[-1]:.4g} reserved at the end"
    return draw(name, f"Budget: {unit} over time", total, (_WIDTH, 2.9), paint)


def _balance(snapshot: Snapshot, *, is_gpu: bool) -> tuple[list[datetime], list[float], list[float]]:
    """Returns spent and reserved hours after each row of the ledger; many rows are thinned, the last one kept."""
    times, spent, held = [], [], []
    total, reserved = 0.0, dict[str, float]()
    for row in snapshot.debits:
        hours = row.gpu_hours if is_gpu else row.run_hours
        if row.kind == "reserve":
            reserved[row.run_id] = reserved.get(row.run_id, 0.0) + hours
        else:
            reserved.pop(row.run_id, None)
            total += hours
        times.append(_moment(row.created_at))
        spent.append(total)
        held.append(math.fsum(reserved.values()))
    kept = spread(len(times), 1500)
    return [times[n] for n in kept], [spent[n] for n in kept], [held[n] for n in kept]


def _scale(largest_h: float, unit: str) -> tuple[float, str]:
    """Hours in a unit in which their size can be read."""
    if largest_h * 3600.0 < 300.0:
        return 3600.0, unit.replace("hours", "seconds")
    return (60.0, unit.replace("hours", "minutes")) if largest_h < 3.0 else (1.0, unit)


def _moment(time: str) -> datetime:
    return datetime.fromisoformat(time)


def _dates(axes: Any, times: Sequence[datetime]) -> None:
    from matplotlib.dates import AutoDateLocator, DateFormatter

    span_s = (times[-1] - times[0]).total_seconds()
    if span_s > 0:
        axes.xaxis.set_major_locator(AutoDateLocator(minticks=3, maxticks=8))  # type: ignore[no-untyped-call]
    else:
        axes.set_xticks([times[0]])
    form = "%H:%M:%S" if span_s < 900 else "%H:%M" if span_s < 86400 else "%d %b %H:%M" if span_s < 5e5 else "%Y-%m-%d"
    axes.xaxis.set_major_formatter(DateFormatter(form))  # type: ignore[no-untyped-call]
    day = f"{times[0]:%Y-%m-%d}, " if span_s < 86400 else ""
    axes.set_xlabel(f"{day}UTC")


def drawn_runs(snapshot: Snapshot) -> list[Run]:
    """Returns the runs that have a bar: those that started here; adopted ones ran elsewhere, at another time."""
    return [run for run in snapshot.runs if run.started_at is not None and run.scheduler != ADOPTED]


def timeline(name: str, snapshot: Snapshot) -> str | None:
    """Draws the newest runs as bars, grouped by experiment, named with how they ended; None before the first start."""
    started = drawn_runs(snapshot)
    if not started:
        return None
    newest = sorted(started, key=lambda run: number_of(run.id))[-BARS:]
    kept = sorted(newest, key=lambda run: (number_of(run.experiment_id), number_of(run.id)))
    left = len(started) - len(kept)
    end = _moment(snapshot.time or kept[-1].started_at or "")
    spans = [(_moment(run.started_at or ""), _moment(run.ended_at) if run.ended_at else end) for run in kept]

    def paint(figure: Figure) -> None:
        from matplotlib.dates import date2num

        axes = axes_of(figure, left=0.5, top=0.08)
        dress(axes, grid="x")
        starts = [date2num(a) for a, _ in spans]  # type: ignore[no-untyped-call]
        ends = [max(date2num(b), a) for (_, b), a in zip(spans, starts, strict=True)]  # type: ignore[no-untyped-call]
        width = max(max(ends) - min(starts), 1e-6)
        for place, run in enumerate(kept):
            shade, hatch = _STATUSES.get(run.status, ("grey", ""))
            axes.barh(place, max(ends[place] - starts[place], width / 400), left=starts[place], height=0.72,
                      color=colour(shade), edgecolor=colour("grid"), hatch=hatch, linewidth=0.6)  # fmt: skip
            axes.annotate(f"{run.id} {run.status}", (max(ends[place], starts[place] + width / 400), place),
                          xytext=(4, 0), textcoords="offset points", va="center", fontsize=8,
                          color=colour("ink"))  # fmt: skip
        firsts = [n for n, run in enumerate(kept) if n == 0 or kept[n - 1].experiment_id != run.experiment_id]
        axes.set_yticks(firsts, [kept[n].experiment_id for n in firsts])
        for n in firsts[1:]:
            axes.axhline(n - 0.5, color=colour("grid"), linewidth=0.8)
        axes.set_ylim(len(kept) - 0.4, -0.6)
        axes.set_xlim(min(starts) - width * 0.02, max(ends) + width * 0.14)
        axes.xaxis_date()
        _dates(axes, [min(a for a, _ in spans), max(b for _, b in spans)])

    words = ", ".join(f"{sum(run.status == word for run in kept)} {word}" for word in (*ENDED, "launching", "running")
                      if any(run.status == word for run in kept))  # fmt: skip
    more = f"; {left} older ones are left out" if left else ""
    return draw(name, "Runs over time, by experiment", f"{words}{more}.", (_WIDTH, 1.0 + 0.19 * len(kept)), paint)


def graph(name: str, snapshot: Snapshot) -> str | None:
    """Draws which hypothesis is tested by which experiment against which baseline; None before the first experiment."""
    kept = [item for item in snapshot.experiments if item.design.claim is not None][-NODES:]
    if not kept:
        return None
    kept = sorted(kept, key=lambda item: (number_of(item.hypothesis_id or "h0"), number_of(item.id)))
    known = {item.id: item for item in snapshot.experiments}
    statements = {item.id: item for item in snapshot.hypotheses}
    left = sum(item.design.claim is not None for item in snapshot.experiments) - len(kept)

    def paint(figure: Figure) -> None:
        axes = axes_of(figure, left=0.04, bottom=0.05, right=0.04, top=0.05)
        axes.axis("off")
        axes.set_xlim(0.0, 100.0)
        axes.set_ylim(len(kept) - 0.4, -1.2)
        for x, words in ((0.0, "hypothesis"), (40.0, "experiment"), (73.0, "baseline")):
            axes.text(x, -0.95, words, fontsize=9, color=colour("soft"), va="center")
        _edges(axes, kept, statements, known)

    words = "; ".join(
        f"{item.id} tests {item.hypothesis_id or 'no hypothesis'} against {_against(item, known)}" for item in kept
    )
    more = f"; {left} older experiments are left out" if left else ""
    return draw(name, "What is tested by what", words + more, (_WIDTH, 0.5 + 0.36 * len(kept)), paint)


def _against(item: Experiment, known: Mapping[str, Experiment]) -> str:
    baseline = item.design.baseline
    if isinstance(baseline, str):
        return f"{baseline} {short(known[baseline].title, 24)}" if baseline in known else baseline
    return "nothing" if baseline is None else f"{baseline:g}"


def _edges(
    axes: Any, kept: Sequence[Experiment], statements: Mapping[str, Any], known: Mapping[str, Experiment]
) -> None:
    """Draws each node once, at the middle of the nodes that hang on it; a line for each edge."""
    subjects: dict[str, list[int]] = {}
    bases: dict[str, list[int]] = {}
    for place, item in enumerate(kept):
        subjects.setdefault(item.hypothesis_id or "-", []).append(place)
        bases.setdefault(_against(item, known), []).append(place)
        words = f"{item.id}  {short(item.title, 28)}"
        axes.text(40.0, place, words, fontsize=9.5, color=colour("ink"), va="center")
        _leader(axes, 40.0, words, place, 68.4)
    for id, places in subjects.items():
        middle = sum(places) / len(places)
        subject = statements.get(id)
        words = f"{id} ({subject.status})  {short(subject.statement, 28)}" if subject else "no hypothesis"
        shade = {"supported": "green", "refuted": "red"}.get(subject.status if subject else "", "ink")
        axes.text(0.0, middle, words, fontsize=9.5, color=colour(shade), va="center")
        _leader(axes, 0.0, words, middle, 36.2)
        for place in places:
            axes.plot([36.2, 39.3], [middle, place], color=colour("grey"), linewidth=1.2)
    for words, places in bases.items():
        middle = sum(places) / len(places)
        axes.text(73.0, middle, words, fontsize=9.5, color=colour("ink"), va="center")
        for place in places:
            axes.plot([68.4, 72.3], [place, middle], color=colour("grey"), linewidth=1.2, linestyle=(0, (4, 2)))


def _leader(axes: Any, left: float, words: str, place: float, right: float) -> None:
    """Draws a line from the end of a node's words to where its edges begin, so that the eye finds the way."""
    start = left + _CHARACTER * (len(words) + 2)
    if start < right:
        axes.plot([start, right], [place, place], color=colour("grid"), linewidth=0.8)
