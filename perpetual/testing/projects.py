"""Projects that a test lays out itself: copies and fixtures, which nothing here has created."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perpetual.lab.config import LabConfig
from perpetual.toolkit import trust_record

__all__ = ["trust_project"]


def trust_project(root: Path, *, accept: bool = True, like: Path | None = None) -> None:
    """Records the project in `root` as this user's own, as if it had been created there.

    Args:
        accept: whether the values of its files that weaken protection count too.
        like: the project of which it is a copy, whose approvals count in the copy too.
    """
    config = LabConfig(root)
    values = {**config.protections(), **(config.weakening() if accept else {})}
    record = trust_record.new(root, config.project_id, "own", values, at="2000-01-01T00:00:00.000Z")
    original = None if like is None else trust_record.read(like, config.project_id)
    if original is not None:
        record = replace(record, key=original.key)
    trust_record.write(record, durable=False)
