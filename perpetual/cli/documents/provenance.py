"""What a run was started from."""

from __future__ import annotations

from typing import NotRequired

from perpetual.cli.documents.typed import TypedDict


class Untracked(TypedDict):
    """A file that git does not know; where it is not `kept`, `why` says so, and `target` is a link's."""

    path: str
    path_hex: NotRequired[str]
    bytes: NotRequired[int | None]
    mode: NotRequired[str]
    sha256: NotRequired[str | None]
    target: NotRequired[str]
    kept: bool
    why: NotRequired[str]


class ProvenanceCode(TypedDict):
    """The code a run started from; `patch` is a file of the run's folder, and `why` says why there is none."""

    commit: str | None
    branch: str | None
    dirty: bool | None
    remote: str | None
    top: str | None
    patch: str | None
    patch_bytes: int | None
    patch_sha256: str | None
    why: str | None
    untracked: list[Untracked]
    untracked_left_out: int


class Interpreter(TypedDict):
    """The Python of a run; all null but `why` where its command is none that could be recognised."""

    path: str | None
    version: str | None
    packages: dict[str, str] | None
    why: str | None


class ProvenanceMachine(TypedDict):
    """Where a run was started."""

    host: str
    os: str
    kernel: str
    cpus: int | None
    memory_bytes: int | None


class ProtectedFile(TypedDict):
    """A protected path as it was; `seen` is [mtime in ns, ctime in ns, inode], `why` says what could not be read."""

    path: str
    mode: str | None
    bytes: int | None
    sha256: str | None
    target: str | None
    seen: list[int] | None
    young: bool
    why: str | None


class Protected(TypedDict):
    """The protected paths at a run's start."""

    patterns: list[str]
    sha256: str
    files: list[ProtectedFile]
    unmatched: list[str]
    problems: list[str]


class Provenance(TypedDict):
    """What a run was started from; `intact` is null where no hash of it was noted."""

    run: str
    experiment: str
    spec_hash: str
    seed: int
    argv: list[str]
    cwd: str
    git: ProvenanceCode
    environment: dict[str, str | None]
    interpreter: Interpreter
    machine: ProvenanceMachine
    gpus: list[str]
    protected: Protected
    perpetual: str
    captured_at: str
    problems: list[str]
    intact: bool | None
