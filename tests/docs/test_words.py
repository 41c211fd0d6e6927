"""The texts of the product use the field's words and begin with a verb; `make lint` holds their form (ruff `D`)."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("perpetual", "plugins", "harness_templates", "tools")
BANNED = re.compile(
    r"\b(told|tells of|whoever|who (?!is\b)|somebody|nobody|no more\b|of late|stands (?:there|in)\b)", re.IGNORECASE
)
_FEWEST_WORDS = 3  # a shorter text is a name or a key
_NO_VERB = frozenset({"this", "its", "whose", "as", "is", "was", "always"})
_MAIN = "The persistent lab behind coding agents"  # the help of the program itself


def _sources() -> list[Path]:
    # The rules of the scanner are the words of attackers, not ours.
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "rules" not in path.parts]
    assert len(found) > 400
    return sorted(found)


def _banned(source: str) -> Iterator[str]:
    """The banned words in the texts and comments of a Python source, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= _FEWEST_WORDS:
            words = BANNED.findall(re.sub(r"`[^`\n]*`", " ", node.value))
            yield from (f"{node.lineno}: {word}" for word in words)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from (f"{token.start[0]}: {word}" for word in BANNED.findall(token.string))


def _without_verb(source: str, *, is_suite: bool) -> Iterator[str]:
    """The functions whose docstring does not begin with a verb in the third person; a command's is an imperative."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        text = ast.get_docstring(node)
        decorators = " ".join(ast.unparse(each) for each in node.decorator_list)
        is_command = re.search(r"\b(click|command|group|tool|prompt)\b", decorators) is not None
        if text is None or is_command or text.startswith(_MAIN) or (is_suite and node.name.startswith("test_")):
            continue
        word = re.match(r"\W*([A-Za-z]+)", text)
        if word is None or not re.fullmatch(r"[a-z]+s", word[1].lower()) or word[1].lower() in _NO_VERB:
            yield f"{node.lineno}: {text.splitlines()[0]}"


def test_no_text_uses_a_banned_word() -> None:
    found = {str(path.relative_to(ROOT)): [*_banned(path.read_text("utf-8"))] for path in _sources()}
    assert {name: words for name, words in found.items() if words} == {}


def test_no_page_uses_a_banned_word() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert len(pages) > 20
    found = {}
    for page in pages:
        text = re.sub(r"```.*?```", " ", page.read_text("utf-8"), flags=re.DOTALL)
        found[page.name] = BANNED.findall(re.sub(r"`[^`\n]*`", " ", text))
    assert {name: words for name, words in found.items() if words} == {}


def test_docstrings_begin_with_a_verb() -> None:
    # Tools and prompts of the MCP server carry what an agent reads: instructions, in the imperative.
    instructions = {
        ROOT / "plugins" / "perpetual_mcp" / name
        for name in (
            "write_tools.py",
            "read_tools.py",
            "revise_tools.py",
            "wait_tools.py",
            "show_tool.py",
            "prompts.py",
        )
    }
    found = {
        str(path.relative_to(ROOT)): [*_without_verb(path.read_text("utf-8"), is_suite="testing" in path.parts)]
        for path in _sources()
        if path not in instructions
    }
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize(
    "source",
    [
        'def f():\n    """Nobody is told of it."""',
        "x = 1  # whoever reads this",
        'raise ValueError("a file stands there already")',
    ],
)
def test_the_check_for_words_bites(source: str) -> None:
    assert [*_banned(source)] != []


def test_the_check_for_words_lets_code_and_short_names_through() -> None:
    assert [*_banned('told = "told"\ntext = "the key `told` is old"')] == []


def test_the_check_for_verbs_bites() -> None:
    assert [*_without_verb('def f():\n    """The size."""', is_suite=False)] == ["1: The size."]
    assert [*_without_verb('def f():\n    """Returns the size."""', is_suite=False)] == []
    assert [*_without_verb('@click.command()\ndef f():\n    """Show the size."""', is_suite=False)] == []
