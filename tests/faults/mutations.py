"""Foreign bytes for the fuzz lane: valid documents, spoilt at random in bytes and (JSON) in structure."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["documents", "odd_values", "spoilt"]

TOKENS = (
    b"",
    b"\0",
    b"\n",
    b"[",
    b"]",
    b"{",
    b"}",
    b'"',
    b"'",
    b"\\",
    b",",
    b":",
    b"#",
    b"- ",
    b"&a ",
    b"*a",
    b"<<: ",
    b"? ",
    b"null",
    b"true",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"-1",
    b"0.5",
    b"9" * 400,
    b"9" * 6000,
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\\ud800",
    b"../../etc/passwd",
    b"/",
    b"not a time",
    b"0001-01-01T00:00:00Z",
    b"\x1b[31m",
    b"[" * 3000,
    b'{"a":' * 1500,
    b"- " * 1500,
    b"x" * 20_000,
    "\u202e\ufdfa".encode() * 50,
    b"\r\n\r\n",
    b"---\n",
    b"%s{}",
)
_PLACE = st.floats(0, 1, exclude_max=True)
_DEED = st.sampled_from(("cut", "insert", "replace", "flip", "double", "whole", "keep"))
_STEP = st.tuples(_DEED, _PLACE, st.integers(0, 40), st.sampled_from(TOKENS))
odd_values: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [None, True, False, 0, -1, 2**63, 10**400, 0.5, -1e300, "", "x", "e1", "h999", "not a time", "../..", "/", "\0",
         "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "\u202e", "x" * 5000, [], {}, [[]], [None], {"": None},
         {"a": {"b": [1]}}, ["x", 1], json.loads("[" * 60 + "]" * 60)]
    ),
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=8),
)  # fmt: skip


def _bytes_spoilt(data: bytes, steps: list[tuple[str, float, int, bytes]]) -> bytes:
    for deed, place, length, token in steps:
        at = int(place * (len(data) + 1))
        if deed == "cut":
            data = data[:at]
        elif deed == "insert":
            data = data[:at] + token + data[at:]
        elif deed == "replace":
            data = data[:at] + token + data[at + length :]
        elif deed == "flip" and at < len(data):
            data = data[:at] + bytes([data[at] ^ (1 << length % 8)]) + data[at + 1 :]
        elif deed == "double":
            data = data[:at] + data[at : at + length] * 3 + data[at + length :]
        elif deed == "whole":
            data = token
    return data


def spoilt(data: bytes) -> st.SearchStrategy[bytes]:
    """Draws the document with one to three spoilt places."""
    return st.lists(_STEP, min_size=1, max_size=3).map(lambda steps: _bytes_spoilt(data, steps))


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            found += _places(item, (*path, number))
    return found


def _changed(value: Any, path: tuple[Any, ...], odd: Any, is_gone: bool) -> Any:
    if not path:
        return odd
    made = json.loads(json.dumps(value))
    node = made
    for key in path[:-1]:
        node = node[key]
    if is_gone:
        del node[path[-1]]
    else:
        node[path[-1]] = odd
    return made


def documents(value: Any) -> st.SearchStrategy[bytes]:
    """Draws the JSON document with one value replaced or left out, or with spoilt bytes."""
    changed = st.builds(
        lambda path, odd, is_gone: json.dumps(_changed(value, path, odd, is_gone)).encode(),
        st.sampled_from(_places(value)), odd_values, st.booleans(),
    )  # fmt: skip
    return st.one_of(changed, spoilt(json.dumps(value).encode()))
