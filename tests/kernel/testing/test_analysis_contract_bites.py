"""The suites of readers, analysers and proposers bite: each broken twin fails the test that holds its promise."""

from __future__ import annotations

import inspect
import json
import math
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.records import Evidence, Experiment, Hypothesis, Run
from perpetual.slots.analyser import (
    Analyser,
    Analysis,
    Draft,
    MetricReader,
    MetricValue,
    Proposer,
    RunFolder,
    RunOutput,
    Symptom,
)
from perpetual.testing.analysis import AnalyserContract, MetricReaderContract, ProposerContract

Suite = MetricReaderContract | AnalyserContract | ProposerContract

# --- metric readers -------------------------------------------------------------------------------------------------


class Reader(MetricReader):
    """The whole twin: `metrics.jsonl` of the run's folder, then `results.json` of its working directory."""

    def read(self, folder: RunFolder) -> dict[str, MetricValue]:
        found: dict[str, MetricValue] = {}
        for place, line in self.lines(folder):
            for name, value in self.parse(line).items():
                found[name] = self.value(value, place)
        return found

    def lines(self, folder: RunFolder) -> Iterator[tuple[str, bytes]]:
        results = folder.cwd / "results.json"
        if results.exists() and self.is_ours(results, folder):
            yield "results.json", results.read_bytes()
        log = folder.log_dir / "metrics.jsonl"
        if log.exists():
            for number, line in enumerate(log.read_bytes().split(b"\n"), 1):
                yield f"metrics.jsonl:{number}", line

    def is_ours(self, path: Path, folder: RunFolder) -> bool:
        return path.stat().st_mtime >= folder.started_at_s

    def parse(self, line: bytes) -> dict[str, Any]:
        try:
            data = json.loads(line)
        except ValueError:
            return {}
        return data.get("metrics", data) if isinstance(data, dict) else {}

    def value(self, value: float, place: str) -> MetricValue:
        return MetricValue(value if math.isfinite(value) else None, place)


class RoundsNumbers(Reader):
    """Four digits are thought to be enough."""

    def value(self, value: float, place: str) -> MetricValue:
        return super().value(round(value, 4) if math.isfinite(value) else value, place)


class TakesZeroForNothing(Reader):
    """A falsy value is left out."""

    def read(self, folder: RunFolder) -> dict[str, MetricValue]:
        return {name: item for name, item in super().read(folder).items() if item.value != 0.0}


class NamesNoPlace(Reader):
    """A number from somewhere."""

    def value(self, value: float, place: str) -> MetricValue:
        return super().value(value, "the log")


class TakesTheBest(Reader):
    """Early stopping, without anybody having asked for it."""

    def read(self, folder: RunFolder) -> dict[str, MetricValue]:
        best: dict[str, MetricValue] = {}
        for place, line in self.lines(folder):
            for name, value in self.parse(line).items():
                if name not in best or value > (best[name].value or 0.0):
                    best[name] = self.value(value, place)
        return best


class TakesNaNForZero(Reader):
    """A run that diverged has the best loss of all."""

    def value(self, value: float, place: str) -> MetricValue:
        return MetricValue(value if math.isfinite(value) else 0.0, place)


class HidesNaN(Reader):
    """The last finite value stands for the run."""

    def parse(self, line: bytes) -> dict[str, Any]:
        return {name: value for name, value in super().parse(line).items() if math.isfinite(value)}


class NeedsItsFile(Reader):
    """A run that left nothing is an error."""

    def read(self, folder: RunFolder) -> dict[str, MetricValue]:
        try:
            (folder.log_dir / "metrics.jsonl").read_bytes()
        except FileNotFoundError:
            pytest.fail("no metrics.jsonl")
        return super().read(folder)


class GuessesAtNoise(Reader):
    """Half a line is enough for a number."""

    def parse(self, line: bytes) -> dict[str, Any]:
        return super().parse(line) or ({"acc": 0.0} if b"acc" in line else {})


class TakesAnyFile(Reader):
    """Yesterday's results are today's."""

    def is_ours(self, path: Path, folder: RunFolder) -> bool:
        return True


class Remembers(Reader):
    """What one run measured is said of the next one."""

    def __init__(self) -> None:
        self._found: dict[str, MetricValue] = {}

    def read(self, folder: RunFolder) -> dict[str, MetricValue]:
        self._found.update(super().read(folder))
        return dict(self._found)


