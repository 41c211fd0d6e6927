"""`perpetual daemon --detach` where it cannot: what it says, its status, and that nothing is left running."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from tests.support import until

Said = tuple[int, dict[str, str]]


@pytest.fixture
def detach(project: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], Said]]:
    """Runs it; answers its exit status and its error. No process of the daemon's lives on."""

    def call() -> Said:
        capsys.readouterr()
        code = run(["daemon", "--detach", "--stay", "--json"])
        return code, json.loads(capsys.readouterr().out)["error"]

    yield call
    with Lab.open(project) as lab:
        states = {item["name"]: item["state"] for item in lab.services.list()}
    assert not {"starting", "running"} & {*states.values()}, states


def test_a_process_that_dies_before_it_is_ready_is_said(
    detach: Callable[[], Said], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = project / "python"
    program.write_text("#!/bin/sh\necho 'no such library' >&2\nexit 9\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    code, error = detach()
    assert code == 1
    assert "daemon-keeper did not start: it ended with exit status 9" in error["message"]
    log = project / ".perpetual" / "services" / "daemon-keeper.log"
    assert str(log) in error["hint"]
    assert log.read_text("utf-8") == "no such library\n"


def test_a_program_that_is_missing_is_said(detach: Callable[[], Said], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    code, error = detach()
    assert code == 1
    assert "/no/such/python" in error["message"]


@pytest.mark.parametrize("kind", ["a folder", "a link", "a pipe"])
def test_a_log_that_cannot_be_opened_is_said(
    detach: Callable[[], Said], project: Path, tmp_path: Path, kind: str
) -> None:
    """What lies at its place is not written to, not followed and not waited for."""
    log = project / ".perpetual" / "services" / "daemon-keeper.log"
    log.parent.mkdir(exist_ok=True)
    aim = tmp_path / "aim"
    if kind == "a folder":
        log.mkdir()
    elif kind == "a link":
        log.symlink_to(aim)
    else:
        os.mkfifo(log)
    code, error = detach()
    assert code == 1
    assert str(log) in error["message"]
    assert error["hint"]
    assert not aim.exists()


def test_a_place_that_is_no_folder_is_said(detach: Callable[[], Said], project: Path) -> None:
    (project / ".perpetual" / "services").touch()
    code, error = detach()
    assert code == 1
    assert "services: it is not a folder" in error["message"]
    (project / ".perpetual" / "services").unlink()


def test_a_folder_that_is_read_only_is_said(
    detach: Callable[[], Said], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the file system answers it: the rights of a folder hold up no test that root runs."""
    opened = os.open

    def refuse(path: str, flags: int, *more: int, **where: int) -> int:
        if flags & os.O_CREAT and "daemon-keeper" in os.fspath(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *more, **where)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        code, error = detach()
    assert code == 1
    assert "Read-only file system" in error["message"]


def test_a_loop_that_cannot_be_built_is_said_at_once(detach: Callable[[], Said], project: Path) -> None:
    path = project / ".perpetual" / "config.yaml"
    whole = path.read_text("utf-8")
    path.write_text(f"{whole}\nslots:\n  loop: nosuch\n", "utf-8")
    code, error = detach()
    assert code == 2
    assert "loop: unknown provider 'nosuch'" in error["message"]
    path.write_text(whole, "utf-8")


@pytest.mark.slow
def test_a_daemon_that_refuses_ends_its_keeper(
    detach: Callable[[], Said], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper starts, and what it starts cannot: it is not tried again, and the reason is kept."""
    monkeypatch.setenv("PERPETUAL_DAEMON_ARGUMENTS", json.dumps(["--no-such-option"]))
    with Lab.open(project) as lab:
        lab.services.start("daemon-keeper")
        until(lambda: lab.services.status("daemon-keeper")["state"] == "failed")
        assert "refused its arguments" in str(lab.services.status("daemon-keeper")["reason"])
