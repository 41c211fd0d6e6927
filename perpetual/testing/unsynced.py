"""A process in which nothing can be synced to the disk: what it acknowledges there it had not made durable.

    refuse_syncing()        # in a process of its own; there is no way back

The kernel itself refuses (by a seccomp filter), so that code in C and programs that are started count as well.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

__all__ = ["refuse_syncing", "why_it_cannot"]

# By machine: the number of its system calls' table, then fsync, fdatasync, msync, sync_file_range, syncfs.
_CALLS = {
    "x86_64": (0xC000003E, (74, 75, 26, 277, 306)),
    "aarch64": (0xC00000B7, (82, 83, 227, 84, 267)),
}
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06  # of BPF
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


def why_it_cannot() -> str | None:
    """Returns why `refuse_syncing` does nothing on this machine, or None."""
    if not sys.platform.startswith("linux") or platform.machine() not in _CALLS or ctypes.sizeof(ctypes.c_void_p) != 8:
        return f"syncing cannot be refused on {sys.platform} {platform.machine()}"
    return None


def refuse_syncing() -> str | None:
    """Makes every sync of this process, and of those that it starts, fail with EIO; returns why that cannot be.

    A forgotten sync and one whose failure is swallowed look the same from then on: the write is acknowledged.
    """
    why = why_it_cannot()
    if why is not None:
        return why
    machine, calls = _CALLS[platform.machine()]
    count = len(calls)
    program = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 0, count + 1, machine), (_LOAD, 0, 0, 0)]
    program += [(_IF_EQUAL, count - place, 0, call) for place, call in enumerate(calls)]
    program += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | errno.EIO)]
    steps = b"".join(struct.pack("=HBBI", code, then, otherwise, value) for code, then, otherwise, value in program)
    kept = ctypes.create_string_buffer(steps)
    given = ctypes.create_string_buffer(struct.pack("@HxxxxxxP", len(program), ctypes.addressof(kept)))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.prctl(_SET_SECCOMP, _FILTER, ctypes.byref(given), 0, 0):
        return f"syncing cannot be refused here: {os.strerror(ctypes.get_errno())}"
    return None
