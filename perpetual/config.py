"""A project's configuration: where it is, what is chosen for each slot, and where every value comes from. Floor 1.

Precedence: environment (`PERPETUAL_<KEY>`, `PERPETUAL_SLOTS_<SLOT>`) > project (`.perpetual/config.yaml`) > user >
default.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

from perpetual.errors import ConfigError, ForeignProject, NoProject, UsageError, unknown
from perpetual.slots.table import SLOTS, Slot
from perpetual.toolkit import confined, trust_record, yamlfile
from perpetual.toolkit.config_keys import (
    ABSENT,
    Item,
    Key,
    check_entry,
    check_names,
    fewer_is_weaker,
    guarded,
    lower_is_weaker,
    more_is_weaker,
    order_is_weaker,
    parse_text,
    texts,
)
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.reserved import DISTRIBUTION
from perpetual.toolkit.worktrees import linked_worktree

__all__ = [
    "DISABLED",
    "CHOICES",
    "FILE",
    "FOLDER",
    "FORMAT",
    "GUARDED_OPTIONS",
    "GUARDS",
    "KEYS",
    "MARKS",
    "PLUGINS",
    "Config",
    "find_project",
    "inside",
    "option_forms",
    "user_file",
    "user_marks",
]

FOLDER = ".perpetual"
FILE = "config.yaml"
_LARGEST_BYTES = 1024 * 1024  # of config.yaml
FORMAT = 1  # of the project directory; a newer one is refused by name


def _choice(slot: str, meaning: str) -> Key:
    """Returns the key that chooses the provider of one of Perpetual's own slots."""
    row = SLOTS[slot]
    return Key(row.key or slot, "str", row.default, meaning)


def _differs(value: object, base: object) -> bool:
    return bool(value != base)  # another redactor may see less


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key("format", "int", FORMAT, "Version of the project directory.", minimum=1),
        Key("project", "str", "", "Name of the project."),
        Key("project_id", "str", "", "Drawn once at init; every seed derives from it."),
        _choice("store", "Store provider that keeps the record."),
        _choice("scheduler", "Scheduler provider that starts runs."),
        _choice("gpus", "GPU backend provider."),
        _choice("placement", "What gives runs their GPUs."),
        _choice("scaffolder", "What writes the files of coding agents."),
        Key("gpus_excluded", "list", [], "GPUs that no run gets: indices as the driver counts, or uuids."),
        Key("gpu_foreign", "str", "refuse", "GPUs that other people's processes use: refuse or allow.",
            choices=("refuse", "allow"), weaker=order_is_weaker("refuse", "allow")),
        Key("gpu_ids", "str", "uuid", "How runs learn their GPUs; index for programs that cannot read uuids.",
            choices=("uuid", "index")),
        _choice("memory", "Memory provider that keeps notes."),
        _choice("redactor", "What takes secrets out of all that is recorded and shown.")._replace(weaker=_differs),
        _choice("mcp", "MCP server provider."),
        Key("agent_marks", "list", [],
            "Names of further variables that mark a coding agent's shell, added to the built-in ones; "
            "those of the user's own file and of the project's both count.", weaker=fewer_is_weaker),
        Key("plugin_discovery_s", "float", 5.0, "Seconds to import and ask a plugin of another distribution.",
            minimum=0.1, maximum=600.0, weaker=lower_is_weaker),
        Key("plugin_gate_s", "float", 10.0, "Seconds for a gate of another distribution to judge a text.",
            minimum=0.1, maximum=600.0),
        Key("plugin_observer_s", "float", 5.0, "Seconds for an observer of another distribution to take an event.",
            minimum=0.1, maximum=600.0),
        Key("queue_moves", "bool", True,
            "Whether a process of its own records the ends of runs and starts what waits, with no terminal open."),
        Key("run_secrets", "list", [],
            "Where queued runs find secrets that their starter does not export: NAME=env:NAME, NAME=file:PATH or "
            "NAME=keyring:SERVICE/USER; put it into your own file.", weaker=more_is_weaker),
    )
}  # fmt: skip

