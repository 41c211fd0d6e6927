"""Standard output belongs to the answer, whatever plugins print; and Ctrl-C is one line, from the first import on."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab, entry
from perpetual.cli import fastpath
from perpetual.cli.app import run
from perpetual.cli.interrupt import is_interrupt
from perpetual.lab.runs import Runs
from perpetual.lab.storage import Storage
from perpetual_local.scheduler import LocalScheduler

LONG_S = 60.0
NOISE = "a plugin was here"


@pytest.fixture
def noisy(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with an approved experiment, whose scheduler and whose export print as they please."""
    with Lab.open(project) as lab:
        lab.experiments.approve(lab.experiments.propose(None, command="true", wall_s=60.0).id)
    check, export = LocalScheduler.check, Storage.export

    def printing_check(self: LocalScheduler, *given: Any) -> None:
        print(NOISE)
        check(self, *given)

    def printing_export(self: Storage, *given: Any) -> Any:
        print(NOISE)
        return export(self, *given)

    monkeypatch.setattr(LocalScheduler, "check", printing_check)
    monkeypatch.setattr(Storage, "export", printing_export)
    return project


def test_a_document_is_alone_on_standard_output(noisy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "e1", "--dry-run", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["schema"] == "perpetual.run_plan/1"
    assert shown.err == f"{NOISE}\n"
    assert run(["run", "e1", "--dry-run"]) == 0  # people are shown it where it stands
    assert capsys.readouterr().out.startswith(NOISE)


def test_an_error_is_json_where_the_environment_asks_for_json(
    noisy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERPETUAL_OUTPUT", "json")
    assert run(["run", "e1", "--dry-run", "--seed", "-1"]) == 2
    assert run(["run", "e1", "false", "--dry-run"]) == 6
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["error"]["exit"], second["error"]["exit"]) == (2, 6)


def test_an_export_is_alone_on_standard_output(noisy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["store", "export"]) == 0
    shown = capsys.readouterr()
    assert all(json.loads(line) for line in shown.out.splitlines())
    assert shown.err == f"{NOISE}\n"


def test_help_is_shown_where_it_can_be_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "runs", "--help"]) == 0
    assert capsys.readouterr().out.startswith("Usage: perpetual runs")


def test_a_command_line_of_a_run_says_nothing_about_ours(
    noisy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "e1", "--", "true", "--json"]) == 6
    shown = capsys.readouterr()
    assert shown.err.startswith("error: e1 was approved with another command")
    assert shown.out == ""


def _program(redirections: str, *words: str) -> tuple[int, str]:
    """Exit status and what both streams had to say of the program in a shell with these redirections."""
    line = f'"$@" {redirections}'
    done = subprocess.run(
        ["sh", "-c", line, "sh", sys.executable, "-m", "perpetual", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LONG_S,
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("runs", "--json"), ("runs", "r9", "--json"), ("queue",)])
def test_an_answer_that_cannot_be_written_is_one_line_of_error(project: Path, words: tuple[str, ...]) -> None:
    status, told = _program("> /dev/full", *words)
    assert status in (1, 5)
    assert told.startswith("error: ")
    assert len(told.splitlines()) == 2
    assert "Traceback" not in told


@pytest.mark.parametrize("encoding", ["latin-1", pytest.param("ascii", marks=pytest.mark.slow)])
def test_characters_that_the_terminal_has_no_bytes_for(
    project: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pipe on Windows, or a locale of long ago: JSON escapes them, and people see their numbers."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("naïve 😀")
        lab.status()
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    status, told = _program("", "hypotheses", "show", "h1", "--json")
    assert (status, json.loads(told)["statement"]) == (0, "naïve 😀")
    status, told = _program("", "status")
    assert status == 0
    assert "😀" in told or r"\U0001f600" in told  # click takes an ASCII stream for a mistake, and writes UTF-8
    status, told = _program("", "hypotheses", "show", "naïve", "--json")
    assert (status, "naïve" in json.loads(told)["error"]["message"]) == (5, True)


@pytest.mark.parametrize("redirections", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_to_nowhere(noisy: Path, redirections: str) -> None:
    """No file of the record is opened in their place, where it would get what a child says."""
    status, told = _program(redirections, "run", "e1", "--wait")
    assert (status, "Error" in told) == (0, False)
    with Lab.open(noisy) as lab:
        assert [run.status for run in lab.runs.list().items] == ["done"]
        assert lab.storage.verify() == []


# --- Ctrl-C ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def sigint() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    gc.enable()  # which the program's start puts off


@pytest.mark.parametrize("words", [["status"], ["status", "--json"]])
def test_an_interrupt_is_named_while_the_program_starts(
    words: list[str], sigint: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(arguments: list[str]) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(fastpath, "answer", answer)
    monkeypatch.setattr(sys, "argv", ["perpetual", *words])
    with pytest.raises(SystemExit) as left:
        entry.main()
    assert left.value.code == 130
    shown = capsys.readouterr()
    if "--json" in words:
        assert json.loads(shown.out)["error"] == {
            "code": "interrupted", "message": "interrupted", "hint": None, "exit": 130,
        }  # fmt: skip
    else:
        assert (shown.out, shown.err) == ("", "error: interrupted\n")


def test_an_interrupt_is_named_when_another_error_wraps_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where a class is made during an import: the interrupt is the cause of what is raised."""

    def broken(*_: object, **__: object) -> None:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as problem:
            raise RuntimeError("Error calling __set_name__") from problem

    monkeypatch.setattr(Runs, "list", broken)
    assert run(["runs"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_other_errors_are_no_interrupt() -> None:
    loop = ValueError("its own context")
    loop.__context__ = TypeError("between")
    loop.__context__.__context__ = loop
    assert not is_interrupt(loop)
    assert not is_interrupt(None)


def test_a_signal_during_an_import(tmp_path: Path) -> None:
    """The real thing: a program whose first import takes its time."""
    (tmp_path / "click.py").write_text(
        "import sys, time\nsys.stdout.write('importing\\n')\nsys.stdout.flush()\ntime.sleep(600)\n"
    )
    root = Path(entry.__file__).parents[1]
    program = subprocess.Popen(
        [sys.executable, "-m", "perpetual", "runs"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root), str(root / "plugins")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "importing\n"
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=LONG_S)
        assert (program.returncode, out, err) == (130, "", "error: interrupted\n")
    finally:
        program.kill()
        program.wait()
