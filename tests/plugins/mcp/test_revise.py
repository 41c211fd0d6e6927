"""`perpetual_edit` and `perpetual_undo`: the caller's own waiting proposals, hypotheses and deeds, and no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from pydantic import TypeAdapter

from perpetual import Lab
from perpetual.brief import tokens_of
from perpetual_mcp.schemas import EditAnswer, UndoAnswer
from tests.plugins.mcp.clients import error_of, opener, talk, text_of

SHAPES: dict[str, TypeAdapter[Any]] = {"edit": TypeAdapter(EditAnswer), "undo": TypeAdapter(UndoAnswer)}


@pytest.fixture
def place(project: Path) -> Path:
    """A project with a hypothesis and a proposal of a person, and the same of the client."""
    with Lab.open(project) as person:
        person.hypotheses.add("a person's", metric="loss", direction="min", mde=0.1, baseline=2.0)
        person.experiments.propose("h1", command="true person")
    with Lab.open(project, actor="mcp:c/1") as agent:
        agent.hypotheses.add("warm-up helps", metric="loss", direction="min", mde=0.1, baseline=2.0)
        agent.experiments.propose("h2", command="true mine")
    return project


def calls(place: Path, *asked: tuple[str, dict[str, Any]]) -> list[Any]:
    """The answers of the tools in turn, each a document of its schema and size, or the error."""

    async def deed(client: Client) -> list[Any]:
        found = []
        for name, arguments in asked:
            result = await client.call_tool(f"perpetual_{name}", arguments)
            if result.is_error:
                found.append(error_of(result))
                continue
            document = result.structured_content or {}
            SHAPES[name].validate_python(document, strict=True)
            assert tokens_of(json.dumps(document)) + tokens_of(text_of(result)) <= 2000
            found.append({**document, "text": text_of(result)})
        return found

    answers: list[Any] = talk(opener(place), deed)
    return answers


def test_an_agent_edits_its_own_proposal_and_hypothesis(place: Path) -> None:
    edited, claim = calls(
        place,
        ("edit", {"id": "E2", "wall": "30m", "memory": "1GiB", "tags": ["warm"], "config": {"lr": 0.1}}),
        ("edit", {"id": "h2", "statement": "warm-up lowers the loss", "mde": 0.2}),
    )
    assert (edited["id"], edited["status"], edited["voided"]) == ("e2", "proposed", [])
    assert edited["before"] == {"config": {}, "tags": [], "wall_s": 86400.0, "memory_bytes": None}
    assert edited["after"] == {"config": {"lr": 0.1}, "tags": ["warm"], "wall_s": 1800.0, "memory_bytes": 2**30}
    assert "wall_s: 86400.0 -> 1800.0" in edited["text"]
    assert "Waiting for a person: e2." in edited["text"]
    assert claim["before"] == {"statement": "warm-up helps", "mde": 0.1}
    assert claim["after"] == {"statement": "warm-up lowers the loss", "mde": 0.2}
    with Lab.open(place) as lab:
        found = lab.experiments.get("e2")
        assert (found.resources.wall_s, found.resources.memory_bytes, found.tags) == (1800.0, 2**30, ("warm",))
        assert found.config == {"lr": 0.1}
        assert lab.hypotheses.get("h2").statement == "warm-up lowers the loss"
        assert {event.actor for event in lab.events()[-2:]} == {"mcp:c/1"}


def test_what_is_a_person_s_approved_or_has_evidence_is_refused(place: Path) -> None:
    with Lab.open(place) as person:
        person.experiments.propose("h2", command="true other")
        person.experiments.approve("e2")
        person.evidence.add("h2", verdict="supports", why="seen")
        last = person.feed.last()
    refused = calls(
        place,
        ("edit", {"id": "e1", "notes": "x"}),
        ("edit", {"id": "h1", "statement": "x"}),
        ("edit", {"id": "e2", "notes": "x"}),
        ("edit", {"id": "h2", "statement": "x"}),
        ("edit", {"id": "e9", "notes": "x"}),
    )
    assert [(error["code"], error["exit"]) for error in refused] == [
        ("not_permitted", 4), ("not_permitted", 4), ("not_permitted", 4), ("conflict", 6), ("not_found", 5),
    ]  # fmt: skip
    with Lab.open(place) as lab:
        assert lab.feed.last() == last


def test_an_edited_baseline_says_whose_approval_has_ended(place: Path) -> None:
    with Lab.open(place, actor="mcp:c/1") as agent:
        agent.experiments.propose(command="true base", metric="loss", direction="min")
        agent.hypotheses.edit("h2", baseline="e3")
        agent.experiments.propose("h2", command="true new", baseline="e3")
    with Lab.open(place) as person:
        person.experiments.approve("e4")
    (edited,) = calls(place, ("edit", {"id": "e3", "command": "true other"}))
    assert edited["voided"] == ["e4"]
    assert "the approval of e4 has ended" in edited["text"]
    assert "Waiting for a person: e3, e4." in edited["text"]


def test_an_agent_takes_back_its_own_deeds_alone(place: Path) -> None:
    with Lab.open(place) as person:
        person.hypotheses.add("a later one of a person")
    rehearsed, edit, first, second, third, empty = calls(
        place,
        ("undo", {"dry_run": True}),
        ("edit", {"id": "e2", "notes": "so"}),
        *[("undo", {})] * 4,
    )
    assert (rehearsed["what"], rehearsed["dry_run"]) == ("the proposal e2", True)
    assert edit["after"] == {"notes": "so"}
    assert (first["what"], first["dry_run"]) == ("the edit of e2", False)
    assert (second["what"], third["what"]) == ("the proposal e2", "the hypothesis h2")
    assert "took back the proposal e2 of " in second["text"]
    assert (empty["code"], empty["exit"]) == ("nothing_to_undo", 6)
    assert "perpetual evidence retract" in empty["hint"]
    assert "reject" not in empty["hint"]  # which is for a person
    with Lab.open(place) as lab:
        assert lab.experiments.get("e2").status == "rejected"
        assert lab.experiments.get("e1").status == "proposed"
        assert [lab.hypotheses.get(id).archived for id in ("h1", "h2", "h3")] == [False, True, False]
        assert lab.storage.verify() == []


@pytest.mark.parametrize("store", ["tinydb", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_an_undo_of_a_named_deed_is_done_once(place: Path, store: str) -> None:
    """A client that lost the answer asks again: the deed before must not go with it."""
    if store == "sqlite":
        with Lab.open(place) as lab:
            lab.storage.migrate(store)
    (rehearsed,) = calls(place, ("undo", {"dry_run": True}))
    (seq,) = rehearsed["seqs"]
    done, again, wrong = calls(
        place, ("undo", {"seq": seq}), ("undo", {"seq": seq}), ("undo", {"seq": seq, "dry_run": True})
    )
    assert (done["what"], done["seqs"]) == ("the proposal e2", [seq])
    for refused in (again, wrong):
        assert (refused["code"], refused["exit"]) == ("not_last", 6)
        assert refused["message"].startswith("your last deed is the hypothesis h2 (seq ")
    with Lab.open(place) as lab:
        assert not lab.hypotheses.get("h2").archived
