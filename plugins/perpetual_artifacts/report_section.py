"""The section of a report that lists artifacts, with the hash that each had when its run ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.toolkit.units import shown_bytes
from perpetual_report.sections import Part, Table, markdown

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["ArtifactSection", "build"]

_MOST = 100  # rows
_HASH = 16  # characters that a table shows


class ArtifactSection:
    """Lists what runs left, the newest run first; nothing where no run left any."""

    title = "Artifacts"

    def __call__(self, lab: Lab) -> str:
        """Returns the section as Markdown."""
        data = self.data(lab)
        return markdown(self.title, self.parts(data)) if data else ""

    def data(self, lab: Lab) -> dict[str, object]:
        """Returns `{items: [{run, path, size_bytes, sha256}], left}`: a hundred, and how many more there are."""
        items = [{"run": run.id, **item} for run in lab.runs.all() for item in run.artifacts]
        return {"items": items[:_MOST], "left": len(items) - len(items[:_MOST])} if items else {}

    def parts(self, data: Mapping[str, object]) -> Sequence[Part]:
        """Returns the table."""
        items = data["items"]
        assert isinstance(items, list)
        rows = [
            (item["run"], item["path"], shown_bytes(item["size_bytes"]), (item["sha256"] or "not read")[:_HASH])
            for item in items
        ]
        left = data["left"]
        return [
            Table("Artifacts of runs", ("run", "file", "size", "SHA-256"), rows, left if isinstance(left, int) else 0)
        ]


def build(options: Mapping[str, object]) -> ArtifactSection:
    """Returns the section; it has no options."""
    return ArtifactSection()
