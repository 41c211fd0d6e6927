"""The bundled metric readers, analyser and proposer keep the promises of their slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from perpetual.api import MetricReader
from perpetual.testing.analysis import AnalyserContract, MetricReaderContract, ProposerContract
from perpetual_metrics import analyser, proposer, readers


@pytest.mark.parametrize("build", [readers.results_file, readers.metrics_log, readers.stdout_json, readers.stdout_text])
class TestReaders(MetricReaderContract):
    """Each of the four."""

    @pytest.fixture
    def reader(self, build: Callable[[Mapping[str, Any]], MetricReader]) -> MetricReader:
        """One reader."""
        return build({})


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
