"""The Python that a command will run in, and what is installed there: known by its files, without starting it.

Used by `capture` alone. Folder names tell names and versions (`numpy-2.1.0.dist-info`); opening each package's
metadata would cost a launch a second.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

__all__ = ["Interpreter", "editable_folders", "interpreter_of"]

_PYTHON = re.compile(r"(?:python|pypy)(?:3(?:\.\d+)*t?|w)?(?:\.exe)?\Z")
_LIBRARY = re.compile(r"(?:python|pypy)(3\.\d+)t?\Z")
_DISTRIBUTION = re.compile(r"(?P<name>[A-Za-z0-9][\w.]*?)-(?P<version>\d[^-]*)(?:-py[\d.]+)?\.(?:dist-info|egg-info)\Z")
_QUOTED = re.compile(r"['\"](/[^'\"\n]+)['\"]")
_LARGEST_PTH = 100_000
_SHEBANG_BYTES = 256  # as many as a kernel reads, nearly


class _Contents(TypedDict):
    version: str | None
    packages: dict[str, str] | None


class Interpreter(_Contents):
    """The fact `interpreter`: a Python with its packages, or why there is none."""

    path: str | None
    why: str | None


def interpreter_of(argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Interpreter:
    """Returns `{path, version, packages, why}` of a command's Python: its first word, or that script's interpreter.

    Everything is None, with a `why`, where the command is no Python as far as can be seen. Raises nothing.
    """
    found: Interpreter = {"path": None, "version": None, "packages": None, "why": None}
    program = _program(argv[0], cwd, env)
    if program is None:
        return found | {"why": f"there is no program {argv[0]}"}
    python = _of_shim(program, cwd, env) or _of_script(program, env)
    if python is None and _PYTHON.match(os.path.basename(program)) and not _first_line(program):
        python = program
    if python is None:
        return found | {"why": f"{program} is no Python, nor a script that names one"}
    try:
        contents = _contents(python, env)
        return found | {"path": python, "version": contents["version"], "packages": contents["packages"]}
    except OSError as problem:
        return found | {"path": python, "why": f"its packages cannot be listed: {problem}"}


def _program(name: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    if "/" in name:
        path = os.path.join(cwd, name)
        return path if os.path.isfile(path) else None
    return shutil.which(name, path=env.get("PATH"))


def _first_line(path: str) -> str:
    """Returns what follows the `#!` of a script; empty for a program."""
    try:
        with open(path, "rb") as file:
            first = file.read(_SHEBANG_BYTES).partition(b"\n")[0]
    except OSError:
        return ""
    return os.fsdecode(first[2:]).strip() if first.startswith(b"#!") else ""


def _of_shim(path: str, cwd: Path, env: Mapping[str, str]) -> str | None:
    """Returns the Python behind pyenv's shim, as pyenv chooses: variable, nearest `.python-version`, its own choice."""
    folder, name = os.path.split(path)
    if os.path.basename(folder) != "shims" or not os.path.isdir(os.path.join(folder, os.pardir, "versions")):
        return None
    root = os.path.dirname(folder)
    chosen = env.get("PYENV_VERSION", "").split(":")
    places = [os.path.join(place, ".python-version") for place in (cwd, *cwd.parents)]
    for place in (*places, os.path.join(root, "version")):
        if any(chosen):
            break
        try:
            with open(place, encoding="utf-8", errors="replace") as file:
                chosen = file.read(_SHEBANG_BYTES).split()
        except OSError:
            continue
    for version in chosen:
        found = os.path.join(root, "versions", version, "bin", name)
        if version and os.path.isfile(found):
            return found
    return None


def _of_script(path: str, env: Mapping[str, str]) -> str | None:
    """Returns the Python of a script's first line, as of a console script such as `torchrun`."""
    words = _first_line(path).split()
    if words and os.path.basename(words[0]) == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        words[:1] = [shutil.which(words[0], path=env.get("PATH")) or ""] if words else []
    is_python = bool(words) and _PYTHON.match(os.path.basename(words[0])) and os.path.isfile(words[0])
    return words[0] if is_python else None


