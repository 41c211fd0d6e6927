"""Which experiments a result follows from: those that it is compared with, and those that add runs to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual.api import Experiment

__all__ = ["Relations"]


class Relations:
    """The links between experiments."""

    def __init__(self, experiments: Iterable[Experiment]) -> None:
        """Reads the links of all experiments of a record."""
        self._links: dict[str, list[str]] = {}
        self._own: dict[str, list[str]] = defaultdict(list)
        behind: dict[str, list[str]] = defaultdict(list)
        for item in experiments:
            design = item.design
            links = (design.baseline, design.runs_of, design.proxy_of, item.extends, item.renews)
            self._links[item.id] = [link for link in links if isinstance(link, str)]
            if item.hypothesis_id is not None:
                self._own[item.hypothesis_id].append(item.id)
            for root in (item.extends, item.renews):
                if root is not None:
                    behind[root].append(item.id)
        for id, others in behind.items():
            if id in self._links:
                self._links[id] += others

    def of(self, hypothesis_id: str) -> list[str]:
        """Returns the experiments of a hypothesis."""
        return self._own.get(hypothesis_id, [])

    def related(self, ids: Iterable[str]) -> set[str]:
        """Returns experiments with all that they are compared with, take runs of, extend or renew, and its extensions.

        Ids of nothing are passed over.
        """
        found: set[str] = set()
        waiting = [*ids]
        while waiting:
            id = waiting.pop()
            if id not in found and id in self._links:
                found.add(id)
                waiting += self._links[id]
        return found
