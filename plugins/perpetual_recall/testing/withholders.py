"""The contract suite of withholders: the promises of `perpetual_recall.withheld` as tests.

class TestAcme(WithholderContract):
    @pytest.fixture
    def withholder(self):
        return acme.withholder.build({})
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_recall.withheld import Withholder

__all__ = ["WithholderContract"]

_NOTES = {"notes/adam.md": "# Adam needs warm-up\n", "notes/data.md": "---\nscope:\n  tag: [x]\n---\n# Shuffle\n"}
_ODD = ("", "..", "/etc/passwd", "notes/none.md", "\x00", "a" * 5_000)
_MOST_S = 2.0


class WithholderContract:
    """For every withholder; see the module."""

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a project with notes that nothing speaks against."""
        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        with Lab.init(tmp_path / "project", name="contract") as made:
            for path, text in _NOTES.items():
                made.memory.write(path, text)
            yield made

    def test_a_note_that_nothing_speaks_against_is_offered(self, withholder: Withholder, lab: Lab) -> None:
        """Of sound notes none is withheld."""
        assert dict(withholder.withheld(lab, [*_NOTES])) == {}

    def test_paths_that_are_none_are_no_error(self, withholder: Withholder, lab: Lab) -> None:
        """Unknown, empty and hostile ones; only paths that were asked for are answered."""
        assert {*withholder.withheld(lab, _ODD)} <= {*_ODD}
        assert dict(withholder.withheld(lab, [])) == {}

    def test_it_changes_nothing(self, withholder: Withholder, lab: Lab) -> None:
        """And answers the same again."""
        before = lab.feed.last()
        first = dict(withholder.withheld(lab, [*_NOTES, *_ODD]))
        assert dict(withholder.withheld(lab, [*_NOTES, *_ODD])) == first
        assert lab.feed.last() == before

    def test_it_names_the_version_that_it_reads(
        self, withholder: Withholder, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A read that names none asks the withholders, so it would ask itself without end."""
        read = lab.memory.read

        def named(path: str, *, exposed_only: bool | None = None) -> str:
            assert exposed_only is not None, path
            return read(path, exposed_only=exposed_only)

        monkeypatch.setattr(lab.memory, "read", named)
        assert dict(withholder.withheld(lab, [*_NOTES])) == {}

    def test_it_is_quick(self, withholder: Withholder, lab: Lab) -> None:
        """Every search asks."""
        withholder.withheld(lab, [*_NOTES])
        began = time.monotonic()
        for _ in range(20):
            withholder.withheld(lab, [*_NOTES])
        assert time.monotonic() - began < _MOST_S
