"""`compare` shows what differs, folds the seeds, and names a winner only where the interval excludes 0."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.claims import effect_in_words
from perpetual_report.comparison import compare, tables_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perpetual.documents.ledger import Effect


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """A command's exit status and document."""
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def pair_of(answer: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """The one pair of a metric."""
    (found,) = [pair for pair in answer["pairs"] if pair["metric"] == metric]
    return dict(found)


def test_only_what_differs_is_shown(lab: Lab) -> None:
    answer = compare(lab, ["e2", "E3"])
    fields = {item["field"]: item["values"] for item in answer["differences"]}
    assert fields["command --lr"] == {"e2": "0.1", "e3": "0.2"}
    assert fields["command word 3"] == {"e2": "1.8", "e3": "1.85"}
    assert fields["design.replicates"] == {"e2": 3, "e3": 1}
    assert not {"command word 1", "command word 2", "design.mde", "cwd", "hypothesis"} & fields.keys()


def test_seeds_are_folded_and_a_winner_needs_an_interval(lab: Lab) -> None:
    answer = compare(lab, ["e1", "e2"])
    arm = answer["arms"][1]["metrics"]["loss"]
    assert (arm["n"], len(arm["values"])) == (3, 3)
    assert (arm["low"] or 0) < arm["mean"] < (arm["high"] or 0)
    assert {value["source"] for value in arm["values"]} == {"stdout.log:2"}
    pair = pair_of(answer, "loss")
    assert (pair["better"], pair["separable"], pair["verdict"]) == ("e2", True, "e2 is better")
    assert pair["low"] < pair["difference"] < pair["high"]
    assert pair_of(answer, "steps")["verdict"] == "the same in every run"
    steps = answer["arms"][1]["metrics"]["steps"]
    assert f"e2: 3 runs measured steps exactly {steps['mean']:g}: counted as one" in answer["notes"]
    one = pair_of(compare(lab, ["e2", "e3"]), "loss")
    assert (one["better"], one["low"], one["verdict"]) == (None, None, "not separable at this n (3 and 1)")


def test_pairs_are_shown_in_one_form_with_positive_for_better(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    answer = compare(lab, ["e1", "e2", "e3"], metrics=["loss"])
    table = next(table for table in tables_of(answer) if table.title.startswith("Side by side"))
    assert table.title == "Side by side: positive is better"
    assert [row[1] for row in table.rows] == ["e2 against e1", "e3 against e1", "e3 against e2"]
    means = [arm["metrics"]["loss"]["mean"] for arm in answer["arms"]]
    for row, (later, earlier) in zip(table.rows, ((1, 0), (2, 0), (2, 1)), strict=True):
        assert (float(row[2]) > 0) == (means[later] < means[earlier]), "less loss is better"
    assert run(["compare", "e2", "--against", "e3"]) == 0
    assert "e2 against e3" in capsys.readouterr().out


def test_compare_names_no_winner_without_a_direction(project: Path) -> None:
    with Lab.open() as lab:
        for value in (1, 5):
            command = f"sh -c 'echo size={value}.$PERPETUAL_SEED'"
            made = lab.experiments.propose(command=command, replicates=3)
            lab.experiments.approve(made.id)
            lab.wait([item.id for item in lab.runs.launch(made.id, every=True)], timeout_s=60)
        pair = pair_of(compare(lab, ["e1", "e2"]), "size")
    assert (pair["separable"], pair["better"], pair["direction"]) == (True, None, None)
    assert pair["verdict"] == "they differ; no direction is declared"


@pytest.mark.slow
def test_arms_that_share_seeds_are_paired(project: Path) -> None:
    """Their noise is the seed's own: paired, a small difference is seen that two means would never tell apart."""
    with Lab.open() as lab:
        code = "import os; print('loss=%r' % (int(os.environ['PERPETUAL_SEED']) % 997 / 100 + {plus}))"
        (project / "a.py").write_text(code.format(plus="0.0"))
        (project / "b.py").write_text(code.format(plus="0.01 + int(os.environ['PERPETUAL_SEED']) % 7 / 1e6"))
        # A small mde: a quarter of it is taken for the spread between implementations, which no pairing removes.
        claim = lab.hypotheses.add("x", metric="loss", direction="min", mde=0.002)
        base = lab.experiments.propose(command="python3 a.py", metric="loss", direction="min", replicates=4)
        other = lab.experiments.propose(claim.id, command="python3 b.py", baseline=base.id, paired=True, replicates=4)
        for made in (base, other):
            lab.experiments.approve(made.id)
            lab.wait([item.id for item in lab.runs.launch(made.id, every=True)], timeout_s=60)
        pair = pair_of(compare(lab, ["e1", "e2"]), "loss")
    assert (pair["paired"], pair["n_a"], pair["better"]) == (True, 4, "e1")
    assert (pair["a"], pair["b"]) == ("e2", "e1")  # a claim less its baseline, as everywhere
    assert pair["difference"] == pytest.approx(0.01, abs=1e-5)


def test_runs_can_be_compared_too(lab: Lab) -> None:
    answer = compare(lab, ["r1", "r2"])
    assert {"seed", "replicate"} <= {item["field"] for item in answer["differences"]}
    assert pair_of(answer, "loss")["verdict"] == "not separable at this n (1 and 1)"


def test_runs_that_do_not_count_are_left_out_and_named(lab: Lab) -> None:
    crashed = next(item for item in lab.experiments.list(hypothesis_id="h3").items if item.title == "crashes")
    (arm,) = [arm for arm in compare(lab, ["e1", crashed.id])["arms"] if arm["id"] == crashed.id]
    assert (arm["runs"], arm["metrics"]) == ([], {})
    assert [item["why"] for item in arm["left_out"]] == ["failed"]


@pytest.mark.parametrize(("ids", "code"), [(("e1",), 2), (("e1", "E1"), 2), (("e1", "e99"), 5), (("e1", "h1"), 5)])
def test_compare_refuses_wrong_ids(
    study: Path, capsys: pytest.CaptureFixture[str], ids: tuple[str, ...], code: int
) -> None:
    assert asked(capsys, "compare", *ids)[0] == code


def test_the_command_shows_tables_and_markdown(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = asked(capsys, "compare", "e1", "e2")
    assert (code, answer["schema"]) == (0, "perpetual.comparison/1")
    assert run(["compare", "e1", "e2"]) == 0
    shown = capsys.readouterr().out
    assert "What differs" in shown
    assert "e2 is better" in shown
    assert run(["compare", "e1", "e4", "--format", "md"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("# e1, e4 compared")
    assert "<script>" not in shown


def test_one_metric_against_one_arm(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    answer = compare(lab, ["e2", "e3"], metrics=["loss"], against="E1")
    assert [arm["id"] for arm in answer["arms"]] == ["e1", "e2", "e3"]
    assert answer["metrics"] == ["loss"]
    assert [{pair["a"], pair["b"]} for pair in answer["pairs"]] == [{"e1", "e2"}, {"e1", "e3"}]
    code, document = asked(capsys, "compare", "e1", "e2", "e3", "--metric", "loss", "--against", "e1")
    assert code == 0
    assert document["pairs"] == json.loads(json.dumps(answer["pairs"]))
    code, document = asked(capsys, "compare", "e1", "e2", "--metric", "lss")
    assert code == 2
    assert "loss" in document["error"]["hint"]
    code, document = asked(capsys, "compare", "e1", "--against", "e1")
    assert code == 2
    code, document = asked(capsys, "compare", "h1", "e1")
    assert (code, document["error"]["hint"]) == (5, "h1 is a hypothesis: perpetual hypotheses show h1")


def test_runs_that_are_alike_in_pairs_are_not_called_the_same_everywhere(project: Path) -> None:
    with Lab.open() as lab:
        h = lab.hypotheses.add("it is better").id
        base: dict[str, Any] = {}
        for more in (4, 2):
            command = f"sh -c 'echo acc=0.$PERPETUAL_SEED{more}; echo draw=$PERPETUAL_SEED'"
            made = lab.experiments.propose(h, command=command, metric="acc", direction="max", replicates=more, **base)
            base = {"baseline": made.id, "mde": 0.1}
            lab.experiments.approve(made.id)
            lab.wait([item.id for item in lab.runs.launch(made.id, every=True)], timeout_s=60)
        pair = pair_of(compare(lab, ["e1", "e2"]), "draw")
    assert (pair["paired"], pair["verdict"]) == (True, "the same in every pair")


def test_an_effect_says_why_it_is_not_the_difference_of_the_means(project: Path) -> None:
    (project / "acc.py").write_text(
        "import os, random, sys\n"
        "seed = os.environ['PERPETUAL_SEED']\n"
        "print('acc:', random.Random(seed).random() + random.Random(seed + sys.argv[1]).random() / 9)\n"
    )
    with Lab.open() as lab:
        h = lab.hypotheses.add("it is better").id
        given: dict[str, Any] = {"replicates": 4}
        for value in (0, 1, 2):
            made = lab.experiments.propose(
                h, command=f"{sys.executable} acc.py {value}", metric="acc", direction="max", **given
            )
            given = {"baseline": "e1", "mde": 0.1, "replicates": 2, "noise": 0.1}
            lab.experiments.approve(made.id)
            lab.wait([item.id for item in lab.runs.launch(made.id, every=True)], timeout_s=60)
        notes = compare(lab, ["e1", "e2", "e3"])["notes"]
        effect = lab.hypotheses.get(h).effect
    (said,) = [note for note in notes if "difference of the means" in note]
    assert said == (
        "e2 against e1, e3 against e1 are not the difference of the means: runs on a seed that both have count as pairs"
    )
    assert effect is not None
    assert "4 runs of 2 designs as one arm against 4 of e1" in effect_in_words(cast("Effect", effect), "max")
