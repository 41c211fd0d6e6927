"""The digest as a tool of the MCP server: `perpetual_digest`. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from perpetual import Lab

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]


class DigestAnswer(TypedDict):
    """The digest in lines: the text of `perpetual digest`; totals count what it leaves out."""

    schema: Literal["perpetual.digest/1"]
    since: str
    until: str
    from_seq: int
    to_seq: int
    decided_total: int
    failed_runs: int
    approvals_total: int
    lines: list[str]
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., DigestAnswer]:
    """Builds the tool."""
    return _digest


def _digest(
    lab: Lab,
    since: Annotated[str, "So long ago (12h, 2d), a time (ISO 8601, UTC), or an event's number."] = "12h",
) -> DigestAnswer:
    """Says what was decided, spent and lost since a moment, what waits for the person, and what runs now."""
    from perpetual.toolkit.readers import agent_steps
    from perpetual_digest.digest import digest
    from perpetual_digest.words import screen

    found = digest(lab, since=since)
    found["next"] = agent_steps(found["next"]) if lab.settings.withholds else found["next"]
    lines = screen(found).split("\n")
    return {
        "schema": "perpetual.digest/1",
        "since": found["since"],
        "until": found["until"],
        "from_seq": found["from_seq"],
        "to_seq": found["to_seq"],
        "decided_total": found["decided_total"],
        "failed_runs": found["wrong"]["failed_runs"],
        "approvals_total": found["waits"]["approvals_total"],
        "lines": lines,
        "truncated": any(line.strip().startswith("and ") and " more" in line for line in lines),
    }


_digest.reads_only = True  # type: ignore[attr-defined]
