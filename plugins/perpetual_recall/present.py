"""What the research is at now: the words by which notes are offered, and the scope in which they must hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perpetual.toolkit.agents import harness

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Hypothesis
    from perpetual_recall.front import Scope

__all__ = ["present_of"]

_CLAIMS, _EXPERIMENTS = 5, 3
_LONGEST = 2000  # characters of the query
_WORDS_OF_A_COMMAND = 6


def present_of(lab: Lab, *, for_reader: bool = False) -> tuple[str, Scope]:
    """Returns the query and the scope of the open claims and the newest experiments.

    Args:
        lab: the lab to look at.
        for_reader: whether the harness of the reader counts too; what is kept for every reader leaves it out.
    """
    claims = [*lab.hypotheses.list(status="open", archived=False, limit=_CLAIMS).items]
    experiments = _newest_experiments(lab, claims)
    said = [f"{claim.statement} {claim.prediction.metric or ''} {' '.join(claim.tags)}" for claim in claims]
    said += [f"{it.title} {it.design.metric or ''} {' '.join(it.tags)}" for it in experiments]
    scope = {
        "hypothesis": frozenset(claim.id for claim in claims),
        "tag": frozenset(
            tag for tags in [*(it.tags for it in claims), *(it.tags for it in experiments)] for tag in tags
        ),
        "tool": frozenset(tool for it in experiments for tool in _tools(it.command or "")),
        "harness": frozenset(_harness(lab)) if for_reader else frozenset[str](),
    }
    return " ".join(said)[:_LONGEST].strip(), scope


def _newest_experiments(lab: Lab, claims: Sequence[Hypothesis]) -> list[Experiment]:
    found = [it for state in ("active", "approved", "proposed") for it in lab.experiments.list(
        status=state, archived=False, limit=_EXPERIMENTS).items]  # fmt: skip
    return found[:_EXPERIMENTS]


def _tools(command: str) -> list[str]:
    """Returns the programs and scripts that a command names, without their folders."""
    words = [word for word in command.split()[:_WORDS_OF_A_COMMAND] if not word.startswith("-")]
    return [name for word in words for name in {os.path.basename(word), os.path.basename(word).removesuffix(".py")}]


def _harness(lab: Lab) -> list[str]:
    """Returns the names of the coding agent that reads, none for a person."""
    kind, _, name = lab.actor.partition(":")
    found = name.partition("/")[0] if kind in ("agent", "mcp") else harness(os.environ, lab.config["agent_marks"])
    return [found.lower().replace(" ", "-")] if found else []
