"""The slots `gate` and `promotion_stage`: what judges a note before it is read, and what decides on it by evidence.

The contract of a gate: `scan` is synchronous, fast, deterministic and free of side effects; it sees the text and where
it comes from, and answers `pass`, `quarantine` or `reject` with findings whose spans are character offsets into that
text. It judges a text to its end: what it finds in a text it finds in every longer text around it. What it finds as
`secret_leak` does not depend on where the text comes from. Excerpts never show a secret. `redact` answers the text with
all that was found as `secret_leak` taken out, so that it is not found again, and a text without findings as it is; it
is applied before anything is stored. Any text that JSON can carry may come: empty, long, with control characters or
halves of surrogate pairs. Both may be called from several threads. A gate that raises counts as `reject` (the kernel
fails closed).

The contract of a promotion stage: `judge` reads what the lab knows of one version of a note (runs, replays, reviews)
and answers a decision with its reason, one printable line. It changes nothing, and the same record gives the same
answer. Without evidence it answers `abstain`. Of all stages the gravest decision counts: one `promote` makes a note
proven where none says more, `wait` keeps it as it is. A stage that raises counts as `wait`. The gates are asked again
before a promotion, and what they would quarantine is left to a person.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from perpetual.records.states import Outcome

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.records import Note

__all__ = ["DECISIONS", "OUTCOMES", "Gate", "GateFinding", "GateVerdict", "PromotionStage", "StageVerdict",
           "TextProvenance", "thaw_verdict"]  # fmt: skip

StageDecision = Literal["abstain", "promote", "wait", "expire", "quarantine", "reject"]
DECISIONS: tuple[StageDecision, ...] = ("abstain", "promote", "wait", "expire", "quarantine", "reject")  # mild first

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

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Judges a text that is written by what the record holds beside it; asked of bundled gates; passes by default.

        It reads and changes nothing. Findings of a pass are shown to the author, and change nothing.
        """
        return GateVerdict("pass")

    def leave_out(self, texts: Sequence[str]) -> Sequence[int]:
        """Returns which of these texts an agent is not to read together, by position; none by default."""
        return ()

    def examples(self) -> Sequence[str]:
        """Texts in which it finds something, for its contract suite, which plants them elsewhere; none by default."""
        return ()


@dataclass(frozen=True, slots=True)
class StageVerdict:
    """What a promotion stage says of a note; `evidence` (JSON) is kept with the decision."""

    decision: StageDecision
    reason: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict)


class PromotionStage(ABC):
    """Base of every promotion stage; see the contract at the top of this module."""

    @abstractmethod
    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        """Decides on the newest version of the note, whose text is `text`."""
