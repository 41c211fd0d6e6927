"""The report's text: what the lab knows, laid out by the templates beside this file. For the commands and the demo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from perpetual.toolkit.atomic import write_atomic
from perpetual_report import plots
from perpetual_report.content import LIMITS, facts_of
from perpetual_report.numbers import Book, Number, exact
from perpetual_report.pictures import COLOURS, drawn_by, plain, require, short
from perpetual_report.sections import Heading, Picture, Section, Table, sections_of
from perpetual_report.snapshot import Snapshot, take
from perpetual_report.words import cell, code, inline

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.content import DesignFacts, HypothesisFacts

__all__ = [
    "UNVERIFIED",
    "css_of",
    "form",
    "html_of",
    "inline",
    "markdown_of",
    "page_environment",
    "pictures_of",
    "render",
    "render_html",
    "sections_of",
    "write",
    "written",
]

UNVERIFIED = "<!-- From here on nothing is verified: titles of notes may change, and plugins write what they like. -->"
_CAPS = {"verdicts": 1000}  # lines of the tables that are not bounded in the facts: a name and a few numbers each
# what shapes no report
_APART = (
    "cited.py", "command.py", "commits.py", "comparison.py", "findings.py", "moments.py", "plugin.py", "publishing.py",
    "references.py", "site.py", "site_check.py", "tool.py", "verification.py", "vocabulary.py",
)  # fmt: skip


class Written(NamedTuple):
    """A report: its text, and the sections of plugins that it ends with."""

    text: str
    sections: list[Section]


def render(lab: Lab) -> str:
    """Returns the whole report as Markdown.

    Raises:
        PerpetualError: what reading the record raises.
    """
    return written(lab, "md").text


def render_html(lab: Lab) -> str:
    """Returns the whole report as one HTML file that fetches nothing.

    Raises:
        PerpetualError: without matplotlib, which draws its pictures, and what reading the record raises.
    """
    return written(lab, "html").text


def written(lab: Lab, form: str) -> Written:
    """Returns the whole report as `md` or `html`. Raises as `render` and `render_html`."""
    is_page = form == "html"
    if is_page:
        require()
    snapshot = take(lab)
    facts = facts_of(snapshot, Book())
    sections = sections_of(lab, has_pictures=is_page)
    if not is_page:
        return Written(markdown_of(snapshot, facts, sections), sections)
    return Written(html_of(snapshot, facts, pictures_of(snapshot, facts), sections), sections)


def write(path: Path, text: str) -> None:
    """Replaces the file; the folders above it are made. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text, mode=0o644)


# --- Markdown -------------------------------------------------------------------------------------------------------


def markdown_of(snapshot: Snapshot, facts: Mapping[str, object], sections: Sequence[Section] = ()) -> str:
    """Returns the report as Markdown."""
    environment = _environment("perpetual_report", autoescape=False)  # the filters below make user text harmless
    environment.filters |= {"inline": inline, "code": code, "cell": cell}
    environment.finalize = lambda value: "-" if value is None else value
    text = environment.get_template("report.md.j2").render(
        **facts, sections=sections, caps=_CAPS, marks=_marks(snapshot), unverified=UNVERIFIED
    )
    return text.rstrip() + "\n"


