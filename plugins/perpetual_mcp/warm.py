"""The service `mcp`: keeps the process of `perpetual_mcp.resident`, from which `perpetual mcp` starts at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Finding, PerpetualError, Service
from perpetual.toolkit.resident import SOCKET
from perpetual.toolkit.service_state import FOLDER

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import StopSignal

__all__ = ["WarmStart", "build"]

_LOOK_S = 0.5  # between two looks whether the process lives
_LEAVE_S = 5.0


class WarmStart(Service):
    """Starts the resident process, and anew where the code that it has loaded has changed."""

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Serves until `stop` is set.

        Raises:
            PerpetualError: where the platform has no way to do it, or the process has ended.
        """
        from perpetual_mcp.resident import STALE

        if sys.platform != "linux":
            raise PerpetualError("a server can be kept loaded on Linux only", hint="perpetual mcp starts without it")
        while not stop.is_set():
            status = _kept(_folder(lab), str(lab.root), stop)
            if status not in (0, STALE):
                raise PerpetualError(
                    f"the process that has the MCP server loaded has ended with status {status}",
                    hint=f"its reason is in {lab.services.log('mcp')}; perpetual mcp starts without it",
                )

    def health(self, lab: Lab) -> Finding:
        """Returns whether starts are served."""
        is_up = os.path.exists(os.path.join(_folder(lab), SOCKET))
        return Finding(True, "loaded: perpetual mcp starts from it" if is_up else "loading")


def _folder(lab: Lab) -> str:
    return os.path.join(lab.root, ".perpetual", FOLDER)


def _kept(folder: str, root: str, stop: StopSignal) -> int:
    """Returns the status with which the process has ended; it ends when this process does, however that ends."""
    end, alive = os.pipe()  # the process reads until the other end is closed
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "perpetual_mcp.resident", folder, str(end), str(time.time_ns())],
            cwd=root,
            stdin=subprocess.DEVNULL,
            pass_fds=(end,),
        )
    finally:
        os.close(end)
    try:
        while child.poll() is None and not stop.wait(_LOOK_S):
            pass
    finally:
        os.close(alive)
        try:
            child.wait(_LEAVE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return 0 if stop.is_set() else child.returncode


def build(options: Mapping[str, object]) -> WarmStart:
    """Builds the service; it has no options."""
    return WarmStart()
