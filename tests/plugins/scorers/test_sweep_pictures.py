"""The pictures of a sweep, and the section of the report that holds them, with real runs."""

from __future__ import annotations

import json
import statistics
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.document import render, render_html
from perpetual_scorers import sweep_importance, sweeps
from perpetual_scorers.documents import SweepDocument, SweepImportance
from perpetual_scorers.space import Parameter, parameters_of, settings_of
from perpetual_scorers.sweep_pictures import MOST_DRAWN, fence_of, importance, parallel, slices
from perpetual_scorers.sweep_section import SweepSection

TRAIN = """
import os, random, sys
lr, opt = float(sys.argv[1]), sys.argv[2]
rng = random.Random(int(os.environ["PERPETUAL_SEED"]))
if lr > 0.05:
    raise SystemExit(3)
print("loss=%.6f" % (lr + (opt == "adam") + rng.gauss(0, 0.001)))
"""
HOSTILE = 'loss <script>alert(1)</script> | `x` $y_1$ "&'
_NONE: SweepImportance = {
    "settings": 0, "reason": "no runs", "caution": None, "spread": None, "noise": None, "parameters": [],
}  # fmt: skip


def swept(specs: list[str], count: int, **more: Any) -> tuple[SweepDocument, list[Parameter]]:
    """A sweep as it is shown, as far as pictures need it; a value is the sum of the settings' places."""
    parameters, rng = parameters_of(specs, more.get("conditions", ())), Random(1)
    settings: list[dict[str, Any]] = []
    for number, one in enumerate(settings_of(parameters, "quasi", count, "k")):
        values = [sum(one.x) + rng.gauss(0, 0.1) for _ in range(1 + number % 3)]
        lost = number in more.get("lost", ())
        settings.append({
            "id": one.id, "parameters": one.values, "n": 0 if lost else len(values), "n_failed": len(values) * lost,
            "mean": None if lost else statistics.fmean(values), "values": [None] if lost else values,
        })  # fmt: skip
    found = {"id": "sweep-1", "metric": more.get("metric", "loss"), "direction": "min", "settings": settings}
    found["best"] = min((one for one in settings if one["n"]), key=lambda one: one["mean"], default={"id": None})["id"]
    return cast("SweepDocument", found), parameters


