"""The fuzz lane of the formats: a file that is shared with people is edited or refused, and in bounded time."""

# ruff: noqa: E501 - a case is one row, and a row is only readable whole

from __future__ import annotations

from collections.abc import Callable

from perpetual_harnesses import jsonedit, managed_blocks, tomledit
from tests.faults.fuzzing import examples, lanes
from tests.faults.mutations import spoilt

SHARED: dict[str, tuple[bytes, Callable[[str], object]]] = {
    "json": (b'{\n  "mcp": {"x": {"command": ["a"]}},\n  "l": [1, 2]\n}\n',
             lambda text: jsonedit.drop(jsonedit.put(text, ("mcp", "p"), {"a": [1]}), ("mcp", "p"), floor=1)),
    "jsonc": (b'{ // a\n  "mcp": {"x": 1,}, /* b */\n  "l": ["a",],\n}\n',
              lambda text: jsonedit.add_items(jsonedit.put(text, ("mcp", "p"), {"a": 1}, comments=True), ("l",), ["z"],
                                              comments=True)),
    "toml": (b'a = 1\n[mcp_servers.x]\ncommand = "x"\nargs = ["a", "b"]\n[t]\ni = { a = 1 }\n',
             lambda text: tomledit.drop(tomledit.put(text, ("mcp_servers", "p"), {"command": "p"}), ("mcp_servers", "p"),
                                        floor=1)),
    "markdown": (b"# Notes\n\n<!-- perpetual:begin -->\nold\n<!-- perpetual:end -->\nmore\n",
                 lambda text: managed_blocks.take_block("AGENTS.md", managed_blocks.put_block("AGENTS.md", text, "body"))),
}  # fmt: skip


@lanes("name", *SHARED)
def test_a_file_that_is_shared_with_people(count: int, name: str) -> None:
    original, edit = SHARED[name]

    def deed(content: bytes) -> None:
        try:
            edit(content.decode("utf-8"))
        except ValueError:  # of which the scaffold makes a conflict that names the file
            return

    examples(count * 5, spoilt(original), deed)
