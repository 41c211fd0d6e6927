"""A project's configuration: where it is, what is chosen for each slot, and where every value comes from. Floor 1.

Precedence: command line > environment (`PERPETUAL_<KEY>`) > project (`.perpetual/config.yaml`) > user > default.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perpetual.errors import ConfigError, ForeignProject, NoProject, UsageError, unknown
from perpetual.methodology import FILE as METHODOLOGY_FILE
from perpetual.methodology import Methodology
from perpetual.schema import Item, Key, check, check_entry, check_names, parse_text
from perpetual.slots import Option
from perpetual.toolkit import yamlfile

__all__ = ["FILE", "FOLDER", "FORMAT", "KEYS", "Config", "find_project"]

FOLDER = ".perpetual"
FILE = "config.yaml"
FORMAT = 1  # of the project directory; a newer one is refused by name

KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("format", "int", FORMAT, "Version of the project directory.", minimum=1),
        Key("project", "str", "", "Name of the project."),
        Key("project_id", "str", "", "Drawn once at init; every seed derives from it."),
        Key("store", "str", "tinydb", "Store provider that keeps the record."),
        Key("scheduler", "str", "local", "Scheduler provider that starts runs."),
        Key("gpus", "str", "nvml", "GPU backend provider."),
        Key("gpus_excluded", "list", [], "GPUs that no run gets: indices as the driver counts, or uuids."),
        Key("gpu_foreign", "str", "refuse", "GPUs that other people's processes use: refuse or allow.",
            choices=("refuse", "allow")),
        Key("gpu_ids", "str", "uuid", "How runs are told their GPUs; index for programs that cannot read uuids.",
            choices=("uuid", "index")),
        Key("memory", "str", "git", "Memory provider that keeps notes."),
        Key("mcp", "str", "mcp", "MCP server provider."),
    )
}  # fmt: skip

_PLUGINS = "plugins"
_DISABLED = Key("disabled", "list", [], "Plugins that are not loaded, by name or distribution/name.")


def find_project(start: Path | None = None, explicit: str | None = None) -> Path:
    """The folder that holds `.perpetual/`: `explicit`, `PERPETUAL_PROJECT`, or the nearest one above `start`.

    Raises:
        NoProject: if there is none.
        ForeignProject: if it is another tool's.
    """
    given = explicit or os.environ.get("PERPETUAL_PROJECT")
    if given:
        folder = Path(given).expanduser().absolute()
        if folder.name == FOLDER:
            folder = folder.parent
        if (folder / FOLDER).is_dir():
            _refuse_foreign(folder)
        if not (folder / FOLDER / FILE).is_file():
            raise NoProject(f"no Perpetual project in {folder}", hint=f"perpetual init -t {folder}")
        return folder
    try:
        here = (start or Path.cwd()).absolute()
    except FileNotFoundError as problem:
        raise NoProject("the working directory does not exist any more", hint="cd to a folder that exists") from problem
    for folder in (here, *here.parents):
        if (folder / FOLDER).is_dir():
            _refuse_foreign(folder)
            # config.yaml is what makes the folder a project: without it `init` was cut off, or it is something else
            if (folder / FOLDER / FILE).is_file():
                return folder
    raise NoProject(f"no Perpetual project in {here} or above it", hint="perpetual init")


def _refuse_foreign(folder: Path) -> None:
    if foreign(folder):
        raise ForeignProject(
            f"{folder / FOLDER} belongs to another tool (it holds graph.db); nothing was changed",
            hint="take it over: perpetual adopt; or work in another folder",
        )


def foreign(folder: Path) -> bool:
    """Whether the `.perpetual/` there was written by the earlier perpetual-agent."""
    inside = folder / FOLDER
    if (inside / "graph.db").exists():
        return True
    try:
        text = (inside / FILE).read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return False
    return b"budget_gpu_hours:" in text and b"format:" not in text


def user_file() -> Path:
    """The user's own configuration file, which need not exist."""
    if sys.platform.startswith("linux"):
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        return Path(base, "perpetual", FILE)
    from platformdirs import user_config_dir

    return Path(user_config_dir("perpetual", appauthor=False), FILE)


