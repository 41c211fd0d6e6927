"""What `perpetual.testing` says of itself."""

from __future__ import annotations

import importlib
from pathlib import Path

import perpetual.testing


def test_the_package_names_its_modules_and_suites() -> None:
    told = str(perpetual.testing.__doc__)
    modules = {path.stem for path in Path(str(perpetual.testing.__file__)).parent.glob("*.py")} - {"__init__"}
    assert [name for name in sorted(modules) if f"`{name}`" not in told] == []
    for name in sorted(modules):
        found = vars(importlib.import_module(f"perpetual.testing.{name}")).get("__all__", ())
        assert [item for item in found if item.endswith("Contract") and f"`{item}`" not in told] == []
