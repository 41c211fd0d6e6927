"""Rights as a tool of the MCP server: `perpetual_rights`. Built by the server when it starts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Literal

from perpetual import Lab

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_MOST = 60


class RightsAnswer(TypedDict):
    """The text of `perpetual rights` and `perpetual calibration` in lines."""

    schema: Literal["perpetual.rights_lines/1"]
    rights: list[str]
    calibration: list[str]
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., RightsAnswer]:
    """Builds the tool."""
    return _rights


def _rights(lab: Lab) -> RightsAnswer:
    """Says whose proposals are approved by earned rights, what is missing, and how declared figures fared."""
    from perpetual_autonomy.board import calibration
    from perpetual_autonomy.rights import rights
    from perpetual_autonomy.words import board_lines, right_lines

    rows, board = right_lines(rights(lab)), board_lines(calibration(lab))
    is_cut = max(len(rows), len(board)) > _MOST
    return {"schema": "perpetual.rights_lines/1", "rights": rows[:_MOST], "calibration": board[:_MOST],
            "truncated": is_cut}  # fmt: skip


_rights.reads_only = True  # type: ignore[attr-defined]
