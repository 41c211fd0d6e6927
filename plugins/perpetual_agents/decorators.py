"""`@tool` and `@prompt`: methods of a class of agents that its model calls, and methods that its model answers.

class Architect(PerpetualAgent):
'''You plan small Python libraries.'''

@tool
def files(self) -> list[str]:
"Lists the files that are written already."
return sorted(path.name for path in OUT.iterdir())

@prompt
async def plan(self, spec: str) -> Plan:
'''Split this into modules; leave out what `files` lists.

{spec}'''
"""

from __future__ import annotations

import inspect
import string
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast, get_type_hints, overload

from perpetual.api import UsageError

if TYPE_CHECKING:
    from perpetual_agents.agent import PerpetualAgent

__all__ = ["APPROVAL", "ASKS", "PROMPT", "TOOL", "prompt", "tool"]

TOOL, PROMPT = "_perpetual_tool", "_perpetual_prompt"
APPROVAL, ASKS = "_perpetual_approval", "_perpetual_asks"  # a person approves each call; the call is a question to one
_Function = TypeVar("_Function", bound=Callable[..., object])
_Args = ParamSpec("_Args")
_Found = TypeVar("_Found")


@overload
def tool(function: _Function) -> _Function: ...
@overload
def tool(*, approval: bool = False) -> Callable[[_Function], _Function]: ...
def tool(function: _Function | None = None, *, approval: bool = False) -> _Function | Callable[[_Function], _Function]:
    """Marks a method as a tool of the agent's model; its annotations make the schema, its docstring the description.

    Args:
        function: the method.
        approval: whether a person approves each call: `@tool(approval=True)`. It also counts for a function that an
            agent has as `python:module:function`.
    """

    def mark(function: _Function) -> _Function:
        setattr(function, TOOL, True)
        if approval:
            setattr(function, APPROVAL, True)
        return function

    return mark if function is None else mark(function)


def prompt(function: Callable[_Args, Awaitable[_Found]]) -> Callable[_Args, Awaitable[_Found]]:
    """Makes a coroutine method that the agent's model answers: its docstring is the prompt, with `{argument}`s in it.

    The answer has the type that the method is annotated to return, and is recorded: after a crash or a restart the same
    call in the same session answers what was recorded.

    Raises:
        UsageError: for a method without a docstring, and for one that names an argument that it does not take.
    """
    name = getattr(function, "__name__", "a prompt")
    text = inspect.cleandoc(function.__doc__ or "")
    if not inspect.iscoroutinefunction(function):
        raise UsageError(f"the prompt {name} is no coroutine method", hint=f"async def {name}(self, ...)")
    if not text:
        raise UsageError(f"the prompt {name} has no docstring", hint="its docstring is what the model reads")
    signature = inspect.signature(function)
    try:
        fields = {name.partition(".")[0].partition("[")[0] for _, name, _, _ in string.Formatter().parse(text)
                  if name is not None}  # fmt: skip
    except ValueError as problem:
        raise UsageError(f"the prompt {name}: {problem}", hint="a brace that is meant is written twice") from problem
    strange = sorted(fields - set(signature.parameters))
    if strange:
        raise UsageError(f"the prompt {name} names {strange[0]!r}, which it does not take")

    @wraps(function)
    async def ask(*args: _Args.args, **kwargs: _Args.kwargs) -> _Found:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values = dict(given.arguments)
        agent = cast("PerpetualAgent", values.pop(next(iter(signature.parameters))))
        kind: object = get_type_hints(function).get("return", str)
        return cast("_Found", await agent.ask(text.format(**values), returns=kind, name=name, arguments=values))

    setattr(ask, PROMPT, True)
    return ask
