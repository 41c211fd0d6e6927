"""The thinker `none`: no model at all. The rules analyse and propose alone."""

from __future__ import annotations

from collections.abc import Mapping

from perpetual_thinkers.base import Reply, Request, Thinker, ThinkerError

__all__ = ["NoThinker", "build"]


class NoThinker(Thinker):
    """Answers nothing."""

    thinks = False

    def think(self, request: Request) -> Reply:
        """Raises ThinkerError."""
        raise ThinkerError("no thinker is in force", hint="perpetual config set slots.thinker command")


def build(options: Mapping[str, object]) -> NoThinker:
    """Builds the provider `none`."""
    return NoThinker()
