"""The table of tools, and how a plain function over the lab becomes one. Used by `perpetual_mcp.server`.

A tool of a plugin is made in the same way: its first parameter is the lab, the others make the input schema, and a
parameter that is annotated with a text (`Annotated[int, "how many days"]`) is described by it; one that is annotated
with `ToolContext` is given the call's and is in no schema. What a client is shown of its effects are the function's
attributes `reads_only`, `destroys`, `repeatable` and `open_world`, each true or false, and `title`, a text.
"""

from __future__ import annotations

import inspect
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast, get_args, get_origin

import anyio.to_thread

from perpetual.api import PerpetualError, PluginError, UsageError
from perpetual.toolkit.confined import explain
from perpetual.toolkit.fence import fence, neutralise
from perpetual.toolkit.untrusted import seal
from perpetual_mcp import read_tools, revise_tools, schemas, show_tool, wait_tools, write_tools
from perpetual_mcp.answer_cache import Standing
from perpetual_mcp.bounds import MOST_TOKENS, Answer, fit, plain, refusal, weight
from perpetual_mcp.call_context import CallContext, context_name, current
from perpetual_mcp.compact import MORE, answer_schema, argument_schema
from perpetual_mcp.sessions import Labs

if TYPE_CHECKING:
    from mcp.server.context import HandlerResult, ServerRequestContext
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.tools import Tool as SdkTool
    from mcp_types import CallToolRequestParams, CallToolResult
    from pydantic import ValidationError

__all__ = ["APPROVE", "TOOLS", "Calls", "Known", "Tool", "tools_of", "whole_schemas", "without_lab"]

_SDK_REFUSALS = "Error executing tool "
_MOST_WRONG = 4  # arguments that one refusal names
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tool:
    """A tool of this server: what it is called, answers, and may do."""

    function: Callable[..., Answer]
    title: str
    shape: object
    reads: bool = False  # it changes nothing
    destroys: bool = False  # it may end what cannot be brought back
    repeatable: bool = False  # the second call changes nothing more
    follows: bool = False  # its answer follows from the record, the configuration and its arguments alone
    is_core: bool = False  # it is offered by `perpetual mcp --tools core` too
    moved: tuple[str, ...] = ()  # arguments that are given in `more`, or by name, and stand in no schema
    more: str = ""  # what the schema says of `more`

    @property
    def name(self) -> str:
        """Returns the tool's name for clients."""
        return self.function.__name__


TOOLS = (
    Tool(read_tools.perpetual_status, "Research status", schemas.StatusAnswer, reads=True, repeatable=True,
         follows=True, is_core=True),
    Tool(read_tools.perpetual_brief, "Brief", schemas.BriefAnswer, reads=True, repeatable=True, follows=True),
    Tool(show_tool.perpetual_show, "Show", schemas.ShowAnswer, reads=True, repeatable=True),
    Tool(write_tools.perpetual_hypotheses, "Hypotheses", schemas.HypothesesAnswer, is_core=True,
         moved=write_tools.MORE_OF_HYPOTHESES, more=write_tools.SAID_OF_HYPOTHESES),
    Tool(read_tools.perpetual_experiments, "Experiments", schemas.ExperimentsAnswer, reads=True, repeatable=True),
    Tool(write_tools.perpetual_propose, "Propose an experiment", schemas.ExperimentsAnswer, is_core=True,
         moved=write_tools.MORE_OF_PROPOSE, more=write_tools.SAID_OF_PROPOSE),
    Tool(revise_tools.perpetual_edit, "Edit", schemas.EditAnswer, moved=revise_tools.MORE_OF_EDIT,
         more=revise_tools.SAID_OF_EDIT),
    Tool(revise_tools.perpetual_undo, "Undo", schemas.UndoAnswer),
    Tool(write_tools.perpetual_run, "Run an approved experiment", schemas.RunsAnswer, is_core=True),
    Tool(read_tools.perpetual_runs, "Runs", schemas.RunsAnswer, reads=True, repeatable=True),
    Tool(read_tools.perpetual_logs, "Output of a run", schemas.LogsAnswer, reads=True, repeatable=True),
    Tool(write_tools.perpetual_kill, "End a run", schemas.RunsAnswer, destroys=True, repeatable=True),
    Tool(wait_tools.perpetual_wait, "Wait for runs", schemas.WaitAnswer, repeatable=True, is_core=True),
    Tool(wait_tools.perpetual_scan, "News", schemas.ScanAnswer, repeatable=True),
    Tool(write_tools.perpetual_evidence, "Evidence", schemas.EvidenceAnswer),
    Tool(write_tools.perpetual_memory, "Notes", schemas.MemoryAnswer, is_core=True),
    Tool(read_tools.perpetual_budget, "Budget", schemas.BudgetAnswer, reads=True, repeatable=True, follows=True),
)  # fmt: skip
APPROVE = Tool(write_tools.perpetual_approve, "Approve experiments", schemas.ExperimentsAnswer, repeatable=True)


