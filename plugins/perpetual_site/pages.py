"""The site's pages: what stands on each, and where it links to. A function of the record as it stood.

What a page shows of a run's curve is read from the run's files, and is behind the mark from which nothing is verified.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from itertools import accumulate
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from markupsafe import Markup

from perpetual_curves.section import row
from perpetual_report.content import LIMITS as OF_A_REPORT
from perpetual_report.document import UNVERIFIED, css_of, form, page_environment
from perpetual_report.pictures import short
from perpetual_report.publishing import Publisher
from perpetual_report.snapshot import ADOPTED, ENDED, Snapshot, number_of
from perpetual_site.cells import Cell
from perpetual_site.charts import Band, Line, forest, lines, steps
from perpetual_site.curves import CURVE_RUNS, Curves
from perpetual_site.laid import Laid, names_of, plain_value

if TYPE_CHECKING:
    from perpetual.api import Run
    from perpetual_report.content import DesignFacts, HypothesisFacts

__all__ = ["LIMITS", "Pages", "site_form"]

LIMITS = {
    **OF_A_REPORT,
    **dict.fromkeys(("hypotheses", "designs", "runs", "explored"), 100_000),
    "rows": 1_000,
    "steps": 100,
    "metrics": 40,
}
_CELLS = 40  # of one page of the logbook
_NEWEST = 5  # cells on the index
_BEST = 10  # lines of a leaderboard
_BOARDS = 6  # metrics that have one
_ARTIFACTS = 200  # lines of one experiment's
_BANDS = 24  # designs of one picture


class _Link(NamedTuple):
    """A link of the navigation; `href` None is the page itself."""

    title: str
    href: str | None


class Pages:
    """Lays out the pages, each when it is asked for."""

    def __init__(
        self,
        snapshot: Snapshot,
        facts: Mapping[str, object],
        cells: Sequence[Cell],
        publisher: Publisher,
        curves: Curves,
    ) -> None:
        """Takes what the pages show.

        Args:
            snapshot: the record as it may be shown.
            facts: what `facts_of` made of it.
            cells: the logbook, the oldest first.
            publisher: of the texts that are read from files.
            curves: of the experiments.
        """
        self._snapshot, self._facts, self._cells, self._publisher = snapshot, facts, cells, publisher
        self._read = curves
        self._of_run = {run.id: run.experiment_id for run in snapshot.runs}
        self._rows = {
            cast("Run", found["record"]).id: found for found in cast("list[dict[str, object]]", facts["runs"])
        }
        self._runs: dict[str, list[Run]] = defaultdict(list)
        for run in snapshot.runs:
            self._runs[run.experiment_id].append(run)
        self._hypotheses = {item["record"].id: item for item in cast("list[HypothesisFacts]", facts["hypotheses"])}
        self._verdicts = {item["record"].id: item for item in cast("list[dict[str, Any]]", facts["verdicts"])}
        explored = cast("list[DesignFacts]", facts["explored"])
        designs = [design for item in self._hypotheses.values() for design in item["designs"]] + explored
        self._designs = {
            design["experiment"].id: design for design in sorted(designs, key=lambda d: number_of(d["experiment"].id))
        }
        self._about: dict[str, list[Cell]] = defaultdict(list)
        for cell in cells:
            for id in dict.fromkeys(cell.about):
                self._about[id].append(cell)
        self._page_of = {f"c{cell.seq}": place // _CELLS + 1 for place, cell in enumerate(cells)}
        self._here = ""  # the page that is being laid out
        self._asked: dict[str, str | None] = {}  # addresses that it has asked for, by id, of cells as `c12`
        self._used: dict[str, set[str]] = {}  # names that a template reads
        self._css = Markup(css_of("perpetual_report", "report.css") + css_of("perpetual_site", "site.css"))
        self._environment = page_environment("perpetual_site", self._row_of)
        self._environment.globals |= {
            "href": self._href, "cell_href": self._cell_href, "asset": lambda: self._css, "up": lambda: _up(self._here),
        }  # fmt: skip

    def names(self) -> list[str]:
        """Returns the pages by their path in the site, the index first."""
        last = max(self._page_of.values(), default=0)
        return [
            "index.html",
            "experiments.html",
            "logbook/index.html",
            *(f"logbook/{number}.html" for number in range(1, last + 1)),
            *(f"h/{id}.html" for id in self._hypotheses),
            *(f"e/{id}.html" for id in self._designs),
        ]

    def text(self, name: str) -> str:
        """Returns a page."""
        return self._rendered(self._sheet(name))

    def page(self, name: str, before: Laid | None) -> tuple[Laid, str | None]:
        """Returns what a page is made from, and the page; None where it was made from the same before.

        Args:
            name: of the page.
            before: what it was made from.
        """
        context = self._sheet(name)
        inputs = self._inputs(context)
        if before is not None and inputs is not None and before.inputs == inputs and self._holds(before.links):
            return before, None
        self._asked = {}
        text = self._rendered(context)
        return Laid(inputs, self._asked, sha256(text.encode()).hexdigest()), text

    def _inputs(self, context: Mapping[str, object]) -> str | None:
        """Returns a digest of all that the template reads. Links are apart: see `Laid`.

        None of what has none, and of pages about everything: hardly a change leaves them as they are.
        """
        template = self._template()
        if "/" not in self._here:
            return None
        if template not in self._used:
            self._used[template] = names_of(self._environment, template)
        try:
            read = {name: value for name, value in context.items() if name in self._used[template]}
            return sha256(json.dumps([self._here, read], default=plain_value).encode()).hexdigest()
        except (TypeError, ValueError):
            return None

    def _holds(self, links: Mapping[str, str | None]) -> bool:
        """Returns whether links that a page has asked for lead where they led."""
        return all((self._cell_place(id) if id[:1] == "c" else self._place(id)) == to for id, to in links.items())

    def _sheet(self, name: str) -> dict[str, object]:
        """Returns what the template of a page is given; the page is the one that is laid out from now on."""
        self._here = name
        folder, _, own = name.removesuffix(".html").rpartition("/")
        if folder == "h":
            return self._hypothesis(own)
        if folder == "e":
            return self._experiment(own)
        if folder == "logbook":
            return self._logbook(None if own == "index" else int(own))
        return self._index() if own == "index" else self._experiments()

    # --- links ------------------------------------------------------------------------------------------------------

    def _to(self, name: str, anchor: str = "") -> str:
        """Returns a relative address of a page, as seen from the page that is laid out."""
        to = "" if name == self._here else _up(self._here) + name
        return f"{to}#{anchor}" if anchor or not to else to

    def _href(self, id: str) -> str | None:
        """Returns the address of a hypothesis, an experiment, or a run's row; None where it has none."""
        to = self._asked[id] = self._place(id)
        return to

    def _place(self, id: str) -> str | None:
        if id[:1] == "r":
            of = self._of_run.get(id)
            return None if of is None or of not in self._designs else self._to(f"e/{of}.html", id)
        known = self._hypotheses if id[:1] == "h" else self._designs
        return self._to(f"{id[:1]}/{id}.html") if id in known else None

    def _row_of(self, run: str) -> str | None:
        return self._href(run)

    def _cell_href(self, cell: Cell) -> str | None:
        to = self._asked[f"c{cell.seq}"] = self._cell_place(f"c{cell.seq}")
        return to

    def _cell_place(self, id: str) -> str | None:
        page = self._page_of.get(id)
        return None if page is None else self._to(f"logbook/{page}.html", id)

    # --- pages ------------------------------------------------------------------------------------------------------

    def _laid(self, title: str, pictures: Mapping[str, str] | None = None, **more: object) -> dict[str, object]:
        """Returns what the page's template is given, with pictures by name; an empty one is none."""
        said = {"form": site_form(), "site": self._here}
        if self._here == "index.html":
            from perpetual import __version__

            said |= {
                "version": __version__, "seq": str(self._snapshot.seq), "debits": str(len(self._snapshot.debits))
            }  # fmt: skip
        return {
            **self._facts,
            "title": title,
            "marks": said,
            "nav": [
                _Link("Campaign", self._nav("index.html")),
                _Link("Experiments", self._nav("experiments.html")),
                _Link("Logbook", self._nav("logbook/index.html")),
            ],
            "pictures": {name: Markup(svg) for name, svg in (pictures or {}).items() if svg},
            "unverified": Markup(UNVERIFIED),
            **more,
        }

    def _template(self) -> str:
        folder, own = self._here.rpartition("/")[0], self._here.removesuffix(".html")
        return {"h": "hypothesis", "e": "experiment", "logbook": "logbook"}.get(folder, own) + ".html.j2"

    def _rendered(self, context: Mapping[str, object]) -> str:
        return self._environment.get_template(self._template()).render(context).strip() + "\n"

    def _nav(self, name: str) -> str | None:
        return None if name == self._here else self._to(name)

    def _index(self) -> dict[str, object]:
        order = {"supported": 0, "refuted": 0, "open": 1, "parked": 2}
        verdicts = sorted(
            (item for item in self._verdicts.values() if not item["record"].archived),
            key=lambda item: order[item["record"].status],
        )
        boards, boards_left = self._boards()
        return self._laid(
            self._snapshot.project,
            {"budget": self._budget()},
            ordered=verdicts,
            archived=[item["record"] for item in self._verdicts.values() if item["record"].archived],
            boards=boards,
            boards_left=boards_left,
            newest=[*self._cells[: -_NEWEST - 1 : -1]],
        )  # fmt: skip

    def _budget(self) -> str:
        """Returns what was spent over time: run-hours, or GPU-hours where GPUs were used."""
        settled = [row for row in self._snapshot.debits if row.kind != "reserve"]
        if len(settled) < 2:
            return ""
        is_gpu = any(row.gpu_hours for row in settled)
        began = datetime.fromisoformat(settled[0].created_at)
        hours = [(datetime.fromisoformat(row.created_at) - began).total_seconds() / 3600 for row in settled]
        spent = [*accumulate(row.gpu_hours if is_gpu else row.run_hours for row in settled)]
        across, across_unit = scaled(hours)
        up, up_unit = scaled(spent)
        what = f"{'GPU' if is_gpu else 'run'} time, {up_unit}"
        words = f"{up[-1]:.4g} {up_unit} in {across[-1]:.4g} {across_unit}"
        line = Line("spent", across, up)
        return lines("budget", "What was spent over time", words, [line], (f"since the first end, {across_unit}", what))

    def _boards(self) -> tuple[list[dict[str, object]], int]:
        """Returns the leaderboards, of the metric with the most experiments first, and how many more there are."""
        by_metric: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for facts in self._designs.values():
            design = cast("dict[str, Any]", facts)
            experiment, plain = design["experiment"], design["plain"] or design
            mean = plain.get("mean")
            if mean is not None and design["metric"] and experiment.design.direction and not experiment.archived:
                by_metric[design["metric"], experiment.design.direction].append(
                    {"experiment": experiment, "design": design, "mean": mean, "sd": plain["sd"], "n": plain["n"]}
                )
        boards: list[dict[str, object]] = []
        for (metric, direction), found in sorted(by_metric.items(), key=lambda item: (-len(item[1]), item[0])):
            sign = -1 if direction == "max" else 1
            found.sort(key=lambda line: (sign * line["mean"].value, number_of(line["experiment"].id)))
            boards.append(
                {"metric": metric, "direction": direction, "lines": found[:_BEST], "left": len(found[_BEST:])}
            )
        return boards[:_BOARDS], len(boards[_BOARDS:])

    def _experiments(self) -> dict[str, object]:
        return self._laid("Experiments", designs=[*self._designs.values()][::-1])

    def _logbook(self, number: int | None) -> dict[str, object]:
        last = max(self._page_of.values(), default=0)
        if number is None:
            shown, title = self._cells[-_CELLS:], "Logbook"
            older = last - 1 if len(shown) == _CELLS and last > 1 else None
            newer = None
        else:
            shown, title = self._cells[(number - 1) * _CELLS : number * _CELLS], f"Logbook, page {number}"
            older, newer = (number - 1 or None), (number + 1 if number < last else None)
        return self._laid(
            title,
            cells=[*shown][::-1],
            older=None if older is None else self._to(f"logbook/{older}.html"),
            newer=None if newer is None else self._to(f"logbook/{newer}.html"),
            number=number,
        )

    def _hypothesis(self, id: str) -> dict[str, object]:
        item = self._hypotheses[id]
        pictures: dict[str, str] = {}
        if len(item["steps"]) > 1:
            name = f"confidence-{id}"
            values = [float(step["record"].fold["confidence"]) for step in item["steps"]]
            bounds = [
                (self._snapshot.methodology[f"confidence_{way}_threshold"], word)
                for way, word in (("support", "supported"), ("refute", "refuted"))
            ]
            words = f"from {values[0]:.3f} to {values[-1]:.3f} in {len(values)} steps"
            title = f"Confidence in {id} step by step"
            pictures[name] = steps(name, title, words, values, bounds, "confidence")
        by_metric: dict[str, list[Band]] = {}
        for design in item["designs"]:
            effect = design["drawn"]
            if effect is not None and effect.interval is not None:
                found, label = effect.interval, f"{design['experiment'].id} {design['experiment'].title}"
                by_metric.setdefault(design["metric"] or "value", []).append(
                    Band(label, found.mean, found.low, found.high, effect.points)
                )
        effects = []
        for place, (metric, bands) in enumerate(by_metric.items(), 1):
            name = f"effects-{id}-{place}"
            effects.append(name)
            bands = bands[-_BANDS:]
            words = "; ".join(f"{short(band.name, 30)}: {_band_words(band)}" for band in bands)
            pictures[name] = forest(name, f"Effects of the designs of {id} on {metric}", words, bands, metric)
        # The pictures hold what was drawn; the template does not read it, so it is no part of the page's digest.
        designs = [{**design, "drawn": None} for design in item["designs"]]
        return self._laid(
            f"{id}: {item['record'].statement}", pictures, item={**item, "designs": designs}, effects=effects,
            history=self._about[id][::-1],
        )  # fmt: skip

    def _experiment(self, id: str) -> dict[str, object]:
        design = self._designs[id]
        experiment = design["experiment"]
        runs = self._runs[id]
        artifacts = [{"run": run.id, **item} for run in runs for item in run.artifacts]
        curves = self._curves(id)
        subject = self._hypotheses.get(experiment.hypothesis_id or "")
        causes = cast("Mapping[str, object]", self._facts["causes"])
        picture = "" if curves is None else _curve_picture(id, experiment.title, curves)
        resources = {
            name: value for name, value in asdict(experiment.resources).items() if value and name != "worktree"
        }
        return self._laid(
            f"{id}: {experiment.title}",
            {f"curves-{id}": picture},
            design={**design, "drawn": None},  # which this page does not show
            env=json.dumps(experiment.env, sort_keys=True) if experiment.env else None,
            resources=json.dumps(resources, sort_keys=True) if resources else None,
            rows=[self._rows[run.id] for run in runs],
            versions=[self._versions(run) for run in runs],
            causes={run.id: causes[run.id] for run in runs if run.id in causes},
            artifacts=artifacts[:_ARTIFACTS],
            artifacts_left=len(artifacts[_ARTIFACTS:]),
            curves=curves,
            curve_rows=[] if curves is None else [row(id, each)[1:] for each in curves["summaries"][:CURVE_RUNS]],
            history=self._about[id][::-1],
            statement=None if subject is None else subject["record"].statement,
        )

    def _versions(self, run: Run) -> dict[str, object]:
        """Returns what a run was made of, each version by the beginning of its hash."""
        code = run.versions.get("code") or {}
        return {
            "run": run,
            "tree": str(code.get("tree") or "")[:12] if isinstance(code, Mapping) else "",
            "data": str(run.versions.get("data") or "")[:12],
            "environment": str(run.versions.get("environment") or "")[:12],
        }

    def _curves(self, id: str) -> dict[str, Any] | None:
        """Returns the curves of an experiment's runs as `perpetual curves` answers them; None where there are none."""
        ended = [run for run in self._runs[id] if run.status in ENDED and run.scheduler != ADOPTED]
        if not ended or self._designs[id]["metric"] is None:
            return None
        found = self._read.of(id)
        return None if found is None else cast("dict[str, Any]", self._publisher.value(found))


