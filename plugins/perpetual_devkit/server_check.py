"""The doctor's check `mcp`: whether the server in force answers a client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping

from perpetual import Lab
from perpetual.api import Check, Finding

__all__ = ["ServerCheck", "build"]

PATIENCE_S = 60.0


def build(options: Mapping[str, object]) -> ServerCheck:
    """Builds the check; it has no options."""
    return ServerCheck()


class ServerCheck(Check):
    """Starts the MCP server as a client would, and asks it for its tools; waits `patience_s` for them."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s

    def examine(self, lab: Lab) -> Finding:
        """Returns how many tools the server offers, or why it does not answer."""
        client = {"name": "doctor", "version": "1"}
        opening = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        requests: list[dict[str, object]] = [
            {"id": 1, "method": "initialize", "params": opening},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list", "params": {}},
        ]
        said = "".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests)
        began = time.monotonic()
        # What it logs goes to a file: a pipe would fill up while the answers are waited for.
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            process = subprocess.Popen(
                # Neither the project nor the working directory is on the server's import path.
                [sys.executable, "-P", "-m", "perpetual", "--project", str(lab.root), "mcp"],
                cwd=os.path.abspath(os.sep),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
            patience = threading.Timer(self._patience_s, process.kill)
            patience.start()
            try:
                count, first_s = _first_answers(process, said, began)
                process.communicate()  # the client leaves, and the server ends
            except (ValueError, LookupError, TypeError, BrokenPipeError):
                process.kill()
                process.communicate()
                log.seek(0)
                why = log.read(2000).strip().splitlines()
                late = time.monotonic() - began >= self._patience_s
                reason = f"it did not answer within {self._patience_s:g} s" if late else "it ended without an answer"
                return Finding(False, "; ".join([reason, *why[:1]]), "perpetual mcp < /dev/null")
            finally:
                patience.cancel()
        return Finding(True, f"the MCP server offers {count} tools; its first answer took {first_s:.1f} s")


def _first_answers(process: subprocess.Popen[str], said: str, began: float) -> tuple[int, float]:
    """Returns how many tools a server has, and the seconds until its first answer; raises ValueError and the like."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(said)
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if "result" not in answer:
        raise ValueError(answer)
    first_s = time.monotonic() - began
    return len(json.loads(process.stdout.readline())["result"]["tools"]), first_s
