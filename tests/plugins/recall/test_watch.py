"""Promoted notes are withheld from agents by chance, and go back to quarantine where work goes worse with them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PromotionStage
from perpetual.cli.app import run
from perpetual.testing.promotion_stages import PromotionStageContract
from perpetual_recall import calls, outcomes
from perpetual_recall.block import Block, memory_block
from perpetual_recall.calls import calls_of
from perpetual_recall.exposure import expose
from perpetual_recall.harm import Call
from perpetual_recall.holdout import point
from perpetual_recall.index import index_path
from perpetual_recall.watch import build, harm_of

AGENT = "mcp:c/1"
TEXT = "# Warm-up\nwarm-up of adam helps"


@pytest.mark.slow
class TestWatchStage(PromotionStageContract):
    @pytest.fixture
    def stage(self) -> PromotionStage:
        return build({})


@pytest.fixture
def person(project: Path) -> Iterator[Lab]:
    with Lab.open(project, actor="user:me") as lab:
        yield lab


@pytest.fixture
def agent(person: Lab) -> Iterator[Lab]:
    with Lab.open(person.root, actor=AGENT) as lab:
        yield lab


def path_of(lab: Lab, *withheld: bool, chance: float = 0.5, but: str = "") -> str:
    """Returns a path of which the draws, at so many runs as there are answers, are these."""
    project = lab.config.project_id
    names = (f"notes/n{number}.md" for number in range(10_000))
    return next(
        name
        for name in names
        if name != but
        and all((point(project, "agent c", name, runs) < chance) == out for runs, out in enumerate(withheld))
    )


def promoted(lab: Lab, path: str, text: str = TEXT) -> str:
    lab.memory.write(path, text)
    lab.memory.promote(path, "tried")
    return path


def shown(lab: Lab, chance: float = 0.5) -> Block:
    block = memory_block(lab, "warm-up", holdout=chance)
    expose(lab, block)
    return block


def work(agent: Lab, person: Lab, command: str) -> None:
    """Proposes as the agent, approves and runs as a person."""
    made = agent.experiments.propose(command=command, wall_s=60)
    person.experiments.approve(made.id)
    (begun,) = person.runs.launch(made.id)
    person.wait([begun.id], timeout_s=60)


def test_what_is_withheld_stays_so_until_a_run_is_started(agent: Lab, person: Lab) -> None:
    path = promoted(person, path_of(person, True, False))
    for _ in range(2):
        block = shown(agent)
        assert (block.text, block.notes) == ("", ())
    assert memory_block(person, "warm-up", holdout=0.5).holdout is None
    assert [note.path for note in memory_block(person, "warm-up", holdout=0.5).notes] == [path]
    assert memory_block(agent, "warm-up").holdout is None
    (row,) = agent.records("recall.exposure").list().items
    drawn = {"path": path, "blob": person.memory.get(path).blob, "shown": False}
    assert [row[key] for key in ("notes", "drawn", "holdout", "runs")] == [[], [drawn], 0.5, 0]
    work(agent, person, "true")
    assert [note.path for note in shown(agent).notes] == [path]
    assert [row["runs"] for row in agent.records("recall.exposure").list().items] == [0, 1]


def test_the_rest_of_the_block_names_no_withheld_note(agent: Lab, person: Lab) -> None:
    out = path_of(person, True)
    kept = path_of(person, False, but=out)
    promoted(person, out, "# Warm-up helps adam\nwarm-up of five hundred steps is enough")
    promoted(person, kept, f"---\ncontradicts: {out}\n---\n# Elsewhere\nwarm-up is idle talk")
    person.memory.write("notes/candidate.md", "# Third\nwarm-up of another kind")
    assert out in memory_block(agent, "warm-up").text
    block = shown(agent)
    assert out not in block.text
    assert {note.path for note in block.notes} == {kept, "notes/candidate.md"}
    assert block.holdout is not None
    assert {note.path for note in block.holdout.notes} == {out, kept}  # a candidate is not drawn on


@pytest.mark.slow
def test_a_note_that_harms_goes_back_to_quarantine(agent: Lab, person: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    draws = [False, True, False, True]
    path = promoted(person, path_of(person, *draws))
    for is_out in draws:
        assert bool(shown(agent).notes) != is_out
        person.scan()
        assert person.memory.get(path).status == "promoted"
        work(agent, person, "true" if is_out else "false")
    found = harm_of(person, path, person.memory.get(path).blob)
    assert (found.shown, found.shown_good, found.withheld, found.withheld_good) == (2, 0, 2, 2)
    assert found.most >= 5
    Path(index_path(person)).unlink()
    assert harm_of(person, path, person.memory.get(path).blob) == found  # from the record alone
    assert run(["memory", "show", path]) == 0
    assert "watch: shown: 0 of 2 calls ended well; withheld: 2 of 2 calls ended well" in capsys.readouterr().out
    person.scan()
    assert person.memory.get(path).status == "quarantined"
    assert memory_block(agent, "warm-up").notes == ()
    event = next(one for one in person.events() if one.kind == "note_quarantined")
    assert "watch: shown: 0 of 2" in str(event.payload["why"])
    # A person's word begins anew.
    person.memory.promote(path, "I looked at it")
    person.scan()
    assert person.memory.get(path).status == "promoted"
    Path(index_path(person)).unlink()
    assert harm_of(person, path, person.memory.get(path).blob).calls == 0


def test_the_command_withholds_from_agents_unless_it_is_turned_off(
    person: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    promoted(person, "notes/a.md")
    person.settings.set_config("plugins.recall.holdout", "0.5")
    assert run(["memory", "block", "warm-up", "--json"]) == 0
    assert [note["path"] for note in json.loads(capsys.readouterr().out)["notes"]] == ["notes/a.md"]
    assert person.records("recall.exposure").list().items == ()
    monkeypatch.setenv("CLAUDECODE", "1")
    for chance, recorded in (("0.5", 0.5), ("0", None)):
        with monkeypatch.context() as patch:
            patch.delenv("CLAUDECODE")
            person.settings.set_config("plugins.recall.holdout", chance)
        assert run(["memory", "block", "warm-up"]) == 0
        assert [*person.records("recall.exposure").list().items][-1]["holdout"] == recorded


# --- which calls count ----------------------------------------------------------------------------------------------

DAY = "2026-01-{:02d}T{:02d}:00:00.000Z"


@pytest.fixture
def tables() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    for table in (*calls.TABLES, *outcomes.TABLES):
        connection.execute(table)
    yield connection
    connection.close()


def call(
    tables: sqlite3.Connection, no: int, hour: int, *, day: int = 1, actor: str = "agent a", shown: int = 1
) -> None:
    time = DAY.format(day, hour)
    tables.execute("INSERT INTO calls VALUES (?, ?, ?, 'n', 'b', ?, 0.95, ?)", (no, actor, no, shown, time))
    tables.execute("INSERT INTO exposures VALUES (?, ?, ?, NULL, '[]')", (no, actor, time))


def start(
    tables: sqlite3.Connection, name: str, hour: int, outcome: str, *, day: int = 1, actor: str = "agent a"
) -> None:
    tables.execute("INSERT INTO starts VALUES (?, ?, ?, ?)", (name, actor, DAY.format(day, hour), outcome))


def found(tables: sqlite3.Connection) -> list[Call]:
    return [*calls_of(tables, "n", "b")]


def test_a_call_is_an_exposure_and_the_first_run_after_it(tables: sqlite3.Connection) -> None:
    start(tables, "r0", 0, "bad")
    call(tables, 1, 1)
    start(tables, "r1", 2, "good")
    start(tables, "r2", 3, "bad")
    call(tables, 2, 4, shown=0)
    start(tables, "r3", 5, "bad", actor="agent b")
    start(tables, "r4", 6, "bad")
    assert found(tables) == [Call(True, True, 0.95), Call(False, False, 0.95)]


def test_a_call_that_goes_on_holds_up_those_after_it(tables: sqlite3.Connection) -> None:
    call(tables, 1, 1)
    call(tables, 2, 2, actor="agent b")
    call(tables, 3, 3, actor="agent c")
    start(tables, "r1", 4, "good")
    start(tables, "r3", 5, "good", actor="agent c")
    assert len(found(tables)) == 1  # the second may still start its run
    start(tables, "r2", 6, "goes on", actor="agent b")
    assert len(found(tables)) == 1
    tables.execute("UPDATE starts SET outcome = 'nothing' WHERE run = 'r2'")
    assert len(found(tables)) == 2


def test_a_call_without_a_run_within_a_day_is_left_out(tables: sqlite3.Connection) -> None:
    call(tables, 1, 1)
    call(tables, 2, 2, actor="agent b")
    start(tables, "r2", 3, "good", actor="agent b")
    assert found(tables) == []
    start(tables, "r1", 2, "bad", day=3)
    assert found(tables) == [Call(True, True, 0.95)]


def test_a_run_is_the_outcome_of_one_call(tables: sqlite3.Connection) -> None:
    call(tables, 1, 1)
    call(tables, 2, 2, actor="agent b", shown=0)
    for actor in ("agent a", "agent b"):
        start(tables, "r1", 3, "good", actor=actor)
    assert found(tables) == [Call(True, True, 0.95)]


def test_calls_before_the_last_promotion_do_not_count(tables: sqlite3.Connection) -> None:
    call(tables, 1, 1)
    start(tables, "r1", 2, "bad")
    tables.execute("INSERT INTO promotions VALUES ('n', 'b', ?)", (DAY.format(1, 3),))
    assert found(tables) == []
    call(tables, 2, 4)
    start(tables, "r2", 5, "good")
    assert found(tables) == [Call(True, True, 0.95)]
