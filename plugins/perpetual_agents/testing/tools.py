"""The contract suite of tools of agents: the promises of `perpetual_agents.tools.AgentTool` as tests.

    class TestAcme(AgentToolContract):
        @pytest.fixture
        def tool(self):
            return acme.tool.build({})

Each function is called once, with the smallest arguments that its schema allows, in a project of the suite's own.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual_agents.stand_in import example
from perpetual_agents.testing.labs import OfProjects, make_agent
from perpetual_agents.tools import MOST_RESULT, AgentTool, FunctionTool, ToolContext, ToolError

__all__ = ["AgentToolContract"]

_LIMIT_S = 60.0
_LEFT_OUT = 100  # characters that say how much of a result was left out


class AgentToolContract(OfProjects):
    """For every tool of agents; see the module."""

    @pytest.fixture
    def bound(self, tool: AgentTool, lab: Lab) -> list[FunctionTool]:
        """Returns its functions as a turn has them."""
        return [FunctionTool(function) for function in tool.functions(lab, make_agent(lab))]

    def test_a_look_changes_nothing(self, tool: AgentTool, lab: Lab) -> None:
        """The same functions are there each time, and asking for them writes nothing."""
        agent = make_agent(lab)
        before = lab.feed.last()
        names = [[function.__name__ for function in tool.functions(lab, agent)] for _ in range(2)]
        assert names[0] == names[1]
        assert lab.feed.last() == before

    def test_each_has_a_name_of_its_own(self, bound: list[FunctionTool]) -> None:
        """A model calls it by that."""
        names = [one.spec.name for one in bound]
        assert names
        assert len({*names}) == len(names)

    def test_what_needs_a_person_is_a_function_of_it(self, tool: AgentTool, lab: Lab) -> None:
        """A name that is misspelt would let a call through."""
        names = {function.__name__ for function in tool.functions(lab, make_agent(lab))}
        assert not isinstance(tool.needs_approval, str), "it is a text, not a collection of names"
        assert {*tool.needs_approval} <= names

    def test_each_says_what_it_does(self, bound: list[FunctionTool]) -> None:
        """A docstring is what a model reads."""
        assert all(one.spec.description.strip() for one in bound)

    def test_each_parameter_is_annotated(self, bound: list[FunctionTool]) -> None:
        """A model writes what the schema says."""
        from jsonschema import Draft202012Validator

        for one in bound:
            schema = dict(one.spec.schema)
            Draft202012Validator.check_schema(schema)
            fields = schema.get("properties", {})
            assert isinstance(fields, dict)
            for name, field in fields.items():
                assert {"type", "anyOf", "allOf", "oneOf", "$ref", "enum", "const"} & {*field}, f"{name} has no type"

    def test_a_call_has_a_result_or_an_error_in_words(self, bound: list[FunctionTool], lab: Lab) -> None:
        """A result is text or JSON; what a function raises is a PerpetualError."""
        for one in bound:
            found = _called(one, lab)
            if isinstance(found, PerpetualError):
                assert found.message
                cause = found.__cause__
                assert cause is None or isinstance(cause, PerpetualError), f"{one.spec.name} raises {cause!r}"
            else:
                assert len(found) <= MOST_RESULT + _LEFT_OUT

    def test_arguments_that_do_not_fit_are_refused(self, bound: list[FunctionTool], lab: Lab) -> None:
        """Nothing is done for a model that calls with what there is not."""
        for one in bound:
            before = lab.feed.last()
            with pytest.raises(ToolError):
                asyncio.run(one.call({"no_such_parameter": 1}, _context(lab)))
            assert lab.feed.last() == before

    def test_it_acts_in_the_agents_name(self, bound: list[FunctionTool], lab: Lab) -> None:
        """Whatever it changes, the agent has changed."""
        before = lab.feed.last()
        for one in bound:
            _called(one, lab)
        assert {event.actor for event in lab.feed.read(since=before)} <= {lab.actor}

    def test_it_leaves_no_traces(self, bound: list[FunctionTool], lab: Lab, tmp_path: Path,
                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
        """Environment, working directory and its files are as they were."""
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        before = dict(os.environ)
        for one in bound:
            _called(one, lab)
        assert (dict(os.environ), Path.cwd(), [*Path.cwd().iterdir()]) == (before, tmp_path / "here", [])


def _context(lab: Lab) -> ToolContext:
    from perpetual_agents.agents import Agents

    return ToolContext(lab, Agents(lab).get("contract"), "contract/1")


def _called(tool: FunctionTool, lab: Lab) -> str | PerpetualError:
    args = example(tool.spec.schema)
    context = _context(lab)

    async def work() -> str:
        return await asyncio.wait_for(tool.call(args if isinstance(args, dict) else {}, context), _LIMIT_S)

    try:
        return asyncio.run(work())
    except PerpetualError as problem:
        return problem
