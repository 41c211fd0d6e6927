"""Entry point of the command line: offers the commands of the research itself; nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl

_COMMANDS = {
    "hypotheses": ("hypotheses", "Add, list, show and update hypotheses."),
    "propose": ("experiments", "Propose an experiment, or the most informative ones."),
    "rebaseline": ("experiments", "Propose a baseline anew under today's code."),
    "approve": ("experiments", "Approve proposed experiments."),
    "reject": ("experiments", "Reject an experiment."),
    "experiments": ("experiments", "List experiments, or show one."),
    "edit": ("revise", "Edit a hypothesis or an experiment before it runs."),
    "undo": ("revise", "Take back your own last deed."),
    "archive": ("revise", "Hide hypotheses and experiments from lists."),
    "run": ("run", "Start the next missing replicate of an approved experiment."),
    "runs": ("runs", "List runs, or show one."),
    "logs": ("runs", "Show a run's output."),
    "kill": ("runs", "End a run and all its processes."),
    "retry": ("run", "Try again a run that ended without a result."),
    "wait": ("run", "Wait until runs or experiments have ended."),
    "queue": ("queue", "Show, pause, resume or drain the queue."),
    "scan": ("queue", "Record what has happened to the runs."),
    "evidence": ("evidence", "The ledger: list, add, retract, refold."),
    "records": ("records", "Records of kinds that plugins bring: list them, or show one."),
    "budget": ("budget", "What was spent, and the limit."),
    "memory": ("memory", "Notes: show, write, list, search, history, promote, clone."),
    "mcp": ("mcp", "Serve the lab to an agent over MCP."),
    "services": ("services", "Services of plugins: list, start, stop."),
    "events": ("events", "The feed of everything that happened."),
    "completion": ("completion", "Print a shell's completion script."),
    "store": ("store", "The record's store: stats, verify, export, import, migrate, compact."),
}


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers the commands on hypotheses, experiments, runs, evidence, budget, memory, services and the store."""
    return [
        Provider("command", name, f"perpetual_cli.{module}:{name}", summary)
        for name, (module, summary) in _COMMANDS.items()
    ]
