"""`verify` finds every number that was changed, in the file, the record or a log; and nothing where all is well."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.document import UNVERIFIED, render, render_html
from perpetual_report.snapshot import take
from perpetual_report.verification import claims_of, derive, differences, rounds, verify

_DIGIT = re.compile(r"\d")


def other(digit: str) -> str:
    """Another digit."""
    return "7" if digit == "3" else "3"


def changed(text: str, place: int) -> str:
    """The text with the digit at `place` replaced."""
    return text[:place] + other(text[place]) + text[place + 1 :]


@pytest.fixture(scope="module")
def page(campaign: Path) -> str:
    """The campaign's page."""
    with Lab.open(campaign) as lab:
        return render_html(lab)


@pytest.fixture(scope="module")
def markdown(campaign: Path) -> str:
    """The campaign's Markdown."""
    with Lab.open(campaign) as lab:
        return render(lab)


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """A command's exit status and document."""
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


# --- the file -------------------------------------------------------------------------------------------------------


_NUMBER = re.compile(r'<data value="([^"]*)" data-key="([^"]*)" data-source="([^"]*)"[^>]*>([^<]*)<')


@pytest.mark.slow
@pytest.mark.parametrize(("part", "what"), [(1, "value"), (3, "source"), (4, "words")])
def test_each_number_of_the_page_is_held_to_the_record(campaign: Path, page: str, part: int, what: str) -> None:
    """Every number of the page at once has a digit of its value, its source or its words changed."""
    wanted = set()

    def spoil(found: re.Match[str]) -> str:
        digit = _DIGIT.search(found[part])
        assert digit is not None, found[0]
        wanted.add(found[2])
        return changed(found[0], found.start(part) - found.start() + digit.start())

    claims = claims_of(_NUMBER.sub(spoil, page), what)
    with Lab.open(campaign) as lab:
        derived = derive(lab, claims_of(page, "page"))
    assert len(wanted) > 100
    assert wanted <= {problem.number for problem in differences(claims, derived)}


_FEW_AND_MANY = pytest.mark.parametrize(
    "count", [5, pytest.param(100, marks=pytest.mark.slow), pytest.param(400, marks=pytest.mark.soak)]
)


@_FEW_AND_MANY
def test_any_digit_of_any_number_of_the_page_that_is_changed_is_found(campaign: Path, page: str, count: int) -> None:
    with Lab.open(campaign) as lab:
        derived = derive(lab, claims_of(page, "page"))
    assert differences(claims_of(page, "page"), derived) == []
    places = [
        found.start(part) + digit.start()
        for found in _NUMBER.finditer(page)
        for part in (1, 2, 3, 4)
        for digit in _DIGIT.finditer(found[part])
    ]
    assert len(places) > 1000
    for place in sample(places, count):
        assert differences(claims_of(changed(page, place), "page"), derived), page[place - 60 : place + 20]


