"""Row 6: the disk is full, or the folder may only be read: looking goes on, deeds say so, and nothing is half done."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from tests.plugins.tinydb.helpers import unprivileged
from tests.support import until

Answer = tuple[int, dict[str, Any]]

ADD = ("hypotheses", "add", "acc rises", "--metric", "acc", "--direction", "max", "--mde", "0.1", "--baseline", "1.0")

# Obeys command lines under a limit on the size of any file, as a quota or a full disk sets one.
_LIMITED = """
import io, json, resource, signal, sys
from contextlib import redirect_stdout
from perpetual.cli.app import run

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for line in sys.stdin:
    limit, arguments = json.loads(line)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    with redirect_stdout(io.StringIO()) as out:
        status = run([*arguments, "--json"])
    print(json.dumps([status, json.loads(out.getvalue())]), flush=True)
"""
_NO_LIMIT = -1


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_a_full_disk_during_a_deed(project: Path, store: str) -> None:
    """Nothing of the deed is there, what was there is shown, and with room again the same deed goes through."""
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    program = subprocess.Popen(
        # -B: a compiled module that the limit cut off would stay for the programs of other tests
        [sys.executable, "-B", "-c", _LIMITED],
        cwd=project,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def ask(limit: int, *arguments: str) -> Answer:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(json.dumps([limit, arguments]) + "\n")
        program.stdin.flush()
        status, document = json.loads(program.stdout.readline())
        return status, document

    try:
        assert ask(_NO_LIMIT, *ADD)[0] == 0
        assert ask(_NO_LIMIT, "propose", "-h", "h1", "--command", "echo acc=1", "--noise", "0.1")[0] == 0
        size = max(path.stat().st_size for path in (project / ".perpetual" / "store").iterdir())
        # a database has free pages yet: there it is the pages of its journal that find no room
        for limit in (size, size + 200, 10) if store == "tinydb" else (4096, 10):
            status, document = ask(limit, *ADD)
            assert status == 1, document
            assert document["error"]["code"] == "not_written"
            assert "nothing was changed" in document["error"]["message"]
            assert str(project / ".perpetual" / "store") in document["error"]["message"]
            assert "space" in document["error"]["hint"]
            status, document = ask(limit, "approve", "e1")
            assert (status, document["error"]["code"]) == (1, "not_written")
            status, document = ask(limit, "hypotheses", "list")
            assert (status, [item["id"] for item in document["items"]]) == (0, ["h1"])
            status, document = ask(limit, "status")
            assert (status, document["approvals_waiting"]) == (0, 1)
            status, document = ask(limit, "events")
            assert [item["kind"] for item in document["items"]].count("hypothesis_added") == 1
        status, document = ask(_NO_LIMIT, *ADD)
        assert (status, document["id"]) == (0, "h2")
        assert ask(_NO_LIMIT, "approve", "e1")[0] == 0
        assert ask(_NO_LIMIT, "store", "verify") == (
            0, {"schema": "perpetual.store_verify/1", "ok": True, "problems": []}
        )  # fmt: skip
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_a_project_that_may_only_be_read(project: Path, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of another user, or on a medium without writing: all that looks works, each deed is refused, nothing is left."""

    def ask(*arguments: str) -> Answer:
        capsys.readouterr()
        status = run([*arguments, "--json"])
        return status, json.loads(capsys.readouterr().out)

    with Lab.open(project) as lab:
        lab.config.set("store", store)
    assert ask(*ADD)[0] == 0
    assert ask("propose", "-h", "h1", "--command", "echo acc=1", "--noise", "0.1")[0] == 0
    folder = project / ".perpetual"
    before = _tree(folder)
    paths = [folder, *folder.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths}
    for path in paths:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with unprivileged():
            assert not _may_write(folder)
            status, document = ask("status")
            assert (status, document["approvals_waiting"]) == (0, 1)
            for command in (("brief",), ("hypotheses", "show", "h1"), ("experiments",), ("runs",),
                            ("events",), ("budget",), ("store", "stats")):  # fmt: skip
                assert ask(*command)[0] == 0, command
            status, document = ask("hypotheses", "list")
            assert (status, [item["id"] for item in document["items"]]) == (0, ["h1"])
            for deed in (ADD, ("approve", "e1"), ("evidence", "add", "h1", "--verdict", "supports", "--why", "r")):
                status, document = ask(*deed)
                assert (status, document["error"]["code"]) == (1, "not_written"), (deed, document)
                assert str(folder) in document["error"]["message"]
                assert "rights" in document["error"]["hint"]
            assert ask("store", "verify") == (
                0, {"schema": "perpetual.store_verify/1", "ok": True, "problems": []}
            )  # fmt: skip
    finally:
        for path, mode in modes.items():
            path.chmod(mode)
    assert _tree(folder) == before
    assert ask("approve", "e1")[0] == 0


def _may_write(folder: Path) -> bool:
    try:
        (folder / "probe").touch()
    except PermissionError:
        return False
    (folder / "probe").unlink()
    return True


def test_no_folder_can_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`init` where nothing may be written names the folder and leaves nothing."""
    place = tmp_path / "place"
    place.mkdir(mode=0o555)
    with unprivileged():
        for folder in (place, place / "a"):
            assert run(["init", "-t", str(folder)]) == 1
            told = capsys.readouterr().err
            assert str(place) in told
            assert "may write" in told
    assert os.listdir(place) == []


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets a limit for a process that runs")
def test_the_daemon_waits_for_room(project: Path) -> None:
    """It starts nothing while it cannot write, says so with a pause between, and goes on by itself."""
    with Lab.open(project) as lab:
        lab.settings.set_methodology("auto_approve", "true")
    words = [sys.executable, "-m", "perpetual", "--project", str(project), "daemon", "--stay", "--json"]
    daemon = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        assert daemon.stdout is not None
        assert json.loads(daemon.stdout.readline())["cycle"] == 1
        _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (10, hard))
        log = project / ".perpetual" / "services" / "daemon.jsonl"
        log.unlink(missing_ok=True)  # a log has no room either
        with Lab.open(project) as lab:
            made = lab.experiments.propose(command="echo x", title="x", cost_run_hours=0.001).id
            until(lambda: "cannot go on" in str(lab.services.status("daemon")["health"]) or log.exists())
            assert not lab.runs.list().items
            assert daemon.poll() is None
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (hard, hard))
            until(lambda: [run.status for run in lab.runs.list(experiment_id=made).items] == ["done"])
    finally:
        daemon.kill()
        daemon.communicate()
