"""The commands of the program: which the kernel has itself, the order of all, their topics, and aliases.

The kernel keeps the commands that create a project, show its state, and mend a project whose plugins are broken or left
out; the plugin `cli` offers the others.
"""

from __future__ import annotations

__all__ = ["ALIASES", "EVERYDAY", "KERNEL", "ORDER", "OWN_WORDS", "TOPICS"]

# name -> `module:attribute` of a click command, and its line in `--help`; read without importing any of them
KERNEL: dict[str, tuple[str, str]] = {
    "init": ("perpetual.cli.init:init", "Create a project here and register it with coding agents."),
    "status": ("perpetual.cli.overview:status", "Where the research stands."),
    "brief": ("perpetual.cli.overview:brief", "The same for an agent, within a number of tokens."),
    "hook": ("perpetual.cli.overview:hook", "The brief as a harness hook's JSON."),
    "methodology": ("perpetual.cli.settings:methodology", "How research is done here."),
    "config": ("perpetual.cli.settings:config", "What this project is made of."),
    "trust": ("perpetual.cli.trust:trust", "Accept a project that was not created here."),
    "doctor": ("perpetual.cli.machine:doctor", "Check machine and project."),
    "plugins": ("perpetual.cli.plugins:plugins", "Which plugins there are, and what they offer."),
    "help": ("perpetual.cli.topics:help_", "Show the commands of a topic, or a command's help."),
}

# The program's commands, whichever bundled plugin offers them; those of other distributions have a list of their own.
ORDER = (
    *("init", "status", "brief", "hook", "hypotheses", "propose", "rebaseline", "approve", "reject", "experiments"),
    *("edit", "undo", "archive", "sweep", "try", "run", "runs", "logs", "kill", "retry", "wait", "queue", "scan"),
    *("evidence", "records", "budget", "memory", "methodology", "config", "mcp", "trust", "services", "store"),
    *("events", "doctor", "plugins", "completion", "help"),
)

# Commands that quote nothing that others wrote: under an agent's shell what they write is not fenced.
OWN_WORDS = frozenset({"init", "mcp", "completion"})

# `--help` shows these ten, in groups; names that no plugin offers are left out.
EVERYDAY: dict[str, tuple[str, ...]] = {
    "Set up": ("init",),
    "Ask": ("hypotheses", "propose", "approve"),
    "Run": ("try", "run", "logs"),
    "Read": ("status", "experiments", "report"),
}

# topic -> what it is about, and its commands; one that a plugin offers is in the topic that its provider names
TOPICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "research": ("What is believed, and what is to be tried", (
        "hypotheses", "propose", "approve", "reject", "edit", "undo", "archive", "rebaseline", "sweep", "power", "aa",
        "overturn",
    )),
    "runs": ("Running, waiting and following", (
        "try", "run", "runs", "logs", "wait", "kill", "retry", "queue", "stash", "group", "scan", "gpu-status", "gc",
    )),
    "results": ("What came out of it", (
        "status", "experiments", "compare", "curves", "report", "verify", "evidence", "find", "export", "events",
    )),
    "memory": ("Notes and records", ("memory", "records")),
    "agents": ("Working with coding agents", ("brief", "hook", "mcp", "agent", "daemon", "serve", "services")),
    "project": ("The project and its rules", (
        "init", "demo", "adopt", "methodology", "config", "budget", "trust", "store", "doctor",
    )),
    "program": ("The program itself", ("plugins", "completion", "help", "chaos", "bench-policy", "uninstall")),
    "more": ("Commands of other plugins", ()),
}  # fmt: skip

ALIASES = {"ls": "experiments", "rm": "archive"}
