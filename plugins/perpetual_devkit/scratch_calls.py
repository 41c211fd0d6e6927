"""Parts that have no contract suite are called in a scratch lab, in a process of its own with a time limit.

`call_in_scratch` starts `perpetual_devkit.scratch_program` in a temporary folder, with a home of its own, and
ends whatever it has left running. `plugins check` shows the answer.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perpetual_devkit.contract_runner import end_left, lab_environment
from perpetual_devkit.wire import to_wire

__all__ = ["CALLED", "KINDS", "OBSERVER", "CallResult", "call_in_scratch"]

OBSERVER = "observer"  # of events; the other words are names of slots
KINDS = "kinds"  # of records and events that a plugin brings
CALLED = ("store", "command", "mcp_tool", "report_section")
_LIMITS_S = {"store": 120.0, "kinds": 60.0}  # its writers start one after another; a kind may need a run
_LIMIT_S = 20.0
_ENDLESS = ("command",)  # one that serves or trains ends by itself when it will
_MARK = "PERPETUAL_STATE_DIR"  # by which what the program left running is known


@dataclass(frozen=True, slots=True)
class CallResult:
    """What came of a call; `ok` is None where nothing could be called, or it went on beyond its time."""

    ok: bool | None
    detail: str


def call_in_scratch(
    slot: str, name: str, factory: str, options: Mapping[str, object], *, limit_s: float | None = None
) -> CallResult:
    """Calls a part as its slot calls it, with a scratch lab of two hypotheses and a proposed experiment.

    Args:
        slot: one of `CALLED`, `OBSERVER` or `KINDS`.
        name: the provider's qualified name; of an observer and of kinds, the plugin's.
        factory: `module:callable`; unused for an observer and for kinds.
        limit_s: seconds until it is killed; by default 120 for a store's chaos and 20 for anything else.

    Never raises for what the part does: one that dies or hangs is a result with its reason.
    """
    limit_s = limit_s or _LIMITS_S.get(slot, _LIMIT_S)
    with tempfile.TemporaryDirectory(prefix="perpetual-check-", ignore_cleanup_errors=True) as folder:
        place = Path(folder).resolve()
        asked = {"slot": slot, "name": name, "factory": factory, "options": to_wire(dict(options))}
        for below in ("home", "tmp"):
            (place / below).mkdir()
        state = str(place / "state")
        own = {"HOME": str(place / "home"), "TMPDIR": str(place / "tmp"), _MARK: state}
        environment = {**lab_environment(place), **own}
        environment.pop("XDG_CONFIG_HOME", None)
        with open(place / "output", "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "perpetual_devkit.scratch_program"],
                cwd=place, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
            try:
                process.communicate(json.dumps(asked).encode(), timeout=limit_s)
            except subprocess.TimeoutExpired:
                return CallResult(None if slot in _ENDLESS else False, f"it had not ended after {limit_s:g} s")
            finally:
                process.kill()
                process.wait()
                end_left(_MARK, state)
        return _result(place, process.returncode)


def _result(place: Path, status: int) -> CallResult:
    with suppress(OSError, ValueError):
        found = json.loads((place / "result.json").read_text("utf-8"))
        return CallResult(found["ok"], found["detail"])
    said = (place / "output").read_text("utf-8", "replace").strip().splitlines() or ["it said nothing"]
    return CallResult(False, f"the process ended with status {status}: {said[-1]}")
