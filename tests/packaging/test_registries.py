"""A registry that fails for a moment fails no test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tenacity import wait_none

from tests.fixtures import registries


@pytest.mark.parametrize(("failures", "fetched"), [(0, True), (registries.TRIES - 1, True), (registries.TRIES, False)])
def test_a_fetch_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, fetched: bool) -> None:
    monkeypatch.setattr(registries.fetch.retry, "wait", wait_none())
    command = ["sh", "-c", f"echo >> tried; test $(wc -l < tried) -gt {failures}"]
    if fetched:
        registries.fetch(command, cwd=tmp_path, limit_s=60)
    else:
        with pytest.raises(subprocess.CalledProcessError):
            registries.fetch(command, cwd=tmp_path, limit_s=60)
    assert len((tmp_path / "tried").read_text().splitlines()) == min(failures + 1, registries.TRIES)
