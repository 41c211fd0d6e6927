"""The states of a run, as every department and flow names them. Floor 2, below the departments."""

from __future__ import annotations

__all__ = ["ENDED", "LIVE"]

LIVE = ("queued", "launching", "running")
ENDED = ("done", "failed", "killed", "timeout", "lost")
