"""Editing JSON as text: what is put in is found, nothing else moves, and taking it out again leaves no trace."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual_harnesses import jsonedit

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
_DOCUMENTS = st.dictionaries(st.sampled_from(["a", "mcpServers", "é", "", 'q"uote']), _VALUES, max_size=4)
_PATHS = st.sampled_from([("mcpServers", "perpetual"), ("new",), ("a", "b", "c"), ("é", "perpetual")])
_SPACE = st.sampled_from(["", " ", "\n", "\r\n\t", "  "])


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """A document as some editor would write it."""
    document = draw(_DOCUMENTS)
    text = json.dumps(
        document,
        indent=draw(st.sampled_from([None, 1, 2, 4, "\t"])),
        separators=draw(st.sampled_from([None, (",", ":"), (" , ", " : ")])),
        ensure_ascii=draw(st.booleans()),
    )
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return draw(_SPACE) + text + draw(_SPACE)


def _set(document: Any, keys: tuple[str, ...], value: Any) -> Any:
    """What the tree should be."""
    for key in keys[:-1]:
        document = document.setdefault(key, {})
    document[keys[-1]] = value
    return document


def _blocked(document: Any, keys: tuple[str, ...]) -> bool:
    for key in keys[:-1]:
        if key not in document:
            return False
        document = document[key]
        if not isinstance(document, dict):
            return True
    return False


@settings(max_examples=80, deadline=None)
@given(text=_texts(), keys=_PATHS, value=_VALUES)
def test_put_changes_the_one_value_and_drop_gives_the_text_back(text: str, keys: tuple[str, ...], value: Any) -> None:
    document = json.loads(text)
    if _blocked(document, keys):
        with pytest.raises(ValueError, match=r"^line \d+: .* is no object"):
            jsonedit.put(text, keys, value)
        return
    is_new = not jsonedit.lookup(text, keys)
    floor = jsonedit.depth(text, keys)
    edited = jsonedit.put(text, keys, value)
    wanted = json.loads(text)
    _set(wanted, keys, value)
    assert jsonedit.same(json.loads(edited), wanted)
    assert [*json.loads(edited)] == [*wanted]  # the order of what was there
    assert jsonedit.put(edited, keys, value) == edited
    if is_new:
        undone = jsonedit.drop(edited, keys, floor=floor)
        assert jsonedit.same(json.loads(undone), document)
        # an object that was empty may lose the space between its braces, and nothing else changes
        assert undone == text or "".join(undone.split()) == "".join(text.split())


@settings(max_examples=60, deadline=None)
@given(text=_texts(), items=st.lists(_VALUES, min_size=1, max_size=3))
def test_items_are_added_once_and_taken_out_alone(text: str, items: list[Any]) -> None:
    keys = ("list", "of")
    edited = jsonedit.add_items(text, keys, ["there before"])
    more = jsonedit.add_items(edited, keys, items)
    found = json.loads(more)["list"]["of"]
    assert found[0] == "there before"
    assert all(any(jsonedit.same(item, other) for other in found) for item in items)
    assert jsonedit.add_items(more, keys, items) == more
    mine = [item for item in items if item != "there before"]
    assert jsonedit.drop_items(more, keys, mine, floor=2) == edited


def test_the_manner_of_the_file_is_kept() -> None:
    tabs = '{\n\t"mcpServers": {\n\t\t"x": {"command": "y", "n": 1.50}\n\t}\n}\n'
    assert jsonedit.put(tabs, ("mcpServers", "p"), {"args": ["mcp"]}) == (
        '{\n\t"mcpServers": {\n\t\t"x": {"command": "y", "n": 1.50},\n\t\t"p": {\n\t\t\t"args": [\n\t\t\t\t"mcp"\n'
        "\t\t\t]\n\t\t}\n\t}\n}\n"
    )
    assert jsonedit.put('{"a":1}', ("b",), {"c": [1, 2]}) == '{"a":1,"b":{"c":[1,2]}}'
    assert jsonedit.put('{\r\n    "a": 1\r\n}', ("b",), {"c": 2}) == (
        '{\r\n    "a": 1,\r\n    "b": {\r\n        "c": 2\r\n    }\r\n}'
    )


def test_an_equal_value_is_not_another_one_by_its_type() -> None:
    assert json.loads(jsonedit.put('{"a": 1}', ("a",), True)) == {"a": True}
    assert jsonedit.put('{"a": 1}', ("a",), True) != '{"a": 1}'


def test_the_last_of_two_equal_keys_is_edited() -> None:
    assert json.loads(jsonedit.put('{"a": 1, "a": 2}', ("a",), 3)) == {"a": 3}


@pytest.mark.parametrize("text", ["", "{", '{"a": 1,}', '// c\n{"a": 1}', '{"a": 1} x'])
def test_invalid_json_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"^line \d+: "):
        jsonedit.put(text, ("a",), 1)
