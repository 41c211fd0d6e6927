"""The gate's contract suite fails on every gate that breaks one promise."""

from __future__ import annotations

import inspect
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from perpetual.slots.gate import Gate, GateFinding, GateVerdict, TextProvenance
from perpetual.testing.gates import HOSTILE, GateContract
from perpetual.testing.verdicts import Vacuous

_TOKEN = re.compile(r"ghp_\w{36}")


class Tokens(Gate):
    """Keeps the contract: it knows one form of secret."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        found = tuple(GateFinding("token", "secret_leak", *m.span(), "ghp_...") for m in _TOKEN.finditer(text))
        return GateVerdict("quarantine", "secret_leak", found) if found else GateVerdict("pass")

    def redact(self, text: str, verdict: GateVerdict) -> str:
        return _TOKEN.sub("[redacted]", text)


class SaysMaybe(Tokens):
    """An outcome of its own."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        return replace(super().scan(text, provenance), outcome="maybe")  # type: ignore[arg-type]


class Tires(Tokens):
    """The third text and all after it are rejected."""

    seen = 0

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        self.seen += 1
        return super().scan(text, provenance) if self.seen < 3 else GateVerdict("reject")


class OnlyTheFirstThread(Tokens):
    """What it answers depends on the thread."""

    def __init__(self) -> None:
        self._mine = threading.get_ident()

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        mine = threading.get_ident() == self._mine
        return super().scan(text, provenance) if mine else GateVerdict("reject")


class KeepsALog(Tokens):
    """It writes down what it saw."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        Path("gate.log").write_text(provenance.path)
        return super().scan(text, provenance)


class CountsBytes(Tokens):
    """Its offsets are of the encoded text."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        verdict = super().scan(text, provenance)
        moved = (
            replace(item, start=_bytes(text[: item.start]), end=_bytes(text[: item.end])) for item in verdict.findings
        )
        return replace(verdict, findings=tuple(moved))


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


class ShowsIt(Tokens):
    """The excerpt is what was found."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        verdict = super().scan(text, provenance)
        shown = (replace(item, excerpt=text[item.start : item.end]) for item in verdict.findings)
        return replace(verdict, findings=tuple(shown))


class Salts(Tokens):
    """Its rule's name has a number that each process chooses."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        verdict = super().scan(text, provenance)
        named = (replace(item, rule=f"token-{hash('token') % 10_000}") for item in verdict.findings)
        return replace(verdict, findings=tuple(named))


class MissesItsExample(Tokens):
    """What it says that it finds it passes."""

    def examples(self) -> tuple[str, ...]:
        return ("a password: swordfish",)


class ReadsAKilobyte(Tokens):
    """The rest is not looked at."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        return super().scan(text[:1024], provenance)


class PassesWhatItCannotRead(Tokens):
    """An error inside is no reason to hold a note up."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        try:
            text.encode()
        except UnicodeEncodeError:
            return GateVerdict("pass")
        return super().scan(text, provenance)


class ReadsTheFirstLine(Tokens):
    """As a title."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        title = next((line for line in text.splitlines() if line.strip()), "")
        return super().scan(text if len(text) < 200 else title, provenance)


class CutsItsOffsets(CountsBytes):
    """Offsets of the encoded text, none behind the end."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        verdict = super().scan(text, provenance)
        most = len(text)
        cut = (replace(item, start=min(item.start, most), end=min(item.end, most)) for item in verdict.findings)
        return replace(verdict, findings=tuple(cut))


class TrustsAnAuthor(Tokens):
    """Perpetual writes no secrets."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        return GateVerdict("pass") if provenance.actor == "perpetual" else super().scan(text, provenance)


class PassesEverything(Tokens):
    """Keeps the contract, and says nothing by it."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        return GateVerdict("pass")


class Words(Tokens):
    """Keeps the contract: it finds a word that only its own example has."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        found = tuple(GateFinding("word", "unwanted", *m.span(), m.group()) for m in re.finditer("swordfish", text))
        return GateVerdict("quarantine", "unwanted", found) if found else GateVerdict("pass")

    def redact(self, text: str, verdict: GateVerdict) -> str:
        return text

    def examples(self) -> tuple[str, ...]:
        return ("a password: swordfish",)


class WordsAtTheStart(Words):
    """The same, in the first characters alone."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        return super().scan(text[:60], provenance)


class RedactsOne(Tokens):
    """The second secret stays."""

    def redact(self, text: str, verdict: GateVerdict) -> str:
        return _TOKEN.sub("[redacted]", text, count=1)


class Tidies(Tokens):
    """Blanks at the ends go, too."""

    def redact(self, text: str, verdict: GateVerdict) -> str:
        return super().redact(text, verdict).strip()


class WantsUtf8(Tokens):
    """Halves of surrogate pairs make it raise."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        text.encode()
        return super().scan(text, provenance)


class Grinds(Tokens):
    """Brackets keep it at work for longer than the suite allows."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        until_s = time.process_time() + 1.2 * Hasty.limit_s
        while text.startswith("[[") and time.process_time() < until_s:
            _TOKEN.search(text)
        return super().scan(text, provenance)


