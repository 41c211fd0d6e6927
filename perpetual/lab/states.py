"""The states of a run, as every department and flow names them. Floor 2, below the departments."""

from __future__ import annotations

from perpetual.records import ENDED, LIVE

__all__ = ["ENDED", "LIVE"]
