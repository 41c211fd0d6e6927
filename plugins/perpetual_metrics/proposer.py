"""The rule-based proposer: untried points of the grid that a hypothesis declares.

A hypothesis with `params` {"lr": [0.1, 0.01]} and an experiment of its own serves as the pattern: each point of the
grid becomes an experiment with the same command and design, the point in its configuration (which the run reads from
PERPETUAL_CONFIG). Only the factory `build` is imported from outside, by the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from perpetual.api import Draft, Experiment, Hypothesis, Proposer
from perpetual_metrics.likeness import arguments_like

__all__ = ["TURNED_DOWN", "GridProposer", "build"]

TURNED_DOWN = ("rejected", "expired")


class GridProposer(Proposer):
    """Pure; see `perpetual.slots.analyser` for the contract."""

    def drafts(self, hypotheses: Sequence[Hypothesis], experiments: Sequence[Experiment]) -> Sequence[Draft]:
        """Returns drafts; points nearest to what was tried come first: they differ from it in the fewest values."""
        found = []
        for hypothesis in hypotheses:
            own = [
                item
                for item in experiments
                if item.hypothesis_id == hypothesis.id and item.design.claim and item.command is not None
            ]
            pattern = next((item for item in own if item.status not in TURNED_DOWN), None)
            if not hypothesis.params or pattern is None:
                continue
            names = sorted(hypothesis.params)
            points = [
                dict(zip(names, values, strict=True)) for values in product(*(hypothesis.params[n] for n in names))
            ]
            # A point is tried, or turned down; what was turned down for its command says nothing of the point.
            tried = [
                {name: item.config.get(name) for name in names}
                for item in own
                if item.status not in TURNED_DOWN or (item.command, item.cwd) == (pattern.command, pattern.cwd)
            ]
            untried = [point for point in points if point not in tried]
            untried.sort(key=lambda point, tried=tried: min(sum(p[n] != point[n] for n in point) for p in tried))  # type: ignore[misc]
            found += [_draft(hypothesis, pattern, point) for point in untried]
        return found


def _draft(hypothesis: Hypothesis, pattern: Experiment, point: Mapping[str, object]) -> Draft:
    arguments = {
        **arguments_like(pattern),
        "command": pattern.command,
        "config": {**pattern.config, **point},
        "replicates": pattern.design.replicates,
        "title": f"{hypothesis.id}: " + ", ".join(f"{name}={value}" for name, value in point.items()),
    }
    return Draft(hypothesis.id, arguments, f"an untried point of {hypothesis.id}'s grid, after {pattern.id}")


def build(options: Mapping[str, object]) -> GridProposer:
    """Builds the provider `grid`."""
    return GridProposer()
