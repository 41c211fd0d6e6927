"""The code a run starts from, kept beside it: commit, patch, and the files that git does not know.

Used by `capture`, and by `code_version` for its git commands. `git apply` of the patch on the commit, and the
untracked files copied over it, give the tree again.

A repository's own configuration can name programs: filters, text conversions, monitors, hooks, diff drivers. Looking
at foreign code must not run it, so the two commands that read file contents never see that configuration: they work
on a repository folder of our own, made for the moment, which borrows the objects and a copy of the index. What changes
how bytes are compared and is no program (line ends, file modes) is taken over by name; an attribute that asks for a
filter finds none. The copied index also means that nothing in the user's repository is written or locked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from perpetual.api import GitState, Redactor
from perpetual.toolkit.atomic import write_atomic
from perpetual_provenance.patches import without_secrets
from perpetual_provenance.untracked import LIMITS, UNTRACKED, Limits, Untracked, keep_untracked

__all__ = ["EMPTY_TREE", "NOT_OURS", "PATCH", "UNTRACKED", "Code", "Git", "GitFact", "GitFailed", "Site", "borrowed",
           "capture_code", "look", "overrides", "own_environment",
           "refuse_no_repository"]  # fmt: skip

PATCH = "code.patch"

_NAMED = 10  # files of a sentence
_TAIL_BYTES = 2_000  # of git's complaints
_NO_REPOSITORY = "the project is in no git repository"
_COMMANDS = ("rev-parse", "diff", "ls-files", "ls-tree", "hash-object", "update-index", "diff-files")
EMPTY_TREE = {40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
               64: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"}  # fmt: skip
# Keys that decide how contents are compared and name no program.
_HARMLESS = ("core.autocrlf", "core.eol", "core.filemode", "core.symlinks", "core.ignorecase", "core.precomposeunicode",
             "core.excludesfile", "core.trustctime", "core.checkstat", "core.checkroundtripencoding")  # fmt: skip
_ALSO = (r"extensions\.objectformat", r"status\.showuntrackedfiles", r"remote\..*\.url")
_WANTED = f"^({'|'.join((*map(re.escape, _HARMLESS), *_ALSO))})$"
NOT_OURS = ":(top,exclude,glob)**/.perpetual/**"  # the record is not the code


class GitFact(Untracked):
    """The fact `git`; `why` says why there is no patch."""

    commit: str | None
    branch: str | None
    dirty: bool | None
    remote: str | None
    top: str | None
    patch: str | None
    patch_bytes: int | None
    patch_sha256: str | None
    patch_left_out: list[str]
    patch_redacted: list[str]
    why: str | None


class Code(NamedTuple):
    """What was found: for the run's record, for its provenance, and what could not be had."""

    state: GitState
    document: GitFact
    problems: list[str]


class GitFailed(Exception):
    """A git command that did not answer; the text says why."""


class Site(NamedTuple):
    """A work tree and the places of its repository."""

    top: str
    index_file: str
    objects: str
    exclude: str
    commit: str | None
    branch: str | None


def capture_code(root: Path, folder: Path, redactor: Redactor, limits: Limits = LIMITS) -> Code:
    """Keeps the code around `root` in the run's `folder`. What cannot be had is a problem in words, never an error.

    Raises:
        OSError: if the folder cannot be written.
    """
    document: GitFact = {
        "commit": None,
        "branch": None,
        "dirty": None,
        "remote": None,
        "top": None,
        "patch": None,
        "patch_bytes": None,
        "patch_sha256": None,
        "patch_left_out": [],
        "patch_redacted": [],
        "why": None,
        "untracked": [],
        "untracked_left_out": 0,
    }
    problems: list[str] = []
    for name in (PATCH, UNTRACKED):  # of a launcher that died over this run
        _remove(folder / name)
    try:
        with Git(folder, redactor, limit_s=limits.git_s) as git:
            found, config = look(git, str(root))
            document |= {
                "commit": found.commit,
                "branch": found.branch,
                "remote": _remote(redactor, config),
                "top": found.top,
            }
            _keep(git, redactor, str(root), found, config, folder, document, problems, limits)
    except GitFailed as problem:
        problems.append(str(problem))
        document["why"] = document["why"] or str(problem)
    return Code(GitState(document["commit"], document["dirty"]), document, problems)


