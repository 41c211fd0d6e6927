"""The doctor's checks of a project's folder: `permissions` and `disk`."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from perpetual import Lab
from perpetual.api import Check, Finding
from perpetual.toolkit import private

__all__ = ["DiskCheck", "PermissionsCheck", "disk", "permissions"]

LEAST_FREE_BYTES = 500_000_000


def permissions(options: Mapping[str, object]) -> PermissionsCheck:
    """Builds the check `permissions`; it has no options."""
    return PermissionsCheck()


def disk(options: Mapping[str, object]) -> DiskCheck:
    """Builds the check `disk`; it has no options."""
    return DiskCheck()


class PermissionsCheck(Check):
    """Whether the record is private, and can be written."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what of the record other users can read or write, or that its user cannot write it."""
        folder = lab.config.folder
        found = private.open_to_others(folder)
        if found:
            mode = os.lstat(found[0]).st_mode & 0o777
            more = f" and {len(found) - 1} more of its files" if len(found) > 1 else ""
            hint = f"chmod -R go-rwx {shlex.quote(str(folder))}"
            return Finding(False, f"{found[0]}{more} can be read by others (mode {mode:o})", hint)
        if not os.access(folder, os.W_OK):
            return Finding(False, f"{folder} cannot be written", "mend the folder's rights")
        return Finding(True, f"{folder} is private and can be written")


class DiskCheck(Check):
    """Whether there is room for the record: at least `least_free_bytes`."""

    def __init__(self, *, least_free_bytes: int = LEAST_FREE_BYTES) -> None:
        self._least_free_bytes = least_free_bytes

    def examine(self, lab: Lab) -> Finding:
        """Returns how much is free where the record lies."""
        free = shutil.disk_usage(lab.config.folder).free
        is_enough = free >= self._least_free_bytes
        return Finding(is_enough, f"{free / 1e9:.1f} GB free", None if is_enough else "free some space")
