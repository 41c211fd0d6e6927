"""The contract suite of approvers: the promises of `perpetual_autonomy.approver` as tests.

    class TestAcme(ApproverContract):
        @pytest.fixture
        def approver(self):
            return acme.approver.build({})

It speaks to a fresh project in which proposals wait. `ready(lab)` may be overridden: it prepares the lab so that the
approver approves at least one of them, or leaves it as it is for one that approves nothing there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.documents.provenance import CodeStateDocument
from perpetual_autonomy.approver import PREFIX, Approver

__all__ = ["ApproverContract"]


class _Undone(Exception):
    """Ends a transaction without a trace."""


class ApproverContract:
    """What every approver keeps; see the module."""

    @pytest.fixture
    def approver(self) -> Approver:
        """Returns the approver under test."""
        raise NotImplementedError

    def ready(self, lab: Lab) -> None:
        """Prepares the lab; a suite of an approver that needs more than proposals overrides it."""

    @pytest.fixture
    def lab(self, tmp_path: Path) -> Iterator[Lab]:
        """Returns a lab in which two proposals wait, one of them without a command."""
        with Lab.init(tmp_path / "approvals", name="approvals", actor="user:contract") as lab:
            for command in ("true", None):
                lab.experiments.propose(command=command, claim="none", cost_run_hours=0.001)
            self.ready(lab)
            yield lab

    def _waiting(self, lab: Lab) -> set[str]:
        return {item.id for item in lab.experiments.list(status="proposed").items}

    def _codes(self, approver: Approver, lab: Lab) -> dict[str, CodeStateDocument | None]:
        return dict.fromkeys(sorted(approver.candidates(lab)))

    def test_it_names_proposals_that_wait(self, approver: Approver, lab: Lab) -> None:
        """It names proposals that wait, and no other id."""
        assert {*approver.candidates(lab)} <= self._waiting(lab)

    def test_it_decides_about_what_it_is_given(self, approver: Approver, lab: Lab) -> None:
        """It decides about what it is given alone, each in the name of a right."""
        codes = self._codes(approver, lab)
        with lab.transaction():
            found = approver.decide(lab, codes)
        assert {*found} <= {*codes}
        assert all(name.startswith(PREFIX) and name.isprintable() and len(name) <= 100 for name in found.values())

    def test_it_decides_nothing_about_nothing(self, approver: Approver, lab: Lab) -> None:
        """It decides nothing where nothing is given."""
        with lab.transaction():
            assert not approver.decide(lab, {})

    def test_it_answers_the_same_again(self, approver: Approver, lab: Lab) -> None:
        """It answers the same where the first decision was undone."""
        codes, answers = self._codes(approver, lab), []
        for _ in range(2):
            with suppress(_Undone), lab.transaction():
                answers.append(dict(approver.decide(lab, codes)))
                raise _Undone
        assert answers[0] == answers[1]

    def test_it_changes_no_proposal(self, approver: Approver, lab: Lab) -> None:
        """It approves nothing itself, starts nothing, and changes no proposal."""
        before = [*lab.experiments.list().items], [*lab.runs.list().items]
        codes = self._codes(approver, lab)
        with lab.transaction():
            approver.decide(lab, codes)
        assert ([*lab.experiments.list().items], [*lab.runs.list().items]) == before

    def test_it_leaves_the_process_as_it_is(self, approver: Approver, lab: Lab) -> None:
        """It changes neither the environment nor the working directory."""
        before = dict(os.environ), Path.cwd()
        codes = self._codes(approver, lab)
        with lab.transaction():
            approver.decide(lab, codes)
        assert (dict(os.environ), Path.cwd()) == before
