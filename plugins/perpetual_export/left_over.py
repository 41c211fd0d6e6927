"""Records ad-hoc runs that ended without being recorded. Asked by each scan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["collect"]


def collect(lab: Lab) -> None:
    """Records what was left."""
