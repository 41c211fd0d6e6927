"""Decisions on notes by evidence: what promotion stages say, the gravest first, and never without a gate's pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from perpetual import Lab
from perpetual.api import (
    Gate,
    GateFinding,
    GateVerdict,
    Note,
    PromotionStage,
    Provider,
    StageVerdict,
    TextProvenance,
    hookimpl,
)
from perpetual.errors import Conflict, NotFound
from perpetual.registry import Registry

NOTE = "skills/a.md"
TEXT = "# A skill\n\nwarm up first\n"


class Stage(PromotionStage):
    """Says what the test puts in `says`, or raises it."""

    def __init__(self) -> None:
        self.says: object = StageVerdict("abstain")

    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        if isinstance(self.says, Exception):
            raise self.says
        return self.says  # type: ignore[return-value]  # a test may have put anything there


class Aside(Gate):
    """Puts texts with one word aside."""

    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        return GateVerdict("quarantine", "odd") if "odd" in text else GateVerdict("pass")

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        if "raise" in text:
            raise OSError("no record")
        others = [it.path for it in lab.memory.list().items if it.path != provenance.path]
        if "second" not in text or not others:
            return GateVerdict("pass")
        found = (GateFinding("beside", "crowd", 0, 6, f"beside {others[0]}"),)
        return GateVerdict("quarantine" if "crowd" in text else "pass", "crowd" if "crowd" in text else None, found)


class Bench:
    """A lab with two stages of an outsider."""

    def __init__(self, lab: Lab, first: Stage, second: Stage) -> None:
        self.lab, self.first, self.second = lab, first, second

    def say(self, first: object, second: object = StageVerdict("abstain")) -> None:
        self.first.says, self.second.says = first, second

    def note(self) -> Note:
        return self.lab.memory.get(NOTE)


@pytest.fixture
def bench(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    first, second = Stage(), Stage()
    home, plugin = ModuleType("acme_stages"), ModuleType("acme")
    made: dict[str, object] = {"first": first, "second": second, "aside": Aside()}
    vars(home).update({name: partial(lambda part, options: part, part) for name, part in made.items()})
    monkeypatch.setitem(sys.modules, "acme_stages", home)
    offers = [Provider("promotion_stage", name, f"acme_stages:{name}") for name in ("first", "second")]
    gates = [Provider("gate", "aside", "acme_stages:aside")]
    vars(plugin).update(perpetual_promotion_stages=hookimpl(lambda: offers), perpetual_gates=hookimpl(lambda: gates))
    with Lab.open(registry=Registry(extra=[("acme", "acme", "1.0", lambda: plugin)])) as lab:
        lab.memory.write(NOTE, TEXT, type="skill_card")
        yield Bench(lab, first, second)


YES = StageVerdict("promote", "12 of 12 pairs", {"e": 31.5})


def test_evidence_promotes_and_makes_proven(bench: Bench) -> None:
    bench.say(YES)
    before = bench.lab.feed.last()
    rehearsed = bench.lab.memory.decide(NOTE, dry_run=True)
    assert (rehearsed["status"], bench.note().status, bench.lab.feed.last()) == ("promoted", "candidate", before)
    made = bench.lab.memory.decide(NOTE)
    assert (made["was"], made["status"], made["why"]) == ("candidate", "promoted", "acme/first: 12 of 12 pairs")
    assert made["evidence"] is not None
    assert made["evidence"]["acme/first"] == {
        "decision": "promote", "reason": "12 of 12 pairs", "evidence": {"e": 31.5}
    }  # fmt: skip
    assert (bench.note().status, bench.note().proven) == ("promoted", True)
    assert bench.lab.memory.read(NOTE, exposed_only=True) == TEXT
    last = bench.lab.feed.last()
    bench.lab.memory.decide(NOTE)
    assert bench.lab.feed.last() == last, "deciding twice is deciding once"


def test_an_agent_may_ask_for_a_decision_by_evidence(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    bench.say(YES)
    assert bench.lab.memory.decide(NOTE)["status"] == "promoted"


@pytest.mark.parametrize("first", [StageVerdict("abstain"), StageVerdict("wait", "4 of 5 pairs")])
def test_without_evidence_nothing_changes(bench: Bench, first: StageVerdict) -> None:
    bench.say(first)
    last = bench.lab.feed.last()
    assert bench.lab.memory.decide(NOTE)["status"] == "candidate"
    assert (bench.note().status, bench.lab.feed.last()) == ("candidate", last)


@pytest.mark.parametrize(
    ("second", "status"),
    [("wait", "candidate"), ("expire", "expired"), ("quarantine", "quarantined"), ("reject", "rejected")],
)
def test_the_gravest_decision_counts(bench: Bench, second: str, status: str) -> None:
    bench.say(YES, StageVerdict(second, "a veto"))  # type: ignore[arg-type]
    made = bench.lab.memory.decide(NOTE)
    assert (made["status"], made["why"]) == (status, "acme/second: a veto")
    assert (bench.note().status, bench.note().proven) == (status, False)
    with pytest.raises(NotFound):
        bench.lab.memory.read(NOTE, exposed_only=True)


@pytest.mark.parametrize("says", [RuntimeError("no\nnet"), None, StageVerdict("perhaps", "?")])  # type: ignore[arg-type]
def test_a_stage_that_fails_holds_the_note_up(bench: Bench, says: object) -> None:
    bench.say(YES, says)
    made = bench.lab.memory.decide(NOTE)
    assert made["status"] == "candidate"
    assert made["evidence"] is not None
    assert made["evidence"]["acme/second"]["reason"].startswith("the stage failed: ")


def test_evidence_that_is_no_json_promotes_nothing(bench: Bench) -> None:
    bench.say(StageVerdict("promote", "sure", {"e": float("nan")}))
    assert bench.lab.memory.decide(NOTE)["status"] == "candidate"


def test_what_the_gates_put_aside_is_left_to_a_person(bench: Bench) -> None:
    path = "skills/b.md"
    written = bench.lab.memory.write(path, "an odd text\n", type="skill_card")
    assert written["status"] == "quarantined"
    bench.say(YES)
    made = bench.lab.memory.decide(path)
    assert (made["status"], made["why"].startswith("the gates say quarantine")) == ("quarantined", True)
    assert bench.lab.memory.promote(path, "it is ours")["status"] == "promoted"


def test_a_person_vouches_without_proof_and_evidence_proves_later(bench: Bench) -> None:
    bench.lab.memory.promote(NOTE, "I have used it")
    assert (bench.note().status, bench.note().proven) == ("promoted", False)
    bench.say(YES)
    assert bench.lab.memory.decide(NOTE)["was"] == "promoted"
    assert bench.note().proven is True


def test_evidence_against_what_was_promoted_goes_to_a_person(bench: Bench) -> None:
    bench.lab.memory.promote(NOTE, "I have used it")
    bench.say(StageVerdict("reject", "it harms", {"e_harm": 6.0}))
    assert bench.lab.memory.decide(NOTE)["status"] == "quarantined"
    with pytest.raises(NotFound):
        bench.lab.memory.read(NOTE, exposed_only=True)


def test_a_new_version_is_not_proven_by_the_old_ones_evidence(bench: Bench) -> None:
    bench.say(YES)
    bench.lab.memory.decide(NOTE)
    bench.lab.memory.write(NOTE, TEXT + "\nand twice\n", type="skill_card")
    assert (bench.note().status, bench.note().proven) == ("candidate", True), "the promoted version still is"
    bench.lab.memory.promote(NOTE, "as good")
    assert (bench.note().status, bench.note().proven) == ("promoted", False)


def test_a_rejected_note_has_no_text_to_decide_on(bench: Bench) -> None:
    bench.lab.memory.reject(NOTE, "nonsense")
    bench.say(YES)
    with pytest.raises(Conflict):
        bench.lab.memory.decide(NOTE)


def test_a_gate_judges_what_is_written_beside_the_record(bench: Bench) -> None:
    told = bench.lab.memory.write("notes/b.md", "the second note")
    assert (told["status"], [one["excerpt"] for one in told["verdict"]["findings"]]) == (
        "candidate",
        [f"beside {NOTE}"],
    )
    put = bench.lab.memory.write("notes/c.md", "the second of a crowd")
    assert (put["status"], put["verdict"]["category"]) == ("quarantined", "crowd")
    assert bench.lab.memory.list(status="quarantined").items[0].path == "notes/c.md"
    assert bench.lab.memory.scan("the second of a crowd")["outcome"] == "pass"  # of the text alone


def test_a_gate_that_fails_beside_the_record_leaves_it_to_a_person(bench: Bench) -> None:
    made = bench.lab.memory.write("notes/b.md", "raise")
    assert (made["status"], made["verdict"]["category"]) == ("quarantined", "gate_failed")
    assert "OSError" in made["verdict"]["findings"][0]["excerpt"]
    graver = bench.lab.memory.write("notes/c.md", "odd, and raise")
    assert graver["verdict"]["category"] == "odd"
