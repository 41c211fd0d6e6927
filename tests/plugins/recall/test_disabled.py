"""Without the plugin: a search says why it cannot be, and the status has no notes."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Listing, Note, NoteHit, PluginError
from perpetual_recall.retriever import Retriever


def test_without_a_retriever_a_search_names_the_way_out(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_WITHOUT", "recall")
    with Lab.open(project) as lab:
        lab.memory.write("a.md", "# A\nwarm-up")
        with pytest.raises(PluginError, match="no retriever is in force") as caught:
            lab.memory.search("warm-up")
        assert caught.value.hint == "perpetual plugins list"
        assert lab.status()["brief"]["notes"] == []


class Broken(Retriever):
    """Fails at everything."""

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        raise RuntimeError("broken")

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        raise RuntimeError("broken")


def test_a_status_outlives_a_retriever_that_fails(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("a.md", "# A\nwarm-up")
    monkeypatch.setattr("perpetual_recall.recall.Recall", Broken)
    with Lab.open(project) as lab:
        assert lab.status()["brief"]["notes"] == []
