"""What a campaign with tools alone costs: `tools/bench_mcp.py` measures it, and here its bounds are held."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[3] / "tools" / "bench_mcp.py"


def _bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_mcp", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_mcp"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_campaign_takes_ten_calls_and_three_thousand_tokens(tmp_path: Path) -> None:
    bench = _bench()
    found = bench.campaign(tmp_path / "campaign", lasts_s=0.2)
    assert found["campaign_calls"] <= bench.BOUNDS["campaign_calls"] == 10
    assert found["campaign_text_tokens"] <= bench.BOUNDS["campaign_text_tokens"] == 3000
    assert found["campaign_supported"] == 1
    sizes = bench.listed(tmp_path / "campaign")
    assert sizes["tools_all_tokens"] <= bench.BOUNDS["tools_all_tokens"] == 6100
    assert sizes["tools_core_tokens"] <= bench.BOUNDS["tools_core_tokens"] == 2600
