"""A template folder of an outside distribution is a harness, merged, removed, detected and driven like the others."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from perpetual.api import Harness, PluginError
from perpetual.testing.harnesses import HarnessContract
from perpetual_harnesses.template import TemplateHarness

SOURCE = Path(__file__).parents[2] / "fixtures" / "third_party" / "acme-agents"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder like site-packages with the distribution in it."""
    folder = tmp_path / "site"
    shutil.copytree(SOURCE / "acme_templates", folder / "acme_templates")
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text("utf-8"))["project"]
    info = folder / f"acme_agents-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "entry_points.txt").write_text("[perpetual.plugins]\nacme-agents = acme_templates\n")
    return folder


class TestAcmeShell(HarnessContract):
    """It keeps the promises of its slot."""

    @pytest.fixture
    def harness(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
        """The harness, as its distribution builds it."""
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, "acme_templates", raising=False)
        built: Harness = importlib.import_module("acme_templates").shell({})
        return built


def test_the_program_scaffolds_it_and_takes_it_out(site: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".acme").mkdir(parents=True)
    settings = b'{\n  // mine\n  "servers": {"other": {"command": "x"}}\n}\n'
    (project / ".acme/settings.json").write_bytes(settings)
    own = {"PYTHONPATH": str(site), "PERPETUAL_CACHE_DIR": str(tmp_path / "cache")}

    def perpetual(*words: str) -> dict[str, object]:
        done = subprocess.run(
            [sys.executable, "-m", "perpetual", *words, "--json"], cwd=project, env={**os.environ, **own},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    document = perpetual("init")  # found by its folder
    files = document["files"]
    assert isinstance(files, list)
    assert {item["path"]: item["action"] for item in files} == {
        ".acme/settings.json": "merged", ".acme/rules.md": "created", "AGENTS.md": "created",
    }  # fmt: skip
    assert "perpetual" in (project / ".acme/settings.json").read_text()
    rules = (project / ".acme/rules.md").read_text()
    assert rules.startswith("# Rules of the acme shell\n")
    assert "## Stop when there is a reason" in rules  # Perpetual's own text
    perpetual("init", "--remove", "acme-shell")
    assert (project / ".acme/settings.json").read_bytes() == settings
    assert sorted(path.name for path in project.iterdir()) == [".acme", ".perpetual"]


def test_it_says_how_it_is_driven() -> None:
    row = TemplateHarness("shell", SOURCE / "acme_templates").driving()
    assert row is not None
    assert row.acp == ("acme-shell", "--acp")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("detect: [", r"shell/template\.yaml: "),
        ("- a list", "is no mapping"),
        ("detect: []\nfiles: []\ntrust: []\nfils: []", "unknown key 'fils'"),
        ("detect: []\nfiles: []", "no 'trust'"),
        ("detect: []\nfiles: [{path: a, how: own, sauce: []}]\ntrust: []", "a: unknown key 'sauce'"),
        ("detect: []\nfiles: [{path: a, how: own, source: [b.md]}]\ntrust: []", r"b\.md cannot be read"),
    ],
)
def test_a_template_with_a_fault_names_it(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "shell").mkdir()
    (tmp_path / "shell/template.yaml").write_text(text)
    with pytest.raises(PluginError, match=problem):
        TemplateHarness("shell", tmp_path).scaffold(project="p", command=("perpetual",))
