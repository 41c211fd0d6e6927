"""`perpetual.api`: every name that it promises is there, and is what its type checkers see."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

from perpetual import api

_SOURCE = Path(api.__file__).read_text()


def _declared() -> dict[str, str]:
    """The module that each name is imported from for type checkers."""
    block = next(node for node in ast.parse(_SOURCE).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_every_public_name_is_what_type_checkers_see() -> None:
    declared = _declared()
    for name in api.__all__:
        assert getattr(api, name) is getattr(import_module(declared[name]), name), name


def test_no_name_is_for_type_checkers_alone() -> None:
    assert set(_declared()) == set(api.__all__)
