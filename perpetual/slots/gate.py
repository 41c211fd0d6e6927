"""The gate slot: what judges a note before anybody reads it.

The contract: `scan` is synchronous, fast, deterministic and free of side effects; it sees the text and where it comes
from, and answers `pass`, `quarantine` or `reject` with findings whose spans are character offsets into that text. It
judges a text to its end: what it finds in a text it finds in every longer text around it. What it finds as
`secret_leak` does not depend on where the text comes from. Excerpts never show a secret. `redact` answers the text with
all that was found as `secret_leak` taken out, so that it is not found again, and a text without findings as it is; it
is applied before anything is stored. Any text that JSON can carry may come: empty, long, with control characters or
halves of surrogate pairs. Both may be called from several threads. A gate that raises counts as `reject` (the kernel
fails closed).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perpetual.records.states import Outcome

__all__ = ["OUTCOMES", "Gate", "GateFinding", "GateVerdict", "TextProvenance", "thaw_verdict"]

OUTCOMES: tuple[Outcome, ...] = ("pass", "quarantine", "reject")  # from mild to severe


@dataclass(frozen=True, slots=True)
class TextProvenance:
    """Where a text comes from."""

    path: str
    type: str
    actor: str


@dataclass(frozen=True, slots=True)
class GateFinding:
    """One thing a gate saw, at `start`..`end` of the text."""

    rule: str
    category: str
    start: int
    end: int
    excerpt: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """What a gate says; `category` is the gravest finding's."""

    outcome: Outcome
    category: str | None = None
    findings: tuple[GateFinding, ...] = ()


def thaw_verdict(data: Mapping[str, Any]) -> GateVerdict:
    """Returns the verdict that `dataclasses.asdict` made this mapping of."""
    findings = tuple(GateFinding(**item) for item in data["findings"])
    return GateVerdict(data["outcome"], data["category"], findings)


class Gate(ABC):
    """Base of every gate; see the contract at the top of this module."""

    @abstractmethod
    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        """Judges the text."""

    def redact(self, text: str, verdict: GateVerdict) -> str:
        """Returns the text without the secrets that the verdict found; unchanged by default."""
        return text

    def examples(self) -> Sequence[str]:
        """Texts in which it finds something, for its contract suite, which plants them elsewhere; none by default."""
        return ()
