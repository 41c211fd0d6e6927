"""Fenced code blocks of the documentation, and what it means to execute a page. For the tests beside it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perpetual import Lab
from perpetual.lab.config import LabConfig
from perpetual.toolkit import yamlfile

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))

# Blocks that are not executed, by their whole text, each with its reason. Five at most.
EXCEPTIONS = {
    "$ make demo     # own environment, then a real campaign on your CPU: five hypotheses, half a minute\n"
    "$ make test     # lint, types, import laws, tests: about six minutes on two cores, once the environment stands\n"
    "$ pip install perpetual-lab   # into an environment of your own; before the first release: pip install .\n": (
        "builds an environment, and `make test` runs this very test"
    ),
    "$ pip install --editable .\n": "installs from a package index; the test lays the same entry point on the path",
}

_FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
_INFO = re.compile(r"(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?")
_EXIT = re.compile(r"\s# exit (?P<status>\d+)$")
_SETTINGS = ("config.yaml", "methodology.yaml")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file name in its title, its text, and where it stands."""

    kind: str
    title: str | None
    text: str
    where: str

    @property
    def excepted(self) -> bool:
        """Whether it stands in `EXCEPTIONS`."""
        return self.text in EXCEPTIONS


def blocks(page: str) -> list[Block]:
    """The page's blocks in their order; a fence that is not understood is a failure."""
    text = (ROOT / page).read_text()
    found = []
    for match in _FENCE.finditer(text):
        where = f"{page}:{text.count(chr(10), 0, match.start()) + 1}"
        info = _INFO.fullmatch(match["info"].strip())
        assert info is not None, f"{where}: a block says what it is: console, python, yaml, toml, json or text"
        found.append(Block(info["kind"], info["title"], match["text"], where))
    assert len(re.findall(r"^ *```", text, re.M)) == 2 * len(found), f"{page}: a fence is open, or indented"
    return found


def run_page(page: str, folder: Path) -> None:
    """Executes the page's blocks from top to bottom in `folder`, which is a project unless the page makes one."""
    listed = blocks(page)
    if any(block.kind == "console" for block in listed) and not any("$ perpetual init" in b.text for b in listed):
        Lab.init(folder, name="docs").close()
    for block in listed:
        if block.excepted:
            continue
        if block.kind == "console":
            _console(block, folder)
        elif block.kind == "python" and block.title is None:
            _python(block, folder)
        elif block.kind in _DATA:
            _data(block, folder)
        else:
            assert block.kind in ("text", "python"), f"{block.where}: nothing is known of {block.kind} blocks"
            assert block.kind != "text" or not re.search(r"^\$ ", block.text, re.M), f"{block.where}: this is console"
        if block.title is not None and Path(block.title).name not in _SETTINGS:
            target = folder / block.title
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
            if target.name == "pyproject.toml":
                lay_entry_points(target)


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A line as a reader types it, with this environment's programs and the page's folder on the import path."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=cwd,
        env={**os.environ, "PATH": programs, "PYTHONPATH": str(cwd)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def _console(block: Block, folder: Path) -> None:
    """Runs what follows each `$ `; it ends with 0 or as `# exit N` says; other lines are found in its output."""
    for line, shown in _typed(block):
        wanted = _EXIT.search(line)
        done = shell(line, folder)
        output = done.stdout + done.stderr
        assert done.returncode == int(wanted["status"] if wanted else 0), f"{block.where}: $ {line}\n{output}"
        for expected in shown:
            assert expected.strip() in output, f"{block.where}: {expected!r} is not in\n{output}"


def _typed(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Each command of the block with the output lines below it."""
    command: str | None = None
    shown: list[str] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, shown
            command, shown = line.removeprefix("$ "), []
        else:
            assert command is not None, f"{block.where}: output before a command"
            shown.append(line)
    assert command is not None, f"{block.where}: no line that starts with $"
    yield command, shown


def _python(block: Block, folder: Path) -> None:
    """Runs it; what a comment behind a `print` says is printed. Declarations alone are parsed."""
    if all(map(_is_declaration, ast.parse(block.text).body)):
        return
    done = subprocess.run(
        [sys.executable, "-c", block.text],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, f"{block.where}\n{done.stderr}"
    said = re.findall(r"^ *print\(.*\)  # (.+)$", block.text, re.M)
    assert [word for word in said if word not in done.stdout] == [], f"{block.where} prints\n{done.stdout}"


def _is_declaration(node: ast.stmt) -> bool:
    """Whether a statement only says what there is: a signature without a body, a field, a class of fields."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return all(map(_is_declaration, node.body))
    if isinstance(node, ast.Assign):
        return isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypedDict"
    is_dots = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...
    return is_dots or isinstance(node, ast.AnnAssign)


def _data(block: Block, folder: Path) -> None:
    """Parses it; settings are loaded by the program too, in a project of their own."""
    if block.kind == "json":
        json.loads(block.text)
    elif block.kind == "toml":
        tomllib.loads(block.text)
    elif block.title is None or Path(block.title).name not in _SETTINGS:
        (folder / "parsed.yaml").write_text(block.text)
        assert yamlfile.read_yaml(folder / "parsed.yaml") is not None, block.where
    else:
        place = folder.parent / f"{folder.name}-settings"
        Lab.init(place, name="settings").close()
        # A page shows the keys that it is about; those that only `init` writes are there too.
        identity = "format: 1\nproject_id: settings\n" if Path(block.title).name == "config.yaml" else ""
        (place / ".perpetual" / Path(block.title).name).write_text(identity + block.text)
        config = LabConfig(place)
        assert config.methodology is not None
        done = shell("perpetual config show && perpetual methodology show", place)
        assert done.returncode == 0, f"{block.where}\n{done.stderr}"


_DATA = ("json", "toml", "yaml")


def lay_entry_points(pyproject: Path) -> None:
    """What an editable installation leaves behind: the distribution's name and entry points on the import path."""
    project = tomllib.loads(pyproject.read_text())["project"]
    info = pyproject.parent / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
