"""The contract suite of the gate slot: every promise of `perpetual.slots.gate`, as tests to be subclassed.

    class TestAcmeGate(GateContract):
        @pytest.fixture
        def gate(self) -> Gate:
            return build({})

Instead of the fixture a subclass may name the part as its provider does: `factory = "acme.gate:build"`, and `options`
where it has some. A gate that looks for something else than the secrets that the suite plants names texts of its own,
`Gate.examples`: otherwise most promises are vacuous, and `plugins check` says so. One that judges by the record alone
sets `judges_text = False`. Imported by the tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import pytest

from perpetual.slots.gate import OUTCOMES, Gate, GateVerdict, TextProvenance
from perpetual.testing.elsewhere import elsewhere
from perpetual.testing.verdicts import vacuous

__all__ = ["AUTHORS", "HOSTILE", "PLANTED", "SECRET", "SURROUNDINGS", "GateContract"]

_FROM = TextProvenance("notes/adam.md", "note", "a person")
AUTHORS = (
    _FROM, TextProvenance("notes/adam.md", "note", "human"), TextProvenance("a.md", "note", ""),
    TextProvenance("deep/er/b.md", "lesson", "mcp:claude/1"), TextProvenance("notes/c.md", "", "perpetual"),
    TextProvenance("README.md", "note", "root"),
)  # fmt: skip

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
# What stands before and after a text in which something is found: it is found there as well.
SURROUNDINGS: Mapping[str, tuple[str, str]] = {
    "at the start": ("", "\n" + PLAIN),
    "at the end": (PLAIN + "\n", ""),
    "after 2 KB": (PLAIN * 40 + "\n", "\n" + PLAIN),
    "within a long text": (PLAIN * 1500 + "\n", "\n" + PLAIN * 1500),
    "after letters of several bytes": ("\u00fc\U0001f52d " * 700 + "\n", "\n" + "plain " * 700),
    "after half a surrogate pair": ("half: \ud800\n", "\nthe other: \udc00\n"),
    "after control characters": ("\x00\x01\x1b[31m\x7f\n", "\n\x00"),
    "after brackets": ("[" * 200 + "<!--" * 50 + "\n", "\n"),
}


class GateContract:
    """The contract of gates.

    Promised: the same text gets the same verdict, from any thread, in any process and at any time,
    quickly, and nothing else happens; a text is judged to its end, and what is found in it is found wherever it stands;
    spans are character offsets of the text; a secret is found whichever author wrote it, and no excerpt shows it;
    `redact` takes out what was found as `secret_leak` and leaves a text without findings alone; no text at all makes a
    gate raise.
    """

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}

    # Of one text, in seconds of the processor: a gate that needs more stands between a person and each note. By the
    # clock it may be four times that, as the machine may be busy; a test that waits for other processes needs more.
    limit_s: ClassVar[float] = 5.0

    # False of a gate that judges by the record alone (`in_record`): its `scan` then passes every text.
    judges_text: ClassVar[bool] = True

    @pytest.fixture
    def gate(self) -> Gate:
        """Returns the gate under test, as `factory` builds it; may be overridden."""
        if not self.factory:
            raise NotImplementedError("override the fixture `gate`, or name the `factory`")
        module, _, name = self.factory.partition(":")
        build: Callable[[dict[str, object]], Gate] = getattr(import_module(module), name)
        return build(dict(self.options))

    def _found(self, gate: Gate) -> list[str]:
        """Returns the texts in which the gate finds something."""
        found = [text for text in _texts(gate) if gate.scan(text, _FROM).outcome != "pass"]
        if not self.judges_text:
            assert found == [], "it judges texts, and is said to judge by the record alone"
        elif not found:
            vacuous("it found nothing in any text of the suite; name texts of its own in `Gate.examples`")
        return found

    def _leaking(self, gate: Gate) -> list[str]:
        """Returns the texts in which the gate finds a secret."""
        found = [text for text in _texts(gate) if _leaks(gate.scan(text, _FROM))]
        if not self.judges_text:
            assert found == [], "it finds secrets, and is said to judge by the record alone"
        elif not found:
            vacuous("it found no `secret_leak` in any text of the suite")
        return found

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

    def test_another_process_gives_the_same_verdicts(self, gate: Gate) -> None:
        """With another hash seed, in another folder, and next year."""
        asked = [("scan", (text, _FROM)) for text in (PLAIN, *_texts(gate))]
        here = [gate.scan(*given) for _, given in asked]
        now, later = elsewhere(gate, asked, factory=self.factory, options=self.options)
        assert now == here, "another process judges otherwise"
        assert later == here, "at another time it judges otherwise"

    def test_something_is_found(self, gate: Gate) -> None:
        """In each of the gate's own examples, or at least in one of the texts that the suite plants."""
        for text in gate.examples():
            assert gate.scan(text, _FROM).outcome != "pass", f"nothing was found in the gate's example {text[:60]!r}"
        self._found(gate)

    def test_what_is_found_is_found_wherever_it_stands(self, gate: Gate) -> None:
        """After 2 KB, within a long text, after a character that is none: not passed, and the finding is there."""
        for text in self._found(gate):
            alone = gate.scan(text, _FROM)
            for place, (before, after) in SURROUNDINGS.items():
                verdict = gate.scan(before + text + after, _FROM)
                assert verdict.outcome != "pass", f"{place} it passes {text[:60]!r}"
                if alone.findings:
                    spans = [(one.start - len(before), one.end - len(before)) for one in verdict.findings]
                    assert any(start < len(text) and end > 0 for start, end in spans), f"{place} no finding is there"
                    missed = [at for at in _secrets(text) if _leaks(alone) and not _covered(at, spans)]
                    assert missed == [], f"{place} no finding is at the secret"

    def test_a_secret_of_any_author_is_found(self, gate: Gate) -> None:
        """What is found as `secret_leak` does not depend on the author, the path and the type."""
        for text in self._leaking(gate):
            alone = gate.scan(text, _FROM)
            for source in AUTHORS:
                verdict = gate.scan(text, source)
                assert verdict.outcome != "pass", f"it passes a secret from {source}"
                assert _leaks(verdict) == _leaks(alone), f"from {source} it is none"

    def test_nothing_else_happens(self, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No file in the working directory, no change of it, and none of the environment."""
        monkeypatch.chdir(tmp_path)
        before = (sorted(tmp_path.rglob("*")), Path.cwd(), dict(os.environ))
        for text in (PLAIN, *PLANTED):
            gate.redact(text, gate.scan(text, _FROM))
        assert (sorted(tmp_path.rglob("*")), Path.cwd(), dict(os.environ)) == before

    def test_spans_lie_in_the_text(self, gate: Gate) -> None:
        """Character offsets, the end behind the start or at it; a leak's lie at the secret."""
        for text in (PLAIN, *_texts(gate), *HOSTILE):
            verdict = gate.scan(text, _FROM)
            for finding in verdict.findings:
                assert 0 <= finding.start <= finding.end <= len(text)
            if _leaks(verdict):
                spans = [(finding.start, finding.end) for finding in verdict.findings]
                assert [at for at in _secrets(text) if not _covered(at, spans)] == [], "no finding is at the secret"

    def test_no_excerpt_shows_a_secret(self, gate: Gate) -> None:
        """Neither whole nor the greater part of it."""
        for text in self._leaking(gate):
            for finding in gate.scan(text, _FROM).findings:
                assert SECRET[: len(SECRET) // 2] not in finding.excerpt
                assert SECRET[len(SECRET) // 2 :] not in finding.excerpt

    def test_what_was_found_is_taken_out(self, gate: Gate) -> None:
        """Where a `secret_leak` was found the secret is gone, each time it stood there, and is not found again."""
        for text in self._leaking(gate):
            verdict = gate.scan(text, _FROM)
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


def _texts(gate: Gate) -> list[str]:
    """Returns the suite's planted texts and the gate's own."""
    return [*PLANTED, *gate.examples()]


def _secrets(text: str) -> list[int]:
    """Returns where the planted secret begins, each time."""
    return [at for at in range(len(text)) if text.startswith(SECRET, at)]


def _covered(at: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start < at + len(SECRET) and end > at for start, end in spans)
