"""`perpetual uninstall`: what was laid outside of records goes, the user's bytes come back, records stay."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Conflict
from perpetual.cli.app import run
from perpetual.toolkit import trust_record, user_state
from perpetual_devkit import uninstalling
from perpetual_devkit.uninstalling import uninstall

ROOT = Path(__file__).parents[3]
MINE = "# Mine\n\nrules of my own\r\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's machine of its own with a project that two agents know."""
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    project = tmp_path / "project"
    project.mkdir()
    (project / "AGENTS.md").write_bytes(MINE.encode())
    with Lab.init(project, name="mine") as lab:
        lab.scaffold(["codex", "claude-code"])
        lab.hypotheses.add("it stays")
    assert (project / "AGENTS.md").read_bytes() != MINE.encode()
    return tmp_path


def below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_uninstall_removes_all_but_records(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = below(home / "project" / ".perpetual" / "store")
    before = below(home)
    assert run(["uninstall", "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert {key: value for key, value in before.items() if not key.startswith("cache/")}.items() <= below(home).items()
    assert run(["uninstall", "--json"]) == 2
    capsys.readouterr()
    assert run(["uninstall", "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert [item["path"] for item in done["items"]] == [item["path"] for item in planned["items"]]
    assert done["command"].endswith("uninstall perpetual-lab")
    assert sorted(path.name for path in home.iterdir()) == ["project"]
    assert sorted(path.name for path in (home / "project").iterdir()) == [".perpetual", "AGENTS.md"]
    assert (home / "project" / "AGENTS.md").read_bytes() == MINE.encode()
    assert below(home / "project" / ".perpetual" / "store") == record

    assert run(["uninstall", "--yes"]) == 0  # again: there is nothing left but what looking leaves
    assert not (home / "state").exists()
    with Lab.open(home / "project") as lab:
        assert [claim.statement for claim in lab.hypotheses.list().items] == ["it stays"]


def test_files_of_a_person_in_the_state_folder_stay(home: Path) -> None:
    (home / "state" / "notes.txt").write_text("mine", "utf-8")
    (home / "state" / "mcp").mkdir()
    (home / "state" / "mcp" / "server.py").write_text("mine", "utf-8")
    (home / "cache").mkdir(exist_ok=True)
    (home / "cache" / "other.json").write_text("mine", "utf-8")
    kept = [item.path for item in uninstall().items if item.action == "kept"]
    assert kept == [str(home / name) for name in ("cache", "state/mcp", "state", "project/.perpetual")]
    assert sorted(below(home / "state")) == ["mcp/server.py", "notes.txt"]
    assert [*below(home / "cache")] == ["other.json"]


def test_a_project_that_is_away_keeps_the_state(home: Path) -> None:
    """It may come back, and then its agents' files can still be taken out."""
    (home / "project").rename(home / "elsewhere")
    before = below(home / "state")
    with pytest.raises(Conflict, match=f"{home / 'project'}: its place is empty") as refused:
        uninstall()
    assert "--forget-missing" in str(refused.value.hint)
    assert below(home / "state") == before
    (home / "elsewhere").rename(home / "project")
    uninstall()
    assert (home / "project" / "AGENTS.md").read_bytes() == MINE.encode()


def test_a_project_that_was_removed_is_named(home: Path) -> None:
    (home / "project").rename(home / "elsewhere")
    items = uninstall(forget_missing=True).items
    assert [(item.path, item.action) for item in items if item.action == "gone"] == [(str(home / "project"), "gone")]
    assert not (home / "state").exists()


def test_uninstall_is_refused_while_runs_are_live(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(home / "project") as lab:
        trial = lab.experiments.propose(command="sleep 60", wall_s=60.0, cost_run_hours=0.1)
        lab.experiments.approve(trial.id)
        (started,) = lab.runs.launch(trial.id)
        before = below(home / "state")
        try:
            with pytest.raises(Conflict, match=f"run {started.id} of {home / 'project'}") as refused:
                uninstall()
            assert refused.value.code == "live"
            assert below(home / "state") == before
        finally:
            lab.runs.kill(started.id)


def test_a_file_that_cannot_be_taken_out_keeps_the_state(home: Path) -> None:
    (home / "project" / ".mcp.json").write_text("{broken", "utf-8")
    with pytest.raises(Conflict, match=r"\.mcp\.json"):
        uninstall()
    assert user_state.drawn_secret() is not None
    assert [record.path for record in trust_record.stored()] == [str(home / "project")]


def test_an_agent_may_not_uninstall(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["uninstall", "--yes", "--json"]) == 4
    assert (home / "state" / "secret").exists()


def test_every_entry_of_the_state_folder_is_known() -> None:
    """Each module that lays something there is looked at here, so that `uninstall` takes it out."""
    found = {
        path.relative_to(ROOT).as_posix(): set(re.findall(r"^(?:_?FOLDER|FILE|_PLACE, _SECRET) = (.+)$", text, re.M))
        for place in ("perpetual", "plugins")
        for path in (ROOT / place).rglob("*.py")
        if re.search(r"user_state\.(?:folder|location)\(\)", text := path.read_text("utf-8"))
    }
    assert found.pop("perpetual/lab/trust.py") == set()  # trust.lock
    assert found.pop("perpetual/lab/create.py") == set()  # nothing
    assert found.pop("perpetual/toolkit/trust_record.py") == set()  # the folder of trust_path
    assert found.pop("plugins/perpetual_mcp/http.py") == set()  # mcp
    assert found.pop("plugins/perpetual_harnesses/dispatch/driving.py") == set()  # names the folder to the server
    assert found.pop("plugins/perpetual_devkit/uninstalling.py") == set()
    names = {name.strip('"') for names in found.values() for name in names}
    assert names <= {*uninstalling.FOLDERS, *uninstalling.FILES}
    assert all(found.values()), found