class LeavesAnIndex(Reader):
    """It writes down how far it has read."""

    def read(self, folder: RunFolder) -> dict[str, MetricValue]:
        if folder.log_dir.exists():
            (folder.log_dir / ".index").write_text("7")
        return super().read(folder)


# --- analysers ------------------------------------------------------------------------------------------------------


class Words(Analyser):
    """The whole twin."""

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> Analysis | None:
        return Analysis(f"{run.id} {run.status}", "" if run.status == "done" else f"# {run.id}\n\n{run.reason}\n")

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis | None:
        return Analysis(f"{hypothesis.id} {hypothesis.status}", f"# {hypothesis.id}\n")


class AnswersText(Words):
    """A text instead of an analysis."""

    def analyse(self, *case: Any) -> Any:
        return "it went well"


class SummarisesAtLength(Words):
    """The summary is the whole text."""

    def analyse(self, *case: Any) -> Analysis | None:
        found = super().analyse(*case)
        return replace(found, summary="# Run\n\nIt ended.") if found else None


class ConcludesWithoutWords(Words):
    """The note of a verdict is empty."""

    def conclude(self, *case: Any) -> Analysis | None:
        found = super().conclude(*case)
        return replace(found, text="\n") if found else None


class QuotesRawBytes(Words):
    """What a log held is in the note, with what is no text."""

    def analyse(self, *case: Any) -> Analysis | None:
        found = super().analyse(*case)
        return replace(found, text=b"log: \xff\n".decode("utf-8", "surrogateescape")) if found else None


class NamesTwice(Words):
    """Every line of the output is a symptom."""

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        if not output.stderr.is_file():
            return ()
        return [Symptom("line", repr(line), "stderr.log") for line in output.stderr.read_bytes().splitlines()]


class SaysItWasOverrun(Words):
    """A symptom of a kind that decides."""

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        return [Symptom("overrun", "it was slow", "stderr.log")]


class ShowsRawOutput(Words):
    """The text of a symptom is the output itself."""

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        if not output.stderr.is_file():
            return ()
        return [Symptom("end", output.stderr.read_text(errors="replace"), "stderr.log")]


class OpensThePipe(Words):
    """It reads whatever is in the place of a log, and waits for a pipe's writer."""

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        if output.stderr.is_dir() or not output.stderr.exists():
            return ()
        return [Symptom("size", str(len(output.stderr.read_bytes())), "stderr.log")]


class MarksTheOutput(Words):
    """What was read is noted in the output."""

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        if output.stderr.is_file():
            with output.stderr.open("a") as file:
                file.write("read\n")
        return ()


class HintsAtNothing(Words):
    """An empty line for a kind that it does not know."""

    def hint(self, kind: str, run: Run) -> str | None:
        return ""


class TellsTheTime(Words):
    """The same run is put into other words each time."""

    def analyse(self, *case: Any) -> Analysis | None:
        found = super().analyse(*case)
        return replace(found, text=f"written at {time.monotonic_ns()}\n") if found else None


class CorrectsTheMetric(Words):
    """An analyser that knows better."""

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> Analysis | None:
        for name in run.metrics:
            run.metrics[name] = 0.0
        return super().analyse(run, experiment, hypothesis)


# --- proposers ------------------------------------------------------------------------------------------------------


class Grid(Proposer):
    """The whole twin: every point of a hypothesis's grid with the command of its first experiment."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        found = []
        for hypothesis in hypotheses:
            own = [item for item in experiments if item.hypothesis_id == hypothesis.id and item.command]
            for name, values in (hypothesis.params or {}).items() if own else ():
                found += [
                    self.draft(hypothesis.id, {"command": own[0].command, "config": {name: value}}) for value in values
                ]
        return found

    def draft(self, hypothesis_id: str, arguments: dict[str, Any]) -> Draft:
        return Draft(hypothesis_id, {**arguments, "cost_run_hours": 0.1}, "an untried point")


class LooksBehind(Grid):
    """Every experiment's hypothesis gets a draft, also those that it was not given."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        ids = {item.hypothesis_id for item in experiments if item.hypothesis_id}
        return [self.draft(id, {"command": "x"}) for id in sorted(ids)]


class InventsArguments(Grid):
    """An argument that proposing does not have."""

    def draft(self, hypothesis_id: str, arguments: dict[str, Any]) -> Draft:
        return super().draft(hypothesis_id, {**arguments, "learning_rate": 0.1})


