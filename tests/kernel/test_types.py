"""Types to the floor: `Any` stands where no type can be said, in few places, and a limit that only shrinks counts them.

Counted are the uses of the name in annotations, imports included, in the product's own packages. The goals are 500 in
all, which is reached, and 20 in public signatures.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("perpetual", "plugins", "harness_templates")
SLACK = 40  # uses by which a limit may be above the count: what has gone is not to come back unseen

ANY_LIMIT = 340
SIGNATURES_LIMIT = 20

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _anys(node: ast.AST) -> int:
    return sum(
        (isinstance(found, ast.Name) and found.id == "Any") or (isinstance(found, ast.alias) and found.name == "Any")
        for found in ast.walk(node)
    )


def _public(body: list[ast.stmt]) -> Iterator[_Function]:
    for node in body:
        if isinstance(node, _Function) and (not node.name.startswith("_") or node.name in ("__init__", "__call__")):
            yield node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node.body)


def _signature(function: _Function) -> int:
    given = function.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    hints = [argument.annotation for argument in arguments if argument is not None and argument.annotation is not None]
    return sum(map(_anys, [*hints, *([function.returns] if function.returns else [])]))


@cache
def _trees() -> tuple[ast.Module, ...]:
    """Of the files that name it at all: parsing takes long."""
    texts = (path.read_text("utf-8") for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return tuple(ast.parse(text) for text in texts if "Any" in text)


def test_the_counting_sees_names_imports_and_signatures() -> None:
    tree = ast.parse("from typing import Any\ndef f(x: dict[str, Any]) -> Any: ...\ndef _g(x: Any) -> None: ...\n")
    assert _anys(tree) == 4
    assert [_signature(function) for function in _public(tree.body)] == [2]


def test_any_is_not_used_more_often() -> None:
    count = sum(map(_anys, _trees()))
    assert ANY_LIMIT - SLACK < count <= ANY_LIMIT, f"{count}: lower the limit, or state a type"


def test_public_signatures_state_types() -> None:
    count = sum(bool(_signature(function)) for tree in _trees() for function in _public(tree.body))
    assert SIGNATURES_LIMIT - SLACK < count <= SIGNATURES_LIMIT, f"{count}: lower the limit, or state a type"
