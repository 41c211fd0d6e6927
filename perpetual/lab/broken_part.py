"""Stands for a part of an additive slot that could not be built. Floor 2."""

from __future__ import annotations

from typing import NoReturn

from perpetual.errors import PluginError

__all__ = ["Unbuilt"]


class Unbuilt:
    """Raises PluginError at every use, so that callers treat it as any part that fails, under its own name."""

    def __init__(self, why: str) -> None:
        self.why = why

    def _fail(self) -> NoReturn:
        raise PluginError(self.why, code="plugin_broken")

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        self._fail()

    def __call__(self, *args: object, **options: object) -> NoReturn:
        """Raises PluginError."""
        self._fail()
