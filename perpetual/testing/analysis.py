"""The contract suites of metric readers, analysers and proposers: every promise of `perpetual.slots.analyser` as tests.

    class TestAcmeReader(MetricReaderContract):
        @pytest.fixture
        def reader(self):
            return acme.reader.build({})

Each suite needs one fixture: `reader`, `analyser` or `proposer`. Two methods may be overridden: `leave`, where a reader
reads files of its own format, and `campaign`, where a proposer has its ideas from something else than a declared grid.
Nothing but pytest is needed.
"""

from __future__ import annotations

import copy
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from perpetual.errors import Conflict
from perpetual.records import Design, Evidence, Experiment, GitState, Hypothesis, Prediction, Resources, Run, Score
from perpetual.records.states import HypothesisStatus, RunStatus
from perpetual.slots.analyser import (
    KERNEL_KINDS,
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
from perpetual.testing.redactors import bundled_redactor
from perpetual.toolkit.deadline import OutOfTime, call

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["AnalyserContract", "MetricReaderContract", "ProposerContract"]

_STARTED_S = 1_700_000_000.0  # POSIX seconds, long before any file that a test writes
_AT_ONCE_S = 1.0
_ENDS: tuple[RunStatus, ...] = ("done", "failed", "killed", "timeout", "lost")
_NOISE = (b"", b"\x00\xff\xfe" * 50, b"\n\n\n", b'{"acc": ', b"[1, 2", b"Traceback (most recent call last):\n  boom\n")


def _files(*folders: Path) -> dict[str, tuple[bytes, int]]:
    """Returns every file with its bytes and its time in ns."""
    found = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


class MetricReaderContract:
    """For every metric reader."""

    bits: ClassVar[int] = 64  # of the form's numbers; 32 where it keeps single precision, as TensorBoard's does

    def as_kept(self, value: float) -> float:
        """Returns the number as the form keeps it."""
        if self.bits == 64:
            return value
        (kept,) = struct.unpack("f", struct.pack("f", value))
        return float(kept)

    def leave(self, place: Path, values: Mapping[str, float]) -> None:
        """Leaves in `place` what a program leaves that measures these values now; a later call comes later.

        This one writes all common forms: lines on `stdout.log` (JSON and text), `metrics.jsonl`, `results.json`.
        """
        line = json.dumps(values) + "\n"
        text = "".join(f"{name}: {value!r}\n" for name, value in values.items())
        for name, more in (("stdout.log", line + text), ("metrics.jsonl", line)):
            with (place / name).open("a", encoding="utf-8") as file:
                file.write(more)
        (place / "results.json").write_text(json.dumps({"metrics": values}), encoding="utf-8")

    @pytest.fixture
    def folder(self, tmp_path: Path) -> RunFolder:
        """Returns the places of a run that has left nothing."""
        for name in ("log", "cwd"):
            (tmp_path / name).mkdir()
        return RunFolder(tmp_path / "log", tmp_path / "cwd", _STARTED_S)

    def test_numbers_are_found_as_they_were_written(self, reader: MetricReader, folder: RunFolder) -> None:
        """To the last digit that the form has; zero is a number."""
        values = {"acc": 0.9300000000000002, "loss": -1.5e-07, "n": 12.0, "none_wrong": 0.0}
        self.leave(folder.log_dir, values)
        found = reader.read(folder)
        assert all(type(item) is MetricValue for item in found.values())
        kept = {name: self.as_kept(value) for name, value in values.items()}
        assert {name: item.value for name, item in found.items()} == kept

    def test_every_metric_has_its_place(self, reader: MetricReader, folder: RunFolder) -> None:
        """One that a person can look up: it begins with the name of a file of the run."""
        self.leave(folder.log_dir, {"acc": 0.5, "loss": math.nan})
        names = [path.name for path in folder.log_dir.rglob("*")]
        found = reader.read(folder)
        assert found
        for name, item in found.items():
            source = item.source.rpartition("/")[2]
            assert any(source == file or source.startswith(f"{file}:") for file in names), f"{name}: {item.source!r}"

    def test_the_last_value_counts(self, reader: MetricReader, folder: RunFolder) -> None:
        """Not the first and not the best."""
        for value in (0.25, 0.75, 0.5):
            self.leave(folder.log_dir, {"acc": value})
        assert {name: item.value for name, item in reader.read(folder).items()} == {"acc": 0.5}

    def test_a_value_that_is_no_finite_number_is_said(self, reader: MetricReader, folder: RunFolder) -> None:
        """NaN and infinities are None with their place, also after a good value; the others stand."""
        self.leave(folder.log_dir, {"acc": 0.5, "a": 1.0, "b": 1.0, "c": 1.0})
        self.leave(folder.log_dir, {"acc": 0.5, "a": math.nan, "b": math.inf, "c": -math.inf})
        found = reader.read(folder)
        assert {name: item.value for name, item in found.items()} == {"acc": 0.5, "a": None, "b": None, "c": None}
        assert all(item.source for item in found.values())

    def test_where_nothing_is_nothing_is_found(self, reader: MetricReader, folder: RunFolder, tmp_path: Path) -> None:
        """Neither in empty folders nor in folders that are gone."""
        assert dict(reader.read(folder)) == {}
        assert dict(reader.read(RunFolder(tmp_path / "gone", tmp_path / "gone too", _STARTED_S))) == {}

    def test_what_cannot_be_parsed_is_no_metric(self, reader: MetricReader, folder: RunFolder) -> None:
        """Other output, bytes that are no text, a file cut off anywhere: no number and no error."""
        self.leave(folder.log_dir, {"acc": 0.5})
        files = [path for path in folder.log_dir.rglob("*") if path.is_file()]
        for noise in _NOISE:
            for path in files:
                path.write_bytes(noise)
            assert dict(reader.read(folder)) == {}, noise

    def test_an_older_file_is_not_the_run_s(self, reader: MetricReader, folder: RunFolder) -> None:
        """What stood in the working directory before the run started."""
        self.leave(folder.cwd, {"acc": 0.5})
        for path in folder.cwd.rglob("*"):
            os.utime(path, (_STARTED_S - 3600, _STARTED_S - 3600))
        assert dict(reader.read(folder)) == {}

    def test_runs_do_not_mix(self, reader: MetricReader, folder: RunFolder, tmp_path: Path) -> None:
        """One reader serves many runs, and what it answers for one depends on that one's folder alone."""
        (tmp_path / "other").mkdir()
        other = RunFolder(tmp_path / "other", folder.cwd, _STARTED_S)
        self.leave(folder.log_dir, {"acc": 0.5, "only_here": 1.0})
        self.leave(other.log_dir, {"acc": 0.25})
        first = dict(reader.read(folder))
        assert {name: item.value for name, item in reader.read(other).items()} == {"acc": 0.25}
        assert dict(reader.read(folder)) == first

    def test_it_never_writes(self, reader: MetricReader, folder: RunFolder) -> None:
        """Neither into the run's folder nor into its working directory."""
        for place in (folder.log_dir, folder.cwd):
            self.leave(place, {"acc": 0.5})
        before = _files(folder.log_dir, folder.cwd)
        reader.read(folder)
        assert _files(folder.log_dir, folder.cwd) == before


def _hypothesis(status: HypothesisStatus = "open", id: str = "h1") -> Hypothesis:
    return Hypothesis(id, "a longer warm-up lowers the loss | `x` é", status, 0.96, 0.5, 20.0, 0.05, 0.05,
                      "2026-01-01T00:00:00Z", (), 3, Prediction("loss", "min", 0.05, 2.3))  # fmt: skip


def _experiment(hypothesis_id: str | None = "h1", metric: str | None = "loss") -> Experiment:
    claim = "at_least" if hypothesis_id and metric else None
    design = Design(metric, "min", baseline=2.3, claim=claim, mde=0.05, noise=0.02, replicates=3, cost_run_hours=0.1)
    return Experiment("e1", hypothesis_id, "warm-up 500", "active", "python train.py", None, {}, {"w": 500},
                      "", (), 0, Resources(wall_s=60.0), design, "0" * 64, Score(None, None, None, ""), {"done": 1},
                      "user:me", "user:me", "2026-01-01T00:00:00Z")  # fmt: skip


def _run(status: RunStatus, metrics: Mapping[str, float | None]) -> Run:
    ended = status != "lost"
    return Run("r1", "e1", 1, 1, status, 7, "local", "77", 77 if ended else None, (), "2026-01-01T00:00:00Z",
               "2026-01-01T00:01:00Z" if ended else None, 60.0 if ended else None,
               {"done": 0, "failed": 3}.get(status), 9 if status == "killed" else None,
               None if status == "done" else f"it {status}", None, 0.02 if ended else None, dict(metrics),
               "/runs/r1", GitState(), False)  # fmt: skip


def _row(id: str, value: float | None, **more: Any) -> Evidence:
    row = Evidence(id, "h1", "e1", "r1", "measured", value, 1.2, 1.0, "user:me", "2026-01-01T00:00:00Z", None, None)
    return replace(row, metric="loss", replicate=1, seed=7, source="stdout.log:4", **more)


def _cases() -> Iterator[tuple[Run, Experiment, Hypothesis | None]]:
    """Runs of every end, with their number, without it, and without a hypothesis or a metric at all."""
    for status in _ENDS:
        yield _run(status, {"loss": 2.2}), _experiment(), _hypothesis()
        yield _run(status, {"loss": None, "reader x failed": None}), _experiment(), _hypothesis("supported")
        yield _run(status, {}), _experiment(None), None
        yield _run(status, {}), replace(_experiment(None, metric=None), command=None), None


def _verdicts() -> Iterator[tuple[Hypothesis, Sequence[Evidence], Sequence[Experiment]]]:
    """Yields both verdicts, on rows of every sort and on none."""
    rows = [
        _row("1", 2.2),
        _row("2", None),
        _row("3", 2.1, retracted_by="4", reason="wrong data"),
        _row("4", None, kind="retraction", log_bayes_factor=None, target="3"),
        _row("5", None, kind="judged", verdict="supports", strength=0.5, run_id=None, experiment_id=None),
    ]
    for status in ("supported", "refuted"):
        yield _hypothesis(status), rows, [_experiment()]
        yield _hypothesis(status), (), ()


_TROUBLE = (b"MemoryError\n", b"Traceback (most recent call last):\nValueError: no\n", b"x" * 100_000 + b" MemoryError")


def _outputs(folder: Path) -> Iterator[RunOutput]:
    """Yields output of every kind of unsuccessful run: none, empty, no text, no file, and words of trouble."""
    for number, status in enumerate(_ENDS[1:]):
        yield RunOutput(status, folder / f"none{number}", folder / f"none{number}", bundled_redactor())
        for each, content in enumerate((*_NOISE, *_TROUBLE)):
            place = folder / f"{status}{each}"
            place.mkdir(exist_ok=True)
            (place / "stderr.log").write_bytes(content)
            (place / "stdout.log").write_bytes(content[::-1])
            yield RunOutput(status, place / "stderr.log", place / "stdout.log", bundled_redactor())
            yield RunOutput(status, place, place, bundled_redactor())


def _check_summary(found: Analysis) -> None:
    assert type(found.summary) is str
    assert found.summary.strip(), "a summary is one line, not none"
    assert found.summary.isprintable(), f"a summary is one printable line, not {found.summary!r}"


class AnalyserContract:
    """For every analyser."""

    def test_every_run_is_put_into_words_or_left(self, analyser: Analyser) -> None:
        """However it ended: an analysis, or None for what is not its business."""
        for run, experiment, hypothesis in _cases():
            found = analyser.analyse(run, experiment, hypothesis)
            assert found is None or type(found) is Analysis, run.status
            if found is not None:
                assert type(found.text) is str

    def test_a_summary_is_one_line(self, analyser: Analyser) -> None:
        """Lists and the brief show it."""
        for case in _cases():
            found = analyser.analyse(*case)
            if found is not None:
                _check_summary(found)

    def test_every_verdict_is_put_into_words_or_left(self, analyser: Analyser) -> None:
        """Whatever it rests on; what it answers becomes a note, so it has a text."""
        for case in _verdicts():
            found = analyser.conclude(*case)
            assert found is None or type(found) is Analysis
            if found is not None:
                _check_summary(found)
                assert found.text.strip(), "the note would be empty"

    def test_the_words_can_be_kept(self, analyser: Analyser) -> None:
        """As a text file: UTF-8 without a NUL."""
        answers = [analyser.analyse(*case) for case in _cases()] + [analyser.conclude(*case) for case in _verdicts()]
        for found in answers:
            if found is not None:
                data = (found.summary + found.text).encode("utf-8", "replace")
                assert data.decode("utf-8") == found.summary + found.text
                assert b"\x00" not in data

    def test_the_same_records_give_the_same_words(self, analyser: Analyser) -> None:
        """A call that was cut off is repeated, and its note is the one that is there already."""
        assert [analyser.analyse(*case) for case in _cases()] == [analyser.analyse(*case) for case in _cases()]
        assert [analyser.conclude(*case) for case in _verdicts()] == [analyser.conclude(*case) for case in _verdicts()]

    def test_symptoms_can_be_recorded(self, analyser: Analyser, tmp_path: Path) -> None:
        """Whatever the output is: one line of each kind, none of the kernel's kinds, the same each time."""
        for output in _outputs(tmp_path):
            found = [*analyser.symptoms(output)]
            assert [*analyser.symptoms(output)] == found, "the same output has the same symptoms"
            kinds = [item.kind for item in found]
            assert len(kinds) == len({*kinds}), f"a kind is answered once, not {kinds}"
            assert not KERNEL_KINDS.intersection(kinds), f"a kind of the kernel's: {kinds}"
            for item in found:
                assert type(item) is Symptom
                assert re.fullmatch(r"[a-z][a-z0-9_-]{0,39}", item.kind), item.kind
                assert item.text.isprintable(), f"a symptom is one printable line, not {item.text!r:.100}"
                assert item.source.isprintable()

    def test_a_pipe_in_the_place_of_output_is_not_waited_for(self, analyser: Analyser, tmp_path: Path) -> None:
        """A run may have put anything in the place of its logs."""
        pipe = tmp_path / "stderr.log"
        os.mkfifo(pipe)
        try:
            assert (
                call(_AT_ONCE_S, lambda: [*analyser.symptoms(RunOutput("failed", pipe, pipe, bundled_redactor()))])
                == []
            )
        except OutOfTime as problem:
            raise AssertionError("it waits for a pipe's writer") from problem

    def test_reading_symptoms_writes_nothing(self, analyser: Analyser, tmp_path: Path) -> None:
        """The output is the run's."""
        outputs = [*_outputs(tmp_path)]
        before = _files(tmp_path)
        for output in outputs:
            analyser.symptoms(output)
        assert _files(tmp_path) == before

    def test_a_hint_is_a_line(self, analyser: Analyser, tmp_path: Path) -> None:
        """For its own kinds and for those of others, which it may not know."""
        kinds = {item.kind for output in _outputs(tmp_path) for item in analyser.symptoms(output)}
        for kind in sorted({*kinds, "oom", "a-kind-of-others"}):
            hint = analyser.hint(kind, _run("failed", {}))
            assert hint is None or (type(hint) is str and hint.strip() and hint.isprintable()), f"{kind}: {hint!r}"

    def test_the_records_stay_as_they_are(self, analyser: Analyser) -> None:
        """Frozen records hold dictionaries: no number in them comes from an analyser."""
        for case in _cases():
            before = copy.deepcopy(case)
            analyser.analyse(*case)
            assert case == before
        for verdict in _verdicts():
            kept = copy.deepcopy(verdict)
            analyser.conclude(*verdict)
            assert verdict == kept


class ProposerContract:
    """For every proposer."""

    def campaign(self, lab: Lab) -> None:
        """Puts into the lab what a proposer has ideas from: here a declared grid, of which one point was proposed."""
        grid = {"lr": [0.1, 0.01, 0.001]}
        claim = lab.hypotheses.add("lr matters", metric="acc", direction="max", mde=0.1, baseline=0.5, params=grid)
        lab.experiments.propose(claim.id, command="python train.py", config={"lr": 0.1}, cost_run_hours=0.1, noise=0.1)

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Iterator[Lab]:
        """Yields a project with the campaign, beside a hypothesis and a baseline of which nothing follows."""
        from perpetual.lab import Lab

        with Lab.init(tmp_path / "project", name="contract") as made:
            made.hypotheses.add("nothing is known of this one")
            made.experiments.propose(command="python baseline.py", metric="acc", direction="max")
            self.campaign(made)
            yield made

    def _asked(self, proposer: Proposer, lab: Lab) -> Sequence[Draft]:
        drafts = proposer.drafts(lab.hypotheses.list(limit=100).items, lab.experiments.list(limit=100).items)
        assert len(drafts) > 0, "the campaign gives it no idea: override `campaign`"
        return drafts

    def test_each_draft_is_for_a_hypothesis_that_it_was_given(self, proposer: Proposer, lab: Lab) -> None:
        """The others are decided, parked, or not there."""
        lab.hypotheses.add("set aside", metric="acc", direction="max", mde=0.1, baseline=0.5, params={"lr": [1.0, 2.0]})
        (aside,) = [item for item in lab.hypotheses.list(limit=100).items if item.statement == "set aside"]
        lab.experiments.propose(aside.id, command="python train.py", config={"lr": 1.0}, cost_run_hours=0.1)
        given = [item for item in lab.hypotheses.list(limit=100).items if item.id != aside.id]
        drafts = proposer.drafts(given, lab.experiments.list(limit=100).items)
        assert len(drafts) > 0, "the campaign gives it no idea: override `campaign`"
        assert {draft.hypothesis_id for draft in drafts} <= {item.id for item in given}

    def test_each_draft_can_be_proposed(self, proposer: Proposer, lab: Lab) -> None:
        """Its arguments are those of `lab.experiments.propose`; one that was tried before is a conflict at most."""
        for draft in self._asked(proposer, lab):
            try:
                lab.experiments.propose(draft.hypothesis_id, **draft.arguments, dry_run=True)
            except Conflict:
                continue
            except Exception as problem:  # noqa: BLE001 - whatever the lab says of it, the draft is what is wrong
                pytest.fail(f"{draft.arguments}: {type(problem).__name__}: {problem}")

    def test_each_draft_is_worth_a_score(self, proposer: Proposer, lab: Lab) -> None:
        """It has a command and makes a claim, or gives a baseline what a claim lacks; else it is never picked."""
        for draft in self._asked(proposer, lab):
            try:
                preview = lab.experiments.propose(draft.hypothesis_id, **draft.arguments, dry_run=True)
            except Conflict:
                continue
            assert preview.command, draft.arguments
            serves = preview.design.claim is not None or {"extends", "proxy_of"} & {*draft.arguments}
            assert serves, f"no claim: {draft.arguments}"

    def test_each_draft_has_a_reason(self, proposer: Proposer, lab: Lab) -> None:
        """In words, for the approving person."""
        for draft in self._asked(proposer, lab):
            assert type(draft) is Draft
            assert draft.reason.strip(), draft.arguments

    def test_with_nothing_to_go_on_there_are_no_drafts(self, proposer: Proposer, lab: Lab) -> None:
        """No hypotheses, or none with experiments: an empty answer and no error."""
        experiments = lab.experiments.list(limit=100).items
        assert list(proposer.drafts((), ())) == []
        assert list(proposer.drafts((), experiments)) == []

    def test_it_copes_with_every_experiment(self, proposer: Proposer, lab: Lab) -> None:
        """Whatever became of it, and whatever it lacks."""
        hypotheses = lab.hypotheses.list(limit=100).items
        known = lab.experiments.list(limit=100).items
        for status in ("proposed", "approved", "rejected", "expired", "active", "complete", "analysed"):
            bare = [replace(item, status=status, command=None, config={}) for item in known]
            for experiments in ([replace(item, status=status) for item in known], bare):
                try:
                    found = proposer.drafts(hypotheses, experiments)
                except Exception as problem:  # noqa: BLE001 - any error at all breaks the promise
                    pytest.fail(f"experiments that are {status}: {type(problem).__name__}: {problem}")
                assert {draft.hypothesis_id for draft in found} <= {item.id for item in hypotheses}

    def test_the_records_stay_as_they_are(self, proposer: Proposer, lab: Lab) -> None:
        """A draft that shares a dictionary with a record must not change it."""
        hypotheses, experiments = lab.hypotheses.list(limit=100).items, lab.experiments.list(limit=100).items
        before = copy.deepcopy((hypotheses, experiments))
        proposer.drafts(hypotheses, experiments)
        assert (hypotheses, experiments) == before
