"""Entry point of the memory `git`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_memories() -> list[Provider]:
    """Notes in a bare git repository."""
    return [Provider("memory", "git", "perpetual_git.memory:open_memory", "markdown notes in a bare git repository")]
