"""What `perpetual.testing` says of itself."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import perpetual.testing


def test_the_package_names_its_modules_and_suites() -> None:
    told = str(perpetual.testing.__doc__)
    modules = {path.stem for path in Path(str(perpetual.testing.__file__)).parent.glob("*.py")} - {"__init__"}
    assert [name for name in sorted(modules) if f"`{name}`" not in told] == []
    for name in sorted(modules):
        found = vars(importlib.import_module(f"perpetual.testing.{name}")).get("__all__", ())
        assert [item for item in found if item.endswith("Contract") and f"`{item}`" not in told] == []


def test_a_failing_suite_shows_the_values_that_it_compared(tmp_path: Path) -> None:
    """Without any plugin of pytest, and in each room of a suite."""
    (tmp_path / "test_acme.py").write_text(
        "import pytest\n"
        "from perpetual.testing.memory_store import InMemoryStore\n"
        "from perpetual.testing.stores import StoreContract\n"
        "class Acme(InMemoryStore):\n"
        "    def count(self, kind, **equals): return 7\n"
        "class TestAcme(StoreContract):\n"
        "    @pytest.fixture\n"
        "    def store(self): return Acme()\n"
    )
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "empty_store or many_rows",
         "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert "assert 7 == 1500" in found.stdout
    shown = [line for line in found.stdout.splitlines() if line.startswith("E ") and "where 7 = count(" in line]
    assert len(shown) == 2
