"""The bundled scheduler keeps the contract of its slot."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from perpetual.testing.scheduler_site import Site
from perpetual.testing.schedulers import SchedulerContract


class TestLocalScheduler(SchedulerContract):
    """The suite; what takes longest in it runs with the slow tests."""

    factory: ClassVar[str] = "perpetual_local.scheduler:build"
    options: ClassVar[dict[str, Any]] = {"max_log_bytes": 100_000_000}

    @pytest.mark.slow
    def test_an_end_stays(self, site: Site) -> None:
        """Some seconds."""
        super().test_an_end_stays(site)

    @pytest.mark.slow
    def test_a_launcher_that_dies_midway_is_followed(self, site: Site) -> None:
        """Three launchers."""
        super().test_a_launcher_that_dies_midway_is_followed(site)

    @pytest.mark.slow
    def test_a_run_over_its_limit_is_ended(self, site: Site) -> None:
        """Limits and graces."""
        super().test_a_run_over_its_limit_is_ended(site)

    @pytest.mark.slow
    def test_a_further_cancellation_only_shortens_the_grace(self, site: Site) -> None:
        """Graces."""
        super().test_a_further_cancellation_only_shortens_the_grace(site)

    @pytest.mark.slow
    def test_a_run_that_writes_is_not_silent(self, site: Site) -> None:
        """Longer than it may be silent."""
        super().test_a_run_that_writes_is_not_silent(site)

    @pytest.mark.slow
    def test_a_command_without_its_supervisor_is_kept_to_its_limit(self, site: Site) -> None:
        """A limit."""
        super().test_a_command_without_its_supervisor_is_kept_to_its_limit(site)

    @pytest.mark.slow
    def test_a_run_of_a_run_lives_on(self, site: Site) -> None:
        """A launcher in a run; a quick one is in tests/plugins/supervisor/test_nested_runs.py."""
        super().test_a_run_of_a_run_lives_on(site)
