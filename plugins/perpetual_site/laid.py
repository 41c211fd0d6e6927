"""What a page is made from: what its template reads, and the addresses that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Laid", "names_of", "plain_value"]

_getters: dict[type[object], attrgetter[object] | None] = {}


class Laid(NamedTuple):
    """What a page was made from, and the SHA-256 of the page.

    `inputs` is a digest of what its template was given and reads, None where there is none. `links` are the addresses
    that it asked for. The same of both makes the same page, whatever else is in the record.
    """

    inputs: str | None
    links: Mapping[str, str | None]
    sha256: str


def names_of(environment: Environment, template: str) -> set[str]:
    """Returns the names that a template, and those that it is built upon, read from what it is given."""
    from jinja2 import meta

    assert environment.loader is not None
    found: set[str] = set()
    waiting, known = [template], set()
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        parsed = environment.parse(environment.loader.get_source(environment, name)[0])
        found |= meta.find_undeclared_variables(parsed)
        others = [*meta.find_referenced_templates(parsed)]
        assert None not in others  # a name that is computed says nothing of what is read
        waiting += [other for other in others if other is not None]
    return found


def plain_value(value: object) -> object:
    """Returns what JSON makes of a record; raises TypeError for what has no fixed words."""
    if (getter := _getter(type(value))) is not None:
        return getter(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no value of a page")


def _getter(of: type[object]) -> attrgetter[object] | None:
    """Returns what reads all fields of a record at once; None of what is no record."""
    if of not in _getters:
        _getters[of] = attrgetter(*(spec.name for spec in fields(of))) if is_dataclass(of) else None
    return _getters[of]
