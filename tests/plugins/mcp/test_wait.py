"""`perpetual_wait` and `perpetual_scan`: one call for a long run, news whoever recorded them, and nothing lost."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp_types import Implementation

from perpetual import Lab
from perpetual.api import Provider, ToolContext, UsageError, hookimpl
from perpetual.registry import Registry
from perpetual_mcp import wait_tools
from tests.plugins.mcp.clients import Raw, error_of, initialize, opener, raw, talk, text_of
from tests.support import LONG_S, until


def waits_for(file: str, then: str = "echo val_loss=2.1") -> str:
    """A command that goes on once the file is there; without it for two minutes it ends all the same."""
    return f"sh -c 'i=0; until [ -e {file} ] || [ $i -gt 6000 ]; do i=$((i+1)); sleep 0.02; done; {then}'"


def launched(project: Path, *commands: str) -> list[str]:
    """Approves and starts an experiment for each command, of one claim; answers the runs."""
    with Lab.open(project) as lab:
        if not lab.hypotheses.list().items:
            lab.hypotheses.add("warm-up lowers it", metric="val_loss", direction="min", mde=0.05, baseline=2.3)
        made = [lab.experiments.propose("h1", command=command, noise=0.01).id for command in commands]
        for id in made:
            lab.experiments.approve(id)
        return [lab.runs.launch(id)[0].id for id in made]


async def called(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"perpetual_{name}", arguments)
    assert not result.is_error, text_of(result)
    assert result.structured_content is not None
    return {**result.structured_content, "text": text_of(result)}


def test_one_call_lasts_until_all_have_ended(project: Path) -> None:
    launched(project, waits_for("one"), waits_for("two"))

    async def deed(client: Client) -> dict[str, Any]:
        found: dict[str, Any] = {}

        async def wait() -> None:
            found.update(await called(client, "wait", ids=["e1", "r2"], timeout="5m"))

        def ended(id: str) -> bool:
            with Lab.open(project) as lab:
                return lab.runs.get(id).status == "done"

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            (project / "one").touch()
            await anyio.to_thread.run_sync(until, lambda: ended("r1"))  # recorded by the wait: nobody else scans
            assert not found
            (project / "two").touch()
        return found

    found = talk(opener(project), deed)
    assert (found["because"], found["attention"], found["live"], found["queued"]) == ("ended", [], [], 0)
    assert [(run["id"], run["status"], run["metrics"]) for run in found["ended"]] == [
        ("r1", "done", {"val_loss": 2.1}),
        ("r2", "done", {"val_loss": 2.1}),
    ]
    assert found["text"].splitlines()[1].startswith("all have ended")
    assert "no run is live" in found["text"]


@pytest.mark.slow
def test_a_failed_run_ends_the_wait_while_others_go_on(project: Path) -> None:
    launched(project, waits_for("never"), waits_for("go", "exit 3"))

    async def deed(client: Client) -> dict[str, Any]:
        (project / "go").touch()
        return await called(client, "wait")

    found = talk(opener(project), deed)
    assert (found["because"], found["attention"]) == ("attention", ["r2 failed (exit code 3)"])
    assert [run["id"] for run in found["ended"]] == ["r2"]
    assert [(run["id"], run["status"], run["left_s"]) for run in found["live"]] == [("r1", "running", None)]
    assert "a decision is due: r2 failed (exit code 3)" in found["text"]
    (project / "never").touch()


@pytest.mark.slow
def test_a_wait_ends_with_its_time_and_says_what_goes_on(project: Path) -> None:
    launched(project, waits_for("never"))

    async def deed(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
        return await called(client, "wait", timeout=0), await called(client, "scan")

    waited, scanned = talk(opener(project), deed)
    assert waited["because"] == "timeout"
    assert re.search(r"live: r1 \d+s so far", waited["text"])
    assert f"nothing has changed since event {waited['seq']}\nlive: r1 " in scanned["text"]
    assert [run["id"] for run in scanned["live"]] == ["r1"]
    assert scanned["next"] == ["perpetual wait e1  (runs are live; it records how they end)"]
    (project / "never").touch()


@pytest.mark.slow
def test_what_waits_for_a_person_is_said_at_once(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.experiments.propose(command="true")
        lab.experiments.propose(command="true")
        lab.experiments.approve("e2")

    async def deed(client: Client) -> list[dict[str, Any]]:
        return [await called(client, "wait", **asked) for asked in ({"ids": ["e1"]}, {"ids": ["e2"]}, {})]

    blocked, idle, nothing = talk(opener(project), deed)
    assert (blocked["because"], blocked["attention"]) == ("attention", ["e1 is not approved"])
    assert blocked["text"].endswith("Waiting for a person: e1. You may propose more or end your turn.")
    assert idle["attention"] == ["e2 has no run yet: perpetual_run starts it"]
    assert nothing["because"] == "nothing"


@pytest.mark.slow
def test_a_paused_queue_ends_the_wait(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.queue.set_state("paused")
    launched(project, "true")

    async def deed(client: Client) -> dict[str, Any]:
        return await called(client, "wait", ids=["e1"])

    found = talk(opener(project), deed)
    assert found["attention"] == ["the queue is paused, so r1 does not start"]
    assert found["queued"] == 1


def test_news_do_not_depend_on_who_recorded_them(project: Path) -> None:
    """A scan of a person's between two of an agent's takes nothing away, nor does another client's."""
    launched(project, waits_for("go"))

    async def deed(client: Client) -> list[dict[str, Any]]:
        first = await called(client, "scan")

        def elsewhere() -> None:
            (project / "go").touch()
            with Lab.open(project) as lab:
                lab.wait(["r1"], timeout_s=LONG_S)
                lab.experiments.propose(command="true")
                lab.experiments.approve("e2")

        await anyio.to_thread.run_sync(elsewhere)
        news = await called(client, "scan")
        return [first, news, await called(client, "scan"), await called(client, "scan", since=first["seq"])]

    first, news, nothing, again = talk(opener(project), deed)
    assert [(item["run_id"], item["from"], item["to"]) for item in news["changes"]] == [("r1", "running", "done")]
    assert [(row["id"], row["value"]) for row in news["evidence"]] == [("v1", 2.1)]
    assert news["others"] == ["e2 was approved"]
    assert "r1 of e1: running -> done" in news["text"]
    assert "no run is live" in news["text"]
    assert nothing["changes"] == nothing["verdicts"] == nothing["others"] == []
    assert (again["changes"], again["seq"]) == (news["changes"], nothing["seq"])
    assert first["seq"] < news["seq"]


