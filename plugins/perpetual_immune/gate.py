"""The gate `immune`: the scanner's answer in the slot's words. Only the factory `build` is imported from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perpetual.api import Gate, GateFinding, GateVerdict, TextProvenance
from perpetual_immune.scanner import redact, scan

__all__ = ["ImmuneGate", "build"]


class ImmuneGate(Gate):
    """Pure; see `perpetual.slots.gate` for the contract."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        """Judges the text alone; where it comes from makes no difference to this gate."""
        found = scan(text)
        return GateVerdict(
            found.outcome,
            found.category,
            tuple(GateFinding(item.rule, item.category, item.start, item.end, item.excerpt) for item in found.findings),
        )

    def redact(self, text: str, verdict: GateVerdict) -> str:
        """Returns the text with the secrets replaced by the rule that found them."""
        return redact(text, scan(text).findings)

    def leave_out(self, texts: Sequence[str]) -> Sequence[int]:
        """Returns the texts of an attack that is spread over several of them."""
        from perpetual_immune.combined import scan_together

        found = scan_together(texts)
        return found.leave_out if found.outcome != "pass" else ()


def build(options: Mapping[str, object]) -> ImmuneGate:
    """Builds the provider `immune`."""
    return ImmuneGate()
