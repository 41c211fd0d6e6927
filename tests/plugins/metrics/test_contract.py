"""The bundled metric readers, analyser and proposer keep the promises of their slots."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Draft, Experiment, Hypothesis, MetricReader
from perpetual.testing.analysis import AnalyserContract, MetricReaderContract, ProposerContract
from perpetual_metrics import analyser, loggers, proposer, readers, rules
from perpetual_metrics.event_files import crc32c


@pytest.mark.parametrize("build", [readers.results_file, readers.metrics_log, readers.stdout_json, readers.stdout_text])
class TestReaders(MetricReaderContract):
    """Each of those that read what every program may leave."""

    @pytest.fixture
    def reader(self, build: Callable[[Mapping[str, Any]], MetricReader]) -> MetricReader:
        """One reader."""
        return build({})


class TestCsvReader(MetricReaderContract):
    """`csv-file`, which reads a table that grows by rows."""

    def leave(self, place: Path, values: Mapping[str, float]) -> None:
        """A further row; the first call writes the names."""
        path = place / "metrics.csv"
        names = "" if path.exists() else ",".join(["step", *values]) + "\n"
        with path.open("a") as file:
            file.write(names + ",".join(["1", *map(repr, values.values())]) + "\n")

    @pytest.fixture
    def reader(self) -> MetricReader:
        """The reader of tables."""
        return readers.csv_file({})


class TestLoggers(MetricReaderContract):
    """`loggers`, with a table in a folder of its own."""

    def leave(self, place: Path, values: Mapping[str, float]) -> None:
        """A further row; the first call writes the names."""
        path = place / "version_0" / "metrics.csv"
        path.parent.mkdir(exist_ok=True)
        names = "" if path.exists() else ",".join(["step", *values]) + "\n"
        with path.open("a") as file:
            file.write(names + ",".join(["1", *map(repr, values.values())]) + "\n")

    @pytest.fixture
    def reader(self) -> MetricReader:
        """The reader of training loggers' files."""
        return loggers.build({})


class TestEventFiles(TestLoggers):
    """`loggers`, with TensorBoard's event files."""

    bits = 32

    def leave(self, place: Path, values: Mapping[str, float]) -> None:
        """A further record for each value."""
        with (place / "events.out.tfevents.1.host").open("ab") as file:
            for name, value in values.items():
                tag = name.encode()
                one = b"\x0a" + bytes([len(tag)]) + tag + b"\x15" + struct.pack("<f", value)
                summary = b"\x0a" + bytes([len(one)]) + one
                event = b"\x2a" + bytes([len(summary)]) + summary
                length = struct.pack("<Q", len(event))
                file.write(length + self._masked(length) + event + self._masked(event))

    @staticmethod
    def _masked(data: bytes) -> bytes:
        check = crc32c(data)
        return struct.pack("<I", ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class TestRuleAnalyser(AnalyserContract):
    """`rules`."""

    @pytest.fixture
    def analyser(self) -> analyser.RuleAnalyser:
        """The rule-based analyser."""
        return analyser.build({})


class TestGridProposer(ProposerContract):
    """`grid`."""

    @pytest.fixture
    def proposer(self) -> proposer.GridProposer:
        """The rule-based proposer."""
        return proposer.build({})


def _baseline(lab: Lab, **given: Any) -> Experiment:
    """A baseline with two finished runs, and a claim against it."""
    made = lab.experiments.propose(command="echo acc=0.5", metric="acc", replicates=2, wall_s=60.0)
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    lab.wait([made.id], timeout_s=60)
    claim = lab.hypotheses.add("warm-up matters", metric="acc", direction="max", mde=0.1, baseline=made.id)
    return lab.experiments.propose(claim.id, command="python train.py", noise=0.1, cost_run_hours=0.1, **given)


class TestNoiseFloor(ProposerContract):
    """`noise-floor`."""

    def campaign(self, lab: Lab) -> None:
        """A baseline whose noise two runs cannot tell."""
        _baseline(lab)

    @pytest.fixture
    def proposer(self) -> rules.NoiseFloor:
        """The proposer of further baseline runs."""
        return rules.noise_floor({})


class TestProxies(ProposerContract):
    """`proxies`."""

    def campaign(self, lab: Lab) -> None:
        """A claim with a declared stand-in, that of its baseline being there."""
        whole = _baseline(lab, proxy={"args": "--steps 5", "cost_run_hours": 0.01})
        below = str(whole.design.baseline)
        lab.experiments.propose(command="echo acc=0.5 --steps 5", metric="acc", proxy_of=below)

    @pytest.fixture
    def proposer(self) -> rules.Proxies:
        """The proposer of stand-ins."""
        return rules.proxies({})


class _PastOnStandIns(rules.FullScale):
    """`full-scale` for hypotheses of which each is past a threshold on stand-ins only."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """As if stand-ins had spoken for what the campaign has run itself."""
        run = [item for item in experiments if item.design.claim is not None and item.command == "echo acc=0.9"]
        short = [replace(item, id="e999", design=replace(item.design, proxy_of=item.id)) for item in run]
        return super().drafts([replace(item, needs="full_scale") for item in hypotheses], [*experiments, *short])


class TestFullScale(ProposerContract):
    """`full-scale`."""

    def campaign(self, lab: Lab) -> None:
        """An open claim whose own run is used up."""
        claim = lab.hypotheses.add("warm-up matters", metric="acc", direction="max", mde=0.5, baseline=0.5)
        made = lab.experiments.propose(claim.id, command="echo acc=0.9", noise=5.0, cost_run_hours=0.1)
        lab.experiments.approve(made.id)
        lab.wait([lab.runs.launch(made.id)[0].id], timeout_s=60)

    @pytest.fixture
    def proposer(self) -> rules.FullScale:
        """The proposer of what stand-ins stand in for."""
        return _PastOnStandIns()
