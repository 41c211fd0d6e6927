"""Items of a project that do not count here: approvals, queued runs and settings that this user has not accepted.

Used by the status, by the doctor and by `perpetual.lab.trust_review`, which lets a person accept it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, RUN, ExperimentRow
from perpetual.toolkit import confined

__all__ = ["DEFAULT_COMMAND", "SCAFFOLD", "HeldItem", "approval_of", "held_items", "references_held"]

_LAUNCHABLE = ("approved", "active")
_FINISHED = ("complete", "analysed")
DEFAULT_COMMAND = ("perpetual",)
SCAFFOLD = "scaffold.json"
_LIMIT_BYTES = 8 << 20
_OWNED = (".", "config.yaml", "methodology.yaml", "store", "memory.git", "runs", SCAFFOLD)


class HeldItem(NamedTuple):
    """One thing that does not count here until a person accepts it.

    - `kind`: approval, queued_run, setting, scaffold or owner.
    - `subject`: an id, a key or a user.
    - `why`: why it does not count.
    - `detail`: what would count: the command and its surroundings, the value, the words.
    """

    kind: str
    subject: str
    why: str
    detail: Any


def held_items(ctx: Context, *, finished: bool = False) -> Iterator[HeldItem]:
    """Yields what does not count here, in a fixed order.

    Args:
        finished: whether approvals of experiments that have all of their runs are looked at too: a run of theirs can
            be tried again.
    """
    found = [
        document
        for status in (*_LAUNCHABLE, *(_FINISHED if finished else ()))
        for document in ctx.store.find(EXPERIMENT, status=status)
        if "approved_hash" in document.body and not ctx.trust.counts(document.id, document.body)
    ]
    for document in sorted(found, key=lambda item: item.number):
        yield HeldItem("approval", document.id, "it was approved elsewhere", approval_of(document))
    ids = {document.id for document in found}
    for run in ctx.store.find(RUN, status="queued"):
        if run.body["experiment_id"] in ids:
            detail = {"experiment_id": run.body["experiment_id"]}
            yield HeldItem("queued_run", run.id, "it was queued elsewhere", detail)
    for name, value in sorted(ctx.config.weakening().items()):
        yield HeldItem("setting", name, "it protects less than what counts here", value)
    for name, value in sorted(references_held(ctx).items()):
        yield HeldItem("setting", name, "it refers to a secret, which a plugin would get", value)
    words = _scaffold_command(ctx)
    record = ctx.trust.record
    if words is not None and words != DEFAULT_COMMAND and (record is None or record.scaffold != words):
        yield HeldItem("scaffold", "command", "files for agents start Perpetual by it", list(words))
    known = {os.getuid() if hasattr(os, "getuid") else 0, 0, *(record.owners if record is not None else ())}
    for owner in sorted(_owners(ctx) - known):
        yield HeldItem("owner", str(owner), "files of the project belong to this user", owner)


def references_held(ctx: Context) -> dict[str, str]:
    """Returns the references to secrets in the project's file that do not count here, by key."""
    if not ctx.config.sections.get("project"):
        return {}
    from perpetual.lab.options.edit import references

    return references(ctx.options)


def approval_of(document: ExperimentRow) -> dict[str, object]:
    """Returns what the approval of an experiment lets run."""
    keys = ("title", "command", "cwd", "env", "config", "resources", "approved_by", "approved_hash", "status")
    # The code is what a start is compared with: one that changed after it was shown is not what was accepted.
    return {key: document.body.get(key) for key in (*keys, "approved_code")}


def _scaffold_command(ctx: Context) -> tuple[str, ...] | None:
    """Returns how files for agents start Perpetual, as the project's own record of them has it."""
    import json

    try:
        data = json.loads(confined.read_bytes(ctx.folder / SCAFFOLD, limit=_LIMIT_BYTES))
        return tuple(str(word) for word in data["command"]) or None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # `init` refuses such a file by name; nothing of it is used


def _owners(ctx: Context) -> set[int]:
    """Returns the user ids that own the project's own files."""
    found = set()
    for name in _OWNED:
        try:
            found.add(os.lstat(os.path.join(ctx.folder, name)).st_uid)
        except OSError:
            continue  # it is not there
    return found
