"""The `TypedDict` from which pydantic makes a schema, of whichever Python; every module beside this one imports it."""

from __future__ import annotations

import sys
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["TypedDict", "readable"]


def readable(kind: type) -> type:
    """Returns a `TypedDict` of the standard library as pydantic reads it on this Python, those in its lists as well."""
    if sys.version_info >= (3, 12):
        return kind
    keys = {name: _readable(hint) for name, hint in get_type_hints(kind).items()}
    made: type = TypedDict(kind.__name__, keys)  # type: ignore[misc]
    made.__doc__ = kind.__doc__
    return made


def _readable(hint: Any) -> Any:
    if is_typeddict(hint):
        return readable(hint)
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return list[_readable(item)]  # type: ignore[misc]
    return hint
