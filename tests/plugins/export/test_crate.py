"""The crate: what it says of runs and claims, what never leaves, and that it appears whole or not at all."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.cli.app import run
from perpetual_export.crate import METADATA, Terms, parse_author
from perpetual_export.crate_files import write_crate

ARTIFACT = b"weights of zelda\n"


@pytest.fixture(scope="module")
def made(fresh_project: Path, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path) -> Path:
    """A project with a run that left an artifact, and one that failed."""
    import shutil

    from perpetual.testing.projects import trust_project

    folder = tmp_path_factory.mktemp("crate") / "project"
    shutil.copytree(fresh_project, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
        trust_project(folder)
        code = (
            "import os; open(os.path.join(os.environ['PERPETUAL_ARTIFACTS'], 'model zelda.bin'), 'wb')"
            f".write({ARTIFACT!r}); print('loss=0.5')"
        )
        (folder / "train.py").write_text(code)
        with Lab.open(folder, actor="user:zelda") as lab:
            for words, title in (("train.py --lr 0.1", "good"), ("missing.py", "bad")):
                item = lab.experiments.propose(
                    None, command=f"{sys.executable} {words}", title=title, metric="loss", direction="min"
                )
                lab.experiments.approve(item.id)
                lab.wait([each.id for each in lab.runs.launch(item.id)], timeout_s=60)
            lab.hypotheses.add("a <b>claim</b>", metric="loss", direction="min", baseline="e1")
            lab.evidence.add("h1", verdict="supports", strength=0.6, why="said zelda")
    return folder


@pytest.fixture
def lab(made: Path) -> Any:
    """The project's lab."""
    with Lab.open(made) as opened:
        yield opened


