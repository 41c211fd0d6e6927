"""The report as a tool of the MCP server: `perpetual_report`. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Literal

from perpetual import Lab
from perpetual.toolkit.units import start_of

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_PART = 3400  # bytes: clients are sent a part twice, as text and as structure, in 2000 tokens together


class ReportAnswer(TypedDict):
    """The report, or a part of it; `next_cursor` asks for the part after it."""

    schema: Literal["perpetual.report/1"]
    format: Literal["md"]
    text: str
    next_cursor: str | None
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., ReportAnswer]:
    """Builds the tool."""
    return _report


def _report(
    lab: Lab,
    format: Annotated[Literal["md"], "Markdown."] = "md",
    cursor: Annotated[str | None, "Of the part before."] = None,
) -> ReportAnswer:
    from perpetual_report.document import render

    whole = render(lab)
    start = start_of(cursor, most=max(0, len(whole) - 1))
    text = _part(whole[start:])
    end = start + len(text)
    left = str(end) if end < len(whole) else None
    return {"schema": "perpetual.report/1", "format": format, "text": text, "next_cursor": left,
            "truncated": left is not None or start > 0}  # fmt: skip


def _part(text: str) -> str:
    """Returns the lines that a part holds."""
    short = text.encode("utf-8")[:_PART].decode("utf-8", "ignore")
    if len(short) == len(text):
        return text
    return short[: short.rfind("\n") + 1] or short


_report.reads_only = True  # type: ignore[attr-defined]
