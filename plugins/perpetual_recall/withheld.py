"""The slot `withholder`: which notes agents are not offered now, whatever their status says.

A note may lose its ground before a scan has decided on it: its source was rejected, or its day is over. A withholder
names such notes; searches of agents, the memory block and the brief leave them out, and `lab.memory.read` refuses them
to an agent that does not say which version it wants. Persons find and read them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import PluginError

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Withholder", "withheld"]


class Withholder(ABC):
    """Names notes that agents are not offered; its promises are the tests of `perpetual_recall.testing.withholders`."""

    @abstractmethod
    def withheld(self, lab: Lab, paths: Sequence[str]) -> Mapping[str, str]:
        """Returns why, in one printable line, for each of these paths that agents are not offered.

        It is asked at each search, so it is quick. It changes nothing, and the same record on the same day gives the
        same answer. It reads texts by `lab.memory.read(path, exposed_only=...)`: without the version that would ask it
        again. The gates judge its reasons before an agent reads them.
        """


def withheld(lab: Lab, paths: Sequence[str]) -> dict[str, str]:
    """Returns what every withholder in force says of these paths: reasons, by path.

    Raises:
        PluginError: where one answers no reasons.
    """
    found: dict[str, str] = {}
    for name, part in lab.parts("withholder") if paths else []:
        said: object = part.withheld(lab, paths)
        if not isinstance(said, Mapping) or not all(isinstance(why, str) for why in said.values()):
            raise PluginError(
                f"the withholder {name} answered no reasons", hint="perpetual plugins check names what fails"
            )
        found |= {path: said[path] for path in paths if path in said and path not in found}
    return found
