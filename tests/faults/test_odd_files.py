"""Files that are emptied, lost, unreadable, full or of another shape: a named error with a way out."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab, entry
from perpetual.api import Finding
from perpetual.cli.app import run
from perpetual.errors import ConfigError, Conflict, CorruptData
from perpetual_devkit.server_check import ServerCheck


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "p"
    with Lab.init(place) as lab:
        lab.hypotheses.add("kept")
        lab.status()
    monkeypatch.chdir(place)
    return place


def _stderr_of(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    assert run(words) != 0
    said = capsys.readouterr().err
    assert "internal error" not in said
    assert "hint: " in said
    return said


def test_an_emptied_configuration_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every seed derives from the project's id: none may be drawn from an empty one."""
    path = root / ".perpetual" / "config.yaml"
    for text in ("", "# nothing\n", "format: 1\nproject: p\n", "project_id: abc\n"):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"config\.yaml has no (format|project_id)"):
            Lab.open(root)
    assert str(path) in _stderr_of(("status",), capsys)
    assert run(["--json", "doctor"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert [check["ok"] for check in checks if check["check"] == "project"] == [False]


def test_an_unreadable_configuration_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.open

    def refuse(path: Any, *args: Any, **given: Any) -> int:
        if os.fspath(path).endswith(("config.yaml", "methodology.yaml")):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *args, **given)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        for words in (("status",), ("hypotheses", "list"), ("config", "show")):
            assert "config.yaml cannot be read: Permission denied" in _stderr_of(words, capsys)
        assert run(["doctor"]) == 1
        assert "config.yaml cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize("lost", ["journal.jsonl", "store"])
def test_a_lost_record_is_named_and_nothing_is_written_over_it(
    root: Path, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lab.open(root) as lab:
        lab.memory.write("a.md", "a note")
    store = root / ".perpetual" / "store"
    gone = store if lost == "store" else store / lost
    kept = gone.rename(root / "kept")
    with Lab.open(root) as lab:
        assert lab.hypotheses.list().items == ()
        assert any("memory.git is there" in problem for problem in lab.storage.examine())
        with pytest.raises(CorruptData, match=r"memory\.git is there: the record was lost") as caught:
            lab.hypotheses.add("over it")
        assert caught.value.code == "record_lost"
        assert caught.value.hint is not None
        monkeypatch.setattr(ServerCheck, "examine", lambda *_: Finding(None, "not asked"))  # a process of its own
        (found,) = [each for each in lab.doctor() if each["check"] == "store"]
        assert found["ok"] is False
        assert "the record was lost" in found["detail"]
        if gone.is_dir():
            shutil.rmtree(gone)
        kept.rename(gone)
    with Lab.open(root) as lab:
        assert lab.hypotheses.add("after it").id == "h2"


def test_a_run_folder_beside_an_empty_store_is_a_lost_record(root: Path) -> None:
    (root / ".perpetual" / "runs" / "r7").mkdir(parents=True)
    with Lab.open(root) as lab:
        lab.hypotheses.add("the store holds a record")
    (root / ".perpetual" / "store" / "journal.jsonl").unlink()
    with Lab.open(root) as lab, pytest.raises(CorruptData, match="runs/r7 is there"):
        lab.hypotheses.add("x")


def test_a_record_is_put_back_by_import_beside_its_remains(root: Path, tmp_path: Path) -> None:
    with Lab.open(root) as lab:
        lab.memory.write("a.md", "a note")
        lab.storage.export_file(tmp_path / "export.jsonl")
    (root / ".perpetual" / "store" / "journal.jsonl").unlink()
    with Lab.open(root) as lab:
        lab.storage.import_file(tmp_path / "export.jsonl")
        assert [item.statement for item in lab.hypotheses.list().items] == ["kept"]
        assert lab.hypotheses.add("next").id == "h2"


def test_the_environment_cannot_split_a_record(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_STORE", "sqlite")
    with Lab.open(root) as lab:
        for do in (lambda: lab.hypotheses.add("hidden"), lab.hypotheses.list):
            with pytest.raises(Conflict, match="PERPETUAL_STORE=sqlite would split the record") as caught:
                do()
            assert caught.value.exit == 6
    assert not (root / ".perpetual" / "store" / "store.sqlite").exists()


def test_the_environment_chooses_the_store_of_a_new_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERPETUAL_STORE", "sqlite")
    with Lab.init(tmp_path / "new") as lab:
        lab.hypotheses.add("one")
    monkeypatch.delenv("PERPETUAL_STORE")
    with Lab.open(tmp_path / "new") as lab:
        assert (lab.config["store"], len(lab.hypotheses.list().items)) == ("sqlite", 1)


def test_a_kept_status_of_another_shape_is_computed_again(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from perpetual.cli.fastpath import answer

    for text in ("[" * 200_000, "{", "\xff", '{"token": [], "document": 3}'):
        (root / ".perpetual" / "status.json").write_text(text, "latin-1")
        assert answer(["status"]) is None
        assert run(["status"]) == 0
        assert "kept" in capsys.readouterr().out


def test_a_provenance_of_another_shape_is_named_without_a_traceback(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Lab.open(root) as lab:
        made = lab.experiments.propose("h1", command="true")
        lab.experiments.approve(made.id)
        lab.wait([run.id for run in lab.runs.launch(made.id)], timeout_s=60)
    path = root / ".perpetual" / "runs" / "r1" / "provenance.json"
    whole = json.loads(path.read_text())
    texts = ['{"other": 1}', '{"git": {}}', "[]", "{", *(json.dumps({**whole, key: 3}) for key in whole)]
    for text in texts:
        path.write_text(text)
        assert run(["runs", "r1"]) == 0, text
        run(["runs", "r1", "--provenance"])
        said = capsys.readouterr()
        assert "internal error" not in said.out + said.err, text


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_standard_output_is_said(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--version"], ["status"], ["brief"], ["hypotheses", "list"], ["config", "show"]):
        with monkeypatch.context() as patched, open("/dev/full", "w", encoding="utf-8") as out:
            patched.setattr(sys, "stdout", out)
            patched.setattr(sys, "argv", ["perpetual", *words])
            with pytest.raises(SystemExit) as caught:
                entry.main()
        assert caught.value.code == 1, words
        assert "error: standard output could not be written: No space left on device" in capsys.readouterr().err


@pytest.mark.slow
def test_the_doctor_runs_no_code_of_the_project(root: Path) -> None:
    (root / "perpetual").mkdir()
    for name in ("perpetual/__init__.py", "perpetual/__main__.py", "sitecustomize.py", "json.py", "click.py"):
        (root / name).write_text(f"open({str(root / 'PWNED')!r}, 'w')\n")
    run(["doctor"])
    assert not (root / "PWNED").exists()
