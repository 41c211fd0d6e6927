"""The version of the code that a command would run: what git tracks as it lies in the folder, and the program itself.

Two states are the same code if the same files have the same contents, whichever commit holds them: committing what was
run already, or a change of files that `code_ignore` names, makes no new version. Without git the version is that of the
program files that the command names. Nothing of the repository is written, and no program that its configuration names
is started (see `git_snapshot`). What cannot be read within the limits is unknown: None, with a reason.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, NamedTuple

from perpetual.api import CodeReader, CodeState
from perpetual_provenance.git_snapshot import (
    EMPTY_TREE,
    NOT_OURS,
    Git,
    GitFailed,
    Site,
    borrowed,
    look,
    overrides,
    refuse_no_repository,
)

__all__ = ["HASHED_BYTES", "Ignore", "Reader", "programs_named"]

_MOST_BYTES = 64_000_000  # of a listing: some 600,000 files
HASHED_BYTES = 256_000_000  # of tracked files that differ from the commit
_PROGRAM_BYTES = 16_000_000
_MOST_PROGRAMS = 32
_MOST_WORDS = 200
_MOST_CHANGED = 200  # files kept by name in the record
_MOST_PATTERNS = 100
_LONGEST_PATTERN = 200
_PROGRAMS = frozenset({".py", ".pyw", ".ipynb", ".sh", ".bash", ".zsh", ".r", ".jl", ".lua", ".pl", ".rb", ".js",
                       ".mjs", ".cjs", ".ts", ".php", ".m", ".scala", ".awk"})  # fmt: skip
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_NO_GIT = ("no git repository", "git is not installed", "outside its repository", "is bare")


class Ignore:
    """The globs of `code_ignore`.

    One without a slash means a file or folder of that name anywhere; one with a slash a path from the top of the
    repository or from the project's folder, `**` any folders. A folder's pattern covers what lies below it.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: list[re.Pattern[str]] = []
        self._paths: list[list[re.Pattern[str] | None]] = []  # None: any folders
        for pattern in [*patterns][:_MOST_PATTERNS]:
            parts = [part for part in pattern.split("/") if part not in ("", ".")]
            if not parts or len(pattern) > _LONGEST_PATTERN:
                continue
            is_path = "/" in pattern.rstrip("/")
            while len(parts) > 1 and parts[-1] == "**":
                parts.pop()  # a folder's pattern covers what lies below it anyway
            if is_path and parts != ["**"]:
                self._paths.append([None if part == "**" else re.compile(translate(part)) for part in parts])
            else:
                self._names.append(re.compile(translate(parts[0])))
        self._is_named = lru_cache(maxsize=10_000)(self._named)

    def _named(self, name: str) -> bool:
        return any(pattern.match(name) for pattern in self._names)

    def matches(self, path: str) -> bool:
        """Returns whether a path, with slashes, is left out."""
        parts = path.split("/")
        return any(map(self._is_named, parts)) or any(_covers(pattern, parts) for pattern in self._paths)


