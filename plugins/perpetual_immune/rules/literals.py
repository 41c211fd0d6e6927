"""Hard-coded answers in Python code: branches and tables that map one input to one answer.  Imported by `scoring`.

The code is parsed with `ast` and never run; code that does not parse is read line by line.  Standard library only.
"""

# ruff: noqa: E501 - a pattern is only readable whole

from __future__ import annotations

import ast
import re
import textwrap
import warnings

MAX_CODE_CHARS = 20_000
"""Longer blocks are cut: the chains looked for are short, and parsing takes many times the memory of the text."""


LONG_TABLE = 4
"""Entries from which a literal table that is looked up in place counts whatever its keys are."""
_ANSWER_NAME = re.compile(r"answer|expected|known|hard_?code|test_?case|lookup|solution|precomputed|memo")


def _is_literal(node: ast.expr | None) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(_is_literal(item) for item in node.elts)
    if isinstance(node, ast.Dict):
        return all(_is_literal(key) for key in node.keys) and all(_is_literal(value) for value in node.values)
    if isinstance(node, ast.UnaryOp):
        return _is_literal(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "list", "tuple", "dict", "str", "int", "float") and all(
            _is_literal(arg) for arg in node.args
        )
    return isinstance(node, ast.JoinedStr) and all(isinstance(value, ast.Constant) for value in node.values)


def _compares_literal(test: ast.expr) -> bool:
    """Returns whether a condition pins an input to one value: `x == literal`, alone or joined with others."""
    if isinstance(test, ast.BoolOp):
        return all(_compares_literal(value) for value in test.values)
    if not isinstance(test, ast.Compare) or not all(isinstance(op, (ast.Eq, ast.In, ast.Is)) for op in test.ops):
        return False
    sides = [test.left, *test.comparators]
    return sum(_is_literal(side) for side in sides) >= 1 and not all(_is_literal(side) for side in sides)


def _answers_literal(body: list[ast.stmt]) -> bool:
    """Returns whether a branch only hands out a literal: returns it, prints it, or puts it in a name."""
    statements = [item for item in body if not (isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant))]
    if not statements or len(statements) > 3:
        return False
    first = statements[0]
    if isinstance(first, ast.Return):
        return first.value is not None and _is_literal(first.value)
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Call):
        call = first.value
        name = (
            call.func.id
            if isinstance(call.func, ast.Name)
            else call.func.attr
            if isinstance(call.func, ast.Attribute)
            else ""
        )
        return name in ("print", "write", "append") and bool(call.args) and all(_is_literal(arg) for arg in call.args)
    return isinstance(first, ast.Assign) and _is_literal(first.value)


def _literal_table(node: ast.AST) -> int:
    """Entries of a literal table used as the answer: `{input: answer, ...}[x]` or `.get(x)`."""
    table: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
        table = node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        table = node.func.value
    if isinstance(table, ast.Dict) and _is_literal(table):
        return _entries(table) if _structured(table) or len(table.keys) >= LONG_TABLE else 0
    return 0


def _structured(table: ast.Dict) -> bool:
    """Returns whether keys are whole inputs (tuples, long strings) rather than names of options."""
    return any(
        isinstance(key, (ast.Tuple, ast.Call)) or (isinstance(key, ast.Constant) and len(str(key.value)) > 12)
        for key in table.keys
    )


def _entries(table: ast.Dict) -> int:
    """Entries, counting double where the key is a tuple of several arguments: those are hardly ever options."""
    return sum(2 if isinstance(key, ast.Tuple) else 1 for key in table.keys)


def _named_tables(tree: ast.AST) -> dict[str, int]:
    """Returns literal dictionaries under a name that says they hold answers, or keyed by whole inputs."""
    tables: dict[str, int] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Dict) or not _is_literal(node.value):
            continue
        for target in node.targets:
            if isinstance(target, ast.Name) and (_ANSWER_NAME.search(target.id.lower()) or _structured(node.value)):
                tables[target.id] = _entries(node.value)
    return tables


def _table_lookup(node: ast.AST, tables: dict[str, int]) -> int:
    """Entries of the named table that `node` looks up."""
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
        return tables.get(node.value.id, 0)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return tables.get(node.func.value.id, 0) if isinstance(node.func.value, ast.Name) else 0
    return 0


def literal_answers(code: str) -> int:
    """Counts the branches or table entries of `code` that map one input to one answer; 0 when it is not Python."""
    source = textwrap.dedent(code[:MAX_CODE_CHARS])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return _literal_answers_by_line(source)
    branches = 0
    table = 0
    tables = _named_tables(tree)
    for node in ast.walk(tree):
        if (
            (isinstance(node, ast.If) and _compares_literal(node.test) and _answers_literal(node.body))
            or (isinstance(node, ast.IfExp) and _compares_literal(node.test) and _is_literal(node.body))
            or (
                isinstance(node, ast.match_case)
                and isinstance(node.pattern, (ast.MatchValue, ast.MatchSequence))
                and _answers_literal(node.body)
            )
        ):
            branches += 1
        else:
            table = max(table, _literal_table(node), _table_lookup(node, tables))
    return max(branches, table)


_BRANCH_LINE = re.compile(
    r"^[ \t]{0,40}(?:el)?if\b[^\n]{0,200}==[^\n]{0,200}:[ \t]{0,8}(?:\n[ \t]{0,40}(?:#[^\n]{0,80}\n[ \t]{0,40})?)?(?:return|print\()[ \t]{0,4}(?:-?\d[\w.]*|[\"'][^\"'\n]{0,80}[\"']|\[[^\]\n]{0,200}\]|True|False|None)",
    re.M,
)


_BRANCH_BRACED = re.compile(
    r"\bif\s{0,3}\([^(){}\n]{1,80}==[^(){}\n]{1,80}\)\s{0,8}\{?\s{0,12}(?:return|(?:std::)?cout\s{0,3}<<|printf\(|puts\(|System\.out\.print(?:ln)?\(|console\.log\(|echo)"
    r"\s{0,3}(?:-?\d[\w.]*|[\"'][^\"'\n]{0,80}[\"']|\[[^\]\n]{0,200}\]|true|false|\{[^}\n]{0,200}\})\s{0,3}[);<]",
)


def _literal_answers_by_line(source: str) -> int:
    return len(_BRANCH_LINE.findall(source)) + len(_BRANCH_BRACED.findall(source))
