"""What the gates say of a text: every one is asked, the most severe verdict wins, and one that fails refuses.

Used by the memory department alone.
"""

from __future__ import annotations

from typing import Any

from perpetual.errors import PluginError
from perpetual.lab.context import Context
from perpetual.records import Verdict
from perpetual.slots.gate import OUTCOMES, Gate, GateVerdict, Provenance
from perpetual.slots.memory import PathRefused

__all__ = ["Gates"]

_WITHHELD = "(withheld: a gate failed, so nobody knows whether this text holds a secret)"


class Gates:
    """The gates of a lab, asked together."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def _serving(self) -> list[tuple[str, Gate]]:
        """The gates that serve; refuses to go on without the required ones."""
        gates: list[tuple[str, Gate]] = self._ctx.parts("gate")
        names = {name for name, _ in gates} | {name.rpartition("/")[2] for name, _ in gates}
        for required in self._ctx.config.methodology["required_gates"]:
            if required not in names:
                raise PluginError(
                    f"the gate {required!r} is required and is not active; no note is written without it",
                    hint="perpetual plugins list says why; required_gates in methodology.yaml names the gates",
                    code="gate_missing",
                )
        return gates

    def judge(self, text: str, provenance: Provenance) -> tuple[Verdict, str]:
        """What the gates say, the most severe one first; and the text with its secrets taken out.

        A gate that raises counts as `reject`, with its error as the finding; the text is then withheld, since what
        that gate would have taken out is not known.
        """
        worst, clean, failed = GateVerdict("pass"), text, False
        findings: list[dict[str, Any]] = []
        for name, gate in self._serving():
            try:
                verdict = gate.scan(text, provenance)
                redacted = gate.redact(clean, verdict)
            except Exception as problem:  # noqa: BLE001 - fail closed: whatever a gate raises is a refusal, and is shown
                verdict = GateVerdict("reject", "gate_failed")
                redacted, failed = clean, True
                # Only the error's type: its words may quote the text.
                finding = {"rule": name, "span": [0, 0], "excerpt": f"the gate failed: {type(problem).__name__}"}
                findings.append(finding)
            clean = redacted
            findings += [
                {"rule": item.rule, "span": [item.start, item.end], "excerpt": item.excerpt}
                for item in verdict.findings
            ]
            if OUTCOMES.index(verdict.outcome) > OUTCOMES.index(worst.outcome):
                worst = verdict
        verdict_of_all = Verdict(worst.outcome, worst.outcome == "reject", worst.category, tuple(findings))
        return verdict_of_all, _WITHHELD if failed else clean

    def judge_note(self, path: str, type: str, content: str, message: str) -> tuple[Verdict, str, str]:
        """The graver verdict of content and commit message, and both without secrets.

        Raises:
            PathRefused: unless the path passes every gate.
        """
        provenance = Provenance(path, type, self._ctx.actor)
        of_path, _ = self.judge(path, provenance)
        if of_path.outcome != "pass":
            raise PathRefused(f"the note's path is refused: {of_path.category}", hint="a path is shown to everybody")
        verdict, clean = self.judge(content, provenance)
        of_message, clean_message = self.judge(message, provenance)
        graver = max(verdict, of_message, key=lambda one: OUTCOMES.index(one.outcome))
        findings = [{"part": "content", **one} for one in verdict.findings]
        findings += [{"part": "message", **one} for one in of_message.findings]
        return Verdict(graver.outcome, graver.blocked, graver.category, tuple(findings)), clean, clean_message