class AsksElsewhere(Tokens):
    """Long texts are judged by somebody else, who takes his time."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        if text.startswith("[["):
            time.sleep(4.1 * Hasty.limit_s)
        return super().scan(text, provenance)


class Hasty(GateContract):
    """The suite, with as little patience as a twin can wait for."""

    limit_s: ClassVar[float] = 0.25


BROKEN: list[tuple[type[Tokens], str]] = [
    (SaysMaybe, "test_the_outcome_is_a_known_one"),
    (Tires, "test_the_same_text_gets_the_same_verdict"),
    (OnlyTheFirstThread, "test_threads_get_the_same_verdicts"),
    (Salts, "test_another_process_gives_the_same_verdicts"),
    (MissesItsExample, "test_something_is_found"),
    (ReadsAKilobyte, "test_what_is_found_is_found_wherever_it_stands"),
    (ReadsTheFirstLine, "test_what_is_found_is_found_wherever_it_stands"),
    (PassesWhatItCannotRead, "test_what_is_found_is_found_wherever_it_stands"),
    (CutsItsOffsets, "test_what_is_found_is_found_wherever_it_stands"),
    (WordsAtTheStart, "test_what_is_found_is_found_wherever_it_stands"),
    (TrustsAnAuthor, "test_a_secret_of_any_author_is_found"),
    (KeepsALog, "test_nothing_else_happens"),
    (CountsBytes, "test_spans_lie_in_the_text"),
    (CutsItsOffsets, "test_spans_lie_in_the_text"),
    (ShowsIt, "test_no_excerpt_shows_a_secret"),
    (RedactsOne, "test_what_was_found_is_taken_out"),
    (Tidies, "test_a_text_without_findings_is_left_alone"),
    (WantsUtf8, "test_hostile_texts_are_judged_quickly"),
    (Grinds, "test_hostile_texts_are_judged_quickly"),
    (AsksElsewhere, "test_hostile_texts_are_judged_quickly"),
]


# By an assertion of the suite, as a twin that merely crashed would prove nothing; one of them is about crashing.
_BY: dict[type[Tokens], tuple[type[Exception], str | None]] = {
    WantsUtf8: (UnicodeEncodeError, "surrogates not allowed"),
    Grinds: (AssertionError, "it worked"),
    AsksElsewhere: (AssertionError, "it took"),
}


BROKEN_FIRST = {name: broken for broken, name in reversed(BROKEN)}  # with it the sound one is tried, too


def _tests() -> dict[str, Callable[..., None]]:
    return {name: test for name, test in vars(GateContract).items() if name.startswith("test_")}


def _run(name: str, gate: Gate, folder: Path, monkeypatch: pytest.MonkeyPatch, suite: GateContract) -> None:
    test = _tests()[name]
    wanted = inspect.signature(test).parameters
    given: dict[str, Any] = {"tmp_path": folder, "monkeypatch": monkeypatch}
    others = {key: value for key, value in given.items() if key in wanted}
    for text in HOSTILE if "text" in wanted else (None,):
        test(suite, gate, **others, **({} if text is None else {"text": text}))


def test_there_is_a_broken_gate_for_every_promise() -> None:
    assert {name for _, name in BROKEN} == {*_tests()}


@pytest.mark.parametrize(("broken", "name"), BROKEN, ids=[f"{broken.__name__}-{name}" for broken, name in BROKEN])
def test_a_broken_gate_fails(broken: type[Tokens], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken is BROKEN_FIRST[name]:
        _run(name, Tokens(), tmp_path, monkeypatch, GateContract())
    error, words = _BY.get(broken, (AssertionError, None))
    with pytest.raises(error, match=words):
        _run(name, broken(), tmp_path, monkeypatch, Hasty())


OF_FINDINGS = ("test_something_is_found", "test_what_is_found_is_found_wherever_it_stands")
OF_SECRETS = (
    "test_a_secret_of_any_author_is_found",
    "test_no_excerpt_shows_a_secret",
    "test_what_was_found_is_taken_out",
)


@pytest.mark.parametrize(
    ("gate", "silent"), [(PassesEverything(), (*OF_FINDINGS, *OF_SECRETS)), (Words(), OF_SECRETS), (Tokens(), ())]
)
def test_a_gate_that_finds_nothing_is_judged_vacuous(
    gate: Tokens, silent: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (*OF_FINDINGS, *OF_SECRETS):
        if name in silent:
            with pytest.raises(Vacuous, match="it found no"):
                _run(name, gate, tmp_path, monkeypatch, GateContract())
        else:
            _run(name, gate, tmp_path, monkeypatch, GateContract())


class OfTheRecord(GateContract):
    """The suite for a gate that judges by the record alone."""

    judges_text: ClassVar[bool] = False


@pytest.mark.parametrize("name", [*OF_FINDINGS, *OF_SECRETS])
def test_a_gate_of_the_record_passes_every_text(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(name, PassesEverything(), tmp_path, monkeypatch, OfTheRecord())
    with pytest.raises(AssertionError, match="by the record alone"):
        _run(name, Tokens(), tmp_path, monkeypatch, OfTheRecord())
