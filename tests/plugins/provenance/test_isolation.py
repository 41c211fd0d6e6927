"""Isolated runs: each starts in a copy of the code that was approved, and nothing of it reaches the user's files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as call
from perpetual.errors import Conflict, NotPermitted, UsageError
from perpetual.records import Experiment, Run
from perpetual.toolkit.units import shown_bytes

TRAIN = """\
import json, os, pathlib, sys
import helper
print("says:", helper.WORD, open("data/x.txt").read().strip(), pathlib.Path("notes.txt").read_text().strip())
with open("notes.txt", "a") as file:
    file.write("mine\\n")
os.makedirs("ckpt", exist_ok=True)
open("ckpt/model.bin", "w").write(os.environ["PERPETUAL_RUN"])
json.dump({"score": 0.5}, open("results.json", "w"))
"""


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A project in a git repository, with data that git ignores and an old result."""
    with Lab.init(tmp_path / "project", name="t", project_id="fixed") as made:
        git(made.root, "init", "-q", "-b", "main", ".")
        (made.root / ".gitignore").write_text(".perpetual/\ndata/\nresults.json\n.env\n__pycache__/\n")
        (made.root / "train.py").write_text(TRAIN)
        (made.root / "notes.txt").write_text("first\n")
        (made.root / "data").mkdir()
        (made.root / "data" / "x.txt").write_text("data\n")
        (made.root / "results.json").write_text('{"score": 99}')
        (made.root / ".env").write_text("TOKEN=x\n")
        git(made.root, "add", "-A")
        git(made.root, "commit", "-qm", "one")
        (made.root / "helper.py").write_text("WORD = 'approved'\n")  # git does not know it
        yield made


def git(folder: Path, *words: str) -> str:
    words = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", *words)
    return subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def approved(lab: Lab, command: str = f"{sys.executable} train.py", **given: Any) -> Experiment:
    made = lab.experiments.propose(command=command, **{"wall_s": 60.0, "isolate": True, "metric": "score",
                                                       "direction": "max", **given})  # fmt: skip
    return lab.experiments.approve(made.id)


def ended(lab: Lab, *runs: Run) -> list[Run]:
    lab.wait([run.id for run in runs], timeout_s=60)
    return [lab.runs.get(run.id) for run in runs]


def says(lab: Lab, run: Run) -> str:
    return next(line for line in (lab.runs.log_dir(run.id) / "stdout.log").read_text().splitlines() if "says" in line)


def looks(root: Path) -> list[Any]:
    """What a user sees of a repository, and the bytes of its index."""
    shown = [git(root, *words.split()) for words in ("worktree list", "status --short", "stash list", "show-ref")]
    return [*shown, (root / ".git" / "index").read_bytes(), sorted(os.listdir(root / ".git"))]


