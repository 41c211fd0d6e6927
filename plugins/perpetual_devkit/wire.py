"""Options of a part on their way to another process: as JSON over a pipe, so that a secret reaches no file."""

from __future__ import annotations

from perpetual.toolkit.secret import Secret

__all__ = ["from_wire", "to_wire"]

_SECRET = "\0secret"  # no key of an option


def to_wire(value: object) -> object:
    """Returns the value with each `Secret` in a form that JSON carries.

    Raises:
        ConfigError: if the value of a secret cannot be had.
    """
    if isinstance(value, Secret):
        return {_SECRET: [value.name, value.reveal()]}
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in value.items()}
    return [to_wire(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_wire(value: object) -> object:
    """Returns what `to_wire` made this of, a tuple as a list."""
    if isinstance(value, dict):
        if _SECRET in value:
            name, text = value[_SECRET]
            return Secret(name, lambda: text)
        return {key: from_wire(item) for key, item in value.items()}
    return [from_wire(item) for item in value] if isinstance(value, list) else value