def _keep(
    git: Git,
    redactor: Redactor,
    root: str,
    site: Site,
    config: Mapping[str, str],
    folder: Path,
    document: GitFact,
    problems: list[str],
    limits: Limits,
) -> None:
    """Keeps the patch and the untracked files; the two commands run side by side."""
    environment = borrowed(site, config, git.scratch)
    base = ["git", *overrides(config)]
    tree = site.commit or EMPTY_TREE[64 if config.get("extensions.objectformat") == "sha256" else 40]
    # Renames are left as removals and additions: finding them is quadratic, and the tree is the same.
    diff = [*base, "diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
            "--submodule=short", "--ignore-submodules=dirty", tree, "--", ":(top)", NOT_OURS]  # fmt: skip
    others = [*base, "ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ".", NOT_OURS]
    # Where git is configured to leave out untracked files (as in a home folder), only the project's own are listed.
    has_limit = config.get("status.showuntrackedfiles", "").lower() in ("no", "false", "off", "0")
    differing = git.start(diff, site.top, environment)
    listing = git.start(others, root if has_limit else site.top, environment)
    _patch(git, redactor, differing, folder / PATCH, document, problems, limits.patch_bytes)
    names = [name for name in git.read(listing).split(b"\0") if name]
    if listing.returncode:
        raise GitFailed(git.why(listing))
    keep_untracked(redactor, os.fsencode(site.top), names, folder / UNTRACKED, document, problems, limits)
    if document["patch_bytes"] is not None or names:
        document["dirty"] = bool(document["patch_bytes"] or names)
    submodules = os.path.join(site.top, ".gitmodules")
    if os.path.lexists(submodules):
        problems.append("submodules are recorded by their commits; changes inside them are not kept")


# --- the repository -------------------------------------------------------------------------------------------------


def look(git: Git, root: str) -> tuple[Site, dict[str, str]]:
    """Returns the place of the repository around `root`, and what of its configuration matters.

    Raises:
        GitFailed: outside a work tree, or without git.
    """
    refuse_no_repository(root)
    asked = ["git", "rev-parse", "--is-bare-repository", "--is-inside-work-tree", "--git-path", "index",
             "--git-path", "objects", "--git-path", "info/exclude", "--git-path", "HEAD",
             "--show-toplevel", "--verify", "HEAD"]  # fmt: skip
    environment = _clean_environment()
    places = git.start(asked, root, environment)
    configured = git.start(["git", "config", "-z", "--get-regexp", _WANTED], root, environment)
    lines = os.fsdecode(git.read(places)).split("\n")[:-1]
    pairs = os.fsdecode(git.read(configured)).split("\0")[:-1]
    if places.returncode and lines[:1] == ["true"]:
        raise GitFailed("the repository here is bare: it has no files that a run could start from")
    if places.returncode and lines[1:2] == ["false"]:
        raise GitFailed("the project lies outside its repository's work tree")
    if len(lines) not in (7, 8) or (places.returncode and len(lines) == 8):
        raise GitFailed(git.why(places))
    index, objects, exclude, head = (os.path.join(root, line) for line in lines[2:6])
    commit = lines[7] if len(lines) == 8 else None
    config = dict(pair.partition("\n")[::2] for pair in pairs)  # the last of several values is in force
    return Site(lines[6], index, objects, exclude, commit, _branch(head)), config


def refuse_no_repository(root: str) -> None:
    """Raises GitFailed where git would find no repository: starting it twice costs 5 ms, at every look of a launch.

    Where there may be one, or git or the folder is missing, this raises nothing: starting git reports what is wrong.
    """
    place = os.path.realpath(root)
    if not os.path.isdir(place) or shutil.which("git") is None:
        return
    while not _may_be_repository(place):
        above = os.path.dirname(place)
        if above == place:
            raise GitFailed(_NO_REPOSITORY)
        place = above


def _may_be_repository(place: str) -> bool:
    """Returns whether git looks closer at the folder: it holds `.git`, or looks like a bare repository."""
    return os.path.lexists(os.path.join(place, ".git")) or all(
        os.path.lexists(os.path.join(place, name)) for name in ("HEAD", "objects", "refs")
    )


def _branch(head: str) -> str | None:
    """Returns the branch that is checked out; None if HEAD is detached."""
    try:
        with open(head, encoding="utf-8", errors="replace") as file:
            text = file.readline(4096).strip()
    except OSError:
        return None
    name = text.removeprefix("ref: refs/heads/")
    return name if name != text and name != ".invalid" else None  # `.invalid` marks another kind of refs


def _remote(redactor: Redactor, config: Mapping[str, str]) -> str | None:
    remotes = [value for key, value in config.items() if key.startswith("remote.")]
    found = config.get("remote.origin.url") or (remotes[0] if remotes else None)
    return redactor.text(found) if found else None


def borrowed(site: Site, config: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Returns the environment of a command that works on the repository without its configuration."""
    own = scratch / "git"
    for name in ("refs", "info"):
        (own / name).mkdir(parents=True)
    sha256_objects = config.get("extensions.objectformat") == "sha256"
    settings = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n"
    settings += "[extensions]\n\tobjectformat = sha256\n" if sha256_objects else ""
    (own / "config").write_text(settings)
    (own / "HEAD").write_text(site.commit or "ref: refs/heads/none")
    _copy(site.exclude, own / "info" / "exclude")
    index = own / "index"
    if _copy(site.index_file, index):
        seen = os.stat(site.index_file)
        # A file younger than the index is compared by its content, so the copy must be as old as the original.
        os.utime(index, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    folder = os.path.dirname(site.index_file)
    for name in os.listdir(folder):
        if name.startswith("sharedindex."):  # the greater part of an index that is split
            os.symlink(os.path.join(folder, name), own / name)
    return own_environment(own) | {"GIT_WORK_TREE": site.top, "GIT_OBJECT_DIRECTORY": site.objects}


def own_environment(repository: Path) -> dict[str, str]:
    """Returns the environment of a command on a repository of our own, without the user's configuration."""
    return _clean_environment() | {
        "GIT_DIR": str(repository),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "HOME": str(repository),  # where versions before 2.32 look
        "XDG_CONFIG_HOME": str(repository),
    }


def overrides(config: Mapping[str, str]) -> list[str]:
    """Returns git's options that keep a repository's own configuration from running programs."""
    words = ["-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"]
    known = {key: value for key, value in config.items() if key in _HARMLESS}
    ignore = known.get("core.excludesfile") or os.path.join(
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "git", "ignore"
    )
    known["core.excludesfile"] = os.path.expanduser(ignore)
    for key, value in known.items():
        words += ["-c", f"{key}={value}"]
    return words


def _clean_environment() -> dict[str, str]:
    """Ours without what points git to another repository, at programs, or at a network."""
    kept = {"GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CEILING_DIRECTORIES",
            "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH"}  # fmt: skip
    found = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in kept}
    return found | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "LC_ALL": "C.UTF-8",
    }


