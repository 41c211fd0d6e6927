"""`plugins check` calls commands, tools, report sections and observers in a scratch lab, and kills stores' writers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from perpetual.cli.app import run
from perpetual_devkit.scratch_calls import CallResult, call_in_scratch

SOURCE = """
import os, subprocess, sys, time
import click
from perpetual.api import CliContext, Conflict, Provider, hookimpl, json_option, pass_cli

@click.command()
@json_option
@pass_cli
def good(cli):
    "Counts."
    cli.answer("count", {"n": len(cli.lab.status()["hypotheses"])}, "2")

@click.command()
@json_option
@pass_cli
def chatty(cli):
    "Prints beside its document."
    click.echo("hello")
    cli.answer("count", {"n": 1}, "1")

@click.command()
def breaks():
    "Breaks."
    {}["nothing"]

@click.command()
def asks():
    "Asks."
    click.confirm("Really?", abort=True)

@click.command()
def refuses():
    "Refuses."
    raise Conflict("not today")

@click.command()
@click.argument("name")
def needs(name):
    "Needs a name."

@click.command()
def serves():
    "Serves, with a child of its own."
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open(os.environ["HOME"] + "/../../child-of-a-command", "w").write(str(child.pid))
    time.sleep(600)

@click.command()
def dies():
    "Ends its process."
    os._exit(7)

def tool(options):
    return lambda lab, status="open": {"count": len(lab.status()["hypotheses"])}

def tool_with_a_set(options):
    return lambda lab: {"names": {1, 2}}

def tool_that_needs(options):
    def count(lab, status): ...
    return count

def tool_without_a_lab(options):
    return lambda: 1

async def later(lab): ...

def coroutine(options):
    return later

def section(options):
    return lambda lab: options["title"]

def number(options):
    return lambda lab: 3

def no_function(options):
    return "text"

def hangs(options):
    time.sleep(600)
"""

Call = Callable[..., CallResult]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    (tmp_path / "acme_parts.py").write_text(SOURCE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def made(slot: str, attribute: str, **how: float) -> CallResult:
        return call_in_scratch(slot, f"acme/{attribute}", f"acme_parts:{attribute}", {"title": "## Cost"}, **how)

    return made


@pytest.mark.parametrize(
    ("slot", "attribute", "ok", "words"),
    [
        ("command", "good", True, "called without arguments"),
        ("command", "refuses", True, "it refused: not today"),
        pytest.param("command", "needs", None, "it needs NAME", marks=pytest.mark.slow),
        pytest.param("command", "chatty", False, "something else than one document", marks=pytest.mark.slow),
        ("command", "asks", None, "it asks a person"),
        ("command", "breaks", False, "KeyError: 'nothing'"),
        ("command", "dies", False, "ended with status 7"),
        ("mcp_tool", "tool", True, "called without arguments"),
        pytest.param("mcp_tool", "tool_that_needs", None, "it needs status", marks=pytest.mark.slow),
        ("mcp_tool", "tool_with_a_set", False, "cannot be JSON"),
        pytest.param("mcp_tool", "tool_without_a_lab", False, "cannot be called with a lab", marks=pytest.mark.slow),
        pytest.param("mcp_tool", "coroutine", False, "coroutine", marks=pytest.mark.slow),
        ("report_section", "section", True, "7 characters"),
        ("report_section", "number", False, "a int instead of Markdown"),
        pytest.param("report_section", "no_function", False, "cannot be called with a lab", marks=pytest.mark.slow),
    ],
)
def test_each_offered_part_is_called_once(call: Call, slot: str, attribute: str, ok: bool | None, words: str) -> None:
    found = call(slot, attribute)
    assert (found.ok, words in found.detail) == (ok, True), found


@pytest.mark.slow
def test_a_call_that_hangs_is_ended(call: Call) -> None:
    assert call("report_section", "hangs", limit_s=1.0) == CallResult(False, "it had not ended after 1 s")


@pytest.mark.slow
def test_processes_that_a_command_leaves_are_ended(call: Call, tmp_path: Path) -> None:
    found = call("command", "serves", limit_s=3.0)
    assert found == CallResult(None, "it had not ended after 3 s")
    child = int((tmp_path / "child-of-a-command").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert [path for path in tmp_path.iterdir() if path.name.startswith("perpetual-")] == []


OBSERVER = """
from perpetual.api import hookimpl

@hookimpl
def perpetual_event(event):
    if event.kind == "{kind}":
        raise ValueError("I do not like " + event.kind)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "ok"), [("nothing", True), ("hypothesis_added", False)])
def test_observers_hear_the_events_of_a_scratch_lab(
    install: Callable[..., None], project: Path, capsys: pytest.CaptureFixture[str], kind: str, ok: bool
) -> None:
    install("acme", "acme_observer", OBSERVER.format(kind=kind))
    assert run(["plugins", "check", "acme", "--json"]) == (0 if ok else 1)
    (item,) = json.loads(capsys.readouterr().out)["items"]
    (check,) = item["checks"]
    assert (item["ok"], item["slot"], check["check"]) == (ok, None, "perpetual_event")
    assert ("ValueError: I do not like hypothesis_added" in check["detail"]) is not ok
    assert run(["plugins", "check", "acme", "--no-suites", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == []


@pytest.mark.slow
def test_writers_of_a_store_are_killed() -> None:
    options = {"lock_timeout_s": 30.0}
    found = call_in_scratch("store", "perpetual-lab/tinydb", "perpetual_tinydb.store:open_store", options)
    assert found.ok, found
    assert found.detail.startswith("6 kills of 3 writers, ")


def test_a_store_of_one_process_has_no_verdict() -> None:
    found = call_in_scratch("store", "acme/twin", "perpetual.testing.memory_store:build", {})
    assert (found.ok, "it takes one process" in found.detail) == (None, True)


@pytest.mark.slow
def test_the_command_shows_the_kills(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plugins", "check", "tinydb", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert {one["check"]: one["ok"] for one in item["checks"]}["chaos"] is True
    assert os.listdir(project) == [".perpetual"]
