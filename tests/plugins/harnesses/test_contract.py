"""The bundled harnesses keep the promises of their slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from perpetual.api import Harness
from perpetual.testing.harnesses import HarnessContract
from perpetual_harnesses.template import claude_code, codex, cursor, mcp, opencode


@pytest.mark.parametrize("build", [opencode, claude_code, cursor, codex, mcp])
class TestTemplates(HarnessContract):
    """All of them."""

    @pytest.fixture
    def harness(self, build: Callable[[Mapping[str, Any]], Harness]) -> Harness:
        """One harness."""
        return build({})
