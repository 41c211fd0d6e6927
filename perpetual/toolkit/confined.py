"""The path law of `.perpetual`: files below it are opened component by component, and no link is followed.

Everything in a project's `.perpetual/` may have been written by a stranger (a clone, a run, an archive). A link there
could lead a read to a private file and a write to any other; a pipe would be waited on for ever. Each component is
therefore opened relative to the one before it without following links, and the file must be regular and belong to the
user, to root, or to an owner whom a trust record lists. What stands above `.perpetual` is the user's own tree, whose
links are followed as ever.

Used by everything that opens a file of a project. Light: the fast path and the supervisor (`python -I -S`) load it.
"""

from __future__ import annotations

import errno
import os
import stat

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Collection

    from perpetual.errors import PerpetualError

__all__ = [
    "FOLDER",
    "Confined",
    "UnsafePath",
    "check_file",
    "check_folder",
    "explain",
    "is_inside",
    "look",
    "make_folder",
    "open_file",
    "owners",
    "read_bytes",
]

_Path = str | os.PathLike[str]

FOLDER = ".perpetual"
# Absolute path of a project's `.perpetual` -> user ids that may own its files: filled from the user's trust records.
owners: dict[str, Collection[int]] = {}

_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FILE = _COMMON | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# O_PATH needs no right to list the folder.
_STEP = _COMMON | getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_WRITES = os.O_WRONLY | os.O_RDWR
_LINK, _NO_FILE, _NO_FOLDER = "it is a link", "it is not a regular file", "it is not a folder"
_CHUNK_BYTES = 1 << 18


class UnsafePath(OSError):
    """A file or folder that is not opened for what it is; `filename` names it, `strerror` says why.

    Its `errno` is ELOOP for a link, EPERM for a stranger's file, EFBIG for one over a limit, else ENXIO.
    """

    code = "unsafe_path"
    exit = 1
    data = None
    hint = "remove it, or put the file or folder itself in its place"

    def __init__(self, number: int, why: str, path: _Path, *, hint: str | None = None) -> None:
        super().__init__(number, why, os.fspath(path))
        if hint is not None:
            self.hint = hint

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"

    @property
    def message(self) -> str:
        """Returns the error's sentence, as `PerpetualError` has it."""
        return str(self)


