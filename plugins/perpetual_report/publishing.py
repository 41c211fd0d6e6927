"""What is taken out of a record before it is published: secrets, paths of homes, names of users and of machines.

For the site and the crate. A secret is what the lab's redactor takes for one. A user is known by an actor's name, by a
home folder in the text, or as the account that publishes; a machine as one on which a run was, or as this one. A name
of another kind is not known here, and neither is a path outside a home.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from perpetual.api import UsageError
from perpetual.toolkit.hosts import this_host
from perpetual_report.snapshot import Snapshot
from perpetual_report.steps import Step

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from perpetual import Lab
    from perpetual.api import EvidenceFold, Redactor, Run

__all__ = ["Actor", "Publisher", "place_to_publish", "publisher_of"]

R = TypeVar("R", bound="DataclassInstance")

USER, HOST = "<user>", "<host>"
# Accounts and machines of these names identify no one, and their names are words of research.
_COMMON = frozenset((
    "admin", "app", "build", "builder", "ci", "data", "dev", "docker", "gpu", "host", "home", "jovyan",
    "localhost", "machine", "me", "nobody", "node", "pi", "research", "root", "runner", "server", "student",
    "test", "ubuntu", "unknown", "user", "vagrant", "vscode", "worker", "workspace",
))  # fmt: skip
_SHORTEST = 3  # characters of a name that is looked for
# An interpreter is named by its program: where it is installed says something of the machine, and nothing of the work.
_INTERPRETER = re.compile(r"(?<![\w.-])(?:/[\w.+-]+)*/bin/(?=(?:python|pypy)[\d.]*(?![\w.-]))")
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\Users\\)(?P<name>[^\s/\\:;,'\"<>|()\[\]{}]+)|/root(?![\w.-])")
# What says which record it is, in what state and when: the lab's own words, in which no one's name can be.
_OWN = frozenset((
    "id", "experiment_id", "hypothesis_id", "run_id", "retracted_by", "target", "baseline", "extends", "renews",
    "runs_of", "proxy_of", "subject", "status", "kind", "direction", "claim", "verdict", "decided_by", "type",
    "scheduler", "commit", "blob", "spec_hash", "seq", "sha256", "cause", "created_at", "started_at", "ended_at",
    "updated_at", "time",
))  # fmt: skip
_BY = frozenset(("actor", "proposed_by", "approved_by", "created_by"))
_LEFT_OUT: dict[str, object] = {"log_dir": "", "native_id": None, "pid": None, "host": None, "isolated": None}


class Actor(NamedTuple):
    """The actor of a deed: `kind` is person, agent or program, `name` what a page calls it."""

    kind: str
    name: str


class Publisher:
    """Takes out of texts and records what identifies people and machines. The same record gives the same words."""

    def __init__(self, redactor: Redactor, root: str, actors: Iterable[str], hosts: Iterable[str]) -> None:
        """Learns the names.

        Args:
            redactor: finds secrets.
            root: the project's folder; paths below it are shown relative to it.
            actors: names of all actors, in the order of their first deeds.
            hosts: names of machines.
        """
        self._redactor = redactor
        people = [name for name in dict.fromkeys(actors) if name.startswith("user:")]
        self._people = {name: "person" if place == 1 else f"person {place}" for place, name in enumerate(people, 1)}
        users = {name.removeprefix("user:") for name in people} | {_account()}
        machines = {part for name in hosts for part in (name, name.partition(".")[0])}
        homes = {home for home in (os.path.expanduser("~"), os.environ.get("HOME", "")) if home.strip("/\\~")}
        homes |= {os.path.realpath(home) for home in homes}
        self._homes = re.compile("|".join(rf"{re.escape(each)}(?![\w.-])" for each in sorted(homes)) or r"(?!)")
        roots = {root, os.path.realpath(root)}
        self._roots = re.compile("|".join(rf"{re.escape(each)}(?:[/\\]|(?![\w.-]))" for each in sorted(roots)))
        self._users, self._hosts = _names(users, r"\w"), _names(machines, r"\w-")
        self._known: dict[str, str] = {}  # texts come again and again
        self._settings: dict[tuple[str, str], str] = {}

    def text(self, text: str) -> str:
        """Returns the text without secrets, paths of homes, and names of users and machines."""
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._shown(self._redactor.text(text))
        return found

    def command(self, command: str) -> str:
        """Returns a command line, of which options say what is secret."""
        return self._shown(self._redactor.command(command))

    def _shown(self, text: str) -> str:
        text = _HOME.sub("~", self._homes.sub("~", self._roots.sub("", _INTERPRETER.sub("", text))))
        for pattern, mask in ((self._users, USER), (self._hosts, HOST)):
            if pattern is not None:
                text = pattern.sub(mask, text)
        return text

    def actor(self, name: str) -> Actor:
        """Returns what an actor is called: people by number, an agent by its program."""
        if name.startswith("user:"):
            return Actor("person", self._people.get(name, "person"))
        kind, _, rest = name.partition(":")
        if kind in ("agent", "mcp"):
            return Actor("agent", self.text(rest) or "unknown")
        return Actor("program", self.text(name))

    def value(self, value: object, name: str = "") -> object:
        """Returns a value of a record of this name, and what is in it."""
        if isinstance(value, str):
            if name in _OWN:
                return value
            if name in _BY:
                return self.actor(value).name
            return self.command(value) if name == "command" else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._setting(str(key), item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            kept = [self.value(item, name) for item in value]
            return tuple(kept) if type(value) is tuple else kept
        if is_dataclass(value) and not isinstance(value, type):
            return self.record(value)
        return value

    def _setting(self, name: str, value: object) -> object:
        """Returns a setting, whose name is the user's: it says nothing about the value but that it may be secret."""
        if not isinstance(value, str):
            return self.value(value)
        found = self._settings.get((name, value))
        if found is None:
            found = self._settings[name, value] = self._shown(self._redactor.setting(name, value))
        return found

    def record(self, record: R) -> R:
        """Returns a record without what identifies people and machines."""
        values = {}
        for spec in fields(record):
            found = getattr(record, spec.name)
            values[spec.name] = _LEFT_OUT[spec.name] if spec.name in _LEFT_OUT else self.value(found, spec.name)
        return replace(record, **values)

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Returns the record as it stood, of which everything may be shown."""
        return replace(
            snapshot,
            project=self.text(snapshot.project),
            hypotheses=tuple(map(self.record, snapshot.hypotheses)),
            steps={id: [self._step(step) for step in steps] for id, steps in snapshot.steps.items()},
            experiments=tuple(map(self.record, snapshot.experiments)),
            runs=tuple(map(self.record, snapshot.runs)),
            evidence=tuple(map(self.record, snapshot.evidence)),
            notes=tuple(map(self.record, snapshot.notes)),
            is_published=True,
        )

    def _step(self, step: Step) -> Step:
        return replace(step, actor=self.actor(step.actor).name, fold=cast("EvidenceFold", self.value(step.fold)))


def publisher_of(lab: Lab, actors: Iterable[str], runs: Iterable[Run]) -> Publisher:
    """Returns the publisher of a project, with the names that its record shows and those of this machine."""
    hosts = {run.host for run in runs if run.host} | {this_host().name}
    return Publisher(lab.part("redactor"), os.fspath(lab.root), actors, hosts)


def place_to_publish(lab: Lab, path: Path) -> Path:
    """Returns a folder or file to publish to as an absolute path.

    Raises:
        UsageError: for a link, for what holds the project, and for what is inside a `.perpetual`.
    """
    if path.is_symlink():
        raise UsageError(f"{path} is a link", hint="name the place itself")
    found, root = Path(os.path.realpath(path)), Path(os.path.realpath(lab.root))
    if found == root or found in root.parents:
        raise UsageError(f"{path} holds the project itself", hint="name a folder of its own, such as published")
    if ".perpetual" in found.parts:
        raise UsageError(f"{path} is inside a .perpetual", hint="name a folder outside, such as published")
    return found


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""  # a user id that has no name


def _names(names: Iterable[str], inside: str) -> re.Pattern[str] | None:
    """Returns a pattern of the names as whole words; `inside` are the characters that go on a word."""
    kept = sorted({name for name in names if len(name) >= _SHORTEST and name.lower() not in _COMMON}, reverse=True)
    if not kept:
        return None
    return re.compile(rf"(?<![{inside}])(?:{'|'.join(map(re.escape, kept))})(?![{inside}])", re.IGNORECASE)
