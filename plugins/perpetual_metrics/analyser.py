"""The rule-based analyser: says what a run or a verdict means without any model.

Only the factory `build` is imported from outside, by the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping

from perpetual.api import Analyser, Analysis, Experiment, Hypothesis, Run, RunOutput, Symptom
from perpetual.toolkit.causes import reason_with_cause

__all__ = ["RuleAnalyser", "build"]


class RuleAnalyser(Analyser):
    """Pure; see `perpetual.slots.analyser` for the contract."""

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> Analysis:
        """Returns one line for every run; notes of crashes and verdicts are the plugin `notes`' own."""
        metric = experiment.design.metric
        value = run.metrics.get(metric) if metric else None
        if run.status == "done":
            measured = f"{metric} {value:.5g}" if metric and value is not None else run.reason or "no metric declared"
            return Analysis(f"{run.id} of {experiment.id} done: {measured}", "")
        why = reason_with_cause(run.reason, run.annotations) or "no reason recorded"
        return Analysis(f"{run.id} of {experiment.id} {run.status}: {why}", "")

    def symptoms(self, output: RunOutput) -> list[Symptom]:
        """Returns the lines of the output in which well-known programs name their trouble."""
        from perpetual_metrics.symptoms import seen_in  # its patterns cost milliseconds that few commands need

        return seen_in(output)

    def hint(self, kind: str, run: Run) -> str | None:
        """Returns a way out of a symptom of this analyser, also for runs that earlier versions recorded."""
        from perpetual_metrics.symptoms import hint_of

        return hint_of(kind, run)


def build(options: Mapping[str, object]) -> RuleAnalyser:
    """Builds the provider `rules`."""
    return RuleAnalyser()
