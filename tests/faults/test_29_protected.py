"""Row 29: a run that changes what judges it: the evaluation, the test split, its seed, thresholds, limits, its record.

Such a run is tainted: its numbers are shown, and they weigh nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as command_line
from perpetual.records import Run
from perpetual_provenance.protected_paths import Limits, look_at, unlike
from tests.plugins.tinydb.helpers import tick

Campaign = Callable[..., Run]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """A project whose evaluation is protected."""
    (project / "eval").mkdir()
    (project / "eval" / "score.py").write_text("print('acc: 1.5')\n")
    (project / "eval" / "test.csv").write_text("a,b\n1,2\n")
    opened = Lab.open(project)
    opened.settings.set_methodology("protected_paths", "eval, .perpetual/methodology.yaml, **/split_*.json")
    yield opened
    opened.close()


@pytest.fixture
def ran(lab: Lab) -> Campaign:
    """Runs a script and answers its run."""

    def make(code: str, **given: Any) -> Run:
        (lab.root / "train.py").write_text(code)
        hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
        made = lab.experiments.propose(
            hypothesis.id, command=f"{sys.executable} -S train.py", noise=0.05, wall_s=60.0, **given
        )
        lab.experiments.approve(made.id)
        run = lab.runs.launch(made.id)[0]
        lab.wait([run.id], timeout_s=60)
        return lab.runs.get(run.id)

    return make


_SCORE = "print('acc: 9.5')\n"


def _weightless(lab: Lab, run: Run, why: str) -> None:
    """It is done, its numbers are there, and nothing follows from them."""
    assert (run.status, run.tainted, run.metrics) == ("done", True, {"acc": 9.5})
    assert run.reason == "tainted: what it measured weighs nothing"
    assert f"{run.id} of {run.experiment_id} done: " in lab.brief()
    assert "tainted: what it measured weighs nothing; acc=9.5" in lab.brief()
    (told,) = [item for item in run.annotations if item["kind"] == "tainted"]
    assert why in told["text"]
    (row,) = lab.evidence.list().items
    assert (row.run_id, row.value, row.weight, row.log_bayes_factor) == (run.id, 9.5, 0.0, 0.0)
    assert why in (row.reason or "")
    hypothesis = lab.hypotheses.get("h1")
    assert (hypothesis.status, hypothesis.confidence) == ("open", 0.5)
    (event,) = [event for event in lab.events() if event.kind == "run_tainted"]
    assert (event.subject, event.payload["experiment_id"]) == (run.id, run.experiment_id)
    assert why in event.payload["reasons"][0]


_KEPT = "os.environ['PERPETUAL_CONFIG'].replace('config', 'provenance')"


@pytest.mark.parametrize(
    ("deed", "why"),
    [
        ("open('eval/score.py', 'a').write('#')", "eval/score.py was changed"),
        ("open('eval/more.py', 'w')", "eval/more.py was added"),
        (f"open({_KEPT}, 'a').write(' ')", "provenance.json was altered"),
        *(pytest.param(deed, why, marks=pytest.mark.slow) for deed, why in (
        ("os.unlink('eval/test.csv')", "eval/test.csv was removed"),
        ("os.chmod('eval/score.py', 0o777)", "eval/score.py has another mode"),
        ("os.rename('eval', 'old'); os.symlink('old', 'eval')", "eval was added"),
        ("open('split_1.json', 'w')", "split_1.json was added"),
        ("open('.perpetual/methodology.yaml', 'a').write('# easy\\n')", ".perpetual/methodology.yaml was changed"),
        (f"os.unlink({_KEPT})", "provenance.json was removed"),
        )),
    ],
)  # fmt: skip
def test_a_run_that_changes_what_judges_it(lab: Lab, ran: Campaign, deed: str, why: str) -> None:
    _weightless(lab, ran(f"import os\n{deed}\n{_SCORE}"), why)


def test_times_that_are_set_back_hide_nothing(lab: Lab, ran: Campaign) -> None:
    """The same size, the same time of the last write, the same name and inode."""
    code = (
        "import os\nseen = os.stat('eval/test.csv')\nopen('eval/test.csv', 'r+').write('a,b\\n1,3\\n')\n"
        "os.utime('eval/test.csv', ns=(seen.st_atime_ns, seen.st_mtime_ns))\n"
    )
    _weightless(lab, ran(code + _SCORE), "eval/test.csv was changed")


def test_an_honest_run_is_not_tainted(lab: Lab, ran: Campaign) -> None:
    """Reading is allowed. Writing the same again is told, and so is a pattern that matches nothing."""
    run = ran("open('eval/score.py').read()\nopen('eval/test.csv', 'w').write('a,b\\n1,2\\n')\n" + _SCORE)
    assert (run.status, run.tainted) == ("done", False)
    unmatched, written = run.annotations
    assert (unmatched["kind"], unmatched["source"]) == ("protected", "methodology.yaml")
    assert "'**/split_*.json'" in unmatched["text"]
    assert (written["kind"], written["source"]) == ("protected", "provenance.json")
    assert written["text"].endswith("hold what they held: eval/test.csv")
    assert lab.evidence.list().items[0].weight == 1.0
    kept = lab.runs.provenance(run.id)["protected"]
    assert [entry["path"] for entry in kept["files"] or ()] == [
        ".perpetual/methodology.yaml",
        "eval/score.py",
        "eval/test.csv",
    ]
    assert kept["unmatched"] == ["**/split_*.json"]


def test_a_tainted_baseline_is_compared_with_nothing(lab: Lab, ran: Campaign) -> None:
    script = "import os\nif 'TAINT' in os.environ: open('eval/score.py', 'a').write('#')\nprint('acc: 1.0')\n"
    (lab.root / "train.py").write_text(script)
    base = lab.experiments.propose(
        command=f"{sys.executable} -S train.py", metric="acc", env={"TAINT": "1"}, wall_s=60.0
    )
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=base.id)
    claim = lab.experiments.propose(hypothesis.id, command=f"{sys.executable} -S train.py", noise=0.05, wall_s=60.0)
    lab.experiments.approve_all([base.id, claim.id])
    for experiment in (base, claim):
        lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=60)
    assert [run.tainted for run in lab.runs.list().items] == [False, True]
    assert lab.hypotheses.get(hypothesis.id).confidence == 0.5


def test_the_seed_and_the_threshold_are_not_the_run_s(lab: Lab, ran: Campaign) -> None:
    """What was approved and what was drawn stands in the record; files of the run's folder decide nothing."""
    code = (
        "import json, os\nfolder = os.path.dirname(os.environ['PERPETUAL_CONFIG'])\n"
        "spec = json.load(open(folder + '/spec.json'))\nspec['seed'] = 1\nspec['experiment']['design']['mde'] = 1e-9\n"
        "spec['experiment']['resources']['wall_s'] = 1e9\njson.dump(spec, open(folder + '/spec.json', 'w'))\n"
        "print('acc: 1.04')\n"
    )
    run = ran(code)
    experiment = lab.experiments.get(run.experiment_id)
    assert (run.tainted, run.seed == 1, experiment.design.mde, experiment.resources.wall_s) == (False, False, 0.1, 60.0)
    assert lab.hypotheses.get("h1").confidence < 0.6


