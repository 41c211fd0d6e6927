"""The slots `check` and `status_section`: what a plugin adds to the doctor, to the status, the brief and the report.

*A check* looks at one thing that can be wrong and says what it found. It changes nothing. One that raises is a finding.

*A section* says where the plugin's own work stands, from the record alone: the status is kept and shown again until the
record or the configuration changes. Its lines are for people, its data for programs. Text of others in it is fenced
where an agent reads it, and secrets are replaced, as everywhere in the status.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["MOST_LINES", "Check", "Finding", "Section", "StatusSection"]

MOST_LINES = 20  # of a section; the rest is left out


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: `ok` None means that it does not apply here; `hint` is a way out."""

    ok: bool | None
    detail: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """Where a plugin's work stands: `lines` for people, `data` (JSON) for programs."""

    title: str
    lines: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


class Check(ABC):
    """One check of `perpetual doctor`, under its provider's name."""

    @abstractmethod
    def examine(self, lab: Lab) -> Finding:
        """Returns what is there; changes nothing."""


class StatusSection(ABC):
    """One section of `perpetual status`, of the brief and of the report, under its provider's name."""

    @abstractmethod
    def show(self, lab: Lab) -> Section | None:
        """Returns where the work stands now, None if there is nothing to say."""

    def progress(self, lab: Lab, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, object]]:
        """Returns how far live runs are, by run, as JSON; asked anew at each look, as no record has it."""
        return {}

    def live(self, lab: Lab) -> Section | None:
        """Returns what goes on outside of the record now; asked anew at each look at the status and the runs."""
        return None
