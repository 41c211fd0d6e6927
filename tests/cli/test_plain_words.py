"""What people read: one vocabulary, explained; numbers that agree with their nouns; states and steps in plain words."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit.claims import WORDS
from perpetual_cli.words import STATES

ROOT = Path(__file__).parents[2]
CLAIM = ("--metric", "m", "--direction", "max", "--mde", "0.5")
Text = Callable[..., str]


@pytest.fixture
def text(project: Path, capsys: pytest.CaptureFixture[str]) -> Text:
    """Runs one command for people and answers its standard output."""

    def run_text(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run(arguments) == code, capsys.readouterr()
        return capsys.readouterr().out

    return run_text


@pytest.fixture
def decided(project: Path, text: Text) -> Text:
    """A project with a refuted hypothesis h1, measured by three runs of e1 against a number."""
    text("hypotheses", "add", "it raises m", *CLAIM, "--baseline", "1")
    text("propose", "-h", "h1", "--command", "sh -c 'echo m=0.1$PERPETUAL_SEED'", "--replicates", "3", "--noise", "0.1")
    text("approve", "e1")
    text("run", "e1", "--all", "--wait")
    return text


# --- one vocabulary ----------------------------------------------------------------------------------------------


def test_a_claim_is_a_sentence_with_the_smallest_effect_worth_having(text: Text) -> None:
    said = text("hypotheses", "add", "it raises m", *CLAIM, "--baseline", "1")
    assert "  predicts: m higher than 1 (planned for 0.5, the smallest effect worth having)\n" in said
    assert "weighed" not in said
    assert re.search(r"--mde FLOAT +The smallest effect worth having", text("hypotheses", "add", "--help"))


@pytest.mark.slow
def test_a_verdict_comes_before_its_numbers_and_each_word_is_explained(decided: Text) -> None:
    shown = decided("hypotheses", "show", "h1")
    assert shown.startswith("h1  refuted  confidence 0.")
    assert re.search(
        r"\n  effect: -0\.\d+ m \(worse\), interval -\d\.\d+ to -0\.\d+, -0\.\d+ shrunk; 3 runs against 1\n", shown
    )
    for word in ("refuted", "confidence", "effect", "interval", "shrunk", "evidence", "false-alarm bound"):
        assert f"\n  {word}: {WORDS[word]}\n" in shown + "\n"
    assert "e-values" not in shown
    assert "e-values: " in decided("hypotheses", "show", "h1", "--verbose")


def test_a_word_that_is_not_used_is_not_explained(text: Text) -> None:
    text("hypotheses", "add", "it is so")
    assert "interval" not in text("hypotheses", "show", "h1")
    text("hypotheses", "update", "h1", "--status", "refuted", "--why", "no")
    shown = text("hypotheses", "show", "h1")
    assert shown.startswith("h1  refuted (by person)")
    assert f"refuted: {WORDS['refuted']}" not in shown  # nothing was tested


@pytest.mark.slow
def test_the_report_explains_the_same_words(decided: Text, project: Path) -> None:
    from perpetual_report.document import render, render_html

    with Lab.open(project) as lab:
        written, page = render(lab), render_html(lab)
    for word, said in WORDS.items():
        assert f"- *{word}*: {said}\n" in written
        assert f"<li><em>{word}</em>: {said.replace('`', '')}</li>" in page
    assert "Predicted: m higher than 1, planned for 0.5 (the smallest effect worth having)." in written
    assert "weighed:" not in written + page


def test_the_glossary_has_the_same_words() -> None:
    page = (ROOT / "docs" / "concepts.md").read_text("utf-8")
    for word, said in (WORDS | STATES).items():
        assert f"| {word} | {said} |" in page


# --- nats and scores where there is a choice ---------------------------------------------------------------------


@pytest.mark.slow
def test_nats_and_scores_are_shown_on_request(decided: Text) -> None:
    assert "nats" not in decided("evidence", "list")
    assert "against" in decided("evidence", "list")
    weights = decided("evidence", "list", "--verbose")
    assert "nats: how far a row moved the log odds" in weights
    assert f"evidence: {WORDS['evidence']}" in weights
    assert "bits" not in decided("experiments") + decided("experiments", "e1")
    assert "bits/run-hour" in decided("experiments", "--verbose")
    assert "bits per run-hour" in decided("experiments", "e1", "--verbose")


def test_a_proposal_is_not_rebuked(text: Text) -> None:
    assert "score" not in text("propose", "--command", "true")
    assert "score: none: a baseline" in text("propose", "--command", "false", "--verbose")
    assert "score" not in text("propose", "--command", "true x", "--dry-run")


# --- states and numbers ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_states_of_experiments_are_explained_where_they_are_shown(decided: Text) -> None:
    decided("propose", "--command", "true")
    listed = decided("experiments")
    assert "\nanalysed: all its runs have ended and were weighed\n" in listed
    assert "\nproposed: waits for approval\n" in listed
    assert "active:" not in listed  # none is
    assert decided("experiments", "e1").startswith("e1  analysed  of h1 (all its runs have ended and were weighed)\n")
    assert decided("experiments", "e2").startswith("e2  proposed (waits for approval)\n")


def test_numbers_agree_with_their_nouns(text: Text) -> None:
    text("hypotheses", "add", "it is so")
    text("evidence", "add", "h1", "--verdict", "supports", "--why", "said so")
    assert "evidence: 1 row;" in text("hypotheses", "show", "h1")
    brief = text("brief")
    assert ", 1 row)" in brief
    assert "1 rows" not in brief


# --- steps -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_command_to_go_on_with_has_a_line_of_its_own(decided: Text) -> None:
    ended = decided("wait", "e1")
    assert "\nnext: perpetual hypotheses show h1\n" in ended
    decided("propose", "--command", "sh -c 'sleep 0.2; exit 3'", "--replicates", "2")
    decided("approve", "e2")
    started = decided("run", "e2")
    assert started.endswith("\n  perpetual logs r4 -f\n")
    failed = decided("wait", "r4", code=1)
    assert "\n  perpetual logs r4 --stderr\n" in failed
    for line in (ended + started + failed).splitlines():
        assert "perpetual " not in line.removeprefix("next: perpetual ").removeprefix("  perpetual ")


@pytest.mark.slow
def test_setting_the_budget_answers_its_totals_alone(decided: Text) -> None:
    assert len(decided("budget", "set", "3").splitlines()) == 2
    assert "e1" in decided("budget")


# --- the machine, and errors -------------------------------------------------------------------------------------


def test_the_doctor_says_what_is_optional(text: Text) -> None:
    said = text("doctor")
    for line in (
        "ok   trust: the project is your own",
        "ok   slots: every part that the configuration names is there",
        "ok   live_runs: no run is live",
        "ok   services: no service is running (optional)",
        "ok   secrets: no experiment holds a secret",
    ):
        assert line in said.splitlines()
    assert re.search(r"^ok   kinds: \d+ kinds of record from plugins$", said, re.MULTILINE)
    for word in ("0 ", "stand", "whole", "all there"):
        assert not re.search(rf": {word}", said)
    assert not re.search(r"^- ", said, re.MULTILINE)  # a sign says nothing: "note" does


@pytest.mark.parametrize(("arguments", "message", "hint"), [
    ("run h1", "h1 is a hypothesis, no experiment", "perpetual hypotheses show h1"),
    ("hypotheses show e1", "e1 is an experiment, no hypothesis", "perpetual experiments e1"),
    ("kill e1", "e1 has no live run", "perpetual runs --experiment e1"),
    ("queue begin", "No such command 'begin'.", "perpetual queue --help"),
    ("config set zzz 1", "unknown key of the configuration 'zzz'", "perpetual config show lists them"),
    ("evidence add h1 --why x --verdict yes", "unknown verdict 'yes': choose inconclusive, refutes, supports",
     "perpetual evidence --help"),
    ("hypotheses update h1 --confidence 2", "a confidence lies strictly between 0 and 1, not 2",
     "perpetual hypotheses --help"),
])  # fmt: skip
def test_an_error_is_short_and_has_a_way_out(
    text: Text, capsys: pytest.CaptureFixture[str], arguments: str, message: str, hint: str
) -> None:
    text("hypotheses", "add", "it is so")
    text("propose", "--command", "true")
    assert run(arguments.split()) != 0
    assert capsys.readouterr().err == f"error: {message}\nhint: {hint}\n"
    assert len(message.split()) < 15


@pytest.mark.slow
def test_what_has_ended_is_refused_with_what_shows_it(decided: Text, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, hint in (
        ("approve e1", "propose more of it: perpetual propose --extends e1"),
        ("reject e1 --why no", "perpetual experiments e1"),
        ("kill r1", "perpetual runs r1"),
        ("retry r1", "perpetual runs r1"),
    ):
        assert run(arguments.split()) == 6
        assert capsys.readouterr().err.endswith(f"\nhint: {hint}\n")