MARKS = "agent_marks"
# By slot and provider, options that let more in: a longer list counts only from the user, or once it was trusted.
GUARDED_OPTIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("mcp", "mcp"): ("hosts",), ("thinker", "command"): ("command", "environment"),
    ("plugin", "harnesses"): ("allow", "command", "resume")}  # fmt: skip

CHOICES = "slots."  # before the name of a plugin's slot, in the key that chooses its provider
PLUGINS = "plugins"  # the section of options; `perpetual.lab.options` says which of them is whose
_SLOT_VARIABLE = "PERPETUAL_SLOTS_"  # and the name of a plugin's slot
_SLOTS = "slots"  # the section of choices for slots that plugins bring
_METHODOLOGY = "methodology"  # a section of the user's own file, which the lab reads
GUARDS = ("immune",)  # gates that every note needs by default
_KEPT = (*GUARDS, "redaction")  # plugins that a project's file alone does not disable
_CHOICE_MEANING = "Provider in force for a slot that a plugin brings."
DISABLED = Key("disabled", "list", [], "Plugins that are not loaded, by name or distribution/name.")


def _check_marks(names: Sequence[str], where: str | Callable[[], str]) -> None:
    """Raises ConfigError, saying where, for what is no name of an environment variable."""
    wrong = next((name for name in names if not (name.isascii() and name.isidentifier())), None)
    if wrong is not None:
        place = where if isinstance(where, str) else where()
        message = f"{place}: {MARKS} must be names of environment variables, not {wrong!r}"
        raise ConfigError(message, hint=KEYS[MARKS].meaning)


def find_project(start: Path | None = None, explicit: str | None = None) -> Path:
    """Returns the folder that holds `.perpetual/`: `explicit`, `PERPETUAL_PROJECT`, or the nearest one above `start`.

    Raises:
        NoProject: if there is none.
        ForeignProject: if it is another tool's.
    """
    given = explicit or os.environ.get("PERPETUAL_PROJECT")
    if given:
        folder = named_path(given)
        if folder.name == FOLDER:
            folder = folder.parent
        if not _is_project(folder):
            raise NoProject(f"no Perpetual project in {folder}", hint=f"perpetual init -t {folder}")
        return folder
    try:
        here = (start or Path.cwd()).absolute()
    except FileNotFoundError as problem:
        raise NoProject("the working directory does not exist any more", hint="cd to a folder that exists") from problem
    found = next((folder for folder in (here, *here.parents) if _is_project(folder)), None)
    linked = linked_worktree(here)
    # A linked worktree may have the project's files checked in. It is a project of its own once it has a store.
    is_own = found is not None and (linked is None or not found.is_relative_to(linked[0]) or _has_store(found))
    if linked is not None and not is_own:
        main = linked[1] / here.relative_to(linked[0])
        below = (folder for folder in (main, *main.parents) if folder.is_relative_to(linked[1]))
        found = next(filter(_is_project, below), found)
    if found is None:
        raise NoProject(f"no Perpetual project in {here} or above it", hint="perpetual init")
    return found


def _has_store(folder: Path) -> bool:
    return os.path.lexists(folder / FOLDER / "store")


def _is_project(folder: Path) -> bool:
    """Returns whether the folder holds a project of ours.

    Raises:
        ForeignProject: if it is another tool's.
        ConfigError: if `.perpetual` or its configuration is a link or a pipe, or cannot be read.
    """
    inside = folder / FOLDER
    try:
        if not stat.S_ISDIR(os.lstat(inside).st_mode) and not confined.check_folder(inside):
            return False
    except confined.UnsafePath as problem:
        if problem.errno == errno.ELOOP:
            raise yamlfile.unreadable(inside, problem) from problem
        return False  # a file of that name is no project
    except OSError:
        return False
    try:
        _refuse_foreign(folder)
        # config.yaml is what makes the folder a project: without it `init` was cut off, or it is something else
        return confined.look(inside / FILE) is not None
    except OSError as problem:
        raise yamlfile.unreadable(inside / FILE, problem) from problem


def _refuse_foreign(folder: Path) -> None:
    if foreign(folder):
        raise ForeignProject(
            f"{folder / FOLDER} belongs to another tool (it holds graph.db); nothing was changed",
            hint="take it over: perpetual adopt; or work in another folder",
        )


