"""The contract suite of promotion stages: every promise of `perpetual.slots.gate` about them, as tests.

    class TestAcmeStage(PromotionStageContract):
        @pytest.fixture
        def stage(self):
            return acme.stage.build({})

The suite needs the fixture `stage` alone, and nothing but pytest.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from perpetual.slots.gate import DECISIONS, PromotionStage, StageVerdict
from perpetual.testing.quick import quickest
from perpetual.testing.sections import project_state

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["TEXTS", "PromotionStageContract"]

_PLAIN = "# Adam\n\nA warm-up of 500 steps lowers the loss.\n"
TEXTS = {
    "notes/adam.md": ("note", _PLAIN),
    "skills/long.md": ("skill_card", "# Long\n\n" + "word " * 20_000),
    "skills/signs.md": ("skill_card", "# \U0001f52d\u202e\u200b [done]\n\nplain words between odd signs\n"),
}
_LONGEST = 500  # characters of a reason


class PromotionStageContract:
    """For every promotion stage."""

    most_s: ClassVar[float] = 5.0  # for one call, on a machine that does other things too

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a project with notes of which nothing is known."""
        from perpetual.lab import Lab

        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        with Lab.init(tmp_path / "project", name="contract") as made:
            for path, (type_, text) in TEXTS.items():
                made.memory.write(path, text, type=type_)
            yield made

    def _each(self, stage: PromotionStage, lab: Lab) -> dict[str, StageVerdict]:
        return {path: stage.judge(lab, lab.memory.get(path), text) for path, (_, text) in TEXTS.items()}

    def test_it_answers_a_decision(self, stage: PromotionStage, lab: Lab) -> None:
        """One of the decisions, whatever the text."""
        for path, found in self._each(stage, lab).items():
            assert type(found) is StageVerdict, f"{path}: it answered a {type(found).__name__}"
            assert found.decision in DECISIONS, f"{path}: {found.decision!r} is no decision"

    def test_a_decision_has_a_reason(self, stage: PromotionStage, lab: Lab) -> None:
        """On one printable line, since it is kept with the decision and shown in lists."""
        for path, found in self._each(stage, lab).items():
            assert found.reason.isprintable(), f"{path}: a reason is one printable line, not {found.reason!r}"
            assert len(found.reason) <= _LONGEST, f"{path}: a reason of {len(found.reason)} characters"
            assert found.decision == "abstain" or found.reason.strip(), f"{path}: {found.decision} without a reason"

    def test_it_promotes_nothing_without_evidence(self, stage: PromotionStage, lab: Lab) -> None:
        """Of notes of which the lab knows nothing, none is promoted and none is taken away."""
        for path, found in self._each(stage, lab).items():
            assert found.decision in ("abstain", "wait"), f"{path}: {found.decision} without evidence"

    def test_its_evidence_is_json(self, stage: PromotionStage, lab: Lab) -> None:
        """Without NaN and infinities, for it is kept with the decision."""
        for found in self._each(stage, lab).values():
            assert json.loads(json.dumps(dict(found.evidence), allow_nan=False)) == dict(found.evidence)

    def test_the_same_record_gives_the_same_decision(self, stage: PromotionStage, lab: Lab) -> None:
        """A look that is repeated after a crash decides alike."""
        before = self._each(stage, lab)
        time.sleep(0.01)
        assert self._each(stage, lab) == before

    def test_it_changes_nothing(self, stage: PromotionStage, lab: Lab) -> None:
        """Neither the record nor a file of the project."""
        before = project_state(lab)
        self._each(stage, lab)
        assert project_state(lab) == before

    def test_it_is_quick(self, stage: PromotionStage, lab: Lab) -> None:
        """Every note in the queue may be looked at in each scan."""
        assert quickest(lambda: self._each(stage, lab), self.most_s) < self.most_s
