"""Files that are there whole or not at all: durable atomic writes, and JSON that names the file it failed on.

Used by everything that writes a record to disk. The supervisor of a run loads this file by its path under
`python -I -S`: only light parts of the standard library at the top, nothing of Perpetual.
"""

from __future__ import annotations

import errno
import os

from perpetual.toolkit import confined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_Path = str | os.PathLike[str]
_LARGEST_BYTES = 64 * 1024 * 1024  # of a file that is read whole


def write_atomic(path: _Path, data: bytes | str, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replaces `path` by `data` in one step: a reader sees the old file or the new one, never a part.

    Text is written as UTF-8. The umask narrows `mode`. With `durable` the content and the name have reached
    the disk when this returns. A link at `path` is replaced, not followed; one above it is refused below `.perpetual`.
    Raises OSError; then the old file stands and no temporary file is left.
    """
    content = data.encode("utf-8") if isinstance(data, str) else data
    folder, name = os.path.split(os.path.abspath(path))
    confined.check_folder(folder)
    temporary = os.path.join(folder, f".{name}.{os.urandom(6).hex()}.tmp")
    # O_BINARY keeps Windows from translating line ends.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        try:
            _write_all(descriptor, content)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):  # or Ctrl-C came right after the renaming, which has happened
            os.unlink(temporary)
        raise
    if durable:
        fsync_dir(folder)


def fsync_dir(path: _Path) -> None:
    """Makes the names in the folder `path` durable. Windows offers no such call: nothing happens there."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_data(descriptor: int) -> None:
    """Makes the content and length of an open file durable; other attributes where that costs nothing."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:
        os.fsync(descriptor)


def dump_json(obj: object) -> str:
    """Returns JSON on one line, keys as they come, text readable. Raises ValueError for NaN and infinity."""
    import json

    return json.dumps(obj, allow_nan=False, sort_keys=False, ensure_ascii=False)


def read_file(path: _Path) -> bytes:
    """Returns the content of a file that another program may have replaced by a pipe, a link or a huge file.

    Raises OSError (UnsafePath for a link); ValueError naming the path if it is no regular file, or over 64 MiB.
    """
    try:
        return confined.read_bytes(path, limit=_LARGEST_BYTES)
    except confined.UnsafePath as problem:
        if problem.errno not in (errno.ENXIO, errno.EFBIG):
            raise
        why = "not a file" if problem.errno == errno.ENXIO else problem.strerror
        raise ValueError(f"{os.fspath(path)}: {why}") from problem


def read_json(path: _Path) -> Any | None:
    """Returns the JSON document in `path`; None if there is no such file.

    Raises ValueError naming the file if it is no regular file, not JSON in UTF-8, or holds a bare `null`, NaN or
    infinity; OSError if it cannot be read.
    """
    from perpetual.toolkit.foreign import parse_json

    try:
        raw = read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        document = parse_json(raw, parse_constant=_refuse_constant)
    except ValueError as exc:
        raise ValueError(f"{os.fspath(path)}: not a JSON document: {exc}") from exc
    if document is None:
        raise ValueError(f"{os.fspath(path)}: not a JSON document: it holds null")
    return document


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
