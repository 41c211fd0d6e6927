"""Each hook does what its page says: an outsider's plugin that implements it is found, and serves."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual.api import Provider, hookimpl
from perpetual.lab.options import defaults_of
from perpetual.registry import Registry
from perpetual.slots.table import SLOTS
from perpetual_devkit.authoring import rendered

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"

OFFERS = {
    "perpetual_stores": "store",
    "perpetual_schedulers": "scheduler",
    "perpetual_gpu_backends": "gpus",
    "perpetual_scorers": "scorer",
    "perpetual_memories": "memory",
    "perpetual_gates": "gate",
    "perpetual_promotion_stages": "promotion_stage",
    "perpetual_redactors": "redactor",
    "perpetual_harnesses": "harness",
    "perpetual_scaffolders": "scaffolder",
    "perpetual_mcp_servers": "mcp",
    "perpetual_placements": "placement",
    "perpetual_captures": "capture",
    "perpetual_metric_readers": "metric_reader",
    "perpetual_analysers": "analyser",
    "perpetual_proposers": "proposer",
    "perpetual_commands": "command",
    "perpetual_mcp_tools": "mcp_tool",
    "perpetual_report_sections": "report_section",
    "perpetual_services": "service",
    "perpetual_checks": "check",
    "perpetual_status_sections": "status_section",
}


def _registry(hook: str, slot: str) -> Registry:
    """A registry with one outside plugin that offers one part for `slot` through `hook`."""

    def offer() -> list[Provider]:
        return [Provider(slot=slot, name="acme", factory="acme.part:build", summary="a part from outside")]

    plugin = ModuleType("outside")
    setattr(plugin, hook, hookimpl(offer))
    return Registry(extra=[("acme", "outside", "1.0", lambda: plugin)])


def test_every_hook_that_offers_is_here() -> None:
    assert {slot.hook: slot.name for slot in SLOTS.values()} == OFFERS


@pytest.mark.parametrize("hook", OFFERS)
def test_each_hook_s_worked_example_serves(hook: str) -> None:
    registry = _registry(hook, OFFERS[hook])
    offer = registry.choose(OFFERS[hook], "acme")
    assert (offer.qualified_name, offer.provider.factory) == ("acme/acme", "acme.part:build")
    assert offer in registry.serving(OFFERS[hook])


@pytest.mark.parametrize("hook", OFFERS)
def test_an_offer_through_the_wrong_hook_does_not_serve(hook: str) -> None:
    wrong = "gate" if OFFERS[hook] != "gate" else "store"
    registry = _registry(hook, wrong)
    assert "acme/acme" not in [offer.qualified_name for slot in OFFERS.values() for offer in registry.serving(slot)]


# --- worked examples ------------------------------------------------------------------------------------------


def _examples() -> dict[str, str]:
    """The text of each titled block of the page, by its path."""
    return dict(re.findall(r'^```python title="([^"]+)"\n(.*?)^```$', PAGE.read_text("utf-8"), re.M | re.S))


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the import path with every module that the page shows."""
    for path, text in _examples().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        if name.startswith("perpetual_acme"):
            del sys.modules[name]


def _options(slot: str) -> Mapping[str, Any]:
    """The options of what `plugins new` offers, at their defaults."""
    space: dict[str, Any] = {}
    exec(rendered("acme", slot, SLOTS[slot])["perpetual_acme/plugin.py"], space)
    (provider,) = space[SLOTS[slot].hook]()
    return defaults_of(provider.options or {})


def test_every_family_has_a_worked_example() -> None:
    text = PAGE.read_text("utf-8")
    for hook in [*OFFERS, "perpetual_event", "perpetual_kinds", "perpetual_slots"]:
        section = text.partition(f"## {hook}\n")[2].partition("\n## perpetual_")[0]
        assert "orked example" in section, hook
        assert 'title="perpetual_acme' in section or OFFERS.get(hook) == "mcp", hook


@pytest.mark.parametrize("slot", [slot for slot in SLOTS if slot != "mcp"])
def test_a_worked_example_builds_a_part_of_its_slot(shown: Path, slot: str) -> None:
    row = SLOTS[slot]
    module = import_module(f"perpetual_acme.{slot}")
    if slot == "command":
        assert module.acme_command.name == "acme"
        return
    part = module.build(_options(slot), **dict.fromkeys(row.arguments, shown / "part"))
    if row.base is None:
        assert callable(part)
    else:
        home, _, name = row.base.partition(":")
        assert isinstance(part, getattr(import_module(home), name))


def test_the_other_worked_examples_are_plugins(shown: Path) -> None:
    for hook, package in {
        "perpetual_event": "perpetual_acme_news",
        "perpetual_kinds": "perpetual_acme_readings",
        "perpetual_slots": "perpetual_acme_remarks",
    }.items():
        plugin = import_module(f"{package}.plugin")
        assert inspect.isfunction(getattr(plugin, hook))
        found = Registry(extra=[("acme", "acme", "1", partial(import_module, f"{package}.plugin"))]).plugins
        (info,) = [one for one in found if one.name == "acme"]
        assert info.state == "loaded", info.reason
        for path in (shown / package).glob("*.py"):
            import_module(f"{package}.{path.stem}")
