"""The command `bench-policy`. Loaded by the command line when it is called; it needs no project, and touches none."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import click

from perpetual.api import CliContext, PerpetualError, PluginError, UsageError, json_option, pass_cli
from perpetual_scorers.bench import OfferedScorer, chosen
from perpetual_scorers.process_pool import mapper
from perpetual_scorers.simulate import (
    ARMS,
    HYPOTHESES,
    MENUS,
    WORLDS,
    Arm,
    Bench,
    Broken,
    Cell,
    Comparison,
    Policy,
    Result,
    benched,
)
from perpetual_scorers.stopping import InstalledStopper
from perpetual_scorers.stopping_bench import savings

if TYPE_CHECKING:
    from perpetual_scorers.documents import BenchPolicy, PolicyComparison, PolicyResult, StoppingSaving
    from perpetual_stoppers.stopper import Stopper

__all__ = ["bench_policy"]

_EVERY_S = 2.0  # between two lines of progress
_PICTURES = (".svg", ".png")
_SCHEMA = "perpetual.bench_policy/1"
_DEFAULT = "information-gain"
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
@click.option(
    "--menu", type=click.Choice([*MENUS]), default="proxy", show_default=True,
    help="Designs of each hypothesis: a standard one, a cheap stand-in too, or also the full scale and a poor one.",
)  # fmt: skip
@click.option(
    "--base-rate", type=click.FloatRange(0, 1), default=0.25, show_default=True, metavar="P",
    help="Share of the hypotheses that are true.",
)  # fmt: skip
@click.option(
    "--seed-correlation", type=click.FloatRange(0, 1), default=0.0, show_default=True, metavar="R",
    help="Correlation of the runs of claim and baseline on one seed.",
)  # fmt: skip
@click.option(
    "--arms", is_flag=True,
    help="Also run the first policy without shared seeds, without baseline runs, and by an earlier evidence rule.",
)  # fmt: skip
@click.option(
    "--stopping", is_flag=True,
    help="Also say what each installed stopper saves of the first policy's run-hours, at the same and at equal error.",
)  # fmt: skip
@click.option(
    "--curve-correlation", type=click.FloatRange(0, 1), default=0.9, show_default=True, metavar="R",
    help="Correlation of a run's value at a quarter of its steps with its last one; for --stopping.",
)  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 256), default=2, show_default=True, help="Processes that compute.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.svg|png|json",
    help="Also write a picture, or the JSON document, to this file; no file but an earlier one of these is replaced.",
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
    menu: str,
    base_rate: float,
    seed_correlation: float,
    arms: bool,
    stopping: bool,
    curve_correlation: float,
    jobs: int,
    output: Path | None,
) -> int:
    """Compare scorers in simulated research whose truth is known: right verdicts by run-hours, and errors.

    A campaign has twelve hypotheses on three baselines, which are run too; a policy chooses runs until each is decided
    by the lab's own rules. All policies meet the same campaigns. A policy that raises, answers nonsense or is not pure
    fails its own rows; the exit is 1 only if all of them failed. The first policy (information-gain, where it is one
    of them) is compared with each other one, where it helps and where it does not.
    """
    levels = [_number(text, "--thresholds", float) for text in thresholds.split(",")]
    sizes = [_number(text, "--batch", int) for text in batch.split(",")]
    if output is not None:
        _check_output(output)
    offers = [
        OfferedScorer(offer["name"], offer["qualified_name"], offer["factory"], offer["options"])
        for offer in cli.inventory().offered("scorer")
    ]
    known: dict[str, Policy | Arm] = {**chosen(policies, offers)}
    first = _DEFAULT if _DEFAULT in known else next(iter(known))
    if arms:
        known |= {f"{first}, {name}": Arm(chosen([first], offers)[first], each) for name, each in ARMS.items()}
    last_s = time.monotonic()

    def progress(done: int, whole: int) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= _EVERY_S:
            last_s = time.monotonic()
            cli.progress(f"{done} of {whole} campaigns")

    cells = [
        Cell(level, size, world, menu, base_rate, seed_correlation, curve_correlation)
        for level in levels
        for size in sizes
    ]
    saved: list[StoppingSaving] = []
    try:
        with mapper(jobs) as run:
            found = benched(known, cells, reference=first, episodes=episodes, seed=seed, run=run, progress=progress)
            if stopping and all(result.problem is None for result in found.results if result.policy == first):
                stoppers: dict[str, Stopper] = {
                    offer["name"]: InstalledStopper(offer["factory"], offer["options"])
                    for offer in cli.inventory().offered("stopper")
                }
                policy = chosen([first], offers)[first]
                saved = savings(policy, stoppers, cells, episodes=episodes, seed=seed, run=run, progress=progress)
    except ValueError as problem:
        raise UsageError(str(problem)) from problem
    except Broken as problem:
        raise PluginError(f"a stopper cannot be tried: {problem}", hint="perpetual plugins list") from problem
    results = found.results
    document: BenchPolicy = {
        "seed": seed,
        "episodes": episodes,
        "world": world,
        "menu": menu,
        "base_rate": base_rate,
        "seed_correlation": seed_correlation,
        "curve_correlation": curve_correlation,
        "results": [_document(result) for result in results],
        "comparisons": [cast("PolicyComparison", asdict(each)) for each in found.comparisons],
        "stopping": saved,
        "path": os.fspath(output.absolute()) if output else None,
    }
    if output is not None:
        _write(output, results, document)
    if cli.as_json:
        cli.answer("bench_policy", {**document}, "")
    else:
        _show(cli, found, _title(document), output)
        if saved:
            title = f"what early stopping saves {first}, curves correlating {curve_correlation:g}"
            cli.table(_SAVED, [_saving(each) for each in saved], title=title)
    return 1 if all(result.problem for result in results) else 0


def _title(document: BenchPolicy) -> str:
    return (
        f"{document['episodes']} campaigns each, {document['world']} world, {document['menu']} menu, "
        f"base rate {document['base_rate']:g}, seed correlation {document['seed_correlation']:g}, "
        f"seed {document['seed']}"
    )


def _document(result: Result) -> PolicyResult:
    return cast("PolicyResult", asdict(result))


def _number(text: str, flag: str, kind: Callable[[str], _N]) -> _N:
    try:
        return kind(text.strip())
    except ValueError as problem:
        raise UsageError(f"{flag} takes numbers with commas between them, not {text!r}") from problem


def _check_output(output: Path) -> None:
    """Checks, before anything is computed, that the kind of file that the name asks for can be written there."""
    from perpetual_report.replacing import check_replaceable
    from perpetual_scorers.picture import MARK, require_matplotlib

    suffix = output.suffix.lower()
    if suffix not in (*_PICTURES, ".json"):
        raise UsageError(f"-o writes .svg, .png or .json, not {output.name}", hint="-o policies.svg")
    if suffix in _PICTURES:
        require_matplotlib()
    if not output.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {output.absolute().parent}", hint="mkdir it, or write elsewhere")
    check_replaceable(output, (MARK.encode(), _SCHEMA.encode()), "comparison of policies")


def _write(output: Path, results: Sequence[Result], document: BenchPolicy) -> None:
    from perpetual_scorers.picture import draw

    try:
        if output.suffix.lower() == ".json":
            output.write_text(json.dumps({"schema": _SCHEMA, **document}, indent=2) + "\n", "utf-8")
        else:
            draw(results, output, _title(document))
    except OSError as problem:
        raise PerpetualError(
            f"{output} could not be written: {problem.strerror or problem}", hint="choose another file with -o"
        ) from problem


def _show(cli: CliContext, found: Bench, title: str, output: Path | None) -> None:
    sound = [result for result in found.results if result.problem is None]
    if sound:
        cli.table(_ACHIEVED, [_achieved(result) for result in sound], title=title)
        cli.table(_HONEST, [_honest(result) for result in sound], title="how honest the verdicts are")
    if found.comparisons:
        title = f"where {found.comparisons[0].policy} helps, and where it does not"
        cli.table(_COMPARED, [_compared(each) for each in found.comparisons], title=title)
    for name in dict.fromkeys(result.policy for result in found.results if result.problem):
        problems = dict.fromkeys(result.problem for result in found.results if result.policy == name and result.problem)
        for problem in problems:
            cli.progress(f"failed: {name}: {problem}")
    if output is not None:
        click.echo(f"wrote {output}")
    elif not sound:
        click.echo("no policy kept the contract of a scorer")


_ACHIEVED = ("policy", "threshold", "batch", "right after 10, 20, 40 [95 %], 80 h", "hours to half right",
             "run-hours [95 %]", "runs", "undecided")  # fmt: skip
_HONEST = ("policy", "threshold", "batch", "error", "false support (bound)", "Brier", "ECE", "said >= 0.8: true")
_SAVED = ("stopper", "threshold", "batch", "run-hours saved [95 %]", "errors", "false support", "right", "undecided")
_COMPARED = ("against", "threshold", "batch", "right after 40 h", "hours to half", "hours to all", "errors", "it")


def _achieved(result: Result) -> Iterable[str]:
    return (
        result.policy,
        f"{result.threshold:g}",
        str(result.batch),
        f"{result.right_10:.1f}, {result.right_20:.1f}, {result.right_40:.1f} "
        f"[{result.right_40_low:.1f}, {result.right_40_high:.1f}], {result.right_80:.1f}",
        f"{result.half_hours:.1f}",
        f"{result.run_hours:.1f} [{result.low:.1f}, {result.high:.1f}]",
        f"{result.runs:.0f}",
        f"{result.undecided:.2f} of {HYPOTHESES}",
    )


def _honest(result: Result) -> Iterable[str]:
    said = result.said_true
    share = said.true_share if said else None
    return (
        result.policy,
        f"{result.threshold:g}",
        str(result.batch),
        _percent(result.error_rate),
        f"{_percent(result.false_support_rate)} ({_percent(result.false_support_bound)})",
        "-" if result.brier is None else f"{result.brier:.3f}",
        "-" if result.ece is None else f"{result.ece:.3f}",
        _percent(share) + (f" ({_percent(said.mean_confidence)} said)" if said and said.n else ""),
    )


def _compared(each: Comparison) -> Iterable[str]:
    equal = f" (it at {each.threshold:g}, for equal errors)" if each.equal_error else ""
    return (
        each.against,
        f"{each.against_threshold:g}{equal}",
        str(each.batch),
        _times(each.right_ratio, each.right_low, each.right_high),
        _times(each.hours_ratio, each.hours_low, each.hours_high),
        _times(each.total_ratio, each.total_low, each.total_high),
        f"{_percent(each.error_rate)} and {_percent(each.against_error_rate)}",
        {"helps": "helps", "worse": "is worse"}.get(each.says, "makes no difference"),
    )


def _saving(each: StoppingSaving) -> Iterable[str]:
    equal = f" (against {each['full_threshold']:g}: equal errors)" if each["equal_error"] else ""
    hours = "-" if each["saved"] is None else f"{100 * each['saved']:.0f} %"
    if each["saved_low"] is not None and each["saved_high"] is not None:
        hours += f" [{100 * each['saved_low']:.0f}, {100 * each['saved_high']:.0f}]"
    return (
        each["stopper"],
        f"{each['threshold']:g}{equal}",
        str(each["batch"]),
        hours,
        f"{_percent(each['error_rate'])} and {_percent(each['full_error_rate'])}",
        f"{_percent(each['false_support_rate'])} and {_percent(each['full_false_support_rate'])}",
        f"{each['right']:.1f} and {each['full_right']:.1f}",
        f"{each['undecided']:.2f} and {each['full_undecided']:.2f}",
    )


def _times(ratio: float | None, low: float | None, high: float | None) -> str:
    if ratio is None or low is None:
        return "the other has none"
    return f"x{ratio:.2f} [{low:.2f}, {'-' if high is None else f'{high:.2f}'}]"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
