"""In CI a skipped test is a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASE = Path(__file__).parents[1] / "fixtures" / "one_skip.py"


@pytest.mark.parametrize(("ci", "word"), [("1", "1 failed"), ("", "1 skipped")])
@pytest.mark.slow
def test_a_skipped_test_fails_in_ci(ci: str, word: str) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASE)]
    done = subprocess.run(words, env={**os.environ, "PERPETUAL_CI": ci}, capture_output=True, text=True, check=False,
                          cwd=CASE.parents[2])  # fmt: skip
    assert word in done.stdout
    assert done.returncode == (1 if ci else 0)
