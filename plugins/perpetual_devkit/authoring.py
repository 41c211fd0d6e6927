"""Writing a new plugin: a distribution of its own that passes its tests as it is.

Used by `perpetual plugins new`. The texts are the templates of the folder `plugin` of `perpetual_templates`; the two of
a slot, `part/SLOT.py.j2` and `tests/SLOT.py.j2`, are in the folder that its row in the table of slots names. A plugin
that fills no slot is of a kind of `KINDS`, whose templates are in a folder of the kind's name.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from perpetual.api import SLOTS, Conflict, PerpetualError, Slot, Template, UsageError, unknown
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.reserved import RESERVED

__all__ = ["KINDS", "PREFIX", "NewPlugin", "new_plugin", "rendered"]

PREFIX = "perpetual-plugin-"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class _Kind:
    """A plugin that fills no slot; `modules` are its package's besides `plugin`, `part` says what the first is."""

    noun: str
    in_force: str = ""
    modules: tuple[str, ...] = ()
    part: str = ""


KINDS: dict[str, _Kind] = {
    "observer": _Kind("observer of events", "perpetual scan", ("observer",), "imported at the first event"),
    "kinds": _Kind("kinds of records and events", "perpetual records", ("readings",), "what writes and reads them"),
    "family": _Kind("family of parts", "perpetual plugins show {0}", ("base", "words", "testing"), "its contract"),
}


@dataclass(frozen=True, slots=True)
class NewPlugin:
    """A distribution that was written; the files' paths are relative to the folder `path`."""

    name: str
    slot: str
    distribution: str
    package: str
    path: str
    files: tuple[str, ...]


def new_plugin(
    name: str,
    slot: str,
    target: str | Path = ".",
    *,
    slots: Mapping[str, Slot] = SLOTS,
    dry_run: bool = False,
    taken: Collection[str] = RESERVED["command"],
) -> NewPlugin:
    """Writes the distribution `perpetual-plugin-NAME` into a new folder of `target`, whole or not at all.

    Args:
        name: small letters, digits and dashes; names the entry point, the provider and the package.
        slot: one of `slots` that has a template, or one of `KINDS`.
        slots: every slot, as `Inventory.slots` answers them; by default Perpetual's own.
        dry_run: writes nothing.
        taken: names that a command may not have; by default those of Perpetual's own and of bundled commands.

    Raises:
        UsageError: for a name that cannot be one, or a slot that cannot be written.
        Conflict: if the folder exists, or a package of that name is installed.
        PerpetualError: if it cannot be written.
    """
    written = [*(known.name for known in slots.values() if known.template is not None), *KINDS]
    if slot not in written:
        raise UsageError(unknown("slot", slot, written), hint=f"those that can be written: {', '.join(written)}")
    _check_name(name, taken if slot == "command" else ())
    distribution, package = PREFIX + name, _package(name)
    folder = named_path(target) / distribution
    if folder.exists() or folder.is_symlink():
        raise Conflict(f"{folder} exists already", hint="choose another name, or another folder with -t")
    _check_free(package)
    texts = rendered(name, slot, slots.get(slot))
    if not dry_run:
        _write(folder, texts)
    return NewPlugin(name, slot, distribution, package, str(folder), tuple(sorted(texts)))


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
    """Raises an error for a taken name: a second package of one name would hide the first."""
    from importlib.util import find_spec

    if find_spec(package) is not None:
        raise Conflict(f"a package {package} is installed already", hint="choose another name")


def rendered(name: str, slot: str, row: Slot | None) -> dict[str, str]:
    """Returns each file's text by its path; without a row the plugin is of a kind of `KINDS`."""
    from jinja2 import Environment, StrictUndefined

    kind = KINDS[slot] if row is None else _Kind(row.noun)
    template = (row and row.template) or Template(kind.in_force, "")
    package = _package(name)
    provider = name.replace("-", "_") if slot == "mcp_tool" else name
    called = name.replace("-", "_")
    words = {
        "name": name,
        "slot": slot,
        "called": called,
        "part": kind.modules[0] if row is None else slot,
        "part_words": kind.part if row is None else "the part itself, imported once it is chosen",
        "hook": "" if row is None else row.hook,
        "noun": kind.noun,
        "about": f"The {kind.noun} `{provider}`",
        "title": name.replace("-", " ").capitalize(),
        "summary": template.summary,
        "options": dict(template.options),
        "needs": template.needs,
        "in_force": "$ " + template.in_force.format(provider),
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
    }
    if row is None:
        sources |= {f"{package}/{module}.py": f"{slot}/{module}.py" for module in ("plugin", *kind.modules)}
        sources[f"tests/test_{slot}.py"] = f"{slot}/tests.py"
    else:
        sources |= {
            f"{package}/plugin.py": "plugin.py",
            f"{package}/{slot}.py": f"part/{slot}.py",
            f"tests/test_{slot}.py": f"tests/{slot}.py",
        }
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # plain text
    own, _, below = template.folder.partition(":")
    texts = {f"{package}/__init__.py": "", f"{package}/py.typed": ""}
    for path, source in sources.items():
        is_of_slot = source.startswith(("part/", "tests/"))  # the rest is the same for every plugin
        root = files(own) / below if is_of_slot else files("perpetual_templates") / "plugin"
        texts[path] = environment.from_string((root / f"{source}.j2").read_text("utf-8")).render(words)
    return texts


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    """Writes all files beside their place and renames the folder: a folder of that name is a whole one."""
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
