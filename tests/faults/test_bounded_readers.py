"""Readers and gates answer in bounded time, whatever a run printed and whatever a plugin's expression does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Gate, GateVerdict, MetricReader, MetricValue, RunFolder, TextProvenance
from perpetual.lab.runs import measure
from perpetual.toolkit import deadline
from perpetual_metrics.readers import CsvFile, MetricsLog, StdoutJson, StdoutText, csv_file, results_file, stdout_text

CATASTROPHIC = re.compile(r"(a+)+$")
EVIL = "a" * 40 + "b"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path, tmp_path, started_at_s=0.0)


def _cpu(deed: Callable[[], object]) -> float:
    began = time.thread_time()
    deed()
    return time.thread_time() - began


@pytest.mark.parametrize("digits", ["1" * 1900, "1" * 950 + "." + "1" * 950, "." + "1" * 1900, "1e" + "1" * 1900])
def test_long_numbers_on_standard_output_cost_their_length(folder: RunFolder, digits: str) -> None:
    (folder.log_dir / "stdout.log").write_text(f"a: {digits}x\n" * 200 + "loss: 2.5\n")
    assert _cpu(lambda: stdout_text({}).read(folder)) < 2.0  # 200 lines were 15 s
    assert stdout_text({}).read(folder)["loss"] == MetricValue(2.5, "stdout.log:201")


def test_a_long_cell_costs_its_length(folder: RunFolder) -> None:
    (folder.log_dir / "metrics.csv").write_text("loss,acc\n" + "1" * 130_000 + "x,0.5\n2.5," + "." * 9000 + "\n")
    assert _cpu(lambda: csv_file({}).read(folder)) < 2.0
    assert csv_file({}).read(folder) == {
        "acc": MetricValue(0.5, "metrics.csv:2"),
        "loss": MetricValue(2.5, "metrics.csv:3"),
    }


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("stdout.log", StdoutText),
        ("stdout.log", StdoutJson),
        ("metrics.jsonl", MetricsLog),
        ("metrics.csv", CsvFile),
    ],
)
def test_a_reader_stops_at_its_limit(folder: RunFolder, name: str, reader: Callable[..., MetricReader]) -> None:
    (folder.log_dir / name).write_text('{"a": 1}, b: 2\n' * 3000)
    found, notes = measure.read_all([("x/slow", reader(limit_s=-1.0))], folder)
    assert (found, len(notes)) == ({}, 1)
    assert "the metric reader x/slow stopped after" in notes[0]["text"]


class _Catastrophe(MetricReader):
    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        try:
            CATASTROPHIC.match(EVIL)
        except Exception:  # noqa: BLE001 - as careless plugins do
            return {}
        return {}


def test_a_plugins_catastrophic_expression_is_stopped_and_the_others_read(folder: RunFolder) -> None:
    (folder.log_dir / "results.json").write_text('{"loss": 2.5}')
    readers = [("x/evil", _Catastrophe()), ("results-file", results_file({}))]
    found, notes = measure.read_all(readers, folder, limit_s=0.2)
    assert found == {"loss": MetricValue(2.5, "results.json:loss")}
    assert notes == [{"kind": "metrics", "text": "the metric reader x/evil stopped after 0.2 s", "source": "x/evil"}]


class _Hanging(Gate):
    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        CATASTROPHIC.match(EVIL)
        return GateVerdict("pass")


def test_a_gate_that_does_not_answer_refuses(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perpetual.lab import gates

    with Lab.open(project) as lab:
        lab.settings.set_config("plugin_gate_s", "0.2")
        judges = gates.Gates(lab.context)
        monkeypatch.setattr(lab.context, "parts", lambda slot: [("x/hanging", _Hanging())])
        verdict, text = judges.judge("a note", TextProvenance("a.md", "note", "me"))
    assert (verdict.outcome, verdict.category) == ("reject", "gate_failed")
    assert verdict.findings[0]["excerpt"] == "the gate failed: stopped after 0.2 s"
    assert "a note" not in text


def test_a_limit_leaves_the_timer_of_others_as_it_was() -> None:
    import signal

    struck: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: struck.append(number))
    running = signal.setitimer(signal.ITIMER_REAL, 100.0)
    try:
        with pytest.raises(deadline.OutOfTime):
            deadline.call(0.05, lambda: CATASTROPHIC.match(EVIL))
        assert deadline.call(5.0, lambda: 3) == 3
        assert 50.0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 100.0
        assert not struck
    finally:
        signal.setitimer(signal.ITIMER_REAL, *running)
        signal.signal(signal.SIGALRM, before)