@pytest.mark.slow
def test_a_verdict_is_news_with_its_sentence(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers it", metric="val_loss", direction="min", mde=0.05, baseline=2.3)
        lab.experiments.propose("h1", command="echo val_loss=2.1", noise=0.01, replicates=4)
        lab.experiments.approve("e1")
        lab.runs.launch("e1", every=True)
        since = lab.feed.last()
        lab.wait(["e1"], timeout_s=LONG_S)
        lab.hypotheses.update("h1", status="parked", why="enough")

    async def deed(client: Client) -> dict[str, Any]:
        return await called(client, "wait", since=since, timeout=0)

    found = talk(opener(project), deed)
    (verdict,) = found["verdicts"]
    assert (verdict["hypothesis_id"], verdict["to"]) == ("h1", "parked")
    assert f"h1: {verdict['from']} -> parked" in found["text"]


WRONG: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("scan", {"since": 99}, "the newest event is 1, so nothing is since 99"),
    ("wait", {"since": -1}, "the newest event is 1, so nothing is since -1"),
    ("scan", {"wait": "30s"}, "wait is at most 20 s"),
    ("wait", {"timeout": "2 weeks"}, "timeout"),
    ("wait", {"timeout": "48h"}, "timeout is at most 86400 s"),
    ("wait", {"ids": ["h1"]}, "h1 is neither a run nor an experiment"),
    ("wait", {"ids": ["r7"]}, "r7"),
)


def test_a_wrong_wait_is_refused_before_anything_is_recorded(project: Path) -> None:
    async def deed(client: Client) -> None:
        for name, given, said in WRONG:
            assert said in error_of(await client.call_tool(f"perpetual_{name}", given))["message"]

    talk(opener(project), deed)
    with Lab.open(project) as lab:
        assert lab.feed.last() == 1


@pytest.mark.slow
def test_a_client_that_hears_no_progress_is_not_left_waiting(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(project, waits_for("never"))
    monkeypatch.setenv(wait_tools.MOST_WAIT, "0s")

    async def deed(client: Client) -> dict[str, Any]:
        return await called(client, "wait", timeout="10m")

    found = talk(opener(project), deed)
    assert (found["because"], "0 s are over" in found["text"]) == ("timeout", True)
    (project / "never").touch()


@pytest.mark.slow
def test_progress_is_sent_to_a_client_that_asked_for_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_tools, "PROGRESS_S", 0.0)
    launched(project, waits_for("go"))
    heard: list[tuple[float, float | None, str | None]] = []

    async def deed(client: Client) -> Any:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))
            (project / "go").touch()

        return await client.call_tool("perpetual_wait", {"ids": ["r1"]}, progress_callback=hear)

    result = talk(opener(project), deed)
    assert not result.is_error
    assert heard[0][1] is None
    assert str(heard[0][2]).startswith("r1 ")
    assert [item[0] for item in heard] == sorted({item[0] for item in heard})


# --- a call that is taken back ----------------------------------------------------------------------------------------


def _begun(server: Raw, number: int, **arguments: Any) -> None:
    parameters = {"name": "perpetual_wait", "arguments": arguments, "_meta": {"progressToken": number}}
    server.send({"id": number, "method": "tools/call", "params": parameters})


