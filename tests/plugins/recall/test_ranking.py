"""Two phases: text, then what came of the runs in whose context a note was."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Experiment, Run
from perpetual.cli.app import run
from perpetual_recall import outcomes, recall
from perpetual_recall.block import memory_block
from perpetual_recall.exposure import expose
from perpetual_recall.index import index_path
from perpetual_recall.ranking import Utility, scores, z_scores

AGENT = "mcp:c/1"


@pytest.fixture
def agent(project: Path) -> Iterator[Lab]:
    """An agent's lab with two notes that fit equally well."""
    with Lab.open(project) as person:
        for name in ("one", "two"):
            person.memory.write(f"notes/{name}.md", f"# Warm-up {name}\nwarm-up of adam in {name}")
    with Lab.open(project, actor=AGENT) as lab:
        yield lab


def work(lab: Lab, command: str) -> str:
    """Proposes as the agent, approves and runs as a person; answers the run."""
    made = lab.experiments.propose(command=command, wall_s=60)
    with Lab.open(lab.root, actor="user:me") as person:
        person.experiments.approve(made.id)
        (started,) = person.runs.launch(made.id)
        person.wait([started.id], timeout_s=60)
    return started.id


def shown(lab: Lab, *, without: tuple[str, ...] = ()) -> int:
    block = memory_block(lab, "warm-up", without=without)
    assert expose(lab, block) is not None
    return len(block.notes)


def why(lab: Lab) -> dict[str, tuple[float, float]]:
    found = recall.build({}).explain(lab, "warm-up", limit=5)
    return {line["path"]: (line["good"], line["bad"]) for line in found}


def test_z_scores_and_utilities_are_those_of_the_definition() -> None:
    assert z_scores([1.0, 1.0, 1.0]) == [0.0, 0.0, 0.0]
    assert z_scores([]) == []
    assert z_scores([0.0, 2.0]) == [-1.0, 1.0]
    used = Utility(2.0, 1.0)
    assert used.mean == 3 / 5
    assert used.sd == pytest.approx(sqrt(3 * 2 / (25 * 6)))
    assert used.lower == pytest.approx(used.mean - used.sd)
    assert Utility().lower < Utility(1.0, 0.0).lower < Utility(5.0, 0.0).lower


def test_a_score_is_half_of_each() -> None:
    (first, second) = scores([0.5, 1.0], [Utility(9.0, 0.0), Utility(0.0, 9.0)], ["note", "note"])
    assert first == pytest.approx((-1.0, 1.0, 0.0))
    assert second == pytest.approx((1.0, -1.0, 0.0))


@pytest.mark.parametrize("type_", ["failure_pattern", "episodic_case"])
def test_notes_of_failures_are_not_ranked_out(type_: str) -> None:
    (_, second) = scores([0.5, 1.0], [Utility(9.0, 0.0), Utility(0.0, 9.0)], ["note", type_])
    assert second == pytest.approx((1.0, 0.0, 0.5))


def test_outcomes_are_shared_by_the_notes_of_the_context(agent: Lab) -> None:
    assert why(agent) == {"notes/one.md": (0.0, 0.0), "notes/two.md": (0.0, 0.0)}
    assert shown(agent) == 2
    work(agent, "true")
    assert why(agent) == {"notes/one.md": (0.5, 0.0), "notes/two.md": (0.5, 0.0)}
    assert shown(agent, without=("notes/two.md",)) == 1
    work(agent, "false")
    assert why(agent) == {"notes/one.md": (0.5, 1.0), "notes/two.md": (0.5, 0.0)}
    assert [hit.note.path for hit in agent.memory.search("warm-up").items] == ["notes/two.md", "notes/one.md"]


def test_runs_of_others_and_runs_before_say_nothing(agent: Lab) -> None:
    work(agent, "true")
    assert shown(agent) == 2
    with Lab.open(agent.root, actor="mcp:other/2") as other:
        work(other, "false")
    assert why(agent) == {"notes/one.md": (0.0, 0.0), "notes/two.md": (0.0, 0.0)}


def test_an_exposure_that_names_a_run_is_of_that_run(agent: Lab) -> None:
    with Lab.open(agent.root, actor="mcp:other/2") as other:
        ended = work(other, "false")
    assert why(agent)["notes/one.md"] == (0.0, 0.0)
    assert expose(agent, memory_block(agent, "warm-up"), run=ended) is not None
    assert why(agent) == {"notes/one.md": (0.0, 0.5), "notes/two.md": (0.0, 0.5)}