def tools_of(labs: Labs, *, allow_approve: bool, core: bool = False) -> Calls:
    """Returns the tools of this server and those of plugins, or only the few of this server that a campaign needs.

    A plugin's tool that cannot be built is named on standard error, and the others serve.
    """
    calls = Calls(labs)
    for tool in (*(tool for tool in TOOLS if tool.is_core or not core), *([APPROVE] if allow_approve else [])):
        calls.own[tool.name] = tool
        calls.know(_own(tool))
    lab = labs.lab()
    for offer in () if core else lab.registry.serving("mcp_tool"):
        provider = offer.provider
        try:
            if offer.name != provider.name or provider.name in calls.made or provider.name == APPROVE.name:
                raise PluginError("the name of its tool is taken")
            function = lab.registry.build(offer, lab.options_of(offer))
            calls.know(_offered(labs, provider.name, provider.summary, function, is_bundled=offer.is_bundled))
            if offer.is_bundled:
                calls.bundled.add(provider.name)
        except Exception as problem:  # noqa: BLE001 - a plugin's fault is shown under its name and never ends the server
            sys.stderr.write(f"perpetual mcp: the tool {offer.qualified_name} is left out: {problem}\n")
    return calls


class Known(NamedTuple):
    """A tool as the SDK has it, and what a server has to know of it besides."""

    made: SdkTool
    arguments: frozenset[str]  # that a client may give
    taken: str | None  # the parameter that takes the call's context
    is_async: bool