class Confined:
    """Opens files below one folder; nothing outside of it is ever reached through a relative path."""

    def __init__(self, root: _Path, *, any_owner: bool = False) -> None:
        """Opens nothing yet. Components of `root` above `.perpetual` may be links.

        With `any_owner` files of other users are opened too: for a folder that is no part of a project.
        """
        self.root, self._any_owner = os.fspath(root), any_owner

    def open(self, relative: _Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """Returns a descriptor of a regular file. Raises UnsafePath, OSError."""
        return _open(*self._below(relative), flags, mode)

    def read_bytes(self, relative: _Path, *, limit: int) -> bytes:
        """Returns the content. Raises UnsafePath, also for a file of more than `limit` bytes; OSError."""
        return _read(self.open(relative), os.path.join(self.root, relative), limit)

    def check_folder(self, relative: _Path = "") -> bool:
        """Returns whether the folder exists. Raises UnsafePath if a component is no folder, but a link or a file."""
        root, names, _ = self._below(relative)
        return _has_folder(root, names)

    def _below(self, relative: _Path) -> tuple[str, list[str], bool]:
        text = os.fspath(relative)
        if os.path.isabs(text):
            raise UnsafePath(errno.ENXIO, "it is not a relative path", text)
        root, above, _ = _split(self.root, is_folder=True)
        return root, above + _names(text, os.path.join(self.root, text)), not self._any_owner


def is_inside(path: _Path) -> bool:
    """Returns whether a path leads through a `.perpetual`, by its text alone."""
    return FOLDER in os.fspath(path).replace(os.altsep or os.sep, os.sep).split(os.sep)


def open_file(path: _Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """Returns a descriptor of a regular file, which holds no caller up: O_NONBLOCK, O_NOFOLLOW, O_CLOEXEC.

    Components from `.perpetual` on are not followed where they are links, elsewhere the last one is not. Owners are
    checked below `.perpetual` alone. A folder's owner may be read by others (a colleague's project), not written.

    Raises:
        UnsafePath: for a link, a pipe, a folder, a stranger's file.
        OSError: as `os.open`, with the whole path as its file name.
    """
    return _open(*_split(os.fspath(path)), flags, mode)


def read_bytes(path: _Path, *, limit: int | None = None) -> bytes:
    """Returns the content of a file opened by `open_file`. Raises UnsafePath, also for one over `limit`; OSError."""
    return _read(open_file(path), path, limit)


def check_folder(path: _Path) -> bool:
    """Returns whether the folder exists. Raises UnsafePath if a component from `.perpetual` on is a link or no folder.

    Elsewhere links are followed.
    """
    root, names, _ = _split(os.fspath(path), is_folder=True)
    return _has_folder(root, names)


def make_folder(path: _Path, mode: int = 0o700) -> None:
    """Makes the folder and those above it that are missing. Raises UnsafePath as `check_folder`, OSError."""
    if not check_folder(path):
        os.makedirs(path, mode, exist_ok=True)
        check_folder(path)


def look(path: _Path) -> os.stat_result | None:
    """Returns the state of a regular file, or None where nothing is.

    Only the last component is looked at: for frequent questions about a file whose folder was checked when it was
    opened. Raises UnsafePath if it is a link, a folder or a pipe; OSError.
    """
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(found.st_mode):
        raise _refusal(found.st_mode, os.fspath(path), _NO_FILE)
    return found


def check_file(path: _Path, *, writes: bool = False) -> os.stat_result | None:
    """Returns the state of a file that another library opens by its name, or None where nothing is.

    For libraries that take no descriptor. Nothing is opened: SQLite loses its locks with any descriptor of its file.
    Raises UnsafePath as `open_file`, OSError.
    """
    root, names, is_project = _split(os.fspath(path))
    try:
        folder, owner = _enter(root, names[:-1])
    except FileNotFoundError:
        return None
    if folder is not None:
        os.close(folder)
    found = look(path)
    if found is not None and is_project:
        _check_owner(found.st_uid, None if writes else owner, os.fspath(path))
    return found


def explain(problem: OSError) -> PerpetualError | None:
    """Returns the error of Perpetual that names the file of an OSError and a way out; None if it names none."""
    from perpetual.errors import PerpetualError

    if isinstance(problem, UnsafePath):
        return PerpetualError(problem.message, hint=problem.hint, code=problem.code)
    if not isinstance(problem.filename, (str, bytes)) or not problem.strerror:
        return None
    return PerpetualError(
        f"{os.fsdecode(problem.filename)}: {problem.strerror}",
        hint="mend the rights of that file or folder, or the disk, then repeat",
        code="not_accessible",
    )


def _names(text: str, shown: str) -> list[str]:
    """Returns the components of a path below `.perpetual`."""
    if os.altsep:
        text = text.replace(os.altsep, os.sep)
    names = [name for name in text.split(os.sep) if name not in ("", os.curdir)]
    if os.pardir in names or "\0" in text:
        raise UnsafePath(errno.ENXIO, "it leads out of its folder", shown)
    return names


def _split(text: str, *, is_folder: bool = False) -> tuple[str, list[str], bool]:
    """Returns the folder from which on no link is followed, the names below it, and whether it is `.perpetual`.

    With `is_folder` a path without `.perpetual` is the trusted folder itself.
    """
    if os.altsep:
        text = text.replace(os.altsep, os.sep)
    at = (text + os.sep).rfind(f"{os.sep}{FOLDER}{os.sep}") + 1
    if at or text == FOLDER or text.startswith(FOLDER + os.sep):
        return text[:at] or os.curdir, _names(text[at:], text), True
    if is_folder:
        return text or os.curdir, [], False
    above, name = os.path.split(text)
    return above or os.curdir, [name], False


def _open(root: str, names: list[str], is_project: bool, flags: int, mode: int) -> int:
    if not names:
        raise UnsafePath(errno.ENXIO, _NO_FILE, root)
    path = os.path.join(root, *names) if root != os.curdir else os.path.join(*names)
    is_emptied, flags = bool(flags & os.O_TRUNC), flags & ~os.O_TRUNC  # not before it is known whose file it is
    is_alone = len(names) == 1  # then the kernel alone walks to its folder, whose links are followed
    folder, owner = (None, None) if is_alone else _enter(root, names[:-1])
    try:
        if folder is not None:
            descriptor = os.open(names[-1], flags | _FILE, mode, dir_fd=folder)
        else:
            if not _HAS_DESCRIPTORS:
                _refuse_link(path)
            descriptor = os.open(path, flags | _FILE, mode)
    except OSError as problem:
        raise _named(problem, path, folder, path if folder is None else names[-1]) from None
    finally:
        if folder is not None:
            os.close(folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refusal(found.st_mode, path, _NO_FILE)
        if is_project:
            _check_owner(found.st_uid, None if flags & _WRITES else owner, path)
        if is_emptied:
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _enter(root: str, names: list[str]) -> tuple[int | None, int | None]:
    """Returns a descriptor of the folder (None where the platform has none), and the owner of its `.perpetual`."""
    if not _HAS_DESCRIPTORS:
        path = root
        for name in names:
            path = os.path.join(path, name)
            _refuse_link(path)
        return None, None
    owner = None
    at = os.open(root, _STEP)
    for index, name in enumerate(names):
        try:
            below = os.open(name, _STEP | os.O_NOFOLLOW, dir_fd=at)
        except OSError as problem:
            raise _named(problem, os.path.join(root, *names[: index + 1]), at, name, _NO_FOLDER) from None
        finally:
            os.close(at)
        at = below
        if name == FOLDER:
            owner = os.fstat(at).st_uid
    return at, owner


def _has_folder(root: str, names: list[str]) -> bool:
    if not names:
        return os.path.isdir(root)
    try:
        folder, _ = _enter(root, names)
    except FileNotFoundError:
        return False
    if folder is None:
        return os.path.isdir(os.path.join(root, *names))
    os.close(folder)
    return True


def _refuse_link(path: str) -> None:
    """Refuses a link, on platforms without descriptors of folders; ignores a missing file."""
    try:
        found = os.lstat(path)
    except OSError:
        return
    is_junction = getattr(found, "st_reparse_tag", 0) == getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", -1)
    if is_junction or stat.S_ISLNK(found.st_mode):
        raise UnsafePath(errno.ELOOP, _LINK, path)


def _named(problem: OSError, path: str, folder: int | None, name: str, otherwise: str = _NO_FILE) -> OSError:
    """Returns the same error with the whole path in it, or an UnsafePath where the kind of the file caused it."""
    if problem.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENXIO, errno.EISDIR, errno.EMLINK):
        try:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except OSError:
            mode = 0
        return _refusal(mode, path, otherwise)
    if isinstance(problem, UnsafePath):
        return problem
    problem.filename = path
    return problem


def _refusal(mode: int, path: str, otherwise: str) -> UnsafePath:
    is_link = stat.S_ISLNK(mode)
    return UnsafePath(errno.ELOOP if is_link else errno.ENXIO, _LINK if is_link else otherwise, path)


def _check_owner(uid: int, reader_of: int | None, path: str) -> None:
    if not hasattr(os, "geteuid") or uid in (0, os.geteuid(), reader_of):
        return
    root, _, _ = _split(path)
    if uid not in owners.get(os.path.abspath(os.path.join(root, FOLDER)), ()):
        why = f"it belongs to another user (uid {uid})"
        raise UnsafePath(errno.EPERM, why, path, hint="perpetual trust shows and records the owners of a project")


def _read(descriptor: int, path: _Path, limit: int | None) -> bytes:
    """Returns the content, read to its end; `limit` holds for a file that grows meanwhile too."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := os.read(descriptor, _CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if limit is not None and size > limit:
                raise UnsafePath(errno.EFBIG, f"it holds more than {limit} bytes", path, hint="make it smaller")
    finally:
        os.close(descriptor)
    return b"".join(parts)