def sample(places: list[int], count: int) -> list[int]:
    """Some of the places, evenly, others with each version of the page."""
    step = max(1, len(places) // count)
    return places[len(places) % step :: step]


@pytest.mark.slow
@_FEW_AND_MANY
def test_any_digit_of_the_words_and_pictures_of_the_page_is_found(campaign: Path, page: str, count: int) -> None:
    start, end = page.index("<header>"), page.index(UNVERIFIED)
    shown = [
        found.start() + digit.start()
        for found in re.finditer(r">[^<]+<", page[start:end])
        for digit in _DIGIT.finditer(re.sub(r"&#\d+;", lambda entity: "&" * len(entity[0]), found[0]))
    ]
    assert len(shown) > 300
    with Lab.open(campaign) as lab:
        derived = derive(lab, claims_of(page, "page"))
        for place in sample(shown, count):
            edited = changed(page, start + place)
            assert differences(claims_of(edited, "page"), derived), page[start + place - 60 : start + place + 20]


@_FEW_AND_MANY
def test_any_digit_of_the_markdown_that_is_changed_is_found(campaign: Path, markdown: str, count: int) -> None:
    places = [found.start() for found in _DIGIT.finditer(markdown.partition("<!-- perpetual report")[0])]
    assert len(places) > 500
    with Lab.open(campaign) as lab:
        derived = derive(lab, claims_of(markdown, "report"))
        assert differences(claims_of(markdown, "report"), derived) == []
        for place in sample(places, count):
            edited = changed(markdown, place)
            assert differences(claims_of(edited, "report"), derived), markdown[place - 40 : place + 20]


@pytest.mark.slow
def test_verify_names_the_changed_number(study: Path, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("report.html").write_text(page)
    code, answer = asked(capsys, "verify", "report.html")
    assert (code, answer["ok"], answer["problems"], answer["notes"]) == (0, True, [], [])
    assert (answer["schema"], answer["format"], answer["pictures"]) == ("perpetual.verification/1", "html", 7)
    assert answer["checked"] > 100
    assert answer["logs"] == 10
    found = re.search(r'data-key="h2\.confidence" data-source="[^"]*">([\d.]+)<', page)
    assert found is not None
    edited = page.replace(found[0], found[0].replace(f">{found[1]}<", ">0.999<"), 1)
    Path("report.html").write_text(edited)
    code, answer = asked(capsys, "verify", "report.html")
    assert code == 1
    (problem,) = answer["problems"]
    assert problem["number"] == "h2.confidence"
    assert (problem["claimed"], problem["found"]) == ("0.999", found[1])
    assert problem["source"].startswith("h2@")
    line = int(problem["where"].removeprefix("line "))
    assert ">0.999<" in edited.splitlines()[line - 1]
    assert run(["verify", "report.html"]) == 1
    assert "h2.confidence (line " in capsys.readouterr().out


@pytest.mark.parametrize("name", ["report.html", "report.md"])
def test_a_verdict_that_was_turned_is_found(lab: Lab, study: Path, page: str, markdown: str, name: str) -> None:
    text = page if name.endswith("html") else markdown
    Path(name).write_text(text.replace("supported", "refuted"))
    assert any(problem["claimed"].strip("*") == "refuted" for problem in verify(lab, Path(name))["problems"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("element", "number"),
    [
        ('<data value="3">3</data>', "without a key"),
        ('<data value="3" data-key="h1.luck" data-source="h1@9">3</data>', "h1.luck"),
    ],
)
def test_a_number_without_a_source_is_a_problem(lab: Lab, page: str, element: str, number: str) -> None:
    claims = claims_of(page.replace("</header>", element + "</header>"), "page")
    assert number in {problem.number for problem in differences(claims, derive(lab, claims))}


@pytest.mark.slow
def test_a_number_or_a_picture_that_was_taken_out_is_a_problem(lab: Lab, page: str) -> None:
    without = re.sub(r"<svg [^>]*data-picture=\"timeline\".*?</svg>", "", page, flags=re.S)
    without = re.sub(r'<data [^>]*data-key="e3\.mean"[^>]*>[^<]*</data>', "", without)
    claims = claims_of(without, "page")
    found = {problem.number: problem.where for problem in differences(claims, derive(lab, claims))}
    assert found.pop("e3.mean") == found.pop("picture timeline") == "left out of the file"
    assert set(found.values()) <= {"left out of the file"}  # the picture's caption


def test_the_state_of_the_file_is_one_of_its_claims(lab: Lab, study: Path, markdown: str) -> None:
    found = re.search(r"seq (\d+), debits (\d+), form \w+ -->", markdown)
    assert found is not None
    for state in (int(found[1]) - 1, 3, int(found[1]) + 100):
        Path("report.md").write_text(markdown.replace(found[0], found[0].replace(f"seq {found[1]}", f"seq {state}")))
        assert not verify(lab, Path("report.md"))["ok"], state
    Path("report.md").write_text(markdown.replace(found[0], found[0].replace(f"debits {found[2]}", "debits 4")))
    assert "debits" in {problem["number"] for problem in verify(lab, Path("report.md"))["problems"]}


def test_the_json_of_a_report_is_a_report(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "--json"]) == 0
    text = capsys.readouterr().out
    Path("report.json").write_text(text)
    assert asked(capsys, "verify", "report.json")[0] == 0
    document = json.loads(text)
    document["text"] = document["text"].replace("| v1 | 1.", "| v1 | 2.")
    Path("report.json").write_text(json.dumps(document))
    code, answer = asked(capsys, "verify", "report.json")
    assert code == 1
    assert answer["problems"][0]["claimed"].startswith("2.")


@pytest.mark.parametrize("text", ["", "# a title\n", "{", '{"schema": "perpetual.run/1"}', "<!doctype html>\n<p>1"])
def test_verify_refuses_another_file_with_exit_2(study: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    Path("file").write_text(text)
    code, answer = asked(capsys, "verify", "file")
    assert (code, answer["error"]["code"]) == (2, "usage")


# --- the record -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_later_events_do_not_matter(lab: Lab, study: Path, page: str, markdown: str) -> None:
    Path("report.html").write_text(page)
    Path("report.md").write_text(markdown)
    lab.evidence.add("h1", verdict="refutes", why="later")
    lab.evidence.retract("v1", why="later")
    lab.hypotheses.update("h4", statement="nobody tried 99 times", prior=0.7)
    lab.hypotheses.add("a 5th claim", metric="loss", direction="min", mde=0.1, baseline="e1")
    lab.settings.set_methodology("confidence_support_threshold", "0.9")
    lab.budget.set_limit(7.0)
    more = lab.experiments.propose("h1", command="sh -c 'echo loss=9.5'", title="later 42", replicates=1)
    lab.experiments.approve(more.id)
    lab.wait([lab.runs.launch(more.id)[0].id], timeout_s=60)
    for name in ("report.html", "report.md"):
        found = verify(lab, Path(name))
        assert found["problems"] == [], name
    Path("now.html").write_text(render_html(lab))
    assert verify(lab, Path("now.html"))["ok"]


@pytest.mark.slow
def test_a_run_that_went_on_is_compared_as_it_was(project: Path) -> None:
    with Lab.open() as lab:
        claim = lab.hypotheses.add("it ends", metric="loss", direction="min", mde=0.1, baseline=1.0)
        trial = lab.experiments.propose(claim.id, command="sh -c 'echo loss=0.5; read line < gate'", replicates=1)
        (project / "gate").unlink(missing_ok=True)
        import os

        os.mkfifo(project / "gate")
        lab.experiments.approve(trial.id)
        started = lab.runs.launch(trial.id)[0]
        Path("report.md").write_text(render(lab))
        assert verify(lab, Path("report.md"))["problems"] == []
        (project / "gate").write_text("go\n")
        assert lab.wait([started.id], timeout_s=60) == {"r1": "done"}
        assert verify(lab, Path("report.md"))["problems"] == []


@pytest.mark.slow
def test_a_changed_record_is_found(lab: Lab, study: Path, page: str) -> None:
    Path("report.html").write_text(page)
    store = lab.context.store
    with store.transaction() as tx:
        run = tx.get("run", "r1")
        assert run is not None
        tx.put("run", "r1", {**run.body, "metrics": {**run.body["metrics"], "loss": 2.5}})
    found = {problem["number"] for problem in verify(lab, Path("report.html"))["problems"]}
    assert {"r1.metrics.loss", "h1.confidence", "e2.effect", "e2.baseline_mean"} <= found


# --- the logs -------------------------------------------------------------------------------------------------------


def test_a_changed_log_is_found(lab: Lab, study: Path, markdown: str) -> None:
    Path("report.md").write_text(markdown)
    log = study / ".perpetual" / "runs" / "r4" / "stdout.log"
    before = log.read_text()
    log.write_text(re.sub(r"^loss=1", "loss=0", before, flags=re.M))
    problems = verify(lab, Path("report.md"))["problems"]
    row = next(row.id for row in lab.evidence.list(hypothesis_id="h1").items if row.run_id == "r4")
    assert {f"{row}.value", "r4.metrics.loss"} == {problem["number"] for problem in problems}
    assert all(problem["found"].startswith("0.") for problem in problems)
    log.write_text("one more line\n" + before)
    problems = verify(lab, Path("report.md"))["problems"]
    assert {problem["found"] for problem in problems} == {"r4/stdout.log:3"}


def test_a_log_that_is_gone_is_found(lab: Lab, study: Path, page: str) -> None:
    Path("report.html").write_text(page)
    (study / ".perpetual" / "runs" / "r5" / "stdout.log").unlink()
    problems = verify(lab, Path("report.html"))["problems"]
    row = next(row.id for row in lab.evidence.list(hypothesis_id="h1").items if row.run_id == "r5")
    assert {problem["number"] for problem in problems} == {f"{row}.value", "r5.metrics.loss", "r5.metrics.steps"}
    assert {problem["found"] for problem in problems} == {"the source is gone"}


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False], ids=["a feed that says what was", "an old feed, which does not"])
def test_thresholds_that_were_set_later_do_not_turn_what_was_written(
    lab: Lab, study: Path, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """A report is held to the thresholds of its own time, and a new one shows the verdicts of today."""
    written = study / "before.html"
    written.write_text(render_html(lab))
    if not told:
        emit = type(lab.context).emit

        def old(self: Any, tx: Any, kind: str, subject: str, payload: dict[str, Any]) -> Any:
            kept = {key: value for key, value in payload.items() if key != "was"}
            return emit(self, tx, kind, subject, kept)

        monkeypatch.setattr(type(lab.context), "emit", old)
        lab.settings.set_methodology("alpha", "0.1")  # as it stands: an old feed knows what was set and no more
        written.write_text(render_html(lab))
    before = lab.hypotheses.get("h1").status
    lab.settings.set_methodology("min_replicates", "50")
    lab.settings.set_methodology("alpha", "0.001")
    lab.settings.set_methodology("min_replicates", "60")
    assert verify(lab, written)["problems"] == []
    now = lab.hypotheses.get("h1")
    assert (before, now.status) == ("supported", "open")
    found = next(item for item in take(lab).hypotheses if item.id == "h1")
    assert (found.status, found.flags) == (now.status, now.flags)


def test_a_report_in_another_form_is_held_to_its_values(lab: Lab, study: Path, page: str, markdown: str) -> None:
    """A perpetual that words or rounds otherwise wrote it: that is no difference, and a changed digit is one."""
    number = next(found for found in _NUMBER.finditer(page) if found[2] == "h1.confidence")
    assert '<meta name="perpetual-form"' in page
    other_form = page.replace('<meta name="perpetual-form" content="', '<meta name="perpetual-form" content="0')
    longer = f">{float(number[1]):.7f}<"
    worded = other_form.replace("Skip to the verdicts", "To the verdicts").replace(f">{number[4]}<", longer, 1)
    written = study / "other.html"
    written.write_text(worded)
    found = verify(lab, written)
    assert found["problems"] == []
    assert "in another form: only the values" in found["notes"][0]
    written.write_text(worded.replace(longer, f">{1 - float(number[1]):.7f}<", 1))
    assert [problem["number"] for problem in verify(lab, written)["problems"]] == ["h1.confidence"]
    value = f'value="{number[1]}" data-key="h1.confidence"'
    assert value in worded
    written.write_text(worded.replace(value, 'value="0.123" data-key="h1.confidence"'))
    assert {problem["number"] for problem in verify(lab, written)["problems"]} == {"h1.confidence"}
    text = study / "other.md"
    text.write_text(re.sub(r", form \w+ -->", " -->", markdown))
    found = verify(lab, text)
    assert (found["ok"], found["checked"]) == (True, 0)
    assert found["logs"] > 0
    assert "no number of it" in found["notes"][0]


@pytest.mark.parametrize(
    ("words", "value", "fits"),
    [("0.986", "0.98612", True), ("0.987", "0.98612", False), ("3.9 s", "0.001085", True), ("4.1 s", "0.001085", False),
     ("2.50 h", "2.503", True), ("7092", "7092.31", True), ("1.2e+12", "1.23e12", True), ("+0.00", "-0.004", True),
     ("-", "1", False), ("0.5", "nonsense", False)],
)  # fmt: skip
def test_words_are_a_rounding_of_their_value_or_not(words: str, value: str, fits: bool) -> None:
    assert rounds(words, value) is fits


def test_a_pipe_is_not_waited_on(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo("pipe.md")
    assert run(["verify", "pipe.md"]) == 2
    assert "pipe.md is no regular file" in capsys.readouterr().err
