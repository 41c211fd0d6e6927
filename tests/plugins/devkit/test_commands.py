"""The developer tools are a plugin: other commands do not load them, and the program works without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual.cli.app import run


def devkit_modules(*arguments: str) -> set[str]:
    """Returns which of the devkit's modules a command has imported, the catalogue of plugins being cached."""
    code = (
        "import sys\nfrom perpetual.cli.app import run\n"
        "for _ in range(2): assert run(sys.argv[1:]) == 0\n"
        "sys.stderr.write(' '.join(name for name in sys.modules if name.startswith('perpetual_devkit')))"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PERPETUAL_TRACE")}
    for _ in range(2):  # the first fills the cache
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True, check=True
        )
    return set(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["plugins", "--help"], ["plugins", "list", "--json"]])
def test_other_commands_do_not_load_the_tools(project: Path, arguments: list[str]) -> None:
    assert devkit_modules(*arguments) == set()


def test_help_names_the_commands(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "check  " in shown
    assert "new  " in shown
    assert run(["plugins", "chek"]) == 2


def test_other_commands_work_without_the_plugin_devkit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = project / ".perpetual" / "config.yaml"
    text = path.read_text("utf-8")
    assert "  disabled: []" in text
    path.write_text(text.replace("  disabled: []", "  disabled: [devkit]"), "utf-8")
    assert run(["plugins", "list", "--json"]) == 0
    items = {item["name"]: item["state"] for item in json.loads(capsys.readouterr().out)["items"]}
    assert items["devkit"] == "disabled"
    assert run(["plugins", "check"]) == 2
    assert run(["chaos", "--kills", "1"]) == 2
