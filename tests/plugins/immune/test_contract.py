"""The bundled gate keeps the promises of its slot, and finds the secrets that the suite plants."""

from __future__ import annotations

import pytest

from perpetual.api import TextProvenance
from perpetual.testing.gates import PLANTED, GateContract
from perpetual_immune.gate import ImmuneGate, build

pytestmark = pytest.mark.slow


class TestImmune(GateContract):
    """`immune`."""

    @pytest.fixture
    def gate(self) -> ImmuneGate:
        """The bundled gate."""
        return build({})


@pytest.mark.parametrize("text", PLANTED, ids=range(len(PLANTED)))
def test_the_planted_secrets_are_found(text: str) -> None:
    """Otherwise the suite's tests of secrets would hold without saying anything."""
    assert build({}).scan(text, TextProvenance("a.md", "note", "me")).category == "secret_leak"
