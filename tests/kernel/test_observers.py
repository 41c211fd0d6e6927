"""Observers take of event, lab and options what they ask for, in this process and in the helper process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Event, Option, hookimpl
from perpetual.registry import Registry
from perpetual.testing.plugin import FakeDistribution, fake_distribution  # noqa: F401 - a fixture

OUTSIDE = """
from perpetual.api import Option, hookimpl

@hookimpl
def perpetual_options():
    return {"prefix": Option("str", "seen", "what the note begins with")}

@hookimpl
def perpetual_event(event, lab, options):
    if event.kind == "hypothesis_added" and event.payload["statement"] != "noted":
        lab.hypotheses.add("noted", tags=[options["prefix"], lab.config["project"]])
"""


@pytest.mark.slow
def test_an_observer_of_another_distribution_works_in_the_lab(
    project: Path,
    fake_distribution: Callable[..., FakeDistribution],  # noqa: F811 - the fixture
) -> None:
    fake_distribution({"acme_watch.py": OUTSIDE}, {"watch": "acme_watch"}, name="acme-watch")
    with Lab.open() as lab:
        lab.settings.set_config("plugins.watch.prefix", "heard")
        lab.hypotheses.add("a claim")
        assert lab.feed.deliver() == {}
        assert [(item.statement, item.tags) for item in lab.hypotheses.list().items] == [
            ("a claim", ()), ("noted", ("heard", "test")),
        ]  # fmt: skip
        assert lab.feed.deliver() == {}  # its own event is offered too, and nothing comes of it
        assert len(lab.hypotheses.list().items) == 2


@pytest.mark.parametrize("taken", [("event",), ("event", "lab"), ("options",), ("lab", "event", "options"), ()])
def test_an_observer_takes_what_it_names(project: Path, taken: tuple[str, ...]) -> None:
    heard: list[dict[str, Any]] = []
    scope: dict[str, Any] = {"heard": heard}
    inside = ", ".join(f"{name!r}: {name}" for name in taken)
    exec(f"def perpetual_event({', '.join(taken)}):\n    heard.append({{{inside}}})", scope)
    plugin = ModuleType("bell")
    plugin.perpetual_event = hookimpl(scope["perpetual_event"])  # type: ignore[attr-defined]
    plugin.perpetual_options = hookimpl(lambda: {"loud": Option("bool", True, "whether")})  # type: ignore[attr-defined]
    with Lab.open(registry=Registry(extra=[("acme", "bell", "1", lambda: plugin)])) as lab:
        assert lab.feed.deliver() == {}
        assert heard
        for found in heard:
            assert set(found) == set(taken)
            assert isinstance(found.get("event"), Event) or "event" not in taken
            assert found.get("lab", lab) is lab
            assert found.get("options", {"loud": True}) == {"loud": True}


def test_options_that_do_not_fit_are_the_observers_failure(project: Path) -> None:
    plugin = ModuleType("bell")
    plugin.perpetual_event = hookimpl(lambda options: None)  # type: ignore[attr-defined]
    plugin.perpetual_options = hookimpl(lambda: {"loud": Option("bool", True, "whether")})  # type: ignore[attr-defined]
    path = project / ".perpetual" / "config.yaml"
    path.write_text(path.read_text().replace("plugins:\n", "plugins:\n  bell: {loud: very}\n"))
    with Lab.open(registry=Registry(extra=[("acme", "bell", "1", lambda: plugin)])) as lab:
        failed = lab.feed.deliver()
        assert [*failed] == ["acme/bell"]
        assert "loud" in failed["acme/bell"]