def test_a_changed_note_begins_anew(agent: Lab) -> None:
    shown(agent)
    work(agent, "true")
    agent.memory.write("notes/one.md", "# Warm-up changed\nwarm-up")
    assert why(agent)["notes/one.md"] == (0.0, 0.0)


def test_an_index_built_anew_says_the_same(agent: Lab) -> None:
    shown(agent)
    work(agent, "true")
    shown(agent, without=("notes/one.md",))
    work(agent, "false")
    before = why(agent)
    Path(index_path(agent)).unlink()
    assert why(agent) == before
    Path(index_path(agent)).write_bytes(b"no database" * 100)
    assert why(agent) == before


def test_the_fold_reads_only_what_has_changed(agent: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    shown(agent)
    work(agent, "true")
    why(agent)
    settled: list[str] = []
    settle = outcomes.outcome_of

    def watched(one: Run, of: Experiment) -> bool | None:
        settled.append(one.id)
        return settle(one, of)

    monkeypatch.setattr(outcomes, "outcome_of", watched)
    why(agent)
    assert settled == []
    assert work(agent, "true") == "r2"
    why(agent)
    assert {*settled} == {"r2"}


def test_a_stricter_exposure_hides_notes_from_the_next_search_on(project: Path) -> None:
    with Lab.open(project, actor=AGENT) as lab, Lab.open(project) as person:
        person.memory.write("a.md", "warm-up")
        assert len(lab.memory.search("warm-up").items) == 1
        person.settings.set_methodology("memory_exposure", "promoted")
    with Lab.open(project, actor=AGENT) as lab:
        assert lab.memory.search("warm-up").items == ()


def test_words_that_only_a_newer_version_has_lead_no_agent_to_the_note(project: Path) -> None:
    with Lab.open(project) as person, Lab.open(project, actor=AGENT) as lab:
        person.memory.write("skills/a.md", "# Card\nwarm-up", type="skill_card")
        person.memory.promote("skills/a.md", "tried")
        person.memory.write("skills/a.md", "# Card\nzebra", type="skill_card")
        assert [len(it.memory.search("zebra").items) for it in (person, lab)] == [1, 0]
        assert [len(it.memory.search("warm-up").items) for it in (person, lab)] == [0, 1]


def test_the_commands_show_the_arithmetic_and_the_block(agent: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["memory", "search", "warm-up one", "--explain", "--json", "-k", "1"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert items[0]["path"] == "notes/one.md"
    assert items[0]["score"] == pytest.approx((items[0]["z_sim"] + items[0]["z_q"]) / 2)
    assert [item["left_out"] is None for item in items] == [True, False]
    assert run(["memory", "search", "warm-up", "--explain"]) == 0
    assert "z_sim" in capsys.readouterr().out
    assert run(["memory", "block", "warm-up", "--json", "--tokens", "200"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tokens"] <= document["limit_tokens"] == 200
    assert {note["path"] for note in document["notes"]} == {"notes/one.md", "notes/two.md"}


def test_the_index_is_not_touched_where_no_note_exists(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.status()
        assert lab.memory.search("warm-up").items == ()
        assert not Path(index_path(lab)).exists()


def test_many_notes_are_offered_by_the_open_claims(project: Path) -> None:
    with Lab.open(project) as lab:
        for number in range(12):
            lab.memory.write(f"notes/{number}.md", f"# Note {number}\nabout {'zebras' if number == 2 else 'nothing'}")
        newest = [note["path"] for note in lab.status()["brief"]["notes"]]
        assert newest == [f"notes/{number}.md" for number in range(11, 3, -1)]
        lab.hypotheses.add("zebra stripes help")
        assert [note["path"] for note in lab.status()["brief"]["notes"]] == ["notes/2.md", *newest[:7]]


def test_a_locked_index_is_a_transient_error(agent: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from perpetual.api import TransientError

    why(agent)
    monkeypatch.setattr("perpetual_recall.index._WAIT_S", 0.05)
    holder = sqlite3.connect(index_path(agent), isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TransientError):
            why(agent)
    finally:
        holder.close()


def test_a_candidate_is_shown_beside_notes_that_did_well(agent: Lab) -> None:
    """A trial's one arm has the note that it is about, whatever the others score."""
    shown(agent)
    work(agent, "true")
    block = memory_block(agent, "warm-up", limit=1, extra=("skills/new.md", "skill_card", "# New\nalways"))
    assert [note.path for note in block.notes] == ["skills/new.md"]
