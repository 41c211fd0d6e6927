"""What the scaffold's tests look at: a project's folder, and what lies in it. For the test files beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from perpetual.api import ScaffoldAnswer
from perpetual.config import Config


@contextmanager
def folder() -> Iterator[Config]:
    """A project's folder as `init` would find it; not tmp_path, which one test's examples would share."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "project"
        (root / ".perpetual").mkdir(parents=True)
        yield Config(root)


def snapshot(root: Path) -> dict[str, bytes | None]:
    """Every file outside of `.perpetual/` with its bytes, every folder with None."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
        if ".perpetual" not in path.parts
    }


def actions(answer: ScaffoldAnswer | dict[str, Any]) -> dict[str, str]:
    """What was done to each file."""
    return {item["path"]: item["action"] for item in answer["files"]}