def read(svg: str | None) -> tuple[ET.Element, str, str]:
    """The picture as XML, its text alternative, and the words in it."""
    assert svg is not None
    root = ET.fromstring(svg)
    words = " ".join("".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text"))
    description = root.find("{*}desc")
    assert description is not None
    return root, description.text or "", words


@pytest.mark.parametrize(("parameters", "settings"), [(1, 2), (8, 200)])
def test_pictures_of_few_and_many_are_drawn_and_said(parameters: int, settings: int) -> None:
    specs = ["lr=log:1e-4..1e-1", "opt=sgd,adam", "depth=2..8", *(f"p{i}=0.0..1.0" for i in range(5))][:parameters]
    found, declared = swept(specs, settings)
    _, said, words = read(parallel(found, declared, _NONE))
    assert f"{settings} settings with a mean" in said
    assert f"The pick: {found['best']} (lr=" in said
    for word in ("the pick", "lr (log)", "mean loss", "0.0001", "0.1"):
        assert word in words
    _, said, words = read(slices(found, declared, _NONE))
    assert said.count("best mean") == parameters
    assert "one run" in words
    assert importance(found, _NONE) is None


def test_choices_conditions_and_failures_have_their_places() -> None:
    found, declared = swept(
        ["opt=sgd,adam", "warm=true,false"], 12, conditions=["opt=sgd: momentum=0.8..0.99"], lost=(0, 3)
    )
    for svg in (parallel(found, declared, _NONE), slices(found, declared, _NONE)):
        _, said, words = read(svg)
        for word in ("sgd", "adam", "true", "absent", "no value", "the pick"):
            assert word in words
        assert "s1 " not in said  # a setting without a value is no best one


def test_names_that_want_to_be_more_than_names_are_words() -> None:
    found, declared = swept([f"{'a_very_' * 30}long_name=<b>x</b>,$y$,{'z' * 300}"], 3, metric=HOSTILE)
    for svg in (parallel(found, declared, _NONE), slices(found, declared, _NONE)):
        root, _, words = read(svg)
        assert {"script", "b"}.isdisjoint(each.tag.rpartition("}")[2] for each in root.iter())
        assert "<b>x</b>" in words
        assert "z" * 20 not in words
        assert len(max(words.split(), key=len)) < 60


def test_nothing_is_drawn_before_a_run_has_a_value() -> None:
    found, declared = swept(["x=0.0..1.0"], 3, lost=(0, 1, 2))
    assert parallel(found, declared, _NONE) is None
    assert slices(found, declared, _NONE) is None


def test_one_run_that_diverged_does_not_flatten_the_others() -> None:
    # by hand: 0.4 is the worse quartile, and the worst that counts is 0.4 + 2 * (0.4 - 0.1)
    assert fence_of([0.1, 0.2, 0.3, 0.4, 1e9], "min") == pytest.approx(1.0)
    assert fence_of([-0.1, -0.2, -0.3, -0.4, -1e9], "max") == pytest.approx(-1.0)
    assert fence_of([0.5, 0.5], "min") == 0.5
    found, declared = swept(["x=0.0..1.0"], 8)
    found["settings"][2]["values"] = [1e9]
    found["settings"][2]["mean"] = 1e9
    assert "off the scale" in read(slices(found, declared, _NONE))[2]
    assert "or worse" in read(parallel(found, declared, _NONE))[2]


@pytest.mark.parametrize("values", [(1e308, -1e308), (5e-324, 0.0), (-1e308, -1e308), (7.0, 7.0)])
def test_numbers_at_the_edge_of_what_there_is_are_drawn(values: tuple[float, float]) -> None:
    found, declared = swept(["x=0.0..1.0"], 2)
    for one, value in zip(found["settings"], values, strict=True):
        one["mean"], one["values"] = value, [value]
    for svg in (parallel(found, declared, _NONE), slices(found, declared, _NONE)):
        assert "nan" not in read(svg)[2]
        assert svg is not None
        assert "inf" not in svg.partition("</desc>")[2]


def test_more_than_can_be_drawn_is_left_out_and_said() -> None:
    found, declared = swept(["x=0.0..1.0", *(f"p{i}=0.0..1.0" for i in range(9))], MOST_DRAWN + 20)
    assert f"{MOST_DRAWN} settings with a mean" in read(parallel(found, declared, _NONE))[1]
    assert read(slices(found, declared, _NONE))[1].count("best mean") == 8
    whole = {**found, "runs": 1, "runs_pending": 0, "command": "c", "sentence": "s", "claim": None,
             "parameters": [{"name": one.name, "choices": None, "low": 0.0, "high": 1.0, "log": False, "whole": False,
                             "when": None} for one in declared], "importance": _NONE}  # fmt: skip
    for one in found["settings"]:
        one["sd"] = None
    said = str(SweepSection().parts({"sweeps": [whole], "left": 3}))
    for words in (f"Only the best {MOST_DRAWN} settings", "8 of 10 parameters", "3 older sweeps", "left=200"):
        assert words in said


# --- in the report ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_report_shows_its_sweeps_and_still_verifies(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep_importance, "LEAST_SETTINGS", 4)  # so that few runs do
    (project / "train.py").write_text(TRAIN, "utf-8")
    with Lab.open() as lab:
        assert "Sweeps" not in render(lab)
        made = sweeps.new(
            lab, f"{sys.executable} train.py {{lr}} {{opt}}", ["lr=log:1e-3..1e-1", "opt=sgd,adam"],
            metric="loss", direction="min", settings=12, runs=8,
        )  # fmt: skip
        before = render_html(lab)
        assert "no run of sweep-1 has given loss yet" in before
        assert "<svg" not in before
        sweeps.run(lab, made["id"], wait=True)
        found, told = sweeps.show(lab, made["id"]), sweeps.importance(lab, made["id"])
        page, text = render_html(lab), render(lab)
    for name in ("parallel", "slices", "importance"):
        assert f'data-picture="sweep-1-{name}"' in page
    opt = next(one for one in told["parameters"] if one["name"] == "opt")
    assert f"| opt | {opt['share']:.2f} | {opt['low']:.2f} to {opt['high']:.2f} |" in text
    assert (opt["share"] or 0.0) > 0.5
    assert f"{found['best']} (pick)" in text
    assert "evidence of nothing" in text
    for form in ("html", "md"):
        assert run(["report", "--format", form, "-o", f"report.{form}"]) == 0
        assert run(["verify", f"report.{form}"]) == 0
    capsys.readouterr()
    assert run(["report", "--json"]) == 0
    (section,) = json.loads(capsys.readouterr().out)["sections"]
    (one,) = section["data"]["sweeps"]
    assert {key: one[key] for key in found} == json.loads(json.dumps(found))
    assert one["importance"] == json.loads(json.dumps(told))
    assert run(["sweep", "importance", "sweep-1"]) == 0
    assert f"{opt['share']:.2f}" in capsys.readouterr().out
