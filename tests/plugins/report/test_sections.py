"""The base of sections that keep their facts while the record is unchanged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_artifacts.report_section import ArtifactSection
from perpetual_curves.section import CurvesSection
from perpetual_report.sections import KeptSection, LaidOut, Part, Words
from perpetual_scorers.sweep_section import SweepSection


@pytest.fixture
def empty(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        yield lab


class _Counted(KeptSection):
    title = "Claims"

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def find(self, lab: Lab) -> dict[str, object]:
        self.asked += 1
        found = [item.statement for item in lab.hypotheses.list().items]
        return {"claims": found} if found else {}

    def parts(self, data: Mapping[str, object]) -> Sequence[Part]:
        return [Words(str(data["claims"]))]


def test_facts_are_found_again_once_the_record_changes(empty: Lab) -> None:
    section = _Counted()
    assert (section(empty), section(empty), section.asked) == ("", "", 1)
    empty.hypotheses.add("a claim")
    assert section.data(empty) == section.data(empty) == {"claims": ["a claim"]}
    assert section.asked == 2
    with Lab.open(empty.root, actor="user:other") as other:
        other.hypotheses.edit("h1", statement="the claim in other words")
    assert "the claim in other words" in section(empty)
    assert section.asked == 3


def test_facts_are_found_each_time_where_no_state_can_be_had(empty: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(empty.feed, "state", lambda: None)
    section = _Counted()
    assert (section(empty), section(empty), section.asked) == ("", "", 2)


@pytest.mark.parametrize("made", [ArtifactSection(), CurvesSection(), SweepSection()], ids=lambda made: made.title)
def test_the_bundled_sections_keep_their_facts(empty: Lab, made: KeptSection) -> None:
    assert isinstance(made, LaidOut)
    assert (made.data(empty), made(empty)) == ({}, "")
