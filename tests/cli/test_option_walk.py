"""Every option of a command can be followed to the lab by reading alone: names are written out at each step.

The walk is static: click option -> parameter of the command -> argument of a method of the lab -> the method's own
signature. A `**options` anywhere would end it, but for one whose names a TypedDict writes out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_NOUNS = {  # `lab.NOUN` -> where its class is
    "budget": "budget.py",
    "evidence": "evidence/__init__.py",
    "experiments": "experiments/__init__.py",
    "hypotheses": "hypotheses.py",
    "imports": "imports/__init__.py",
    "memory": "memory/__init__.py",
    "proposals": "proposals.py",
    "queue": "queue.py",
    "runs": "runs/__init__.py",
    "services": "services.py",
    "settings": "settings.py",
    "storage": "storage/__init__.py",
    "trust": "trust_review.py",
}


def _commands() -> list[tuple[Path, ast.FunctionDef]]:
    files = [*(ROOT / "plugins" / "perpetual_cli").glob("*.py"), *(ROOT / "perpetual" / "cli").glob("*.py")]
    return [
        (path, node)
        for path in sorted(files)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and any(_is_command(each) for each in node.decorator_list)
    ]


def _is_command(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith((".command", ".group"))


def _options(function: ast.FunctionDef) -> Iterator[str]:
    """The parameter of each `@click.option` and `@click.argument`, as click derives it."""
    for each in function.decorator_list:
        if not (isinstance(each, ast.Call) and ast.unparse(each.func) in ("click.option", "click.argument")):
            continue
        if any(word.arg == "expose_value" for word in each.keywords):
            continue
        words = [str(word.value) for word in each.args if isinstance(word, ast.Constant)]
        plain = [word for word in words if not word.startswith("-")]
        long = [word.partition("/")[0].lstrip("-").replace("-", "_") for word in words if word.startswith("--")]
        yield (plain or long)[0].lower()


def _parameters(function: ast.FunctionDef) -> set[str]:
    given = function.args
    return {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}


def _hides(function: ast.FunctionDef) -> bool:
    """Whether a function takes names that its signature does not write out, in a TypedDict at least."""
    kwarg = function.args.kwarg
    return kwarg is not None and (kwarg.annotation is None or not ast.unparse(kwarg.annotation).startswith("Unpack["))


def _methods() -> dict[str, dict[str, ast.FunctionDef]]:
    """The public methods of each noun."""
    found: dict[str, dict[str, ast.FunctionDef]] = {}
    for noun, file in _NOUNS.items():
        tree = ast.parse((ROOT / "perpetual" / "lab" / file).read_text())
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        functions = [each for node in classes for each in node.body if isinstance(each, ast.FunctionDef)]
        found[noun] = {each.name: each for each in functions}
    return found


def _broken(function: ast.FunctionDef, methods: dict[str, dict[str, ast.FunctionDef]]) -> Iterator[str]:
    """Where the walk ends before the lab."""
    if function.args.kwarg is not None:
        yield f"{function.name} takes **{function.args.kwarg.arg}"
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for option in _options(function):
        if option not in _parameters(function):
            yield f"{function.name} has no parameter {option}"
        elif option not in used:
            yield f"{function.name} does not use {option}"
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        words = ast.unparse(call.func).split(".")
        if len(words) < 3 or words[-3] != "lab" or words[-2] not in methods:
            continue
        method = methods[words[-2]].get(words[-1])
        if method is None:
            yield f"lab.{words[-2]} has no {words[-1]}"
            continue
        for word in call.keywords:
            if word.arg is None:
                yield f"{function.name} hands a mapping to lab.{words[-2]}.{words[-1]}"
            elif word.arg not in _parameters(method):
                yield f"lab.{words[-2]}.{words[-1]} has no parameter {word.arg}"


def test_every_option_leads_to_a_method_of_the_lab() -> None:
    commands, methods = _commands(), _methods()
    assert len(commands) > 40
    found = {f"{path.name}:{node.name}": [*_broken(node, methods)] for path, node in commands}
    assert {name: ends for name, ends in found.items() if ends} == {}


def test_every_method_of_a_noun_writes_its_arguments_out() -> None:
    methods = [(noun, each) for noun, of_noun in _methods().items() for each in of_noun.values()]
    assert len(methods) > 80
    hidden = [f"{noun}.{each.name}" for noun, each in methods if _hides(each) and each.name[0] != "_"]
    assert hidden == []


@pytest.mark.parametrize(
    ("source", "ends"),
    [
        ("def f(cli, **options): ...", "takes **options"),
        ("def f(cli): ...", "has no parameter wall"),
        ("def f(cli, wall): ...", "does not use wall"),
        ("def f(cli, wall): cli.lab.runs.launch('e1', walls=wall)", "has no parameter walls"),
        ("def f(cli, wall): cli.lab.runs.launch('e1', **wall)", "hands a mapping"),
        ("def f(cli, wall): cli.lab.runs.begin(wall)", "has no begin"),
    ],
)
def test_the_walk_of_options_notices_a_break(source: str, ends: str) -> None:
    tree = ast.parse(f"@click.command()\n@click.option('--wall')\n{source}")
    function = tree.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert any(ends in each for each in _broken(function, _methods()))
