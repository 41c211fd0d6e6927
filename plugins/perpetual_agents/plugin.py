"""Entry point of persistent agents: slots, kinds, commands, tools, a service and a companion; nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import EventKind, Option, Provider, RecordKind, Slot, Suite, hookimpl
from perpetual_agents.kinds import KINDS
from perpetual_agents.names import AGENT

if TYPE_CHECKING:
    from perpetual import Lab


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `model_backend`, `agent_handler` and `agent_tool`."""
    return [
        Slot("model_backend", "perpetual_model_backends", "backend of models", "perpetual_agents.model:ModelBackend",
             "one", default="pydantic-ai",
             suite=Suite("perpetual_agents.testing.backends:BackendContract", fixture="backend")),
        Slot("agent_handler", "perpetual_agent_handlers", "handler of agents", "perpetual_agents.handler:Handler",
             suite=Suite("perpetual_agents.testing.handlers:HandlerContract", fixture="handler")),
        Slot("agent_tool", "perpetual_agent_tools", "tool of agents", "perpetual_agents.tools:AgentTool",
             suite=Suite("perpetual_agents.testing.tools:AgentToolContract", fixture="tool")),
    ]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_model_backends() -> list[Provider]:
    """Offers the backend that asks models through pydantic-ai."""
    return [Provider("model_backend", "pydantic-ai", "perpetual_agents.pydantic_backend:build",
                     "twelve providers of models, by pydantic-ai")]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_agent_handlers() -> list[Provider]:
    """Offers the handlers that make an agent durable, bounded and safe."""
    retry = {
        "times": Option("int", 4, "How often a model is asked again after a transient failure.", minimum=0, maximum=20),
        "first_s": Option("float", 0.5, "Seconds of the first wait.", minimum=0.0, maximum=600.0),
        "longest_s": Option("float", 60.0, "Seconds of a wait at most.", minimum=0.0, maximum=3600.0),
    }
    limits = {"usd_per_call": Option("float", 0.05, "US dollars that a request may cost, booked before it.",
                                     minimum=0.0, maximum=100.0)}  # fmt: skip

    loops = {"backoff_s": Option("float", 0.5, "Seconds before the first repetition of a call that failed.",
                                 minimum=0.0, maximum=30.0)}  # fmt: skip

    def offer(name: str, order: int, summary: str, options: dict[str, Option] | None = None) -> Provider:
        return Provider("agent_handler", name, f"perpetual_agents.handlers.{name}:build", summary, order=order,
                        options=options)  # fmt: skip

    return [
        offer("tracing", 5, "traces turns and their steps by OpenTelemetry, where it is set up"),
        offer("checkpoint", 10, "takes checkpoints by itself"),
        offer("loops", 15, "pauses an agent that does the same failing thing again and again", loops),
        offer("journal", 20, "records each step before its effect and after it"),
        offer("approval", 25, "asks a person before calls that need one"),
        offer("scan", 30, "keeps attacks in results of tools from the model"),
        offer("retry", 40, "asks again after a transient failure", retry),
        offer("limits", 50, "holds the limits of the agent and of the day", limits),
        offer("compaction", 55, "summarises older turns, and keeps what persons said"),
        offer("history", 60, "shows the model the newest messages"),
        offer("recall", 65, "shows the model entries of memory, where a setting lets it"),
    ]


@hookimpl(optionalhook=True)
def perpetual_agent_tools() -> list[Provider]:
    """Offers tools on the lab, on the agent's own goals and on its memory."""
    return [
        Provider("agent_tool", "lab", "perpetual_agents.lab_tools:build_lab", "reads the lab, and proposes"),
        Provider("agent_tool", "timers", "perpetual_agents.event_tools:build_timers", "wakes it at a time"),
        Provider("agent_tool", "ask", "perpetual_agents.event_tools:build_ask", "asks a person"),
        Provider("agent_tool", "goals", "perpetual_agents.lab_tools:build_goals", "reads and changes its own goals"),
        Provider("agent_tool", "memory", "perpetual_agents.memory_tools:build", "keeps and finds what is worth it"),
    ]


@hookimpl(optionalhook=True)
def perpetual_thinkers() -> list[Provider]:
    """Offers a model, through the backend in force, as a thinker of the loop."""
    options = {
        "thinker_model": Option("str", None, "The thinker's own, as provider:name.", nullable=True),
        "thinker_timeout_s": Option(
            "float", 120.0, "Seconds after which a question to it fails.", minimum=0.1, maximum=3600.0
        ),
    }
    return [Provider("thinker", "agents", "perpetual_agents.thinker:build", "a model, asked as agents ask theirs",
                     options=options, requires=("thinkers",))]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_companions() -> list[Provider]:
    """Offers what works on the inboxes while the daemon runs."""
    return [Provider("companion", "agents", "perpetual_agents.companion:build", "answers the messages of agents",
                     requires=("daemon",))]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings agents, their branches, accounts, steps, messages and checkpoints."""
    return [*KINDS]


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names what agents share."""
    server = {
        "name": Option("str", None, "Its name, as in mcp:NAME."),
        "command": Option("list", [], "The words that start it."),
        "environment": Option("list", [], "Variables that it gets beside PATH, HOME and the like, by name."),
        "url": Option("str", None, "Its address, where it is served over HTTP.", nullable=True),
    }
    return {
        "model": Option("str", None, "The model of agents that name none, as provider:name.", nullable=True),
        "handlers": Option("list", [], "Handlers in force, outermost first; none means all, in their own order."),
        "at_once": Option("int", 8, "Agents that the service works on at once.", minimum=1, maximum=100),
        "mcp_servers": Option("list", [], "MCP servers whose tools agents may have.", items="section", fields=server),
    }


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual agent`."""
    return [Provider("command", "agent", "perpetual_agents.command:agent",
                     "Make and run agents that live on: inbox, journal, checkpoints.", topic="project")]  # fmt: skip


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section of the status that counts agents."""
    return [Provider("status_section", "agents", "perpetual_agents.section:build", "where persistent agents stand")]


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that says whether messages of agents move."""
    return [Provider("check", "agents", "perpetual_agents.section:build_check", "whether messages of agents move")]


@hookimpl
def perpetual_mcp_tools() -> list[Provider]:
    """Offers `perpetual_agents`, which reads, and `perpetual_agent_message`."""
    return [
        Provider("mcp_tool", "perpetual_agents", "perpetual_agents.mcp_tools:build_agents",
                 "Persistent agents, with the goals and the answers of one."),
        Provider("mcp_tool", "perpetual_agent_message", "perpetual_agents.mcp_tools:build_message",
                 "Sends a message to a persistent agent."),
    ]  # fmt: skip


@hookimpl
def perpetual_services() -> list[Provider]:
    """Offers the service that works on the inboxes of agents."""
    return [Provider("service", "agents", "perpetual_agents.service:build", "answers the messages of agents")]


@hookimpl
def perpetual_scan(lab: Lab) -> None:
    """Puts what has happened into the inboxes of the agents that hear of it."""
    _catch_up(lab)


@hookimpl
def perpetual_analysed(lab: Lab) -> None:
    """Puts what the scan has found into the inboxes of the agents that hear of it."""
    _catch_up(lab)


def _catch_up(lab: Lab) -> None:
    if lab.records(AGENT).count(hears="yes"):
        from perpetual_agents.subscriptions import Subscriptions

        Subscriptions(lab).catch_up()
