"""Failures in a row of plugins, counted in the user's state folder: one that keeps failing is left out. Floor 0.

A scope is an environment of Python (what is found there) or a project (what is built and called there). Each has a file
of its own, which is replaced in one step. A state folder that cannot be used counts nothing: the plugin is tried again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from zlib import crc32

from perpetual.errors import PerpetualError
from perpetual.toolkit import atomic, confined, user_state
from perpetual.toolkit.lock import FileLock

__all__ = ["MOST", "RETRY_S", "Failures", "PluginFailures"]

MOST = 3  # failures in a row after which a plugin is left out
RETRY_S = 10.0  # failures closer together count as one
_FOLDER = "plugin-failures"
_LONGEST = 500  # characters of a reason


@dataclass(frozen=True)
class Failures:
    """How often a plugin failed in a row, why the last time, and when (seconds since 1970).

    `stamp` tells one version of the plugin's files from another: a changed plugin begins anew.
    """

    count: int
    reason: str
    time: float
    stamp: str = ""

    @property
    def is_left_out(self) -> bool:
        """Returns whether the plugin is left out until `perpetual plugins retry`."""
        return self.count >= MOST

    @property
    def is_recent(self) -> bool:
        """Returns whether it failed so shortly ago that another try would be counted as the same failure."""
        return 0 <= time.time() - self.time < RETRY_S

    @property
    def words(self) -> str:
        """Returns the reason, as lists of plugins show it."""
        if not self.is_left_out:
            return self.reason
        last = datetime.fromtimestamp(self.time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"left out after {self.count} failures: {self.reason} (last at {last})"


class PluginFailures:
    """The failures of one scope."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        key = crc32(scope.encode("utf-8", "surrogateescape"))
        self.path = os.path.join(user_state.location(), _FOLDER, f"{key:08x}.json")

    def read(self) -> dict[str, Failures]:
        """Returns the failures by plugin; nothing where nothing can be read."""
        try:
            kept = json.loads(confined.read_bytes(self.path))
            if kept["scope"] != self._scope:
                return {}
            return {str(name): Failures(**item) for name, item in kept["failures"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def add(self, plugin: str, reason: str, stamp: str = "") -> Failures:
        """Counts a failure and returns the plugin's failures in a row; one right after another is not counted."""
        clean = " ".join(reason.encode("utf-8", "backslashreplace").decode("utf-8").split())[:_LONGEST]
        new = Failures(1, clean, time.time(), stamp)

        def changed(known: Mapping[str, Failures]) -> dict[str, Failures]:
            nonlocal new
            before = known.get(plugin)
            if before is not None and before.stamp == stamp:
                if before.is_recent or before.is_left_out:
                    new = Failures(before.count, clean, before.time, stamp)
                else:
                    new = Failures(before.count + 1, clean, new.time, stamp)
            return {**known, plugin: new}

        self._change(changed)
        return new

    def clear(self, *plugins: str) -> bool:
        """Forgets the failures of these plugins; returns whether there were any."""
        if not self.read().keys() & {*plugins}:
            return False
        self._change(lambda known: {name: item for name, item in known.items() if name not in plugins})
        return True

    def _change(self, change: Callable[[Mapping[str, Failures]], dict[str, Failures]]) -> None:
        try:
            user_state.folder()
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            with FileLock(f"{self.path}.lock"):
                known = self.read()
                after = change(known)
                if after != known:
                    failures = {name: asdict(item) for name, item in after.items()}
                    atomic.write_atomic(self.path, json.dumps({"scope": self._scope, "failures": failures}))
        except (OSError, PerpetualError):
            return
