"""The capture slot: what a run is started from, and what has become of that when it ends.

All captures serve, the smaller `order` first, bundled ones before others.

The contract
------------
*Before the start* `before` answers facts: named sections of the run's `provenance.json`, in JSON. A capture may write
files into the run's folder and nowhere else. It changes nothing in the project, and starts no program that the project
or its repository names. What cannot be had is a sentence in `problems`, not an error. Facts and files hold no secret of
the environment or of the project's files. The kernel writes the document, so the names in `RESERVED` are its own; of
two captures that answer the same fact the first one counts. Five facts have a form that the command line shows: `git`,
`environment`, `interpreter`, `machine` and `protected` (the schema of `perpetual runs ID --provenance --json`).

*After the end* `after` gets the document as it was written, which may lack a capture's facts: an earlier version or
another set of plugins has started the run. It answers taints: why what the run measured weighs nothing. A project that
has not changed has no taint. `compared_protected` says that the paths of `protected_paths` were compared with how they
were at the start. Where the methodology names such paths and no capture says so, the run is tainted.

*The code* that a command would run is read by `code_reader`. Approval records its `CodeState`, and a start compares
with the reader whose `kinds` name that state's kind. Reading changes nothing and starts nothing of the project. The
same contents are the same code; what cannot be read is a state without `sha256`.

*Isolated runs* start in a folder of their own, made by `isolation` of what was kept when they were approved. Nothing
that a run does to files there changes what was kept, another run's folder or the user's code; what git ignores may be
the original. `keep` and `check_out` may be cut off at any moment, and are then repeated or swept.

Any call may be made from several threads, and ends within the time that the kernel allows. A capture that raises, ends
the process or takes too long is noted beside the run and stops nothing, with two exceptions: the run is tainted where
it was to compare protected paths, and an approval that is bound to code is refused where it was to read that code.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    from perpetual.documents.provenance import CodePreview, CodeStateDocument, KeptCode
    from perpetual.slots.redactor import Redactor

__all__ = ["RESERVED", "Artifact", "Capture", "CodeReader", "CodeState", "Isolation", "RunChanges", "RunEnd",
           "RunFacts", "RunStart"]  # fmt: skip

# Names of provenance.json that the kernel writes itself.
RESERVED = frozenset({"schema", "run", "experiment", "spec_hash", "seed", "argv", "cwd", "versions", "gpus",
                      "perpetual", "captured_at", "problems", "intact"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run that is about to start.

    - `root`: the project's folder; `folder`: the run's own, which exists.
    - `argv`, `cwd`, `env`: what is executed, with secrets; `own_env` names the variables that the experiment sets.
    - `redactor`: takes secrets out of what is kept.
    - `protected_paths`, `code_ignore`: patterns of the methodology.
    - `needs`: artifacts of other runs that it starts from, `{artifact, run_id, size_bytes, sha256}` each. One capture
      hands them over and answers them as the fact `needs`, or why it cannot: then the run does not start.
    """

    run_id: str
    root: Path
    folder: Path
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    redactor: Redactor
    own_env: frozenset[str] = frozenset()
    protected_paths: tuple[str, ...] = ()
    code_ignore: tuple[str, ...] = ()
    needs: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a capture found before the start.

    - `facts`: sections of provenance.json by name.
    - `versions`: of `code` (`{tree, ignored, programs}`), `data` and `environment` (texts); runs of other versions are
      not pooled. What is not known is None or left out.
    - `problems`: what could not be had, in sentences.
    """

    facts: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, object] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunEnd:
    """A run that has ended; `facts` is its provenance.json as it was written at the start."""

    run_id: str
    root: Path
    folder: Path
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunChanges:
    """What has become of what a run was started from, in sentences.

    - `taints`: why what it measured weighs nothing.
    - `notes`: what a reader should know besides.
    - `compared_protected`: the protected paths were compared with how they were at the start.
    - `artifacts`: what the run has left to keep, a file each.
    """

    taints: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    compared_protected: bool = False
    artifacts: tuple[Artifact, ...] = ()


class Artifact(NamedTuple):
    """A file that a run left."""

    path: str  # below the run's folder, with slashes; what is no UTF-8 is escaped
    size_bytes: int
    sha256: str | None  # None where the file was too large to be read within the capture's time


class CodeState(NamedTuple):
    """The code of a command at one time."""

    kind: str | None = None  # which reader made it (such as git or files), or None where it is unknown
    sha256: str | None = None  # of all that the command would run
    tree: str | None = None  # of what is under version control
    commit: str | None = None
    dirty: bool | None = None  # tracked files that count differ from the commit, or the program is not tracked
    files: Mapping[str, str] | None = None  # what differs from the commit, with its content; None where too many
    programs: Mapping[str, str] = {}  # program files that the command names, by their paths below the project
    ignored: str | None = None  # the globs that were left out, as a hash: states under others have other trees
    why: str | None = None  # it is unknown, or under no version control

    def document(self) -> CodeStateDocument:
        """Returns the state as a record keeps it."""
        return {
            "kind": self.kind,
            "sha256": self.sha256,
            "tree": self.tree,
            "commit": self.commit,
            "dirty": self.dirty,
            "files": None if self.files is None else {**self.files},
            "programs": {**self.programs},
            "ignored": self.ignored,
            "why": self.why,
        }

    @staticmethod
    def of(document: object) -> CodeState | None:
        """Returns the state in a record, None where it has none or one that is not understood."""
        if not isinstance(document, Mapping) or not isinstance(document.get("sha256"), str):
            return None
        known = {name: document[name] for name in CodeState._fields if name in document}
        return CodeState(**known)


class CodeReader(ABC):
    """Reads the code of commands in one folder, which it looks at once; see the contract at the top of this module."""

    kinds: ClassVar[tuple[str, ...]]  # of the states that it makes and compares

    @abstractmethod
    def read(self, argv: Sequence[str], cwd: str | None) -> CodeState:
        """Returns the code of a command that would run in `cwd`, a path below the folder."""

    @abstractmethod
    def same(self, before: CodeState, now: CodeState) -> bool | None:
        """Returns whether two states are the same code; None where one of them is unknown."""

    @abstractmethod
    def changed_since(self, before: CodeState, now: CodeState) -> Sequence[str] | None:
        """Returns the paths of files that differ between two states, None where they cannot be named."""


class Isolation(ABC):
    """Keeps the code of one folder, and makes folders for runs of it; see the contract at the top of this module."""

    @abstractmethod
    def check(self) -> None:
        """Raises UsageError, with a hint, where the code of the folder cannot be kept."""

    @abstractmethod
    def keep(self, argv: Sequence[str], cwd: str | None) -> KeptCode:
        """Keeps the code as it lies now; raises UsageError where it cannot, or where the command names the original."""

    def preview(self, argv: Sequence[str]) -> CodePreview | None:
        """Returns what `keep` would keep, with its refusals, and keeps nothing; None, the default: not known."""
        return None

    @abstractmethod
    def check_out(self, key: str, folder: Path, cwd: str | None) -> None:
        """Makes `folder` anew from what was kept; raises Conflict where that is gone or was altered."""

    @abstractmethod
    def variables(self, argv: Sequence[str], env: Mapping[str, str], root: Path) -> Mapping[str, str]:
        """Returns variables of the environment by which a command in `root` finds the copy."""

    @abstractmethod
    def clear(self, runs: Path, may_go_on: Callable[[str], bool], used: Callable[[], set[str]]) -> None:
        """Takes all but what the runs have written out of the folders that were made in `runs`, of runs that are over.

        Removes what was kept by processes that are gone and whose key no record uses.
        """


class Capture(ABC):
    """Base of every capture; see the contract at the top of this module."""

    @abstractmethod
    def before(self, start: RunStart) -> RunFacts:
        """Returns what the run is started from, as far as this capture knows of it."""

    def after(self, end: RunEnd) -> RunChanges:
        """Returns what has changed since the start; nothing by default."""
        return RunChanges()

    def code_reader(self, root: Path, ignored: Sequence[str]) -> CodeReader | None:
        """Returns a reader of the code in `root`, without the globs `ignored`; None, the default, if it reads none."""
        return None

    def isolation(self, root: Path, place: Path) -> Isolation | None:
        """Returns what isolates runs of the code in `root`, kept in the folder `place`; None, the default, if none."""
        return None
