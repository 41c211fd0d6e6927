"""One file that holds an agent with its whole history: written by `export`, read by `import` in any project.

The file is JSON of the form `perpetual.agent/1`: the agent's data, its limits, its steps in order, its labelled
checkpoints by the place of their last step, its own entries of memory, and a SHA-256 of all that. What an agent has
used, its messages that are not over, and its permission to run code stay where they are.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, cast

from perpetual.api import Conflict, CorruptData, NotFound, PerpetualError, UsageError
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.foreign import parse_json
from perpetual.toolkit.named_path import named_path
from perpetual_agents import accounts, memory_bundle
from perpetual_agents.agents import Agents, Changes
from perpetual_agents.bundle_checks import FIELDS, check_shape, goals, snapshot
from perpetual_agents.data import Agent
from perpetual_agents.journal import Journal
from perpetual_agents.names import AGENT, CHECKPOINT, STEP

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_agents.documents import AgentExported

__all__ = ["FORMAT", "read", "write"]

FORMAT = "perpetual.agent/1"
_MOST_BYTES = 512 * 1024 * 1024


def write(lab: Lab, agent: str, path: str) -> AgentExported:
    """Writes an agent to a file.

    Raises:
        Conflict: if the file exists.
        NotFound: for an unknown agent, or a folder that there is not.
    """
    target = named_path(path)
    if os.path.lexists(target):
        raise Conflict(f"{path} exists", hint="another name")
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}")
    one = Agents(lab).get(agent)
    steps = [*Journal(lab, one.id, one.branch).newest_first()][::-1]
    numbers = [step.number for step in steps]
    labelled = [
        {"label": row["label"], "after": bisect_right(numbers, row["after"]), "snapshot": row["snapshot"]}
        for row in lab.records(CHECKPOINT).find(live=one.id) if row["label"] is not None and row["branch"] == one.branch
    ]  # fmt: skip
    content: dict[str, object] = {
        "format": FORMAT, "name": one.name, "data": one.data, "goals": [*one.goals],
        "counters": one.counters, "limits": accounts.read(lab, one.account)["limits"],
        "hypothesis": one.hypothesis, "from": lab.config.project_id,
        **{name: _plain(getattr(one, name)) for name in FIELDS},
        "steps": [{"turn": step.turn, "kind": step.kind, "phase": step.phase, "key": step.key, "body": step.body}
                  for step in steps],
        "checkpoints": labelled, "memory": memory_bundle.read(lab, one.id),
    }  # fmt: skip
    text = json.dumps({**content, "sha256": _hash(content)}, ensure_ascii=False).encode()
    try:
        write_atomic(target, text)
    except OSError as problem:
        words = f"{path} could not be written: {problem.strerror or problem}"
        raise PerpetualError(words, hint="free space, or mend the folder's rights", code="not_written") from problem
    return {"agent": one.id, "path": str(target), "steps": len(steps), "bytes": len(text)}


def _plain(value: object) -> object:
    return [*value] if isinstance(value, tuple) else value


def _hash(content: Mapping[str, object]) -> str:
    return sha256(json.dumps(content, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def read(lab: Lab, path: str, *, name: str | None = None) -> Agent:
    """Makes an agent of what a file holds, in one transaction; it is in the state created.

    Raises:
        NotFound: where there is no such file.
        CorruptData: for a file that is no bundle, or was changed.
        UsageError: for a bundle of a newer form, and for values that cannot be here, such as tools that there are not.
        Conflict: where the name is taken.
    """
    content = _content(path)
    agents = Agents(lab)
    fields = cast("Changes", {field: content.get(field) for field in FIELDS})  # `create` checks each
    steps = cast("list[dict[str, object]]", content["steps"])
    with lab.transaction():
        made = agents.create(
            name or str(content["name"]), data=cast("dict[str, object]", content["data"]),
            goals=goals(content["goals"]), limits=cast("dict[str, object]", content["limits"]), **fields,
        )  # fmt: skip
        numbers = [0]
        for step in steps:
            turn = f"{made.id}/{step['turn']}" if step["turn"] else ""
            row = lab.records(STEP).append(
                agent=made.id, branch=made.branch, turn=turn, step=step["kind"], phase=step["phase"],
                key=f"{made.id}/{step['key']}",
                body=_imported(cast("dict[str, object]", step["body"])),
            )  # fmt: skip
            numbers.append(row.number)
        for one in cast("list[dict[str, object]]", content["checkpoints"]):
            lab.records(CHECKPOINT).add(
                agent=made.id, live=made.id, label=one["label"], reason="manual", branch=made.branch,
                after=numbers[cast("int", one["after"])],
                snapshot=snapshot(agents, cast("dict[str, object]", one["snapshot"])),
            )  # fmt: skip
        lab.records(AGENT).update(made.id, counters=content["counters"])
        memory_bundle.keep(lab, made.id, content.get("memory", []))
    return agents.get(made.id)


def _imported(body: dict[str, object]) -> dict[str, object]:
    """Returns the body of a step that came in a file: what it says a person said is no person's word here."""
    message = body.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return body
    sender = str(message.get("sender", ""))
    return {**body, "message": {**message, "pinned": False,
                                "sender": sender if sender.startswith("import:") else f"import:{sender}"}}  # fmt: skip


def _content(path: str) -> dict[str, object]:
    """Returns what a bundle holds. Raises NotFound, CorruptData, UsageError."""
    target = named_path(path)
    try:
        if target.exists() and not target.is_file():
            raise NotFound(f"{path} is no file")
        if target.stat().st_size > _MOST_BYTES:
            raise CorruptData(f"{path} is larger than {_MOST_BYTES:,} bytes")
        found = parse_json(target.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError) as problem:
        raise NotFound(f"there is no file {path}") from problem
    except (OSError, ValueError) as problem:
        raise CorruptData(f"{path} cannot be read: {problem}") from problem
    if not isinstance(found, dict) or not str(found.get("format", "")).startswith("perpetual.agent/"):
        raise CorruptData(f"{path} is no bundle of an agent", hint="perpetual agent export writes one")
    if found["format"] != FORMAT:
        raise UsageError(f"{path} is of the form {found['format']}, and {FORMAT} is known here",
                         hint="a newer version of Perpetual reads it")  # fmt: skip
    content = {key: value for key, value in found.items() if key != "sha256"}
    if _hash(content) != found.get("sha256"):
        raise CorruptData(f"{path} was changed after it was written", hint="export the agent anew")
    check_shape(path, content)
    return content
