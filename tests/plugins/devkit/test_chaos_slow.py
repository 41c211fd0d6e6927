"""Two hundred kills of eight writers on each bundled store, some of them at every point of a writer's life."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perpetual.cli.app import run
from perpetual.discovery import discover

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STORES = sorted(
    offer.provider.name
    for info in discover(safe=True).plugins
    for offer in info.offers
    if offer.provider.slot == "store"
)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_store_survives_two_hundred_kills(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], store: str, seed: int
) -> None:
    arguments = ["--kills", "200", "--writers", "8", "--seed", str(seed), "--folder", str(tmp_path)]
    code = run(["chaos", "--store", store, *arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert (code, document["problems"]) == (0, [])
    assert document["acknowledged"] == document["present"] >= 200
    killed_in = document["killed_in"]
    assert sum(killed_in.values()) == 200
    assert all(killed_in[phase] for phase in ("waiting", "block", "commit", "compaction")), killed_in


def test_tinydb_is_among_the_stores_that_are_killed() -> None:
    assert "tinydb" in STORES