@pytest.mark.slow
def test_a_wait_that_is_taken_back_loses_no_news(project: Path) -> None:
    launched(project, waits_for("go"))
    with raw(project) as server:
        server.send(initialize("2025-11-25"), {"method": "notifications/initialized"})
        server.receive()
        assert server.ask("tools/call", name="perpetual_scan", arguments={})["result"]["structuredContent"]["live"]
        _begun(server, 7, ids=["r1"])
        assert "result" in server.ask("ping")  # served meanwhile
        server.send({"method": "notifications/cancelled", "params": {"requestId": 7}})
        (project / "go").touch()
        with Lab.open(project) as lab:
            lab.wait(["r1"], timeout_s=LONG_S)
        # No answer to the wait comes: `ask` would stumble over one.
        news = server.ask("tools/call", name="perpetual_scan", arguments={})["result"]["structuredContent"]
        assert [(item["run_id"], item["to"]) for item in news["changes"]] == [("r1", "done")]


@pytest.mark.slow
def test_a_client_that_leaves_ends_the_server_though_it_waits(project: Path) -> None:
    launched(project, waits_for("never"))
    with raw(project) as server:  # which asserts that the server ends, as a success
        server.send(initialize("2025-11-25"), {"method": "notifications/initialized"})
        server.receive()
        _begun(server, 7, timeout="1h")
        assert "result" in server.ask("ping")
    (project / "never").touch()


# --- tools of plugins -------------------------------------------------------------------------------------------------


HEARD = threading.Event()


def patient(options: Mapping[str, Any]) -> Callable[..., dict[str, Any]]:
    def tool(lab: Lab, call: ToolContext, place: str) -> dict[str, Any]:
        call.progress(1, 2, f"half of {place}")
        call.progress(1, 2, "not sent: it does not rise")
        until(HEARD.is_set)
        return {"place": place, "cancelled": call.is_cancelled()}

    tool.title = "Patience"  # type: ignore[attr-defined]
    tool.reads_only = True  # type: ignore[attr-defined]
    return tool


def asleep(options: Mapping[str, Any]) -> Callable[..., Any]:
    async def tool(lab: Lab, context: ToolContext, refuse: bool = False) -> dict[str, Any]:
        """Waits without a thread."""
        if refuse:
            raise UsageError("it does not sleep now", hint="later")
        await anyio.lowlevel.checkpoint()
        return {"actor": lab.actor, "thread": threading.current_thread() is threading.main_thread()}

    return tool


def endless(options: Mapping[str, Any]) -> Callable[..., Any]:
    def tool(lab: Lab, context: ToolContext) -> dict[str, Any]:
        until(context.is_cancelled)
        (Path(os.environ["SEEN"])).touch()
        return {}

    return tool


@pytest.fixture
def with_tools(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Lab]:
    class Plugin:
        @hookimpl
        def perpetual_mcp_tools(self) -> list[Provider]:
            names = ("patient", "asleep", "endless")
            return [Provider("mcp_tool", f"acme_{name}", f"{__name__}:{name}") for name in names]

    monkeypatch.setenv("SEEN", str(project / "seen"))
    registry = Registry(extra=[("acme", "tools", "1", Plugin)])
    return lambda actor: Lab.open(project, actor=actor, registry=registry)


def test_a_plugin_s_tool_is_given_the_context_and_may_be_a_coroutine(with_tools: Callable[[str], Lab]) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def deed(client: Client) -> Any:
        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))
            HEARD.set()

        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        first = await client.call_tool("acme_patient", {"place": "here"}, progress_callback=hear)
        second = await client.call_tool("acme_asleep", {})
        refused = await client.call_tool("acme_asleep", {"refuse": True})
        stray = await client.call_tool("acme_asleep", {"context": 1})
        return tools, first, second, refused, stray

    tools, first, second, refused, stray = talk(with_tools, deed, client_info=Implementation(name="c", version="1"))
    assert [*tools["acme_patient"].input_schema["properties"]] == ["place"]
    notes = tools["acme_patient"].annotations
    assert (tools["acme_patient"].title, notes.read_only_hint, notes.destructive_hint) == ("Patience", True, False)
    assert (notes.idempotent_hint, notes.open_world_hint) == (True, True)
    assert tools["acme_asleep"].description == "Waits without a thread."
    assert (tools["acme_asleep"].title, tools["acme_asleep"].annotations.destructive_hint) == ("Acme asleep", True)
    assert first.structured_content["cancelled"] is False
    assert heard == [(1.0, 2.0, "half of here")]
    assert second.structured_content["actor"] == "mcp:c/1"
    assert error_of(refused)["hint"] == "later"
    assert "has no argument 'context'" in error_of(stray)["message"]


@pytest.mark.slow
def test_a_plugin_s_tool_sees_that_its_call_was_taken_back(with_tools: Callable[[str], Lab], project: Path) -> None:
    async def deed(client: Client) -> None:
        with anyio.move_on_after(0.2):
            await client.call_tool("acme_endless", {})
        await anyio.to_thread.run_sync(until, (project / "seen").exists)

    talk(with_tools, deed)
