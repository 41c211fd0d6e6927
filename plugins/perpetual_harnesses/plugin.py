"""Entry point of the bundled harnesses, what writes their files, and what drives them; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import EventKind, Option, Provider, RecordKind, Slot, Suite, hookimpl

_SUMMARIES = {
    "opencode": "OpenCode: MCP server, plugin with the brief, agent, commands",
    "claude-code": "Claude Code: MCP server, hooks, permissions, agent, commands",
    "cursor": "Cursor: MCP server, rule, agent, commands",
    "codex": "Codex: MCP server, hooks, agent, skills",
    "gemini": "Gemini CLI: MCP server, agent, skill",
    "qwen": "Qwen Code: MCP server, agent, skill",
    "copilot": "Copilot CLI: MCP server, agent, skill",
    "vscode": "Copilot in Visual Studio Code: MCP server, agent",
    "kilo": "Kilo: what OpenCode has, which it reads",
    "antigravity": "Antigravity: MCP server, skill",
    "zed": "Zed: MCP server",
    "windsurf": "Windsurf: an entry to put into its own configuration, printed",
    "goose": "Goose: an entry to put into its own configuration, printed",
    "cline": "Cline: an entry to put into its own configuration, printed",
    "continue": "Continue: an entry to put into its own configuration, printed",
    "amp": "Amp: an entry to put into its own configuration, printed",
    "droid": "Droid: an entry to put into its own configuration, printed",
    "mcp": "any agent that reads .mcp.json, AGENTS.md and skills",
}

_FACTORIES = {"claude-code": "claude_code", "continue": "continue_"}  # where the name is none of Python's


@hookimpl
def perpetual_harnesses() -> list[Provider]:
    """Offers the coding agents that Perpetual knows, and any other one that reads `.mcp.json` and `AGENTS.md`."""
    return [
        Provider("harness", name, f"perpetual_harnesses.template:{_FACTORIES.get(name, name)}", summary)
        for name, summary in _SUMMARIES.items()
    ]


@hookimpl
def perpetual_scaffolders() -> list[Provider]:
    """Offers what merges the files that harnesses ask for, and takes them out again."""
    return [Provider("scaffolder", "files", "perpetual_harnesses.files:build", "merges files, and gives them back")]


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings `dispatcher`, one way to drive a harness."""
    suite = Suite("perpetual_harnesses.testing:DispatcherContract", fixture="dispatcher", own_form=True)
    return [Slot("dispatcher", "perpetual_dispatchers", "dispatcher", "perpetual_harnesses.dispatch.base:Dispatcher",
                 suite=suite)]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_dispatchers() -> list[Provider]:
    """Offers the Agent Client Protocol, and the command lines of harnesses."""
    return [
        Provider("dispatcher", "acp", "perpetual_harnesses.dispatch.over_acp:build", "the Agent Client Protocol"),
        Provider("dispatcher", "argv", "perpetual_harnesses.dispatch.over_argv:build", "the harness's command line"),
    ]


@hookimpl(optionalhook=True)
def perpetual_thinkers() -> list[Provider]:
    """Offers harnesses as thinkers of the loop, by their names."""
    options = {
        "model": Option("str", "", "The model, as the harness names it; empty takes the harness's own."),
        "timeout_s": Option("float", 300.0, "Seconds after which it is ended.", minimum=1, maximum=7200),
        "usd_per_answer": Option("float", 0.5, "US dollars an answer may cost, where the harness reports them.",
                                 minimum=0, maximum=1000),
    }  # fmt: skip
    return [
        Provider("thinker", name, f"perpetual_harnesses.dispatch.thinker:{name.replace('-', '_')}",
                 f"{_SUMMARIES[name].partition(':')[0]}, driven by the lab", options=options, requires=("thinkers",))
        for name in ("opencode", "claude-code", "codex")
    ]  # fmt: skip


@hookimpl
def perpetual_kinds() -> list[RecordKind | EventKind]:
    """Brings turns of harnesses and the sums of their sessions."""
    from perpetual_harnesses.dispatch.records import kinds

    return [*kinds()]


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names what a harness that the lab drives may do and use."""
    return {
        "allow": Option("list", ["read", "search", "think"], "Kinds of tool calls that a driven harness is permitted "
                        "when it asks.", choices=("read", "edit", "delete", "move", "search", "execute", "think",
                                                  "fetch", "switch_mode", "other")),
        "model": Option("str", "", "The model of `perpetual ask`; empty takes the harness's own."),
        "wall_s": Option("float", 900.0, "Seconds of a turn at most.", minimum=1, maximum=86_400),
        "max_steps": Option("int", 200, "Calls of the model in a turn at most.", minimum=1, maximum=100_000),
        "tokens_per_turn": Option("int", 2_000_000, "Tokens of a turn at most, booked before it.", minimum=1,
                                  maximum=10**9),
        "usd_per_turn": Option("float", 1.0, "US dollars of a turn at most, booked before it.", minimum=0.0,
                               maximum=10_000.0),
        "server_wait_s": Option("float", 10.0, "Seconds that a prompt waits for the harness to reach the lab's tools.",
                                minimum=0.0, maximum=600.0, variable="PERPETUAL_SERVER_WAIT_S"),
        "command": Option("list", [], "A program for one turn, as the harness `command`: the prompt goes to standard "
                          "input, or where {prompt} stands."),
        "resume": Option("list", [], "Its words to go on with {session}."),
    }  # fmt: skip


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers what hands a prompt to a coding agent."""
    return [
        Provider("command", "ask", "perpetual_harnesses.commands:ask", "Ask an installed coding agent.",
                 topic="agents", requires=("loop",)),
        Provider("command", "chat", "perpetual_harnesses.commands:chat", "Start a coding agent at this terminal.",
                 topic="agents"),
        Provider("command", "auth", "perpetual_harnesses.commands:auth", "Show which coding agents are logged in.",
                 topic="agents"),
        Provider("command", "turns", "perpetual_harnesses.commands:turns", "Show what coding agents were asked.",
                 topic="agents"),
    ]  # fmt: skip