class Calls:
    """Serves `tools/call`: this server's own tools at once, those of plugins through the SDK's general way.

    The general way builds a context and validates each answer against its output schema, which for our own tools the
    tests have done; it costs as much again as the call.
    """

    def __init__(self, labs: Labs) -> None:
        self._labs = labs
        self._server: MCPServer[object] | None = None
        self._standing = Standing()
        self.made: dict[str, SdkTool] = {}  # every tool as the SDK has it
        self.own: dict[str, Tool] = {}
        self.arguments: dict[str, frozenset[str]] = {}  # of every tool
        self.bundled: set[str] = set()  # tools of bundled plugins
        self._contexts: dict[str, str | None] = {}  # of tools that are served with a context: the parameter, if any
        self._heard: dict[str, int] = {}  # by client: the newest event that a scan or a wait has answered

    def serve(self, server: MCPServer[object]) -> None:
        """Takes the calls of a server that was made with these tools."""
        from mcp_types import CallToolRequestParams

        self._server = server
        server._lowlevel_server.add_request_handler("tools/call", CallToolRequestParams, self)

    def know(self, known: Known) -> None:
        """Notes a tool with its arguments, and whether it is served with a context."""
        name = known.made.name
        self.made[name] = known.made
        self.arguments[name] = known.arguments
        if known.taken is not None or known.is_async:
            self._contexts[name] = known.taken

    async def __call__(self, ctx: ServerRequestContext[object, object], params: CallToolRequestParams) -> HandlerResult:
        """Returns what a call answers, a refusal included."""
        from mcp_types import CallToolResult

        given, tool = params.arguments or {}, self.own.get(params.name)
        if tool is not None and tool.follows:
            asked = (self._labs.speaker(), params.name, json.dumps(given))
            if (standing := self._standing.find(asked)) is not None:
                return standing
        else:
            asked = None
        try:
            arguments = self._checked(params.name, given)
        except PerpetualError as problem:
            return _failed(problem, is_own=True)
        if tool is not None:
            if params.name in self._contexts:
                return await self._news(ctx, tool, arguments)
            return await anyio.to_thread.run_sync(self._done, tool, arguments, asked)
        server = self._server
        assert server is not None  # it is what calls
        if params.name in self._contexts:
            result = await CallContext(ctx).serve(lambda: server._handle_call_tool(ctx, params))
        else:
            result = await server._handle_call_tool(ctx, params)
        if not isinstance(result, CallToolResult):
            return result
        return _coded(result) if result.is_error else _sealed(result, is_bundled=params.name in self.bundled)

    async def _news(
        self, ctx: ServerRequestContext[object, object], tool: Tool, arguments: dict[str, object]
    ) -> CallToolResult:
        """Returns what a tool with a context answers; the client has heard it unless it has taken the call back."""
        speaker = self._labs.speaker()
        context = CallContext(ctx, self._heard.get(speaker))
        given = {**arguments, str(self._contexts[tool.name]): context}
        result = await context.in_thread(lambda: _answered(tool, self._labs, **given))
        seq = (result.structured_content or {}).get("seq")
        if isinstance(seq, int):
            self._heard[speaker] = max(seq, self._heard.get(speaker, 0))
        return result

    def _checked(self, name: str, given: dict[str, object]) -> dict[str, object]:
        """Returns the arguments in their types.

        Raises:
            UsageError: for an unknown tool, an unknown argument (ignored, a misspelt one would mislead its caller), and
                one of the wrong type.
        """
        from pydantic import ValidationError

        found = self.made.get(name)
        if found is None:
            raise UsageError(f"there is no tool {plain(name)!r}", hint=f"there is {', '.join(sorted(self.arguments))}")
        known = self.arguments[name]
        if name in self.own and self.own[name].moved:
            given = _flat(name, given, known)
        given = _spoken(given, known)
        hint = f"it has {', '.join(sorted(known)) or 'none'}"
        _refuse_strays(name, given, known)
        try:
            return found.fn_metadata.validate_arguments(given)
        except ValidationError as problem:
            fields = found.fn_metadata.arg_model.model_fields
            wrong = dict.fromkeys(str(error["loc"][0]) for error in problem.errors() if error["loc"])
            said = [f"{plain(key)}: {fields[key].description}" for key in wrong if key in fields][:_MOST_WRONG]
            raise UsageError(f"{name}: {_wrong(problem)}", hint=" ".join(said) or hint) from problem

    def _done(self, tool: Tool, arguments: dict[str, object], asked: tuple[str, str, str] | None) -> HandlerResult:
        """Returns what a tool of this server answers, cached if it stays valid; blocks."""
        if asked is None:
            return _answered(tool, self._labs, **arguments)
        try:
            lab = self._labs.lab()
            state = lab.feed.state()  # before the answer is begun
        except PerpetualError as problem:
            return _failed(problem)
        result = _answered(tool, self._labs, **arguments)
        # How far a live run is does not follow from the record.
        is_live = bool(lab.runs.live())
        if not result.is_error and not is_live:
            self._standing.keep(asked, lab, state, result.model_dump(by_alias=True, mode="json", exclude_none=True))
        return result


def _refuse_strays(name: str, given: Mapping[str, object], known: frozenset[str]) -> None:
    """Raises UsageError for an argument that a tool does not have, with the nearest names that it has."""
    if given.keys() <= known:
        return
    stray = min(given.keys() - known)
    near = get_close_matches(stray, sorted(known), n=3, cutoff=0.5)
    meant = f"did you mean {', '.join(near)}? " if near else ""
    hint = f"{meant}it has {', '.join(sorted(known)) or 'none'}"
    raise UsageError(f"{name} has no argument {plain(stray)!r}", hint=hint)


