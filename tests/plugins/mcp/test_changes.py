"""What another lab changes is told by messages. Each revision of the protocol over its wire: test_server.py."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.shared.subscriptions import ResourceUpdated

from perpetual import Lab
from perpetual.api import Event
from perpetual_mcp.resources import RESOURCE, uris_of
from tests.plugins.mcp.clients import opener, talk


def test_the_sdk_s_client_hears_what_another_lab_does(project: Path) -> None:
    async def deed(client: Client) -> list[str]:
        uris: list[str] = []
        with anyio.fail_after(60):
            async with client.listen(resource_subscriptions=[RESOURCE, "hypothesis://h1"]) as heard:
                await anyio.to_thread.run_sync(elsewhere)
                async for event in heard:
                    assert isinstance(event, ResourceUpdated)
                    uris.append(event.uri)
                    if len(uris) == 2:
                        break
        return uris

    def elsewhere() -> None:
        with Lab.open(project) as lab:
            lab.hypotheses.add("made elsewhere")

    assert talk(opener(project), deed) == [RESOURCE, "hypothesis://h1"]


def test_no_thread_watches_changes_without_a_listener(project: Path) -> None:
    async def deed(client: Client) -> list[str]:
        await client.call_tool("perpetual_status", {})
        return [thread.name for thread in threading.enumerate() if thread not in before]

    before = threading.enumerate()  # those of another test's server may be ending
    assert "changes" not in talk(opener(project), deed)


@pytest.mark.parametrize(
    ("kind", "subject", "uri"),
    [
        ("hypothesis_added", "h3", "hypothesis://h3"),
        ("experiment_proposed", "e12", "experiment://e12"),
        ("run_ended", "r4", "run://r4/log"),
        ("note_written", "h/notes.md", "memory://h/notes.md"),
    ],
)
def test_an_event_names_the_resource_that_it_changed(kind: str, subject: str, uri: str) -> None:
    assert uris_of(Event(1, "", "user:x", kind, subject, {})) == [RESOURCE, uri]


@pytest.mark.parametrize(
    ("kind", "subject", "payload", "uris"),
    [
        ("evidence_added", "v3", {"hypothesis_id": "h2"}, ["hypothesis://h2"]),
        ("run_status", "r4", {"experiment_id": "e7"}, ["run://r4/log", "experiment://e7"]),
        ("experiment_proposed", "e7", {"hypothesis_id": "h2"}, ["experiment://e7"]),
        ("evidence_added", "v3", {"hypothesis_id": None}, []),
    ],
)
def test_resources_that_a_record_changes_are_notified(
    kind: str, subject: str, payload: dict[str, Any], uris: list[str]
) -> None:
    assert uris_of(Event(1, "", "user:x", kind, subject, payload)) == [RESOURCE, *uris]


def test_an_event_about_nothing_that_can_be_read_changes_the_whole() -> None:
    assert uris_of(Event(1, "", "user:x", "queue_changed", "queue", {})) == [RESOURCE]
    assert uris_of(Event(1, "", "user:x", "budget_set", "h-like", {})) == [RESOURCE]
