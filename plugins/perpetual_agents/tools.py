"""Tools of agents: Python functions whose signature makes the schema, by name or as objects; and the slot `agent_tool`.

A name of a tool is one of these:

- a provider of the slot `agent_tool`, such as `lab` or `goals`, which may bring several functions;
- `python:module:function`, a function of the project or of an installed package;
- `mcp:NAME`, the tools of an MCP server that the option `mcp_servers` of the plugin describes.

A parameter that is annotated with `ToolContext` is given the step's and is in no schema: its `key` is the same where a
step is repeated after a crash, for a tool whose effect must not happen twice.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, cast, get_type_hints

from perpetual.api import PerpetualError, UsageError, unknown
from perpetual_agents.decorators import APPROVAL, ASKS
from perpetual_agents.model import ToolSpec
from perpetual_agents.plain_types import plain_type

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.data import Agent

__all__ = [
    "AgentTool", "Bound", "FunctionTool", "ToolContext", "ToolError", "check_tools", "runs_code", "tool_names",
]  # fmt: skip

_NAME = re.compile(r"\A[A-Za-z_][A-Za-z0-9_-]{0,63}\Z", re.ASCII)
_PYTHON = re.compile(r"\Apython:([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)\Z", re.ASCII)
_MCP = re.compile(r"\Amcp:([A-Za-z0-9][\w.-]*)\Z", re.ASCII)
_MOST = 64  # names of tools of an agent
MOST_RESULT = 64 * 1024  # characters of a result that are kept


class ToolError(PerpetualError):
    """A tool failed, or was called with arguments that do not fit."""

    code = "tool_failed"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What a call of a tool knows of itself.

    - `lab`: the lab, acting in the agent's name.
    - `agent`: the agent as it was when the turn began.
    - `key`: the idempotency key of the call; the same where it is repeated after a crash.
    """

    lab: Lab
    agent: Agent
    key: str


class Bound(Protocol):
    """A tool that can be called in a turn."""

    spec: ToolSpec

    async def call(self, args: Mapping[str, object], context: ToolContext) -> str:
        """Returns the result as text. Raises ToolError."""


class AgentTool(ABC):
    """A provider of the slot `agent_tool`: functions that an agent may call.

    Each function has a name of its own, annotated parameters and a docstring, which is what the model reads. It may be
    a coroutine function, and returns text or JSON. It acts through the lab of its `ToolContext`.

    `needs_approval` names those of its functions whose every call a person approves.
    """

    needs_approval: ClassVar[Collection[str]] = ()

    @abstractmethod
    def functions(self, lab: Lab, agent: Agent) -> Sequence[Callable[..., object]]:
        """Returns the functions."""


class FunctionTool:
    """A Python function as a tool; its arguments are validated by its annotations.

    Args:
        function: a function or coroutine function.
        name: by default its own.
        needs_approval: whether a person approves each call; None is what `@tool(approval=True)` says of the function.
        bound_to: the first argument, for a method.

    Raises:
        UsageError: for parameters that no JSON schema describes.
    """

    def __init__(
        self, function: Callable[..., object], name: str | None = None, *, needs_approval: bool | None = None
    ) -> None:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        named = name or str(getattr(function, "__name__", ""))
        if not _NAME.match(named):
            raise UsageError(f"{named!r} cannot be a tool's name", hint="give the function a plain name")
        self._context, visible = _without_context(function)
        self._function = function
        said = bool(getattr(function, APPROVAL, False))
        self.needs_approval = said if needs_approval is None else needs_approval
        self.asks = bool(getattr(function, ASKS, False))
        try:
            self._adapter: TypeAdapter[object] = TypeAdapter(cast("type[object]", visible))
            schema = self._adapter.json_schema()
        except (PydanticUserError, TypeError, NameError) as problem:
            reason = str(problem).splitlines()[0]
            raise UsageError(f"the tool {named} has a parameter that JSON cannot carry: {reason}",
                             hint="annotate them with plain types", code="tool_unusable") from problem  # fmt: skip
        if schema.get("type") != "object":
            raise UsageError(f"the tool {named} takes arguments by position", hint="give its parameters names",
                             code="tool_unusable")  # fmt: skip
        self.spec = ToolSpec(named, inspect.cleandoc(function.__doc__ or ""), schema)

    async def call(self, args: Mapping[str, object], context: ToolContext) -> str:
        """Calls the function in a thread, a coroutine function in the event loop; returns its result as text.

        Raises:
            ToolError: for arguments that do not fit, and where the function raises.
        """
        from pydantic import ValidationError
        from pydantic_core import ArgsKwargs

        try:
            given = cast("ArgsKwargs", self._adapter.validate_python(ArgsKwargs((), dict(args))))
        except ValidationError as problem:
            words = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problem.errors()[:4])
            raise ToolError(f"{self.spec.name}: {words}", hint="see the tool's schema") from problem
        named: dict[str, object] = dict(given.kwargs or {})
        if self._context is not None:
            named[self._context] = context
        try:
            if inspect.iscoroutinefunction(self._function):
                found = await self._function(*given.args, **named)
            else:
                found = await asyncio.to_thread(self._function, *given.args, **named)
                if inspect.isawaitable(found):
                    found = await cast("Awaitable[object]", found)
        except PerpetualError:
            raise
        except (Exception, SystemExit) as problem:  # one that exits would end the service, at each try again
            raise ToolError(f"{self.spec.name}: {type(problem).__name__}: {problem}"[:2000]) from problem
        return as_text(found)


