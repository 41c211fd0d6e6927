"""Isolated runs: the code as it lies at an approval is kept, and each run gets a folder of its own that is made of it.

What is kept are the bytes of the files that git tracks, as they lie in the work tree (so are those of Git LFS and of
submodules), and of the small untracked files that git does not ignore: in `isolate/blobs` by their sha256, once however
many approvals share them, and a list of them in `isolate/codes`. A run's folder holds real copies, never hard links:
a hard link is the same file, so a program that opens one for writing would change every other run's. Large files are
copied by the kernel, which shares their blocks until they are written where the file system can (btrfs, XFS).

Each folder has a small repository of its own, which borrows the objects of the user's: `git rev-parse HEAD` there
answers the commit that was approved, and nothing of it is seen by the user's `git worktree list` or `git status`. What
git ignores is data: folders and large files are links to the originals, small files are copied as they lie at the
start. Files that may hold secrets are never copied; they are links.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, NamedTuple, TypedDict

from perpetual.api import Conflict, Isolation, UsageError
from perpetual.toolkit import platform
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.confined import make_folder, read_bytes
from perpetual.toolkit.lock import FileLock
from perpetual_provenance.code_version import programs_named
from perpetual_provenance.git_snapshot import NOT_OURS, Git, GitFailed, borrowed, look, overrides, own_environment
from perpetual_provenance.python_env import editable_folders
from perpetual_provenance.secret_files import may_hold_secret, names_secret
from perpetual_provenance.untracked import LIMITS as KEPT

if TYPE_CHECKING:
    from perpetual.documents.provenance import CodePreview, KeptCode

__all__ = ["LIMITS", "Code", "Copies", "Limits", "refuse_original"]

_NOT_LINKED = {".perpetual", ".git", "__pycache__"}
_PIECE = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_LARGEST_LIST = 256_000_000
_DRAFT_S = 3600.0  # no writer takes so long between a temporary file and its name
_HINT = "leave --isolate out (--no-isolate)"


class Limits(NamedTuple):
    """How much code is kept and laid out."""

    files: int = 200_000
    total_bytes: int = 2_000_000_000
    links: int = 20_000
    small_bytes: int = 1_000_000  # an ignored file up to this size is copied, a larger one is linked


LIMITS = Limits()


class _File(TypedDict):
    path: str  # from the top; odd bytes as surrogates
    mode: int  # 0 of a link
    sha256: str  # of a link the target
    mtime_ns: int


class _Repository(TypedDict):
    path: str  # from the top, "" for the top itself
    commit: str | None
    index: str | None  # a blob
    sha256: bool  # the form of its objects
    exclude: str
    modified: list[str] | None  # where filters are: the files that git takes for changed


class Code(TypedDict):
    """What an approval keeps."""

    top: str
    below: str
    repositories: list[_Repository]
    files: list[_File]
    linked: list[str]


class Copies(Isolation):
    """Keeps copies of the code around one folder, and makes folders for runs of them."""

    def __init__(self, root: Path, place: Path, limits: Limits = LIMITS) -> None:
        self._root, self._place, self._limits = Path(os.path.realpath(root)), place, limits

    # --- keeping ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises UsageError outside of a git work tree."""
        try:
            with TemporaryDirectory(prefix="perpetual-code-") as scratch, Git(Path(scratch)) as git:
                look(git, str(self._root))
        except GitFailed as problem:
            raise _refused(problem) from problem

    def keep(self, argv: Sequence[str], cwd: str | None) -> KeptCode:
        """Keeps the files that git tracks and the small ones that it does not know, as they lie now."""
        make_folder(self._place)
        with FileLock(self._place / "lock"):
            mark = self._mark()
            try:
                code = self.gathered()
            except GitFailed as problem:
                raise _refused(problem) from problem
            refuse_original(argv, code)
            data = json.dumps(code).encode("ascii")
            key = sha256(data).hexdigest()
            make_folder(self._place / "codes")
            write_atomic(self._place / "codes" / f"{key}.json", data)
            write_atomic(mark, json.dumps({"by": list(_me()), "key": key}))
        return {"key": key, "below": code["below"]}

    def preview(self, argv: Sequence[str]) -> CodePreview:
        """Returns what `keep` would keep now; reads names and sizes, and no file of the project."""
        from perpetual_provenance.isolation_preview import Survey

        try:
            return Survey(self._root, self._place, self._limits).found(argv)
        except GitFailed as problem:
            raise _refused(problem) from problem

    def _mark(self) -> Path:
        """Returns the mark of what this process keeps, which is written before anything is kept."""
        make_folder(self._place / "new")
        mark = self._place / "new" / f"{os.getpid()}-{time.time_ns()}"
        write_atomic(mark, json.dumps({"by": list(_me()), "key": None}))
        return mark

    def gathered(self) -> Code:
        """Keeps the files as they lie now, and returns the list of them; raises GitFailed where git has failed."""
        files: dict[str, _File] = {}
        repositories: list[_Repository] = []
        linked: list[str] = []
        top = self._gather(str(self._root), "", files, repositories, linked)
        below = os.path.relpath(self._root, os.path.realpath(top))
        return {
            "top": top,
            "below": "" if below == "." else below,
            "repositories": repositories,
            "files": [files[path] for path in sorted(files)],
            "linked": sorted(linked),
        }

    def _gather(
        self, root: str, path: str, files: dict[str, _File], repositories: list[_Repository], linked: list[str]
    ) -> str:
        """Keeps the files of one repository and of its submodules; returns its top."""
        with TemporaryDirectory(prefix="perpetual-code-") as scratch, Git(Path(scratch)) as git:
            site, config = look(git, root)
            environment, base = borrowed(site, config, git.scratch), ["git", *overrides(config)]
            whole = bool(path) or config.get("status.showuntrackedfiles", "").lower() not in ("no", "false", "off", "0")
            tracked = _names(git, [*base, "ls-files", "-z", "-s", "--full-name", "--", ":(top)", NOT_OURS], site.top,
                             environment)  # fmt: skip
            others = _names(git, [*base, "ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ".",
                                  NOT_OURS], site.top if whole else root, environment)  # fmt: skip
            has_split = any(name.startswith("sharedindex.") for name in os.listdir(git.scratch / "git"))
            index = None if has_split else self._stored_index(git.scratch / "git" / "index")
            exclude = git.scratch / "git" / "info" / "exclude"
            names = [entry.partition("\t")[2] for entry in tracked]
            modified = None
            if any(_names_filters(os.path.join(site.top, name)) for name in names if name.endswith(".gitattributes")):
                modified = _names(git, [*base, "diff-files", "--name-only", "-z"], site.top, environment)
            repositories.append({
                "path": path, "commit": site.commit, "index": index, "modified": modified,
                "sha256": config.get("extensions.objectformat") == "sha256",
                "exclude": exclude.read_text("utf-8", "surrogateescape") if exclude.exists() else "",
            })  # fmt: skip
        inner = []
        real = _RealFolders(site.top)
        for entry in tracked:
            head, _, name = entry.partition("\t")
            if head.startswith("160000"):
                inner.append(name)
            elif real.holds(name) and names_secret(name):
                linked.append(os.path.join(path, name))
            elif real.holds(name):
                self._keep(site.top, path, name, files)
        left, count = KEPT.kept_bytes, 0
        for name in others:
            full = os.path.join(site.top, name)
            size = None if name.endswith("/") else _small_size(full)
            is_full = size is None or size > min(left, KEPT.kept_file_bytes) or count >= KEPT.kept_files
            if size is None or is_full or _has_secret(name, full):
                linked.append(os.path.join(path, name).rstrip("/"))
                continue
            left, count = left - size, count + 1
            self._keep(site.top, path, name, files)
        for name in inner:
            if os.path.lexists(os.path.join(site.top, name, ".git")):
                self._gather(os.path.join(site.top, name), os.path.join(path, name), files, repositories, linked)
        return site.top

    def _keep(self, top: str, path: str, name: str, files: dict[str, _File]) -> None:
        full, shown = os.path.join(top, name), os.path.join(path, name)
        try:
            seen = os.lstat(full)
            if stat.S_ISLNK(seen.st_mode):
                target = os.readlink(full)
                files[shown] = {"path": shown, "mode": 0, "sha256": target, "mtime_ns": seen.st_mtime_ns}
            elif stat.S_ISREG(seen.st_mode):
                digest = self.stored(full)
                files[shown] = {"path": shown, "mode": stat.S_IMODE(seen.st_mode) & 0o777, "sha256": digest,
                                "mtime_ns": seen.st_mtime_ns}  # fmt: skip
                self.kept_bytes += seen.st_size
        except FileNotFoundError:
            return  # removed in the work tree
        if len(files) > self._limits.files or self.kept_bytes > self._limits.total_bytes:
            raise UsageError(f"git tracks more than {self._limits.files:,} files or {self._limits.total_bytes:,} bytes",
                             hint=f"have git ignore the data; or {_HINT}")  # fmt: skip

    kept_bytes = 0

    def _stored_index(self, path: Path) -> str | None:
        return self.stored(str(path)) if path.exists() else None

    def stored(self, full: str) -> str:
        """Returns the sha256 of a file that is among the blobs now."""
        with open(full, "rb") as file:
            data = file.read(_PIECE)
            if len(data) < _PIECE:
                digest = sha256(data).hexdigest()
                if not (blob := self._blob(digest)).exists():
                    self._write(blob, lambda target: target.write(data))
                return digest
            whole = sha256(data)
            while piece := file.read(_PIECE):
                whole.update(piece)
            digest = whole.hexdigest()
            if not (blob := self._blob(digest)).exists():
                self._write(blob, lambda target: _copy_content(file, target))
                if _hash_of(blob) != digest:
                    blob.unlink()
                    raise UsageError(f"{full} was written while it was kept", hint="try again")
            return digest

    def _blob(self, digest: str) -> Path:
        return self._place / "blobs" / digest[:2] / digest

    def _write(self, blob: Path, fill: Callable[[IO[bytes]], object]) -> None:
        make_folder(blob.parent)
        draft = blob.with_name(f".{os.getpid()}-{blob.name}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o400), "wb") as target:
            fill(target)
        os.replace(draft, blob)

    # --- folders of runs --------------------------------------------------------------------------------------------

    def check_out(self, key: str, folder: Path, cwd: str | None) -> None:
        """Lays the kept files out in `folder`, with links to what git ignores; refuses files that were altered."""
        code = self._code(key)
        # The project may have been moved since.
        code["top"] = str(self._root.parents[code["below"].count("/")] if code["below"] else self._root)
        mark = self._place / "live" / folder.parent.name  # until it is cleared
        make_folder(mark.parent)
        write_atomic(mark, json.dumps({"key": key, "top": code["top"], "copied": {}}))
        _remove_tree(folder)
        make_folder(folder)
        made: dict[str, None] = {}
        for item in code["files"]:
            _make_parent(str(folder), item["path"], made)
            self._lay(item, code, os.path.join(folder, item["path"]))
        copied: dict[str, list[int]] = {}
        for repository in code["repositories"]:
            here = _ignored(os.path.join(code["top"], repository["path"]).rstrip("/"))
            links = self._link_data(code, repository["path"], here.ignored, str(folder), made, copied)
            self._make_repository(repository, folder / repository["path"], here.objects, links)
            _refresh(folder / repository["path"], here.options, repository["modified"])
        os.makedirs(folder / code["below"], exist_ok=True)
        if _leads_away(folder / code["below"] / (cwd or "."), folder):
            raise Conflict(f"the working directory {cwd} is ignored by git, so that no copy of it is made", hint=_HINT)
        write_atomic(mark, json.dumps({"key": key, "top": code["top"], "copied": copied}))

    def _code(self, key: str) -> Code:
        gone = Conflict("the copy of the code that was approved is gone or was altered",
                        hint="approve the experiment again: perpetual approve EXPERIMENT")  # fmt: skip
        try:
            data = read_bytes(self._place / "codes" / f"{key}.json", limit=_LARGEST_LIST)
        except OSError as problem:
            raise gone from problem
        if sha256(data).hexdigest() != key:
            raise gone
        found: Code = json.loads(data)
        return found

    def _lay(self, item: _File, code: Code, target: str) -> None:
        if not item["mode"]:
            to = item["sha256"]
            leads = os.path.normpath(os.path.join(os.path.dirname(item["path"]), to))
            if not os.path.isabs(to) and leads.split(os.sep)[0] == "..":
                to = os.path.normpath(os.path.join(code["top"], leads))  # it leads out of the repository
            os.symlink(to, target)
            return
        self._lay_blob(item["sha256"], target, item["mode"] | 0o600)
        os.utime(target, ns=(item["mtime_ns"], item["mtime_ns"]))

    def _lay_blob(self, digest: str, target: str, mode: int) -> None:
        blob = self._blob(digest)
        try:
            found = os.open(blob, _READ)  # its content is compared, wherever it is
        except OSError as problem:
            raise _altered(blob) from problem
        with open(found, "rb", buffering=0) as source, open(target, "xb", buffering=0) as file:
            os.fchmod(file.fileno(), mode)
            data = source.read(_PIECE)
            if len(data) < _PIECE:
                file.write(data)
                is_same = sha256(data).hexdigest() == digest
            else:
                _copy_content(source, file)
                is_same = _hash_of(Path(target)) == digest
        if not is_same:
            with FileLock(self._place / "lock"):
                if blob.exists() and _hash_of(blob) != digest:  # none has written it anew meanwhile
                    blob.unlink()  # so that the next approval does
            raise _altered(blob)

    def _link_data(
        self,
        code: Code,
        inner: str,
        ignored: Sequence[str],
        folder: str,
        made: dict[str, None],
        copied: dict[str, list[int]],
    ) -> list[str]:
        """Makes links to what git ignores and what was too large to keep; returns those that git is to ignore."""
        links = []
        own = [path for path in code["linked"] if not inner]
        for path in (*(os.path.join(inner, name).rstrip("/") for name in ignored), *own):
            full, target = os.path.join(code["top"], path), os.path.join(folder, path)
            if _NOT_LINKED & {*path.split("/")} or os.path.lexists(target) or not os.path.lexists(full):
                continue
            _make_parent(folder, path, made)
            size = _small_size(full)
            if path in own or size is None or size > self._limits.small_bytes or _has_secret(path, full):
                os.symlink(full, target)
                links += [] if path in own else [os.path.relpath(path, inner) if inner else path]
            else:
                shutil.copyfile(full, target, follow_symlinks=False)
                shutil.copystat(full, target, follow_symlinks=False)
                seen = os.lstat(target)
                copied[path] = [seen.st_size, seen.st_mtime_ns]
            if len(links) + len(copied) > self._limits.links:
                raise Conflict(f"git ignores more than {self._limits.links:,} files beside the code",
                               hint=f"have it ignore their folders; or {_HINT}")  # fmt: skip
        return links

    def _make_repository(self, repository: _Repository, folder: Path, objects: str, links: Sequence[str]) -> None:
        """Makes a repository that borrows the objects of the user's, so that git answers in a run as it did there."""
        os.makedirs(folder, exist_ok=True)
        own = folder / ".git"
        for name in ("refs/heads", "objects/info", "info"):
            (own / name).mkdir(parents=True)
        settings = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n\tlogallrefupdates = false\n"
        settings += "[extensions]\n\tobjectformat = sha256\n" if repository["sha256"] else ""
        (own / "config").write_text(settings)
        (own / "HEAD").write_text(f"{repository['commit']}\n" if repository["commit"] else "ref: refs/heads/none\n")
        (own / "objects" / "info" / "alternates").write_text(objects + "\n", "utf-8", "surrogateescape")
        patterns = [repository["exclude"], *("/" + re.sub(r"([\\*?\[!# ])", r"\\\1", link) for link in links), ""]
        (own / "info" / "exclude").write_text("\n".join(patterns), "utf-8", "surrogateescape")
        if repository["index"] is not None:
            self._lay_blob(repository["index"], str(own / "index"), 0o600)

    def variables(self, argv: Sequence[str], env: Mapping[str, str], root: Path) -> dict[str, str]:
        """Returns PYTHONPATH with the copy in the place of the original, packages installed as editable included."""
        given = [entry for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
        editable = editable_folders(argv, self._root, env)
        entries = [*given, *(folder for folder in editable if folder not in given)]
        found = []
        for entry in entries:
            real = Path(os.path.realpath(entry))
            is_own = os.path.isabs(entry) and real.is_relative_to(self._root)
            found.append(str(root / real.relative_to(self._root)) if is_own else entry)
        return {"PYTHONPATH": os.pathsep.join(found)} if found else {}

    # --- clearing ---------------------------------------------------------------------------------------------------

    def clear(self, runs: Path, may_go_on: Callable[[str], bool], used: Callable[[], set[str]]) -> None:
        """Clears the folders of runs that are over, then what no record names of what was kept."""
        live = self._place / "live"
        over = [name for name in _listed(live) if not (_is_being_written(live / name) or may_go_on(name))]
        lock = FileLock(self._place / "lock")
        if not (over or _listed(self._place / "new")) or not lock.acquire(blocking=False):
            return  # or another process is at it
        problems = []
        try:
            for name in over:
                try:
                    self._clear(runs / name / "copy", live / name)
                    (live / name).unlink(missing_ok=True)
                except OSError as problem:  # the others are cleared all the same
                    problems.append(problem)
            self._sweep(used)
        finally:
            lock.release()
        if problems:
            raise problems[0]

    def _clear(self, folder: Path, mark: Path) -> None:
        """Removes what was laid out and is as it was; what the run has written or changed stays where it is."""
        top, copied, code = "", dict[str, list[int]](), None
        try:
            record = json.loads(read_bytes(mark, limit=_LARGEST_LIST))
            top, copied = str(record["top"]), {**record["copied"]}
            code = self._code(str(record["key"]))
        except (OSError, ValueError, LookupError, TypeError, Conflict):
            pass  # it is cleared as far as it is known what was laid out
        if not os.path.isdir(folder) or os.path.islink(folder):
            return
        files = {item["path"]: item for item in code["files"]} if code else {}
        for repository in code["repositories"] if code else []:
            _remove_tree(folder / repository["path"] / ".git", below=folder)
        for base, folders, names, at in os.fwalk(folder, topdown=False, follow_symlinks=False):
            below = os.path.relpath(base, folder)
            for name in (*names, *folders):
                path = name if below == "." else os.path.join(below, name)
                if _is_as_laid(path, name, at, files.get(path), copied.get(path), top):
                    os.unlink(name, dir_fd=at)
            for name in folders:
                try:
                    os.rmdir(name, dir_fd=at)
                except OSError:
                    continue  # it holds what the run has written, or is a link of the run's own
        try:
            folder.rmdir()
        except OSError:
            return

    def _sweep(self, used: Callable[[], set[str]]) -> None:
        """Removes what processes have kept that died before a record named it."""
        marks = {name: _mark_of(self._place / "new" / name) for name in _listed(self._place / "new")}
        dead = {name: key for name, (by, key) in marks.items() if by is None or not platform.is_alive(by)}
        if not dead:
            return
        keys = used() | {key for name, (_, key) in marks.items() if name not in dead and key is not None}
        for name in _listed(self._place / "codes"):
            if name.removesuffix(".json") not in keys:
                (self._place / "codes" / name).unlink()
        if len(dead) == len(marks):
            self._sweep_blobs()
        for name in dead:
            (self._place / "new" / name).unlink()

    def _sweep_blobs(self) -> None:
        needed: set[str] = set()
        for name in _listed(self._place / "codes"):
            try:
                code = self._code(name.removesuffix(".json"))
            except Conflict:
                return  # what it needs is not known any more
            needed |= {item["sha256"] for item in code["files"] if item["mode"]}
            needed |= {each["index"] for each in code["repositories"] if each["index"] is not None}
        for part in _listed(self._place / "blobs"):
            for blob in _listed(self._place / "blobs" / part):
                if blob not in needed:
                    (self._place / "blobs" / part / blob).unlink()


# --- small parts ----------------------------------------------------------------------------------------------------


def _refused(problem: GitFailed) -> UsageError:
    return UsageError(f"the code cannot be isolated: {problem}", hint=f"git init and git add it; or {_HINT}")


def refuse_original(argv: Sequence[str], code: Code) -> None:
    """Raises UsageError where a command names a file by the path of the original."""
    known = {item["path"] for item in code["files"]}
    for word in programs_named(argv):
        inside = os.path.relpath(os.path.realpath(word), code["top"]) if os.path.isabs(word) else None
        if inside in known:
            raise UsageError(f"the command names {inside} by its absolute path, which is not the copy",
                             hint="name it from the working directory, as in python train.py")  # fmt: skip


def _altered(blob: Path) -> Conflict:
    return Conflict(f"the copy of the code that was approved was altered ({blob.name[:12]})",
                    hint="approve the experiment again: perpetual approve EXPERIMENT")  # fmt: skip


def _is_being_written(mark: Path) -> bool:
    """Returns whether a file is the temporary one of a mark whose writer may live: it is renamed within moments."""
    try:
        return mark.name.startswith(".") and time.time() - mark.stat().st_mtime < _DRAFT_S
    except FileNotFoundError:
        return True  # it was renamed just now


def _me() -> tuple[str, int, int]:
    found = platform.identity_of(os.getpid())
    return (found.boot_id, found.pid, found.start_ticks) if found is not None else ("", os.getpid(), 0)


def _mark_of(path: Path) -> tuple[platform.Identity | None, str | None]:
    try:
        found = json.loads(read_bytes(path, limit=10_000))
        return platform.Identity(*found["by"]), found["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


class _RealFolders:
    """Says of paths whether they lie in folders of the work tree itself, and not behind a link."""

    def __init__(self, top: str) -> None:
        self._known = {"": True}
        self._top = top

    def holds(self, path: str) -> bool:
        """Returns whether no folder above the path is a link."""
        folder = os.path.dirname(path)
        if folder not in self._known:
            self._known[folder] = self.holds(folder) and not os.path.islink(os.path.join(self._top, folder))
        return self._known[folder]


def _names(git: Git, words: Sequence[str], cwd: str, environment: Mapping[str, str]) -> list[str]:
    process = git.start(words, cwd, environment)
    data = git.read(process)
    if process.returncode:
        raise GitFailed(git.why(process))
    return [name for name in data.decode("utf-8", "surrogateescape").split("\0") if name]


class _Here(NamedTuple):
    """A work tree now: what git ignores, of folders that hold nothing else their names alone."""

    ignored: list[str]
    options: list[str]  # of git, as its configuration has them
    objects: str


def _ignored(top: str) -> _Here:
    try:
        with TemporaryDirectory(prefix="perpetual-code-") as scratch, Git(Path(scratch)) as git:
            site, config = look(git, top)
            words = ["git", *overrides(config), "ls-files", "-z", "--others", "--ignored", "--exclude-standard",
                     "--directory", "--full-name", "--", ".", NOT_OURS]  # fmt: skip
            found = _names(git, words, site.top, borrowed(site, config, git.scratch))
            return _Here(found, overrides(config), os.path.realpath(site.objects))
    except GitFailed as problem:
        raise Conflict(f"what git ignores cannot be read: {problem}", hint="try again: perpetual scan") from problem


def _names_filters(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"filter=" in file.read(KEPT.kept_file_bytes)
    except OSError:
        return False


def _refresh(folder: Path, options: Sequence[str], modified: Sequence[str] | None) -> None:
    """Has git note which files are those of the index, so that no look at the folder hashes all of them again.

    Filters (Git LFS) are programs and are not started, so files that went through one are marked as unchanged, unless
    they were among the `modified` ones.
    """
    with TemporaryDirectory(prefix="perpetual-code-") as scratch, Git(Path(scratch)) as git:
        words = ["git", *options, "update-index", "-q", "--really-refresh"]
        environment = {**own_environment(folder / ".git"), "GIT_WORK_TREE": str(folder)}
        git.read(git.start(words, str(folder), environment))  # it fails where a file differs, which is known
        if modified is None:
            return
        differing = _names(git, ["git", *options, "diff-files", "--name-only", "-z"], str(folder), environment)
        fed = Path(scratch, "filtered")
        fed.write_bytes(b"".join(os.fsencode(name) + b"\0" for name in differing if name not in {*modified}))
        words = ["git", *options, "update-index", "--assume-unchanged", "-z", "--stdin"]
        git.read(git.start(words, str(folder), environment, fed=fed))


def _small_size(full: str) -> int | None:
    """Returns the size of a file, 0 of a link, None of anything else."""
    try:
        seen = os.lstat(full)
    except OSError:
        return None
    if stat.S_ISLNK(seen.st_mode):
        return 0
    return seen.st_size if stat.S_ISREG(seen.st_mode) else None


def _has_secret(path: str, full: str) -> bool:
    if os.path.islink(full):
        return False
    try:
        with open(full, "rb") as file:
            return names_secret(path) or may_hold_secret(path, file.read(KEPT.kept_file_bytes))
    except OSError:
        return True


def _copy_content(source: IO[bytes], target: IO[bytes]) -> None:
    """Copies a whole file; where the file system can, both share their blocks until one is written."""
    left, at = os.fstat(source.fileno()).st_size, 0
    try:
        while left > 0 and (done := os.copy_file_range(source.fileno(), target.fileno(), left, at)):
            left, at = left - done, at + done
    except (AttributeError, OSError):
        source.seek(at)
        shutil.copyfileobj(source, target, _PIECE)
    target.flush()


def _hash_of(path: Path) -> str:
    whole = sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            whole.update(piece)
    return whole.hexdigest()


def _make_parent(folder: str, path: str, made: dict[str, None]) -> None:
    parent = os.path.dirname(path)
    if parent not in made:
        os.makedirs(os.path.join(folder, parent), exist_ok=True)
        made[parent] = None


def _leads_away(path: Path, folder: Path) -> bool:
    """Returns whether a link lies on the way from a folder to a path below it."""
    below = os.path.relpath(path, folder)
    return os.path.realpath(path) != os.path.normpath(os.path.join(os.path.realpath(folder), below))


def _remove_tree(path: Path, below: Path | None = None) -> None:
    """Removes a folder with all that is in it, and follows no link, neither in it nor, from `below` on, above it."""
    if below is not None and _leads_away(path.parent, below):
        return
    if os.path.islink(path):
        path.unlink()
    elif os.path.isdir(path):
        shutil.rmtree(path)


def _is_as_laid(path: str, name: str, at: int, item: _File | None, copied: list[int] | None, top: str) -> bool:
    """Returns whether a file or link is one that was laid out and is as it was; of bytecode always."""
    try:
        seen = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISLNK(seen.st_mode):
            target = os.readlink(name, dir_fd=at)
            return target == os.path.join(top, path) or (item is not None and not item["mode"])
        if not stat.S_ISREG(seen.st_mode):
            return False
        if name.endswith(".pyc") and "__pycache__" in path.split("/"):
            return True
        if copied is not None and [seen.st_size, seen.st_mtime_ns] == copied:
            return True
        if item is None or not item["mode"]:
            return False
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at), "rb") as file:
            whole = sha256()
            while piece := file.read(_PIECE):
                whole.update(piece)
        return whole.hexdigest() == item["sha256"]
    except OSError:
        return False


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
