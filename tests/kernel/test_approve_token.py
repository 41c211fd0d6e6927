"""The token by which a person lets one MCP server approve: once, for ten minutes, for one project, for no agent."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import NotPermitted
from perpetual.lab.experiments.approval_tokens import VARIABLE
from perpetual.toolkit import user_state
from tests.plugins.mcp.clients import COMMAND, HANDSHAKES, initialize, raw

Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def deed(*words: str) -> tuple[int, dict[str, Any]]:
        code = run(["--json", *words])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return code, document

    return deed


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[bool, str | None]]:
    """What the server was started with: whether it may approve, and what its environment then holds of the token."""
    from perpetual_mcp.server import SdkServer

    seen: list[tuple[bool, str | None]] = []

    def serve(self: object, open_lab: object, *, allow_approve: bool = False, http: str | None = None) -> None:
        seen.append((allow_approve, os.environ.get(VARIABLE)))

    monkeypatch.setattr(SdkServer, "serve", serve)
    return seen


def test_a_token_starts_one_server_that_may_approve(
    project: Path, ask: Ask, served: list[tuple[bool, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def state() -> set[Path]:
        return {path for path in user_state.folder().rglob("*") if path.is_file()}

    others = state()  # of tests before this one, which share the folder
    code, made = ask("approve", "--token")
    assert (code, made["schema"]) == (0, "perpetual.approve_token/1")
    ends = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=9) < ends <= timedelta(minutes=10)
    kept = state() - others
    assert kept
    assert not any(made["token"] in path.read_text("utf-8", "replace") + path.name for path in state())
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    for more in ([], ["--http", "127.0.0.1:0"]):
        monkeypatch.setenv(VARIABLE, made["token"])
        assert run(["mcp", "--allow-approve", *more]) == (0 if not more else 4)
        assert VARIABLE not in os.environ
    assert served == [(True, None)]


@pytest.mark.parametrize("wrong", ["", "nonsense", None, "../../x", "\udcff"])
def test_no_approving_server_starts_without_a_valid_token(
    project: Path,
    wrong: str | None,
    served: list[tuple[bool, str | None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if wrong is not None:
        monkeypatch.setenv(VARIABLE, wrong)
    assert run(["mcp", "--allow-approve"]) == 4
    told = capsys.readouterr().err
    assert "token" in told
    assert "hint: perpetual approve --token" in told
    assert not served
    assert run(["mcp"]) == 0  # which approves nothing, and needs none
    assert served == [(False, None)]


def test_one_of_several_servers_gets_the_token(project: Path) -> None:
    with Lab.open(project) as lab:
        token = lab.experiments.approval_token()["token"]
        barrier, got = threading.Barrier(8), []

        def take() -> None:
            with Lab.open(project) as mine:
                barrier.wait(30)
                try:
                    mine.experiments.redeem(token)
                except NotPermitted as problem:
                    got.append(problem.message)
                else:
                    got.append("taken")

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(got) == ["taken", *[f"the token in {VARIABLE} is unknown or was used"] * 7]


def test_a_token_expires_and_counts_for_one_project(project: Path, tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    with Lab.open(project, clock=lambda: now) as lab:
        token = lab.experiments.approval_token()["token"]
        with Lab.init(tmp_path / "other") as other, pytest.raises(NotPermitted, match="another project"):
            other.experiments.redeem(token)
        now += timedelta(minutes=10)
        with pytest.raises(NotPermitted, match="ended at 2030-01-01T00:10"):
            lab.experiments.redeem(token)
        now -= timedelta(minutes=5)
        with pytest.raises(NotPermitted, match="unknown or was used"):
            lab.experiments.redeem(token)


def test_an_untrusted_copy_gets_no_token(project: Path, tmp_path: Path) -> None:
    with Lab.open(project) as lab:
        token = lab.experiments.approval_token()["token"]
    shutil.copytree(project, tmp_path / "copy")
    with Lab.open(tmp_path / "copy") as copy:
        with pytest.raises(NotPermitted, match="held"):
            copy.experiments.redeem(token)
        with pytest.raises(NotPermitted, match="held"):
            copy.experiments.approval_token()
    with Lab.open(project) as lab:
        lab.experiments.redeem(token)


def test_an_agents_shell_makes_none_and_uses_none(
    project: Path,
    served: list[tuple[bool, str | None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Lab.open(project) as lab:
        token = lab.experiments.approval_token()["token"]
    monkeypatch.setenv("AGENT", "1")
    assert run(["approve", "--token"]) == 4
    monkeypatch.setenv(VARIABLE, token)
    assert run(["mcp", "--allow-approve"]) == 4
    told = capsys.readouterr()
    assert told.err.count("AGENT=1 is set: this shell is an agent's") == 2
    assert told.out == ""
    assert re.search(r"--allow-approve|--token|agents_may_approve", told.err) is None
    assert not served
    monkeypatch.delenv("AGENT")
    with Lab.open(project) as lab:
        lab.settings.set_methodology("agents_may_approve", "true")
    monkeypatch.setenv("AGENT", "1")
    monkeypatch.setenv(VARIABLE, token)  # it was refused and not used up
    assert run(["mcp", "--allow-approve"]) == 0
    assert served == [(True, None)]


def test_a_run_never_inherits_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "a-token-that-was-exported")
    with Lab.open(project) as lab:
        show = f"import os; print('x' + os.environ.get('{VARIABLE}', 'none') + 'x')"
        made = lab.experiments.approve(lab.experiments.propose(command=f'{sys.executable} -c "{show}"').id)
        done = lab.runs.launch(made.id)[0]
        lab.wait([done.id], timeout_s=60)
        assert lab.runs.logs(done.id)["text"].strip() == "xnonex"


def test_approve_token_prints_only_the_token(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["approve", "--token"]) == 0
    told = capsys.readouterr()
    assert re.fullmatch(r"[\w-]{32}\n", told.out)  # so that TOKEN=$(perpetual approve --token) holds it
    assert "perpetual mcp --allow-approve" in told.err
    assert run(["approve", "--token", "e1"]) == 2
    assert run(["approve"]) == 2


@pytest.mark.slow
def test_a_real_server_approves_with_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        for number in range(2):
            lab.experiments.propose(command=f"true {number}")
        token = lab.experiments.approval_token()["token"]
    monkeypatch.setenv(VARIABLE, token)
    with raw(project, "--allow-approve") as server:
        server.send(initialize(HANDSHAKES[-1]))
        assert "result" in server.receive()
        second = subprocess.run(
            [*COMMAND, "--allow-approve"], cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=120,
        )  # fmt: skip
        assert (second.returncode, token in second.stderr + second.stdout) == (4, False)
        answer = server.ask("tools/call", name="perpetual_approve", arguments={"ids": ["e1"]})
    assert not answer["result"].get("isError")
    with Lab.open(project) as lab:
        assert [lab.experiments.get(id).status for id in ("e1", "e2")] == ["approved", "proposed"]
