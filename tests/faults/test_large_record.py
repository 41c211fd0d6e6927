"""Soak: a proposal among ten thousand experiments costs what one among ten does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "tools" / "bench_proposals.py"


@pytest.mark.soak
def test_a_proposal_costs_the_same_among_ten_thousand() -> None:
    done = subprocess.run([sys.executable, str(BENCH)], capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    ratios = [float(found) for found in re.findall(r"([\d.]+)x", done.stdout)]
    assert len(ratios) == 2
    assert max(ratios) < 4.0, done.stdout
