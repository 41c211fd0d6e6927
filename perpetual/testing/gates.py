"""The contract suite of the gate slot: every promise of `perpetual.slots.gate`, as tests to be subclassed.

    class TestAcmeGate(GateContract):
        @pytest.fixture
        def gate(self) -> Gate:
            return build({})

Imported by the tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.slots.gate import OUTCOMES, Gate, GateVerdict, Provenance

__all__ = ["HOSTILE", "PLANTED", "SECRET", "GateContract"]

_FROM = Provenance("notes/adam.md", "note", "somebody")

SECRET = "ghp_" + "x7Kq2mZ9" * 4 + "aB3d"  # the form of a code host's token; it opens nothing
PLANTED = (
    f"token = {SECRET}",
    f"the run needs\n\nGITHUB_TOKEN={SECRET}\nto download the data",
    "ü\U0001f52d" * 60 + f" {SECRET}",  # offsets in bytes would lie far behind the end
    f"{SECRET} and once more {SECRET}",
)
PLAIN = "# Adam\n\nA warm-up of 500 steps lowers the loss by 0.02, see r12.\n"
HOSTILE = (
    "",
    " \n\t\r\n",
    "word " * 40_000,
    "a" * 200_000,
    "\x00\x01\x1b[31m\x7f\x85\u2028",
    "\u202e\u200b\ufeff\U000e0041",
    "half a pair: \ud800, the other: \udc00",
    "[" * 20_000 + "<!--" * 5_000,
)


class GateContract:
    """For every gate. Promised: the same text gets the same verdict, from any thread, quickly, and nothing else
    happens; spans are character offsets of the text; no excerpt shows a secret; `redact` takes out what was found
    as `secret_leak` and leaves a text without findings alone; no text at all makes a gate raise.
    """

    # Of one text, in seconds of the processor: a gate that needs more stands between a person and each note. By the
    # clock it may be four times that, as the machine may be busy with something else; who waits for others needs more.
    limit_s: ClassVar[float] = 5.0

    @pytest.fixture
    def gate(self) -> Gate:
        """The gate under test; to be overridden."""
        raise NotImplementedError("override the fixture `gate`")

    def test_the_outcome_is_a_known_one(self, gate: Gate) -> None:
        """`pass`, `quarantine` or `reject`, whatever the text."""
        for text in (PLAIN, *PLANTED, *HOSTILE):
            assert gate.scan(text, _FROM).outcome in OUTCOMES

    def test_the_same_text_gets_the_same_verdict(self, gate: Gate) -> None:
        """Also after other texts were judged in between."""
        texts = (PLAIN, *PLANTED)
        first = [gate.scan(text, _FROM) for text in texts]
        assert [gate.scan(text, _FROM) for text in reversed(texts)] == first[::-1]

    def test_threads_get_the_same_verdicts(self, gate: Gate) -> None:
        """Calls of several threads do not disturb each other."""
        texts = (PLAIN, *PLANTED) * 4
        alone = [gate.scan(text, _FROM) for text in texts]
        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(lambda text: gate.scan(text, _FROM), texts)] == alone

    def test_nothing_else_happens(self, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No file in the working directory, no change of it, and none of the environment."""
        monkeypatch.chdir(tmp_path)
        before = (sorted(tmp_path.rglob("*")), Path.cwd(), dict(os.environ))
        for text in (PLAIN, *PLANTED):
            gate.redact(text, gate.scan(text, _FROM))
        assert (sorted(tmp_path.rglob("*")), Path.cwd(), dict(os.environ)) == before

    def test_spans_lie_in_the_text(self, gate: Gate) -> None:
        """Character offsets, the end behind the start or at it."""
        for text in (PLAIN, *PLANTED, *HOSTILE):
            for finding in gate.scan(text, _FROM).findings:
                assert 0 <= finding.start <= finding.end <= len(text)

    def test_no_excerpt_shows_a_secret(self, gate: Gate) -> None:
        """Neither whole nor the greater part of it."""
        for text in PLANTED:
            for finding in gate.scan(text, _FROM).findings:
                assert SECRET[: len(SECRET) // 2] not in finding.excerpt
                assert SECRET[len(SECRET) // 2 :] not in finding.excerpt

    def test_what_was_found_is_taken_out(self, gate: Gate) -> None:
        """Where a `secret_leak` was found the secret is gone, each time it stood there, and is not found again."""
        for text in PLANTED:
            verdict = gate.scan(text, _FROM)
            if not _leaks(verdict):
                continue
            redacted = gate.redact(text, verdict)
            assert SECRET not in redacted
            assert not _leaks(gate.scan(redacted, _FROM))

    def test_a_text_without_findings_is_left_alone(self, gate: Gate) -> None:
        """`redact` answers it as it is."""
        for text in (PLAIN, *HOSTILE):
            verdict = gate.scan(text, _FROM)
            if not verdict.findings:
                assert gate.redact(text, verdict) == text

    @pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
    def test_hostile_texts_are_judged_quickly(self, gate: Gate, text: str) -> None:
        """Empty, 200 KB, control characters, halves of surrogate pairs: a verdict within seconds, no exception."""
        begun_s, processor_s = time.monotonic(), time.process_time()
        redacted = gate.redact(text, gate.scan(text, _FROM))
        worked_s, took_s = time.process_time() - processor_s, time.monotonic() - begun_s
        assert isinstance(redacted, str)
        assert worked_s < self.limit_s, f"it worked {worked_s:.1f} s on {len(text)} characters"
        assert took_s < 4 * self.limit_s, f"it took {took_s:.1f} s for {len(text)} characters"


def _leaks(verdict: GateVerdict) -> bool:
    return any(finding.category == "secret_leak" for finding in verdict.findings)
