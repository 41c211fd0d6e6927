"""A cache of answers that are still valid: nothing that they follow from has changed. Used by `perpetual_mcp.tools`.

An agent asks for the status again and again, mostly of the same state. To work it out takes a thread, the kept status
and its rendering; to see that the last answer is still valid takes a look at three files.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Standing"]

_MOST = 32  # answers kept; the one that was kept first goes first


@dataclass(frozen=True)
class _Answer:
    lab: Lab
    state: str
    document: dict[str, object]  # as it goes over the wire; never changed


class Standing:
    """The answers of one server, by question and client."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # between writers; finding takes a single look
        self._answers: dict[tuple[str, ...], _Answer] = {}

    def find(self, asked: tuple[str, ...]) -> dict[str, object] | None:
        """Returns the cached answer to a question, if it is still valid."""
        kept = self._answers.get(asked)
        if kept is None:
            return None
        try:
            return kept.document if kept.lab.feed.state() == kept.state else None
        except (PerpetualError, OSError):
            return None  # working it out will say what is wrong

    def keep(self, asked: tuple[str, ...], lab: Lab, state: str | None, document: dict[str, object]) -> None:
        """Keeps an answer.

        Args:
            state: `lab.feed.state()` from before the answer was begun: what has changed since then is of another state.
        """
        if state is None:
            return
        with self._lock:
            self._answers.pop(asked, None)
            while len(self._answers) >= _MOST:
                self._answers.pop(next(iter(self._answers)))
            self._answers[asked] = _Answer(lab, state, document)
