"""The section of a report that lists artifacts, with the hash that each had when its run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.toolkit.run_folder import ARTIFACTS
from perpetual.toolkit.units import shown_bytes
from perpetual_report.sections import KeptSection, Part, Table

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["ArtifactSection", "build"]

REMOVED = "artifacts.removed"
_MOST = 100  # rows
_HASH = 16  # characters that a table shows


class ArtifactSection(KeptSection):
    """Lists what runs left, the newest run first; nothing where no run left any."""

    title = "Artifacts"

    def find(self, lab: Lab) -> dict[str, object]:
        """Returns `{items: [{run, path, size_bytes, sha256, removed}], left}`: a hundred, and how many more."""
        items = [{"run": run.id, **item} for run in lab.runs.all() for item in run.artifacts]
        gone = {event.subject for event in lab.events() if event.kind == REMOVED and event.payload["what"] == ARTIFACTS
                } if items else ()  # fmt: skip
        items = [{**item, "removed": item["run"] in gone} for item in items[:_MOST]] + items[_MOST:]
        return {"items": items[:_MOST], "left": len(items) - len(items[:_MOST])} if items else {}

    def parts(self, data: Mapping[str, object]) -> Sequence[Part]:
        """Returns the table."""
        items = data["items"]
        assert isinstance(items, list)
        rows = [
            (
                item["run"],
                item["path"],
                shown_bytes(item["size_bytes"]) + ", removed since" * item["removed"],
                (item["sha256"] or "not read")[:_HASH],
            )
            for item in items
        ]
        left = data["left"]
        return [
            Table("Artifacts of runs", ("run", "file", "size", "SHA-256"), rows, left if isinstance(left, int) else 0)
        ]


def build(options: Mapping[str, object]) -> ArtifactSection:
    """Returns the section; it has no options."""
    return ArtifactSection()
