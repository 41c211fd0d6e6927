"""An answer is given again only while nothing that it follows from has changed; changed rules hold at the next call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from mcp.client.client import Client

from perpetual import Lab
from perpetual_mcp.answer_cache import Standing
from perpetual_mcp.resources import RESOURCE
from tests.plugins.mcp.clients import error_of, opener, talk, text_of


def elsewhere(project: Path, deed: Callable[[Lab], object]) -> Callable[[], None]:
    """A deed of another process, as far as the server can tell."""

    def do() -> None:
        with Lab.open(project) as lab:
            deed(lab)

    return do


@pytest.mark.parametrize("tool", ["perpetual_status", "perpetual_brief", "perpetual_budget"])
def test_an_answer_is_worked_out_once_a_state(project: Path, tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    worked: list[str] = []
    known = Standing.keep

    def keep(self: Standing, asked: tuple[str, ...], *given: Any) -> None:
        worked.append(asked[1])
        known(self, asked, *given)

    monkeypatch.setattr(Standing, "keep", keep)
    changes: list[Callable[[Lab], object]] = [
        lambda lab: lab.hypotheses.add("one more"),
        lambda lab: lab.settings.set_methodology("max_concurrent_runs", "7"),
        lambda lab: lab.settings.set_config("gpu_foreign", "allow"),
        lambda lab: lab.memory.write("notes/a.md", "# A"),
    ]

    async def deed(client: Client) -> None:
        first = await client.call_tool(tool, {})
        for _ in range(3):
            again = await client.call_tool(tool, {})
            assert (again.content, again.structured_content) == (first.content, first.structured_content)
        assert worked == [tool]
        for number, change in enumerate(changes, 2):
            await anyio.to_thread.run_sync(elsewhere(project, change))
            await client.call_tool(tool, {})
            await client.call_tool(tool, {})
            assert worked == [tool] * number

    talk(opener(project), deed)


def test_each_question_has_its_own_answer(project: Path) -> None:
    async def deed(client: Client) -> None:
        for _ in range(2):
            low = await client.call_tool("perpetual_brief", {"tokens": 50})
            high = await client.call_tool("perpetual_brief", {"tokens": 500})
            assert low.structured_content != high.structured_content
            wrong = await client.call_tool("perpetual_brief", {"tokens": 1})
            assert "between 50 and 3500" in error_of(wrong)["message"]

    talk(opener(project), deed)


def test_the_answers_that_are_kept_are_bounded(project: Path) -> None:
    standing = Standing()
    with Lab.open(project) as lab:
        for number in range(1000):
            standing.keep((str(number),), lab, lab.feed.state(), {"number": number})
        kept = [number for number in range(1000) if standing.find((str(number),))]
        assert kept == [*range(1000 - len(kept), 1000)]
        assert 1 <= len(kept) < 100
        standing.keep(("of a store without a head",), lab, None, {})
        assert standing.find(("of a store without a head",)) is None


def test_a_server_follows_the_rules_that_a_person_changes(project: Path) -> None:
    """It lives as long as its client, for days."""

    async def deed(client: Client) -> Any:
        before = (await client.read_resource(RESOURCE)).contents[0]
        await anyio.to_thread.run_sync(
            elsewhere(project, lambda lab: lab.settings.set_methodology("max_concurrent_runs", "7"))
        )
        after = (await client.read_resource(RESOURCE)).contents[0]
        (project / ".perpetual/methodology.yaml").write_text("max_concurrent_runs: many\n")
        refused = await client.call_tool("perpetual_status", {})
        (project / ".perpetual/methodology.yaml").unlink()
        served = await client.call_tool("perpetual_status", {})
        return getattr(before, "text", ""), getattr(after, "text", ""), error_of(refused), text_of(served)

    before, after, refused, served = talk(opener(project), deed)
    assert "- max_concurrent_runs: 7 (project)" not in before
    assert "- max_concurrent_runs: 7 (project)" in after
    assert "methodology.yaml:1" in refused["message"]
    assert "state of the research" in served