def graph_of(text: str) -> dict[str, dict[str, Any]]:
    """The entities by their identifier."""
    document = json.loads(text)
    assert document["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    found = {item["@id"]: item for item in document["@graph"]}
    assert len(found) == len(document["@graph"])
    return found


@pytest.mark.slow
def test_a_run_is_an_action_and_nothing_that_identifies_leaves(lab: Lab, tmp_path: Path) -> None:
    answer = write_crate(lab, tmp_path / "crate", Terms())
    assert (answer["runs"], answer["artifacts"], answer["copied"]) == (2, 1, 0)
    assert answer["missing"] == ["license", "author"]
    found = graph_of((tmp_path / "crate" / METADATA).read_text())
    root, done, failed = found["./"], found["#r1"], found["#r2"]
    assert root["conformsTo"] == {"@id": "https://w3id.org/ro/wfrun/process/0.5"}
    assert "license" not in root
    assert "author" not in root
    assert done["@type"] == "CreateAction"
    assert done["actionStatus"] == "http://schema.org/CompletedActionStatus"
    assert failed["actionStatus"] == "http://schema.org/FailedActionStatus"
    assert "exit code" in failed["error"]
    assert found[done["instrument"]["@id"]]["name"].endswith("python train.py --lr 0.1")
    assert {"@id": "#e1/lr"} in done["object"]
    assert found["#e1/lr"]["value"] == "0.1"
    assert found[done["agent"]["@id"]] == {"@id": "#person-person%202", "@type": "Person", "name": "person 2"}
    metrics, artifact = done["result"]
    assert json.loads((tmp_path / "crate" / metrics["@id"]).read_text())["metrics"]["loss"]["value"] == 0.5
    assert found[artifact["@id"]]["contentSize"] == str(len(ARTIFACT))
    assert found[artifact["@id"]]["@type"] == "CreativeWork"  # only described
    assert found["#h1"]["@type"] == "Claim"
    assert found["#h1"]["citation"] == {"@id": "#v1"}
    for part in root["hasPart"]:
        assert (tmp_path / "crate" / part["@id"]).stat().st_size == int(found[part["@id"]]["contentSize"])
    for path in (tmp_path / "crate").rglob("*"):
        assert "zelda" not in path.name
        assert path.is_dir() or "zelda" not in path.read_text(), path


@pytest.mark.slow
def test_artifacts_are_copied_where_asked_and_as_they_were(lab: Lab, tmp_path: Path) -> None:
    target = tmp_path / "crate.zip"
    terms = Terms("CC-BY-4.0", [parse_author("Jane Doe=https://orcid.org/0000-0002-1825-0097")], "mine")
    answer = write_crate(lab, target, terms, with_artifacts=True)
    assert (answer["copied"], answer["missing"]) == (1, [])
    with zipfile.ZipFile(target) as archive:
        found = graph_of(archive.read(METADATA).decode())
        assert archive.read("r1/artifacts/model <user>.bin") == ARTIFACT
    assert found["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}
    assert found["./"]["author"] == {"@id": "https://orcid.org/0000-0002-1825-0097"}
    assert found["r1/artifacts/model%20%3Cuser%3E.bin"]["@type"] == "File"
    artifact = lab.root / lab.runs.get("r1").log_dir / "artifacts" / "model zelda.bin"
    artifact.write_bytes(b"other")
    try:
        answer = write_crate(lab, target, Terms(), with_artifacts=True, replace=True)
    finally:
        artifact.write_bytes(ARTIFACT)
    assert answer["copied"] == 0
    assert answer["notes"] == ["r1/artifacts/model <user>.bin is not copied: it is gone, or not as it was"]


@pytest.mark.slow
def test_a_name_with_a_line_break_writes_no_line_of_its_own(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = "import os, pathlib; pathlib.Path(os.environ['PERPETUAL_ARTIFACTS'], 'a\\nnext: approve e9').touch()"
    Path("train.py").write_text(code)
    assert run(["run", f"{sys.executable} train.py", "--wait"]) == 0
    next(Path(".perpetual/runs/r1/artifacts").iterdir()).unlink()
    capsys.readouterr()
    assert run(["export", "--ro-crate", "crate", "--with-artifacts"]) == 0
    said = capsys.readouterr().out
    assert "note: r1/artifacts/a next: approve e9 is not copied" in said
    assert "\nnext:" not in said


@pytest.mark.slow
def test_the_library_reads_it(lab: Lab, tmp_path: Path) -> None:
    from rocrate.rocrate import ROCrate

    write_crate(lab, tmp_path / "crate", Terms("https://example.org/licence"))
    found = ROCrate(tmp_path / "crate")
    assert {str(item.id) for item in found.data_entities} >= {"report.html", "runs.csv", "metrics/r1.json"}
    action = found.dereference("#r1")
    assert action["instrument"].type == "SoftwareApplication"
    assert action["result"][0].id == "metrics/r1.json"


@pytest.mark.slow
def test_it_appears_whole_and_replaces_only_a_crate(
    lab: Lab, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("mine")
    for place, error in ((full, Conflict), (made, UsageError), (made / ".perpetual" / "x", UsageError)):
        with pytest.raises(error):
            write_crate(lab, place, Terms(), replace=True)
    with pytest.raises(UsageError, match="no licence"):
        write_crate(lab, tmp_path / "crate", Terms("free for all"))
    assert [path.name for path in full.iterdir()] == ["thesis.tex"]
    crate = tmp_path / "crate"
    write_crate(lab, crate, Terms())
    before = (crate / METADATA).read_bytes()
    with pytest.raises(Conflict):
        write_crate(lab, crate, Terms())

    def breaks(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", breaks)
    with pytest.raises(PerpetualError, match="No space left"):
        write_crate(lab, crate, Terms("MIT"), replace=True)
    assert (crate / METADATA).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["crate", "full"]


def test_options_of_a_crate_and_of_a_table_do_not_mix(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--ro-crate", "x", "--csv"], ["--license", "MIT"], ["--ro-crate", "x", "--author", "=y"]):
        assert run(["export", *words]) == 2
    capsys.readouterr()
    assert run(["export", "--ro-crate", "x"]) == 0
    assert "recommended and not given: --license, --author" in capsys.readouterr().out
    assert graph_of((project / "x" / METADATA).read_text())["./"]["hasPart"] == [
        {"@id": "report.html"}, {"@id": "report.md"}, {"@id": "runs.csv"},
    ]  # fmt: skip
    assert run(["export", "--ro-crate", "x"]) == 6
