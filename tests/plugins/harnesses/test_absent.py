"""Without a scaffolder a project is created, read and used; what would write an agent's file says what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PluginError
from perpetual.cli.app import run
from perpetual.registry import Registry
from perpetual.testing.plugin import FakeDistribution, fake_distribution  # noqa: F401 - a fixture

WHY = "no scaffolder is in force"


def opened(folder: Path) -> Lab:
    return Lab.open(folder, registry=Registry(["harnesses"]))


def test_a_project_that_knew_an_agent_goes_on(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.scaffold(["mcp"])
    before = (project / ".mcp.json").read_bytes()
    with opened(project) as lab:
        lab.hypotheses.add("it goes on")
        assert lab.status()["hypotheses"][0]["statement"] == "it goes on"
        (found,) = [item for item in lab.doctor() if item["check"] == "harnesses"]
        assert found["ok"] is None
        assert WHY in found["detail"]
        for asked in ({"names": ["mcp"]}, {"remove": ["mcp"]}):
            with pytest.raises(PluginError, match=WHY) as caught:
                lab.scaffold(**asked)  # type: ignore[arg-type]
            assert "init -H none" in str(caught.value.hint)
    assert (project / ".mcp.json").read_bytes() == before
    with Lab.open(project) as lab:
        assert lab.scaffold(remove=["all"])["harnesses"] == []
    assert not (project / ".mcp.json").exists()


@pytest.mark.slow
def test_a_project_that_knew_none_misses_nothing(project: Path) -> None:
    with opened(project) as lab:
        assert [item for item in lab.doctor() if item["check"].startswith("harness")] == []


def test_init_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERPETUAL_WITHOUT", "harnesses")
    fresh = tmp_path / "fresh"
    assert run(["init", "-t", str(fresh), "-H", "mcp"]) == 1
    assert WHY in capsys.readouterr().err
    assert not (fresh / ".perpetual").exists(), "what cannot be done whole is not begun"
    assert run(["init", "-t", str(fresh), "-H", "none"]) == 0
    assert (fresh / ".perpetual" / "config.yaml").is_file()


NOTES = """
from perpetual.api import Provider, Scaffolder, hookimpl


class Notes(Scaffolder):
    def chosen(self, view, names=()):
        return [name for name in names if name != "none"]

    def scaffold(self, view, names=(), *, remove=(), command=None, dry_run=False, force=False):
        (view.root / "ASKED").write_text(",".join(names))
        files = [{"path": "ASKED", "action": "created", "reason": None}]
        return {"harnesses": [*names], "command": ["perpetual"], "files": files, "trust": []}

    def examine(self, view):
        return []


def build(options):
    return Notes()


@hookimpl
def perpetual_scaffolders():
    return [Provider("scaffolder", "notes", "acme_notes:build")]
"""


def test_another_one_is_chosen_by_one_line(
    fake_distribution: Callable[..., FakeDistribution],  # noqa: F811 - the fixture
    project: Path,
) -> None:
    """The bundled one is asked no more."""
    fake_distribution({"acme_notes.py": NOTES}, {"acme-notes": "acme_notes"})
    with Lab.open(project) as lab:
        lab.config.set("scaffolder", "notes")
    with Lab.open(project) as lab:
        assert lab.scaffold(["mcp"])["files"] == [{"path": "ASKED", "action": "created", "reason": None}]
    assert (project / "ASKED").read_text() == "mcp"
    assert not (project / ".mcp.json").exists()
