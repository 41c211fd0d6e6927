"""Writing a new plugin: a distribution of its own that passes its tests as it is. Lab-free.

Used by `perpetual plugins new`. The texts are the templates of the folder `plugin` of `perpetual_templates`: `part` and
`tests` hold one for each slot that can be written, so a slot is added by two files and a line of `_PARTS`.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from perpetual.errors import Conflict, PerpetualError, UsageError, unknown
from perpetual.toolkit.named_path import named_path

__all__ = ["PREFIX", "SLOTS", "new_plugin"]

PREFIX = "perpetual-plugin-"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_LONGEST = 40


class _Part(NamedTuple):
    """What the templates need to know of a slot."""

    hook: str
    noun: str
    in_force: str  # the line by which a project comes to use it
    summary: str
    options: Mapping[str, tuple[str, str, str]] = {}  # key -> type, default and meaning as source text
    needs: tuple[str, ...] = ()


_PARTS: dict[str, _Part] = {
    "store": _Part("perpetual_stores", "store", "perpetual init --store {0}", "one JSON file, replaced at every commit",
                   {"timeout_s": ("float", "30.0", "seconds to wait for another writer")}),
    "scheduler": _Part("perpetual_schedulers", "scheduler", "perpetual config set scheduler {0}",
                       "processes on this machine"),
    "gpus": _Part("perpetual_gpu_backends", "GPU backend", "perpetual config set gpus {0}", "devices listed by hand",
                  {"uuids": ("list", "[]", "ids of the devices")}),
    "scorer": _Part("perpetual_scorers", "scorer", "perpetual methodology set exploration_strategy {0}",
                    "the cheapest first"),
    "memory": _Part("perpetual_memories", "memory", "perpetual config set memory {0}", "one JSON file per version"),
    "gate": _Part("perpetual_gates", "gate", "perpetual memory write notes/a.md 'judged by {0}'",
                  "puts notes with unwanted words aside", {"words": ("list", '["do not read"]', "the unwanted words")}),
    "harness": _Part("perpetual_harnesses", "harness", "perpetual init -H {0}", "an agent that speaks MCP"),
    "metric_reader": _Part("perpetual_metric_readers", "metric reader", "perpetual scan",
                           "`name value` lines of a file",
                           {"file": ("str", '"metrics.txt"', "name of the file in the run's folders")}),
    "analyser": _Part("perpetual_analysers", "analyser", "perpetual scan", "says why runs failed"),
    "proposer": _Part("perpetual_proposers", "proposer", "perpetual propose --auto 1", "twice the learning rate"),
    "command": _Part("perpetual_commands", "command", "perpetual {0}", "Count the hypotheses by status.",
                     needs=("click>=8.2,<9",)),
    "mcp_tool": _Part("perpetual_mcp_tools", "MCP tool", "perpetual mcp", "Counts the hypotheses with a status."),
    "report_section": _Part("perpetual_report_sections", "report section", "perpetual report",
                            "what the research has cost"),
}  # fmt: skip

SLOTS = tuple(_PARTS)


def new_plugin(
    name: str, slot: str, target: str | Path = ".", *, dry_run: bool = False, taken: Collection[str] = ()
) -> dict[str, Any]:
    """Writes the distribution `perpetual-plugin-NAME` into a new folder of `target`, whole or not at all.

    Args:
        name: small letters, digits and dashes; names the entry point, the provider and the package.
        slot: one of `SLOTS`.
        taken: names that a command may not have.

    Returns:
        `{name, slot, distribution, package, path, files}`; the files' paths are relative to the folder `path`.

    Raises:
        UsageError: for a name that cannot be one, or a slot that cannot be written.
        Conflict: if the folder exists, or a package of that name is installed.
        PerpetualError: if it cannot be written.
    """
    part = _PARTS.get(slot)
    if part is None:
        raise UsageError(unknown("slot", slot, SLOTS), hint=f"those that can be written: {', '.join(SLOTS)}")
    _check_name(name, taken if slot == "command" else ())
    distribution, package = PREFIX + name, _package(name)
    folder = named_path(target) / distribution
    if folder.exists() or folder.is_symlink():
        raise Conflict(f"{folder} exists already", hint="choose another name, or another folder with -t")
    _check_free(package)
    texts = _rendered(name, slot, part)
    if not dry_run:
        _write(folder, texts)
    return {
        "name": name,
        "slot": slot,
        "distribution": distribution,
        "package": package,
        "path": str(folder),
        "files": sorted(texts),
    }


def _package(name: str) -> str:
    return "perpetual_" + name.replace("-", "_")


def _check_name(name: str, taken: Collection[str]) -> None:
    hint = f"small letters, digits and single dashes, e.g. my-store; the distribution becomes {PREFIX}my-store"
    if name.startswith(PREFIX):
        raise UsageError(f"{name!r}: leave {PREFIX} out", hint=hint)
    if not _NAME.match(name) or len(name) > _LONGEST:
        raise UsageError(f"{name!r} is no name of a plugin", hint=hint)
    if name in taken:
        raise UsageError(f"{name!r} is a command of Perpetual itself", hint="choose another name")


def _check_free(package: str) -> None:
    """A second package of one name would hide the first."""
    from importlib.util import find_spec

    if find_spec(package) is not None:
        raise Conflict(f"a package {package} is installed already", hint="choose another name")


def _rendered(name: str, slot: str, part: _Part) -> dict[str, str]:
    """Each file's text by its path."""
    from jinja2 import Environment, StrictUndefined

    package = _package(name)
    provider = name.replace("-", "_") if slot == "mcp_tool" else name
    called = name.replace("-", "_")
    words = {
        "name": name,
        "slot": slot,
        "hook": part.hook,
        "noun": part.noun,
        "about": f"The {part.noun} `{provider}`",
        "title": name.replace("-", " ").capitalize(),
        "summary": part.summary,
        "options": dict(part.options),
        "needs": part.needs,
        "in_force": "$ " + part.in_force.format(provider),
        "distribution": PREFIX + name,
        "package": package,
        "provider": provider,
        "cls": "".join(word.capitalize() for word in name.split("-")),
        # a command is found under its own name; every other part is built
        "factory": f"{called}_command" if slot == "command" else "build",
        "function": f"{called}_tool",
    }
    sources = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        ".gitignore": "gitignore",
        ".github/workflows/test.yml": "test.yml",
        f"{package}/plugin.py": "plugin.py",
        f"{package}/{slot}.py": f"part/{slot}.py",
        f"tests/test_{slot}.py": f"tests/{slot}.py",
    }
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # plain text
    root = files("perpetual_templates") / "plugin"
    texts = {f"{package}/__init__.py": "", f"{package}/py.typed": ""}
    for path, source in sources.items():
        template = (root / f"{source}.j2").read_text("utf-8")
        texts[path] = environment.from_string(template).render(words)
    return texts


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """All files, beside the place first: a folder of that name is a whole one."""
    from tempfile import mkdtemp

    beside: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        beside.chmod(0o755)
        for path, text in texts.items():
            (beside / path).parent.mkdir(parents=True, exist_ok=True)
            (beside / path).write_text(text, "utf-8", newline="\n")
        beside.rename(folder)
    except OSError as problem:
        raise PerpetualError(
            f"{folder} cannot be written: {problem.strerror or problem}", hint="choose another folder with -t"
        ) from problem
    finally:
        if beside is not None:
            with contextlib.suppress(FileNotFoundError):  # it was renamed
                shutil.rmtree(beside)
