"""The front matter of a note, read tolerantly: YAML between two lines `---` at its top, or nothing.

Another plugin decides what it must hold. Here only the scope and the contradiction count, and what cannot be read
limits nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = ["NOTHING", "Front", "Scope", "fields_of", "front_of", "split"]

_LARGEST_BYTES = 16 * 1024
_MOST = 50  # values of a key
_LONGEST = 200  # characters of a value
_KEYS = ("hypothesis", "tag", "tool", "harness")
Scope = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Front:
    """What the front matter says of where the note holds, by key, and of the note that it contradicts."""

    scope: dict[str, list[str]] = field(default_factory=dict)
    contradicts: tuple[str, ...] = ()

    def fits(self, present: Scope) -> bool:
        """Returns whether the note is in scope; a key of which the present says nothing limits nothing."""
        return not self.scope or all(
            not present.get(key) or present[key] & {*values} for key, values in self.scope.items()
        )


NOTHING = Front()


def split(text: str) -> tuple[str, str]:
    """Returns the front matter without its marks, and the text below it."""
    if not text.startswith("---\n"):
        return "", text
    head, mark, body = text[4:].partition("\n---\n")
    return (head, body.lstrip("\n")) if mark and len(head.encode("utf-8", "replace")) <= _LARGEST_BYTES else ("", text)


def front_of(text: str) -> Front:
    """Returns what the front matter of a note says; nothing where there is none that can be read."""
    data = fields_of(text)
    if not data:
        return NOTHING
    scope = data.get("scope")
    limits = {key: _words(scope[key]) for key in _KEYS if key in scope} if isinstance(scope, Mapping) else {}
    return Front({key: values for key, values in limits.items() if values}, tuple(_words(data.get("contradicts"))))


def fields_of(text: str) -> Mapping[object, object]:
    """Returns the fields of a note's front matter; none where there is none that can be read."""
    head, _ = split(text)
    data = _parsed(head) if head else None
    return data if isinstance(data, Mapping) else {}


def _parsed(head: str) -> object:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    from perpetual.api import PerpetualError
    from perpetual.toolkit.foreign import check_yaml

    try:
        check_yaml(head)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found: object = YAML(typ="safe", pure=True).load(head)
        return found
    except (YAMLError, PerpetualError, ValueError, RecursionError):
        return None  # it limits nothing


def _words(value: object) -> list[str]:
    """Returns the texts of a value: one, or a list of them."""
    items: Iterable[object] = [value] if isinstance(value, str) else value if isinstance(value, list) else ()
    return [item[:_LONGEST] for item in [*items][:_MOST] if isinstance(item, str) and item]
