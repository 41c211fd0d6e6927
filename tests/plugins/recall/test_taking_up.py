"""An index that has much to take up: it comes further with each call, also with those that ran out of time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import TransientError
from perpetual_recall import index as module
from perpetual_recall.index import Connection, Index
from perpetual_recall.outcomes import EXPOSURE

NOTES = 5
_TABLES = ("versions", "exposures", "credits", "tallies", "starts", "promotions")


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """A record with notes, one of them promoted, an exposure, and a run in its context."""
    with Lab.open(project) as opened:
        for number in range(NOTES):
            opened.memory.write(f"notes/n{number}.md", f"Warm-up of {number} hundred steps keeps the loss low.")
        opened.memory.promote("notes/n1.md", "it is so")
        (blob,) = [note.blob for note in opened.memory.list().items if note.path == "notes/n1.md"]
        opened.records(EXPOSURE).append(notes=[{"path": "notes/n1.md", "blob": blob}], run=None)
        made = opened.experiments.propose(command="true")
        opened.experiments.approve(made.id)
        opened.runs.launch(made.id)
        opened.wait([made.id], timeout_s=60)
        yield opened


def _rows(connection: Connection) -> dict[str, list[tuple[object, ...]]]:
    return {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in _TABLES}


def _fresh(lab: Lab, folder: Path, patch: pytest.MonkeyPatch) -> Index:
    """Returns an index without a file yet."""
    patch.setenv("PERPETUAL_CACHE_DIR", str(folder))
    return Index()


def test_calls_without_time_build_it_together(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _fresh(lab, tmp_path / "whole", monkeypatch).of(lab) as connection:
        whole = _rows(connection)
    assert len(whole["versions"]) == NOTES
    assert whole["promotions"]
    assert whole["credits"]
    monkeypatch.setattr(module, "_SLICE", 1)
    late, found = 0, None
    index = _fresh(lab, tmp_path / "slices", monkeypatch)
    for attempt in range(100):
        asked = Index() if attempt % 2 else index  # another process, every other time
        with suppress(TransientError), asked.of(lab, most_s=0.0) as connection:
            found = _rows(connection)
            break
        late += 1
    assert found == whole
    assert late >= NOTES


def test_a_note_is_written_though_the_index_is_not_ready(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not quarantined for that, and its author reads that it was not compared."""
    monkeypatch.setattr(module, "_SLICE", 1)
    monkeypatch.setattr("perpetual_recall.gate._MOST_S", 0.0)
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "empty"))
    with Lab.open(lab.root) as other:
        written = other.memory.write("notes/next.md", "Seeds differ by a tenth.")
    assert written["status"] != "quarantined"
    assert [found for found in written["verdict"]["findings"] if "not compared" in found["excerpt"]]