def _without_context(function: Callable[..., object]) -> tuple[str | None, Callable[..., object]]:
    """Returns the name of the parameter that takes the context, and a function of the others that returns them."""
    from pydantic_core import ArgsKwargs

    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as problem:
        raise UsageError(f"{function.__name__}: {problem}", hint="name a type that the module knows",
                         code="tool_unusable") from problem  # fmt: skip
    signature = inspect.signature(function)
    context, kept = None, []
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, parameter.annotation)
        if hint is ToolContext:
            context = parameter.name
            continue
        if hint is inspect.Parameter.empty:
            hint = object
        kept.append(parameter.replace(annotation=plain_type(hint)))

    def visible(*args: object, **kwargs: object) -> ArgsKwargs:
        return ArgsKwargs(args, kwargs)

    # What pydantic reads the arguments from; a function has no such attribute of its own.
    visible.__signature__ = signature.replace(parameters=kept, return_annotation=object)  # type: ignore[attr-defined]
    visible.__annotations__ = {one.name: one.annotation for one in kept}
    visible.__name__ = function.__name__
    return context, visible


def as_text(found: object) -> str:
    """Returns a result as text: a text as it is, anything else as JSON; at most `MOST_RESULT` characters of it."""
    if isinstance(found, str):
        text = found
    else:
        from pydantic_core import to_json

        try:
            text = to_json(found).decode()
        except ValueError as problem:
            raise ToolError(f"a {type(found).__name__} is no JSON: {problem}") from problem
    if len(text) > MOST_RESULT:
        return f"{text[:MOST_RESULT]}\n[{len(text) - MOST_RESULT:,} characters were left out]"
    return text


def tool_names(lab: Lab) -> list[str]:
    """Returns the names of the providers of `agent_tool`, and of the MCP servers that are configured."""
    offered = [offer.name for offer in lab.registry.serving("agent_tool")]
    return [*offered, *(f"mcp:{server}" for server in mcp_servers(lab))]


def mcp_servers(lab: Lab) -> dict[str, dict[str, object]]:
    """Returns the MCP servers of the configuration by name: `{command: [...]}` or `{url: ...}`."""
    found = cast("list[dict[str, object]]", lab.options("agents")["mcp_servers"])
    return {str(one["name"]): one for one in found}


def check_tools(lab: Lab, names: Sequence[str]) -> list[str]:
    """Returns the names of tools, each once; imports and starts nothing. Raises UsageError for an unknown one."""
    if isinstance(names, str):
        raise UsageError("the tools are one text, not a list of names")
    known = tool_names(lab)
    found: list[str] = []
    for name in names:
        if not (name in known or _PYTHON.match(str(name))):
            hint = "lab, goals, python:module:function, or mcp:NAME of the option plugins.agents.mcp_servers"
            raise UsageError(unknown("tool", str(name)[:100], known), hint=hint, code="unknown_tool")
        if name not in found:
            found.append(name)
    if len(found) > _MOST:
        raise UsageError(f"{len(found)} tools were named, and at most {_MOST} are kept")
    return found


def runs_code(names: Sequence[str]) -> list[str]:
    """Returns those of the names that run code of the project or start a program."""
    return [name for name in names if name.startswith(("python:", "mcp:"))]


def python_function(name: str, root: str) -> Callable[..., object]:
    """Imports the function that `python:module:function` names; modules in the folder `root` are found last.

    Raises:
        ToolError: where there is none.
    """
    from importlib import import_module

    match = _PYTHON.match(name)
    if match is None:
        raise ToolError(f"{name!r} is no python:module:function")
    if root not in sys.path:
        sys.path.append(root)
    try:
        found = getattr(import_module(match[1]), match[2])
    except (Exception, SystemExit) as problem:
        raise ToolError(f"{name} cannot be imported: {type(problem).__name__}: {problem}",
                        hint="a module of the project's folder, or an installed one") from problem  # fmt: skip
    if not callable(found):
        raise ToolError(f"{name} is no function")
    return cast("Callable[..., object]", found)


def arguments_of(text: str) -> dict[str, object]:
    """Returns the arguments that a model has written as JSON. Raises ToolError for anything but an object."""
    try:
        found = json.loads(text or "{}")
    except ValueError as problem:
        raise ToolError(f"the arguments are no JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise ToolError("the arguments are no JSON object")
    return found