def _contents(python: str, env: Mapping[str, str]) -> _Contents:
    """Returns the version, and the packages in the order in which an import would look."""
    version, places = _places(python, env)
    packages: dict[str, str] = {}
    for place in places:
        for name, number in _packages(place):
            packages.setdefault(name, number)
    return {"version": version, "packages": dict(sorted(packages.items()))}


def editable_folders(argv: Sequence[str], root: Path, env: Mapping[str, str]) -> list[str]:
    """Returns the folders in or below `root` that the Python of a command imports from: of editable installs."""
    python = interpreter_of(argv, root, env)["path"]
    if python is None:
        return []
    found: dict[str, None] = {}
    for place in _places(python, env)[1]:
        for name in _listed(place):
            is_finder = name.startswith("__editable__") and name.endswith(".py")
            if not name.endswith(".pth") and not is_finder:
                continue
            try:
                text = Path(place, name).read_text("utf-8", "replace")[:_LARGEST_PTH]
            except OSError:
                continue
            words = [os.path.dirname(word) for word in _QUOTED.findall(text)] if is_finder else text.splitlines()
            own = [word.strip() for word in words if os.path.isabs(word.strip())]
            found |= dict.fromkeys(word for word in own if Path(os.path.realpath(word)).is_relative_to(root))
    return [*found]


def _places(python: str, env: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """Returns the version, and the folders for packages in the order in which an import would look."""
    folder = os.path.dirname(os.path.abspath(python))
    settings = _pyvenv(os.path.dirname(folder)) or _pyvenv(folder)
    real = os.path.realpath(python)
    prefixes = [os.path.dirname(os.path.dirname(real))]
    if settings is not None:
        has_system = settings.get("include-system-site-packages", "").lower() == "true"
        prefixes = [settings["prefix"], *(prefixes if has_system else [])]
    version = (settings or {}).get("version_info") or (settings or {}).get("version")
    if real == os.path.realpath(sys.executable):
        version = ".".join(map(str, sys.version_info[:3]))
    named = _PYTHON.match(os.path.basename(real))
    short = ".".join(version.split(".")[:2]) if version else None
    if short is None and named is not None and "." in named[0]:
        short = named[0].removeprefix("python").removesuffix("t")
    places = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if settings is None and not env.get("PYTHONNOUSERSITE") and env.get("HOME"):
        prefixes.insert(0, os.path.join(env["HOME"], ".local"))
    for prefix in prefixes:
        for library, own in _libraries(prefix):
            if short is None or own in (None, short):
                places.append(library)
                version = version or own
    return version or short, places


def _pyvenv(folder: str) -> dict[str, str] | None:
    """Returns the settings of a virtual environment."""
    try:
        with open(os.path.join(folder, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            lines = [line.partition("=") for line in file]
    except OSError:
        return None
    return {key.strip().lower(): value.strip() for key, _, value in lines} | {"prefix": folder}


def _libraries(prefix: str) -> Iterator[tuple[str, str | None]]:
    """Yields the folders for packages below a prefix, each with the version that it is for."""
    for inner in ("local/lib", "lib", "lib64"):  # as Debian looks: what was added locally comes first
        base = os.path.join(prefix, inner)
        for name in sorted(_listed(base)):
            match = _LIBRARY.match(name)
            if match is not None:
                for kind in ("site-packages", "dist-packages"):
                    yield os.path.join(base, name, kind), match[1]
        yield os.path.join(base, "python3", "dist-packages"), None
    yield os.path.join(prefix, "Lib", "site-packages"), None  # Windows


def _packages(place: str) -> Iterator[tuple[str, str]]:
    for entry in _listed(place):
        match = _DISTRIBUTION.match(entry)
        if match is not None:
            yield re.sub(r"[-_.]+", "-", match["name"]).lower(), match["version"]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