def _flat(name: str, given: dict[str, object], known: frozenset[str]) -> dict[str, object]:
    """Returns the arguments with those of `more` among them.

    Raises:
        UsageError: where `more` is no object, or has a key that is no argument or is given beside it too.
    """
    if MORE not in given:
        return given
    more, rest = given[MORE], {key: value for key, value in given.items() if key != MORE}
    if more is None:
        return rest
    if isinstance(more, str):  # as some models write an object
        more = _loaded(more)
    if not isinstance(more, dict):
        raise UsageError(f"{name}: {MORE} is an object of further arguments", hint='more={"priority": 2}')
    more = _spoken(more, known)
    _refuse_strays(name, more, known)
    if twice := sorted(more.keys() & rest.keys()):
        raise UsageError(f"{name}: {', '.join(twice)} is given in {MORE} and beside it", hint="give it once")
    return {**rest, **more}


_OTHER_NAMES = {"statement": "text"}
_OTHER_ACTIONS = {"create": "add"}


def _spoken(given: dict[str, object], known: frozenset[str]) -> dict[str, object]:
    """Returns the arguments by their names here, where they came by names that agents often give them."""
    for other, name in _OTHER_NAMES.items():
        if other in given and other not in known and name in known and name not in given:
            given = {(name if key == other else key): value for key, value in given.items()}
    action = given.get("action")
    if "action" in known and isinstance(action, str) and action in _OTHER_ACTIONS:
        given = {**given, "action": _OTHER_ACTIONS[action]}
    return given


def _wrong(problem: ValidationError) -> str:
    """Returns what is wrong with arguments, an argument each: its name, what it has to be, and what came."""
    hints: dict[str, str] = {}
    for error in problem.errors(include_url=False, include_context=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        came = "" if error["type"] == "missing" else f", not {plain(json.dumps(error['input'], default=str), 40)}"
        hints.setdefault(name, f"{plain(name)}: {error['msg'][:1].lower()}{plain(error['msg'][1:], 120)}{came}")
    return "; ".join([*hints.values()][:_MOST_WRONG])


def _answered(tool: Tool, labs: Labs, /, **arguments: object) -> CallToolResult:
    """Returns what a tool of this server answers, errors included."""
    from mcp_types import CallToolResult, TextContent

    def deed() -> CallToolResult:
        document, text = tool.function(labs.lab(), **arguments).sealed()
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=document)

    answer: CallToolResult = _guarded(tool.name, deed)
    return answer


def _never(**_: object) -> object:
    raise AssertionError("tools of this server are called by Calls, which has them from its own table")


async def _never_async(**_: object) -> object:
    raise AssertionError("the tool of a plugin is called with a lab")


# Making the schemas is most of a server's start; they follow from the functions alone.
@cache
def _own(tool: Tool) -> Known:
    """Returns a tool of this server."""
    from mcp_types import CallToolResult

    shown = without_lab(tool.name, tool.function, _never, Annotated[CallToolResult, tool.shape])
    hints = {"reads": tool.reads, "destroys": tool.destroys, "repeatable": tool.repeatable, "open_world": False}
    return _known(tool.function, _shortened(shown, tool.title, None, hints, tool.moved, tool.more))


def _known(function: Callable[..., object], made: SdkTool) -> Known:
    return Known(made, _names(function), context_name(function), inspect.iscoroutinefunction(function))


def _shortened(
    shown: Callable[..., object], title: str, description: str | None, hints: Mapping[str, bool],
    moved: Sequence[str] = (), more: str = "",
) -> SdkTool:  # fmt: skip
    """Returns a function as the SDK's tool, shown with short schemas; what it validates by is the SDK's own."""
    from mcp.server.mcpserver.tools import Tool as Made
    from mcp_types import ToolAnnotations

    made = Made.from_function(
        shown,
        title=title,
        description=description,
        annotations=ToolAnnotations(
            read_only_hint=hints["reads"],
            destructive_hint=hints["destroys"],
            idempotent_hint=hints["repeatable"],
            open_world_hint=hints["open_world"],
        ),
    )
    made.parameters = argument_schema(made.parameters, moved, more)
    answers = made.fn_metadata.output_schema
    if answers is not None:
        made.fn_metadata.output_schema = answer_schema(answers)
    return made


