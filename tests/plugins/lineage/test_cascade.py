"""A note that is taken back takes along what derives from it: at once, at a scan, and in searches in between."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import PromotionStage, StageVerdict
from perpetual.cli.app import run
from perpetual.errors import Conflict, NotPermitted, Refused, UsageError
from perpetual_find.search import find
from perpetual_lineage.cascade import lineage_of, reject
from perpetual_lineage.index import index_path
from perpetual_recall.block import memory_block
from tests.plugins.lineage.notes_harness import derived, statuses

A, B, C, D = (f"notes/{name}.md" for name in "abcd")
CLAIM = "# Warm-up\n\nWarm-up of 500 steps lowers val_loss by 0.1.\n"


@pytest.fixture
def chain(lab: Lab) -> Lab:
    """A <- B <- C, and D by itself."""
    lab.memory.write(A, CLAIM)
    lab.memory.write(B, derived("notes/a", body="# Warm-up everywhere\n\nEvery model needs a warm-up.\n"))
    lab.memory.write(C, derived(B, body="# Warm-up in the sweep\n\nLeave the warm-up out of sweeps.\n"))
    lab.memory.write(D, "# Dropout\n\nDropout of 0.1 changes nothing.\n")
    return lab


def found_by_agents(lab: Lab, query: str = "warm-up dropout") -> set[str]:
    with Lab.open(lab.root, actor="agent:tester") as reader:
        found = {hit.note.path for hit in reader.memory.search(query).items}
        assert {note.path for note in memory_block(reader, query).notes} <= found
        words = [item["id"] for word in query.split() for item in find(reader, word, kinds=["note"])["items"]]
        assert {*words} == found
    return found


def test_a_rejection_takes_its_followers_back(chain: Lab) -> None:
    before = chain.feed.last()
    preview = reject(chain, A, "measured again", dry_run=True)
    assert (chain.feed.last(), preview["dry_run"], preview["status"]) == (before, True, "rejected")
    assert preview["derived"] == [
        {"path": B, "status": "candidate", "now": "candidate", "through": A},
        {"path": C, "status": "candidate", "now": "candidate", "through": B},
    ]
    made = reject(chain, A, "measured again")
    assert [(one["path"], one["now"]) for one in made["derived"]] == [(B, "quarantined"), (C, "quarantined")]
    assert statuses(chain, [A, B, C, D]) == ["rejected", "quarantined", "quarantined", "candidate"]
    assert "notes/a.md (through notes/b.md), it was rejected: measured again" in str(lineage_of(chain, C)["lost"])
    assert found_by_agents(chain) == {D}


def test_a_scan_takes_back_what_another_rejection_left(chain: Lab) -> None:
    chain.memory.reject(A, "by Python")
    assert statuses(chain, [B, C]) == ["candidate", "candidate"]
    assert found_by_agents(chain) == {D}, "before the scan they are not offered either"
    person = {hit.note.path for hit in chain.memory.search("warm-up").items}
    assert {B, C} <= person, "a person finds them"
    chain.scan()
    assert statuses(chain, [B, C]) == ["quarantined", "quarantined"]
    last = chain.feed.last()
    chain.scan()
    assert chain.feed.last() == last, "a second scan does nothing"


def test_the_index_may_be_lost(chain: Lab) -> None:
    chain.memory.reject(A, "by Python")
    chain.scan()
    Path(index_path(chain)).write_bytes(b"no index")
    with Lab.open() as again:
        assert lineage_of(again, C)["lost"] is not None
        assert [one["status"] for one in lineage_of(again, A)["derived"]] == ["quarantined", "quarantined"]


def test_what_comes_back_is_reviewed_and_not_restored(chain: Lab) -> None:
    reject(chain, A, "wrong")
    chain.memory.write(A, "# Warm-up, measured anew\n\nOver 9 seeds it lowers val_loss by 0.07.\n")
    chain.memory.promote(A, "9 seeds")
    chain.scan()
    assert statuses(chain, [A, B, C]) == ["promoted", "quarantined", "quarantined"]
    assert found_by_agents(chain) == {A, D}
    chain.memory.promote(B, "read again")
    chain.memory.promote(C, "read again")
    chain.scan()
    assert statuses(chain, [B, C]) == ["promoted", "promoted"]
    assert found_by_agents(chain) == {A, B, C, D}


def test_a_promotion_after_a_loss_names_what_to_review(chain: Lab, evidence: Callable[[str], None]) -> None:
    evidence(A)
    chain.memory.decide(A)
    assert statuses(chain, [A]) == ["quarantined"]
    chain.scan()
    assert statuses(chain, [B, C]) == ["quarantined", "quarantined"]
    chain.memory.promote(A, "the trial was at fault")
    chain.scan()
    named = [event for event in chain.events() if event.kind == "lineage.review"]
    assert [(event.subject, event.payload["derived"]) for event in named] == [(A, [B])]
    assert statuses(chain, [B]) == ["quarantined"]
    assert "the source is back: review this note" in str(lineage_of(chain, B)["lost"])


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the stage `replay` speak against one note."""
    from perpetual_replay.stage import ReplayStage

    def against(path: str) -> None:
        def judge(self: PromotionStage, lab: Lab, note: Any, text: str) -> StageVerdict:
            is_now = note.path == path and note.status != "promoted"
            return StageVerdict("quarantine", "it harms; 9 pairs") if is_now else StageVerdict("abstain")

        monkeypatch.setattr(ReplayStage, "judge", judge)

    return against


