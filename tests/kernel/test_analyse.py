"""Putting verdicts into words: the whole case is shown to the analysers, and one that fails holds up nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.lab.context import Context
from perpetual.records import Evidence, Experiment, Hypothesis, Run
from perpetual.slots.analyser import Analyser, Analysis


class _Words(Analyser):
    """Remembers the cases that it was shown; says what it was given to say, or fails."""

    def __init__(self, said: Analysis | None) -> None:
        self.said = said
        self.cases: list[tuple[str, int, int]] = []

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> None:
        return None

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis | None:
        self.cases.append((hypothesis.id, len(evidence), len(experiments)))
        if self.said is None:
            raise RuntimeError("no words \udcff")
        return self.said


@pytest.fixture
def decided(project: Path) -> Any:
    """A lab with a hypothesis that was just decided, on three rows and two experiments."""
    with Lab.open(project) as lab:
        id = lab.hypotheses.add("acc rises").id
        for _ in range(3):
            lab.evidence.add(id, verdict="supports", strength=1.0, why="seen")
        for command in ("true", "true again"):
            lab.experiments.propose(id, command=command)
        lab.hypotheses.update(id, status="supported")
        yield lab


def _use(monkeypatch: pytest.MonkeyPatch, **analysers: Analyser) -> None:
    parts = Context.parts

    def chosen(self: Context, slot: str) -> Any:
        return [*analysers.items()] if slot == "analyser" else parts(self, slot)

    monkeypatch.setattr(Context, "parts", chosen)


def test_an_analyser_that_fails_holds_up_no_scan(decided: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told once, the others are heard, and the same verdict is not asked about again."""
    broken, sound = _Words(None), _Words(Analysis(summary="", text="# It rises\n"))
    _use(monkeypatch, broken=broken, sound=sound)
    decided.scan()
    decided.scan()
    assert len(broken.cases) == len(sound.cases) == 1
    (told,) = [event for event in decided.events() if event.kind == "note_failed"]
    assert told.payload["error"] == "the analyser broken failed: RuntimeError: no words \\udcff"
    assert [note.type for note in decided.memory.list().items] == ["episodic_case"]


def test_the_whole_case_is_shown(decided: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    words = _Words(Analysis(summary="", text="# It rises\n"))
    _use(monkeypatch, words=words)
    decided.scan()
    rows = len(decided.evidence.list(hypothesis_id="h1").items)
    assert rows >= 3
    assert words.cases == [("h1", rows, 2)]


class _Decides(_Words):
    """While it looks at a run, somebody else decides the hypothesis of it."""

    def __init__(self, project: Path) -> None:
        super().__init__(Analysis(summary="", text="# It rises\n"))
        self.project = project

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> None:
        assert hypothesis is not None
        with Lab.open(self.project) as other:
            other.hypotheses.update(hypothesis.id, status="supported")


def test_a_verdict_that_comes_while_a_run_is_analysed_counts(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The experiment waits for no further replicate: of a decided hypothesis none is launched."""
    with Lab.open(project) as lab:
        hypothesis = lab.hypotheses.add("acc rises").id
        experiment = lab.experiments.propose(hypothesis, command="true", replicates=2)
        lab.experiments.approve(experiment.id)
        (run,) = lab.runs.launch(experiment.id)
        _use(monkeypatch, decides=_Decides(project))
        assert lab.wait([run.id], timeout_s=60.0) == {run.id: "done"}
        lab.scan()
        assert lab.experiments.get(experiment.id).status == "analysed"
        assert lab.storage.verify() == []


class _Overtaken(_Words):
    """While it looks, another process analyses the same, to the end."""

    def __init__(self, other: Lab) -> None:
        super().__init__(Analysis(summary="", text="# It rises\n"))
        self.other, self.seq, self.is_inner = other, 0, False

    def _overtake(self) -> None:
        if not self.is_inner:
            self.is_inner = True
            self.other.scan()
            self.is_inner, self.seq = False, self.other.context.store.seq()

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> None:
        self._overtake()

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis | None:
        self._overtake()
        return super().conclude(hypothesis, evidence, experiments)


@pytest.mark.parametrize("is_run", [True, False])
def test_what_another_process_has_analysed_is_not_written_again(
    project: Path, monkeypatch: pytest.MonkeyPatch, is_run: bool
) -> None:
    with Lab.open(project) as lab, Lab.open(project) as other:
        _use(monkeypatch, overtaken=(overtaken := _Overtaken(other)))
        hypothesis = lab.hypotheses.add("acc rises").id
        if is_run:
            experiment = lab.experiments.propose(hypothesis, command="true")
            lab.experiments.approve(experiment.id)
            lab.wait([run.id for run in lab.runs.launch(experiment.id)], timeout_s=60.0)
            assert lab.experiments.get(experiment.id).status == "analysed"
        else:
            lab.hypotheses.update(hypothesis, status="supported")
            lab.scan()
        assert 0 < overtaken.seq == lab.context.store.seq()
