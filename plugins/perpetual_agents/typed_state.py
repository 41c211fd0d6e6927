"""Typed state of a class of agents: its annotations say what is persisted, and a type that cannot be is refused."""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, ClassVar, cast, get_origin, get_type_hints

from perpetual.api import UsageError
from perpetual_agents.plain_types import plain_type

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["TypedState", "UnpersistableState"]

_UNKNOWN = (vars(typing)["Any"], object, typing.Callable)


class UnpersistableState(TypeError):
    """A class of agents has a field that JSON cannot carry there and back."""


class TypedState:
    """The fields of a class, each with the adapter that dumps and loads it.

    Args:
        cls: the class; annotated names that begin with `_` and ClassVars are no state.
        names: the names that its own body annotates.
        below: the locals of the place at which it is defined, for types that are defined there.

    Raises:
        UnpersistableState: for a type that JSON cannot carry, naming the field.
    """

    def __init__(self, cls: type, names: Mapping[str, object], below: Mapping[str, object]) -> None:
        self._adapters: dict[str, TypeAdapter[object]] = {}
        wanted = [name for name in names if not name.startswith("_")]
        if not wanted:
            return
        module = vars(sys.modules.get(cls.__module__, typing))
        # A class of its own, as the annotations of its bases are known where these are and not here.
        shell = type(cls.__name__, (), {"__annotations__": {name: names[name] for name in wanted}})
        try:
            hints = get_type_hints(shell, globalns={**module}, localns={**below}, include_extras=True)
        except NameError as problem:
            raise UnpersistableState(f"{cls.__name__}: {problem}; its type must be known where the class is") from None
        for name in wanted:
            hint = hints[name]
            if get_origin(hint) is ClassVar or hint is ClassVar:
                continue
            self._adapters[name] = _adapter(cls, name, hint)

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the names of the fields."""
        return tuple(self._adapters)

    def begin(self, owner: object) -> None:
        """Gives an object copies of the defaults of its class, so that two objects share none."""
        for name in self._adapters:
            if hasattr(type(owner), name):
                setattr(owner, name, deepcopy(getattr(type(owner), name)))

    def dump(self, owner: object) -> dict[str, object]:
        """Returns the fields that an object has, as JSON.

        Raises:
            UsageError: for a value that is not of its type.
        """
        return {name: self._dump(name, getattr(owner, name)) for name in self._adapters if hasattr(owner, name)}

    def _dump(self, name: str, value: object) -> object:
        from pydantic import ValidationError
        from pydantic_core import PydanticSerializationError

        adapter = self._adapters[name]
        try:
            found = adapter.dump_python(value, mode="json", warnings="error")
            adapter.validate_python(found)
        except (PydanticSerializationError, ValidationError, ValueError) as problem:
            reason = str(problem).splitlines()[0]
            raise UsageError(f"{name} cannot be persisted as it is: {reason}", code="not_persistable") from problem
        return found

    def load(self, owner: object, found: Mapping[str, object]) -> None:
        """Sets the fields of an object that were saved.

        Raises:
            UsageError: for a saved value that is not of the field's type any longer.
        """
        from pydantic import ValidationError

        for name in self._adapters.keys() & found.keys():
            try:
                setattr(owner, name, self._adapters[name].validate_python(found[name]))
            except ValidationError as problem:
                reason = problem.errors()[0]["msg"]
                raise UsageError(f"the saved {name} does not fit its type any longer: {reason}",
                                 hint="give the field another name, or bring its value to the new type",
                                 code="state_changed") from problem  # fmt: skip


def _adapter(cls: type, name: str, hint: object) -> TypeAdapter[object]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    if hint in _UNKNOWN or get_origin(hint) is typing.get_origin(typing.Callable[[], None]):
        raise UnpersistableState(f"{cls.__name__}.{name} is {hint!r}, which JSON cannot carry: state a plain type")
    try:
        adapter: TypeAdapter[object] = TypeAdapter(cast("type[object]", plain_type(hint)))
        adapter.json_schema(mode="serialization")
        adapter.json_schema(mode="validation")
    except (PydanticUserError, TypeError) as problem:
        reason = str(problem).splitlines()[0]
        raise UnpersistableState(f"{cls.__name__}.{name} cannot be persisted: {reason}") from None
    return adapter
