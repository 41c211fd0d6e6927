"""Provenance of a run."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict


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
    redacted: NotRequired[bool]  # secrets were taken out of the copy; `sha256` is the file's own


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
    patch_left_out: NotRequired[list[str]]  # files whose changes are not in it: they may hold a secret
    patch_redacted: NotRequired[list[str]]  # files whose changes had secrets taken out, which may keep it from applying
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
    """The protected paths at a run's start; `sha256`, `files` and `unmatched` are null if no capture looked at them."""

    patterns: list[str]
    sha256: str | None
    files: list[ProtectedFile] | None
    unmatched: list[str] | None
    problems: list[str]


class KeptCode(TypedDict):
    """A copy of code that isolated runs start from: its key, and where the project lies in it ("" is its top)."""

    key: str
    below: str


class CodePreview(TypedDict):
    """What a copy of the code would hold; `diff_bytes` is of the changes that are not committed, null: no commit."""

    commit: str | None
    diff_bytes: int | None
    files: int
    size_bytes: int
    linked: int  # files and folders that are links to the originals, beside what git ignores


class CodeStateDocument(TypedDict):
    """The code of a command at one time, as `CodeState` in `perpetual.api` explains it."""

    kind: str | None
    sha256: str | None
    tree: str | None
    commit: str | None
    dirty: bool | None
    files: dict[str, str] | None
    programs: dict[str, str]
    ignored: str | None
    why: str | None
    kept: NotRequired[KeptCode]


class CodeVersion(TypedDict):
    """Hashes: of what git tracks, of the globs that were left out, and of the program files that the command names."""

    tree: str | None
    ignored: str | None
    programs: dict[str, str]


class Versions(TypedDict):
    """What a run was made of, as far as it is known: runs of different versions are not pooled."""

    code: CodeVersion | None
    data: str | None
    environment: str | None


class Need(TypedDict):
    """A file, such as `e3/model.pt`, that a run has left and another starts from."""

    artifact: str
    run_id: str
    size_bytes: int
    sha256: str | None


class Provenance(TypedDict):
    """What a run was started from; `intact` is null where no hash of it was noted.

    A fact that no capture answered is null. Further captures add facts under names of their own.
    """

    run: str
    experiment: str
    spec_hash: str
    seed: int
    argv: list[str]
    cwd: str
    git: ProvenanceCode | None
    versions: NotRequired[Versions]  # which older runs do not have
    environment: dict[str, str | None] | None
    interpreter: Interpreter | None
    machine: ProvenanceMachine | None
    gpus: list[str]
    needs: NotRequired[list[Need]]  # what it started from of other runs
    protected: Protected
    perpetual: str
    captured_at: str
    problems: list[str]
    intact: bool | None