def _environment(package: str, *, autoescape: bool) -> Environment:
    return Environment(
        loader=PackageLoader(package, "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=autoescape,
    )


def _marks(snapshot: Snapshot) -> dict[str, object]:
    """Returns what a file says of itself: from these marks it is derived again."""
    from perpetual import __version__

    marks = {"version": __version__, "form": form(), "seq": snapshot.seq, "debits": len(snapshot.debits)}
    return {**marks, "published": "yes"} if snapshot.is_published else marks


@cache
def form() -> str:
    """Returns a hash of all that shapes a report: the same form gives the same words and pictures for a record."""
    digest = sha256()
    for part in sorted(files("perpetual_report").iterdir(), key=lambda part: part.name):
        if part.name.endswith((".py", ".j2")) and part.name not in _APART:
            digest.update(part.name.encode() + b"\0" + part.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


# --- HTML -----------------------------------------------------------------------------------------------------------


def html_of(
    snapshot: Snapshot,
    facts: Mapping[str, object],
    pictures: Mapping[str, str],
    sections: Sequence[Section] = (),
    *,
    by: str | None = None,
) -> str:
    """Returns the report as one HTML file, with these pictures and the name of their renderer (by default, ours)."""
    anchors = cast("set[str]", facts["anchors"])
    environment = page_environment("perpetual_report", lambda run: f"#{run}" if run in anchors else None)
    text = environment.get_template("report.html.j2").render(
        **facts,
        sections=[(section, _laid_out(section)) for section in sections],
        css=Markup(css_of("perpetual_report", "report.css")),
        caps=_CAPS,
        marks={**_marks(snapshot), "pictures": (drawn_by() or "" if pictures else "") if by is None else by},
        unverified=Markup(UNVERIFIED),
        graph=_markup(pictures.get("graph")),
        pictures=_by_place(pictures),
        graph_words=_caption(
            "Each experiment with the hypothesis it tests and the baseline it is compared with.",
            sum(item.design.claim is not None for item in snapshot.experiments),
            plots.NODES,
        ),
        timeline_words=_caption(
            "Runs by experiment, each bar named with how it ended; none of what was adopted, which ran elsewhere.",
            len(plots.drawn_runs(snapshot)),
            plots.BARS,
        ),
    )
    return text.strip() + "\n"


def page_environment(package: str, place: Callable[[str], str | None]) -> Environment:
    """Returns what renders the pages of a package: user text escaped, each number with its source.

    Args:
        package: whose templates they are.
        place: the address of a run's row, by its id; None where a number of that run leads nowhere.
    """
    environment = _environment(package, autoescape=True)
    environment.filters |= {
        "text": lambda value: Markup(f"<bdi>{escape(plain(value))}</bdi>"),
        "line": plain,
        "short": lambda value, length: short(value, length),
        "lines": lambda value: "\n".join(plain(line) for line in str(value).splitlines()),
        "here": lambda value: _shown(value, lambda run: None),  # in its run's own row a number leads nowhere
    }
    environment.finalize = lambda value: _shown(value, place)
    return environment


def _shown(value: object, place: Callable[[str], str | None]) -> object:
    """Returns a number as a `data` element that carries its value and its source, and leads to its run's row."""
    if value is None:
        return "-"
    if not isinstance(value, Number):
        return value
    # Escaped part by part: `Markup.format` takes five times as long, and a report has thousands of numbers.
    source = escape(value.source)
    metric = f' data-metric="{escape(value.metric)}"' if value.metric else ""
    element = (
        f'<data value="{exact(value.value)}" data-key="{escape(value.key)}" data-source="{source}"{metric}>'
        f"{escape(value.text)}</data>"
    )
    run = value.run
    link = None if run is None else place(run)
    return Markup(element if link is None else f'<a href="{escape(link)}" title="{source}">{element}</a>')


def css_of(package: str, name: str) -> str:
    """Returns a style sheet of a package, with the colours of the pictures in the places that it has for them."""
    text = (files(package) / name).read_text("utf-8")
    for place, index in (("light", 0), ("dark", 1)):
        text = text.replace(
            f"/*colours:{place}*/", " ".join(f"--{name}: {pair[index]};" for name, pair in COLOURS.items())
        )
    return text


def pictures_of(snapshot: Snapshot, facts: Mapping[str, object]) -> dict[str, str]:
    """Returns every picture of the report by its name."""
    found: dict[str, str | None] = {"graph": plots.graph("graph", snapshot)}
    bounds = (
        snapshot.methodology["confidence_support_threshold"],
        snapshot.methodology["confidence_refute_threshold"],
    )
    for item in cast("list[HypothesisFacts]", facts["hypotheses"])[: LIMITS["pictured"]]:
        id = item["record"].id
        if len(item["steps"]) > 1:
            name = f"confidence-{id}"
            found[name] = plots.confidence(name, item["record"].statement, item["steps"], bounds)
        by_metric: dict[str, list[DesignFacts]] = {}
        for design in item["designs"]:
            if design["drawn"] is not None and design["drawn"].interval is not None:
                by_metric.setdefault(design["metric"] or "value", []).append(design)
        for number, (metric, designs) in enumerate(by_metric.items(), 1):
            name = f"effects-{id}-{number}"
            found[name] = plots.effects(name, metric, designs)
    if snapshot.debits:
        found["budget"] = plots.budget("budget", snapshot)
    found["timeline"] = plots.timeline("timeline", snapshot)
    return {name: svg for name, svg in found.items() if svg is not None}


def _by_place(pictures: Mapping[str, str]) -> dict[str, object]:
    """Returns the pictures as the template asks for them; those of effects as a list for each hypothesis."""
    made: dict[str, Any] = _Missing()
    for name, svg in pictures.items():
        if name.startswith("effects-"):
            made.setdefault(name.rpartition("-")[0], []).append(_markup(svg))
        else:
            made[name] = _markup(svg)
    return made


def _laid_out(section: Section) -> list[tuple[str, Any]]:
    """Returns the parts of a section as the template walks them: the sort, and what it holds."""
    found: list[tuple[str, Any]] = []
    for part, svg in zip(section.parts or (), section.pictures, strict=True):
        if isinstance(part, Picture):
            found += [("picture", (_markup(svg), part.caption))] if svg is not None else []
        else:
            found.append(("table" if isinstance(part, Table) else "heading" if isinstance(part, Heading) else "words",
                          part))  # fmt: skip
    return found


class _Missing(dict[str, Any]):
    """None for a picture that there is not: StrictUndefined is for slips of the template, and this is none."""

    def __missing__(self, key: str) -> None:
        return None


def _markup(svg: str | None) -> Markup | None:
    return None if svg is None else Markup(svg)


def _caption(words: str, count: int, most: int) -> str:
    """Returns what a picture shows, and how much of it is left out."""
    return words if count <= most else f"{words} The newest {most} are drawn; {count - most} older ones are left out."
