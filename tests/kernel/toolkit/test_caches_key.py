"""The key under which discovered plugins are cached: one for each import path, however Python was started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ASK = "from perpetual.toolkit.caches import plugins_key; print(plugins_key())"


@pytest.mark.parametrize("flags", [(), ("-P",)])
def test_a_folder_of_the_path_is_part_of_the_key(tmp_path: Path, flags: tuple[str, ...]) -> None:
    def key(*folders: Path) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
        done = subprocess.run([sys.executable, *flags, "-c", _ASK], env=environment, capture_output=True, check=True)
        return done.stdout.decode()

    (tmp_path / "site").mkdir()
    assert str(tmp_path / "site") in key(tmp_path / "site")
    assert key(tmp_path / "site") != key()
