"""Keys of methodology.yaml that plugins bring: set, shown, checked; and left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from perpetual import Lab
from perpetual.api import Finding, Option, hookimpl
from perpetual.errors import ConfigError, NotPermitted, UsageError
from perpetual.registry import Registry
from perpetual_devkit.server_check import ServerCheck

KEYS = {
    "loudest": Option("float", 90.0, "Decibels above which no alarm rings.", minimum=0.0),
    "rooms": Option("list", ["hall"], "Rooms with a bell."),
}


def plugin(keys: object = KEYS, *, distribution: str = "acme") -> tuple[str, str, str, Callable[[], ModuleType]]:
    made = ModuleType("bell")
    made.perpetual_methodology = hookimpl(lambda: keys)  # type: ignore[attr-defined]
    return distribution, "bell", "1.0", lambda: made


def registry(keys: object = KEYS) -> Registry:
    return Registry(extra=[plugin(keys)])


def test_a_key_is_shown_set_and_read(project: Path) -> None:
    path = project / ".perpetual" / "methodology.yaml"
    with Lab.open(registry=registry()) as lab:
        assert lab.config.methodology["bell.loudest"] == 90.0
        shown = {item.key: (item.value, item.origin) for item in lab.settings.methodology()}
        assert (shown["bell.loudest"], shown["bell.rooms"]) == ((90.0, "default"), (["hall"], "default"))
        item = lab.settings.set_methodology("bell.loudest", "80")
        assert (item.key, item.value, item.origin) == ("bell.loudest", 80.0, "project")
        event = lab.events()[-1]
        assert (event.kind, event.subject, event.payload) == (
            "methodology_set", "bell.loudest", {"value": 80.0, "was": 90.0},
        )  # fmt: skip
        with pytest.raises(ConfigError, match="at least 0"):
            lab.settings.set_methodology("bell.loudest", "-1")
        with pytest.raises(UsageError, match=r"bell\.loudest"):
            lab.settings.set_methodology("bell.loudset", "1")
    assert "bell.loudest: 80" in path.read_text()
    with Lab.open(registry=registry()) as lab:
        assert lab.config.methodology["bell.loudest"] == 80.0
        assert lab.settings.unset_methodology("bell.loudest").value == 90.0
        assert lab.config.methodology["min_replicates"] == 2
    assert "bell" not in path.read_text()


def test_a_wrong_value_in_the_file_is_named_where_it_is_read(project: Path) -> None:
    path = project / ".perpetual" / "methodology.yaml"
    path.write_text(path.read_text() + "bell.loudest: loud\n")
    with Lab.open(registry=registry()) as lab:
        assert lab.status()["hypotheses"] == []
        with pytest.raises(ConfigError, match=r"methodology\.yaml.*bell\.loudest"):
            _ = lab.config.methodology["bell.loudest"]


def test_a_key_whose_plugin_has_gone_does_no_harm(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ServerCheck, "examine", lambda *_: Finding(None, "not asked"))
    with Lab.open(registry=registry()) as lab:
        lab.settings.set_methodology("bell.loudest", "80")
    with Lab.open() as lab:
        lab.hypotheses.add("goes on")
        (item,) = [item for item in lab.settings.methodology() if item.key == "bell.loudest"]
        assert (item.value, item.meaning) == (80, "No active plugin brings this key.")
        with pytest.raises(UsageError):
            lab.settings.set_methodology("bell.loudest", "70")
        (finding,) = [found for found in lab.doctor() if found["check"] == "options"]
        assert (finding["ok"], "bell.loudest" in finding["detail"]) == (None, True)
        lab.settings.unset_methodology("bell.loudest")
        assert lab.config.methodology.dead() == []


def test_an_agent_sets_no_key_of_a_plugin(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(registry=registry()) as lab, pytest.raises(NotPermitted):
        lab.settings.set_methodology("bell.loudest", "80")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (["loudest"], "no mapping of names to Options"),
        ({"loudest": 3}, "no mapping of names to Options"),
        ({"Loud est": KEYS["rooms"]}, "no name of a key"),
        ({"a": Option("section", {}, "x", fields={})}, "plain value"),
        ({"a": Option("str", None, "x", secret=True)}, "no secret"),
        ({"a": Option("int", "x", "y")}, "its default"),
        ({"a": Option("int", 1, " ")}, "says nothing"),
    ],
)
def test_keys_that_can_be_none_fail_their_plugin_alone(keys: object, words: str) -> None:
    (info,) = [info for info in registry(keys).plugins if info.name == "bell"]
    assert info.state == "failed"
    assert words in str(info.reason)


def test_two_plugins_of_one_name() -> None:
    found = Registry(extra=[plugin(), plugin(distribution="zebra")])
    assert [info.reason for info in found.plugins if info.state == "failed"] == [
        "acme/bell brings keys named bell.* already"
    ]
