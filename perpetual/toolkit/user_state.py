"""The user's own state folder, outside of every project: trust records, secrets and tokens. Floor 0.

Nothing in a project folder can change what lies here. The folder is `PERPETUAL_STATE_DIR`, or the platform's own place
for state (`XDG_STATE_HOME`/perpetual on Linux). It is read by the fast path of the command, so this file imports next
to nothing.
"""

from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from pathlib import Path

    from perpetual.errors import PerpetualError

__all__ = ["VARIABLE", "drawn_place", "drawn_secret", "folder", "location", "place", "read_own", "secret", "unusable"]

VARIABLE = "PERPETUAL_STATE_DIR"
_PLACE, _SECRET = "place", "secret"
_PLACE_BYTES, _SECRET_BYTES = 16, 32


def location() -> str:
    """Returns the path of the state folder, which need not exist."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return os.path.abspath(chosen)
    if sys.platform.startswith("linux"):
        # What platformdirs answers here, without its import, which alone would cost the fast path its goal.
        base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
        return os.path.join(base, "perpetual")
    from platformdirs import user_state_dir

    return user_state_dir("perpetual", appauthor=False)


def folder() -> Path:
    """Returns the state folder, created with mode 0700 where it is missing.

    Raises:
        PerpetualError: (state_not_writable) if it cannot be created or written, or belongs to another user.
    """
    from pathlib import Path

    path = location()
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        seen = os.stat(path)
    except OSError as problem:
        raise unusable(path, problem.strerror or str(problem)) from problem
    if hasattr(os, "getuid") and seen.st_uid not in (os.getuid(), 0):
        raise unusable(path, f"it belongs to user {seen.st_uid}")
    if os.name != "nt" and seen.st_mode & 0o022:
        raise unusable(path, f"other users may write it (mode {stat.S_IMODE(seen.st_mode):o})")
    if not os.access(path, os.W_OK | os.X_OK):
        raise unusable(path, "it is read-only")
    return Path(path)


def unusable(path: str, why: str) -> PerpetualError:
    """Returns the error for a state folder that cannot be used; it names the variable that moves the folder."""
    from perpetual.errors import PerpetualError

    return PerpetualError(
        f"your state folder {path} cannot be used: {why}",
        hint=f"set {VARIABLE} to a folder of your own that can be written",
        code="state_not_writable",
    )


def place() -> str:
    """Returns the random id of the state folder, drawn once: what is recorded here counts in this place alone.

    Raises:
        PerpetualError: (state_not_writable) as `folder`.
    """
    return _drawn(_PLACE, _PLACE_BYTES).hex()


def secret() -> bytes:
    """Returns 32 random bytes that only this user can read, drawn once.

    Raises:
        PerpetualError: (state_not_writable) as `folder`.
    """
    return _drawn(_SECRET, _SECRET_BYTES)


def drawn_place() -> str | None:
    """Returns the id of the state folder if it was drawn already; creates nothing and raises nothing."""
    found = _read(os.path.join(location(), _PLACE), _PLACE_BYTES)
    return None if found is None else found.hex()


def drawn_secret() -> bytes | None:
    """Returns the secret if it was drawn already; creates nothing and raises nothing."""
    return _read(os.path.join(location(), _SECRET), _SECRET_BYTES)


def _drawn(name: str, size_bytes: int) -> bytes:
    """Returns the random bytes kept in the file `name`; of two processes that draw at once both get the first ones."""
    path = os.path.join(location(), name)
    found = _read(path, size_bytes)
    if found is not None:
        return found
    parent = folder()
    temporary = parent / f".{name}.{os.urandom(6).hex()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, os.urandom(size_bytes).hex().encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        try:
            if _read(path, size_bytes) is None and os.path.lexists(path):
                os.replace(temporary, path)  # what lies there cannot be read as a draw: a file that was cut off
            else:
                os.link(temporary, path)
        except FileExistsError:
            pass  # another process has drawn first
        except OSError:
            os.replace(temporary, path)  # a file system without hard links
        finally:
            if os.path.lexists(temporary):
                os.unlink(temporary)
    except OSError as problem:
        raise unusable(os.fspath(parent), problem.strerror or str(problem)) from problem
    found = _read(path, size_bytes)
    if found is None:
        raise unusable(os.fspath(parent), f"{name} cannot be read back")
    return found


def read_own(path: str, most_bytes: int) -> bytes | None:
    """Returns what the file holds, or None if it is missing, longer, another user's, a link or no regular file.

    Raises:
        OSError: if it is there and cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or (hasattr(os, "getuid") and seen.st_uid not in (os.getuid(), 0)):
            return None
        found = os.read(descriptor, most_bytes + 1)
    finally:
        os.close(descriptor)
    return found if len(found) <= most_bytes else None


def _read(path: str, size_bytes: int) -> bytes | None:
    """Returns the bytes in the file, or None if it is missing or holds something else."""
    try:
        found = bytes.fromhex((read_own(path, 4 * size_bytes) or b"").decode("ascii"))
    except ValueError:
        return None
    return found if len(found) == size_bytes else None
