"""The plugin of `docs/how-to/a-bigger-plugin.md`: its size, and a stranger's distribution that fills its slot."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.registry import Registry

SPEC = importlib.util.spec_from_file_location("blocks_of_pages", Path(__file__).with_name("blocks.py"))
assert SPEC is not None
assert SPEC.loader is not None
BLOCKS = importlib.util.module_from_spec(SPEC)
sys.modules["blocks_of_pages"] = BLOCKS
SPEC.loader.exec_module(BLOCKS)

PAGE = "docs/how-to/a-bigger-plugin.md"
SIREN = Path(__file__).parents[1] / "fixtures" / "third_party" / "acme-siren"
FILES = {block.title: block.text for block in BLOCKS.blocks(PAGE) if block.title is not None}


def test_the_plugin_has_a_hundred_lines_at_most() -> None:
    lines = [line for name, text in FILES.items() if name.endswith(".py") for line in text.splitlines() if line.strip()]
    assert 50 < len(lines) < 100


def lay(site: Path, files: dict[str, str]) -> None:
    """Lays a distribution on the import path as an installer would."""
    for name, text in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(text, "utf-8")
    BLOCKS.lay_entry_points(site / "pyproject.toml")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program with both distributions, in a project of its own."""
    site, project = tmp_path / "site", tmp_path / "project"
    lay(site, FILES)
    lay(site, {path.name: path.read_text("utf-8") for path in SIREN.iterdir() if path.is_file()})
    Lab.init(project, name="bells").close()
    own = {"PYTHONPATH": str(site), "PERPETUAL_CACHE_DIR": str(tmp_path / "cache")}

    def call(*words: str, code: int = 0) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "perpetual", *words, "--json"], cwd=project, env={**os.environ, **own},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr + done.stdout
        return json.loads(done.stdout)

    return call


@pytest.mark.slow
def test_a_stranger_fills_its_slot(program: Any) -> None:
    listed = {item["name"]: item for item in program("plugins", "list")["items"]}
    assert (listed["bell"]["state"], listed["acme-siren"]["state"]) == ("active", "active")
    assert [one["slot"] for one in listed["acme-siren"]["providers"]] == ["ringer", "ringer"]
    program("propose", "--command", "false", "--cost", "1m")
    program("approve", "e1")
    program("run", "e1", "--wait", code=1)
    program("services", "start", "bell")
    try:
        for _ in range(200):
            items = program("alarms")["items"]
            if items:
                break
    finally:
        program("services", "stop", "bell")
    assert [item["fields"] for item in items] == [{"run": "r1", "said": ["", "wee-oo r1", "r1 failed"]}]
    found = {item["name"]: item for item in program("plugins", "check", "acme-siren", code=1)["items"]}
    assert (found["siren"]["ok"], found["mute"]["ok"]) == (True, False)
    assert found["mute"]["suite"] == "perpetual_bell.testing.RingerContract"


def test_a_provider_does_no_harm_without_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SIREN))
    acme_siren_plugin = import_module("acme_siren_plugin")

    (info,) = [
        info
        for info in Registry(extra=[("acme-siren", "acme-siren", "1.0", lambda: acme_siren_plugin)]).plugins
        if info.name == "acme-siren"
    ]
    assert (info.state, info.offers) == ("loaded", ())
