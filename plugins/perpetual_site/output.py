"""Files of a site: written in one step each, left where nothing changed, removed where the record has no such page.

`site.json` lists what the site has written, each file with its SHA-256. It is written first, with the files to come,
and last, with those that there are: a call that was cut off anywhere leaves a list in which all of its files are.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.confined import Confined, UnsafePath
from perpetual.toolkit.foreign import parse_json

__all__ = ["MANIFEST", "Folder", "Manifest", "Page", "Saved"]

MANIFEST = "site.json"
SCHEMA = "perpetual.site/1"
# What a page may be called: two levels, and nothing that leads anywhere else.
_NAME = re.compile(r"(?:[a-z]{1,20}/)?[a-z0-9]{1,30}\.html\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{12}\.tmp\Z")
_LARGEST = 64 * 1024 * 1024  # bytes of a page


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `site.json` says: whose site it is, of which state of the record, and its files.

    `project` is a hash of the project's id, `debits` counts the rows of the budget's ledger. Files are by their path,
    each with its SHA-256; one that is empty is of a file that was to be written.
    """

    project: str
    seq: int
    debits: int
    files: Mapping[str, str]

    def json(self) -> str:
        """Returns the file's text, one page a line."""
        files = dict(sorted(self.files.items()))
        document = {"schema": SCHEMA, "project": self.project, "seq": self.seq, "debits": self.debits, "files": files}
        return json.dumps(document, indent=1) + "\n"


class Page(NamedTuple):
    """A page by its SHA-256; `text` is called if it is to be written."""

    sha256: str
    text: Callable[[], str]


@dataclass(slots=True)
class Saved:
    """What became of the pages."""

    written: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


