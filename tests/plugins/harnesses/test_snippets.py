"""Harnesses whose configuration is outside of projects: init prints what a person puts there and writes nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from perpetual import Lab
from perpetual.cli.app import run

PATHS = {
    "windsurf": "~/.codeium/windsurf/mcp_config.json",
    "cline": "~/.cline/data/settings/cline_mcp_settings.json",
    "goose": "~/.config/goose/config.yaml",
    "continue": "~/.continue/config.yaml",
    "amp": "~/.config/amp/settings.json",
    "droid": "~/.factory/mcp.json",
}


def entry(text: str) -> dict[str, Any]:
    """Returns the one entry of a printed document."""
    document = YAML(typ="safe", pure=True).load(text)  # JSON is YAML too
    ((_, servers),) = document.items()
    found: dict[str, Any] = servers[0] if isinstance(servers, list) else servers["perpetual"]
    return found


def test_each_is_printed_and_nothing_is_written_outside(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    command = ["/opt/a b/perpetual", "--safe"]
    words = [word for name in PATHS for word in ("-H", name)]
    assert run(["init", "-t", str(project), *words, "--command", "'/opt/a b/perpetual' --safe", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {one["path"] for one in document["files"]} == {"AGENTS.md"}
    assert {one["harness"]: one["path"] for one in document["snippets"]} == PATHS
    for one in document["snippets"]:
        found = entry(one["text"])
        assert [found.get("command") or found["cmd"], *found["args"]] == [*command, "mcp"], one
        told = found.get("env", {}).get("PERPETUAL_PROJECT")
        assert told == (str(project) if one["harness"] in ("windsurf", "cline", "continue") else None)
        if one["path"].endswith(".json"):
            json.loads(one["text"])
    assert list(home.rglob("*")) == []


def test_a_folder_of_a_strange_name_stays_one_value(tmp_path: Path) -> None:
    root = tmp_path / 'a "b" {{program}} \\ c: [x]'
    with Lab.init(root) as lab:
        for name in ("windsurf", "continue"):
            (one,) = lab.scaffold([name]).get("snippets", [])
            assert entry(one["text"])["env"] == {"PERPETUAL_PROJECT": str(root)}
            assert one["harness"] == name


def test_a_person_reads_what_to_put_where(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "-t", str(project), "-H", "goose"]) == 0
    shown = capsys.readouterr().out
    assert "for ~/.config/goose/config.yaml (an extension of Goose):\nextensions:\n  perpetual:\n" in shown
    assert "Put the printed entry into ~/.config/goose/config.yaml" in shown
    assert run(["init", "-t", str(project), "--remove", "goose"]) == 0
    assert not (project / "AGENTS.md").exists()


def test_the_doctor_claims_nothing_of_a_file_it_does_not_read(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.scaffold(["amp"], command=[sys.executable, "-m", "perpetual"])
        (found,) = [one for one in lab.doctor() if one["check"] == "harness amp"]
    assert found["ok"] is None
    assert found["detail"].endswith("~/.config/amp/settings.json is outside of the project and is not read")