def test_a_note_of_a_lost_source_waits_for_a_person(chain: Lab) -> None:
    reject(chain, A, "wrong")
    made = chain.memory.write(D, derived(A))
    assert (made["status"], made["verdict"]["category"]) == ("quarantined", "lineage")
    assert "notes/a.md is taken back: it was rejected: wrong" in made["verdict"]["findings"][0]["excerpt"]
    with Lab.open(actor="agent:tester") as agent:
        assert agent.memory.write(B, "# Every model\n\nneeds it, no source named\n")["status"] == "quarantined"
    assert chain.memory.write(B, "# Measured by itself\n\n7 seeds, no source needed\n")["status"] == "candidate"


def test_kept_notes_stay(chain: Lab) -> None:
    made = reject(chain, A, "wrong", keep_derived=True)
    assert made["kept"]
    assert [one["path"] for one in made["derived"]] == [B, C]
    chain.scan()
    assert statuses(chain, [A, B, C]) == ["rejected", "candidate", "candidate"]
    assert found_by_agents(chain) == {B, C, D}
    assert chain.memory.write(D, derived(A))["status"] == "quarantined", "later notes have no such leave"


def test_an_agent_takes_no_promotion_back_through_a_source(chain: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    chain.memory.promote(C, "vouched")
    before = chain.feed.last()
    with monkeypatch.context() as patch:
        patch.setenv("CLAUDECODE", "1")
        with pytest.raises(NotPermitted, match=r"notes/c\.md"):
            reject(chain, A, "wrong")
        with pytest.raises(NotPermitted, match="keeping"):
            reject(chain, A, "wrong", keep_derived=True)
        assert chain.feed.last() == before, "nothing has happened"
    reject(chain, A, "wrong")
    assert statuses(chain, [A, B, C]) == ["rejected", "quarantined", "quarantined"]


def test_an_agent_takes_no_promotion_back_by_a_scan(chain: Lab) -> None:
    chain.memory.promote(C, "vouched")
    with Lab.open(actor="agent:tester") as agent:
        agent.memory.reject(A, "an agent says so")
        agent.scan()
    assert statuses(chain, [A, B, C]) == ["rejected", "quarantined", "promoted"]
    assert found_by_agents(chain) == {C, D}


def test_an_earlier_promoted_version_keeps_its_followers(chain: Lab) -> None:
    chain.memory.promote(A, "held")
    chain.memory.write(A, "# Warm-up\n\nand another thing\n")
    assert reject(chain, A, "the new version is wrong")["derived"] == []
    chain.scan()
    assert statuses(chain, [B, C]) == ["candidate", "candidate"]


def test_a_refused_rejection_takes_nothing_back(chain: Lab) -> None:
    reject(chain, A, "wrong")
    with pytest.raises(Conflict):
        reject(chain, A, "wrong")
    with pytest.raises(UsageError):
        reject(chain, D, " ")
    with pytest.raises(UsageError):
        reject(chain, D, " ", dry_run=True)
    assert statuses(chain, [D]) == ["candidate"]


def test_the_command_answers_the_same(chain: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "reject", "notes/a", "--why", "wrong", "--dry-run", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [one["path"] for one in answer["derived"]] == [B, C]
    assert run(["memory", "reject", "notes/a", "--why", "wrong"]) == 0
    said = capsys.readouterr().out
    assert "notes/c.md  is quarantined (was candidate)  derived from notes/b.md" in said
    assert run(["memory", "lineage", "notes/b"]) == 0
    said = capsys.readouterr().out
    assert "source of     notes/c.md  quarantined" in said
    assert "derived from  notes/a.md  rejected" in said


HOSTILE = [
    ("derived_from: ../../etc/passwd", "no path"),
    ("derived_from: /etc/passwd", "no path"),
    ("derived_from: notes/d", "itself"),
    ("derived_from: [1, 2]", "no path"),
    ("derived_from: {a: b}", "no path"),
    ("derived_from: [" + ", ".join(f"n{n}" for n in range(60)) + "]", "60 notes"),
    ("derived_from:\n" + "".join(f"- notes/n{n}.md\n" for n in range(10_000)), "16 KiB"),
    ("derived_from: [notes/a.md", "cannot be read"),
]


def test_hostile_sources_are_refused(lab: Lab) -> None:
    for lines, words in HOSTILE:
        with pytest.raises(Refused, match=words):
            lab.memory.write(D, f"---\n{lines}\n---\nx\n")


def test_cycles_and_missing_notes_end(lab: Lab) -> None:
    for path, source in ((A, B), (B, C), (C, A)):
        lab.memory.write(path, derived(source, "notes/missing.md", body=f"# Cycle {path}\n"))
    made = reject(lab, B, "wrong")
    assert [one["path"] for one in made["derived"]] == [A, C]
    assert statuses(lab, [A, B, C]) == ["quarantined", "rejected", "quarantined"]


DISGUISED = {
    "a quoted key": '---\n"derived_from": notes/a\n---\nx\n',
    "a flow mapping": "---\n{derived_from: notes/a, expires: 2050-01-01}\n---\nx\n",
    "an escaped key": '---\n"derived\\u005ffrom": notes/a\n---\nx\n',
    "a key all in escapes": '---\n"\\x65\\x78\\x70\\x69\\x72\\x65\\x73": 2020-01-01\n---\nx\n',
    "a merged mapping": "---\n<<: {derived_from: notes/a}\n---\nx\n",
    "capital letters": "---\nDerived_From: notes/a\n---\nx\n",
    "a byte order mark": "\ufeff---\nderived_from: notes/a\n---\nx\n",
    "an empty line before": "\n---\nderived_from: notes/a\n---\nx\n",
    "no end": "---\nderived_from: notes/a\nx\n",
    "another end": "---\nderived_from: notes/a\n...\nx\n",
    "two last days": "---\nexpires: 2050-01-01\nexpires: 2020-01-01\n---\nx\n",
}


@pytest.mark.parametrize("text", DISGUISED.values(), ids=DISGUISED)
def test_a_source_that_would_not_be_read_is_refused(lab: Lab, text: str) -> None:
    """Its author takes the note for derived; without a word it would outlive its source."""
    with pytest.raises(Refused, match=r"derived_from:|expires:"):
        lab.memory.write(D, text)


def test_words_of_the_body_are_no_source(lab: Lab) -> None:
    texts = ("---\n\nderived_from: notes/a is what a front matter says\n", "# expires: never\n",
             "---\ntitle: x\n---\nderived_from: notes/a\n", "---\ntitle: what expires, and derived_from\n---\nx\n",
             "---\nscope:\n  tag: [expires]\n---\nx\n")  # fmt: skip
    for place, text in enumerate(texts):
        assert lab.memory.write(f"notes/{place}.md", text)["status"] == "candidate", text
