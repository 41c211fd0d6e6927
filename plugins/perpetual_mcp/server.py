"""The MCP server: the official SDK over standard input and output, every tool a call to `Lab`.

Imported only when `perpetual mcp` has chosen it. Tools are plain functions, which the SDK runs in worker threads; a
`Lab` is safe there. Both eras of the protocol are served: the handshake (`initialize`, 2024-11-05 to 2025-11-25) and
the stateless envelope (`server/discover`, 2026-07-28). The process may be ended by a signal at any time: what a tool
has answered is durable by then, and what it had not finished did not happen.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal

import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from perpetual import Lab, __version__
from perpetual.api import LabOpener, McpServer, PerpetualError, PluginError, UsageError
from perpetual_mcp.bounds import bounded_status, plain

__all__ = ["RESOURCE", "Labs", "SdkServer", "build", "make_server"]

RESOURCE = "live-state://research"
_BRIEF_TOKENS = {"low": 500, "full": 2000}  # the text; with the document below 2000 and 8000 in all
_DOCUMENT_TOKENS = {"low": 1400, "full": 5500}
_SUMMARY_TOKENS = 350
_RESOURCE_TOKENS = 800
_ABOUT = """\
Perpetual keeps this project's research record: hypotheses, experiments, runs, evidence, notes. Read the state below \
before you act, and again with the tool perpetual_status. Register a hypothesis with its prediction before a run, \
propose experiments and wait for a person's approval, quote numbers from the record only.
"""
_SDK_REFUSALS = ("Error executing tool ", "Unknown tool")

_log = logging.getLogger(__name__)


class HypothesisLine(BaseModel):
    """A hypothesis in short."""

    id: str
    statement: str
    status: str
    confidence: float = Field(description="Posterior probability that the claim holds.")
    false_alarm_bound: float
    evidence_count: int


class RunLine(BaseModel):
    """A live run in short."""

    id: str
    experiment_id: str
    replicate: int
    status: str
    started_at: str | None
    reason: str | None


class LiveRuns(BaseModel):
    """What runs and what waits."""

    active: list[RunLine]
    queued: int


class BudgetTotals(BaseModel):
    """GPU time and wall time; `limit_gpu_hours` null is unlimited."""

    limit_gpu_hours: float | None
    spent_gpu_hours: float
    reserved_gpu_hours: float
    left_gpu_hours: float | None
    run_hours: float


class StatusAnswer(BaseModel):
    """Where the research stands."""

    document_schema: Literal["perpetual.status/1"] = Field(alias="schema")
    project: str | None
    seq: int
    experiments: dict[str, int] = Field(description="Number of experiments by status.")
    hypotheses: list[HypothesisLine] = Field(description="Open ones first.")
    hypotheses_total: int
    runs: LiveRuns
    budget: BudgetTotals
    memory: dict[str, int] = Field(description="Number of notes by status.")
    approvals_waiting: int = Field(description="Experiments that wait for a person.")
    queue: str = Field(description="running, paused or draining.")
    next: list[str] = Field(description="What to do next, the most useful first.")
    truncated: bool = Field(description="Whether something was left out for brevity.")


class Labs:
    """The lab of each actor. One client is one actor, so there is one lab, unless a client changes its name."""

    def __init__(self, open_lab: LabOpener) -> None:
        self._open = open_lab
        self._lock = threading.Lock()
        self._labs: dict[str, Lab] = {}
        self._latest = "mcp:unknown"

    def name(self, actor: str) -> None:
        """Notes who is speaking."""
        self._latest = actor

    def lab(self) -> Lab:
        """The lab in the name of the client that speaks."""
        with self._lock:
            if self._latest not in self._labs:
                self._labs[self._latest] = self._open(self._latest)
            return self._labs[self._latest]

    def close(self) -> None:
        """Lets go of all."""
        with self._lock:
            while self._labs:
                self._labs.popitem()[1].close()


def _failed(problem: PerpetualError) -> CallToolResult:
    """The error as a tool's answer. Text only: clients hold structured content against the tool's output schema."""
    document = {"schema": "perpetual.error/1", "error": problem.document()}
    return CallToolResult(
        content=[TextContent(type="text", text=json.dumps(document, ensure_ascii=False))], is_error=True
    )


def _guarded(name: str, deed: Callable[[], Any]) -> Any:
    """The deed's answer, or its error as a tool's answer."""
    try:
        return deed()
    except PerpetualError as problem:
        return _failed(problem)
    except Exception as problem:  # noqa: BLE001 - the client gets it with a code, the log with its trace
        _log.exception("the tool %s failed", name)
        return _failed(PerpetualError(f"internal error: {type(problem).__name__}: {problem}", code="internal"))


def _add_status(server: MCPServer[Any], labs: Labs) -> None:
    def perpetual_status(
        detail: Annotated[Literal["low", "full"], Field(description="How much: about 2000 or 8000 tokens.")] = "low",
    ) -> Annotated[CallToolResult, StatusAnswer]:
        """Where the research stands: hypotheses, live runs, budget, last results, dead ends, what to do next."""

        def deed() -> CallToolResult:
            lab = labs.lab()
            return CallToolResult(
                content=[TextContent(type="text", text=lab.brief(_BRIEF_TOKENS[detail]))],
                structured_content=bounded_status(lab.status(), _DOCUMENT_TOKENS[detail]),
            )

        answer: CallToolResult = _guarded("perpetual_status", deed)
        return answer

    server.add_tool(
        perpetual_status,
        title="Research status",
        annotations=ToolAnnotations(
            read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


def _add_resource(server: MCPServer[Any], labs: Labs) -> None:
    def research() -> str:
        try:
            return labs.lab().brief(_RESOURCE_TOKENS)
        except PerpetualError as problem:
            hint = f" ({problem.hint})" if problem.hint else ""
            raise ResourceError(f"{problem.code}: {problem.message}{hint}") from problem

    server.resource(
        RESOURCE,
        name="research",
        title="State of the research",
        description="The brief: open hypotheses, live runs, last results, dead ends, what to do next.",
        mime_type="text/markdown",
    )(research)


def _bound(name: str, tool: Callable[..., Any], labs: Labs) -> Callable[..., Any]:
    """A plugin's tool without its first parameter, which is the lab; the others make the input schema."""
    if inspect.iscoroutinefunction(tool):
        raise PluginError("its factory must answer a plain function, which may block; this one is a coroutine function")
    signature = inspect.signature(tool, eval_str=True)

    def call(**arguments: Any) -> Any:
        return _guarded(name, lambda: tool(labs.lab(), **arguments))

    shown = [item.replace(kind=item.KEYWORD_ONLY) for item in [*signature.parameters.values()][1:]]
    call.__name__ = name
    call.__doc__ = tool.__doc__
    call.__annotations__ = {}
    call.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    return call