def whole_schemas(server: MCPServer[object], name: str) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Returns the schema of every argument of a tool, those of `more` included, and the keys that its answer has."""
    from pydantic import TypeAdapter

    made = server._tool_manager.get_tool(name)
    assert made is not None  # the caller has its name from the list
    found = argument_schema(made.fn_metadata.arg_model.model_json_schema(by_alias=True))
    answer = made.fn_metadata.output_model
    keys = [] if answer is None else [*TypeAdapter(answer).json_schema().get("properties", {})]
    return cast("dict[str, dict[str, object]]", found["properties"]), keys


def _offered(labs: Labs, name: str, summary: str | None, function: Callable[..., object], *, is_bundled: bool) -> Known:
    """Returns the tool of a plugin."""
    taken = context_name(function)

    def given(arguments: dict[str, object]) -> dict[str, object]:
        return arguments if taken is None else {**arguments, taken: current()}

    def call(**arguments: object) -> object:
        return _guarded(name, lambda: function(labs.lab(), **given(arguments)))

    async def call_async(**arguments: object) -> object:
        try:
            lab = await anyio.to_thread.run_sync(labs.lab)
            return await cast("Awaitable[object]", function(lab, **given(arguments)))
        except Exception as problem:  # noqa: BLE001 - answered as the failure of a plain function is
            return _guarded(name, partial(_raise, problem))

    # A callable object of a plugin may have no hash, or one that others share.
    shape = _shape if inspect.isfunction(function) else _shape.__wrapped__
    known = shape(name, summary, function, is_bundled)
    called = known.made.model_copy(update={"fn": call_async if known.is_async else call})
    return known._replace(made=called)


@cache
def _shape(name: str, summary: str | None, function: Callable[..., object], is_bundled: bool) -> Known:
    """Returns the tool of a plugin without what it calls."""
    reads = getattr(function, "reads_only", None)
    title = plain(getattr(function, "title", "") or name.removeprefix("perpetual_").replace("_", " ").capitalize())
    returned = inspect.signature(function, eval_str=True).return_annotation
    answer = _never_async if inspect.iscoroutinefunction(function) else _never
    # What a plugin does not say is what the protocol takes for granted: the worst.
    hints = {
        "reads": bool(reads),
        "destroys": bool(getattr(function, "destroys", not reads)),
        "repeatable": bool(getattr(function, "repeatable", reads)),
        "open_world": bool(getattr(function, "open_world", not is_bundled)),
    }
    shown = without_lab(name, function, answer, returned)
    return _known(function, _shortened(shown, title, inspect.getdoc(function) or summary or None, hints))


def without_lab(
    name: str, function: Callable[..., object], answer: Callable[..., object], returned: object
) -> Callable[..., object]:
    """Returns `answer` with the name, words and arguments of `function`, but for the lab and the call's context."""

    def plain_call(**arguments: object) -> object:
        return answer(**arguments)

    async def async_call(**arguments: object) -> object:
        found: object = await cast("Awaitable[object]", answer(**arguments))
        return found

    call: Callable[..., object] = async_call if inspect.iscoroutinefunction(answer) else plain_call
    signature, names = inspect.signature(function, eval_str=True), _names(function)
    shown = [
        item.replace(kind=item.KEYWORD_ONLY, annotation=_described(item.annotation))
        for item in signature.parameters.values()
        if item.name in names
    ]
    call.__name__ = name
    call.__doc__ = inspect.getdoc(function)
    call.__annotations__ = {**{item.name: item.annotation for item in shown}, "return": returned}
    call.__signature__ = signature.replace(parameters=shown, return_annotation=returned)  # type: ignore[attr-defined]
    return call


