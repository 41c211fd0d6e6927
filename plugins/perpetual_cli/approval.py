"""Text of an approval for a person: the command, its place and needs, and what is new in it. Used by `approve`."""

from __future__ import annotations

import json
from typing import Any

from perpetual.api import line
from perpetual.toolkit.units import counted, shown_bytes, shown_hours

__all__ = ["approved_text", "needs", "other_command"]

Json = dict[str, Any]
_LONGEST = 200  # characters of one value in a difference


def other_command(item: Json) -> str | None:
    """Returns the command on one line where an experiment's title does not say it, else None."""
    command = line(item["command"] or "")
    return None if not command or command == line(item["title"]) else command


def needs(item: Json) -> str:
    """Returns what a run takes of a machine, and what starts it, where that is chosen."""
    need = item["resources"]
    if owner := item["design"]["runs_of"]:
        return f"nothing beyond the runs of {owner}"
    wall = "none" if need["wall_s"] is None else shown_hours(need["wall_s"] / 3600)
    memory = f" with {need['gpu_memory_bytes'] / 2**30:g} GiB each" if need["gpu_memory_bytes"] else ""
    cpus = f", {counted(need['cpus'], 'CPU')}" if need["cpus"] else ""
    silent = f", ended after {shown_hours(need['no_output_s'] / 3600)} without output" if need["no_output_s"] else ""
    gpus = counted(need["gpus"], "GPU") if need["gpus"] else "no GPU"
    main = f", {shown_bytes(need['memory_bytes'])} of memory" if need.get("memory_bytes") else ""
    nodes = f", {counted(need['nodes'], 'node')}" if need.get("nodes") else ""
    place = f", in the worktree {line(need['worktree'])}" if need.get("worktree") else ""
    place += ", each run in a copy of the approved code" if need.get("isolate") else ""
    files = need.get("needs_artifacts")
    place += f", and the artifacts {', '.join(map(line, files))}" if files else ""
    return f"{gpus}{memory}{cpus}{main}{nodes}, wall limit {wall}{silent}{_scheduler(need)}{place}"


def _scheduler(need: Json) -> str:
    """Returns the scheduler and its options, where the experiment has its own."""
    if not need.get("scheduler"):
        return ""
    engine = _flat_pairs(need.get("engine") or {})
    return f", by {line(need['scheduler'])}" + (f" with {engine}" if engine else "")


def _flat_pairs(options: Json) -> str:
    return line(" ".join(f"{name}={json.dumps(value) if isinstance(value, dict | list) else value}"
                         for name, value in options.items()))  # fmt: skip


def approved_text(item: Json, differs: Json | None) -> str:
    """Returns the specification that is bound, then that it is approved."""
    lines = [
        f"  command: {line(item['command'] or 'none yet')}",
        f"  folder: {line(item['cwd'] or '.')}",
        f"  environment: {_pairs(item['env'])}",
        f"  config: {_short(item['config'], 1000) if item['config'] else 'none'}",
        f"  needs: {needs(item)}; {counted(item['design']['replicates'], 'run')}",
    ]
    if differs is not None:
        lines.append(f"  {_since(differs)}")
    return "\n".join([*lines, f"{item['id']}  {_status(item)}: {line(item['title'])}"])


def _status(item: Json) -> str:
    return item["status"] if item["status"] in ("proposed", "approved") else f"approved again, {item['status']}"


def _pairs(env: Json) -> str:
    return line(" ".join(f"{name}={value}" for name, value in env.items())) or "nothing of its own"


def _since(differs: Json) -> str:
    """Returns what differs from the one that was approved before, in words."""
    found = [_change("", change) for change in differs["command"]]
    if differs["cwd"] is not None:
        found.append(_change("folder ", {name: value or "." for name, value in differs["cwd"].items()}))
    for part in ("env", "config", "resources"):
        found += [_change(f"{part} {line(name)} ", change) for name, change in differs[part].items()]
    if differs["code"] is not None:
        found.append(_change("code ", differs["code"]))
    return f"since {differs['id']}: {'; '.join(found) or 'the same'}"


def _change(what: str, change: Json) -> str:
    was, now = (None if change[name] is None else _short(change[name]) for name in ("was", "now"))
    if was is None:
        return f"{what}+ {now}"
    return f"{what}- {was}" if now is None else f"{what}{was} -> {now}"


def _short(value: object, most: int = _LONGEST) -> str:
    text = line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= most else text[: most - 3] + "..."
