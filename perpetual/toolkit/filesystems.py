"""File systems: which one a path is on, and how big a folder's files are.

Also whether other machines write to it, and whether it distinguishes capital letters.

Used by stores and by the departments that tell of them. Floor 0; `platform.py` is its like for processes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["file_sizes", "file_system", "is_case_insensitive", "is_network"]

_NETWORK = frozenset(
    ("9p", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre",
     "mfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf",
     "virtiofs", "vmhgfs", "wekafs")
)  # fmt: skip


def file_sizes(folder: Path) -> dict[str, int]:
    """Returns the bytes of each file of `folder`, not of its subfolders, by name; of a folder that is not there, none.

    A file that goes while they are looked at, as at a compaction, is left out.
    """
    found: dict[str, int] = {}
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                found[path.name] = status.st_size
    return found


def file_system(path: str | os.PathLike[str]) -> str | None:
    """Returns the type of the file system that `path` is on or would be made on, as mount(8) names it; None if unknown.

    From /proc/self/mountinfo (proc(5)): the longest mount point above the path, of equal ones the last, which covers
    the others.
    """
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None  # no Linux, or no /proc
    place = os.fsencode(os.path.realpath(path))
    longest, found = -1, None
    for line in lines:
        fields = line.split(b" ")
        point = _decode_mount(fields[4])
        is_above = place == point or place.startswith(point.rstrip(b"/") + b"/")
        if is_above and len(point) >= longest:
            # Optional fields end at a lone dash; the type follows.
            longest, found = len(point), fields[fields.index(b"-", 6) + 1]
    return None if found is None else os.fsdecode(found)


def is_network(kind: str) -> bool:
    """Returns whether files on a file system of that type (see `file_system`) may be changed by another machine.

    Locks are then promises of a server, and memory that is mapped from a file is not shared. None is excepted: NFSv4
    and Lustre lock well when mounted so, which cannot be seen from here. All that runs through FUSE counts, but for
    `fuseblk`, which has a disk under it; so do a virtual machine's shares of its host.
    """
    return kind in _NETWORK or kind == "fuse" or kind.startswith("fuse.")


def is_case_insensitive(folder: str | os.PathLike[str]) -> bool | None:
    """Returns whether `folder` takes `Note.md` and `note.md` for one file.

    None if no name in it can tell. Writes nothing.
    """
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    present = set(names)
    for name in names:
        other = name.swapcase()
        if other == name or other in present or other.swapcase() != name:
            continue  # tells nothing: no letters, two files, or letters without a partner
        try:
            return os.path.samefile(os.path.join(folder, name), os.path.join(folder, other))
        except FileNotFoundError:
            if os.path.lexists(os.path.join(folder, name)):
                return False
    return None


def _decode_mount(field: bytes) -> bytes:
    """Returns a path of mountinfo, in which blank, tab, newline and backslash stand as octal numbers."""
    if b"\\" not in field:
        return field
    first, *parts = field.split(b"\\")
    return first + b"".join(bytes([int(part[:3], 8)]) + part[3:] for part in parts)
