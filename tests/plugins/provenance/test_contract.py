"""The bundled capture keeps every promise of its slot, in a folder and in a git repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from perpetual.api import Capture
from perpetual.testing.captures import CaptureContract
from perpetual_provenance.capture import build


class TestInAFolder(CaptureContract):
    """Without a repository the code is what the command names."""

    @pytest.fixture
    def capture(self) -> Capture:
        """The capture as Perpetual builds it."""
        return build({})


class TestInARepository(CaptureContract):
    """The project lies in a repository; it is not committed, and so untracked."""

    @pytest.fixture
    def capture(self, tmp_path: Path) -> Capture:
        """The same, where the suite's project is made."""
        subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
        return build({})