def _described(annotation: object) -> object:
    """Returns the annotation with the texts of an `Annotated` as the description in its schema."""
    if get_origin(annotation) is not Annotated:
        return annotation
    from pydantic import Field

    kind, *notes = get_args(annotation)
    fields = [Field(description=note) if isinstance(note, str) else note for note in notes]
    return Annotated[(kind, *fields)]


def _sealed(result: CallToolResult, *, is_bundled: bool) -> CallToolResult:
    """Returns a plugin's answer as an agent is shown it: foreign values are marked, in text and structure.

    Args:
        result: what the tool answered.
        is_bundled: whether its plugin is; the text of such a document may hold its own fence.
    """
    from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents

    document = result.structured_content
    bare = document  # its text has its lines yet, for the fence
    if bare is not None and weight(bare) > MOST_TOKENS:
        bare = fit(bare, MOST_TOKENS // 2)
    shown = None if bare is None else seal(bare)
    content: list[object] = []
    for item in result.content:
        if isinstance(item, TextContent):
            is_copy = shown is not None and _loaded(item.text) == document
            item = item.model_copy(
                update={"text": _words(shown, bare or {}, is_bundled) if is_copy and shown else fence(item.text)}
            )
        elif isinstance(item, EmbeddedResource) and isinstance(item.resource, TextResourceContents):
            item = item.model_copy(
                update={"resource": item.resource.model_copy(update={"text": fence(item.resource.text)})}
            )
        elif isinstance(item, ResourceLink):
            names = {key: neutralise(getattr(item, key) or "") for key in ("name", "title", "description")}
            item = item.model_copy(update=names)
        content.append(item)
    if shown is not None and not shown["untrusted"]:
        del shown["untrusted"]
    return result.model_copy(update={"content": content, "structured_content": shown})


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _words(document: Mapping[str, object], bare: Mapping[str, object], is_bundled: bool) -> str:
    """Returns a sealed document in words: the `text` of `bare`, which it was made of, if it has one, else itself."""
    text = bare.get("text")
    if not isinstance(text, str):
        return json.dumps(document, ensure_ascii=False)
    untrusted, cursor = document["untrusted"], document.get("next_cursor")
    if is_bundled and isinstance(untrusted, list) and "/text" not in untrusted:
        return text
    return fence(text) + (f"\n(more: cursor {neutralise(cursor, 60)})" if isinstance(cursor, str) and cursor else "")


def _names(function: Callable[..., object]) -> frozenset[str]:
    """Returns the arguments that a client may give."""
    return frozenset([*inspect.signature(function).parameters][1:]) - {context_name(function)}


def _raise(problem: Exception) -> object:
    raise problem


# --- what fails -------------------------------------------------------------------------------------------------


def _guarded(name: str, deed: Callable[[], object]) -> Any:
    """Returns an operation's answer, or its error as a tool's answer."""
    try:
        return deed()
    except PerpetualError as problem:
        return _failed(problem)
    except OSError as problem:
        known = explain(problem)
        if known is None:
            _log.exception("the tool %s failed", name)
            known = PerpetualError(f"internal error: {type(problem).__name__}: {problem}", code="internal")
        return _failed(known)
    except Exception as problem:  # noqa: BLE001 - the client gets it with a code, the log with its trace
        _log.exception("the tool %s failed", name)
        return _failed(PerpetualError(f"internal error: {type(problem).__name__}: {problem}", code="internal"))


def _failed(problem: PerpetualError, *, is_own: bool = False) -> CallToolResult:
    """Returns an error as a tool's answer: text only, as the output schema is that of a success.

    Args:
        is_own: its words quote the caller alone.
    """
    from mcp_types import CallToolResult, TextContent

    text = json.dumps(refusal(problem.document(), dict(problem.data or {}), is_own=is_own), ensure_ascii=False)
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=True)


def _coded(result: CallToolResult) -> CallToolResult:
    """Returns a refusal worded by the SDK (an answer that breaks its tool's output schema) as our error document."""
    text = getattr(result.content[0], "text", "") if result.content else ""
    if not text.startswith(_SDK_REFUSALS):
        return result
    return _failed(UsageError(plain(text, 600), hint="tools/list tells the tools and their arguments"))
