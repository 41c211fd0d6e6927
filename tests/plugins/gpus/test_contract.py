"""The placement `gpus` keeps every promise of its slot."""

from __future__ import annotations

import pytest

from perpetual.api import Placement
from perpetual.testing.placements import PlacementContract
from perpetual.toolkit import platform
from perpetual_gpus.placement import build

pytestmark = pytest.mark.skipif(platform.supports_runs() is not None, reason="no runs, and so no leases, here")


class TestGpus(PlacementContract):
    @pytest.fixture
    def placement(self) -> Placement:
        return build({})