# --- the commands ---------------------------------------------------------------------------------------------------


class Git:
    """The commands of one look, and a folder for the moment; all have ended within `limit_s`, or are ended.

    Without a redactor, git's own words are left out of what `why` answers.
    """

    def __init__(self, folder: Path, redactor: Redactor | None = None, *, limit_s: float = LIMITS.git_s) -> None:
        self._limit_s = limit_s
        self._redactor = redactor
        self.scratch = folder / ".capture"
        self._started: list[subprocess.Popen[bytes]] = []
        self._timer = threading.Timer(limit_s, self._end)
        self._is_over = False

    def __enter__(self) -> Git:
        _remove(self.scratch)
        self.scratch.mkdir(mode=0o700)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()  # no thread is left for the next fork
        for process in self._started:
            process.kill()  # nothing happens to one that has ended and was waited for
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        _remove(self.scratch)

    @property
    def is_over(self) -> bool:
        """Returns whether the time for all of its commands is used up."""
        return self._is_over

    def _end(self) -> None:
        self._is_over = True
        for process in [*self._started]:
            process.kill()

    def start(
        self, words: Sequence[str], cwd: str, environment: Mapping[str, str], *, fed: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Starts a command whose output is a pipe; `fed` is the file that it reads, if it reads any."""
        try:
            # Complaints go to a file: two pipes of one process would have to be read at the same time.
            with (
                open(self.scratch / f"{len(self._started)}.err", "wb") as complaints,
                open(fed or os.devnull, "rb") as read,
            ):
                process = subprocess.Popen(
                    words, cwd=cwd, env=environment, stdin=read, stdout=subprocess.PIPE, stderr=complaints
                )
        except FileNotFoundError as problem:
            raise GitFailed("git is not installed here" if os.path.isdir(cwd) else f"{cwd} is gone") from problem
        except OSError as problem:
            raise GitFailed(f"git cannot be started: {problem}") from problem
        self._started.append(process)
        if self._is_over:
            process.kill()
        return process

    def read(self, process: subprocess.Popen[bytes]) -> bytes:
        """Reads all that the process writes; it has ended then."""
        assert process.stdout is not None
        data = process.stdout.read()
        process.wait()
        return data

    def why(self, process: subprocess.Popen[bytes]) -> str:
        """Returns why it ended without success, in git's own words where it gave any."""
        words = process.args
        assert isinstance(words, list)
        command = next(word for word in words if word in _COMMANDS)
        if self._is_over:
            return f"git {command} took longer than {self._limit_s:g} s"
        with open(self.scratch / f"{self._started.index(process)}.err", "rb") as file:
            text = file.read(_TAIL_BYTES).decode("utf-8", "replace").strip()
        if "not a git repository" in text:
            return _NO_REPOSITORY
        first = "" if self._redactor is None else self._redactor.text(text.split("\n")[0])
        return f"git {command} ended with status {process.returncode}" + (f": {first}" if first else "")


# --- what is kept ---------------------------------------------------------------------------------------------------


def _patch(
    git: Git,
    redactor: Redactor,
    process: subprocess.Popen[bytes],
    path: Path,
    document: GitFact,
    problems: list[str],
    most_bytes: int,
) -> None:
    """Streams the patch into its file; one that is too long is only hashed."""
    assert process.stdout is not None
    digest, size, file = sha256(), 0, None
    try:
        while piece := os.read(process.stdout.fileno(), 1 << 20):
            digest.update(piece)
            size += len(piece)
            if file is None:
                file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
            if size <= most_bytes:
                file.write(piece)
        process.wait()
        if file is not None:
            file.flush()
            os.fsync(file.fileno())
    finally:
        if file is not None:
            file.close()
    if process.returncode:
        _remove(path)
        why = git.why(process)
        document["why"] = why
        problems.append(why)
        return
    document |= {"patch_bytes": size, "patch_sha256": digest.hexdigest()}
    if size == 0:
        document["why"] = "nothing that git knows was changed" if document["commit"] else "git knows no file yet"
    elif size > most_bytes:
        _remove(path)
        why = f"the patch has {size} bytes, more than the {most_bytes} that are kept; its hash is"
        document["why"] = why
        problems.append(why)
    else:
        document["patch"] = PATCH
        _take_out_secrets(redactor, path, document, problems)


def _take_out_secrets(redactor: Redactor, path: Path, document: GitFact, problems: list[str]) -> None:
    """Rewrites the kept patch without secrets; what it misses then is named, since it restores less."""
    patch = path.read_bytes()
    kept = without_secrets(redactor, patch)
    if kept.patch != patch:
        write_atomic(path, kept.patch)
    document |= {"patch_left_out": kept.left_out, "patch_redacted": kept.redacted}
    for names, what in ((kept.left_out, "left out: may hold a secret"), (kept.redacted, "kept with secrets taken out")):
        if names:
            shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
            problems.append(f"changes of {shown} are {what}")


def _copy(source: str, target: Path) -> bool:
    """Copies a file; False if there is none: an index that was never written, a repository without excludes."""
    try:
        shutil.copyfile(source, target)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
