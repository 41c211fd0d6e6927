"""The command `bench-policy`. Loaded by the command line when it is called; it needs no project, and touches none."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from perpetual.api import CliContext, PerpetualError, UsageError, json_option, pass_cli
from perpetual_scorers.bench import OfferedScorer, chosen
from perpetual_scorers.process_pool import mapper
from perpetual_scorers.simulate import WORLDS, Result, bench

if TYPE_CHECKING:
    from perpetual_scorers.documents import BenchPolicy, PolicyResult, PolicySaidTrue

__all__ = ["bench_policy"]

_EVERY_S = 2.0  # between two lines of progress
_PICTURES = (".svg", ".png")
_N = TypeVar("_N", int, float)


@click.command("bench-policy")
@click.option(
    "--policy", "policies", multiple=True, metavar="NAME|FILE.py",
    help="A scorer's name, or a file that holds one (a Scorer, or build(options)). By default every installed one.",
)  # fmt: skip
@click.option(
    "--episodes", type=click.IntRange(1, 10_000), default=20, show_default=True,
    help="Simulated campaigns of each policy in each cell.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True,
    help="The same seed gives the same campaigns, whatever --jobs is.",
)  # fmt: skip
@click.option(
    "--thresholds", default="0.8,0.95", show_default=True, metavar="P,...",
    help="Support thresholds, between 0.5 and 1; refuted is one minus it.",
)  # fmt: skip
@click.option("--batch", default="1,3", show_default=True, metavar="K,...", help="Runs that are chosen at a time.")
@click.option(
    "--world", type=click.Choice(WORLDS), default="standard", show_default=True,
    help="Whether what is declared of effect and noise is true.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes that compute.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.svg|png|json",
    help="Also write a picture, or the JSON document, to this file.",
)  # fmt: skip
@json_option
@pass_cli
def bench_policy(
    cli: CliContext,
    policies: tuple[str, ...],
    episodes: int,
    seed: int,
    thresholds: str,
    batch: str,
    world: str,
    jobs: int,
    output: Path | None,
) -> int:
    """Compare scorers in simulated research whose truth is known: run-hours to a decision, and errors.

    A campaign has twelve hypotheses with four designs each; a policy chooses runs until each is decided. All policies
    meet the same campaigns and the same evidence rule. A policy that raises, answers nonsense or is not pure fails its
    own rows; the exit is 1 only if all of them failed.
    """
    levels = [_number(text, "--thresholds", float) for text in thresholds.split(",")]
    sizes = [_number(text, "--batch", int) for text in batch.split(",")]
    if output is not None:
        _check_output(output)
    offers = [
        OfferedScorer(offer["name"], offer["qualified_name"], offer["factory"], offer["options"])
        for offer in cli.inventory().offered("scorer")
    ]
    known = chosen(policies, offers)
    last_s = time.monotonic()

    def progress(done: int, whole: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _EVERY_S:
            last_s = time.monotonic()
            cli.progress(f"{done} of {whole} campaigns")

    try:
        with mapper(jobs) as run:
            results = bench(known, thresholds=levels, batches=sizes, world=world, episodes=episodes, seed=seed,
                            run=run, progress=progress)  # fmt: skip
    except ValueError as problem:
        raise UsageError(str(problem)) from problem
    document: BenchPolicy = {
        "seed": seed,
        "episodes": episodes,
        "world": world,
        "results": [_document(result) for result in results],
        "path": os.fspath(output.absolute()) if output else None,
    }
    if output is not None:
        _write(output, results, document)
    if cli.as_json:
        cli.answer("bench_policy", {**document}, "")
    else:
        _show(cli, results, f"{episodes} campaigns each, {world} world, seed {seed}", output)
    return 1 if all(result.problem for result in results) else 0


def _document(result: Result) -> PolicyResult:
    said = result.said_true
    said_true: PolicySaidTrue | None = None
    if said is not None:
        said_true = {"n": said.n, "true_share": said.true_share, "mean_confidence": said.mean_confidence}
    return {
        "policy": result.policy,
        "threshold": result.threshold,
        "batch": result.batch,
        "world": result.world,
        "episodes": result.episodes,
        "run_hours": result.run_hours,
        "low": result.low,
        "high": result.high,
        "runs": result.runs,
        "error_rate": result.error_rate,
        "undecided": result.undecided,
        "brier": result.brier,
        "ece": result.ece,
        "said_true": said_true,
        "false_support_rate": result.false_support_rate,
        "false_support_bound": result.false_support_bound,
        "problem": result.problem,
    }


def _number(text: str, flag: str, kind: Callable[[str], _N]) -> _N:
    try:
        return kind(text.strip())
    except ValueError as problem:
        raise UsageError(f"{flag} takes numbers with commas between them, not {text!r}") from problem


def _check_output(output: Path) -> None:
    """Checks, before anything is computed, that the kind of file that the name asks for can be written."""
    from perpetual_scorers.picture import require_matplotlib

    suffix = output.suffix.lower()
    if suffix not in (*_PICTURES, ".json"):
        raise UsageError(f"-o writes .svg, .png or .json, not {output.name}", hint="-o policies.svg")
    if suffix in _PICTURES:
        require_matplotlib()
    if not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.absolute().parent}", hint="mkdir it, or write elsewhere")


def _write(output: Path, results: Sequence[Result], document: BenchPolicy) -> None:
    from perpetual_scorers.picture import draw

    title = f"{document['episodes']} simulated campaigns each, {document['world']} world, seed {document['seed']}"
    try:
        if output.suffix.lower() == ".json":
            output.write_text(json.dumps({"schema": "perpetual.bench_policy/1", **document}, indent=2) + "\n", "utf-8")
        else:
            draw(results, output, title)
    except OSError as problem:
        raise PerpetualError(
            f"{output} could not be written: {problem.strerror or problem}", hint="choose another file with -o"
        ) from problem


def _show(cli: CliContext, results: Sequence[Result], title: str, output: Path | None) -> None:
    columns = ("policy", "threshold", "batch", "run-hours [95 %]", "runs", "error", "undecided", "Brier", "ECE",
               "said >= 0.8: true", "false support (bound)")  # fmt: skip
    sound = [result for result in results if result.problem is None]
    if sound:
        cli.table(columns, [_cells(result) for result in sound], title=title)
    for name in dict.fromkeys(result.policy for result in results if result.problem):
        problems = dict.fromkeys(result.problem for result in results if result.policy == name and result.problem)
        for problem in problems:
            cli.progress(f"failed: {name}: {problem}")
    if output is not None:
        click.echo(f"wrote {output}")
    elif not sound:
        click.echo("no policy kept the contract of a scorer")


def _cells(result: Result) -> Iterable[str]:
    said = result.said_true
    share = said.true_share if said else None
    return (
        result.policy,
        f"{result.threshold:g}",
        str(result.batch),
        f"{result.run_hours:.1f} [{result.low:.1f}, {result.high:.1f}]",
        f"{result.runs:.0f}",
        _percent(result.error_rate),
        f"{result.undecided:.2f} of 12",
        f"{result.brier:.3f}",
        f"{result.ece:.3f}",
        _percent(share) + (f" ({_percent(said.mean_confidence)} said)" if said and said.n else ""),
        f"{_percent(result.false_support_rate)} ({_percent(result.false_support_bound)})",
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
