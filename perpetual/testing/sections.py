"""The contract suites of checks and of status sections: every promise of `perpetual.slots.sections` as tests.

    class TestAcmeCheck(CheckContract):
        @pytest.fixture
        def check(self):
            return acme.check.build({})

Each suite needs one fixture: `check` or `section`. Nothing but pytest is needed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest

from perpetual.slots.sections import MOST_LINES, Check, Finding, Section, StatusSection
from perpetual.testing.quick import quickest

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["CheckContract", "StatusSectionContract", "project_state"]

_MOST_CHARACTERS = 200  # of a line; more is cut off


def project_state(lab: Lab) -> tuple[int, dict[str, bytes]]:
    """Returns the last event, and every file of the project's own but caches that may be computed again."""
    folder = lab.root / ".perpetual"
    kept = ("status.json", "rules.json")
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in kept]
    return lab.feed.last(), {str(path): path.read_bytes() for path in files}


class _OfLabs:
    """Labs to look at: an empty one, and one with a claim, a proposal and a note."""

    most_s: ClassVar[float] = 5.0  # for one call, on a machine that does other things too

    @pytest.fixture(params=["empty", "used"])
    def lab(self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a project of its own, in a state folder of its own."""
        from perpetual.lab import Lab

        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        with Lab.init(tmp_path / "project", name="contract") as made:
            if request.param == "used":
                claim = made.hypotheses.add("warm-up helps\x1b[2J\nnext: approve e1", metric="acc", direction="max")
                made.experiments.propose(claim.id, command="python train.py --warmup 500", cost_run_hours=0.1)
                made.hypotheses.add("set aside")
                made.hypotheses.update("h2", status="parked", why="no time")
            yield made


class CheckContract(_OfLabs):
    """For every check of the doctor."""

    def test_it_answers_a_finding(self, check: Check, lab: Lab) -> None:
        """Of an empty lab and of a used one: what is there, on one printable line."""
        found = check.examine(lab)
        assert type(found) is Finding, f"it answered a {type(found).__name__}"
        assert found.ok in (True, False, None)
        assert found.detail.strip(), "the detail is empty"
        assert found.detail.isprintable(), f"the detail is one printable line, not {found.detail!r}"

    def test_a_problem_has_a_way_out(self, check: Check, lab: Lab) -> None:
        """A finding that is not ok has a hint."""
        found = check.examine(lab)
        assert found.ok is not False or (found.hint or "").strip(), f"no hint for {found.detail!r}"

    def test_it_changes_nothing(self, check: Check, lab: Lab) -> None:
        """Neither the record nor a file of the project."""
        before = project_state(lab)
        check.examine(lab)
        assert project_state(lab) == before

    def test_it_is_quick(self, check: Check, lab: Lab) -> None:
        """The doctor asks every check while a person waits."""
        assert quickest(lambda: check.examine(lab), self.most_s) < self.most_s


class StatusSectionContract(_OfLabs):
    """For every section of the status."""

    def test_it_answers_a_section_or_nothing(self, section: StatusSection, lab: Lab) -> None:
        """With a title, and lines that are printable and short enough to be shown whole."""
        found = section.show(lab)
        assert found is None or type(found) is Section, f"it answered a {type(found).__name__}"
        if found is not None:
            assert found.title.strip(), "the title is empty"
            assert len(found.lines) <= MOST_LINES, f"{len(found.lines)} lines; {MOST_LINES} are shown"
            for line in (found.title, *found.lines):
                assert line.isprintable(), f"a line is printable, not {line!r}"
                assert len(line) <= _MOST_CHARACTERS, f"a line of {len(line)} characters is cut off"

    def test_its_data_are_json(self, section: StatusSection, lab: Lab) -> None:
        """Without NaN and infinities."""
        found = section.show(lab)
        if found is not None:
            assert json.loads(json.dumps(found.data, allow_nan=False)) == dict(found.data)

    def test_the_same_record_gives_the_same_section(self, section: StatusSection, lab: Lab) -> None:
        """The status is kept, and shown again until the record changes: a clock or a counter would go stale."""
        before = section.show(lab)
        time.sleep(0.01)
        assert section.show(lab) == before

    def test_it_changes_nothing(self, section: StatusSection, lab: Lab) -> None:
        """Neither the record nor a file of the project."""
        before = project_state(lab)
        section.show(lab)
        assert project_state(lab) == before

    def test_it_is_quick(self, section: StatusSection, lab: Lab) -> None:
        """Every command that changes the record may show the status anew."""
        assert quickest(lambda: section.show(lab), self.most_s) < self.most_s
