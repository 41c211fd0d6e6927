"""The page: one file that fetches nothing, in which user text is text, every number has a source, and links lead."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual.cli.app import run
from perpetual.lab.evidence.confidence import designs_of, rows_of
from perpetual.lab.evidence.confidence import effects_of as lab_effects_of
from perpetual.lab.kinds import HYPOTHESIS
from perpetual_report import content
from perpetual_report.document import markdown_of, render, render_html
from perpetual_report.effects import effects_of
from perpetual_report.numbers import Book, Number
from perpetual_report.pictures import COLOURS
from perpetual_report.snapshot import take

_VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """What stands in a page; a tag that is left open, or closed twice, fails."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        """The attributes of each of these tags."""
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def text(campaign: Path) -> str:
    """The campaign's page."""
    with Lab.open(campaign) as lab:
        return render_html(lab)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    """The same, read."""
    return Page(text)


def test_the_html_is_one_file_that_fetches_and_runs_nothing(page: Page, text: str) -> None:
    policy = next(item["content"] for item in page.all("meta") if item.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "script" not in policy
    assert {"script", "link", "img", "iframe", "object", "embed", "base", "form"}.isdisjoint(
        tag for tag, _ in page.tags
    )
    outside = [
        (tag, name, value)
        for tag, attributes in page.tags
        for name, value in attributes.items()
        if name.startswith("on") or (name in ("href", "src", "xlink:href", "action") and not value.startswith("#"))
    ]
    assert outside == []
    assert re.findall(r"url\((?!#)", text) == []
    assert "@import" not in text


def test_user_text_is_text(page: Page, text: str) -> None:
    words = "".join(page.words)
    assert (
        'a | b <script>alert(1)</script> "quoted" & `code` # **x** $y_1$ \\u202eturned \\x1b[31m'.replace(
            "\\x1b", "\\u001b"
        )
        in words
    )
    assert "a paper <img src=x> says so" in words
    assert "<i>study</i>" in words
    assert "\u202e" not in text
    assert "\x1b" not in text


def test_every_number_says_what_it_is_and_where_it_comes_from(page: Page) -> None:
    numbers = page.all("data")
    assert len(numbers) > 100
    for number in numbers:
        assert float(number["value"]) == float(number["value"])
        assert re.fullmatch(r"[\w.:/+-]+", number["data-key"]), number
        assert re.fullmatch(r"(r\d+(/[\w.]+:\d+)?|v\d+|e\d+|(h\d+|e\d+|budget|record|methodology)@\d+)",
                            number["data-source"]), number  # fmt: skip
    assert {"h1.confidence", "budget.spent_gpu_hours", "discoveries.k", "v1.value"} <= {n["data-key"] for n in numbers}


def test_links_lead_somewhere_and_measured_values_to_their_run(page: Page, text: str) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    targets = {item["href"].removeprefix("#") for item in page.all("a")}
    assert targets <= set(ids)
    for name in targets:
        assert ids.count(name) == 1, name
    assert re.search(r'<a href="#r4" title="r4/stdout\.log:2"><data value="[\d.]+" data-key="v1\.value"', text)


def test_a_picture_has_words_and_no_colour_of_its_own(page: Page, text: str) -> None:
    pictures = re.findall(r"<svg .*?</svg>", text, re.S)
    assert [re.search(r'data-picture="([^"]+)"', picture)[1] for picture in pictures] == [  # type: ignore[index]
        "graph", "confidence-h1", "effects-h1-1", "confidence-h2", "effects-h2-1", "budget", "timeline",
    ]  # fmt: skip
    for picture in pictures:
        root = ET.fromstring(picture)
        title, description = root.find("{*}title"), root.find("{*}desc")
        assert title is not None
        assert description is not None
        assert title.text
        assert description.text
        assert (root.get("role"), root.get("aria-labelledby")) == ("img", f"{title.get('id')} {description.get('id')}")
        plain = re.sub(r"var\(--\w+, #\w{6}\)", "", picture)
        assert set(re.findall(r"#[0-9a-f]{6}\b", plain)) <= {"#000000", "#ffffff"}
        assert "<text" in picture
    for name in COLOURS:
        assert text.count(f"--{name}:") == 3  # on light, on dark, in print


def test_dead_ends_and_what_was_taken_back_are_shown(page: Page) -> None:
    words = " ".join("".join(page.words).split())
    assert "no_metric: loss was not found" in words
    assert "exit code 3" in words
    assert "it read the wrong file" in words
    assert "one run, no interval" in words
    assert "`improves`" not in words, "no marks of Markdown"
    assert "nobody tried" in words


@pytest.mark.slow
def test_the_same_record_gives_the_same_bytes(lab: Lab, text: str) -> None:
    assert render_html(lab) == text


def test_an_empty_project_has_a_page(project: Path) -> None:
    with Lab.open() as lab:
        empty = render_html(lab)
    assert "There is no hypothesis yet." in empty
    assert "<svg" not in empty
    Page(empty)


def test_html_names_the_way_out_without_matplotlib(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from perpetual.cli.app import run\n"
        "assert run(['report', '-o', 'report.md']) == 0\n"
        "assert run(['verify', 'report.md']) == 0\n"
        "sys.exit(run(['report', '--format', 'html']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "matplotlib, which is not installed" in done.stderr
    assert "pip install 'perpetual-lab[report]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_page_verifies_without_matplotlib_and_says_what_it_did_not_look_at(study: Path) -> None:
    assert run(["report", "--format", "html", "-o", "report.html"]) == 0
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from perpetual.cli.app import run\n"
        "sys.exit(run(['verify', 'report.html']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout
    assert "the pictures are not checked: matplotlib is not installed" in done.stdout


@pytest.mark.slow
def test_lists_are_bounded_and_say_what_they_leave_out(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"hypotheses": 2, "pictured": 1, "designs": 1, "rows": 2, "steps": 2, "runs": 3, "list": 1, "metrics": 1}
    monkeypatch.setattr(content, "LIMITS", content.LIMITS | small)
    page = Page(render_html(lab))
    words = " ".join("".join(page.words).split())
    for left in (
        "and 2 more hypotheses", "and 1 more experiment,", "and 1 more row,", "earlier steps", "more older runs",
        "1 of these hypotheses has tables and no pictures",
    ):  # fmt: skip
        assert left in words
    targets = {item["href"].removeprefix("#") for item in page.all("a")}
    assert targets <= {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert "older runs." in render(lab)


@pytest.mark.slow
def test_plugin_sections_come_behind_the_mark(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def section(_: Lab) -> str:
        return "carbon: 3 kg <script>"

    def broken(_: Lab) -> str:
        raise ValueError("no scales")

    monkeypatch.setattr(lab, "parts", lambda slot: [("acme/carbon", section), ("acme/broken", broken)])
    page, text = render_html(lab), render(lab)
    assert "carbon: 3 kg &lt;script&gt;" in page.partition("From here on nothing is verified")[2]
    assert "carbon: 3 kg <script>" in text.partition("From here on nothing is verified")[2]
    assert "The section of acme/broken failed: no scales" in text


def test_intervals_are_those_of_the_design(lab: Lab) -> None:
    snapshot = take(lab)
    effects = effects_of(snapshot)
    three, one = effects["e2"], effects["e3"]
    assert three.interval is not None
    assert three.interval.low is not None
    assert three.interval.high is not None
    assert three.interval.mean == pytest.approx(sum(three.points) / 3)
    assert three.how == "95 % at every look, of both arms and of their pairs by seed"
    folded = lab_effects_of(lab.context, "h1")["e2"]
    assert (folded["value"], folded["low"], folded["high"]) == pytest.approx(three.interval[1:2] + three.interval[3:5])
    values = [row.value for row in three.rows if row.value is not None]
    mean, base = sum(values) / 3, sum(three.baseline) / 3
    squares = sum((value - mean) ** 2 for value in values) + sum((value - base) ** 2 for value in three.baseline)
    reach = 2.776445105 * (squares / 4 * (1 / 3 + 1 / 3)) ** 0.5  # Student's, right at a single look only
    assert three.interval.mean == pytest.approx(base - mean)
    assert three.interval.low < base - mean - reach < base - mean + reach < three.interval.high
    assert one.interval is not None
    assert (one.interval.low, one.how) == (None, "one run, no interval")
    assert effects["e4"].rows == tuple(row for row in snapshot.evidence if row.id == "v6")  # v5 was taken back


def test_a_key_is_one_number() -> None:
    book = Book()
    assert book.number("x", 1.0, "r1", form="g") == Number("x", 1.0, "1", "r1")
    assert book.number("y", None, "r1") is None
    with pytest.raises(AssertionError):
        book.number("x", 2.0, "r1", form="g")


def test_markdown_and_page_hold_the_same_verdicts(lab: Lab, text: str) -> None:
    snapshot = take(lab)
    book = Book()
    markdown = markdown_of(snapshot, content.facts_of(snapshot, book))
    for hypothesis in snapshot.hypotheses:
        shown = book.numbers[f"{hypothesis.id}.confidence"].text
        assert f"**{hypothesis.status}** | {shown} |" in markdown
        assert f'data-key="{hypothesis.id}.confidence" data-source="{hypothesis.id}@{snapshot.seq}">{shown}<' in text


def test_pictures_need_what_draws_them(monkeypatch: pytest.MonkeyPatch, lab: Lab) -> None:
    monkeypatch.setattr("perpetual_report.pictures.find_spec", lambda name: None)
    with pytest.raises(PerpetualError) as caught:
        render_html(lab)
    assert caught.value.exit == 1


def test_experiments_that_share_a_command_are_pooled_as_the_fold_pools_them(lab: Lab) -> None:
    """Asked again with another mde under another title: one design, under the prediction that was measured first."""
    command = lab.experiments.get("e3").command
    again = lab.experiments.propose(
        "h1", command=command, title="asked again", metric="loss", direction="min", mde=0.2, baseline="e1",
        replicates=2, cost_run_hours=0.001, paired=False,
    )  # fmt: skip
    lab.experiments.approve(again.id)
    lab.wait([started.id for started in lab.runs.launch(again.id, every=True)], timeout_s=60)
    snapshot = take(lab)
    effects = effects_of(snapshot)
    assert again.id not in effects
    pooled = effects["e3"]
    assert pooled.members == ("e3", again.id)
    rows = [row for row in snapshot.evidence if row.experiment_id in ("e3", again.id)]
    assert pooled.rows == tuple(rows)
    assert len(rows) == 3
    assert pooled.interval is not None
    assert pooled.interval.n == 3
    ctx = lab.context
    designs, counted, _ = designs_of(ctx, ctx.need(HYPOTHESIS, "h1"), rows_of(ctx, "h1"))
    assert set(designs) == {"e2", "e3"}
    folded = [row["value"] for row in counted if row.get("design_id") == "e3"]
    assert pooled.points == pytest.approx(folded)  # what the evidence was folded from is what is drawn
    words = " ".join("".join(Page(render_html(lab)).words).split())
    assert f"The same command and settings as {again.id}: one design, its runs pooled here." in words
    assert "What is predicted here came after it was measured, and the prediction of e3 holds." in words
    assert "the prediction of e3 holds" in render(lab)


def test_a_hypothesis_has_one_line_of_the_design_with_the_most_runs(lab: Lab) -> None:
    told: Any = content.facts_of(take(lab), Book())["verdicts"]
    first = told[0]["headline"]
    assert (first["id"], str(first["others"])) == ("e2", "1")  # three runs; e3 has one and the larger effect or not
    shown = lab.hypotheses.get("h1").effect  # of both, which share a baseline and so count as one arm
    assert shown is not None
    assert [first[name].value for name in ("effect", "low", "high")] == [
        shown[name] for name in ("value", "low", "high")
    ]
    assert told[-1]["headline"] is None


@pytest.mark.parametrize(
    ("value", "form", "said"),
    [(408955.4, ".5g", "408955"), (7092.0, ".3g", "7092"), (-0.0004, "+.2f", "0.00"), (2.5e12, ".3g", "2.5e+12"),
     (0.0, "+.3f", "0.000"), (-3.68, "+.2f", "-3.68")],
)  # fmt: skip
def test_numbers_are_written_as_people_write_them(value: float, form: str, said: str) -> None:
    number = Book().number("x", value, "r1", form=form)
    assert number is not None
    assert number.text == said


def _luminance(shade: str) -> float:
    parts = [int(shade[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize(("column", "papers"), [(0, ("#ffffff", "#f6f7f9")), (1, ("#14181d", "#1c2229"))])
def test_text_and_drawings_have_enough_contrast(text: str, column: int, papers: tuple[str, str]) -> None:
    """WCAG 2.1 AA: 4.5 to 1 for words, 3 to 1 for marks; lines of a grid carry nothing."""
    for paper in papers:
        assert paper in text
        for name, shades in COLOURS.items():
            lighter, darker = sorted((_luminance(shades[column]), _luminance(paper)), reverse=True)
            needed = {"grid": 1.0, "grey": 3.0}.get(name, 4.5)
            assert (lighter + 0.05) / (darker + 0.05) >= needed, (name, paper)


def test_each_part_has_a_label_for_screen_readers(page: Page) -> None:
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(headings))
    assert {item.get("scope") for item in page.all("th")} == {"col"}
    for region in page.all("div"):
        if "tabindex" in region:  # what is scrolled by keys has a name
            assert region["role"] in ("region", "group")
            assert region["aria-label"]
    assert next(item["href"] for item in page.all("a")) == "#verdicts"  # the first thing that a key reaches