def _band_words(band: Band) -> str:
    interval = "" if band.low is None or band.high is None else f", between {band.low:.4g} and {band.high:.4g}"
    return f"{band.value:.4g}{interval}"


def _curve_picture(id: str, title: str, curves: Mapping[str, Any]) -> str:
    """Returns the curves of an experiment's runs."""
    series = [Line(each["run"] or each["experiment"], each["steps"], each["values"]) for each in curves["series"]]
    ends = [(each["run"], each["last"]) for each in curves["summaries"][:CURVE_RUNS]]
    words = "; ".join(f"{run}: {'not finite' if last is None else f'{last:.5g}'} at the end" for run, last in ends)
    name = f"{short(curves['metric'], 60)} of {id} {short(title, 60)}"
    return lines(f"curves-{id}", name, words, series, (curves["series"][0]["axis"] or "step", curves["metric"]))


def scaled(hours: Sequence[float]) -> tuple[list[float], str]:
    """Returns durations in the unit that suits the longest, and the unit."""
    longest = max(hours, default=0.0)
    factor, unit = (3600.0, "s") if longest < 1 / 30 else (60.0, "min") if longest < 2 else (1.0, "h")
    return [value * factor for value in hours], unit


def _up(name: str) -> str:
    return "../" * (len(PurePosixPath(name).parts) - 1)


@cache
def site_form() -> str:
    """Returns a hash of all that shapes a page: the same form gives the same page for a record."""
    digest = sha256(form().encode())
    for package, names in (("perpetual_report", ("publishing.py",)), ("perpetual_curves", ("section.py",))):
        for name in names:
            digest.update((files(package) / name).read_bytes())
    for part in sorted(files("perpetual_site").iterdir(), key=lambda part: part.name):
        if part.name.endswith((".py", ".j2", ".css")):
            digest.update(part.name.encode() + b"\0" + part.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
