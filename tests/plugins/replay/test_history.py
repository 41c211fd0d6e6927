"""The history of the memory is what agents were shown after each event, as `lab.memory.read` said at the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.errors import Conflict, NotFound
from perpetual_recall.snapshot import Snapshot
from perpetual_replay.history import History

NOTES = ("notes/a.md", "skills/b.md")
EXPOSURES = ("scanned", "promoted")
Seen = dict[str, str | None]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open() as made:
        yield made


def _seen(lab: Lab) -> Seen:
    found: Seen = {}
    for path in NOTES:
        try:
            found[path] = lab.memory.read(path, exposed_only=True)
        except NotFound:
            found[path] = None
    return found


def _write(lab: Lab, path: str, text: str) -> None:
    lab.memory.write(path, text, type="note" if path.startswith("notes") else "skill_card")


def _deeds(lab: Lab) -> Iterator[None]:
    """Does to both notes all that can be done to one, yielding after each deed."""
    for path in NOTES:
        _write(lab, path, "# One\n\nfirst")
        yield
        lab.memory.promote(path, "seen")
        yield
        _write(lab, path, "# Two\n\nsecond")
        yield
        lab.memory.reject(path, "worse")
        yield
        _write(lab, path, "# One\n\nfirst")  # the text of the promoted version, as a version of its own
        yield
        lab.memory.promote(path, "again")
        yield
        lab.memory.reject(path, "no")
        yield
        _write(lab, path, "# Three\n\nthird")
        yield
        lab.memory.reject(path, "no")
        yield
        _write(lab, path, "# Four\n\nfourth")
        yield
        lab.memory.promote(path, "good")
        yield


@pytest.mark.parametrize("exposure", EXPOSURES)
def test_each_change_leads_to_what_agents_were_shown_then(lab: Lab, exposure: str) -> None:
    lab.settings.set_methodology("memory_exposure", exposure)
    seen: list[tuple[int, Seen]] = [(lab.feed.last(), _seen(lab))]
    for _ in _deeds(lab):
        seen.append((lab.feed.last(), _seen(lab)))
    history = History(lab, exposure)
    assert history.inconsistent(lab) == []
    for seq, known in seen:
        shown: Seen = dict.fromkeys(NOTES)
        for change in history.until(seq):
            before = None if change.before is None else history.text(change.path, change.before)
            assert shown[change.path] == before
            shown[change.path] = None if change.after is None else history.text(change.path, change.after)
        assert shown == known, seq
    assert len({tuple(known.values()) for _, known in seen}) >= 5


def test_a_version_whose_text_is_gone_is_named(lab: Lab, project: Path) -> None:
    _write(lab, "notes/a.md", "# One\n\nfirst")
    history = History(lab, "scanned")
    (change,) = history.changes
    assert change.after is not None
    lost = type(change.after)("0" * 40, "note", 7)
    with pytest.raises(Conflict, match=r"does not hold version 0000000000 of notes/a\.md"):
        history.text("notes/a.md", lost)


def test_what_is_left_out_is_in_no_state(lab: Lab) -> None:
    for text in ("first", "second", "third"):
        _write(lab, "notes/a.md", f"# {text}")
    _write(lab, "notes/else.md", "# Else")
    history = History(lab, "scanned")
    second = history.changes[1].after
    assert second is not None
    found = [*history.until(lab.feed.last(), {("notes/a.md", second.blob), ("notes/else.md", None)})]
    assert [(change.before is None, change.after is None) for change in found] == [
        (True, False),
        (False, True),
        (True, False),
    ]


def test_notes_that_came_without_their_history_are_found(lab: Lab, tmp_path: Path) -> None:
    """An import judges notes anew: a promotion elsewhere is none here, whatever the events say."""
    _write(lab, "skills/b.md", "# Two\n\nsecond")
    lab.memory.promote("skills/b.md", "seen")
    _write(lab, "notes/a.md", "# One\n\nfirst")
    lab.storage.export_file(tmp_path / "record.jsonl")
    with Lab.init(tmp_path / "other") as other:
        other.storage.import_file(tmp_path / "record.jsonl")
        assert History(other, "scanned").inconsistent(other) == ["skills/b.md"]


def test_a_snapshot_is_of_its_notes_alone(lab: Lab) -> None:
    _write(lab, "notes/a.md", "# Warm-up\n\nof the lab")
    with Snapshot(lab) as snapshot:
        assert snapshot.block("warm-up", tokens=400).text == ""
        snapshot.put("skills/b.md", "skill_card", "---\nscope:\n  tag: [other]\n---\n# Warm-up\n\nfive hundred steps")
        snapshot.put("notes/c.md", "note", "# Warm-up is long\n\nthe first text")
        snapshot.put("notes/c.md", "note", "# Warm-up is short\n\nthe second text")
        block = snapshot.block("warm-up", tokens=400)
        assert {note.path for note in block.notes} == {"skills/b.md", "notes/c.md"}
        assert "[unproven skill_card] skills/b.md" in block.text
        assert "the second text" in block.text
        assert "the first text" not in block.text
        snapshot.drop("notes/c.md")
        assert [note.path for note in snapshot.block("warm-up", tokens=400).notes] == ["skills/b.md"]
        snapshot.put("notes/c.md", "note", "# Warm-up is short\n\nthe second text")
        assert snapshot.block("warm-up", tokens=400) == block