class Folder:
    """A folder with a site, or one that is to have one."""

    def __init__(self, path: Path) -> None:
        """Opens nothing yet."""
        self.path = path
        self._inside = Confined(path, any_owner=True)

    def manifest(self) -> Manifest | None:
        """Returns what the site's list says; None where there is none.

        Raises:
            UsageError: for a file of that name that is no such list.
        """
        try:
            text = self._read(MANIFEST).decode()
            found = parse_json(text)
        except FileNotFoundError:
            return None
        except (ValueError, UnsafePath) as problem:
            raise _no_site(self.path) from problem
        return _manifest(found, self.path)

    def own(self) -> list[str]:
        """Returns the files that the site's list names, and the list itself; raises as `manifest`."""
        found = self.manifest()
        return [] if found is None else [MANIFEST, *found.files]

    def digest(self) -> str:
        """Returns the SHA-256 of the site's list; empty where there is none."""
        return self._hash(MANIFEST)

    def unchanged(self, digest: str) -> Saved | None:
        """Returns what `save` would answer for the pages that stand here; None where one does not stand as it was made.

        Args:
            digest: the SHA-256 of the list that was written with them.
        """
        with _named(self.path):
            listed = self.manifest() if self.digest() == digest else None
            if listed is None or any(self._hash(name) != known or not known for name, known in listed.files.items()):
                return None
            self._sweep(listed.files)
            return Saved(unchanged=sorted(listed.files, key=_in_order))

    def save(self, pages: Mapping[str, Page], project: str, seq: int, debits: int) -> Saved:
        """Writes the pages, `index.html` last, and removes those of an earlier call that the record has not.

        Raises:
            UsageError: for a folder that is a link or no folder, or has a link inside where a page is to be.
            Conflict: for a folder with other files, or the site of another project.
            PerpetualError: where it cannot be written.
        """
        with _named(self.path):
            before = self._prepared(pages, project)
            old = before.files if before is not None else {}
            saved, made = Saved(), dict(old)
            is_same = before is not None and (before.seq, before.debits) == (seq, debits) and pages.keys() == old.keys()
            if not is_same:
                self._list(Manifest(project, seq, debits, {**dict.fromkeys(pages, ""), **old}))
            for name in sorted(pages, key=_in_order):
                made[name] = pages[name].sha256
                if self._hash(name) == made[name]:
                    saved.unchanged.append(name)
                    continue
                self._make_folders(name)
                write_atomic(self.path / name, pages[name].text().encode(), mode=0o644, durable=False)
                saved.written.append(name)
            for name in sorted(old.keys() - pages.keys()):
                (saved.removed if self._remove(name, old[name]) else saved.kept).append(name)
                del made[name]
            final = Manifest(project, seq, debits, made)
            if not is_same or made != old:
                self._list(final)
            self._sweep(made)
            return saved

    def _prepared(self, pages: Mapping[str, Page], project: str) -> Manifest | None:
        """Makes the folder, and returns the list of an earlier call. Writes nothing where the folder is not ours."""
        assert all(_NAME.match(name) for name in pages)
        try:
            state = os.lstat(self.path)
        except FileNotFoundError:
            self.path.mkdir(parents=True)
            return None
        if not stat.S_ISDIR(state.st_mode):
            what = "a link" if stat.S_ISLNK(state.st_mode) else "no folder"
            raise UsageError(f"{self.path} is {what}", hint="name a folder of its own for the site")
        before = self.manifest()
        if before is None:
            with os.scandir(self.path) as found:
                other = sorted(entry.name for entry in found if not _is_temporary(entry.name, [MANIFEST]))
            if other:
                raise Conflict(
                    f"{self.path} holds other files, such as {other[0]}, and no site",
                    hint="name an empty folder, or one that `perpetual report --site` made",
                )
        elif before.project != project:
            raise Conflict(f"{self.path} holds the site of another project", hint="name another folder")
        known = before.files.keys() if before is not None else set()
        for name in sorted(pages.keys() - known):
            if os.path.lexists(self.path / name):
                raise Conflict(f"{self.path / name} is no page of this site", hint="move it away")
        return before

    def _list(self, manifest: Manifest) -> None:
        write_atomic(self.path / MANIFEST, manifest.json(), mode=0o644)

    def _read(self, name: str) -> bytes:
        return self._inside.read_bytes(name, limit=_LARGEST)

    def read(self, name: str) -> str | None:
        """Returns a page's text; None where it cannot be read."""
        try:
            return self._read(name).decode()
        except (OSError, ValueError):
            return None

    def _hash(self, name: str) -> str:
        try:
            return sha256(self._read(name)).hexdigest()
        except FileNotFoundError:
            return ""
        except UnsafePath as problem:
            if problem.errno != errno.EFBIG:
                raise UsageError(str(problem), hint="remove it") from problem
            return ""

    def _make_folders(self, name: str) -> None:
        above = str(PurePosixPath(name).parent)
        if above != "." and not self._inside.check_folder(above):
            (self.path / above).mkdir(exist_ok=True)

    def _remove(self, name: str, known: str) -> bool:
        """Removes a page that no call writes now; returns whether it is gone: one that was changed since is left."""
        found = self._hash(name)
        if found and found != known:
            return False
        with suppress(FileNotFoundError):
            os.unlink(self.path / name)
        above = PurePosixPath(name).parent
        if str(above) != ".":
            with suppress(OSError):  # it has other pages
                os.rmdir(self.path / above)
        return True

    def _sweep(self, names: Iterable[str]) -> None:
        """Removes what a call that was cut off has left of a page."""
        by_folder: dict[str, list[str]] = {"": [MANIFEST]}
        for name in names:
            above, _, own = name.rpartition("/")
            by_folder.setdefault(above, []).append(own)
        for above, known in by_folder.items():
            with os.scandir(self.path / above) as found:
                for entry in found:
                    if _is_temporary(entry.name, known) and entry.is_file(follow_symlinks=False):
                        os.unlink(entry.path)


def _in_order(name: str) -> tuple[bool, str]:
    """Returns what pages are sorted by: the index is the last one, since it leads to all others."""
    return name == "index.html", name


def _is_temporary(name: str, of: Iterable[str]) -> bool:
    found = _TEMPORARY.match(name)
    return found is not None and found["name"] in of


def _no_site(path: Path) -> UsageError:
    return UsageError(f"{path / MANIFEST} is not the list of a site", hint="name another folder, or remove this one")


def _manifest(found: object, path: Path) -> Manifest:
    """Returns a list as it was read. Raises UsageError for one that another program wrote."""
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise _no_site(path)
    project, seq, debits, files = (found.get(name) for name in ("project", "seq", "debits", "files"))
    if not (isinstance(project, str) and _is_count(seq) and _is_count(debits) and isinstance(files, dict)):
        raise _no_site(path)
    for name, digest in files.items():
        if _NAME.match(name) is None or not isinstance(digest, str) or not _HASH.match(digest or "0" * 64):
            raise _no_site(path)
    return Manifest(project, int(seq), int(debits), files)  # type: ignore[arg-type]


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Makes an OSError of writing one that names the folder and a way out."""
    try:
        yield
    except UnsafePath as problem:
        raise UsageError(str(problem), hint="remove it, or name another folder") from problem
    except OSError as problem:
        raise PerpetualError(
            f"{path} could not be written: {problem.strerror or problem}", hint="name another folder"
        ) from problem
