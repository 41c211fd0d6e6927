"""The `TypedDict` from which pydantic makes a schema, of whichever Python; every module beside this one imports it."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["TypedDict"]
