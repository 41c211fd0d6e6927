"""The demo goes on where it was: killed at three steps, and turned by two programs at once.

The slow lane has the other steps, random instants and the whole campaign: tests/faults/test_demo_survives.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.demo_harness import SMALL, Table, audit, die_at, end, finish, same, start

pytestmark = pytest.mark.slow  # campaigns, cut off and resumed


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """A campaign that nobody killed."""
    return finish(SMALL, tmp_path_factory.mktemp("undisturbed") / "demo")


def test_a_campaign_killed_at_three_steps_one_after_the_other(tmp_path: Path, undisturbed: Table) -> None:
    for step in ("launch:spec", "launch:started", "note:committed"):
        die_at(SMALL, tmp_path, step)
    same(finish(SMALL, tmp_path), undisturbed)


def test_two_programs_in_one_folder(tmp_path: Path, undisturbed: Table) -> None:
    """Both turn the loop on one record: no run twice, and never more at once than one of them may have."""
    programs = [start(SMALL, tmp_path), start(SMALL, tmp_path)]
    for status, told in [end(program) for program in programs]:
        assert status == 0, told
    same(audit(tmp_path), undisturbed)
