"""The contract suite of promotion stages fails on a twin that breaks one promise."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Note, PromotionStage, StageVerdict
from perpetual.testing.promotion_stages import PromotionStageContract


class Whole(PromotionStage):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("abstain", "no review yet", {"reviews": 0})


class Undecided(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("perhaps", "no idea")  # type: ignore[arg-type]


class NoReason(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("wait")


class Quotes(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("abstain", text[:40])


class Trusting(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("promote", "it looks good")


class NotANumber(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("abstain", "no runs", {"mean": float("nan")})


class Clock(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        return StageVerdict("abstain", str(time.monotonic_ns()))


class Writes(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        lab.hypotheses.add(f"{note.path} helps")
        return super().judge(lab, note, text)


class Sleeps(Whole):
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        time.sleep(0.2)
        return super().judge(lab, note, text)


BROKEN: list[tuple[type[PromotionStage], str]] = [
    (Undecided, "test_it_answers_a_decision"),
    (NoReason, "test_a_decision_has_a_reason"),
    (Quotes, "test_a_decision_has_a_reason"),
    (Trusting, "test_it_promotes_nothing_without_evidence"),
    (NotANumber, "test_its_evidence_is_json"),
    (Clock, "test_the_same_record_gives_the_same_decision"),
    (Writes, "test_it_changes_nothing"),
    (Sleeps, "test_it_is_quick"),
]


class Quick(PromotionStageContract):
    __test__ = False
    most_s = 0.4


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    from perpetual.testing import promotion_stages

    with Lab.open() as lab:
        for path, (type_, text) in promotion_stages.TEXTS.items():
            lab.memory.write(path, text, type=type_)
        yield lab


@pytest.mark.parametrize(("twin", "name"), BROKEN)
def test_a_twin_with_one_broken_promise_fails(lab: Lab, twin: type[PromotionStage], name: str) -> None:
    test = getattr(Quick(), name)
    test(Whole(), lab)
    with pytest.raises((AssertionError, ValueError)):
        test(twin(), lab)


def test_there_is_a_twin_for_every_promise() -> None:
    promises = {name for name, _ in inspect.getmembers(Quick, inspect.isfunction) if name.startswith("test_")}
    assert {name for _, name in BROKEN} == promises
