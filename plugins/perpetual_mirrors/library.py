"""Imports the library of a tracker, with a way out where it is not installed."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from perpetual.api import PerpetualError

__all__ = ["loaded"]


def loaded(module: str, distribution: str) -> ModuleType:
    """Returns the module.

    Raises:
        PerpetualError: (mirror_missing) if it is not installed.
    """
    if find_spec(module) is None:
        raise PerpetualError(
            f"the package {distribution} is not installed", hint=f"pip install {distribution}", code="mirror_missing"
        )
    return import_module(module)
