"""Editing JSON with comments: what is put in is found, every comment and spare comma stays, removal leaves no trace."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual_harnesses import jsonedit

_LEAVES = st.sampled_from(["1", "-2.50e3", "null", "true", '"// no comment"', '"/* nor this, */"', '"a\\"b"', '"é"'])
_NAMES = st.sampled_from(["mcp", "theme", "é", "a/b"])
_LINE = st.sampled_from(
    ["// a note", "// with { brackets ] and , commas", "//", "/* on one line */", "/* over\nlines */"]
)


@st.composite
def _boxes(draw: st.DrawFn, depth: int = 0) -> str:
    """An object as a person would leave it: over lines or on one, with notes and with or without a last comma."""
    over_lines = draw(st.booleans())
    end = draw(st.sampled_from(["\n", "\r\n"])) if depth == 0 else "\n"
    margin, inner = "  " * depth, "  " * (depth + 1)
    names = draw(st.lists(_NAMES, max_size=3, unique=True))
    written = []
    for name in names:
        value = draw(_boxes(depth + 1)) if depth < 2 and draw(st.booleans()) else draw(_LEAVES)
        written.append(f"{json.dumps(name, ensure_ascii=False)}: {value}")
    spare = draw(st.booleans()) and bool(names)
    if not over_lines:
        note = draw(st.sampled_from(["", " /* here */", " /* a, b */ "]))
        return "{" + note + ", ".join(written) + ("," if spare else "") + "}"
    lines = []
    for number, item in enumerate(written):
        if draw(st.booleans()):
            lines.append(inner + draw(_LINE))
        comma = "," if number < len(written) - 1 or spare else ""
        lines.append(inner + item + comma + (" " + draw(_LINE) if draw(st.booleans()) else ""))
    if draw(st.booleans()):
        lines.append(inner + draw(_LINE))
    return ("{\n" + "".join(f"{line}\n" for line in lines) + margin + "}").replace("\n", end if depth == 0 else "\n")


TEXTS = st.tuples(
    st.sampled_from(["", "// the settings\n", "/* a */ "]), _boxes(), st.sampled_from(["", "\n", " // end"])
)
_PATHS = st.sampled_from([("mcp", "perpetual"), ("new",), ("theme", "b", "c"), ("é", "perpetual")])
_VALUES = st.sampled_from([{"command": ["perpetual", "mcp"], "enabled": True}, {}, [1, "//"], 3])


def comments_of(text: str) -> list[str]:
    """The comments in their order, found apart from the code under test."""
    tokens = re.finditer(r'"(?:[^"\\]|\\.)*"|(//[^\r\n]*|/\*.*?\*/)', text, re.S)
    return [token[1].rstrip() for token in tokens if token[1]]


def _blocked(document: Any, keys: tuple[str, ...]) -> bool:
    for key in keys[:-1]:
        if key not in document:
            return False
        document = document[key]
        if not isinstance(document, dict):
            return True
    return False


@settings(max_examples=120, deadline=None)
@given(parts=TEXTS, keys=_PATHS, value=_VALUES)
def test_comments_and_other_keys_survive_and_removal_gives_the_text_back(
    parts: tuple[str, str, str], keys: tuple[str, ...], value: Any
) -> None:
    text = "".join(parts)
    document = jsonedit.load(text, comments=True)
    if _blocked(document, keys):
        with pytest.raises(ValueError, match=r"^line \d+: .* is no object"):
            jsonedit.put(text, keys, value, comments=True)
        return
    present = jsonedit.lookup(text, keys, comments=True)
    floor = jsonedit.depth(text, keys, comments=True)
    edited = jsonedit.put(text, keys, value, comments=True)
    wanted = json.loads(json.dumps(document))
    here = wanted
    for key in keys[:-1]:
        here = here.setdefault(key, {})
    here[keys[-1]] = value
    assert jsonedit.same(jsonedit.load(edited, comments=True), wanted)
    assert jsonedit.put(edited, keys, value, comments=True) == edited
    if not present:
        assert comments_of(edited) == comments_of(text)
        undone = jsonedit.drop(edited, keys, floor=floor, comments=True)
        assert jsonedit.same(jsonedit.load(undone, comments=True), document)
        assert comments_of(undone) == comments_of(text)
        # an object that was empty may lose the space between its braces, and nothing else changes
        assert undone == text or "".join(undone.split()) == "".join(text.split())


@settings(max_examples=60, deadline=None)
@given(parts=TEXTS, value=_VALUES)
def test_any_entry_can_be_taken_out_and_the_comments_stay(parts: tuple[str, str, str], value: Any) -> None:
    text = "".join(parts)
    document = jsonedit.load(text, comments=True)
    assert isinstance(document, dict)
    for key in document:
        left = jsonedit.drop(text, [key], floor=0, comments=True)
        rest = {name: item for name, item in document.items() if name != key}
        assert jsonedit.same(jsonedit.load(left, comments=True), rest)
        outside = document[key]
        if not isinstance(outside, dict):  # comments inside of what goes, go
            assert comments_of(left) == comments_of(text)


def test_the_place_of_a_new_entry() -> None:
    text = '{\n  "a": 1, // one\n  // two\n}\n'
    assert jsonedit.put(text, ["b"], 2, comments=True) == '{\n  "a": 1, // one\n  "b": 2,\n  // two\n}\n'
    text = '{\n  "a": 1 // one\n}\n'
    assert jsonedit.put(text, ["b"], 2, comments=True) == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_text_after_a_line_comment_is_not_swallowed() -> None:
    text = '{ "a": 1, // note\n "b": 2 }'
    assert jsonedit.load(jsonedit.drop(text, ["b"], floor=0, comments=True), comments=True) == {"a": 1}


def test_items_of_a_list_with_comments() -> None:
    text = '{"list": [\n  "a", // first\n]}'
    more = jsonedit.add_items(text, ["list"], ["b"], comments=True)
    assert more == '{"list": [\n  "a", // first\n  "b",\n]}'
    assert jsonedit.drop_items(more, ["list"], ["b"], floor=1, comments=True) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{,}", 1),
        ('{"a": [,]}', 1),
        ('{\n"a": 1,,\n}', 2),
        ("{\n/* no end", 2),
        ('{"a": 1', 1),
        ("{} // ok\n,", 2),
        ("", 1),
    ],
)
def test_invalid_json_with_comments_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(ValueError, match=rf"^line {line}: "):
        jsonedit.put(text, ("a",), 1, comments=True)
