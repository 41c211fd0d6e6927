"""Trees of git that hold an edit, made of objects alone: no file of a worktree is written, and no link is followed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import NamedTuple

from perpetual.api import Refused, line
from perpetual_campaign.repository import Changed, Repository

__all__ = ["Listed", "blob", "changes", "listed", "tree_by_diff", "tree_with"]

_PLAIN_FILE = "100644"
_FILES = ("100644", "100755")


class Listed(NamedTuple):
    """A file of a commit."""

    path: str  # from the top of the repository
    mode: str
    object: str
    size: int


def listed(git: Repository, commit: str) -> list[Listed]:
    """Returns the files, links and submodules of a commit."""
    found = []
    for entry in git.run(["ls-tree", "-r", "-z", "--long", "--full-tree", commit]).split(b"\0")[:-1]:
        head, _, path = entry.partition(b"\t")
        mode, _, object, size = head.decode("ascii").split()
        found.append(Listed(os.fsdecode(path), mode, object, int(size) if size.isdecimal() else 0))
    return found


def blob(git: Repository, object: str) -> bytes:
    """Returns the content of a file."""
    return git.run(["cat-file", "blob", object])


def tree_with(git: Repository, base: str, files: Mapping[str, bytes]) -> str:
    """Returns the tree of a commit with files of new contents, each in the mode that it has.

    Raises:
        Refused: (link) for a path that is a link or a submodule there, or lies below a file; (folder) for a folder;
            (outside) for one that git takes for none.
    """
    known = {one.path: one for one in listed(git, base)}
    lines = []
    for path, data in files.items():
        there = known.get(path)
        parts = path.split("/")
        if any(other.startswith(f"{path}/") for other in known):
            raise Refused(f"{line(path)} is a folder", hint="name the files in it", code="folder")
        above = next((one for place in range(1, len(parts)) if (one := "/".join(parts[:place])) in known), None)
        if above is not None or (there is not None and there.mode not in _FILES):
            raise Refused(f"{line(above or path)} is no folder or no plain file", code="link",
                          hint="put the files themselves there")  # fmt: skip
        object = git.run(["hash-object", "-w", "--stdin"], data=data).decode("ascii").strip()
        mode = _PLAIN_FILE if there is None else there.mode
        lines.append(f"{mode} {object}\t".encode() + os.fsencode(path) + b"\0")
    with TemporaryDirectory(prefix="perpetual-campaign-") as place:
        env = {"GIT_INDEX_FILE": os.path.join(place, "index")}
        git.run(["read-tree", base], env=env)
        done = git.tried(["update-index", "-z", "--index-info"], data=b"".join(lines), env=env)
        tree = git.run(["write-tree"], env=env).decode("ascii").strip()
    # A path that git takes for none, such as one that some file system reads as .git, is left out without an error.
    if done is None or files.keys() - {one.path for one in listed(git, tree)}:
        raise Refused("git takes a path for none", hint="a path from the project's folder", code="outside")
    return tree


def tree_by_diff(git: Repository, base: str, diff: str) -> str | None:
    """Returns the tree of a commit with a unified diff, whose paths are from the project's folder; None if none.

    Counts of lines in its hunks may be wrong, which is how models write them.
    """
    data = (diff if diff.endswith("\n") else f"{diff}\n").encode()
    with TemporaryDirectory(prefix="perpetual-campaign-") as place:
        env = {"GIT_INDEX_FILE": os.path.join(place, "index")}
        git.run(["read-tree", base], env=env)
        words = ["apply", "--cached", "--recount", "--whitespace=nowarn"]
        words += [f"--directory={git.below}"] if git.below else []
        if git.tried([*words, "-"], data=data, env=env) is None:
            return None
        return git.run(["write-tree"], env=env).decode("ascii").strip()


def changes(git: Repository, base: str, tree: str) -> list[Changed]:
    """Returns what a tree changes of a commit."""
    sizes = {one.path: one for one in listed(git, tree)}
    found = []
    for path in git.names(base, tree):
        one = sizes.get(path)
        found.append(Changed(path, "", None) if one is None else Changed(path, one.mode, one.size))
    return found
