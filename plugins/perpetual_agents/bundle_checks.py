"""Checks of what a bundle of an agent holds: others wrote it, and its parts are read later as if they were ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast, get_args

from perpetual.api import CorruptData
from perpetual_agents import data as checks
from perpetual_agents.agents import Changes
from perpetual_agents.checkpoints import check_label
from perpetual_agents.messages import Role
from perpetual_agents.names import COUNTERS
from perpetual_agents.times import present_time

if TYPE_CHECKING:
    from perpetual_agents.agents import Agents
    from perpetual_agents.data import Goal

__all__ = ["FIELDS", "check_shape", "goals", "snapshot"]

FIELDS = ("model", "system_prompt", "tools", "purpose", "scope", "criteria", "adapter", "cls", "settings",
          "subscriptions", "approvals")  # fmt: skip
_KINDS = ("message", "model", "tool", "result", "compaction", "state")
_PARTS: dict[str, type] = {"name": str, "data": dict, "goals": list, "counters": dict, "limits": dict, "steps": list,
                           "checkpoints": list}  # fmt: skip
_TYPES: dict[str, type | tuple[type, ...]] = {
    "system_prompt": str, "purpose": str, "scope": str, "tools": list, "criteria": list, "subscriptions": list,
    "settings": dict, "data": dict, "goals": list, "counters": dict,
}  # fmt: skip
_MESSAGE: dict[str, type] = {"sender": str, "pinned": bool, "calls": list, "call": str, "name": str, "is_error": bool,
                             "model": str, "mock": bool, "covers": int}  # fmt: skip
_LARGEST = 2**53


def check_shape(path: str, content: Mapping[str, object]) -> None:
    """Raises CorruptData where a part of a bundle is of another type than it must be."""
    for name, kind in _PARTS.items():
        if not isinstance(content.get(name), kind):
            raise CorruptData(f"{path}: {name} is missing or of another type")
    _check_types(path, content, FIELDS)
    steps = cast("list[object]", content["steps"])
    for step in steps:
        if not _is_step(step):
            raise CorruptData(f"{path}: one of its steps is none")
    labels: set[str] = set()
    for one in cast("list[object]", content["checkpoints"]):
        if not (isinstance(one, dict) and isinstance(one.get("snapshot"), dict) and isinstance(one.get("label"), str)
                and _is_count(one.get("after")) and one["after"] <= len(steps)):  # fmt: skip
            raise CorruptData(f"{path}: one of its checkpoints is none")
        if check_label(one["label"]) in labels:
            raise CorruptData(f"{path}: two of its checkpoints have one label")
        labels.add(one["label"])
        missing = [name for name in ("model", "adapter", "cls", *_TYPES) if name not in one["snapshot"]]
        if missing:
            raise CorruptData(f"{path}: a checkpoint has no {missing[0]}")
        _check_types(path, one["snapshot"], (*_TYPES,))


def _check_types(path: str, found: Mapping[str, object], names: Sequence[str]) -> None:
    for name in names:
        if name in _TYPES and name in found and not isinstance(found[name], _TYPES[name]):
            raise CorruptData(f"{path}: {name} is of another type")
    if not all(isinstance(goal, dict) for goal in cast("list[object]", found["goals"])):
        raise CorruptData(f"{path}: one of its goals is none")
    counters = cast("dict[str, object]", found["counters"])
    if not all(name in COUNTERS and _is_count(number) for name, number in counters.items()):
        raise CorruptData(f"{path}: one of its counters is none")


def _is_count(found: object) -> bool:
    return isinstance(found, int) and not isinstance(found, bool) and 0 <= found < _LARGEST


def _is_step(step: object) -> bool:
    if not (isinstance(step, dict) and step.get("kind") in _KINDS and step.get("phase") in ("begun", "done")
            and isinstance(step.get("turn"), str) and isinstance(step.get("key"), str)
            and isinstance(step.get("body"), dict)):  # fmt: skip
        return False
    if step["kind"] == "state":
        return all(isinstance(step["body"].get(name), str) for name in ("from", "to"))
    return step["body"].get("message") is None or _is_message(step["body"]["message"])


def _is_message(found: object) -> bool:
    if not (isinstance(found, dict) and found.get("role") in get_args(Role) and isinstance(found.get("text"), str)):
        return False
    if not all(isinstance(found[name], kind) for name, kind in _MESSAGE.items() if name in found):
        return False
    return all(
        isinstance(call, dict) and isinstance(call.get("id"), str) and isinstance(call.get("name"), str)
        and isinstance(call.get("args"), dict)
        for call in found.get("calls", ())
    )  # fmt: skip


def goals(found: object) -> list[Goal]:
    """Returns the goals of a bundle. Raises UsageError for a value that cannot be."""
    kept: list[Goal] = []
    now = present_time()
    for number, goal in enumerate(cast("list[dict[str, object]]", found), start=1):
        times = {name: str(goal.get(name) or now)[:40] for name in ("created_at", "updated_at")}
        kept.append({
            "id": f"g{number}", "text": checks.check_text("a goal", goal.get("text"), may_be_empty=False),
            "status": checks.goal_status(goal.get("status")), "progress": checks.goal_progress(goal.get("progress")),
            "created_at": times["created_at"], "updated_at": times["updated_at"],
        })  # fmt: skip
    return kept


def snapshot(agents: Agents, found: Mapping[str, object]) -> dict[str, object]:
    """Returns what a checkpoint of a bundle holds of its agent; a hypothesis of another project is none of here.

    Raises:
        UsageError: for a value that cannot be, such as a tool that there is not.
    """
    fields = {name: found[name] for name in FIELDS if name in found and name != "approvals"}
    kept = agents.checked(cast("Changes", fields))
    return {**kept, "name": checks.check_name(found.get("name")), "goals": goals(found["goals"]),
            "data": found["data"], "counters": found["counters"], "hypothesis": None}  # fmt: skip
