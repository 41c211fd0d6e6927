"""The bundled harnesses keep the promises of their slot."""

from __future__ import annotations

import pytest

from perpetual.api import Harness
from perpetual.testing.harnesses import HarnessContract
from perpetual_harnesses import plugin, template

NAMES = [offered.name for offered in plugin.perpetual_harnesses()]


@pytest.mark.parametrize("name", NAMES)
class TestTemplates(HarnessContract):
    """All of them."""

    @pytest.fixture
    def harness(self, name: str) -> Harness:
        """One harness."""
        built: Harness = getattr(template, {"claude-code": "claude_code", "continue": "continue_"}.get(name, name))({})
        return built
