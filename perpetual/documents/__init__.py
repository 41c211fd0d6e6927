"""The documents that the lab answers and commands print as JSON: one module for each family, each document a type.

No command imports these modules when it runs: type checkers read them, and JSON schemas are made of them. Keys may be
added; a key that is there stays.
"""

from __future__ import annotations

import sys

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # the only one whose keys pydantic reads on this Python

__all__ = ["TypedDict"]
