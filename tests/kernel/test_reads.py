"""Reads that faces need: notes by their words, the newest event, and waiting for the next one."""

from __future__ import annotations

import threading
from pathlib import Path
from time import process_time
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, NotFound, NotPermitted, UsageError
from perpetual.lab import doctor


def test_a_search_finds_the_notes_that_hold_most_of_its_words(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("notes/adam.md", "# Adam\nbeta2 matters\n")
        lab.memory.write("notes/sgd.md", "# SGD\nmomentum matters more than BETA2\n")
        lab.memory.write("notes/data.md", "# Data\nshuffle it\n")
        found = lab.memory.search("sgd beta2")
        assert [(hit.note.path, hit.excerpt) for hit in found.items] == [
            ("notes/sgd.md", "# SGD"),
            ("notes/adam.md", "beta2 matters"),
        ]
        # in pages, the shorter one first, of which the word is a greater part
        first = lab.memory.search("matters", limit=1)
        assert [hit.note.path for hit in first.items] == ["notes/adam.md"]
        rest = lab.memory.search("matters", limit=1, cursor=first.next_cursor)
        assert ([hit.note.path for hit in rest.items], rest.next_cursor) == (["notes/sgd.md"], None)
        lab.memory.write("notes/tim.md", "# Tim\nbeta2 matters\n")  # equally good ones: the newest first
        assert [hit.note.path for hit in lab.memory.search("matters").items][:2] == ["notes/tim.md", "notes/adam.md"]
        assert lab.memory.search("nowhere").items == ()
        for query, cursor in (("", None), ("?!", None), ("x", "soon")):
            with pytest.raises(UsageError):
                lab.memory.search(query, cursor=cursor)


def test_an_agent_finds_only_what_it_may_be_shown(project: Path) -> None:
    with Lab.open(project) as person, Lab.open(project, actor="mcp:c/1") as agent:
        person.memory.write("notes/skill.md", "how to warm up\n", type="skill_card")  # shown once it is promoted
        person.memory.write("notes/plain.md", "how to cool down\n")
        assert [hit.note.path for hit in person.memory.search("how").items] == ["notes/plain.md", "notes/skill.md"]
        assert [hit.note.path for hit in agent.memory.search("how").items] == ["notes/plain.md"]


def test_the_newest_event_is_known_and_the_next_one_waited_for(project: Path) -> None:
    with Lab.open(project) as lab, Lab.open(project) as other:
        last = lab.feed.last()
        assert last == lab.events()[-1].seq
        heard: list[int] = []

        def wait() -> None:
            lab.feed.wait(last, timeout_s=60)
            heard.append(lab.feed.last())

        waiting = threading.Thread(target=wait)
        waiting.start()
        other.hypotheses.add("x")
        waiting.join(timeout=60)
        assert heard == [last + 1]


def test_an_event_between_the_look_and_the_waiting_is_not_slept_over(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab.open(project) as lab, Lab.open(project) as other:
        last = lab.feed.last()
        store: Any = lab.context.store
        count, wait = store.count, store.wait

        def slow_count(kind: str) -> int:
            found: int = count(kind)
            other.hypotheses.add("in between")
            return found

        def checked_wait(since: int, timeout_s: float) -> int:
            found: int = wait(since, 0.0)
            assert found > since, "it would wait for the event after the one that it was asked for"
            return found

        monkeypatch.setattr(store, "count", slow_count)
        monkeypatch.setattr(store, "wait", checked_wait)
        lab.feed.wait(last, timeout_s=30)


def test_a_person_can_allow_an_agent_to_approve(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(project, actor="mcp:c/1") as lab:
        ids = [lab.experiments.propose(command=f"true {number}").id for number in range(2)]
        with pytest.raises(NotPermitted):
            lab.experiments.approve_all(ids)
        assert [item.status for item in lab.experiments.approve_all(ids[:1], allowed=True)] == ["approved"]
        with pytest.raises(Conflict):
            lab.experiments.approve_all([ids[1], ids[0]], allowed=True)  # all of them or none
        assert lab.experiments.get(ids[1]).status == "proposed"


@pytest.mark.parametrize(
    ("file", "content", "is_named"),
    [
        ("RECORD", "stranger.dist-info/RECORD,,\nperpetual/__init__.py,sha256=x,1\n", True),
        ("RECORD", "perpetual.py,sha256=x,1\n", True),
        ("SOURCES.txt", "setup.py\nperpetual/__init__.py\n", True),
        ("top_level.txt", "other\nperpetual\n", True),
        ("RECORD", "perpetual_other/perpetual/__init__.py,,\nsrc/perpetual/__init__.py,,\nperpetual.pyx,,\n", False),
        ("top_level.txt", "perpetual_other\n", False),
    ],
)
def test_another_distribution_of_the_same_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, content: str, is_named: bool
) -> None:
    about = tmp_path / "stranger-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (about / file).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = [item for item in doctor.Doctor.outside() if item["check"] == "import"]
    assert found["ok"] is not is_named
    assert ("stranger also installs a package called perpetual" in found["detail"]) == is_named


@pytest.mark.parametrize(
    ("query", "paths"),
    [
        ("which optimiser is best", ["notes/adam.md"]),  # the words of the question say nothing of its subject
        ("optimisers", ["notes/adam.md"]),
        ("sis", []),  # a short word begins a word
        ("it", ["notes/adam.md", "notes/thesis.md"]),  # there is no other word to go by
        ("BATCH size", ["notes/thesis.md"]),
    ],
)
def test_a_question_is_searched_by_its_subject(lab: Lab, query: str, paths: list[str]) -> None:
    lab.memory.write("notes/thesis.md", "It is no evidence for anything; the batch sizes differ.")
    lab.memory.write("notes/adam.md", "Adam beat SGD: it is the optimiser that matters.")
    assert sorted(hit.note.path for hit in lab.memory.search(query).items) == paths


def test_a_megabyte_in_place_of_a_name_costs_no_time(project: Path) -> None:
    """An agent's slip: each name would be compared with all of it."""
    with Lab.open() as lab:
        for number in range(20):
            lab.experiments.propose(command=f"echo {number}", wall_s=60)
        began = process_time()
        with pytest.raises(NotFound, match="no experiment e1x"):
            lab.experiments.get("e1" + "x y " * 250_000)
        assert process_time() - began < 1.5