def _add_offered(server: MCPServer[Any], labs: Labs, taken: set[str]) -> None:
    """Adds what plugins offer; a tool that cannot be built is named on standard error, and the others serve."""
    lab = labs.lab()
    for offer in lab.registry.serving("mcp_tool"):
        provider = offer.provider
        try:
            if provider.name in taken:
                raise PluginError("there is a tool of that name already")
            tool = lab.registry.build(offer, lab.config.options(provider.name, provider.options))
            server.add_tool(_bound(provider.name, tool, labs), name=provider.name, description=provider.summary or None)
            taken.add(provider.name)
        except Exception as problem:  # noqa: BLE001 - a plugin's fault is told under its name and never ends the server
            sys.stderr.write(f"perpetual mcp: the tool {offer.qualified_name} is left out: {problem}\n")


def _actor(ctx: ServerRequestContext[Any, Any]) -> str | None:
    """`mcp:<name>/<version>` of the client, None before it has named itself."""
    if ctx.method == "initialize":
        info: Any = (ctx.params or {}).get("clientInfo")
        if not isinstance(info, Mapping):
            return None
        name, version = info.get("name"), info.get("version")
    else:
        known = ctx.session.client_params
        if known is None:
            return None
        name, version = known.client_info.name, known.client_info.version
    return f"mcp:{plain(name or 'unknown')}/{plain(version or '?', 20)}"