def foreign(folder: Path) -> bool:
    """Returns whether the `.perpetual/` there was written by the earlier perpetual-agent."""
    inside = folder / FOLDER
    if (inside / "graph.db").exists():
        return True
    try:
        text = confined.read_bytes(inside / FILE, limit=_LARGEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return b"budget_gpu_hours:" in text and b"format:" not in text


def _check_identity(path: Path, data: Mapping[str, object]) -> None:
    """Raises ConfigError for a project's file that was emptied or cut: every seed derives from its project_id."""
    for name in ("format", "project_id"):
        if data.get(name) in (None, ""):
            raise ConfigError(
                f"{path} has no {name}",
                hint="put back a copy of the file, as of git or a backup; without project_id every seed would change",
            )


def user_file() -> Path:
    """Returns the user's own configuration file, which need not exist."""
    if sys.platform.startswith("linux"):
        base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
        return Path(base, "perpetual", FILE)
    from platformdirs import user_config_dir

    return Path(user_config_dir("perpetual", appauthor=False), FILE)


def user_marks() -> list[str]:
    """Returns the `agent_marks` of the user's own file, for what happens outside of a project.

    Raises:
        ConfigError: if that file is broken.
    """
    path = user_file()
    marks = (yamlfile.read_yaml(path) or {}).get(MARKS, [])
    return texts(check_entry(KEYS[MARKS], marks, path, MARKS))


def _is_texts(value: object) -> bool:
    """Returns whether a value is a list that `check` takes as one of texts."""
    return isinstance(value, list) and all(type(item) in (str, int) for item in value)


def inside(data: object, path: Sequence[str]) -> object:
    """Returns what a mapping of mappings holds at a path, `ABSENT` if there is nothing."""
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return ABSENT
        data = data[key]
    return data


def option_forms(slot: str, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the sections below `plugins` that a provider reads, the one that wins first: full forms, then short ones.

    Args:
        names: those that mean the provider, the qualified one first.
    """
    return [*((slot, name) for name in names), *((name,) for name in names)]


class Config:
    """The values in force for one project; `root` is the project's folder, `folder` its `.perpetual/`.

    Raises:
        ConfigError: for broken YAML, an unknown key (nearest name given), a wrong value, each with file and line.
        ForeignProject: for a project of a newer version.
    """

    files: tuple[str, ...] = (FILE,)  # of the project's folder, whose change is seen

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / FOLDER
        self.path = self.folder / FILE
        self._trust_path = Path(trust_record.path_of(root))
        self.reload()

    def refresh(self) -> None:
        """Reads the files again if they have changed: for programs that live long, where an operation begins.

        What plugins were built with stays as it is. Raises as the class does; the old values are then in force.
        """
        if self.stamps(trust=True) != self._seen:
            fresh = copy(self)
            fresh.reload()
            self.__dict__.update(fresh.__dict__)  # all at once: another thread may be reading

    def stamps(self, *, trust: bool = False) -> list[tuple[int, int, int] | None]:
        """Returns what tells one state of the files from another, with `trust` that of the trust record too."""
        stamps: list[tuple[int, int, int] | None] = []
        for path in (user_file(), *(self.folder / name for name in self.files), *[self._trust_path] * trust):
            try:
                seen = os.stat(path)
            except OSError:
                stamps.append(None)  # none, or one that a later read reports
            else:
                stamps.append((seen.st_ino, seen.st_size, seen.st_mtime_ns))
        return stamps

    def reload(self) -> None:
        """Reads the files, again after a change of them; raises as the class does."""
        self._seen = self.stamps(trust=True)  # before they are read: what changes meanwhile is of a later state
        self._values: dict[str, Any] = {name: key.default for name, key in KEYS.items()}
        self._origins: dict[str, str] = dict.fromkeys(KEYS, "default")
        self.sections: dict[str, dict[str, Any]] = {}  # of `plugins`, as each file has them, by the file's origin
        self._recorded: dict[str, Any] = {}
        self._choices: dict[str, Item] = {}  # of slots that plugins bring
        self.disabled: tuple[str, ...] = ()
        self._disabled_origin = "default"
        self.user_methodology: object = ABSENT  # the section of the user's own file, unchecked
        self._take(user_file(), "user")
        user = {**self._values}, self.disabled
        self._take(self.path, "project")
        self.trust = trust_record.read(self.root, self.project_id) if self.project_id else None
        confined.owners[os.path.abspath(self.folder)] = self.trust.owners if self.trust is not None else ()
        self.held: dict[str, object] = {}
        self._hold(*user)
        for name, key in KEYS.items():
            variable = f"PERPETUAL_{name.upper()}"
            # PERPETUAL_PROJECT is the folder, not the name
            if name not in ("project", "project_id", "format") and variable in os.environ:
                self._put(name, parse_text(key, os.environ[variable], variable), "environment", variable)
        for variable, text in os.environ.items():
            if variable.startswith(_SLOT_VARIABLE):
                name = variable.removeprefix(_SLOT_VARIABLE).lower()
                self._choices[name] = Item(f"{CHOICES}{name}", text, "environment", _CHOICE_MEANING)

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
            if name == PLUGINS:
                self._take_plugins(path, value, origin)
                continue
            if name == _SLOTS:
                self._take_choices(path, value, origin)
                continue
            if name == _METHODOLOGY and origin == "user":
                self.user_methodology = value
                continue
            if name not in KEYS:
                check_names({name: 0}, {**KEYS, PLUGINS: 0, _SLOTS: 0}, yamlfile.place_of(path, name))
            self._put(name, check_entry(KEYS[name], value, path, name), origin, partial(yamlfile.place_of, path, name))
        if origin == "project":
            _check_identity(path, data)
            self._recorded = data

    def _put(self, name: str, value: Any, origin: str, where: str | Callable[[], str]) -> None:
        """Takes the value of one key from one place; what marks agents only ever grows."""
        if name == MARKS:
            _check_marks(value, where)
            value = [*dict.fromkeys((*self._values[name], *value))]
        self._values[name], self._origins[name] = value, origin

    def _accepted(self, name: str) -> Any:
        """Returns the value of a key of this file that the user has trusted in this project."""
        return ABSENT if self.trust is None else self.trust.values.get(f"config.{name}", ABSENT)

    def _hold(self, values: dict[str, object], disabled: tuple[str, ...]) -> None:
        """Keeps what protects where the project's file would weaken it.

        Args:
            values, disabled: as the user's own file has them.
        """
        for name, key in KEYS.items():
            if name == MARKS:
                self._hold_marks()
            elif key.weaker is not None and self._origins[name] == "project":
                found = guarded(key, self._values[name], user=values[name], accepted=self._accepted(name))
                if found.held:
                    self.held[name] = self._values[name]
                    self._values[name], self._origins[name] = found.value, "held"
        trusted = self._accepted("plugins.disabled")
        allowed = {*disabled, *(() if trusted is ABSENT else trusted)}
        refused = [name for name in self.disabled if name.rpartition("/")[2] in _KEPT and name not in allowed]
        if refused:
            self.held["plugins.disabled"] = list(self.disabled)
            self.disabled = tuple(name for name in self.disabled if name not in refused)
        for (slot, name), keys in GUARDED_OPTIONS.items():
            for key_name in keys:
                self._hold_option(slot, name, key_name)

    def _hold_option(self, slot: str, name: str, key: str) -> None:
        """Keeps a list that lets more in where the project's file is longer than what was trusted."""
        value, mine = self._option("project", slot, name, key), self._option("user", slot, name, key)
        accepted = self._accepted(f"{PLUGINS}.{name}.{key}")
        base = accepted if accepted is not ABSENT else [] if mine is ABSENT else mine
        if value is ABSENT or value == mine or not _is_texts(value) or not more_is_weaker(map(str, value), base):
            return  # what is no list of texts is refused by name where it is used
        self.held[f"{PLUGINS}.{name}.{key}"] = value
        for path in self._forms(slot, name):
            section = inside(self.sections["project"], path)
            if isinstance(section, dict) and key in section:
                section[key] = base

    @staticmethod
    def _forms(slot: str, name: str) -> list[tuple[str, ...]]:
        """Returns the sections of a bundled provider."""
        return option_forms(slot, (f"{DISTRIBUTION}/{name}", name))

    def _option(self, origin: str, slot: str, name: str, key: str) -> Any:
        """Returns an option of a bundled provider as one file has it, `ABSENT` where it does not."""
        found = (inside(self.sections.get(origin, {}), (*path, key)) for path in self._forms(slot, name))
        return next((value for value in found if value is not ABSENT), ABSENT)

    def accepts(self, path: Sequence[str], reference: str) -> bool:
        """Returns whether a reference to a secret counts that the project's file has at a path below `plugins`.

        It is the same in the user's own file, or this user has set or trusted it in this project.
        """
        is_mine = inside(self.sections.get("user", {}), path) == reference
        return bool(is_mine or self._accepted(".".join((PLUGINS, *path))) == reference)

    def _hold_marks(self) -> None:
        """Keeps the marks of agents that the user has trusted here, where the files leave one out."""
        accepted, present = self._accepted(MARKS), self._values[MARKS]
        if accepted is not ABSENT and fewer_is_weaker(present, accepted):
            self.held[MARKS] = present
            self._values[MARKS], self._origins[MARKS] = [*dict.fromkeys((*present, *accepted))], "held"

    def protections(self) -> dict[str, object]:
        """Returns what protects, as it is in force: the values that trust in the project as it is covers."""
        own = {f"config.{name}": self._values[name] for name, key in KEYS.items() if key.weaker is not None}
        own["config.plugins.disabled"] = list(self.disabled)
        for (slot, name), keys in GUARDED_OPTIONS.items():
            for key in keys:
                found = (self._option(origin, slot, name, key) for origin in ("project", "user"))
                value = next((value for value in found if value is not ABSENT), ABSENT)
                if value is not ABSENT:
                    own[f"config.{PLUGINS}.{name}.{key}"] = value
        return own

    def weakening(self) -> dict[str, object]:
        """Returns the values of the project's files that weaken protection and do not count: `{key: value}`."""
        return {f"config.{name}": value for name, value in self.held.items()}

    def _take_plugins(self, path: Path, sections: object, origin: str) -> None:
        if not isinstance(sections, dict):
            raise ConfigError(f"{yamlfile.place_of(path, PLUGINS)}: plugins must hold one section per plugin")
        for name, section in sections.items():
            if name == DISABLED.name:
                self.disabled = tuple(texts(check_entry(DISABLED, section, path, PLUGINS, name)))
                self._disabled_origin = origin
            elif isinstance(section, dict):
                self.sections.setdefault(origin, {})[name] = section
            else:
                where = yamlfile.place_of(path, PLUGINS, name)
                raise ConfigError(f"{where}: the section of plugin {name} must hold keys with values")

    def _take_choices(self, path: Path, section: object, origin: str) -> None:
        if not isinstance(section, dict):
            raise ConfigError(f"{yamlfile.place_of(path, _SLOTS)}: slots must hold the provider of each slot")
        for name, value in section.items():
            chosen = check_entry(Key(f"{CHOICES}{name}", "str", None, _CHOICE_MEANING), value, path, _SLOTS, name)
            self._choices[name] = Item(f"{CHOICES}{name}", chosen, origin, _CHOICE_MEANING)

    def chosen(self, slot: Slot) -> str:
        """Returns the provider in force for a slot of which one serves.

        Raises:
            ConfigError: if nothing chooses one and the slot has no default.
        """
        if slot.name in SLOTS:
            return str(self._values[slot.key or slot.name])
        item = self._choices.get(slot.name)
        value = slot.default if item is None else item.value
        if value is None:
            raise ConfigError(
                f"no provider is chosen for the slot {slot.name}",
                hint=f"perpetual config set {CHOICES}{slot.name} NAME",
            )
        return str(value)

    def check_choice(self, slot: Slot) -> None:
        """Raises UsageError for a slot whose provider is not chosen by `slots.NAME`."""
        if slot.name in SLOTS and slot.key in KEYS:
            raise UsageError(f"the key of this slot is {slot.key}", hint=f"perpetual config set {slot.key} NAME")
        if slot.selection != "one":
            how = "every provider serves" if slot.is_additive else f"the methodology's {slot.key} chooses"
            raise UsageError(f"{slot.name} has no choice in the configuration: {how}")

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def recorded(self, name: str) -> object:
        """Returns the value in the project's own file, whatever the environment says; else the default."""
        return self._recorded.get(name, KEYS[name].default)

    @property
    def project_id(self) -> str:
        """Returns the id that every seed derives from."""
        value: str = self._values["project_id"]
        return value

    def items(self) -> list[Item]:
        """Returns every key with its value, origin and meaning; the options of plugins are `perpetual.lab.options`'."""
        own = [Item(name, self._values[name], self._origins[name], key.meaning) for name, key in KEYS.items()]
        own.append(Item("plugins.disabled", list(self.disabled), self._disabled_origin, DISABLED.meaning))
        return own + [self._choices[name] for name in sorted(self._choices)]

    def item(self, name: str) -> Item:
        """Returns one of the `items`; the choice of a slot that no file makes has no value."""
        missing = Item(name, None, "default", _CHOICE_MEANING)
        return next((item for item in self.items() if item.key == name), missing)

    def _key(self, name: str) -> tuple[Key, tuple[str, ...]]:
        """Returns a key that can be changed, and its place in the file.

        Raises:
            UsageError: for a key that does not exist or that only `init` writes.
        """
        if name in ("format", "project_id"):
            raise UsageError(f"{name} is written once, by init", hint="perpetual config show")
        if name in KEYS:
            return KEYS[name], (name,)
        if name == f"{PLUGINS}.{DISABLED.name}":
            return DISABLED, (PLUGINS, DISABLED.name)
        if name.startswith(CHOICES):
            return Key(name, "str", None, _CHOICE_MEANING), (_SLOTS, name.removeprefix(CHOICES))
        raise self.unknown_key(name)

    def set(self, name: str, text: str) -> None:
        """Writes one key, given as text, into the project's file, comments kept.

        A variable of the environment goes on winning over the file, and a value that protects less is held until this
        user's trust covers it.

        Raises:
            UsageError: for a key that does not exist or that only `init` writes.
            ConfigError: for a value that does not fit.
        """
        key, path = self._key(name)
        value = parse_text(key, text, FILE)
        if name == MARKS:
            _check_marks(texts(value), FILE)
        self.write(path, value)

    def unset(self, name: str) -> None:
        """Takes one key out of the project's file, comments kept.

        Raises:
            UsageError: for a key that does not exist or that only `init` writes.
        """
        _, path = self._key(name)
        if name.startswith(CHOICES) and inside(self._recorded, path) is ABSENT:
            raise self.unknown_key(name)
        self.remove(path)

    def without(self, name: str) -> object:
        """Returns the value that a key would have if the project's file did not have it."""
        if self._origins[name] == "environment":
            return self._values[name]
        return (yamlfile.read_yaml(user_file()) or {}).get(name, KEYS[name].default)

    def write(self, path: Sequence[str], value: object) -> None:
        """Writes what is at a path of the project's file, comments kept, and reads the file again."""
        yamlfile.set_value(self.path, tuple(path), value)
        self.refresh()

    def remove(self, path: Sequence[str]) -> None:
        """Takes what is at a path out of the project's file, comments kept, and reads the file again."""
        yamlfile.remove_value(self.path, tuple(path))
        self.refresh()

    def unknown_key(self, name: str, others: Sequence[str] = ()) -> UsageError:
        """Returns the error for a key that does not exist, with the nearest; `others` are options of plugins."""
        known = [*KEYS, "plugins.disabled", *(f"{CHOICES}{slot}" for slot in self._choices), *others]
        return UsageError(unknown("key of the configuration", name, known), hint="perpetual config show lists them")

    @staticmethod
    def write_new(root: Path, *, project: str, project_id: str, store: str) -> None:
        """Writes the file of a new project."""
        values = {"project": project, "project_id": project_id, "store": store}
        entries: list[tuple[str, object, str]] = [
            (name, values.get(name, key.default), key.meaning) for name, key in KEYS.items()
        ]
        entries.append(
            (
                PLUGINS,
                {DISABLED.name: []},
                "Options of plugins: `disabled`, and sections SLOT: PROVIDER: or PROVIDER: alone.",
            )
        )
        yamlfile.write_document(root / FOLDER / FILE, entries, title="What this project is made of.")
