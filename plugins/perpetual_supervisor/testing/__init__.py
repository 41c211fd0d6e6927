"""The contract suite of hosts of services: the promises of `perpetual.slots.service_host` as tests.

    class TestAcme(ServiceHostContract):
        @pytest.fixture
        def host(self):
            return acme.host.build({})

The suite makes its own lab, whose services are those of the plugins that are installed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict, NotFound, NotPermitted, ServiceHost
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.service_state import path_of

__all__ = ["ServiceHostContract"]


def _anybody(deed: str) -> None:
    """Lets everybody do everything."""


def _nobody(deed: str) -> None:
    raise NotPermitted(f"not for you: {deed}")


class ServiceHostContract:
    """For every host of services."""

    @pytest.fixture
    def host(self) -> ServiceHost:
        """Returns what is tested; overridden."""
        raise NotImplementedError

    @pytest.fixture
    def lab(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
        """Yields a new project."""
        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        with Lab.init(tmp_path / "project", name="hosts") as made:
            yield made

    def test_what_plugins_offer_is_shown(self, host: ServiceHost, lab: Lab) -> None:
        """Every service that is offered, none of which runs; and showing them starts and writes nothing."""
        before = sorted(path.name for path in lab.config.folder.rglob("*"))
        shown = {item["name"]: item["state"] for item in host.services(lab, _anybody).list()}
        assert shown == {offer.name: "stopped" for offer in lab.registry.serving("service")}
        after = sorted(path.name for path in lab.config.folder.rglob("*"))
        assert after == before, "showing services wrote a file"

    def test_an_unknown_service_is_named(self, host: ServiceHost, lab: Lab) -> None:
        """Whatever is asked of it."""
        services = host.services(lab, _anybody)
        for ask in (services.status, services.start, services.run, services.stop):
            with pytest.raises(NotFound, match="daemno"):
                ask("daemno")

    def test_one_runs_at_a_time(self, host: ServiceHost, lab: Lab) -> None:
        """Another process that holds the lock is the service; and no file but the lock says that it runs."""
        services, name = host.services(lab, _anybody), self._offered(lab)
        lock = Path(path_of(str(lab.config.folder), name, "lock"))
        lock.parent.mkdir(exist_ok=True)
        held = FileLock(lock)
        assert held.acquire(timeout_s=0)
        try:
            assert services.status(name)["state"] in ("running", "starting"), "its lock is held, and it is not seen"
            with pytest.raises(Conflict):
                services.start(name, timeout_s=1.0)
            with pytest.raises(Conflict):
                services.run(name)
        finally:
            held.release()
        assert services.status(name)["state"] not in ("running", "starting"), "its lock is free, and it is seen"

    def test_what_is_for_a_person_is_asked_first(self, host: ServiceHost, lab: Lab) -> None:
        """What refuses goes through, and nothing was started."""
        services, name = host.services(lab, _nobody), self._offered(lab)
        before = threading.active_count()
        for ask in (services.start, services.run, services.stop):
            with pytest.raises(NotPermitted, match="not for you"):
                ask(name)
        with pytest.raises(NotPermitted, match="not for you: dust"):
            services.allows("dust")
        assert services.status(name)["state"] == "stopped", "it runs, and none was allowed to start it"
        assert threading.active_count() == before

    @staticmethod
    def _offered(lab: Lab) -> str:
        return lab.registry.serving("service")[0].name