def _instructions(labs: Labs) -> str:
    """What the server tells a client about itself, with the state of the research at this moment."""
    try:
        return f"{_ABOUT}\n{labs.lab().brief(_SUMMARY_TOKENS)}"
    except PerpetualError as problem:
        return f"{_ABOUT}\nThe lab cannot be read now: {problem.message}. {problem.hint or ''}"


def _watch(labs: Labs) -> ServerMiddleware[Any]:
    """What stands around every message: notes who speaks, tells the live state at the opening, gives errors a code."""

    async def watch(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        actor = _actor(ctx)
        if actor is not None:
            labs.name(actor)
        result = await call_next(ctx)
        if isinstance(result, dict):
            if ctx.method in ("initialize", "server/discover"):
                return {**result, "instructions": await anyio.to_thread.run_sync(_instructions, labs)}
            if ctx.method == "tools/call" and result.get("isError"):
                return {**result, "content": [_coded(item) for item in result["content"]]}
        return result

    return watch


def _coded(content: dict[str, Any]) -> dict[str, Any]:
    """A refusal that the SDK worded (an unknown tool, an argument of the wrong type) as our error document."""
    text = content.get("text", "")
    if not text.startswith(_SDK_REFUSALS):
        return content
    error = UsageError(plain(text, 600), hint="tools/list tells the tools and their arguments")
    return {**content, "text": json.dumps({"schema": "perpetual.error/1", "error": error.document()})}


def make_server(labs: Labs) -> MCPServer[Any]:
    """The SDK's server with everything that it offers."""
    server: MCPServer[Any] = MCPServer(
        "perpetual",
        title="Perpetual",
        description="The persistent lab of this project's research.",
        version=__version__,
        log_level="WARNING",
        middleware=[_watch(labs)],
    )
    _add_status(server, labs)
    _add_resource(server, labs)
    _add_offered(server, labs, {"perpetual_status"})
    return server


@contextmanager
def _silent() -> Iterator[None]:
    """Standard output goes to standard error meanwhile, for subprocesses too.

    The SDK does so while it serves; before that, modules of plugins are imported, and what they print would stand on
    the protocol stream.
    """
    sys.stdout.flush()
    wire = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(wire, 1)
        os.close(wire)


class SdkServer(McpServer):
    """See `perpetual.slots.mcp` for the contract."""

    def serve(self, open_lab: LabOpener, *, allow_approve: bool = False, http: str | None = None) -> None:
        """Serves on standard input and output until the client closes them.

        Raises:
            UsageError: for `http`, which this version does not serve.
        """
        if http is not None:
            raise UsageError("--http is not served yet", hint="leave it out: the server then speaks over stdio")
        if allow_approve:
            sys.stderr.write("perpetual mcp: no tool of this version approves, so --allow-approve changes nothing\n")
        if threading.current_thread() is threading.main_thread():
            # The SDK's reader waits for a line in a thread that an interrupt cannot wake; so an interrupt ends the
            # process at once, as TERM does.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        labs = Labs(open_lab)
        try:
            with _silent():
                server = make_server(labs)
            server.run("stdio")
        except* (BrokenPipeError, ConnectionResetError):
            _log.info("the client left before it had its answer")  # an ordinary end of serving
        finally:
            labs.close()


def build(options: Mapping[str, Any]) -> SdkServer:
    """Factory of the provider `mcp`."""
    return SdkServer()
