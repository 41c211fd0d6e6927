"""The trust record: what this user created or accepted of one project, kept in the user's state folder. Floor 0.

One JSON file a project, named after the project's real path. A record counts only for the user, the state folder, the
path, the project id and the very `.perpetual` folder that it names: a copy, a clone, a restored backup or another
machine has none. Read by the fast path of the command, so this file imports next to nothing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from perpetual.toolkit import user_state
from perpetual.toolkit.trust_path import FOLDER, path_of, stamp

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Record", "identity_of", "new", "path_of", "read", "remove", "stamp", "stored", "write"]

FORMAT = 1
_LIMIT_BYTES = 4 << 20
_GET_GENERATION = 0x80087601  # FS_IOC_GETVERSION: tells an inode from a later one of the same number


@dataclass(frozen=True)
class Record:
    """What is recorded of one project.

    - `state`: `own` if it was created here, `trusted` if a person accepted it.
    - `identity`: of the `.perpetual` folder, as `identity_of` answers it.
    - `key`: hexadecimal; approvals carry a keyed hash under it, so one that was made elsewhere does not count.
    - `commit`: the highest commit of the store that was seen here; an older store has been put back.
    - `values`: the values of weakening keys that count, by `methodology.NAME` or `config.NAME`.
    - `declined`: weakening values that a person was shown and did not accept.
    - `owners`: user ids, beside the user's and root's, whose files count.
    - `scaffold`: the start command of agents' files that counts, as words.
    """

    path: str
    project_id: str
    state: str
    identity: str
    key: str
    user: int
    place: str
    at: str
    commit: int = 0
    values: dict[str, object] = field(default_factory=dict)
    declined: dict[str, object] = field(default_factory=dict)
    owners: tuple[int, ...] = ()
    scaffold: tuple[str, ...] | None = None


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0


def identity_of(root: str | os.PathLike[str]) -> str | None:
    """Returns what tells the project's `.perpetual` folder from a copy of it; None if there is no such folder.

    The inode's number and, where the file system has one, its generation: a number alone is given out again.
    """
    try:
        descriptor = os.open(
            os.path.join(root, ".perpetual"),
            os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0),
        )
    except OSError:
        return None
    try:
        number = os.fstat(descriptor).st_ino
        try:
            import fcntl

            raw = fcntl.ioctl(descriptor, _GET_GENERATION, b"\0" * 8)
        except (ImportError, OSError):
            return str(number)
        return f"{number}-{int.from_bytes(raw[:4], 'little')}"
    finally:
        os.close(descriptor)


def read(root: str | os.PathLike[str], project_id: str) -> Record | None:
    """Returns the record that counts for the project in `root` as it is now, or None."""
    found = _load(path_of(root))
    if found is None or found.path != os.path.realpath(root) or found.project_id != project_id:
        return None
    if found.user != _user() or found.identity != identity_of(root):
        return None
    return found


def _load(path: str) -> Record | None:
    """Returns the record in the file, or None if it is missing, damaged or of another user or state folder."""
    try:
        data = json.loads(user_state.read_own(path, _LIMIT_BYTES) or b"")
        if data.pop("format", None) != FORMAT or data["place"] != user_state.drawn_place():  # reading draws none
            return None
        scaffold = data.pop("scaffold", None)
        return Record(
            **{**data, "owners": tuple(data.get("owners", ()))},
            scaffold=None if scaffold is None else tuple(scaffold),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def new(root: str | os.PathLike[str], project_id: str, state: str, values: Mapping[str, object], *, at: str) -> Record:
    """Returns a record with a fresh key for the project in `root`; it is not written yet.

    Raises:
        PerpetualError: (state_not_writable) if the state folder cannot be used.
    """
    return Record(
        path=os.path.realpath(root),
        project_id=project_id,
        state=state,
        identity=identity_of(root) or "",
        key=os.urandom(32).hex(),
        user=_user(),
        place=user_state.place(),
        at=at,
        values=dict(values),
    )


def write(record: Record, *, durable: bool = True) -> None:
    """Puts the record into the state folder, in the place of an older one.

    Raises:
        PerpetualError: (state_not_writable) if the state folder cannot be written.
    """
    from perpetual.toolkit.atomic import write_atomic

    data: dict[str, object] = {
        "format": FORMAT,
        **{name: getattr(record, name) for name in record.__dataclass_fields__},
    }
    folder = user_state.folder() / FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        write_atomic(path_of(record.path), json.dumps(data, sort_keys=True), durable=durable)
    except OSError as problem:
        raise user_state.unusable(os.fspath(folder), problem.strerror or str(problem)) from problem


def remove(root: str | os.PathLike[str]) -> bool:
    """Removes the record of the project in `root`; answers whether there was one."""
    try:
        os.unlink(path_of(root))
    except FileNotFoundError:
        return False
    return True


def stored() -> Iterator[Record]:
    """Yields every record of this user in this place, whether its project is still there or not."""
    folder = os.path.join(user_state.location(), FOLDER)
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        found = _load(os.path.join(folder, name)) if name.endswith(".json") else None
        if found is not None and found.user == _user():
            yield found
