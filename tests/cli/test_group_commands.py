"""Subcommands that plugins add to Perpetual's own groups: listed, completed, called, refused, and imported late."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from perpetual.cli.app import program, run
from perpetual.cli.table import ORDER
from perpetual.commands.offered import OpenGroup
from perpetual.testing.plugin import write_distribution
from perpetual.toolkit.reserved import GROUPS, command_problem, subcommand_of

Install = Callable[..., None]

PLUGIN = """
from perpetual.api import Provider, hookimpl

@hookimpl
def perpetual_commands():
    return [Provider("command", "{name}", "{factory}", "Weigh the record")]
"""
COMMAND = """
import click
from perpetual.api import CliContext, Conflict, json_option, pass_cli

@click.command()
@click.option("--fail", is_flag=True)
@json_option
@pass_cli
def weigh(cli: CliContext, fail: bool) -> int:
    \"\"\"Not the summary.\"\"\"
    if fail:
        raise Conflict("too heavy", hint="throw something away")
    cli.answer("weight", {"kilograms": 3}, "3 kg")
    return 1
"""


@pytest.fixture
def weigh(install: Install, project: Path) -> None:
    install("acme", "acme_weigh", PLUGIN.format(name="store.weigh", factory="acme_weigh_command:weigh"))
    (Path(sys.path[-1]) / "acme_weigh_command.py").write_text(COMMAND, "utf-8")


def test_the_groups_are_those_of_the_program() -> None:
    groups = {name: program.get_command(click.Context(program), name) for name in ORDER}
    open_ones = {name: set(group.commands) for name, group in groups.items() if isinstance(group, OpenGroup)}
    assert open_ones == {name: set(names) for name, names in GROUPS.items()}
    assert [name for name, group in groups.items() if isinstance(group, click.Group) and name not in GROUPS] == []
    assert {name: group and group.name for name, group in groups.items()} == {name: name for name in groups}


def test_a_plugin_s_subcommand_is_called_as_its_group_s_are(weigh: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "weigh"]) == 1
    assert capsys.readouterr().out == "3 kg\n"
    assert run(["store", "weigh", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"schema": "perpetual.acme.weight/1", "kilograms": 3}
    assert run(["store", "weigh", "--fail", "--json"]) == 6
    assert json.loads(capsys.readouterr().out)["error"]["hint"] == "throw something away"
    assert run(["store", "weigh", "--no-such"]) == 2
    assert "perpetual store weigh --help" in capsys.readouterr().err
    assert run(["store", "weihg"]) == 2
    assert run(["store.weigh"]) == 2  # it is no command of the program


def test_help_and_completion_do_not_import_it(weigh: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.index("Commands:") < shown.index("verify") < shown.index("Commands of plugins:")
    assert shown.index("Commands of plugins:") < shown.index("Weigh the record")
    assert run(["--help"]) == 0
    assert "Weigh the record" not in capsys.readouterr().out
    assert isinstance(program, click.Group)
    context = click.Context(program, info_name="perpetual")
    store = program.get_command(context, "store")
    assert store is not None
    found = store.shell_complete(click.Context(store, parent=context, info_name="store"), "we")
    assert [(item.value, item.help) for item in found] == [("weigh", "Weigh the record")]
    assert "acme_weigh_command" not in sys.modules


@pytest.mark.parametrize(
    ("name", "words"),
    [("plugins.list", "`plugins list` is a command of Perpetual itself"), ("store.", "names no subcommand of store")],
)
def test_a_name_that_the_group_has_is_refused(
    install: Install, project: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    install("acme", "acme_weigh", PLUGIN.format(name=name, factory="acme_weigh:none"))
    assert run(["plugins", "list", "--json"]) == 0
    items = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    (provider,) = items["acme"]["providers"]
    assert provider["state"] == "failed"
    assert words in provider["reason"]
    assert run(["plugins", "list"]) == 0


def test_two_plugins_with_one_subcommand_have_their_full_names(
    install: Install, weigh: None, capsys: pytest.CaptureFixture[str]
) -> None:
    install("bcme", "acme_other", PLUGIN.format(name="store.weigh", factory="acme_weigh_command:weigh"))
    assert run(["store", "acme/weigh"]) == 1
    assert run(["store", "bcme/weigh"]) == 1
    assert capsys.readouterr().out == "3 kg\n3 kg\n"
    assert run(["store", "weigh"]) == 2


def test_the_name_of_a_command_says_its_group() -> None:
    assert subcommand_of("store.weigh") == ("store", "weigh")
    assert subcommand_of("acme/store.weigh") == ("store", "acme/weigh")
    assert [subcommand_of(name) for name in ("weigh", "acme/weigh", "shop.weigh", "a.b/weigh")] == [None] * 4
    assert [command_problem(name) for name in ("weigh", "shop.list", "store.weigh", "store.list")] == [None] * 4


def test_a_subcommand_that_cannot_be_loaded_is_an_error_of_its_plugin(
    install: Install, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("acme", "acme_weigh", PLUGIN.format(name="store.weigh", factory="acme_weigh:nowhere"))
    assert run(["store", "weigh", "--json"]) == 1
    assert "cannot be loaded" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run(["store", "stats"]) == 0


def test_no_group_command_exists_without_foreign_plugins(weigh: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--safe", "store", "weigh"]) == 2
    assert run(["--safe", "store", "--help"]) == 0
    assert "Weigh the record" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "thread", ["", "    Thread(target=sleep, args=(60,), daemon=True).start()\n"], ids=["alone", "thread"]
)
def test_an_interrupt_inside_of_a_made_text_is_130(tmp_path: Path, thread: str) -> None:
    """As of a class that is just being made: the interpreter would end itself by SIGINT after its cleaning up."""
    code = (
        "from threading import Thread\n"
        "from time import sleep\n\n"
        "import click\n"
        "from perpetual.api import Provider, hookimpl\n\n\n"
        "@click.command()\n"
        "def stop():\n"
        f"{thread}"
        "    exec('raise KeyboardInterrupt')\n\n\n"
        "@hookimpl\n"
        "def perpetual_commands():\n"
        "    return [Provider(slot='command', name='stop', factory='acme_stop:stop', summary='Stops.')]\n"
    )
    write_distribution(tmp_path, {"acme_stop.py": code}, {"acme-stop": "acme_stop"})
    done = subprocess.run(
        [sys.executable, "-m", "perpetual", "stop"], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PERPETUAL_CACHE_DIR": str(tmp_path / "cache")},
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (130, "error: interrupted")
