"""A run whose folder is gone, asked for at the very moment at which its supervisor ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perpetual.toolkit import platform
from perpetual_local import scheduler as local

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")


def test_a_supervisor_that_ends_during_the_look_leaves_a_lost_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = platform.identity_of(supervisor.pid)
    assert identity is not None

    def ended_meanwhile(pid: int) -> None:
        supervisor.communicate(b"\n")

    monkeypatch.setattr(local, "folder_of", ended_meanwhile)
    native_id = "/".join(map(str, (*identity, "nonce", "", "")))
    seen = local.build({"max_log_bytes": 1_000}).poll(native_id, tmp_path / "removed")
    assert supervisor.returncode is not None
    assert (seen.state, seen.detail) == ("lost", "its folder was removed")
