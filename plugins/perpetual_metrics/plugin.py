"""Entry point of metric readers, the rule-based analyser and the rule-based proposer; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_metric_readers() -> list[Provider]:
    """Offers the places where numbers are looked for, the most reliable first."""
    return [
        Provider("metric_reader", "results-file", "perpetual_metrics.readers:results_file",
                 "results.json in the run's folder or working directory", order=10),
        Provider("metric_reader", "metrics-log", "perpetual_metrics.readers:metrics_log",
                 "JSON lines that the run appended to PERPETUAL_METRICS", order=20),
        Provider("metric_reader", "csv-file", "perpetual_metrics.readers:csv_file",
                 "the last row of results.csv or metrics.csv in the run's folder or working directory", order=25),
        Provider("metric_reader", "loggers", "perpetual_metrics.loggers:build",
                 "files of TensorBoard, W&B, MLflow, and CSV loggers, below both", order=27),
        Provider("metric_reader", "stdout-json", "perpetual_metrics.readers:stdout_json",
                 "JSON lines on standard output", order=30),
        Provider("metric_reader", "stdout-text", "perpetual_metrics.readers:stdout_text",
                 "`name: value` and `name=value` lines on standard output", order=40),
    ]  # fmt: skip


@hookimpl
def perpetual_analysers() -> list[Provider]:
    """Words for runs and verdicts, by rules."""
    return [Provider("analyser", "rules", "perpetual_metrics.analyser:build", "finished runs and verdicts in words")]


@hookimpl
def perpetual_proposers() -> list[Provider]:
    """Experiments by rules: what a claim still lacks, then the grids that hypotheses declare."""
    return [
        Provider("proposer", "noise-floor", "perpetual_metrics.rules:noise_floor",
                 "more runs of a baseline whose noise is not measured yet", order=10),
        Provider("proposer", "full-scale", "perpetual_metrics.rules:full_scale",
                 "the experiment itself, where only stand-ins have spoken", order=20),
        Provider("proposer", "proxies", "perpetual_metrics.rules:proxies",
                 "declared cheap stand-ins of a claim and its baseline", order=30),
        Provider("proposer", "grid", "perpetual_metrics.proposer:build", "untried points of declared grids", order=40),
    ]  # fmt: skip
