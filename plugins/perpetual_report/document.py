"""The report's text: what the lab knows, laid out by the template beside this file. For the command and the demo."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from perpetual.api import Evidence, Experiment, Hypothesis, Run
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.units import shown_hours

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["render", "write"]

_PAGE = 1000
_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]<>|#"})


def _inline(text: object) -> str:
    """User text as plain words of a Markdown line: no markup, no line breaks, no control characters."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return plain.translate(_MARKDOWN)


def _code(text: object) -> str:
    """User text as inline code, whatever back-ticks it holds."""
    plain = " ".join(str(text).split())
    fence = "`"
    while fence in plain:
        fence += "`"
    pad = " " if fence != "`" else ""
    return f"{fence}{pad}{plain}{pad}{fence}"


def _number(value: float | None, digits: int = 4) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def _all(listing: Any, **filters: Any) -> list[Any]:
    """Every page of a department's list."""
    items: list[Any] = []
    cursor: str | None = None
    while True:
        page = listing(limit=_PAGE, cursor=cursor, **filters)
        items += page.items
        cursor = page.next_cursor
        if cursor is None:
            return items


def _sd(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _design(lab: Lab, experiment: Experiment, rows: Sequence[Evidence], runs: Sequence[Run]) -> dict[str, Any]:
    """One experiment of a hypothesis: its arms as numbers, oriented so that more is better."""
    design = experiment.design
    values = [row.value for row in rows if row.value is not None]
    against: list[float] = []
    if isinstance(design.baseline, str):
        against = [
            value
            for run in _all(lab.runs.list, experiment_id=design.baseline)
            if run.status == "done" and (value := run.metrics.get(design.metric)) is not None
        ]
    elif design.baseline is not None:
        against = [float(design.baseline)]
    mean = math.fsum(values) / len(values) if values else None
    base = math.fsum(against) / len(against) if against else None
    sign = 1.0 if design.direction == "max" else -1.0
    return {
        "experiment": experiment,
        "rows": rows,
        "runs": runs,
        "mean": mean,
        "sd": _sd(values),
        "base": base,
        "base_sd": _sd(against),
        "base_n": len(against),
        "effect": sign * (mean - base) if mean is not None and base is not None else None,
        "nats": math.fsum(row.log_bayes_factor or 0.0 for row in rows),
        "run_hours": math.fsum(run.run_hours or 0.0 for run in runs),
    }


def _hypothesis(lab: Lab, hypothesis: Hypothesis) -> dict[str, Any]:
    evidence = _all(lab.evidence.list, hypothesis_id=hypothesis.id)
    designs = []
    for experiment in _all(lab.experiments.list, hypothesis_id=hypothesis.id):
        own = [row for row in evidence if row.experiment_id == experiment.id and row.kind == "measured"]
        counted = [row for row in own if row.retracted_by is None and row.weight > 0]
        runs = sorted(_all(lab.runs.list, experiment_id=experiment.id), key=lambda run: int(run.id[1:]))
        designs.append(_design(lab, experiment, counted, runs))
    return {
        "record": hypothesis,
        "evidence": evidence,
        "designs": designs,
        "by_hand": [row for row in evidence if row.kind != "measured"],
        "run_hours": math.fsum(design["run_hours"] for design in designs),
        "runs": sum(len(design["runs"]) for design in designs),
    }


def _sections(lab: Lab) -> list[str]:
    """What plugins add; a section that fails is replaced by a line that names it."""
    texts = []
    for name, section in lab.parts("report_section"):
        try:
            texts.append(str(section(lab)))
        except Exception as problem:  # noqa: BLE001 - one plugin's section must not cost the others; the report names it
            texts.append(f"*The section of {name} failed: {_inline(problem)}*")
    return texts


def render(lab: Lab) -> str:
    """The whole report as Markdown.

    Raises:
        PerpetualError: what reading the record raises.
    """
    status = lab.status()
    hypotheses = [_hypothesis(lab, item) for item in _all(lab.hypotheses.list)]
    experiments = _all(lab.experiments.list)
    runs = sorted(_all(lab.runs.list), key=lambda run: int(run.id[1:]))
    environment = Environment(
        loader=PackageLoader("perpetual_report", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown: the filters below make user text harmless
    )
    environment.filters |= {"inline": _inline, "code": _code, "num": _number, "hours": shown_hours}
    text = environment.get_template("report.md.j2").render(
        status=status,
        budget=lab.budget.show(),
        hypotheses=hypotheses,
        baselines=[item for item in experiments if item.design.claim is None],
        titles={item.id: item.title for item in experiments},
        runs=runs,
        failed=[run for run in runs if run.status in ("failed", "killed", "timeout", "lost")],
        no_metric=[run for run in runs if run.status == "done" and (run.reason or "").startswith("no_metric")],
        notes=_all(lab.memory.list),
        thresholds=(
            lab.config.methodology["confidence_support_threshold"],
            lab.config.methodology["confidence_refute_threshold"],
        ),
        sections=_sections(lab),
    )
    return text.rstrip() + "\n"


def write(path: Path, text: str) -> None:
    """Replaces the file; the folders above it are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text, mode=0o644)