def test_a_dry_run_says_what_would_be_copied(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    made = approved(lab, isolate=False)
    (lab.root / "notes.txt").write_text("changed\n")
    (lab.root / "huge.bin").write_bytes(b"0" * 2_000_000)  # unknown to git and too large to keep: a link
    commit = git(lab.root, "rev-parse", "HEAD").strip()
    diff = git(lab.root, "diff", "HEAD", "--binary")
    before = sorted(path for path in (lab.root / ".perpetual").rglob("*") if "isolate" in path.parts)
    copy = lab.runs.plan(made.id, isolate=True)["isolated"]
    names = (".gitignore", "train.py", "notes.txt", "helper.py")
    sizes = sum((lab.root / name).stat().st_size for name in names)
    assert copy == {"commit": commit, "diff_bytes": len(diff), "files": 4, "size_bytes": sizes, "linked": 1}
    assert lab.runs.plan(made.id)["isolated"] is None
    assert sorted(path for path in (lab.root / ".perpetual").rglob("*") if "isolate" in path.parts) == before
    assert call(["--project", str(lab.root), "run", made.id, "--isolate", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"in a copy of the code as it lies now: commit {commit[:12]}, {shown_bytes(len(diff))} of changes" in out
    assert "4 files" in out
    assert "1 link to originals, in .perpetual/runs/RUN/copy" in out
    own = approved(lab)
    assert call(["--project", str(lab.root), "run", own.id, "--isolate", "--dry-run"]) == 0
    assert "in a copy of the code that was approved" in capsys.readouterr().out
    absolute = approved(lab, f"{sys.executable} {lab.root / 'train.py'}", isolate=False)
    with pytest.raises(UsageError, match="absolute path"):
        lab.runs.plan(absolute.id, isolate=True)
    assert [*lab.runs.all()] == []


def test_a_queued_run_starts_from_what_was_approved(lab: Lab) -> None:
    (lab.root / "notes.txt").write_text("dirty\n")
    git(lab.root, "status")  # has git refresh its index
    made = approved(lab, replicates=2)
    lab.queue.set_state("paused")
    runs = lab.runs.launch(made.id, every=True)
    (lab.root / "helper.py").write_text("WORD = 'edited'\n")
    (lab.root / "train.py").write_text("raise SystemExit(3)\n")
    (lab.root / "later.py").write_text("")
    git(lab.root, "status")
    seen = looks(lab.root)
    lab.queue.set_state("running")
    done = ended(lab, *runs)
    assert looks(lab.root) == seen
    for run in done:
        assert (run.status, run.metrics["score"], run.shares_folder, run.annotations) == ("done", 0.5, False, ())
        assert says(lab, run) == "says: approved data dirty"
        work = lab.root / str(run.isolated)
        assert work == lab.runs.log_dir(run.id) / "copy"
        left = sorted(str(path.relative_to(work)) for path in work.rglob("*") if not path.is_dir())
        assert left == ["ckpt/model.bin", "notes.txt", "results.json"], "what it wrote stays, all else is cleared"
        assert (work / "ckpt" / "model.bin").read_text() == run.id
        assert (work / "notes.txt").read_text() == "dirty\nmine\n"
        patch = (lab.runs.log_dir(run.id) / "code.patch").read_text()
        assert "+dirty" in patch
        assert "SystemExit" not in patch
        fact = lab.runs.provenance(run.id)["git"]
        assert fact is not None
        assert fact["commit"] == git(lab.root, "rev-parse", "HEAD").strip()
        assert [entry["path"] for entry in fact["untracked"]] == ["helper.py"]
    assert (lab.root / "notes.txt").read_text() == "dirty\n"
    assert (lab.root / "results.json").read_text() == '{"score": 99}'
    assert lab.storage.verify() == []


def test_code_of_now_and_a_copy_of_it_are_the_same_version(lab: Lab) -> None:
    plain, copied = approved(lab, isolate=False), approved(lab, title="again")
    assert plain.spec_hash != copied.spec_hash
    first, second = ended(lab, *lab.runs.launch(plain.id), *lab.runs.launch(copied.id))
    assert first.isolated is None
    assert (
        first.versions["code"]["tree"] == second.versions["code"]["tree"]
    )  # the plain run has written notes.txt since


def test_a_run_is_isolated_where_its_experiment_is_not(lab: Lab) -> None:
    made = approved(lab, isolate=False, replicates=2)
    lab.queue.set_state("paused")
    copied = lab.runs.launch(made.id, isolate=True)[0]
    original = (lab.root / "train.py").read_text()
    (lab.root / "train.py").write_text("raise SystemExit(3)\n")
    lab.queue.set_state("running")
    (done,) = ended(lab, copied)
    assert done.status == "done"
    assert done.isolated is not None
    with Lab.open(lab.root, actor="mcp:c/1") as agent, pytest.raises(NotPermitted, match="has changed"):
        agent.runs.launch(made.id, isolate=True)  # a copy of what was not approved
    (lab.root / "train.py").write_text(original)


def test_the_methodology_is_the_default(lab: Lab) -> None:
    assert approved(lab, isolate=None).resources.isolate is False
    lab.settings.set_methodology("isolate", "true")
    assert lab.experiments.propose(command="true").resources.isolate is True
    assert lab.experiments.propose(command="true", isolate=False).resources.isolate is False


@pytest.mark.slow
def test_approving_anew_takes_the_edited_code(lab: Lab) -> None:
    made = approved(lab, replicates=2)
    (first,) = ended(lab, *lab.runs.launch(made.id))
    (lab.root / "train.py").write_text(TRAIN.replace("says:", "says: edited"))
    lab.experiments.approve(made.id)
    (second,) = ended(lab, *lab.runs.launch(made.id))
    assert (says(lab, first), says(lab, second)) == ("says: approved data first", "says: edited approved data first")


def test_protected_paths_are_those_of_the_copy(lab: Lab) -> None:
    lab.settings.set_methodology("protected_paths", '["notes.txt", "train.py"]')
    made = approved(lab, f"{sys.executable} -c 'import time; print(\"score:\", 1); time.sleep(0.5)'", replicates=1)
    (run,) = lab.runs.launch(made.id)
    (lab.root / "train.py").write_text("print(1)\n")  # beside the run: not its own file
    writer = approved(lab, f'{sys.executable} -c \'open("notes.txt", "w").write("x"); print("score:", 1)\'')
    calm, guilty = ended(lab, run, *lab.runs.launch(writer.id))
    assert (calm.tainted, guilty.tainted) == (False, True)


def test_secrets_and_large_data_are_links_and_small_data_are_copies(lab: Lab, tmp_path: Path) -> None:
    (lab.root / ".gitignore").write_text(".perpetual/\ndata/\n*.env\n.env\n*.bin\n*.log\n")
    (lab.root / "large.bin").write_bytes(b"x" * 1_500_000)
    (lab.root / "small.log").write_text("log\n")
    (lab.root / "untracked.pt").write_bytes(b"y" * 1_500_000)
    script = (
        "import os; print(*(os.path.islink(p) for p in ('data', '.env', 'large.bin', 'untracked.pt', 'small.log')))"
    )
    (lab.root / "look.py").write_text(script)
    made = approved(lab, f"{sys.executable} look.py", metric=None, direction=None)
    (run,) = ended(lab, *lab.runs.launch(made.id))
    folder = lab.runs.log_dir(run.id)
    assert (folder / "stdout.log").read_text() == "True True True True False\n"
    assert not (folder / "copy").exists(), "it has written nothing"
    kept = [path for path in (lab.root / ".perpetual" / "isolate").rglob("*") if path.is_file()]
    assert kept
    assert not any(b"TOKEN=x" in path.read_bytes() for path in kept)
    assert (lab.root / "large.bin").stat().st_size == 1_500_000


@pytest.mark.slow
def test_a_project_below_the_top_with_a_submodule_and_a_working_directory(tmp_path: Path) -> None:
    inner, top = tmp_path / "inner", tmp_path / "repository"
    for folder in (inner, top):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main", ".")
    (inner / "lib.txt").write_text("lib\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "one")
    (top / "shared.txt").write_text("shared\n")
    git(top, "submodule", "--quiet", "add", str(inner), "sub")
    with Lab.init(top / "lab", name="t", project_id="fixed") as lab:
        (lab.root / "deep").mkdir()
        (lab.root / "deep" / "job.sh").write_text("cat ../../shared.txt ../../sub/lib.txt; git rev-parse HEAD\n")
        (top / ".gitignore").write_text(".perpetual/\n")
        git(top, "add", "-A")
        git(top, "commit", "-qm", "one")
        (top / "sub" / "lib.txt").write_text("changed\n")
        made = approved(lab, "sh job.sh", cwd="deep", metric=None, direction=None)
        (top / "sub" / "lib.txt").write_text("later\n")
        (run,) = ended(lab, *lab.runs.launch(made.id))
        words = (lab.runs.log_dir(run.id) / "stdout.log").read_text().split()
        assert words == ["shared", "changed", git(top, "rev-parse", "HEAD").strip()]
        assert run.isolated == ".perpetual/runs/r1/copy/lab"
        assert not (lab.runs.log_dir(run.id) / "copy").exists()


def test_what_cannot_be_isolated_is_refused_by_name(lab: Lab, tmp_path: Path) -> None:
    with Lab.init(tmp_path / "plain", name="p", project_id="p") as plain:
        with pytest.raises(UsageError, match="cannot be isolated: the project is in no git repository") as no:
            plain.experiments.propose(command="true", isolate=True)
        assert "git init" in (no.value.hint or "")
        assert no.value.exit == 2
        assert plain.experiments.list().items == ()
    made = lab.experiments.propose(command=f"{sys.executable} {lab.root}/train.py", isolate=True)
    with pytest.raises(UsageError, match=r"names train\.py by its absolute path"):
        lab.experiments.approve(made.id)
    ignored = approved(lab, "true", cwd="data", metric=None, direction=None)
    with pytest.raises(Conflict, match="the working directory data is ignored by git"):
        lab.runs.launch(ignored.id)


def test_a_copy_that_was_altered_starts_nothing(lab: Lab) -> None:
    made = approved(lab, replicates=2)
    for blob in (lab.root / ".perpetual" / "isolate" / "blobs").rglob("*"):
        if blob.is_file() and blob.read_text("utf-8", "replace") == TRAIN:
            blob.chmod(0o600)
            blob.write_text("print('another')\n")
    with pytest.raises(Conflict, match="was altered"):
        lab.runs.launch(made.id)
    assert [run.status for run in lab.runs.list().items] == ["failed"]
    lab.experiments.approve(made.id)  # the same code, kept anew
    (again,) = lab.runs.launch(made.id)
    lab.wait([again.id], timeout_s=30)
    assert says(lab, again) == "says: approved data first"


@pytest.mark.slow
def test_files_behind_a_filter_are_as_they_lie_and_unchanged(lab: Lab) -> None:
    git(lab.root, "config", "filter.up.clean", "tr a-z A-Z")  # as Git LFS: what git keeps is not what lies there
    (lab.root / ".gitattributes").write_text("*.dat filter=up\n")
    (lab.root / "x.dat").write_text("small\n")
    (lab.root / "y.dat").write_text("other\n")
    os.utime(lab.root / "x.dat", (1_700_000_000, 1_700_000_000))  # or git would not trust its index
    git(lab.root, "add", "-A")
    git(lab.root, "commit", "-qm", "two")
    (lab.root / "y.dat").write_text("changed\n")
    plain = approved(lab, "cat x.dat y.dat", isolate=False, metric=None, direction=None)
    copied = approved(lab, "cat x.dat y.dat", metric=None, direction=None)
    first, second = ended(lab, *lab.runs.launch(plain.id), *lab.runs.launch(copied.id))
    assert (lab.runs.log_dir(second.id) / "stdout.log").read_text() == "small\nchanged\n"
    assert "x.dat" not in (lab.runs.log_dir(second.id) / "code.patch").read_text()
    assert first.versions == second.versions


@pytest.mark.slow
def test_odd_names_and_modes_are_kept(lab: Lab) -> None:
    odd = os.fsdecode(b"odd \xff\n*name.txt")
    (lab.root / odd).write_text("odd")
    (lab.root / "tool.sh").write_text("ls -1 | wc -l; test -x tool.sh && cat odd*\n")
    (lab.root / "tool.sh").chmod(0o755)
    (lab.root / "link").symlink_to("notes.txt")
    (lab.root / "out").symlink_to("../elsewhere")
    git(lab.root, "add", "-A")
    (lab.root.parent / "elsewhere").write_text("")
    made = approved(lab, "sh -c './tool.sh; cat link out'", metric=None, direction=None)
    (run,) = ended(lab, *lab.runs.launch(made.id))
    assert run.status == "done", (lab.runs.log_dir(run.id) / "stderr.log").read_text()
    assert (lab.runs.log_dir(run.id) / "stdout.log").read_text().endswith("oddfirst\n")
    assert not (lab.runs.log_dir(run.id) / "copy").exists()


@pytest.mark.slow
def test_a_project_that_was_moved_runs_what_was_approved(lab: Lab) -> None:
    approved(lab)
    moved = lab.root.rename(lab.root.parent / "moved")
    with Lab.open(moved) as other:
        other.trust.accept(other.trust.review().digest)
        (run,) = ended(other, *other.runs.launch("e1"))
        assert says(other, run) == "says: approved data first"


@pytest.mark.slow
def test_editable_installs_mean_the_copy(lab: Lab, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    (site,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
    (lab.root / "src").mkdir()
    (lab.root / "src" / "package.py").write_text("WORD = 'approved'\n")
    (site / "package.pth").write_text(f"{lab.root}/src\n")
    (lab.root / "job.py").write_text("import package; print('says:', package.WORD)\n")
    git(lab.root, "add", "-A")
    made = approved(lab, f"{tmp_path}/env/bin/python job.py", metric=None, direction=None)
    (lab.root / "src" / "package.py").write_text("WORD = 'edited'\n")
    (run,) = ended(lab, *lab.runs.launch(made.id))
    assert says(lab, run) == "says: approved"


DYING = """\
import os, signal, sys
from perpetual import Lab
name, at, deed = sys.argv[1], int(sys.argv[2]), sys.argv[3]
calls, real = [0], getattr(os, name)
def dying(*given, **named):
    calls[0] += 1
    if calls[0] == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **named)
with Lab.open(sys.argv[4]) as lab:
    setattr(os, name, dying)
    lab.experiments.approve("e1") if deed == "approve" else lab.runs.launch("e1") if deed == "run" else lab.scan()
"""


def dies(lab: Lab, name: str, at: int, deed: str) -> bool:
    """Whether a process that does the deed died by SIGKILL at a call of a function of `os`."""
    words = [sys.executable, "-c", DYING, name, str(at), deed, str(lab.root)]
    return subprocess.run(words, check=False, stderr=subprocess.DEVNULL).returncode == -signal.SIGKILL


@pytest.mark.parametrize("at", [5, *(pytest.param(at, marks=pytest.mark.slow) for at in (2, 8))])
def test_killed_while_it_is_kept_nothing_is_left(lab: Lab, at: int) -> None:
    lab.experiments.propose(command="true", isolate=True)
    assert dies(lab, "replace", at, "approve")
    assert lab.experiments.get("e1").status == "proposed"
    lab.scan()
    left = [path for path in (lab.root / ".perpetual" / "isolate").rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["lock"]


@pytest.mark.parametrize(
    ("name", "at"),
    [("utime", 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in (("symlink", 1), ("utime", 4)))],
)
def test_killed_while_the_folder_is_made_it_is_made_anew(lab: Lab, name: str, at: int) -> None:
    made = approved(lab)
    assert dies(lab, name, at, "run")
    (run,) = ended(lab, lab.runs.get("r1"))
    assert (run.status, run.metrics["score"], made.id) == ("done", 0.5, run.experiment_id)
    assert not (lab.runs.log_dir("r1") / "copy" / "train.py").exists()


@pytest.mark.parametrize(("name", "at"), [("unlink", 3), pytest.param("rmdir", 1, marks=pytest.mark.slow)])
def test_killed_while_it_is_cleared_the_next_scan_goes_on(lab: Lab, name: str, at: int) -> None:
    approved(lab)
    lab.runs.launch("e1")
    while not (lab.runs.log_dir("r1") / "exit.json").exists():
        pass
    dies(lab, name, at, "scan")
    lab.scan()
    assert lab.runs.get("r1").metrics["score"] == 0.5
    left = sorted(path.name for path in (lab.runs.log_dir("r1") / "copy").iterdir())
    assert left == ["ckpt", "notes.txt", "results.json"]
    assert os.listdir(lab.root / ".perpetual" / "isolate" / "live") == []


def test_clearing_leaves_a_mark_that_is_just_written(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    made = approved(lab)
    live, scans = lab.root / ".perpetual" / "isolate" / "live", []
    replace = os.replace

    def scans_before(source: str, target: str) -> None:
        if Path(source).parent == live:
            subprocess.run([sys.executable, "-m", "perpetual", "scan"], cwd=lab.root, check=True)
            scans.append(source)
        replace(source, target)

    monkeypatch.setattr("os.replace", scans_before)
    (run,) = ended(lab, *lab.runs.launch(made.id))
    assert (run.status, len(scans)) == ("done", 2)


def test_clearing_removes_a_mark_whose_writer_died(lab: Lab) -> None:
    (run,) = ended(lab, *lab.runs.launch(approved(lab).id))
    draft = lab.root / ".perpetual" / "isolate" / "live" / f".{run.id}.0123456789ab.tmp"
    draft.write_text("{")
    lab.scan()
    assert draft.exists()
    os.utime(draft, (0, 0))
    lab.scan()
    assert not draft.exists()


def test_clearing_follows_no_link_that_the_run_has_made(lab: Lab) -> None:
    (lab.root / "pack").mkdir()
    (lab.root / "pack" / "a.py").write_text("A = 1\n")
    git(lab.root, "add", "-A")
    script = f"import os, shutil; shutil.rmtree('pack'); os.symlink({str(lab.root / 'pack')!r}, 'pack')"
    (lab.root / "job.py").write_text(script + "; shutil.rmtree('.git'); os.symlink('/tmp', '.git')\n")
    made = approved(lab, f"{sys.executable} job.py", metric=None, direction=None)
    (run,) = ended(lab, *lab.runs.launch(made.id))
    assert run.status == "done"
    assert (lab.root / "pack" / "a.py").read_text() == "A = 1\n"
    assert git(lab.root, "status", "--short", "pack") == "A  pack/a.py\n"


def test_a_linked_worktree_is_of_the_main_ones_project(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(lab.root, "add", "-f", ".perpetual/config.yaml")
    git(lab.root, "commit", "-qam", "with its configuration")
    git(lab.root, "worktree", "add", "-q", str(tmp_path / "wt"))
    job = tmp_path / "wt" / "job.sh"
    job.write_text("pwd -P; echo score=1\n")
    monkeypatch.chdir(tmp_path / "wt")
    with Lab.open() as found:
        assert found.root == lab.root
        made = approved(found, "sh job.sh", isolate=False, replicates=2)
        assert made.resources.worktree == "../wt"
        copied = approved(found, "sh job.sh", title="copied")
    monkeypatch.chdir(lab.root)
    here, copy = ended(lab, *lab.runs.launch(made.id), *lab.runs.launch(copied.id))
    assert (lab.runs.log_dir(here.id) / "stdout.log").read_text().split()[0] == str(tmp_path / "wt")
    assert (copy.status, copy.isolated) == ("done", ".perpetual/runs/r2/copy")
    job.write_text("echo score=2\n")
    assert lab.runs.plan(made.id)["code_changed"] is not None
    monkeypatch.chdir(tmp_path / "wt")
    git(lab.root, "worktree", "add", "-q", str(tmp_path / "own"), "HEAD~1")
    Lab.init(tmp_path / "own", name="own").close()
    monkeypatch.chdir(tmp_path / "own")
    with Lab.open() as own:
        assert own.root == tmp_path / "own", "with a store it is a project of its own"
        assert own.experiments.propose(command="true").resources.worktree is None