class ClaimsNothing(Grid):
    """Baselines that the loop never picks."""

    def draft(self, hypothesis_id: str, arguments: dict[str, Any]) -> Draft:
        return Draft("h1", super().draft(hypothesis_id, arguments).arguments, "another baseline")


class HasNoCommand(Grid):
    """An idea that nobody can run."""

    def draft(self, hypothesis_id: str, arguments: dict[str, Any]) -> Draft:
        return super().draft(hypothesis_id, {**arguments, "command": None})


class GivesNoReason(Grid):
    """An idea out of the blue."""

    def draft(self, hypothesis_id: str, arguments: dict[str, Any]) -> Draft:
        return replace(super().draft(hypothesis_id, arguments), reason=" ")


class AlwaysHasAnIdea(Grid):
    """A draft for a hypothesis that nobody mentioned."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        return super().drafts(hypotheses, experiments) or [self.draft("h1", {"command": "x"})]


class NeedsACommand(Grid):
    """An experiment without a command is an error."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        for item in experiments:
            item.command.split()  # type: ignore[union-attr]
        return super().drafts(hypotheses, experiments)


class ChangesThePattern(Grid):
    """The configuration of a draft is that of the experiment, changed in place."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        for item in experiments:
            item.config["lr"] = 0.5
        return super().drafts(hypotheses, experiments)


# --- the proof ------------------------------------------------------------------------------------------------------

Broken = list[tuple[type[Any], str]]
READERS: Broken = [
    (RoundsNumbers, "test_numbers_are_found_as_they_were_written"),
    (TakesZeroForNothing, "test_numbers_are_found_as_they_were_written"),
    (NamesNoPlace, "test_every_metric_has_its_place"),
    (TakesTheBest, "test_the_last_value_counts"),
    (TakesNaNForZero, "test_a_value_that_is_no_finite_number_is_said"),
    (HidesNaN, "test_a_value_that_is_no_finite_number_is_said"),
    (NeedsItsFile, "test_where_nothing_is_nothing_is_found"),
    (GuessesAtNoise, "test_what_cannot_be_parsed_is_no_metric"),
    (TakesAnyFile, "test_an_older_file_is_not_the_run_s"),
    (Remembers, "test_runs_do_not_mix"),
    (LeavesAnIndex, "test_it_never_writes"),
]
ANALYSERS: Broken = [
    (AnswersText, "test_every_run_is_put_into_words_or_left"),
    (SummarisesAtLength, "test_a_summary_is_one_line"),
    (ConcludesWithoutWords, "test_every_verdict_is_put_into_words_or_left"),
    (QuotesRawBytes, "test_the_words_can_be_kept"),
    (TellsTheTime, "test_the_same_records_give_the_same_words"),
    (NamesTwice, "test_symptoms_can_be_recorded"),
    (SaysItWasOverrun, "test_symptoms_can_be_recorded"),
    (ShowsRawOutput, "test_symptoms_can_be_recorded"),
    (OpensThePipe, "test_a_pipe_in_the_place_of_output_is_not_waited_for"),
    (MarksTheOutput, "test_reading_symptoms_writes_nothing"),
    (HintsAtNothing, "test_a_hint_is_a_line"),
    (CorrectsTheMetric, "test_the_records_stay_as_they_are"),
]
PROPOSERS: Broken = [
    (LooksBehind, "test_each_draft_is_for_a_hypothesis_that_it_was_given"),
    (InventsArguments, "test_each_draft_can_be_proposed"),
    (ClaimsNothing, "test_each_draft_is_worth_a_score"),
    (HasNoCommand, "test_each_draft_is_worth_a_score"),
    (GivesNoReason, "test_each_draft_has_a_reason"),
    (AlwaysHasAnIdea, "test_with_nothing_to_go_on_there_are_no_drafts"),
    (NeedsACommand, "test_it_copes_with_every_experiment"),
    (ChangesThePattern, "test_the_records_stay_as_they_are"),
]
ALL: list[tuple[type[Suite], type[Any], Broken]] = [
    (MetricReaderContract, Reader, READERS),
    (AnalyserContract, Words, ANALYSERS),
    (ProposerContract, Grid, PROPOSERS),
]


def _tests(suite: type[Suite]) -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(suite).items() if name.startswith("test_")}


@contextmanager
def _lab(folder: Path) -> Iterator[Lab]:
    with Lab.init(folder / "project", name="contract") as lab:
        lab.hypotheses.add("nothing is known of this one")
        ProposerContract().campaign(lab)
        yield lab


def _run(suite: type[Suite], name: str, twin: object, folder: Path) -> None:
    """One test of the suite with what its fixtures would give."""
    test = _tests(suite)[name]
    given: dict[str, Any] = {}
    folder.mkdir()
    for parameter in [*inspect.signature(test).parameters][1:]:
        if parameter == "folder":
            (folder / "log").mkdir()
            (folder / "cwd").mkdir()
            given[parameter] = RunFolder(folder / "log", folder / "cwd", 1_700_000_000.0)
        elif parameter == "tmp_path":
            given[parameter] = folder
        elif parameter != "lab":
            given[parameter] = twin
    if "lab" in inspect.signature(test).parameters:
        with _lab(folder) as lab:
            test(suite(), lab=lab, **given)
    else:
        test(suite(), **given)


def test_there_is_a_broken_twin_for_every_promise() -> None:
    for suite, _, broken in ALL:
        assert {name for _, name in broken} == set(_tests(suite))


CASES: list[tuple[type[Suite], type[Any], type[Any], str]] = [
    (suite, whole, twin, name) for suite, whole, broken in ALL for twin, name in broken
]


@pytest.mark.parametrize(
    ("suite", "whole", "broken", "name"), CASES, ids=[f"{case[2].__name__}-{case[3]}" for case in CASES]
)
def test_a_broken_twin_fails(
    suite: type[Suite], whole: type[Any], broken: type[Any], name: str, tmp_path: Path
) -> None:
    _run(suite, name, whole(), tmp_path / "whole")
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        _run(suite, name, broken(), tmp_path / "broken")


def test_a_proposer_without_ideas_has_kept_no_promise(tmp_path: Path) -> None:
    class Silent(Grid):
        def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
            return ()

    with pytest.raises(AssertionError, match="override `campaign`"):
        _run(ProposerContract, "test_each_draft_has_a_reason", Silent(), tmp_path / "silent")


def test_a_reader_of_another_format_overrides_what_is_left(tmp_path: Path) -> None:
    class Suite(MetricReaderContract):
        def leave(self, place: Path, values: Mapping[str, float]) -> None:
            (place / "scores.txt").write_text("".join(f"{name} {value!r}\n" for name, value in values.items()))

    class Scores(MetricReader):
        def read(self, folder: RunFolder) -> dict[str, MetricValue]:
            pairs = [line.split() for line in (folder.log_dir / "scores.txt").read_text().splitlines()]
            return {name: MetricValue(float(value), "scores.txt") for name, value in pairs}

    folder = RunFolder(tmp_path, tmp_path, 0.0)
    Suite().test_numbers_are_found_as_they_were_written(Scores(), folder)
    Suite().test_every_metric_has_its_place(Scores(), folder)


def test_a_form_of_single_precision_says_so(tmp_path: Path) -> None:
    class Suite(MetricReaderContract):
        def leave(self, place: Path, values: Mapping[str, float]) -> None:
            packed = {name: struct.pack("f", value).hex() for name, value in values.items()}
            (place / "scalars").write_text("".join(f"{name} {value}\n" for name, value in packed.items()))

    class Single(Suite):
        bits = 32

    class Scalars(MetricReader):
        def read(self, folder: RunFolder) -> dict[str, MetricValue]:
            pairs = [line.split() for line in (folder.log_dir / "scalars").read_text().splitlines()]
            numbers = {name: struct.unpack("f", bytes.fromhex(value))[0] for name, value in pairs}
            return {name: MetricValue(value, "scalars") for name, value in numbers.items()}

    class Rounds(Scalars):
        def read(self, folder: RunFolder) -> dict[str, MetricValue]:
            found = super().read(folder).items()
            return {name: MetricValue(round(item.value or 0, 3), item.source) for name, item in found}

    folder = RunFolder(tmp_path, tmp_path, 0.0)
    Single().test_numbers_are_found_as_they_were_written(Scalars(), folder)
    for suite, reader in ((Suite(), Scalars()), (Single(), Rounds())):
        with pytest.raises(AssertionError):
            suite.test_numbers_are_found_as_they_were_written(reader, folder)
