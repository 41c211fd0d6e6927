"""A project whose command line is left out or disabled: what is left, and the way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perpetual.cli.app import run
from perpetual.cli.table import KERNEL, ORDER


def _listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    """The names of the commands in all topics."""
    assert run([*options, "help", "--json"]) == 0
    topics = json.loads(capsys.readouterr().out)["topics"]
    return [line["name"] for topic in topics for line in topic["commands"]]


def test_every_command_is_in_one_topic(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _listed(capsys)
    assert {*ORDER} <= {*found}
    assert len({*found}) == len(found)
    assert run(["help", "more"]) == 2, "a bundled command has no topic"


def test_the_kernel_s_commands_work_without_the_plugin_cli(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _listed(capsys, "--without", "cli")
    assert {*found} & {*ORDER} == {name for name in ORDER if name in KERNEL or name == "sweep"}
    assert run(["--without", "cli", "--json", "hypotheses", "list"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"] == "no plugin that is loaded offers 'hypotheses'"
    assert error["hint"] == "perpetual plugins list shows which plugins are left out, and why"


def test_a_project_that_disabled_it_is_mended(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "set", "plugins.disabled", "cli"]) == 0
    assert run(["hypotheses", "list"]) == 2
    assert run(["status"]) == 0
    capsys.readouterr()
    assert run(["plugins", "list", "--json"]) == 0
    (left_out,) = (item for item in json.loads(capsys.readouterr().out)["items"] if item["name"] == "cli")
    assert left_out["state"] == "disabled"
    assert run(["config", "unset", "plugins.disabled"]) == 0
    assert run(["hypotheses", "list"]) == 0
