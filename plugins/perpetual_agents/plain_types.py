"""Types as pydantic takes them on every Python: `typing.TypedDict` before 3.12 is one that it refuses."""

from __future__ import annotations

import functools
import operator
import sys
import types
import typing
from collections.abc import Callable
from typing import cast, get_args, get_origin

import typing_extensions

__all__ = ["plain_type"]


def plain_type(hint: object) -> object:
    """Returns a type with every `typing.TypedDict` in it, at any depth, as one that pydantic takes; others as they are.

    A TypedDict that names itself is returned as it is.
    """
    return hint if sys.version_info >= (3, 12) else _plain(hint, ())


def _plain(hint: object, above: tuple[object, ...]) -> object:
    if any(hint is one for one in above):
        return hint
    if isinstance(hint, type) and typing.is_typeddict(hint):
        return _typed_dict(hint, (*above, hint))
    found, origin = get_args(hint), get_origin(hint)
    if not found or origin in (typing.Literal, None):
        return hint
    made = tuple(_plain(one, above) for one in found)
    if all(new is old for new, old in zip(made, found, strict=True)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(operator.or_, cast("tuple[type, ...]", made))
    if origin is typing.Annotated:
        return typing.Annotated.__class_getitem__((made[0], *found[1:]))
    copy = cast("Callable[[tuple[object, ...]], object] | None", getattr(hint, "copy_with", None))
    of = cast("Callable[[tuple[object, ...]], object]", getattr(origin, "__class_getitem__", None))
    return copy(made) if copy is not None else of(made)


def _typed_dict(hint: type, above: tuple[object, ...]) -> object:
    fields: dict[str, object] = {}
    for name, one in typing_extensions.get_type_hints(hint, include_extras=True).items():
        origin: object = get_origin(one)
        inner = get_args(one)[0] if origin in (typing.Required, typing.NotRequired) else one
        plain = _plain(inner, above)
        is_needed = name in cast("frozenset[str]", vars(hint)["__required_keys__"])
        fields[name] = plain if is_needed else typing_extensions.NotRequired[plain]
    make = cast("Callable[[str, dict[str, object]], type]", typing_extensions.TypedDict)
    made = make(hint.__name__, fields)
    made.__doc__ = hint.__doc__
    return made
