"""A note holds until its last day, and no longer; a person may say otherwise."""

from __future__ import annotations

from datetime import date

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import Refused
from perpetual_lineage import ancestry, stages
from perpetual_recall.block import memory_block
from tests.plugins.lineage.notes_harness import derived, statuses

A, B = "notes/a.md", "notes/b.md"


@pytest.fixture
def tomorrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a hundred years pass for what is asked about the day."""
    for module in (stages, ancestry):
        monkeypatch.setattr(module, "today", lambda: date(2126, 1, 1))
    monkeypatch.setattr("perpetual_lineage.derivation.today", lambda: date(2126, 1, 1))


def test_a_bad_date_is_named(lab: Lab) -> None:
    for day in ("2026-13-01", "soon", "2026-1-1", "20261130", "-1", "2026-02-30"):
        with pytest.raises(Refused, match=f"expires: {day} is not a date like"):
            lab.memory.write(A, derived(expires=day))
    with pytest.raises(Refused, match="expires: nothing is not a date like"):
        lab.memory.write(A, derived(expires=""))


def test_a_past_date_is_refused_for_a_new_note(lab: Lab) -> None:
    for _ in range(2):
        with pytest.raises(Refused, match="2020-01-01 is past"):
            lab.memory.write(A, derived(expires="2020-01-01"))
    lab.memory.write(A, "# A\n\nsound\n")
    assert lab.memory.write(A, derived(expires="2020-01-01"))["status"] == "candidate"


def test_it_is_offered_until_its_day(lab: Lab, request: pytest.FixtureRequest) -> None:
    lab.memory.write(A, derived(expires="2125-12-31", body="# Cluster\n\nNode 7 is slow this week.\n"))
    lab.memory.write(B, derived(A, body="# Use node 3\n\nsince node 7 is slow\n"))
    lab.scan()
    assert {note.path for note in memory_block(lab, "node").notes} == {A, B}
    request.getfixturevalue("tomorrow")
    assert memory_block(lab, "node").notes == (), "before the scan"
    lab.scan()
    assert statuses(lab, [A]) == ["expired"]
    lab.scan()
    assert statuses(lab, [A, B]) == ["expired", "quarantined"]
    last = lab.feed.last()
    lab.scan()
    assert lab.feed.last() == last


def test_the_commands_say_expired(lab: Lab, tomorrow: None, capsys: pytest.CaptureFixture[str]) -> None:
    lab.memory.write(A, "# A\n\nsound\n")
    lab.memory.write(A, derived(expires="2125-12-31"))
    assert run(["scan"]) == 0
    capsys.readouterr()
    assert run(["memory", "show", A]) == 0
    said = capsys.readouterr().out
    assert "[expired note]" in said
    assert "expiry: its last day was 2125-12-31" in said
    assert run(["memory", "list", "--status", "expired"]) == 0
    assert A in capsys.readouterr().out


def test_a_renewed_date_brings_it_back(lab: Lab, tomorrow: None) -> None:
    lab.memory.write(A, "# A\n\nsound\n")
    lab.memory.write(A, derived(expires="2125-12-31", body="# Node 7\n\nis slow\n"))
    lab.scan()
    assert statuses(lab, [A]) == ["expired"]
    lab.memory.write(A, derived(expires="2127-12-31", body="# Node 7\n\nis slow\n"))
    lab.scan()
    assert statuses(lab, [A]) == ["candidate"]
    assert [note.path for note in memory_block(lab, "node").notes] == [A]


def test_a_promotion_after_the_day_counts(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    from perpetual_lineage import derivation

    lab.memory.write(A, "# A\n\nsound\n")
    lab.memory.write(A, derived(expires="2020-01-01", body="# Node 7\n\nis slow\n"))
    lab.scan()
    assert statuses(lab, [A]) == ["expired"]
    lab.memory.promote(A, "it still is")
    for _ in range(2):
        lab.scan()
        assert statuses(lab, [A]) == ["promoted"], "it does not flap"
    assert [note.path for note in memory_block(lab, "node").notes] == [A]
    assert derivation.today() > date(2020, 1, 1)
    said = lab.memory.decide(A, dry_run=True)["evidence"]
    assert said is not None
    assert "came later, and counts" in said["perpetual-lab/expiry"]["reason"]


def test_a_promotion_before_the_day_ends_with_it(lab: Lab, request: pytest.FixtureRequest) -> None:
    lab.memory.write(A, derived(expires="2125-12-31", body="# Node 7\n\nis slow\n"))
    lab.memory.promote(A, "seen")
    request.getfixturevalue("tomorrow")
    lab.scan()
    assert statuses(lab, [A]) == ["expired"]
