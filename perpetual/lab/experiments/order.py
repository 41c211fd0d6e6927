"""What comes before an experiment in the queue: what was said of it, and what leaves the artifacts that it needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perpetual.errors import UsageError
from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT

if TYPE_CHECKING:
    from perpetual.lab.bodies import ExperimentBody

__all__ = ["all_before", "checked_needs", "first_of"]


def first_of(body: ExperimentBody) -> list[str]:
    """Returns what comes before an experiment: what was said (e3 or e3:any), and what leaves the artifacts it needs."""
    said = [*body.get("after", ())]
    needs = [need.partition("/")[0] for need in body["resources"].get("needs_artifacts", ())]
    return said + [id for id in dict.fromkeys(needs) if id not in {entry.partition(":")[0] for entry in said}]


def all_before(ctx: Context, ids: Iterable[str]) -> set[str]:
    """Returns these experiments and all that come before them."""
    found, left = {*ids}, [*ids]
    while left:
        fresh = {entry.partition(":")[0] for entry in first_of(ctx.need(EXPERIMENT, left.pop()).body)} - found
        found, left = found | fresh, [*left, *fresh]
    return found


def checked_needs(ctx: Context, needs: Iterable[str], own: str) -> tuple[str, ...]:
    """Returns the artifacts, with ids as the record has them. Raises NotFound; UsageError for a circle with `own`."""
    found = []
    for need in needs:
        first, _, path = need.partition("/")
        found.append(f"{(id := ctx.need(EXPERIMENT, first).id)}/{path}")
        if own in all_before(ctx, [id]):
            raise UsageError(f"{own} and {id} would wait for one another", hint=f"perpetual experiments {id}")
    return tuple(dict.fromkeys(found))
