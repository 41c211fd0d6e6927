"""Types as pydantic takes them on every Python: `typing.TypedDict` before 3.12 is one that it refuses."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any, get_args, get_origin

import typing_extensions

__all__ = ["plain_type"]


def plain_type(hint: Any) -> Any:
    """Returns a type with every `typing.TypedDict` in it, at any depth, as one that pydantic takes; others as they are.

    A TypedDict that names itself is returned as it is.
    """
    return hint if sys.version_info >= (3, 12) else _plain(hint, ())


def _plain(hint: Any, above: tuple[object, ...]) -> Any:
    if hint in above:
        return hint
    if isinstance(hint, type) and typing.is_typeddict(hint):
        return _typed_dict(hint, (*above, hint))
    found = get_args(hint)
    if not found or get_origin(hint) in (typing.Literal, None):
        return hint
    made = [*(_plain(one, above) for one in found)]
    if all(new is old for new, old in zip(made, found, strict=True)):
        return hint
    if get_origin(hint) in (typing.Union, types.UnionType):
        return typing.Union[tuple(made)]  # noqa: UP007 - made of a list
    if get_origin(hint) is typing.Annotated:
        return typing.Annotated[(made[0], *hint.__metadata__)]
    return hint.copy_with(tuple(made)) if hasattr(hint, "copy_with") else get_origin(hint)[tuple(made)]


def _typed_dict(hint: Any, above: tuple[object, ...]) -> Any:
    hints = typing_extensions.get_type_hints(hint, include_extras=True)
    required = hint.__required_keys__
    fields: dict[str, Any] = {}
    for name, one in hints.items():
        inner = get_args(one)[0] if get_origin(one) in (typing.Required, typing.NotRequired) else one
        plain = _plain(inner, above)
        fields[name] = plain if name in required else typing_extensions.NotRequired[plain]
    made = typing_extensions.TypedDict(hint.__name__, fields)  # type: ignore[operator]
    made.__doc__ = hint.__doc__
    return made