class Config:
    """The values in force for one project; `root` is the project's folder, `folder` its `.perpetual/`.

    Raises:
        ConfigError: for broken YAML, an unknown key (nearest name given), a wrong value, each with file and line.
        ForeignProject: for a project of a newer version.
    """

    def __init__(self, root: Path, *, flags: Mapping[str, Any] | None = None) -> None:
        self._flags = dict(flags or {})
        self.root = root
        self.folder = root / FOLDER
        self.path = self.folder / FILE
        self.reload()

    def refresh(self) -> None:
        """Reads the files again if somebody has changed them: for programs that live long, where a deed begins.

        What plugins were built with stays as it is. Raises as the class does; the old values are then in force.
        """
        if self._stamps() != self._seen:
            fresh = Config(self.root, flags=self._flags)
            self.__dict__.update(fresh.__dict__)  # all at once: another thread may be reading

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        """What tells one state of the files from another."""
        stamps: list[tuple[int, int, int] | None] = []
        for path in (user_file(), self.path, self.folder / METHODOLOGY_FILE):
            try:
                seen = os.stat(path)
            except OSError:
                stamps.append(None)  # none, or one that reading tells of
            else:
                stamps.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
        return stamps

    def reload(self) -> None:
        """Reads the files, again after somebody has changed them; raises as the class does."""
        self._seen = self._stamps()  # before they are read: what changes meanwhile is of a later state
        self._values: dict[str, Any] = {name: key.default for name, key in KEYS.items()}
        self._origins: dict[str, str] = dict.fromkeys(KEYS, "default")
        self._sections: dict[str, dict[str, Any]] = {}
        self._section_origins: dict[tuple[str, str], str] = {}
        self.disabled: tuple[str, ...] = ()
        self._disabled_origin = "default"
        for path, origin in ((user_file(), "user"), (self.path, "project")):
            self._take(path, origin)
        for name, key in KEYS.items():
            variable = f"PERPETUAL_{name.upper()}"
            # PERPETUAL_PROJECT is the folder, not the name
            if name not in ("project", "project_id", "format") and variable in os.environ:
                self._values[name] = parse_text(key, os.environ[variable], variable)
                self._origins[name] = "environment"
        for name, value in self._flags.items():
            self._values[name], self._origins[name] = check(KEYS[name], value, f"--{name}"), "flag"
        self._methodology: Methodology | None = None

    def _take(self, path: Path, origin: str) -> None:
        data = yamlfile.read_yaml(path)
        if data is None:
            return
        version = data.get("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise ForeignProject(
                f"{path}: this project has format {version}; this Perpetual knows up to {FORMAT}",
                hint="upgrade perpetual-lab",
            )
        for name, value in data.items():
            if name == _PLUGINS:
                self._take_plugins(path, value, origin)
                continue
            if name not in KEYS:
                check_names({name: 0}, {**KEYS, _PLUGINS: 0}, yamlfile.place_of(path, name))
            self._values[name] = check_entry(KEYS[name], value, path, name)
            self._origins[name] = origin

    def _take_plugins(self, path: Path, sections: Any, origin: str) -> None:
        if not isinstance(sections, dict):
            raise ConfigError(f"{yamlfile.place_of(path, _PLUGINS)}: plugins must hold one section per plugin")
        for name, section in sections.items():
            if name == _DISABLED.name:
                self.disabled = tuple(check_entry(_DISABLED, section, path, _PLUGINS, name))
                self._disabled_origin = origin
            elif isinstance(section, dict):
                self._sections.setdefault(name, {}).update(section)
                self._section_origins.update(dict.fromkeys(((name, key) for key in section), origin))
            else:
                where = yamlfile.place_of(path, _PLUGINS, name)
                raise ConfigError(f"{where}: the section of plugin {name} must hold keys with values")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    @property
    def project_id(self) -> str:
        """The id that every seed derives from."""
        value: str = self._values["project_id"]
        return value

    @property
    def methodology(self) -> Methodology:
        """`methodology.yaml`, read at first use."""
        if self._methodology is None:
            self._methodology = Methodology(self.folder / METHODOLOGY_FILE)
        return self._methodology

    def options(self, name: str, spec: Mapping[str, Option] | None) -> dict[str, Any]:
        """A plugin's options in force: its section of the file over its defaults.

        Raises:
            ConfigError: for a key that the plugin does not have, or a value of the wrong type.
        """
        known = spec or {}
        section = self._sections.get(name, {})
        where = f"{self.path}: plugins: {name}"
        check_names(section, known, where, what=f"option of {name}")
        return {
            key: check(Key(key, option.type, option.default, option.meaning), section.get(key, option.default), where)
            for key, option in known.items()
        }

    def items(self, options: Mapping[str, Mapping[str, Option]] | None = None) -> list[Item]:
        """Every key with its value, origin and meaning.

        Args:
            options: the options that each section of a plugin may hold; those that no file sets are listed with
                their defaults.
        """
        own = [Item(name, self._values[name], self._origins[name], key.meaning) for name, key in KEYS.items()]
        own.append(Item("plugins.disabled", list(self.disabled), self._disabled_origin, _DISABLED.meaning))
        known = options or {}
        for name in sorted({*self._sections, *known}):
            section, spec = self._sections.get(name, {}), known.get(name, {})
            for key in [*spec, *(key for key in section if key not in spec)]:
                default, meaning = (spec[key].default, spec[key].meaning) if key in spec else (None, "")
                origin = self._section_origins.get((name, key), "default")
                own.append(Item(f"plugins.{name}.{key}", section.get(key, default), origin, meaning))
        return own

    def set(self, name: str, text: str, options: Mapping[str, Mapping[str, Option]] | None = None) -> Item:
        """Writes one key, given as text, into the project's file, comments kept; answers it as it is in force.

        A variable of the environment goes on winning over the file, and the answer says so by its origin.

        Args:
            options: see `items`; a section or an option that is not among them is refused.

        Raises:
            UsageError: for a key that does not exist or that only `init` writes.
            ConfigError: for a value that does not fit.
        """
        if name in ("format", "project_id"):
            raise UsageError(f"{name} is written once, by init", hint="perpetual config show")
        if name in KEYS:
            value = parse_text(KEYS[name], text, FILE)
            yamlfile.set_value(self.path, (name,), value)
            if self._origins[name] not in ("environment", "flag"):
                self._values[name], self._origins[name] = value, "project"
            return Item(name, self._values[name], self._origins[name], KEYS[name].meaning)
        first, _, rest = name.partition(".")
        parts = (first, *(part for part in rest.rpartition(".")[::2] if part))  # a plugin's name may have dots
        if parts == (_PLUGINS, _DISABLED.name):
            value = parse_text(_DISABLED, text, FILE)
            yamlfile.set_value(self.path, parts, value)
            self.disabled, self._disabled_origin = tuple(value), "project"
            return Item(name, value, "project", _DISABLED.meaning)
        known = options or {}
        spec = known.get(parts[1], {}).get(parts[2]) if len(parts) == 3 and parts[0] == _PLUGINS else None
        if spec is None:
            every = [f"{_PLUGINS}.{section}.{key}" for section, keys in known.items() for key in keys]
            raise UsageError(unknown("key of the configuration", name, [*KEYS, "plugins.disabled", *every]))
        value = parse_text(Key(name, spec.type, spec.default, spec.meaning), text, FILE)
        yamlfile.set_value(self.path, parts, value)
        self._sections.setdefault(parts[1], {})[parts[2]] = value
        self._section_origins[parts[1], parts[2]] = "project"
        return Item(name, value, "project", spec.meaning)

    @staticmethod
    def write_new(root: Path, *, project: str, project_id: str, store: str) -> None:
        """Writes the file of a new project."""
        values = {"project": project, "project_id": project_id, "store": store}
        entries: list[tuple[str, Any, str]] = [
            (name, values.get(name, key.default), key.meaning) for name, key in KEYS.items()
        ]
        entries.append((_PLUGINS, {_DISABLED.name: []}, "Options of plugins: `disabled`, and one section per name."))
        yamlfile.write_document(root / FOLDER / FILE, entries, title="What this project is made of.")
