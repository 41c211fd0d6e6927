"""The commands of the program: which the kernel has itself, and the order of all in `--help`.

The kernel keeps the commands that create a project, show its state, and mend a project whose plugins are broken or left
out; the plugin `cli` offers the others.
"""

from __future__ import annotations

__all__ = ["KERNEL", "ORDER", "OWN_WORDS"]

# name -> `module:attribute` of a click command, and its line in `--help`; read without importing any of them
KERNEL: dict[str, tuple[str, str]] = {
    "init": ("perpetual.cli.init:init", "Create a project here and register it with coding agents."),
    "status": ("perpetual.cli.overview:status", "Where the research stands."),
    "brief": ("perpetual.cli.overview:brief", "The same for an agent, within a number of tokens."),
    "hook": ("perpetual.cli.overview:hook", "The brief as a harness hook's JSON."),
    "methodology": ("perpetual.cli.settings:methodology", "How research is done here."),
    "config": ("perpetual.cli.settings:config", "What this project is made of."),
    "trust": ("perpetual.cli.trust:trust", "Accept a project that was not created here."),
    "events": ("perpetual.cli.overview:events", "The feed of everything that happened."),
    "doctor": ("perpetual.cli.machine:doctor", "Check machine and project."),
    "plugins": ("perpetual.cli.plugins:plugins", "Which plugins there are, and what they offer."),
    "completion": ("perpetual.cli.machine:completion", "Print a shell's completion script."),
}

# The program's commands, whichever bundled plugin offers them; those of other distributions have a list of their own.
ORDER = (
    *("init", "status", "brief", "hook", "hypotheses", "propose", "rebaseline", "approve", "reject", "experiments"),
    *("sweep", "try", "run", "runs", "logs", "kill", "retry", "wait", "queue", "scan", "evidence", "records", "budget"),
    *("memory", "methodology", "config", "mcp", "trust", "services", "store", "events", "doctor", "plugins"),
    "completion",
)

# Commands that quote nothing that others wrote: under an agent's shell what they write is not fenced.
OWN_WORDS = frozenset({"init", "mcp", "completion"})
