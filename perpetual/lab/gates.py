"""Verdict of the gates on a text: every gate is asked, the most severe verdict wins, and one that fails refuses.

Used by `memory` and by imports.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from perpetual.errors import PluginError
from perpetual.lab.context import Context
from perpetual.lab.isolated_parts import HelperGate, PartRaised
from perpetual.lab.redaction import only_removes
from perpetual.records import Verdict
from perpetual.slots.gate import OUTCOMES, Gate, GateFinding, GateVerdict, TextProvenance
from perpetual.slots.memory import PathRefused
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import OutOfTime, call
from perpetual.toolkit.helper_process import HelperEnded
from perpetual.toolkit.reserved import is_bundled

if TYPE_CHECKING:
    from perpetual.documents.memory import Finding, TextFinding
    from perpetual.lab import Lab

__all__ = ["Gates"]

_MOST_S = 20.0  # a bundled gate's time for one text; a gate without an answer by then refuses the text
_WITHHELD = "(withheld: a gate failed, so this text may hold a secret)"


def _asked(gate: Gate, text: str, clean: str, provenance: TextProvenance) -> tuple[GateVerdict, str]:
    verdict = gate.scan(text, provenance)
    answered: object = verdict
    if not isinstance(answered, GateVerdict) or answered.outcome not in OUTCOMES:
        raise TypeError("it answered no verdict")
    redacted = gate.redact(clean, verdict)
    if not only_removes(clean, redacted):
        raise ValueError("its redaction changed other words")
    return verdict, redacted


class Gates:
    """The gates of a lab, asked together."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def _serving(self) -> list[tuple[str, Gate]]:
        """Returns the gates that serve; refuses to go on without the required ones."""
        gates: list[tuple[str, Gate]] = self._ctx.parts("gate")
        for required in self._ctx.config.methodology["required_gates"]:
            if not self._ctx.registry.serves("gate", required):
                raise PluginError(
                    f"the gate {required!r} is required and is not active; no note is written without it",
                    hint="perpetual plugins list says why; required_gates in methodology.yaml names the gates",
                    code="gate_missing",
                )
        return gates

    def judge(self, text: str, provenance: TextProvenance) -> tuple[Verdict, str]:
        """Returns what the gates say, the most severe one first; and the text with its secrets taken out.

        A gate that raises counts as `reject`, with its error as the finding; the text is then withheld, since what
        that gate would have taken out is not known.
        """
        worst, clean, failed, leaks = GateVerdict("pass"), text, False, False
        findings: list[TextFinding] = []
        for name, gate in self._serving():
            try:
                with contained():
                    verdict, redacted = self._ask(name, gate, text, clean, provenance)
            except Exception as problem:  # noqa: BLE001 - fail closed: whatever a gate raises is a refusal, and is shown
                verdict = GateVerdict("reject", "gate_failed")
                redacted, failed = clean, True
                # Only the error's type: its words may quote the text.
                why = problem.kind if isinstance(problem, PartRaised) else type(problem).__name__
                why = str(problem) if isinstance(problem, (OutOfTime, HelperEnded)) else why
                findings.append({"rule": name, "span": [0, 0], "excerpt": f"the gate failed: {why}"})
            clean = redacted
            leaks = leaks or any(item.category == "secret_leak" for item in verdict.findings)
            findings += [
                {"rule": item.rule, "span": [item.start, item.end], "excerpt": item.excerpt}
                for item in verdict.findings
            ]
            if OUTCOMES.index(verdict.outcome) > OUTCOMES.index(worst.outcome):
                worst = verdict
        blocked = worst.outcome == "reject" or leaks  # the text as given does not enter the memory
        verdict_of_all = Verdict(worst.outcome, blocked, worst.category, tuple(findings))
        return verdict_of_all, _WITHHELD if failed else self._ctx.redactor.text(clean)

    def in_record(self, lab: Lab, verdict: Verdict, text: str, provenance: TextProvenance) -> Verdict:
        """Returns the verdict on a text that is written, with what bundled gates say of it beside the record."""
        for name, gate in self._serving():
            if isinstance(gate, HelperGate) or verdict.outcome == "reject":
                continue  # the lab is not in a helper's process, and a rejection is final
            try:
                said = call(_MOST_S, partial(gate.in_record, lab, text, provenance))
            except Exception as problem:  # noqa: BLE001 - what is not known is looked at by a person
                why = f"the gate failed: {type(problem).__name__}"
                said = GateVerdict("quarantine", "gate_failed", (GateFinding(name, "gate_failed", 0, 0, why),))
            findings: list[Finding] = [
                {"rule": item.rule, "span": [item.start, item.end], "excerpt": item.excerpt, "part": "content"}
                for item in said.findings
            ]
            is_graver = OUTCOMES.index(said.outcome) > OUTCOMES.index(verdict.outcome)
            outcome, category = (said.outcome, said.category) if is_graver else (verdict.outcome, verdict.category)
            blocked = verdict.blocked or outcome == "reject"
            verdict = Verdict(outcome, blocked, category, (*verdict.findings, *findings))
        return verdict

    def _ask(self, name: str, gate: Gate, text: str, clean: str, provenance: TextProvenance) -> tuple[GateVerdict, str]:
        """Asks one gate within its limit; one in the helper process keeps it there."""
        asked = partial(_asked, gate, text, clean, provenance)
        if isinstance(gate, HelperGate):
            return asked()
        return call(_MOST_S if is_bundled(name) else self._ctx.config["plugin_gate_s"], asked)

    def judge_note(self, path: str, type: str, content: str, message: str) -> tuple[Verdict, str, str]:
        """Returns the graver verdict of content and commit message, and both without secrets.

        Raises:
            PathRefused: unless the path passes every gate.
        """
        provenance = TextProvenance(path, type, self._ctx.actor)
        of_path, _ = self.judge(path, provenance)
        if of_path.outcome != "pass" or self._ctx.redactor.text(path) != path:
            failed = [one["rule"] for one in of_path.findings if of_path.category == "gate_failed"]
            category = f"{of_path.category or 'secret_leak'}" + (f" ({', '.join(failed)})" if failed else "")
            raise PathRefused(f"the note's path is refused: {category}", hint="choose a path that may be shown")
        verdict, clean = self.judge(content, provenance)
        of_message, clean_message = self.judge(message, provenance)
        graver = max(verdict, of_message, key=lambda one: OUTCOMES.index(one.outcome))
        findings: list[Finding] = [{**one, "part": "content"} for one in verdict.findings]
        findings += [{**one, "part": "message"} for one in of_message.findings]
        blocked = verdict.blocked or of_message.blocked
        return Verdict(graver.outcome, blocked, graver.category, tuple(findings)), clean, clean_message
