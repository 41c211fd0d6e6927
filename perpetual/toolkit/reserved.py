"""Names that belong to Perpetual: another distribution that offers one is reached by its qualified name. Floor 0.

A bare name in a configuration, a methodology or on the command line means the bundled part, also while that part is
disabled: installing a distribution must not change what a project runs, nor what guards it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["DISTRIBUTION", "RESERVED", "is_bundled", "known_name", "known_names"]

DISTRIBUTION = "perpetual-lab"

RESERVED: dict[str, frozenset[str]] = {
    "analyser": frozenset({"rules"}),
    "command": frozenset({
        "adopt", "approve", "bench-policy", "brief", "budget", "chaos", "compare", "completion", "config", "daemon",
        "demo", "doctor", "events", "evidence", "experiments", "gpu-status", "hook", "hypotheses", "init", "kill",
        "logs", "mcp", "memory", "methodology", "plugins", "propose", "queue", "rebaseline", "records", "reject",
        "report", "retry", "run", "runs", "scan", "status", "store", "trust", "verify", "wait",
    }),
    "gate": frozenset({"immune", "replay"}),
    "gpus": frozenset({"none", "nvml"}),
    "harness": frozenset({"claude-code", "codex", "cursor", "mcp", "opencode"}),
    "mcp": frozenset({"mcp"}),
    "mcp_tool": frozenset({"perpetual_report"}),
    "memory": frozenset({"git"}),
    "metric_reader": frozenset({"csv-file", "metrics-log", "results-file", "stdout-json", "stdout-text"}),
    "proposer": frozenset({"full-scale", "grid", "noise-floor", "proxies"}),
    "scheduler": frozenset({"local"}),
    "scorer": frozenset({"decisive", "greedy", "information-gain", "random", "round-robin", "thompson"}),
    "store": frozenset({"sqlite", "tinydb"}),
}  # fmt: skip


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
