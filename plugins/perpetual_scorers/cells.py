"""Measures the evidence rule in the cells that attack it: `python -m perpetual_scorers.cells`, or `make bench-science`.

Each cell violates one assumption, as it happens in a lab. Where the record can see the violation, the rates that are
promised must hold: P(ever e >= 20) <= 5 % and P(ever the false verdict) <= 25 %, with a look after every run. Where it
cannot, a caution must be beside the verdict. Power cells say what the rule's honesty costs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase

from perpetual_scorers.attack import Cell, Tally, failures, measure, upper_limit
from perpetual_scorers.cell_table import CELLS
from perpetual_scorers.process_pool import mapper

__all__ = ["CELLS", "main"]


def _share(k: float, n: int) -> str:
    return f"{100 * k / n:.1f}" if n else "-"


def _line(cell: Cell, tally: Tally, problems: Sequence[str]) -> str:
    n = tally.nulls
    shown = [
        cell.name,
        cell.defect,
        f"{_share(tally.ever_e, n)} <{100 * upper_limit(tally.ever_e, n):.1f}",
        f"{_share(tally.ever_false, n)} <{100 * upper_limit(tally.ever_false, n):.1f}",
        "seen" if not cell.cautions else f"{_share(tally.cautioned, n)}/{_share(tally.cautioned_last, n)}",
        f"{tally.last_e / n:.2g}",
        f"{_share(tally.covered, n)}/{_share(tally.covered_at_verdict, tally.ever_decided)}",
        f"{tally.bias / tally.with_bias:+.2f}" if tally.with_bias else "-",
        "; ".join(problems) or "holds",
    ]
    return "| " + " | ".join(shown) + " |"


def _power_line(cell: Cell, tally: Tally) -> str:
    n = tally.nulls
    runs = f"{tally.runs_to_true / tally.ever_true:.1f}" if tally.ever_true else "-"
    to_bar = f"{tally.runs_to_bar / tally.reached:.1f}" if tally.reached else "-"
    return f"| {cell.name} | {_share(tally.ever_true, n)} | {runs} | {_share(tally.reached, n)} | {to_bar} |"


HEAD = """| cell | row | ever e >= 20, % <99 % limit | ever false verdict, % <99 % limit | caution at false/last, % | \
mean last e | interval covers always/at verdict, % | bias at verdict, mde | |
|---|---|---|---|---|---|---|---|---|"""
POWER_HEAD = """
| true effect | decided, % | runs to the verdict | e at the bar, % | runs to the bar |
|---|---|---|---|---|"""

MIXED_HEAD = """
| base rate | supported | true of these, % | stated confidence, % |
|---|---|---|---|"""


def _mixed_line(cell: Cell, tally: Tally) -> str:
    supported = tally.supported
    shown = (cell.name, str(supported), _share(tally.supported_true, supported), _share(tally.stated, supported))
    return "| " + " | ".join(shown) + " |"


def _document(cell: Cell, tally: Tally, problems: Sequence[str]) -> dict[str, object]:
    """Returns the counts of a cell, with its limits."""
    n = tally.nulls
    return {
        "cell": cell.name,
        "defect": cell.defect,
        "violates": cell.violates,
        "seen": cell.seen,
        "cautions": [*cell.cautions],
        **asdict(tally),
        "e_share": tally.ever_e / n,
        "e_limit": upper_limit(tally.ever_e, n),
        "false_share": tally.ever_false / n,
        "false_limit": upper_limit(tally.ever_false, n),
        "failures": [*problems],
    }


def _chosen(patterns: Sequence[str]) -> list[Cell]:
    """Returns the cells whose names match a pattern, or whose row of the audit is one; all of them without any."""
    return [
        cell
        for cell in CELLS.values()
        if not patterns or any(fnmatchcase(cell.name, each) or each in cell.defect.split() for each in patterns)
    ]


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m perpetual_scorers.cells", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "cells", nargs="*", metavar="CELL", help="names, patterns (noise-*) or rows (D5); all by default"
    )
    parser.add_argument("--nulls", type=int, default=200, help="campaigns of each cell (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the same seed plays the same campaigns")
    parser.add_argument("--jobs", type=int, default=2, help="processes that compute")
    parser.add_argument("--json", action="store_true", help="one document in place of the table")
    parser.add_argument("--list", action="store_true", help="only say what the cells are")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns its exit status, 1 where the rule failed in a cell."""
    given = _options(arguments)
    cells = _chosen(given.cells)
    if not cells or given.nulls < 1 or given.jobs < 1:
        sys.stderr.write(
            "no cell of that name; --list shows them\n" if not cells else "--nulls and --jobs start at 1\n"
        )
        return 2
    if given.list:
        sys.stdout.write("".join(f"{cell.name} ({cell.defect}): {cell.violates}\n" for cell in cells))
        return 0
    measured = _measured(cells, given.nulls, given.seed, given.jobs)
    if not given.json:
        sys.stdout.write(HEAD + "\n")
    rows = []
    for cell, tally in measured:
        rows.append((cell, tally, failures(cell, tally)))
        if not given.json:
            sys.stdout.write(_line(*rows[-1]) + "\n")
            sys.stdout.flush()
    if given.json:
        document = {"nulls": given.nulls, "seed": given.seed, "cells": [_document(*row) for row in rows]}
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
    else:
        powers = [_power_line(cell, tally) for cell, tally, _ in rows if cell.true]
        mixed = [_mixed_line(cell, tally) for cell, tally, _ in rows if cell.false == "by truth"]
        for head, lines in ((POWER_HEAD, powers), (MIXED_HEAD, mixed)):
            sys.stdout.write("\n".join((head, *lines)) + "\n" if lines else "")
    return int(any(problems for _, _, problems in rows))


def _measured(cells: Iterable[Cell], nulls: int, seed: int, jobs: int) -> Iterator[tuple[Cell, Tally]]:
    with mapper(jobs) as run:
        for cell in cells:
            yield cell, measure(cell, nulls, seed, run=run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
