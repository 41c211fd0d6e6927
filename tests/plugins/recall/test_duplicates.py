"""What an author is shown of notes that say the same: by the gate, at the write."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Gate, TextProvenance
from perpetual.cli.app import run
from perpetual.testing.gates import GateContract
from perpetual_recall import duplicates
from perpetual_recall.duplicates import near_duplicates, shingles, sketch
from perpetual_recall.gate import build
from perpetual_recall.index import index_path

AGENT = "mcp:c/1"
WARM = (
    "# Warm-up helps adam\n\nFive hundred steps of warm-up are enough. Longer ones cost time. Shorter ones diverge.\n"
)


class TestDuplicates(GateContract):
    factory = "perpetual_recall.gate:build"
    judges_text = False


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as made:
        yield made


def said(lab: Lab, path: str, text: str) -> list[str]:
    return [one["excerpt"] for one in lab.memory.write(path, text)["verdict"]["findings"]]


def test_the_author_is_told_which_note_to_change(lab: Lab) -> None:
    assert said(lab, "notes/warm.md", WARM) == []
    answer = lab.memory.write("notes/again.md", f"{WARM} Indeed.\n")
    assert (answer["status"], answer["verdict"]["outcome"]) == ("candidate", "pass")
    (found,) = answer["verdict"]["findings"]
    assert (found["rule"], found["excerpt"]) == (
        "near_duplicate",
        "says the same as notes/warm.md: change that note instead (agents are shown one of the two)",
    )
    assert said(lab, "notes/third.md", WARM) == [
        "says the same as notes/warm.md (and 1 more): change that note instead (agents are shown one of them)"
    ]
    assert said(lab, "notes/other.md", "# Batches\nwarm-up is not needed for large batches of data\n") == []


def test_a_note_that_is_changed_is_no_duplicate_of_itself(lab: Lab) -> None:
    said(lab, "notes/warm.md", WARM)
    assert said(lab, "notes/warm.md", f"{WARM} Indeed.\n") == []
    said(lab, "notes/warm.md", "# Another\nIt has now other words, on another subject altogether.\n")
    assert said(lab, "notes/again.md", WARM) == []  # the earlier version is not compared


def test_the_opposite_verdict_is_no_duplicate(lab: Lab) -> None:
    said(lab, "notes/warm.md", WARM)
    assert said(lab, "notes/hurts.md", WARM.replace("helps", "hurts")) == []


def test_an_agent_is_told_of_notes_that_it_may_see(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("skills/warm.md", WARM, type="skill_card")  # not shown before it is promoted
        assert len(said(lab, "notes/mine.md", WARM)) == 1
        lab.memory.reject("notes/mine.md", "a copy")
    with Lab.open(project, actor=AGENT) as lab:
        assert not any("change that note" in one for one in said(lab, "notes/agent.md", WARM))


def test_an_index_that_is_held_is_named_and_the_note_is_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from perpetual_recall import index

    said(lab, "notes/warm.md", WARM)
    monkeypatch.setattr(index, "_WAIT_S", 0.05)
    lab.memory.search("warm-up")
    holder = sqlite3.connect(index.index_path(lab), isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with Lab.open(lab.root) as other:
            answer = other.memory.write("notes/again.md", WARM)
    finally:
        holder.close()
    assert answer["status"] == "candidate"
    (found,) = answer["verdict"]["findings"]
    assert found["rule"] == "not_compared"
    assert "another process" in found["excerpt"]


def test_what_a_transaction_takes_back_is_in_no_index(project: Path) -> None:
    """Else agents would find a text that no person has promoted."""
    with Lab.open(project) as lab:
        lab.memory.search("zebra")
        lab.memory.write("skills/warm.md", WARM, type="skill_card")  # not indexed yet
        with suppress(KeyError), lab.transaction():
            lab.memory.promote("skills/warm.md", "held")
            lab.memory.write("notes/other.md", "# Zebra\nof another subject\n")
            raise KeyError
        assert lab.memory.get("skills/warm.md").status == "candidate"
        assert [hit.note.path for hit in lab.memory.search("warm-up").items] == ["skills/warm.md"]
    with Lab.open(project, actor=AGENT) as lab:
        assert lab.memory.search("warm-up").items == ()


def test_the_index_of_another_record_is_no_transaction(project: Path) -> None:
    """Of one with more commits and fewer events than the record that took its place."""
    with Lab.open(project) as lab:
        lab.memory.write("notes/warm.md", WARM)
        lab.memory.search("warm-up")
        connection = sqlite3.connect(index_path(lab))
        with connection:
            connection.execute("UPDATE state SET value = '100000' WHERE name = 'seq'")
            connection.execute("UPDATE state SET value = '1' WHERE name = 'event'")
        connection.close()
    with Lab.open(project) as lab:
        assert [hit.note.path for hit in lab.memory.search("warm-up").items] == ["notes/warm.md"]


def test_a_first_index_inside_of_a_transaction_is_named(lab: Lab) -> None:
    with lab.transaction():
        assert said(lab, "notes/warm.md", WARM) == []
        (found,) = lab.memory.write("notes/again.md", WARM)["verdict"]["findings"]
        assert found["rule"] == "not_compared"
        assert "not indexed inside of a transaction" in found["excerpt"]
    assert len(said(lab, "notes/third.md", WARM)) == 1


def test_alike_texts_share_enough_of_their_sketches(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the threshold of alikeness about 1 pair in 7,000 is missed; in 2,000 pairs above it hardly one."""
    draw, missed, alike = random.Random(5), 0, 0
    for _ in range(2000):
        words = [f"w{draw.randrange(5000)}" for _ in range(90)]
        changed = [*words]
        for place in draw.sample(range(90), draw.randrange(0, 8)):
            changed[place] = "changed"
        mine, other = shingles(" ".join(words)), shingles(" ".join(changed))
        if duplicates.are_alike(mine, other):
            alike += 1
            missed += len({*sketch(mine)} & {*sketch(other)}) < duplicates.shared_at_least(len(sketch(mine)))
    assert alike > 1000
    assert missed <= 2


def test_short_texts_are_compared_whole(lab: Lab) -> None:
    said(lab, "notes/a.md", "warm up adam\n")
    assert len(said(lab, "notes/b.md", "Warm up, Adam!\n")) == 1
    assert near_duplicates(lab, "") == []


def test_the_command_shows_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "write", "notes/warm.md", WARM]) == 0
    capsys.readouterr()
    assert run(["memory", "write", "notes/again.md", WARM]) == 0
    shown = capsys.readouterr().out
    assert "near_duplicate in its content: says the same as notes/warm.md: change that note instead" in shown


def test_it_passes_every_text_alone() -> None:
    gate: Gate = build({})
    assert gate.scan(WARM, TextProvenance("notes/a.md", "note", "user:x")).outcome == "pass"


def test_an_index_that_is_removed_is_built_anew(lab: Lab) -> None:
    said(lab, "notes/warm.md", WARM)
    assert len(lab.memory.search("warm-up").items) == 1
    for _ in range(2):
        Path(index_path(lab)).unlink()
        assert len(lab.memory.search("warm-up").items) == 1
        assert Path(index_path(lab)).is_file()
