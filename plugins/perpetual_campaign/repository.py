"""Git, as campaigns use it: worktrees and branches of their own, and nothing of the user's.

The user's branch, index and work tree are never written. Trees are built in an index of our own; a ref moves only from
the value that was seen. No hook of the repository runs, and nothing is signed. Each step may be done again after any
end of the process: it finds what is there already.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.worktrees import linked_worktree

__all__ = ["LARGEST_PATCH", "Changed", "Commit", "Repository"]

LARGEST_PATCH = 16_000_000  # bytes
_LIMIT_S = 120.0
_LONGEST_WHY = 400
_OBJECT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_NONE = "0" * 40
# What the repository's configuration may not do here: run hooks, sign, ask, or leave files out of our worktrees. The
# filters of its attributes run all the same: without them its files would be others.
_PLAIN = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "commit.gpgSign=false", "diff.external=", "gc.auto=0",
    "maintenance.auto=false", "core.quotePath=false", "diff.noprefix=false", "diff.mnemonicPrefix=false",
    "advice.detachedHead=false", "diff.renames=false",
    "core.sparseCheckout=false",
)  # fmt: skip
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


class Changed(NamedTuple):
    """A file that a candidate changes; `size` is None where it is removed."""

    path: str  # from the top of the repository
    mode: str  # as git writes it; "" where it is removed
    size: int | None


class Commit(NamedTuple):
    """What a commit is made of; the same parts make the same id."""

    tree: str
    parent: str
    message: str
    author: str
    when: int  # POSIX, in seconds


class Repository:
    """The git repository around a project."""

    def __init__(self, root: Path) -> None:
        """Looks at the repository; writes nothing.

        Raises:
            UsageError: where there is no repository with a work tree, or no commit yet.
        """
        self.root = Path(os.path.realpath(root))
        found = self._run(["rev-parse", "--show-toplevel", "--show-prefix", "--git-common-dir"], self.root, check=False)
        lines = os.fsdecode(found.stdout).split("\n")
        if found.returncode or len(lines) < 4 or not lines[0]:
            raise UsageError("the project is in no git repository", hint="git init, and commit what is to be improved")
        self.top = Path(lines[0])
        self.below = lines[1].rstrip("/")  # the project's folder, from the top
        self.common = Path(os.path.normpath(os.path.join(self.root, lines[2])))

    # --- running git ------------------------------------------------------------------------------------------------

    def _run(
        self, words: Sequence[str], folder: Path, *, check: bool = True, data: bytes | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:  # fmt: skip
        settings = [part for pair in _PLAIN for part in ("-c", pair)]
        try:
            done = subprocess.run(
                ["git", *settings, *words], cwd=folder, input=data, capture_output=True, check=False,
                timeout=_LIMIT_S, env={**_environment(), **(env or {})},
                stdin=subprocess.DEVNULL if data is None else None,
            )  # fmt: skip
        except FileNotFoundError as problem:
            why = "git is not installed" if shutil.which("git") is None else f"{folder} is not there"
            raise PerpetualError(why, hint="install git, or restore the folder", code="git_failed") from problem
        except subprocess.TimeoutExpired as problem:
            raise PerpetualError(f"git {words[0]} took more than {_LIMIT_S:.0f} s", code="git_failed") from problem
        if check and done.returncode:
            why = " ".join(os.fsdecode(done.stderr).split())[:_LONGEST_WHY]
            raise PerpetualError(f"git {words[0]}: {why or done.returncode}", code="git_failed")
        return done

    def _text(self, *words: str, folder: Path | None = None) -> str:
        return os.fsdecode(self._run(words, folder or self.top).stdout).strip()

    def run(self, words: Sequence[str], *, data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        """Returns what git prints at the top of the repository; raises PerpetualError where it fails."""
        return self._run(words, self.top, data=data, env=env).stdout

    def tried(
        self, words: Sequence[str], *, data: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> bytes | None:
        """Returns what git prints at the top of the repository; None where it fails."""
        done = self._run(words, self.top, data=data, env=env, check=False)
        return None if done.returncode else done.stdout

    # --- looking ----------------------------------------------------------------------------------------------------

    def commit_of(self, name: str, folder: Path | None = None) -> str | None:
        """Returns the id of a commit that a name means, None where it means none."""
        if name.startswith("-"):
            return None
        found = self._run(
            ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], folder or self.top,
            check=False,
        )  # fmt: skip
        text = os.fsdecode(found.stdout).strip()
        return text if not found.returncode and _OBJECT.match(text) else None

    def head(self) -> tuple[str, str | None]:
        """Returns the commit that is checked out, and its branch.

        Raises:
            UsageError: before the first commit.
        """
        commit = self.commit_of("HEAD")
        if commit is None:
            raise UsageError("the repository has no commit yet", hint="git commit what is to be improved")
        return commit, self.branch_of(self.top)

    def branch_of(self, folder: Path) -> str | None:
        """Returns the full name of the branch that a worktree is on; None where its HEAD is detached."""
        found = self._run(["symbolic-ref", "-q", "HEAD"], folder, check=False)
        return os.fsdecode(found.stdout).strip() or None

    def tree_of(self, commit: str) -> str:
        """Returns the id of a commit's tree."""
        return self._text("rev-parse", f"{commit}^{{tree}}")

    def checked_out(self, ref: str) -> str | None:
        """Returns the worktree in which a branch is checked out, None where it is in none."""
        place = None
        for line in self._text("worktree", "list", "--porcelain").splitlines():
            if line.startswith("worktree "):
                place = line.removeprefix("worktree ")
            elif line == f"branch {ref}":
                return place
        return None

    def is_ancestor(self, one: str, other: str) -> bool:
        """Returns whether a commit is the other one or comes before it."""
        return not self._run(["merge-base", "--is-ancestor", one, other], self.top, check=False).returncode

    def is_clean(self, worktree: Path) -> bool:
        """Returns whether nothing in a worktree differs from its commit, and nothing is there that git would add.

        Raises:
            Conflict: as `check_worktree`.
        """
        self.check_worktree(worktree)
        return not self._run(["status", "--porcelain", "-z", "--untracked-files=all"], worktree).stdout

    def changed(self, worktree: Path, base: str) -> list[Changed]:
        """Returns what a worktree has changed since a commit, committed or not, with files that git does not know.

        Nothing is written; a folder with a repository of its own is named with a slash at its end.
        """
        raw = self._run(["diff", "--raw", "-z", "--no-abbrev", *_DIFF, "--ignore-submodules=none", base, "--"],
                        worktree).stdout  # fmt: skip
        words = iter(raw.split(b"\0"))
        modes: dict[str, str] = {}
        for head in words:
            if not head.startswith(b":"):
                break
            _, mode, *_, status = head.decode("ascii").split(" ")
            modes[os.fsdecode(next(words, b""))] = "" if status.startswith("D") else mode
        others = self._run(["ls-files", "-z", "--others", "--exclude-standard"], worktree).stdout
        for name in others.split(b"\0")[:-1]:
            modes[os.fsdecode(name)] = ""
        found = []
        for path, mode in sorted(modes.items()):
            full = worktree / path
            if os.path.isdir(full) and not os.path.islink(full):
                found.append(Changed(path, "160000", 0))
                continue
            try:
                seen = os.lstat(full)
            except OSError:
                found.append(Changed(path, "", None))
                continue
            link = os.path.islink(full)
            found.append(Changed(path, "120000" if link else mode or "100644", seen.st_size))
        return found

    def patch(self, base: str, commit: str) -> bytes:
        """Returns the difference between two commits; raises Refused above 16 MB."""
        data = self._run(["diff", "--binary", "--full-index", *_DIFF, base, commit, "--"], self.top).stdout
        if len(data) > LARGEST_PATCH:
            raise Conflict(f"the difference has {len(data):,} bytes", hint="leave data out of the repository")
        return data

    def patch_id(self, base: str, commit: str) -> str:
        """Returns what a change has in common with itself on another commit: a digest of all but places and objects.

        Unlike git's patch id it tells white space apart, which has a meaning in Python.
        """
        lines = self.patch(base, commit).split(b"\n")
        return sha256(b"\n".join(one for one in lines if not one.startswith((b"index ", b"@@ ")))).hexdigest()

    def names(self, base: str, commit: str) -> list[str]:
        """Returns the files that differ between two commits."""
        out = self._run(["diff", "--name-only", "-z", *_DIFF, base, commit, "--"], self.top).stdout
        return [os.fsdecode(name) for name in out.split(b"\0")[:-1]]

    # --- worktrees --------------------------------------------------------------------------------------------------

    def ensure_worktree(self, folder: Path, *, commit: str, branch: str | None) -> None:
        """Makes a worktree, on a new branch or detached, unless it is there; one that was left unfinished is made anew.

        Args:
            folder: its place; a mark beside it says that it is whole.
            commit: where it starts.
            branch: the full name of its branch, which is made at the commit where it is missing.
        """
        mark = folder.with_name(f".{folder.name}.whole")
        if mark.exists() and (folder / ".git").exists():
            return
        make_folder(folder.parent)
        if os.path.lexists(folder):  # an end of the process came in between, and the place was not announced
            folder.unlink() if folder.is_symlink() else shutil.rmtree(folder)
        if branch is not None and self.commit_of(branch) is None:
            self.move(branch, commit, None)
        add = ["worktree", "add", "--quiet", "--force", "--force"]
        short = None if branch is None else branch.removeprefix("refs/heads/")
        self._run([*add, *(["--detach"] if short is None else []), str(folder), short or commit], self.top)
        write_atomic(mark, b"")

    def ensure_whole(self, folder: Path, commit: str) -> None:
        """Makes a detached worktree that holds a commit and nothing else; one that was edited is put aside.

        Raises:
            Conflict: for a folder that is no worktree of this repository.
        """
        self.ensure_worktree(folder, commit=commit, branch=None)
        if self._holds(folder, commit):
            return
        aside = next(
            one for n in range(1, 10_000) if not os.path.lexists(one := folder.with_name(f"{folder.name}.{n}"))
        )
        self._run(["worktree", "move", "--force", "--force", str(folder), str(aside)], self.top)
        self.ensure_worktree(folder, commit=commit, branch=None)

    def _holds(self, folder: Path, commit: str) -> bool:
        """Returns whether a worktree is as a commit, whatever the flags of its own index hide."""
        self.check_worktree(folder)
        if self.branch_of(folder) is not None or self.commit_of("HEAD", folder) != commit:
            return False
        return self.is_as(folder, commit, ignored=())

    def is_as(self, folder: Path, commit: str, *, ignored: Sequence[str] = ("--exclude-standard",)) -> bool:
        """Returns whether the files of a worktree are those of a commit, wherever its HEAD is.

        Args:
            folder: the worktree.
            commit: which it is held against.
            ignored: what names files that do not count, for `git ls-files`; by default those that git ignores.
        """
        with TemporaryDirectory(prefix="perpetual-campaign-") as place:
            env = {"GIT_INDEX_FILE": os.path.join(place, "index")}
            self._run(["read-tree", commit], folder, env=env)
            if self._run(["diff", "--name-only", *_DIFF, commit, "--"], folder, env=env).stdout:
                return False
            return not self._run(["ls-files", "--others", *ignored], folder, env=env).stdout

    def check_worktree(self, folder: Path) -> None:
        """Raises Conflict for a folder that is no worktree of this repository, whatever its `.git` says."""
        found = linked_worktree(folder)
        here = os.path.realpath(folder)
        is_ours = found is not None and os.path.realpath(found[0]) == here and not folder.is_symlink()
        if found is None or not is_ours or not os.path.samefile(found[1], self.common.parent):
            raise Conflict(f"{folder} is no worktree of {self.top} any more", hint="git worktree list; drop it")

    def commit_all(self, worktree: Path, message: str, author: str, when: int) -> str:
        """Commits all that a candidate's worktree holds on its own branch, and returns the commit of its head."""
        self._run(["add", "-A"], worktree)
        if self._run(["diff", "--cached", "--quiet"], worktree, check=False).returncode:
            words = ["commit", "-q", "--no-verify", "--no-gpg-sign", "--cleanup=verbatim", "-F", "-"]
            self._run(words, worktree, data=message.encode(), env=_signed(author, when))
        return self._text("rev-parse", "HEAD", folder=worktree)

    def reset_worktree(self, worktree: Path, commit: str) -> None:
        """Lets a candidate's clean worktree, and the branch that it is on, stand at another commit."""
        self._run(["reset", "-q", "--hard", commit], worktree)

    def remove_worktree(self, folder: Path, *, base: str | None = None) -> bool:
        """Removes a worktree that holds nothing of its own; of one with edits only its branch is let go.

        Args:
            folder: its place.
            base: a commit whose files are no edits either.

        Returns:
            Whether it is gone.
        """
        mark = folder.with_name(f".{folder.name}.whole")
        if not (folder / ".git").exists():
            mark.unlink(missing_ok=True)
            return not os.path.lexists(folder)
        if not self.is_clean(folder) and (base is None or not self.is_as(folder, base)):
            self._run(["checkout", "-q", "--detach"], folder)
            return False
        self._run(["worktree", "remove", "--force", "--force", str(folder)], self.top)
        mark.unlink(missing_ok=True)
        return True

    # --- commits and refs -------------------------------------------------------------------------------------------

    def applied(self, base: str, commit: str, onto: str) -> str | None:
        """Returns the tree of a change on another commit, None where it does not apply; touches no index but ours."""
        data = self.patch(base, commit)
        with TemporaryDirectory(prefix="perpetual-campaign-") as place:
            env = {"GIT_INDEX_FILE": os.path.join(place, "index")}
            self._run(["read-tree", onto], self.top, env=env)
            if data:
                words = ["apply", "--cached", "--3way", "--whitespace=nowarn", "-"]
                if self._run(words, self.top, env=env, data=data, check=False).returncode:
                    return None
            return os.fsdecode(self._run(["write-tree"], self.top, env=env).stdout).strip()

    def write(self, wanted: Commit) -> str:
        """Writes a commit, and returns its id; the branch that names it moves by `move`."""
        words = ["commit-tree", "--no-gpg-sign", wanted.tree, "-p", wanted.parent, "-F", "-"]
        out = self._run(words, self.top, data=wanted.message.encode(), env=_signed(wanted.author, wanted.when)).stdout
        return os.fsdecode(out).strip()

    def move(self, ref: str, to: str, before: str | None) -> None:
        """Moves a ref of ours from the commit that it was seen at; where it is there already nothing is done.

        Raises:
            Conflict: where it stands elsewhere.
        """
        now = self.commit_of(ref)
        if now == to:
            return
        if now == before:
            done = self._run(["update-ref", "--no-deref", ref, to, before or _NONE[: len(to)].ljust(len(to), "0")],
                             self.top, check=False)  # fmt: skip
            if not done.returncode or self.commit_of(ref) == to:
                return
            now = self.commit_of(ref)
        short, at, left = ref.removeprefix("refs/heads/"), (now or "nothing")[:12], (before or "nothing")[:12]
        raise Conflict(f"{short} stands at {at}, where {left} was left",
                       hint="a campaign moves no branch that another has moved; give that commit a branch of its own "
                       f"and put {short} back")  # fmt: skip

    def delete(self, ref: str, at: str) -> None:
        """Deletes a ref of ours that is at a commit; of one that is elsewhere, gone, or checked out, nothing."""
        if self.commit_of(ref) == at and self.checked_out(ref) is None:
            self._run(["update-ref", "-d", "--no-deref", ref, at], self.top, check=False)


def _environment() -> dict[str, str]:
    """Returns the environment without what another git has set for its own repository."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")
    }
    return kept | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1",
                   "GIT_EDITOR": "true"}  # fmt: skip


def _signed(author: str, when: int) -> dict[str, str]:
    name = re.sub(r"[<>\n\r\0]", " ", author).strip() or "perpetual"
    date = f"@{when} +0000"
    return {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": "perpetual@localhost", "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_NAME": "perpetual", "GIT_COMMITTER_EMAIL": "perpetual@localhost",
            "GIT_COMMITTER_DATE": date}  # fmt: skip
