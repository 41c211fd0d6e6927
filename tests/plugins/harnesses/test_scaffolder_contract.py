"""The scaffolder `files` keeps every promise of its slot."""

from __future__ import annotations

import pytest

from perpetual.api import Scaffolder
from perpetual.testing.scaffolders import ScaffolderContract
from perpetual_harnesses.files import build


class TestFiles(ScaffolderContract):
    @pytest.fixture
    def scaffolder(self) -> Scaffolder:
        return build({})
