"""The slot `harness_hook`: what `perpetual hook NAME` answers to a coding agent, by the provider's name.

The contract
------------
*An event in, a document out.* `answer(lab, event)` gets what the harness wrote to standard input, as JSON, and returns
what its hook answers, or None for nothing. The event comes from outside: any key may be missing or of another type.

*Never in the way.* What it raises is shown on standard error, and the hook answers nothing and exits 0: Claude Code
takes exit 2 of a Stop hook for an order to go on.

*Silent where the lab drives the harness.* With `PERPETUAL_DISPATCH` set no hook is called.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["HarnessHook"]


class HarnessHook(ABC):
    """One hook of coding agents; see the contract at the top of this module."""

    @abstractmethod
    def answer(self, lab: Lab, event: Mapping[str, object]) -> Mapping[str, object] | None:
        """Returns the JSON object that the hook answers, None for no answer.

        Raises:
            PerpetualError: if it cannot be had; the hook then answers nothing.
        """
