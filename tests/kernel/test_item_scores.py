"""Scores of test items: packed in the record, read from a run's output, and counted as luck of a comparison."""

from __future__ import annotations

import math
import sys
from base64 import b64encode
from pathlib import Path
from zlib import compress

import pytest

from perpetual import Lab
from perpetual.toolkit.item_scores import MOST, pack, unpack
from perpetual_report.effects import effects_of
from perpetual_report.snapshot import take
from tests.support import until

PROGRAM = """
import sys
from perpetual import log
shift, word = int(sys.argv[1]), sys.argv[2]
import os
seed = int(os.environ["PERPETUAL_SEED"])
scores = [int((i * 37 + shift) % 100 < 60 + seed % 3) for i in range(100)]
log(acc=sum(scores) / 100, **({"items": scores} if word == "scores" else {}))
"""


def test_scores_survive_the_record() -> None:
    scores = [0.0, 1.0, 0.25, -3.5]
    packed = pack(scores)
    assert packed is not None
    assert unpack(packed) == scores
    assert len(pack([1.0, 0.0] * 5000) or "") < 200  # ones and zeros cost next to nothing


@pytest.mark.parametrize("scores", [[], [1.0], [1.0] * (MOST + 1), [0.5, math.nan], [0.5, 1e300]])
def test_what_is_no_list_of_scores_is_not_kept(scores: list[float]) -> None:
    assert pack(scores) is None


def test_damaged_scores_are_named_and_a_bomb_stays_small() -> None:
    with pytest.raises(ValueError, match="damaged"):
        unpack("no base64!")
    with pytest.raises(ValueError, match="damaged"):
        unpack(b64encode(b"no zlib").decode())
    assert len(unpack(b64encode(compress(bytes(40_000_000))).decode())) == MOST


def _are_done(lab: Lab, ids: list[str]) -> bool:
    lab.scan()
    return all(lab.runs.get(id).status == "done" for id in ids)


def measured(lab: Lab, word: str) -> tuple[float, list[str], float]:
    """Returns e-value, assumptions and width of the interval of two models that are equally good on 100 items."""
    program = lab.config.root / "score.py"
    program.write_text(PROGRAM)
    base = lab.experiments.propose(
        None, command=f"{sys.executable} score.py 0 {word}", metric="acc", direction="max", replicates=3
    )
    hypothesis = lab.hypotheses.add("the other one is better")
    claim = lab.experiments.propose(
        hypothesis.id, command=f"{sys.executable} score.py 50 {word}", metric="acc", direction="max", mde=0.02,
        baseline=base.id, replicates=3,
    )  # fmt: skip
    for experiment in (base, claim):
        lab.experiments.approve(experiment.id)
        ids = [run.id for run in lab.runs.launch(experiment.id, every=True)]
        until(lambda ids=ids: _are_done(lab, ids))  # type: ignore[misc]
    found = lab.hypotheses.get(hypothesis.id)
    assert found.effect is not None
    return (
        found.e_support,
        [text.partition(":")[0] for text in found.assumes],
        found.effect["high"] - found.effect["low"],
    )


def test_scores_of_both_arms_make_their_items_luck_count(project: Path) -> None:
    with Lab.open(project) as lab:
        _, assumes, alone = measured(lab, "alone")
        assert "one_test_set" in assumes
        _, assumes, counted = measured(lab, "scores")
        assert "one_test_set" not in assumes
        assert counted > alone  # the items' luck makes the effect less certain
        for id, effect in lab.evidence.effects("h2").items():
            interval = effects_of(take(lab))[id].interval
            assert interval is not None
            assert (interval.low, interval.high) == (effect["low"], effect["high"]), "the report says the same"
        assert lab.runs.item_scores("r1") is None
        assert len(lab.runs.item_scores("r12") or ()) == 100
