"""Each hook does what its page says: an outsider's plugin that implements it is found, and serves."""

from __future__ import annotations

from types import ModuleType

import pytest

from perpetual.api import Provider, hookimpl
from perpetual.registry import Registry
from perpetual.slots.table import SLOTS

OFFERS = {
    "perpetual_stores": "store",
    "perpetual_schedulers": "scheduler",
    "perpetual_gpu_backends": "gpus",
    "perpetual_scorers": "scorer",
    "perpetual_memories": "memory",
    "perpetual_gates": "gate",
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
def test_what_a_hook_offers_serves(hook: str) -> None:
    registry = _registry(hook, OFFERS[hook])
    offer = registry.choose(OFFERS[hook], "acme")
    assert (offer.qualified_name, offer.provider.factory) == ("acme/acme", "acme.part:build")
    assert offer in registry.serving(OFFERS[hook])


@pytest.mark.parametrize("hook", OFFERS)
def test_an_offer_through_the_wrong_hook_does_not_serve(hook: str) -> None:
    wrong = "gate" if OFFERS[hook] != "gate" else "store"
    registry = _registry(hook, wrong)
    assert "acme/acme" not in [offer.qualified_name for slot in OFFERS.values() for offer in registry.serving(slot)]