def test_a_person_s_change_meanwhile_taints_as_well(lab: Lab, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (lab.root / "train.py").write_text(f"open({str(gate)!r}).read()\n{_SCORE}")
    hypothesis = lab.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    made = lab.experiments.propose(hypothesis.id, command=f"{sys.executable} -S train.py", noise=0.05, wall_s=60.0)
    lab.experiments.approve(made.id)
    run = lab.runs.launch(made.id)[0]
    (lab.root / "eval" / "score.py").write_text("print('acc: 1.6')\n")
    gate.write_text("go on")
    lab.wait([run.id], timeout_s=60)
    _weightless(lab, lab.runs.get(run.id), "eval/score.py was changed")


def test_commands_show_changed_protected_paths(lab: Lab, ran: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    run = ran(f"open('eval/score.py', 'a').write('#')\n{_SCORE}")
    capsys.readouterr()
    assert command_line(["runs", run.id]) == 0
    assert "eval/score.py was changed (provenance.json)" in capsys.readouterr().out
    assert command_line(["runs", run.id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tainted"] is True
    assert command_line(["evidence", "list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["items"]
    assert row["reason"].startswith("tainted: protected paths are not as they were: eval/score.py was changed")


# --- what a pattern means -------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with a few files."""
    for name in (
        "eval.py",
        "a/eval.py",
        "a/b/eval.py",
        "a/b/data.csv",
        "a/x[1].txt",
        ".perpetual/store/j",
        ".git/config",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "out").symlink_to("a/b")
    return tmp_path


def _paths(root: Path, *patterns: str) -> list[str]:
    return [entry["path"] for entry in look_at(root, patterns)["files"]]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("eval.py", ["eval.py"]),
        ("./eval.py", ["eval.py"]),
        ("a", ["a/b/data.csv", "a/b/eval.py", "a/eval.py", "a/x[1].txt"]),
        ("a/", ["a/b/data.csv", "a/b/eval.py", "a/eval.py", "a/x[1].txt"]),
        ("a/*", ["a/b/data.csv", "a/b/eval.py", "a/eval.py", "a/x[1].txt"]),
        ("a/*.py", ["a/eval.py"]),
        ("*.py", ["eval.py"]),
        ("**/*.py", ["a/b/eval.py", "a/eval.py", "eval.py"]),
        ("a/**/eval.py", ["a/b/eval.py", "a/eval.py"]),
        ("a/[a-c]/d?ta.csv", ["a/b/data.csv"]),
        ("a/[!a-c]*.py", ["a/eval.py"]),
        ("a/x[1].txt", ["a/x[1].txt"]),
        ("out", ["out", "out/data.csv", "out/eval.py"]),
        ("o*", ["out"]),
        (".perpetual/store", [".perpetual/store/j"]),
        ("**/config", []),
        ("nothing", []),
    ],
)
def test_a_pattern_matches_its_paths(tree: Path, pattern: str, paths: list[str]) -> None:
    found = look_at(tree, [pattern])
    assert [entry["path"] for entry in found["files"]] == paths
    assert found["unmatched"] == ([] if paths else [pattern])
    assert unlike(tree, found, most=10) == ([], [])


@pytest.mark.parametrize("pattern", ["/etc", "../x", "a/../../x", "~/x", ".", "", "a/[z-a]", "a\0b"])
def test_an_unusable_pattern_protects_nothing(tree: Path, pattern: str) -> None:
    found = look_at(tree, [pattern, "eval.py"])
    assert [entry["path"] for entry in found["files"]] == ["eval.py"]
    assert "protects nothing" in found["problems"][0]
    assert found["unmatched"] == [pattern]
    assert unlike(tree, found, most=10) == ([], [])


def test_a_link_is_held_by_where_it_points(tree: Path, tmp_path: Path) -> None:
    """And one that is named also by what is there."""
    (tree / "data").symlink_to(tree / "a" / "b" / "data.csv")
    by_name, on_the_way = look_at(tree, ["data"]), look_at(tree, ["d*"])
    (tree / "a" / "b" / "data.csv").write_text("other")
    assert "was changed" in unlike(tree, by_name, most=10).taints[0]
    assert unlike(tree, on_the_way, most=10) == ([], [])
    (tree / "data").unlink()
    (tree / "data").symlink_to("eval.py")
    told = ["protected paths are not as they were: data points elsewhere"]
    assert unlike(tree, on_the_way, most=10) == (told, [])


def test_ten_are_named_and_the_others_counted(tree: Path) -> None:
    found = look_at(tree, ["a"])
    for number in range(12):
        (tree / "a" / f"n{number:02}").touch()
    (told,) = unlike(tree, found, most=10).taints
    assert told.count("was added") == 10
    assert told.endswith(", and 2 more")


def test_only_what_was_written_is_read_again(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that the kernel sets spare the second hash; a file that was young at the first look is read again."""
    found = look_at(tree, ["a"], Limits(young_ns=0))
    read: list[str] = []
    real = os.open

    def counting(path: str, flags: int, *more: Any, **named: Any) -> int:
        read.extend([os.path.relpath(path, tree)] if str(path).startswith(str(tree)) else [])
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", counting)
    assert unlike(tree, found, most=10) == ([], [])
    assert read == []
    tick(tree / "a" / "eval.py")
    (tree / "a" / "eval.py").write_text("a/eval.py")
    read.clear()
    told = ["protected paths were written during the run, and hold what they held: a/eval.py"]
    assert unlike(tree, found, most=10) == ([], told)
    assert read == ["a/eval.py"]
    found["files"][0]["young"] = True
    assert unlike(tree, found, most=10) == ([], told)
    assert read == ["a/eval.py", "a/b/data.csv", "a/eval.py"]


def test_protected_files_beyond_the_limits_are_named(tree: Path) -> None:
    limits = Limits(young_ns=0, hashed_bytes=12)
    found = look_at(tree, ["a"], limits)
    assert [entry["sha256"] is None for entry in found["files"]] == [True, True, False, True]
    assert "held by size and times alone" in found["problems"][0]
    assert unlike(tree, found, most=10) == ([], [])
    tick(tree / "a" / "x[1].txt")
    (tree / "a" / "x[1].txt").write_text("a/x[1].txt")
    assert "too big to have been hashed" in unlike(tree, found, most=10).taints[0]
    two = limits._replace(files=2)
    found = look_at(tree, ["a"], two)
    assert len(found["files"]) == 2
    assert "more than 2 files" in found["problems"][0]
    (tree / "a" / "a new one").touch()
    assert unlike(tree, found, most=10, limits=two) == ([], [])


def test_a_protected_path_that_becomes_another_kind_taints(tree: Path) -> None:
    found = look_at(tree, ["a", "eval.py"])
    shutil.rmtree(tree / "a")
    (tree / "a").write_text("a file")
    (tree / "eval.py").unlink()
    (tree / "eval.py").mkdir()
    (told,) = unlike(tree, found, most=10).taints
    assert "a/eval.py was removed" in told
    assert "eval.py has another mode" in told
