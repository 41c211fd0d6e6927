"""The words that commands explain, and the option that shows what is for statisticians. Imported by the commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from perpetual.api import printable

if TYPE_CHECKING:
    from perpetual.documents.status import SectionNow

__all__ = ["STATES", "section_lines", "sparkline", "speaks", "states_explained", "verbose_option"]

_BLOCKS = "▁▂▃▄▅▆▇█"

STATES = {
    "proposed": "waits for approval",
    "approved": "may run, and no run has started",
    "rejected": "turned down; it never runs",
    "expired": "proposed too long ago; it never runs",
    "active": "runs are live, waiting or missing",
    "complete": "all its runs have ended; scan weighs them",
    "analysed": "all its runs have ended and were weighed",
}


def section_lines(sections: Mapping[str, SectionNow]) -> Iterator[str]:
    """Yields the lines of sections of plugins, each under its title."""
    for name, section in sections.items():
        yield f"{printable(section['title'] or name)}:"
        for text in section["lines"] if section["error"] is None else [f"failed: {section['error']}"]:
            yield f"  {printable(text)}"


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


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Returns the values as a line of block characters, the mean of each stretch; a gap is a space."""
    if not any(value is not None for value in values):
        return ""
    width = min(width, len(values))
    means: list[float | None] = []
    for n in range(width):
        part = values[len(values) * n // width : len(values) * (n + 1) // width]
        known = [value for value in part if value is not None]
        means.append(sum(known) / len(known) if len(known) == len(part) else None)
    finite = [value for value in means if value is not None]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    reach = high - low
    return "".join(
        " " if value is None else _BLOCKS[min(7, int((value - low) / reach * 8))] if reach > 0 else _BLOCKS[3]
        for value in means
    )
