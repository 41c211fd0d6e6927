"""The words that commands explain, and the option that shows what is for statisticians. Imported by the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

__all__ = ["STATES", "speaks", "states_explained", "verbose_option"]

STATES = {
    "proposed": "waits for approval",
    "approved": "may run, and no run has started",
    "rejected": "turned down; it never runs",
    "expired": "proposed too long ago; it never runs",
    "active": "runs are live, waiting or missing",
    "complete": "all its runs have ended; scan weighs them",
    "analysed": "all its runs have ended and were weighed",
}


def states_explained(statuses: Iterable[str]) -> list[str]:
    """Returns a line for each of these states of experiments, in the order in which one follows another."""
    shown = {*statuses}
    return [f"{name}: {words}" for name, words in STATES.items() if name in shown]


def speaks(log_bayes_factor: float | None) -> str:
    """Returns which way a row of evidence moved the confidence when it was added."""
    if not log_bayes_factor:
        return "" if log_bayes_factor is None else "neither way"
    return "for" if log_bayes_factor > 0 else "against"


def verbose_option(words: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Returns what gives a command `--verbose`, with these words as its help."""
    return click.option("-v", "--verbose", is_flag=True, help=words)
