"""The bundled host of services keeps the promises of its slot, and the suite bites."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import NotFound, Service, ServiceHost, Services
from perpetual.documents.services import ServiceLine
from perpetual_supervisor.services import LabServices, build
from perpetual_supervisor.testing import ServiceHostContract

NAMES = [name for name, _ in inspect.getmembers(ServiceHostContract, inspect.isfunction) if name.startswith("test_")]


class TestProcesses(ServiceHostContract):
    """The processes of this machine."""

    @pytest.fixture
    def host(self) -> ServiceHost:
        return build({})


class Host(ServiceHost):
    """Answers a twin."""

    def __init__(self, twin: type[LabServices]) -> None:
        self._twin = twin

    def services(self, lab: Lab, person_only: Callable[[str], None]) -> Services:
        return self._twin(lab, person_only)


class Writes(LabServices):
    """Writes down who looks."""

    def list(self) -> Sequence[ServiceLine]:
        (self._lab.config.folder / "looked").write_text("now")
        return super().list()


class Guesses(LabServices):
    """Shows any name."""

    def status(self, name: str) -> ServiceLine:
        try:
            return super().status(name)
        except NotFound:
            return self.list()[0]


class Twice(LabServices):
    """Starts beside one that runs."""

    def start(self, name: str, *, timeout_s: float = 30.0) -> ServiceLine:
        return self.status(name)


class Free(LabServices):
    """Asks for no permission."""

    def run(self, name: str, service: Service | None = None) -> None:
        self.status(name)


TWINS = {
    "test_what_plugins_offer_is_shown": Writes,
    "test_an_unknown_service_is_named": Guesses,
    "test_one_runs_at_a_time": Twice,
    "test_what_is_for_a_person_is_asked_first": Free,
}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab.init(tmp_path / "p", name="twins") as made:
        yield made


def test_there_is_a_twin_for_every_promise() -> None:
    assert sorted(TWINS) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_twin_with_one_broken_promise_fails(name: str, lab: Lab) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(ServiceHostContract(), name)(Host(TWINS[name]), lab)
