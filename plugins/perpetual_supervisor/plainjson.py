"""JSON for the supervisor, without the `json` package: its import costs a launch 5 ms of CPU (regular expressions).

For the supervisor (`supervisor.py`, `nested_runs.py`) alone; all others read and write through `toolkit.atomic`. The
work is done by `_json`, the C half of the standard library's `json`; a Python without it gets the package after all.
"""

from __future__ import annotations

from perpetual.toolkit import atomic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Context:
    """What the scanner asks for: Python's own kinds of values."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float, parse_int = float, int

    @staticmethod
    def parse_constant(name: str) -> object:
        """Refuses NaN and infinities."""
        raise ValueError(f"{name} is not JSON")


def _accelerated() -> tuple[Callable[[str, int], tuple[object, int]], Callable[[str], str]]:
    """Returns the scanner that reads a value from a text at a position, and the encoder of strings."""
    context: Any = Context()
    try:
        import _json
    except ImportError:  # no CPython
        from json import decoder, encoder

        ordinary: Any = decoder.JSONDecoder(parse_constant=Context.parse_constant)
        return ordinary.scan_once, encoder.encode_basestring
    return _json.make_scanner(context), _json.encode_basestring


_SCAN, _QUOTED = _accelerated()


def read(path: str) -> object:
    """Returns the document in a file. Raises OSError, ValueError."""
    return load(atomic.read_file(path).decode("utf-8"))


def load(text: str) -> object:
    """Returns the value of a JSON document, as `json.loads`. Raises ValueError if it is none."""
    text = text.strip(" \t\n\r")
    try:
        value, end = _SCAN(text, 0)
    except StopIteration as stop:
        raise ValueError(f"not a JSON document: nothing to read at character {stop.value}") from None
    except RecursionError:
        raise ValueError("not a JSON document: nested too deeply") from None
    except SystemError:
        # Until Python 3.12 the scanner looks its error's class up in `json.decoder`, and sets none while that is not
        # loaded: it never is in a supervisor.
        raise ValueError("not a JSON document: it is torn or garbled") from None
    if end != len(text):
        raise ValueError(f"not a JSON document: more text at character {end}")
    return value


def dump(value: object) -> str:
    """Returns a line of JSON, as `atomic.dump_json`. Raises ValueError for NaN, infinity; TypeError for other kinds."""
    if value is None:
        return "null"
    if isinstance(value, str):
        return _QUOTED(value)
    if type(value) is int:
        return repr(value)
    if type(value) is float:
        if value - value != 0.0:
            raise ValueError(f"{value!r} is not JSON")
        return repr(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{dump(key)}: {dump(each)}" for key, each in value.items()) + "}"
    raise TypeError(f"{value!r} is not written by the supervisor")
