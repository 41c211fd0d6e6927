"""The harness slot: a coding agent whose configuration `perpetual init` writes into a project.

The contract: `scaffold` answers what should stand in which file and touches nothing; the kernel merges, shows and
writes. A `FilePlan` says how: `own` files belong to the harness part and are left alone once a person edited them;
`json` merges `value` below `keys` into an existing JSON file, leaving every other key, their order and the indentation;
`block` keeps a marked block in a text file. Applying a plan twice changes nothing the second time, and removing it
gives the earlier bytes back. `trust` lists what a person must still do for the harness to accept the files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["FilePlan", "Harness", "Scaffold"]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """One file of a scaffold; `path` is relative to the project's folder."""

    path: str
    how: str  # own | json | block
    text: str = ""  # own: the whole file; block: what stands between the marks
    keys: tuple[str, ...] = ()  # json: where the value goes
    value: Any = None  # json: what goes there


@dataclass(frozen=True, slots=True)
class Scaffold:
    """All files of a harness, and the steps that only a person can take."""

    files: tuple[FilePlan, ...]
    trust: tuple[str, ...] = ()


class Harness(ABC):
    """Base of every harness; see the contract at the top of this module."""

    @abstractmethod
    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        """The files for a project of that name; `command` is how the harness starts Perpetual."""

    def detect(self, folder: Path) -> bool:
        """Whether files of this harness stand in the folder already."""
        return False
