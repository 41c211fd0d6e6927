"""The rule-based analyser: says what a run or a verdict means without any model.

Only the factory `build` is imported from outside, by the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from perpetual.api import Analyser, Analysis, Evidence, Experiment, Hypothesis, Run, RunOutput, Symptom
from perpetual.toolkit.causes import reason_with_cause
from perpetual.toolkit.units import counted

__all__ = ["RuleAnalyser", "build"]


class RuleAnalyser(Analyser):
    """Pure; see `perpetual.slots.analyser` for the contract."""

    def analyse(self, run: Run, experiment: Experiment, hypothesis: Hypothesis | None) -> Analysis:
        """Returns one line for every run; a text (which becomes a note) only for one that failed."""
        metric = experiment.design.metric
        value = run.metrics.get(metric) if metric else None
        if run.status == "done":
            measured = f"{metric} {value:.5g}" if metric and value is not None else run.reason or "no metric declared"
            return Analysis(f"{run.id} of {experiment.id} done: {measured}", "")
        why = reason_with_cause(run.reason, run.annotations) or "no reason recorded"
        text = (
            f"# {experiment.id} {run.status}: {why}\n\n"
            f"Run {run.id} (replicate {run.replicate}, attempt {run.attempt}) of {experiment.id} ended as "
            f"{run.status} after {run.duration_s or 0.0:.1f} s: {why}.\n\n"
            f"Command: `{experiment.command}`\n\nIt is no evidence for or against anything.\n"
        )
        return Analysis(f"{run.id} of {experiment.id} {run.status}: {why}", text)

    def conclude(
        self, hypothesis: Hypothesis, evidence: Sequence[Evidence], experiments: Sequence[Experiment]
    ) -> Analysis:
        """Returns the verdict with its numbers and the rows that it rests on."""
        rows = [row for row in evidence if row.kind == "measured" and row.retracted_by is None]
        lines = [
            f"# {hypothesis.id} {hypothesis.status}: {hypothesis.statement}",
            "",
            f"Confidence {hypothesis.confidence:.3f} from a prior of {hypothesis.prior:g}; "
            f"{_bound(hypothesis)}; {counted(len(rows), 'measured run')}.",
            "",
        ]
        lines += [f"To be known: {'; '.join(hypothesis.flags)}.", ""] if hypothesis.flags else []
        for experiment in experiments:
            own = [row for row in rows if row.experiment_id == experiment.id and row.value is not None]
            if own:
                values = [row.value for row in own if row.value is not None]
                mean = math.fsum(values) / len(values)
                lines.append(
                    f"- {experiment.id} ({experiment.title}): mean {experiment.design.metric} {mean:.5g} over "
                    f"{counted(len(own), 'run')} against baseline {experiment.design.baseline} "
                    f"({', '.join(row.run_id or '?' for row in own)})"
                )
        summary = f"{hypothesis.id} is {hypothesis.status} at confidence {hypothesis.confidence:.2f}"
        return Analysis(summary, "\n".join(lines) + "\n")

    def symptoms(self, output: RunOutput) -> list[Symptom]:
        """Returns the lines of the output in which well-known programs name their trouble."""
        from perpetual_metrics.symptoms import seen_in  # its patterns cost milliseconds that few commands need

        return seen_in(output)

    def hint(self, kind: str, run: Run) -> str | None:
        """Returns a way out of a symptom of this analyser, also for runs that earlier versions recorded."""
        from perpetual_metrics.symptoms import hint_of

        return hint_of(kind, run)


def _bound(hypothesis: Hypothesis) -> str:
    if hypothesis.false_alarm_bound is None:
        return f"decided by {hypothesis.decided_by or 'hand'}, no false-alarm bound"
    return f"false-alarm bound {hypothesis.false_alarm_bound:.3g}"


def build(options: Mapping[str, object]) -> RuleAnalyser:
    """Builds the provider `rules`."""
    return RuleAnalyser()
