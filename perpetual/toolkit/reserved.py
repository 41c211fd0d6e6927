"""Names that belong to Perpetual: another distribution that offers one is reached by its qualified name. Floor 0.

A bare name in a configuration, a methodology or on the command line means the bundled part, also while that part is
disabled: installing a distribution must not change what a project runs, nor what guards it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = [
    "DISTRIBUTION",
    "GROUPS",
    "RESERVED",
    "command_problem",
    "is_bundled",
    "known_name",
    "known_names",
    "subcommand_of",
]

DISTRIBUTION = "perpetual-lab"

RESERVED: dict[str, frozenset[str]] = {
    "agent_handler": frozenset({"approval", "checkpoint", "compaction", "history", "journal", "limits", "loops",
                                "recall", "retry", "scan", "tracing"}),
    "agent_tool": frozenset({"ask", "goals", "lab", "memory", "timers"}),
    "analyser": frozenset({"rules"}),
    "approver": frozenset({"earned"}),
    "board": frozenset({"board"}),
    "capture": frozenset({"artifacts", "provenance"}),
    "check": frozenset({"agents", "disk", "mcp", "mirrors", "notifications", "permissions", "pushed", "queue-moves",
                        "rights", "services", "thinker"}),
    "command": frozenset({
        "aa", "adopt", "agent", "agentd", "approve", "archive", "ask", "auth", "auto", "believed", "bench-policy",
        "brief", "budget", "calibration", "campaign", "chaos", "chat", "compare", "completion", "config", "curves",
        "daemon", "demo", "digest", "doctor", "early-stop", "edit", "events", "evidence", "experiments", "export",
        "find", "gc", "gpu-status", "help", "hook", "hypotheses", "init", "kill", "logs", "ls", "mcp", "memory",
        "memory.bisect", "memory.block", "memory.edit", "memory.lineage", "memory.new", "memory.reject",
        "memory.replay", "methodology", "mirror", "notify", "overturn", "plugins", "plugins.check", "plugins.install",
        "plugins.new", "plugins.remove", "plugins.search", "power", "propose", "queue", "rebaseline", "records",
        "reject", "report", "retry", "rights", "rm", "run", "runs", "scan", "serve", "services", "status", "store",
        "sweep", "sweep.pruned", "sweep.suggest", "thoughts", "trust", "try", "turns", "undo", "uninstall", "verify",
        "wait", "watch",
    }),
    "companion": frozenset({"agents", "digest", "early-stop", "notify", "thinker"}),
    "dispatcher": frozenset({"acp", "argv"}),
    "frames": frozenset({"frames"}),
    "gate": frozenset({"duplicates", "immune", "lineage", "rates", "replay", "tombstones"}),
    "gpus": frozenset({"none", "nvml"}),
    "harness": frozenset({"amp", "antigravity", "claude-code", "cline", "codex", "continue", "copilot", "cursor",
                          "droid", "gemini", "goose", "kilo", "mcp", "opencode", "qwen", "vscode", "windsurf", "zed"}),
    "harness_hook": frozenset({"stop", "user-prompt"}),
    "loop": frozenset({"default"}),
    "mcp": frozenset({"mcp"}),
    "mcp_tool": frozenset(map("perpetual_".__add__, ("agent_message", "agents", "bisect", "bisections", "campaigns",
                                                     "curves", "digest", "find", "memory_block", "query", "replay",
                                                     "report", "rights", "thoughts"))),
    "memory": frozenset({"git"}),
    "metric_reader": frozenset({"csv-file", "loggers", "metrics-log", "results-file", "stdout-json", "stdout-text"}),
    "mirror": frozenset({"mlflow", "tensorboard", "trackio", "wandb"}),
    "model_backend": frozenset({"pydantic-ai"}),
    "note_form": frozenset({"critic_calibration", "episodic_case", "failure_pattern", "purpose_contract", "skill_card",
                            "tool_policy", "user_preference"}),
    "notifier": frozenset({"command", "desktop", "email", "webhook"}),
    "placement": frozenset({"gpus"}), "planner": frozenset({"power"}), "price": frozenset({"replay"}),
    "promotion_stage": frozenset({"expiry", "lineage", "replay", "watch"}),
    "proposer": frozenset({"full-scale", "grid", "noise-floor", "proxies"}),
    "question": frozenset({"edit"}), "redactor": frozenset({"secrets"}),
    "report_section": frozenset({"artifacts", "curves", "sweeps"}),
    "retriever": frozenset({"linear", "recall"}),
    "scaffolder": frozenset({"files"}), "scheduler": frozenset({"local"}),
    "scorer": frozenset({"decisive", "greedy", "information-gain", "random", "round-robin", "thompson"}),
    "service": frozenset({"agents", "daemon", "daemon-keeper", "mcp"}),
    "service_host": frozenset({"processes"}),
    "site": frozenset({"logbook"}),
    "status_section": frozenset({"ad-hoc", "agents", "campaigns", "handover", "live-runs", "loop", "mirrors",
                                 "queue-moves", "replays", "rights", "thinker"}),
    "stopper": frozenset({"async-halving", "curve"}),
    "store": frozenset({"sqlite", "tinydb"}),
    "thinker": frozenset({"agents", "claude-code", "codex", "command", "none", "opencode"}),
    "withholder": frozenset({"lineage"}),
}  # fmt: skip

# Perpetual's own groups of commands, each with the subcommands that it has itself; plugins add others.
GROUPS: dict[str, frozenset[str]] = {
    "budget": frozenset({"set"}),
    "queue": frozenset({"after", "drain", "enqueue", "group", "pause", "priority", "resume", "stash"}),
    "config": frozenset({"set", "show", "unset"}),
    "evidence": frozenset({"add", "list", "refold", "retract"}),
    "hypotheses": frozenset({"add", "list", "show", "update"}),
    "memory": frozenset({"clone", "history", "list", "promote", "queue", "scan", "search", "show", "write"}),
    "methodology": frozenset({"init", "set", "show", "unset"}),
    "plugins": frozenset({"list", "retry", "show"}),
    "services": frozenset({"list", "start", "stop"}),
    "store": frozenset({"compact", "export", "import", "migrate", "stats", "verify"}),
    "sweep": frozenset({"add", "approve", "claim", "importance", "list", "new", "next", "run", "show"}),
    "trust": frozenset({"list", "revoke"}),
}


def is_bundled(qualified_name: str) -> bool:
    """Returns whether a plugin or provider comes with Perpetual itself."""
    return qualified_name.startswith(f"{DISTRIBUTION}/")


def known_name(slot: str, qualified_name: str) -> str:
    """Returns the name that means a provider: its bare one, unless that is Perpetual's and the provider is not."""
    name = qualified_name.rpartition("/")[2]
    reserved = name in RESERVED.get(slot, ()) or (slot == "mcp_tool" and name.startswith("perpetual_"))
    return qualified_name if reserved and not is_bundled(qualified_name) else name


def known_names(slot: str, qualified_names: Sequence[str]) -> list[str]:
    """Returns the name of each; several that share a bare name have their qualified ones."""
    names = [known_name(slot, name) for name in qualified_names]
    counts = Counter(names)
    return [name if counts[name] == 1 else whole for name, whole in zip(names, qualified_names, strict=True)]


def subcommand_of(name: str) -> tuple[str, str] | None:
    """Returns group and subcommand that the name of a plugin's command means; None for a command of the program."""
    distribution, slash, bare = name.rpartition("/")
    group, dot, own = bare.partition(".")
    return (group, f"{distribution}{slash}{own}") if dot and group in GROUPS else None


def command_problem(name: str) -> str | None:
    """Returns why a plugin cannot offer a command of this name, None if it can."""
    group, dot, own = name.partition(".")
    if not dot or group not in GROUPS:
        return None
    if own in GROUPS[group]:
        return f"{name}: `{group} {own}` is a command of Perpetual itself"
    return None if own else f"{name} names no subcommand of {group}"
