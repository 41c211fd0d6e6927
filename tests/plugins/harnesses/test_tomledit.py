"""Editing TOML: what is put in is found, nothing else moves, and taking it out again leaves no trace."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual_harnesses import tomledit

KEYS = ("mcp_servers", "perpetual")
TABLE = {"command": 'per"petual', "args": ["mcp", "é"], "required": True, "startup_timeout_sec": 30}

_NAMES = st.sampled_from(["a", "b-c", "perpetual-lab", "é x"])
_SERVERS = st.lists(_NAMES, max_size=3, unique=True)
_BLANK = st.sampled_from(["", "\n", "# a note\n", "\n# about the next\n"])


def _key(name: str) -> str:
    return name if name.isascii() and " " not in name else json.dumps(name, ensure_ascii=False)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A configuration as people write it: tables, inline tables, dotted keys, notes anywhere."""
    lines = [draw(_BLANK), draw(st.sampled_from(["", 'model = "x" # a model\n', "level = 1_000\n"]))]
    servers, form = draw(_SERVERS), draw(st.sampled_from(["tables", "inline", "dotted", "one table"]))
    if form == "inline" and servers:
        inner = ", ".join(f'{_key(name)} = {{ command = "y" }}' for name in servers)
        lines.append(f"mcp_servers = {{ {inner} }}{draw(st.sampled_from(['', ' # mine']))}\n")
    elif form == "dotted":
        lines += [f"mcp_servers.{_key(name)}.command = 'y'\n" for name in servers]
    elif form == "one table":
        lines.append("[mcp_servers]\n")
        lines += [f"{_key(name)} = {{command = 'y'}}\n" for name in servers]
    else:
        for name in servers:
            lines += [f"[mcp_servers.{_key(name)}]\n", "command = 'y'\n", draw(_BLANK)]
    if draw(st.booleans()):
        lines += ["\n[tui]\n", "theme = '''\n[mcp_servers.perpetual]\n'''\n"]
    lines.append(draw(_BLANK))
    text = "".join(lines)
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@settings(max_examples=60, deadline=None)
@given(text=texts())
def test_put_changes_the_one_table_and_drop_gives_the_text_back(text: str) -> None:
    before = tomllib.loads(text)
    floor = tomledit.depth(text, KEYS)
    edited = tomledit.put(text, KEYS, TABLE)
    wanted = {**before, "mcp_servers": {**before.get("mcp_servers", {}), "perpetual": TABLE}}
    assert tomllib.loads(edited) == wanted
    assert tomledit.put(edited, KEYS, TABLE) == edited
    assert edited.count("#") == text.count("#")
    assert tomledit.drop(edited, KEYS, floor=floor) == text


@settings(max_examples=60, deadline=None)
@given(text=texts(), behind=texts())
def test_text_written_behind_our_table_stays(text: str, behind: str) -> None:
    edited = tomledit.put(text, KEYS, TABLE) + "# a person's note\n[later]\nx = 1 # one\n"
    left = tomledit.drop(edited, KEYS, floor=1)
    found = tomllib.loads(left)
    assert found["later"] == {"x": 1}
    assert "perpetual" not in found.get("mcp_servers", {})
    assert "# a person's note\n" in left
    assert left.count("#") == edited.count("#")


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers.perpetual]\ncommand = "old"\n\n[mcp_servers.perpetual.env]\nX = "1"\n\n[b]\n',
        'mcp_servers = {perpetual = {command = "old"}, b = {}} # mine\n',
        '[mcp_servers]\nperpetual = {command = "old"} # mine\nb = {}\n',
        '[mcp_servers."perpetual"]\ncommand = "old"\n[b]\nx = 1\n',
    ],
)
def test_an_existing_table_is_replaced_whole(text: str) -> None:
    before = tomllib.loads(text)
    edited = tomledit.put(text, KEYS, TABLE)
    found = tomllib.loads(edited)
    assert found["mcp_servers"].pop("perpetual") == TABLE
    before["mcp_servers"].pop("perpetual")
    assert found == before


def test_a_new_table_is_a_block_at_the_end() -> None:
    assert tomledit.put("model = 'x'\n", KEYS, {"command": "c", "args": []}) == (
        "model = 'x'\n\n[mcp_servers.perpetual]\ncommand = \"c\"\nargs = []\n"
    )


def test_values_inside_a_table_are_written_inline() -> None:
    table: dict[str, Any] = {"env": {"A B": "1"}, "ratio": 0.5}
    assert tomllib.loads(tomledit.put("", ("s", "x.y"), table)) == {"s": {"x.y": table}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = \n", "line 1: "),
        ("a = 1\nb = [\n", "line 2: "),
        ("a = 1\n\na = 2\n", "line 3: "),
        ("x = 1\nmcp_servers = 3\n", "line 2: mcp_servers is no table"),
        ("[[mcp_servers]]\n", "line 1: mcp_servers is no table"),
    ],
)
def test_toml_that_cannot_take_the_table_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=rf"^{told}"):
        tomledit.put(text, KEYS, TABLE)
