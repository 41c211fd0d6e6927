"""Harnesses as thinkers keep the promises of the slot `thinker`, and the loop is answered by one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_harnesses.dispatch.base import Row
from perpetual_harnesses.dispatch.thinker import NAMES, HarnessThinker
from perpetual_harnesses.plugin import perpetual_thinkers
from perpetual_harnesses.testing import AGENT, acp_row, lines_row
from perpetual_thinkers.base import Thinker, ThinkerError
from perpetual_thinkers.testing import ThinkerContract, example


class TestOverAcp(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return HarnessThinker(acp_row("answer"))


class TestByCommandLine(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return HarnessThinker(lines_row("answer"))


@pytest.mark.slow
class TestThatHangs(ThinkerContract):
    """Only what it does when it is ended takes its time."""

    @pytest.fixture
    def thinker(self) -> Thinker:
        return HarnessThinker(acp_row("hang"), timeout_s=1.0)


class TestThatIsNotInstalled(ThinkerContract):
    @pytest.fixture
    def thinker(self) -> Thinker:
        return HarnessThinker(Row("nothing", acp=("no-such-program",), argv=("no-such-program",)))


@pytest.mark.parametrize(
    ("behaviour", "name"), [("login", "auth_required"), ("die", "broken_stream"), ("silent", "no_answer")]
)
def test_a_failure_is_named(behaviour: str, name: str) -> None:
    with pytest.raises(ThinkerError, match=f"scripted: {name}: "):
        HarnessThinker(acp_row(behaviour)).think(example())


def test_what_it_used_is_handed_on() -> None:
    found = HarnessThinker(acp_row("answer")).think(example())
    assert (found.tokens_in, found.tokens_out, found.usd) == (10, 5, 0.25)
    unknown = HarnessThinker(acp_row("unknown")).think(example())
    assert (unknown.tokens_in, unknown.tokens_out, unknown.usd) == (None, None, None)


def test_an_answer_without_a_permission_counts() -> None:
    assert "42" in HarnessThinker(acp_row("ask")).think(example()).text


def test_it_works_in_a_folder_of_its_own(tmp_path: Path) -> None:
    seen = HarnessThinker(acp_row("environment")).think(example()).text
    assert "PERPETUAL_DISPATCH" in seen
    assert str(tmp_path) not in seen or os.environ["HOME"].startswith(str(tmp_path))


def test_each_is_offered_under_its_harness_name() -> None:
    assert tuple(provider.name for provider in perpetual_thinkers()) == NAMES


def test_the_daemon_takes_one_by_name(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "opencode").write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{AGENT}" acp answer\n')
    (programs / "opencode").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PERPETUAL_SLOTS_THINKER", "opencode")
    with Lab.open(project) as lab:
        thinker = lab.part("thinker")
        assert isinstance(thinker, HarnessThinker)
        assert thinker.problem() is None
        assert "42" in thinker.think(example()).text


def test_a_contract_suite_asks_no_harness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_ASKS_NO_HARNESS", "1")
    thinker = HarnessThinker(acp_row("answer"))
    assert thinker.problem() is not None
    with pytest.raises(ThinkerError, match="no harness is asked here"):
        thinker.think(example())
