"""The installer of this Python environment: pip, or uv where there is no pip; and what is installed in it.

The installer runs in the root folder, so that neither a configuration file nor a module of the working directory has a
say in what is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from perpetual import __version__
from perpetual.api import PerpetualError, TransientError
from perpetual.toolkit.reserved import DISTRIBUTION

if TYPE_CHECKING:
    from perpetual.documents.plugins import PluginLine

__all__ = [
    "Distribution",
    "Installer",
    "Package",
    "canonical",
    "check_environment",
    "find_installer",
    "index_url",
    "installed",
    "keeping_notes",
    "listed_afresh",
    "removal_words",
]

_LIMIT_S = 1800.0
_TAIL_LINES = 12  # of an installer that failed
_ADDED = re.compile(r"^ [+~] ([A-Za-z0-9._-]+)==([^\s(]+)", re.MULTILINE)  # as uv lists what it installs
_DEFAULT_INDEX = re.compile(r"--index-url <url>.*?\(default\s+(\S+?)\)", re.DOTALL)
_INDEX_HINT = "PIP_INDEX_URL, or UV_DEFAULT_INDEX with uv, names the index"
_LISTING = """
import json, sys
from importlib.metadata import distributions
found = {}
for one in distributions():
    name = one.metadata["Name"]
    if name and name not in found:
        points = [point.name for point in one.entry_points if point.group == "perpetual.plugins"]
        found[name] = [one.version, points]
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True, slots=True)
class Package:
    """A distribution that an installer put into the environment, or would."""

    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution and its entry points of the group of plugins."""

    name: str
    version: str
    plugins: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Installer:
    """A program that installs into this environment; `words` come before its subcommand."""

    name: str
    words: tuple[str, ...]

    @property
    def into(self) -> tuple[str, ...]:
        """Returns the words that name this environment."""
        return ("--python", sys.executable) if self.name == "uv" else ()

    def install(self, requirements: Sequence[str], editable: Sequence[str], *, dry_run: bool) -> list[Package]:
        """Installs what is asked for, never another version of Perpetual; returns what was put in.

        Raises:
            PerpetualError: (install_failed) with the installer's last lines; nothing was installed then.
        """
        with TemporaryDirectory(prefix="perpetual-install-") as folder:
            report, constraint = Path(folder, "report.json"), Path(folder, "constraint.txt")
            constraint.write_text(f"{DISTRIBUTION}=={__version__}\n", "utf-8")
            words = ["install", *self.into, "--constraint", str(constraint)]
            words += ["--report", str(report)] if self.name == "pip" else []
            words += ["--dry-run"] if dry_run else []
            words += [word for path in editable for word in ("--editable", path)]
            said = self._run([*words, *requirements], "install")
            if self.name == "uv":
                return [Package(name, version) for name, version in _ADDED.findall(said)]
            found = json.loads(report.read_text("utf-8"))["install"]
        return [Package(str(one["metadata"]["name"]), str(one["metadata"]["version"])) for one in found]

    def remove(self, name: str) -> None:
        """Removes a distribution.

        Raises:
            PerpetualError: (remove_failed) with the installer's last lines, or if the distribution is still there.
        """
        words = ["uninstall", *self.into, *(["--yes"] if self.name == "pip" else []), name]
        said = self._run(words, "remove")
        if canonical(name) in installed():
            raise _failure(self.name, "remove", said)

    def setting(self, key: str) -> str | None:
        """Returns a value of pip's configuration; None for another installer, or where it is not set."""
        if self.name != "pip":
            return None
        done = self._finished(["config", "get", key])
        return done.stdout.strip() or None if done.returncode == 0 else None

    def help_of_install(self) -> str:
        """Returns what the installer prints on its subcommand `install`."""
        return self._finished(["install", "--help"]).stdout

    def _run(self, words: Sequence[str], deed: str) -> str:
        done = self._finished(words)
        if done.returncode:
            raise _failure(self.name, deed, f"{done.stdout}\n{done.stderr}")
        return f"{done.stdout}\n{done.stderr}"

    def _finished(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self.words, *words], cwd=os.path.abspath(os.sep), env={**os.environ, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as problem:
            raise TransientError(f"{self.name} has not ended within {_LIMIT_S:g} s") from problem


def _failure(name: str, deed: str, said: str) -> PerpetualError:
    lines = [line.rstrip() for line in said.splitlines() if line.strip()]
    text = "\n".join(f"  {line}" for line in lines[-_TAIL_LINES:])
    return PerpetualError(
        f"{name} could not {deed} it; its last lines:\n{text}",
        hint="nothing was changed; mend what it names, then repeat the command",
        code=f"{deed}_failed",
    )


def canonical(name: str) -> str:
    """Returns a distribution's name in the one form that all its spellings share."""
    return re.sub(r"[-_.]+", "-", name).lower()


def find_installer() -> Installer:
    """Returns pip of this environment, or uv where there is no pip.

    Raises:
        PerpetualError: (no_installer) if there is neither.
    """
    if find_spec("pip") is not None:
        options = ("--disable-pip-version-check", "--no-input", "--no-color")
        return Installer("pip", (sys.executable, "-P", "-m", "pip", *options))
    found = shutil.which("uv")
    if found is not None:
        return Installer("uv", (found, "pip"))
    raise PerpetualError(
        f"neither pip nor uv can install into {sys.prefix}",
        hint=f"{sys.executable} -m ensurepip; or install uv",
        code="no_installer",
    )


def check_environment() -> None:
    """Checks that plugins may be installed into this environment.

    Raises:
        PerpetualError: (environment_managed, environment_read_only) with the way to one that can be changed.
    """
    hint = "install Perpetual into an environment of its own: python -m venv DIR, pipx, or uv tool install"
    is_venv = sys.prefix != sys.base_prefix
    if not is_venv and Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED").is_file():
        raise PerpetualError(
            f"{sys.prefix} belongs to the system's own package manager", hint=hint, code="environment_managed"
        )
    folder = Path(sysconfig.get_path("purelib"))
    if not os.access(folder, os.W_OK):
        raise PerpetualError(f"{folder} cannot be written", hint=hint, code="environment_read_only")


def keeping_notes(names: Sequence[str]) -> list[str]:
    """Returns what keeps plugins where a tool manages this environment and makes it anew at an upgrade."""
    shown = " ".join(names)
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return [f"pipx reinstall leaves it out; to keep it: pipx inject {DISTRIBUTION} {shown}"]
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        extra = " ".join(f"--with {name}" for name in names)
        return [f"uv tool upgrade may leave it out; to keep it: uv tool install {DISTRIBUTION} {extra}"]
    return []


def removal_words() -> str:
    """Returns the command that removes Perpetual's own distribution from this environment."""
    if Path(sys.prefix, "pipx_metadata.json").is_file():
        return f"pipx uninstall {DISTRIBUTION}"
    if Path(sys.prefix, "uv-receipt.toml").is_file():
        return f"uv tool uninstall {DISTRIBUTION}"
    if find_spec("pip") is None and shutil.which("uv") is not None:
        return f"uv pip uninstall --python {sys.executable} {DISTRIBUTION}"
    return f"{sys.executable} -m pip uninstall {DISTRIBUTION}"


def installed() -> dict[str, Distribution]:
    """Returns every installed distribution by its canonical name, as a fresh process finds it."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LISTING], cwd=os.path.abspath(os.sep), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    return {canonical(name): Distribution(name, one[0], tuple(one[1])) for name, one in found.items()}


def listed_afresh(project: str | None) -> list[PluginLine]:
    """Returns what a fresh `perpetual plugins list` answers here; outside any project where it fails here."""
    words = [sys.executable, "-P", "-m", "perpetual"]
    here = [*words, *(["--project", project] if project else []), "plugins", "list", "--json"]
    done = subprocess.run(here, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        environment = {key: value for key, value in os.environ.items() if key != "PERPETUAL_PROJECT"}
        done = subprocess.run(
            [*words, "plugins", "list", "--json"], cwd=os.path.abspath(os.sep), env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
    try:
        items: list[PluginLine] = json.loads(done.stdout)["items"]
    except (ValueError, LookupError) as problem:
        lines = done.stderr.strip().splitlines()[-_TAIL_LINES:]
        raise PerpetualError("\n".join(["a fresh process cannot list the plugins:", *lines])) from problem
    return items


def index_url(installer: Installer, environment: Mapping[str, str]) -> str:
    """Returns the address of the package index that this environment installs from, as its installer has it.

    Raises:
        TransientError: (no_index) if there is none, or the installer does not say.
    """
    if installer.name == "uv":
        found = environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL")
        found = (found or "").rpartition("=")[2] if (found or "").partition("=")[0].isalnum() else found
    else:
        found = environment.get("PIP_INDEX_URL") or installer.setting("install.index-url")
        found = found or installer.setting("global.index-url")
        is_off = environment.get("PIP_NO_INDEX") or installer.setting("global.no-index")
        if is_off and is_off.lower() not in ("0", "false", "no", "off"):
            raise TransientError("pip is set to use no package index (no-index)", hint=_INDEX_HINT, code="no_index")
        if not found:
            said = _DEFAULT_INDEX.search(installer.help_of_install())
            found = said.group(1) if said else None
    if not found:
        raise TransientError(f"{installer.name} names no package index", hint=_INDEX_HINT, code="no_index")
    return found.strip()
