"""The prompts `auto`, `stop`, `report` and `catchup`, and what a client may complete. Used by `perpetual_mcp.server`.

A prompt says how to go on, in a few lines, with the state of the moment below; its arguments are optional.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual_mcp.bounds import error_text, plain
from perpetual_mcp.sessions import Labs

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer


__all__ = ["PROMPTS", "add_completions", "add_prompts", "completed"]

_BRIEF_TOKENS = 800
_MOST_VALUES = 100  # that one completion may answer, by the protocol
_PAGE = 1000
_PLAIN_PATH = re.compile(r"[A-Za-z0-9._/-]{1,120}")


def auto(lab: Lab, goal: Annotated[str, "What to find out; by default what the open hypotheses ask."] = "") -> str:
    """Do research until there is a reason to stop."""
    aim = f"The goal: {plain(goal, 400)}\n" if goal else ""
    return f"""Do research in this project until there is a reason to stop.
{aim}
1. Read the state below. Choose the open hypothesis whose next run teaches most for its cost; if there is none, add one
   with its prediction (perpetual_hypotheses, action "add") before anything runs.
2. Propose the experiment (perpetual_propose). A person approves it: say what it will show and what it costs.
3. Start what is approved (perpetual_run), wait until it has ended (perpetual_wait), read what its verdict says.
4. Write down what a reader needs without this conversation (perpetual_memory, action "write").
5. Begin again. Stop, and say which reason it is, when every hypothesis is decided or parked, the budget is spent,
   something waits for a person, or the same failure came twice.

{lab.brief(_BRIEF_TOKENS)}"""


def stop(lab: Lab, why: Annotated[str, "The reason, kept in the note."] = "") -> str:
    """End the session so that the next one can go on."""
    reason = f" The reason: {plain(why, 400)}." if why else ""
    return f"""Bring the work to an end that the next session can go on from.{reason}

Start nothing new. Record how the runs stand (perpetual_scan); leave those that are live alone unless you are asked to
end them. Write one note (perpetual_memory, action "write") with what was tried, the ids, what follows and what is open.
Then say in three lines where the research stands.

{lab.brief(_BRIEF_TOKENS)}"""


def report(lab: Lab, hypothesis: Annotated[str, "Only this hypothesis, e.g. h1."] = "") -> str:
    """Write the research up from the record."""
    whom = f"hypothesis {plain(hypothesis, 20)}" if hypothesis else "this project's research"
    return f"""Write up {whom} from the record alone.

Take every number from perpetual_report, perpetual_evidence or perpetual_runs, and name the run or the row that it came
from. Give each verdict with its false-alarm bound and its cost, refuted ones as plainly as supported ones; say what is
not decided, and what failed. If a number is missing, say that it is missing.

{lab.brief(_BRIEF_TOKENS)}"""


def catchup(lab: Lab, focus: Annotated[str, "What to look at in particular: budget, h2, failures ..."] = "") -> str:
    """Say where the research stands and what to do next."""
    on = f" Look at {plain(focus, 200)} in particular." if focus else ""
    return f"""Say where this project's research stands, from the state below.

Tell what is open, what was decided and how surely, what runs, what waits for a person, what is left of the budget, and
the one thing to do next. Change nothing.{on}

{lab.brief(_BRIEF_TOKENS)}"""


PROMPTS = (auto, stop, report, catchup)


def add_prompts(server: MCPServer[object], labs: Labs) -> None:
    """Adds the prompts, each with the state of the moment in which it is asked for."""
    from perpetual_mcp.tools import without_lab

    for prompt in PROMPTS:
        server.prompt(name=prompt.__name__, description=(prompt.__doc__ or "").strip())(
            without_lab(prompt.__name__, prompt, _spoken(labs, prompt), str)
        )
    _check_first(server)


def _check_first(server: MCPServer[object]) -> None:
    """Refuses what is asked wrongly in a few words: the SDK would log a trace and answer the code 0."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import INVALID_PARAMS, GetPromptRequestParams

    arguments = {prompt.__name__: {*inspect.signature(prompt).parameters} - {"lab"} for prompt in PROMPTS}

    async def get(ctx: Any, params: GetPromptRequestParams) -> Any:
        if params.name not in arguments:
            message = f"there is no prompt {plain(params.name)!r}: there is {', '.join(arguments)}"
            raise MCPError(code=INVALID_PARAMS, message=message)
        stray = (params.arguments or {}).keys() - arguments[params.name]
        if stray:
            has = ", ".join(arguments[params.name])
            message = f"the prompt {params.name} has no argument {plain(min(stray))!r}: it has {has}"
            raise MCPError(code=INVALID_PARAMS, message=message)
        return await server._handle_get_prompt(ctx, params)

    server._lowlevel_server.add_request_handler("prompts/get", GetPromptRequestParams, get)


def _spoken(labs: Labs, prompt: Callable[..., str]) -> Callable[..., str]:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR

    def speak(**arguments: object) -> str:
        try:
            return prompt(labs.lab(), **arguments)
        except PerpetualError as problem:
            raise MCPError(code=INTERNAL_ERROR, message=f"{problem.code}\n{error_text(problem)}") from problem

    return speak


def add_completions(server: MCPServer[object], labs: Labs) -> None:
    """Lets a client complete ids and paths."""
    import anyio.to_thread
    from mcp_types import Completion

    async def complete(ref: object, argument: Any, context: object) -> Completion:
        of = str(getattr(ref, "uri", None) or getattr(ref, "name", ""))
        values = await anyio.to_thread.run_sync(completed, labs, of, argument.name, argument.value)
        return Completion(values=values[:_MOST_VALUES], total=len(values), has_more=len(values) > _MOST_VALUES)

    decorate: Any = server.completion  # the SDK left it untyped
    decorate()(complete)


def completed(labs: Labs, of: str, name: str, value: str) -> list[str]:
    """Returns the possible values of a prompt's or template's argument `name` that begin with `value`; newest first."""
    lab = labs.lab()
    begin = value.strip().lower()
    found: list[str] = []
    if (of, name) == ("report", "hypothesis") or (of.startswith("hypothesis://") and name == "id"):
        found = _ids("h", lab.status()["hypotheses_total"], begin)
    elif of.startswith("experiment://") and name == "id":
        found = _ids("e", sum(lab.status()["experiments"].values()), begin)
    elif of.startswith("run://") and name == "id":
        newest = lab.runs.list(limit=1).items
        found = _ids("r", int(newest[0].id[1:]) if newest else 0, begin)
    elif of.startswith("memory://") and name == "path":
        # A completion is used as it stands, so nothing marks it as foreign: only paths that a person has vouched for.
        found = [item.path for item in _newest_first(partial(lab.memory.list, status="promoted"))]
        found = [path for path in found if _PLAIN_PATH.fullmatch(path)]
    elif (of, name) == ("catchup", "focus"):
        opened = [item.id for item in _newest_first(partial(lab.hypotheses.list, status="open"))]
        found = ["budget", "failures", "approvals", *opened]
    return [item for item in found if item.lower().startswith(begin)]


def _ids(letter: str, count: int, begin: str) -> list[str]:
    """Returns the ids that begin so; the record counts them up from 1 and takes none back."""
    return [id for number in range(count, 0, -1) if (id := f"{letter}{number}").startswith(begin)]


def _newest_first(pages: Callable[..., Any]) -> list[Any]:
    """Returns every record of a list."""
    page = pages(limit=_PAGE)
    found = [*page.items]
    while page.next_cursor is not None:
        page = pages(limit=_PAGE, cursor=page.next_cursor)
        found += page.items
    return found[::-1]
