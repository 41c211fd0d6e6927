"""The harness slot: a coding agent whose configuration `perpetual init` writes into a project.

The contract: `scaffold` answers what should stand in which file and touches nothing; the scaffolder merges, shows and
writes. The same arguments give the same answer. Applying a plan twice changes nothing the second time, and removing it
gives the earlier bytes back. Several plans may concern one file, from one harness or from two; what two of them say
alike is written once. A path is relative, with slashes, within the project and outside of `.perpetual/`; a text is
UTF-8 with plain line feeds; a value is JSON. What starts Perpetual is written with `command`. A `FilePlan` says how:

- `own`: the file is the harness's. It gets a line with a hash, and is left alone once a person edited it.
- `json`: sets `value` at the path `keys` of a JSON file; an object or a list goes under a key that is Perpetual's own
  (the word is in it) and never over the entries of others. An entry there that a person wrote stays, without `force`.
- `json_items`: adds the items of `value` to the list at the path `keys`, those that it does not hold yet.
- `toml`: sets the table `value` at the path `keys` of a TOML file; the last key is Perpetual's own.
- `block`: keeps `text` between marks in a text file. A text of one line that is there anyway is not added.

Plans for one file are of one kind (the two of JSON are one). Whatever else a merged file holds stays as it is, byte for
byte. `trust` lists what a person must still do for the harness to accept the files. `detect` looks and touches nothing;
in a folder without the harness's files it says no. `program` and `listing` are for the doctor, which checks whether the
harness is installed and takes what was written: a listing is a command that shows the harness's MCP servers, changes
nothing and costs seconds at most; without one the doctor looks at the files alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["WAYS", "FilePlan", "Harness", "ListCommand", "Scaffold"]

WAYS = ("own", "json", "json_items", "toml", "block")


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One file of a scaffold, or one place in it; `path` is relative to the project's folder, with slashes."""

    path: str
    how: str  # one of WAYS
    text: str = ""  # own: the whole file; block: what stands between the marks; others: what a new file starts from
    keys: tuple[str, ...] = ()  # json, json_items, toml: where the value goes
    value: Any = None  # json, toml: what goes there; json_items: the list of what is added there
    existing_only: bool = False  # skipped where the project has no such file
    comments: bool = False  # json, json_items: the harness reads comments and a last comma, so they may stand there
    instead: tuple[str, ...] = ()  # the first of these in the folder is taken in place of `path`


@dataclass(frozen=True, slots=True)
class ListCommand:
    """A command by which a harness lists its MCP servers; the patterns are searched in what it prints, line by line."""

    command: tuple[str, ...]
    accepted: str  # there, the harness takes Perpetual's entry
    waiting: str = ""  # there, a person must still agree


@dataclass(frozen=True, slots=True)
class Scaffold:
    """All files of a harness, and the steps that only a person can take."""

    files: tuple[FilePlan, ...]
    trust: tuple[str, ...] = ()


class Harness(ABC):
    """Base of every harness; see the contract at the top of this module."""

    @abstractmethod
    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        """Returns the files for a project of that name; `command` is how the harness starts Perpetual."""

    def detect(self, folder: Path) -> bool:
        """Returns whether files of this harness stand in the folder already."""
        return False

    def program(self) -> str | None:
        """Returns the name of the harness's program, as it is looked up on the PATH.

        None where there is none to look for.
        """
        return None

    def listing(self) -> ListCommand | None:
        """Returns how the harness is asked whether it takes the scaffold."""
        return None
