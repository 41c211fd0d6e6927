"""The bundled scorer keeps the promises of its slot."""

from __future__ import annotations

import pytest

from perpetual.testing.scorers import ScorerContract
from perpetual_scorers.information_gain import InformationGain, build


class TestInformationGain(ScorerContract):
    """`information-gain`."""

    @pytest.fixture
    def scorer(self) -> InformationGain:
        """The default scorer."""
        return build({})
