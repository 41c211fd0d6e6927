"""The documentation's examples run, and the generated pages are what the program would write now."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.M | re.S)


def blocks(page: str, kind: str) -> list[tuple[str | None, str]]:
    matches = _BLOCK.finditer((ROOT / page).read_text())
    found = [(match["title"], match["text"]) for match in matches if match["kind"] == kind]
    assert found, f"{page} has no {kind} block"
    return found


def make_docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_docs", ROOT / "tools" / "make_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=cwd,
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("page", ["cli.md", "hooks.md", "config.md"])
def test_generated_pages_are_fresh(page: str) -> None:
    assert (ROOT / "docs" / page).read_text() == make_docs().pages()[page], "stale: make docs"


def test_quickstart_runs_as_it_stands(tmp_path: Path) -> None:
    folder = tmp_path / "quickstart"
    folder.mkdir()
    for title, text in blocks("docs/quickstart.md", "python"):
        assert title is not None
        (folder / title).write_text(text)
    console = "".join(text for _, text in blocks("docs/quickstart.md", "console"))
    lines = [line.removeprefix("$ ") for line in console.splitlines()]
    outputs = {}
    for line in lines:
        done = shell(line, folder)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
        outputs[line] = done.stdout
    assert "supported" in outputs["perpetual hypotheses show h1"]
    assert (folder / "report.md").read_text().startswith("# quickstart")


def test_readmes_python_runs_as_it_stands(tmp_path: Path) -> None:
    ((_, text),) = blocks("README.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "supported"


def test_readmes_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_tutorials_plugin_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files, as a distribution on the import path: found, chosen, and asked for scores."""
    for title, text in blocks("docs/tutorial-plugin.md", "python"):
        assert title is not None
        (tmp_path / title).parent.mkdir(exist_ok=True)
        (tmp_path / title).write_text(text)
    (tmp_path / "perpetual_thrift" / "__init__.py").touch()
    info = tmp_path / "perpetual_plugin_thrift-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: perpetual-plugin-thrift\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text("[perpetual.plugins]\nthrift = perpetual_thrift.plugin\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    project = tmp_path / "project"
    for line in (
        f"perpetual init -t {project}",
        f"perpetual --project {project} methodology set exploration_strategy thrift",
        f"perpetual --project {project} hypotheses add claim --metric m --direction max --mde 1 --baseline 0",
        f"perpetual --project {project} propose -h h1 --command true --cost 1h",
        f"perpetual --project {project} plugins check thrift",
    ):
        done = shell(line, tmp_path)
        assert done.returncode == 0, f"$ {line}\n{done.stdout}{done.stderr}"
        if "propose" in line:
            assert "the cheapest first" in done.stdout


def test_readmes_verdicts_are_the_campaigns() -> None:
    from perpetual_demo.campaign import CAMPAIGN

    readme = (ROOT / "README.md").read_text()
    for claim in CAMPAIGN:
        assert f"| {claim.statement} | {claim.expected} |" in readme