def _covers(pattern: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Returns whether a pattern means the path or a folder above it. Compares each part with each place once."""
    places = {0}  # of the pattern, after the parts so far
    for part in parts:
        further = set()
        for start in places:
            place = start
            while (expected := pattern[place]) is None:  # any folders, none among them
                further.add(place)
                place += 1
            if expected.match(part):
                if place + 1 == len(pattern):
                    return True
                further.add(place + 1)
        places = further
    return False


class _Tree(NamedTuple):
    """The files that git tracks and that count, as they lie in the folder."""

    site: Site
    digest: str
    tracked: frozenset[str]
    changed: dict[str, str]  # those that differ from the commit: path -> mode and blob, "" where removed


class Reader(CodeReader):
    """Reads the code of commands in one folder; the repository once, however many commands it is asked about."""

    kinds: ClassVar[tuple[str, ...]] = ("git", "files")

    def __init__(self, root: Path, ignored: Iterable[str], *, hashed_bytes: int = HASHED_BYTES) -> None:
        self._hashed_bytes = hashed_bytes
        self._root = Path(os.path.realpath(root))
        patterns = [*ignored]
        self._ignore, self._ignored = Ignore(patterns), _digest(sorted(patterns))[:16]

    def read(self, argv: Sequence[str], cwd: str | None) -> CodeState:
        """Returns the code of a command that would run in `cwd`, a path below the folder."""
        programs = {path: digest for path, digest in _programs(self._root, argv, cwd) if not self._ignore.matches(path)}
        found = self._tree
        if isinstance(found, str):
            if not any(words in found for words in _NO_GIT):
                return CodeState(programs=programs, why=found)
            if not programs:
                return CodeState(why=f"{found}, and the command names no program below its folder")
            return CodeState("files", _digest(sorted(programs.items())), programs=programs, why=found)
        top = os.path.realpath(found.site.top)
        places = {path: os.path.relpath(self._root / path, top) for path in programs}
        loose = sorted((path, digest) for path, digest in programs.items() if places[path] not in found.tracked)
        files = found.changed if len(found.changed) <= _MOST_CHANGED else None
        identity = _digest((found.digest, loose)) if loose else found.digest
        commit, dirty = found.site.commit, bool(found.changed or loose)
        return CodeState("git", identity, found.digest, commit, dirty, files, programs, self._ignored)

    def same(self, before: CodeState, now: CodeState) -> bool | None:
        """Returns whether two states are the same code; None where one of them is unknown."""
        if before.sha256 is None or now.sha256 is None:
            return None
        if before.kind == "files" and now.kind == "git":  # a repository was made of the folder since
            return all(now.programs.get(path) == digest for path, digest in before.programs.items())
        if before.kind == now.kind == "git" and before.ignored != now.ignored:
            return self.changed_since(before, now) == []
        return before.sha256 == now.sha256

    def changed_since(self, before: CodeState, now: CodeState) -> list[str] | None:
        """Returns the paths of files that differ between two states of the folder, None where they cannot be named."""
        named = {
            path for path in (*before.programs, *now.programs) if before.programs.get(path) != now.programs.get(path)
        }
        if before.kind == now.kind == "files":
            return sorted(named)
        if before.kind != "git" or now.kind != "git" or before.files is None:
            return sorted(named) or None
        if before.commit == now.commit and now.files is not None and before.ignored == now.ignored:
            since: Mapping[str, str] = now.files
        elif before.commit is None or not _COMMIT.match(before.commit):
            return sorted(named) or None
        else:
            try:
                since = _tree_of(self._root, before.commit, self._ignore, self._hashed_bytes).changed
            except (GitFailed, OSError):
                return sorted(named) or None
        differing = {
            path
            for path in (*before.files, *since)
            if before.files.get(path) != since.get(path) and not self._ignore.matches(path)
        }
        return sorted(differing | named)

    @cached_property
    def _tree(self) -> _Tree | str:
        """Returns what git tracks, or why it cannot be had."""
        try:
            return _tree_of(self._root, None, self._ignore, self._hashed_bytes)
        except (GitFailed, OSError) as problem:
            return str(problem)


def _digest(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()


# --- what git tracks ------------------------------------------------------------------------------------------------


def _tree_of(root: Path, commit: str | None, ignore: Ignore, hashed_bytes: int) -> _Tree:
    """Returns what git tracks, compared with a commit, by default with the one that is checked out.

    Raises:
        GitFailed: if it cannot be had within the limits.
    """
    refuse_no_repository(str(root))  # before a folder and a thread are made for what git says
    with TemporaryDirectory(prefix="perpetual-code-") as place, Git(Path(place)) as git:
        site, config = look(git, str(root))
        environment = borrowed(site, config, git.scratch)
        base = ["git", *overrides(config)]
        length = 64 if config.get("extensions.objectformat") == "sha256" else 40
        tree = commit or site.commit or EMPTY_TREE[length]
        listing = git.start([*base, "ls-tree", "-r", "-z", "--full-tree", tree], site.top, environment)
        raw = [*base, "diff", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
               "--no-color", "--ignore-submodules=dirty", tree, "--", ":(top)", NOT_OURS]  # fmt: skip
        differing = git.start(raw, site.top, environment)
        below = os.path.relpath(root, os.path.realpath(site.top)).split(os.sep)
        prefix = "" if below == ["."] else "/".join(below) + "/"

        def counts(path: str) -> bool:
            if ".perpetual" in path.split("/") or ignore.matches(path):
                return False
            return not (prefix and path.startswith(prefix) and ignore.matches(path[len(prefix) :]))

        files = {}
        for line in _read(git, listing).split(b"\0")[:-1]:
            head, _, name = line.partition(b"\t")
            mode, _, blob = head.decode("ascii").split(" ")
            if counts(_text(name)):
                files[_text(name)] = f"{mode} {blob}"
        changed = {}
        changes = _changes(_read(git, differing))
        for path, entry in _contents(git, base, site, environment, changes, length, hashed_bytes):
            if counts(path) and files.get(path, "") != entry:
                changed[path] = entry
        files |= changed
        digest = _digest(sorted(item for item in files.items() if item[1]))
        tracked = frozenset(path for path, entry in files.items() if entry)
        return _Tree(site, digest, tracked, {_shown(path): entry for path, entry in changed.items()})


class _Change(NamedTuple):
    path: str
    mode: str  # "" where it was removed
    blob: str | None  # None where the content must be hashed


def _changes(data: bytes) -> list[_Change]:
    """Parses the output of `git diff --raw -z`."""
    found = []
    words = iter(data.split(b"\0"))
    for head in words:
        if not head.startswith(b":"):
            break
        path = _text(next(words, b""))
        _, mode, _, blob, status = head.decode("ascii").split(" ")
        found.append(_Change(path, "" if status.startswith("D") else mode, blob if blob.strip("0") else None))
    return found


def _contents(
    git: Git,
    base: Sequence[str],
    site: Site,
    environment: Mapping[str, str],
    changes: Sequence[_Change],
    length: int,
    hashed_bytes: int,
) -> Iterable[tuple[str, str]]:
    """Paths with `mode blob` as git would store them, "" where removed.

    Line ends are converted as git does; a filter that would have to be run is not known here.
    """
    plain: list[_Change] = []
    left = hashed_bytes
    for change in changes:
        if not change.mode or change.blob is not None:
            yield change.path, f"{change.mode} {change.blob}" if change.mode else ""
            continue
        full = os.path.join(os.fsencode(site.top), _name(change.path))
        try:
            seen = os.lstat(full)
            target = os.readlink(full) if stat.S_ISLNK(seen.st_mode) else b""
        except OSError:
            yield change.path, ""  # removed since
            continue
        if stat.S_ISLNK(seen.st_mode):
            digest = hashlib.new("sha256" if length == 64 else "sha1", b"blob %d\0" % len(target) + target)
            yield change.path, f"120000 {digest.hexdigest()}"
        elif stat.S_ISREG(seen.st_mode):
            left -= seen.st_size
            if left < 0:
                raise GitFailed(f"more than {hashed_bytes} bytes of tracked files differ from the commit")
            if "\n" in change.path or change.path.startswith('"'):
                raise GitFailed("a changed file has a name that git cannot be given")
            plain.append(change)
        else:
            yield change.path, f"{change.mode} changed"  # a repository of its own, or no file
    if plain:
        names = git.scratch / "names"
        names.write_bytes(b"".join(_name(change.path) + b"\n" for change in plain))
        hashing = git.start([*base, "hash-object", "--stdin-paths"], site.top, environment, fed=names)
        blobs = _read(git, hashing).decode("ascii").split()
        if len(blobs) != len(plain):
            raise GitFailed("a tracked file was removed while it was read")
        yield from ((change.path, f"{change.mode} {blob}") for change, blob in zip(plain, blobs, strict=True))


def _read(git: Git, process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    data = process.stdout.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise GitFailed("the repository has more files than are compared")
    process.wait()
    if process.returncode:
        raise GitFailed(git.why(process))
    return data


def _text(name: bytes) -> str:
    """Returns a path as text; odd bytes are escaped in a way that `_name` reverts."""
    return name.decode("utf-8", "surrogateescape")


def _name(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _shown(path: str) -> str:
    """Returns a path as the record takes it: odd bytes escaped."""
    return _name(path).decode("utf-8", "backslashreplace")


# --- what the command names -----------------------------------------------------------------------------------------


def _programs(root: Path, argv: Sequence[str], cwd: str | None) -> Iterable[tuple[str, str]]:
    """Yields the program files below the folder that a command names, each with the hash of its content."""
    found: dict[str, str] = {}
    for name in programs_named(argv):
        full = Path(os.path.realpath(os.path.join(root, cwd or ".", name)))
        if not full.is_relative_to(root) or len(found) >= _MOST_PROGRAMS:
            continue
        path = full.relative_to(root).as_posix()
        if path in found or ".perpetual" in full.relative_to(root).parts:
            continue
        digest = _content(full)
        if digest is not None:
            found[_shown(path)] = digest
    return found.items()


def programs_named(argv: Sequence[str]) -> Iterable[str]:
    """Yields the words of a command that may name program files."""
    words: list[str] = []
    for word in argv[:_MOST_WORDS]:
        inner = [word]
        if " " in word:  # as in sh -c 'python train.py'
            try:
                inner = shlex.split(word)
            except ValueError:
                inner = word.split()
        words += inner[:_MOST_WORDS]
    for place, word in enumerate(words):
        if "\0" in word:
            continue
        if place == 0 and "/" in word:
            yield word
        elif words[max(0, place - 1)] == "-m" and place:
            module = word.replace(".", "/")
            yield from (f"{module}.py", f"{module}/__main__.py")
        elif os.path.splitext(word)[1].lower() in _PROGRAMS:
            yield word.partition("=")[2] if word.startswith("-") else word


def _content(path: Path) -> str | None:
    try:
        descriptor = os.open(path, _OPEN)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        seen = os.fstat(file.fileno())
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > _PROGRAM_BYTES:
            return None
        try:
            return hashlib.sha256(file.read(_PROGRAM_BYTES)).hexdigest()
        except OSError:
            return None
