"""The table of commands: name, where it lives, its line in `--help`. Read without importing any of them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "Entry"]


class Entry(NamedTuple):
    """One command: `factory` is `module:attribute` of a click command.

    Under an agent's shell what a command writes is fenced, unless it `is_own`: it quotes nothing that others wrote.
    """

    factory: str
    summary: str
    is_own: bool = False


COMMANDS: dict[str, Entry] = {
    "init": Entry("perpetual.cli.init:init", "Create a project here and register it with coding agents.", is_own=True),
    "status": Entry("perpetual.cli.overview:status", "Where the research stands."),
    "brief": Entry("perpetual.cli.overview:brief", "The same for an agent, within a number of tokens."),
    "hook": Entry("perpetual.cli.overview:hook", "The brief as a harness hook's JSON."),
    "hypotheses": Entry("perpetual.cli.hypotheses:hypotheses", "Add, list, show and update hypotheses."),
    "propose": Entry("perpetual.cli.experiments:propose", "Propose an experiment, or the most informative ones."),
    "rebaseline": Entry("perpetual.cli.experiments:rebaseline", "Propose a baseline anew under today's code."),
    "approve": Entry("perpetual.cli.experiments:approve", "Approve proposed experiments."),
    "reject": Entry("perpetual.cli.experiments:reject", "Reject an experiment."),
    "experiments": Entry("perpetual.cli.experiments:experiments", "List experiments, or show one."),
    "run": Entry("perpetual.cli.runs:run", "Start the next missing replicate of an approved experiment."),
    "runs": Entry("perpetual.cli.runs:runs", "List runs, or show one."),
    "logs": Entry("perpetual.cli.runs:logs", "Show a run's output."),
    "kill": Entry("perpetual.cli.runs:kill", "End a run and all its processes."),
    "retry": Entry("perpetual.cli.runs:retry", "Try again a run that ended without a result."),
    "wait": Entry("perpetual.cli.runs:wait", "Wait until runs or experiments have ended."),
    "queue": Entry("perpetual.cli.runs:queue", "Show, pause, resume or drain the queue."),
    "scan": Entry("perpetual.cli.runs:scan", "Record what has happened to the runs."),
    "evidence": Entry("perpetual.cli.evidence:evidence", "The ledger: list, add, retract, refold."),
    "records": Entry("perpetual.cli.records:records", "Records of kinds that plugins bring: list them, or show one."),
    "budget": Entry("perpetual.cli.budget:budget", "What was spent, and the limit."),
    "memory": Entry("perpetual.cli.memory:memory", "Notes: show, write, list, search, history, promote, reject."),
    "methodology": Entry("perpetual.cli.settings:methodology", "How research is done here."),
    "config": Entry("perpetual.cli.settings:config", "What this project is made of."),
    "mcp": Entry("perpetual.cli.mcp:mcp", "Serve the lab to an agent over MCP.", is_own=True),
    "trust": Entry("perpetual.cli.trust:trust", "Accept a project that was not created here."),
    "services": Entry("perpetual.cli.services:services", "Services of plugins: list, start, stop."),
    "store": Entry("perpetual.cli.store:store", "The record's store: stats, verify, export, import, migrate, compact."),
    "events": Entry("perpetual.cli.overview:events", "The feed of everything that happened."),
    "doctor": Entry("perpetual.cli.machine:doctor", "Check machine and project."),
    "plugins": Entry("perpetual.cli.plugins:plugins", "Which plugins there are, and what they offer."),
    "completion": Entry("perpetual.cli.machine:completion", "Print a shell's completion script.", is_own=True),
}
