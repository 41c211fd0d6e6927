"""The doctor's check of the server: its contract, and the server started as a client would."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Check, Finding
from perpetual.testing.sections import CheckContract
from perpetual_devkit import server_check


@pytest.mark.slow
class TestCheck(CheckContract):
    @pytest.fixture
    def check(self) -> Check:
        return server_check.build({})


@pytest.mark.slow
def test_the_doctor_starts_the_mcp_server_as_a_client_would(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = server_check.ServerCheck(patience_s=100.0)  # a busy machine takes its time
    with Lab.open(project) as lab:
        found = check.examine(lab)
        assert found.ok is True
        assert "tools" in found.detail
        monkeypatch.setenv("PERPETUAL_MCP", "none-of-that-name")
        found = check.examine(lab)
        assert found.ok is False
        assert "none-of-that-name" in found.detail


def test_the_check_mcp_has_its_place_among_the_findings(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_check.ServerCheck, "examine", lambda *_: Finding(None, "not asked"))
    with Lab.open(project) as lab:
        names = [item["check"] for item in lab.doctor()]
    assert names[:18] == [
        "import", "platform", "git", "trust", "plugins", "slots", "options", "kinds", "observers", "store",
        "permissions", "disk", "live_runs", "run_folders", "gpus", "mcp", "secrets", "services",
    ]  # fmt: skip
