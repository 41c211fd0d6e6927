"""What a run was started from: kept before its process starts, honest where it cannot be had, enough to begin anew."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from perpetual.records import Experiment, Hypothesis
from perpetual.testing.redactors import bundled_redactor
from perpetual_provenance import git_snapshot, untracked
from perpetual_provenance.git_snapshot import Code, GitFact, capture_code
from perpetual_provenance.python_env import interpreter_of
from perpetual_provenance.untracked import LIMITS, Limits, Untracked

Campaign = Callable[..., tuple[Hypothesis, Experiment]]

_ODD = "a b\nc 'ü\"\t"  # a name with all that is trouble for a list of names


def git(folder: Path, *words: str, data: bytes = b"") -> bytes:
    """A git command of a user's; its output."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], input=data, capture_output=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def capture(root: Path, folder: Path, limits: Limits = LIMITS) -> Code:
    return capture_code(root, folder, bundled_redactor(), limits)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "train.py").write_text("print('acc: 1.5')\n")
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 20)
    (folder / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (folder / "old name.py").write_text("import os\n" * 20)
    (folder / _ODD).write_text("odd\n")
    (folder / "gone.py").write_text("gone\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "deep.py").write_text("1\n")
    (folder / "link").symlink_to("train.py")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A run's folder."""
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def _tree(folder: Path) -> dict[str, tuple[bool, bytes]]:
    """Every file with whether it may be executed, and its bytes; links by their target."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = (False, os.fsencode(os.readlink(path)))
        elif path.is_file() and name.split("/")[0] not in (".git", ".perpetual"):
            found[name] = (bool(path.stat().st_mode & 0o100), path.read_bytes())
    return found


def _restore(code: Path, place: Path, document: GitFact, target: Path) -> None:
    """As the documentation says: the commit, the patch, the untracked files."""
    git(code.parent, "clone", "-q", str(code), str(target))
    assert document["commit"] is not None
    git(target, "checkout", "-q", document["commit"])
    if document["patch"]:
        git(target, "apply", "--binary", str(place / document["patch"]))
    if document["untracked"]:
        shutil.copytree(place / "untracked", target, symlinks=True, dirs_exist_ok=True)
    for entry in document["untracked"]:
        name = bytes.fromhex(entry["path_hex"]) if "path_hex" in entry else os.fsencode(entry["path"])
        path = os.path.join(os.fsencode(target), name)
        if "target" not in entry:
            assert os.access(path, os.X_OK) == bool(int(entry["mode"], 8) & 0o100), "a script that is copied back runs"
            os.chmod(path, int(entry["mode"], 8) & 0o777)


# --- the code -------------------------------------------------------------------------------------------------------


def test_a_clean_repository_is_recorded_by_its_commit(code: Path, place: Path) -> None:
    (code / "some.log").write_text("ignored\n")
    state, document, problems = capture(code / "sub", place)
    commit = git(code, "rev-parse", "HEAD").decode().strip()
    assert (state.commit, state.dirty) == (commit, False)
    assert (document["branch"], document["remote"], document["top"]) == ("main", None, str(code))
    assert (document["patch"], document["patch_bytes"], document["untracked"]) == (None, 0, [])
    assert document["why"] is not None
    assert "nothing" in document["why"]
    assert problems == []
    assert [*place.iterdir()] == []


def test_patch_and_untracked_files_restore_the_tree(code: Path, place: Path, tmp_path: Path) -> None:
    (code / "train.py").write_text("print('acc: 1.6')\n# without an end of line")
    (code / "binary.bin").write_bytes(bytes(reversed(range(256))) * 21)
    (code / "crlf.txt").write_bytes(b"one\r\nTWO\r\nthree\nfour\r\n")
    (code / "old name.py").rename(code / "new name.py")
    git(code, "add", "-A", "new name.py", "old name.py")
    (code / _ODD).write_text("odder\n")
    (code / "gone.py").unlink()
    (code / "run.sh").chmod(0o755)
    (code / "link").unlink()
    (code / "link").symlink_to("sub/deep.py")
    (code / "staged.py").write_text("staged\n")
    git(code, "add", "staged.py")
    (code / "meant.py").write_text("added with -N\n")
    git(code, "add", "-N", "meant.py")
    (code / "new").mkdir()
    (code / "new" / f"{_ODD}.py").write_text("untracked\n")
    (code / "new" / "tool").write_bytes(b"\x00\xff\r\n")
    (code / "new" / "tool").chmod(0o755)
    (code / "new" / "to").symlink_to("/nowhere/at all")
    with open(os.fsencode(code) + b"/latin\xe9.txt", "wb") as file:
        file.write(b"a name that is no UTF-8\n")
    (code / "empty").touch()
    index = (code / ".git" / "index").read_bytes()
    state, document, problems = capture(code, place)
    assert (state.dirty, problems, document["why"]) == (True, [], None)
    assert (code / ".git" / "index").read_bytes() == index
    patch = place / "code.patch"
    assert document["patch_sha256"] == sha256(patch.read_bytes()).hexdigest()
    assert (document["patch_bytes"], stat.S_IMODE(patch.stat().st_mode)) == (patch.stat().st_size, 0o600)
    assert all(entry["kept"] and len(entry["sha256"] or "") == 64 for entry in document["untracked"])
    assert sorted(path.name for path in place.iterdir()) == ["code.patch", "untracked"]
    json.dumps(document, ensure_ascii=False).encode()
    _restore(code, place, document, tmp_path / "again")
    assert _tree(tmp_path / "again") == _tree(code)


def test_line_ends_that_git_translates(code: Path, place: Path, tmp_path: Path) -> None:
    (code / ".gitattributes").write_text("*.bat text eol=crlf\n*.py text eol=lf\n")
    (code / "run.bat").write_bytes(b"one\r\ntwo\r\n")
    git(code, "add", "-A")
    git(code, "commit", "-qm", "attributes")
    assert capture(code, place).state.dirty is False
    (code / "run.bat").write_bytes(b"one\r\n2\r\n")
    document = capture(code, place).document
    _restore(code, place, document, tmp_path / "again")
    assert _tree(tmp_path / "again") == _tree(code)


def test_a_change_as_young_as_the_index_is_seen(code: Path, place: Path) -> None:
    """Of the same size and within the same tick: only the index's own age tells that it must be looked at."""
    git(code, "config", "core.trustctime", "false")
    git(code, "config", "core.checkStat", "minimal")
    path, long_ago = code / "sub" / "deep.py", 1_700_000_000
    os.utime(path, (long_ago, long_ago))
    git(code, "add", "-A")
    path.write_text("2\n")
    os.utime(path, (long_ago, long_ago))
    os.utime(code / ".git" / "index", (long_ago, long_ago))
    assert capture(code, place).document["patch"] == "code.patch"


def test_a_repository_that_wants_to_run_programs(code: Path, place: Path, tmp_path: Path) -> None:
    """Filters of any name, conversions, drivers, monitors, hooks, aliases, transports, of a submodule too."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def mark(name: str) -> str:
        return f"touch '{marks}/{name}'; cat"

    def arm(folder: Path) -> None:
        (folder / ".gitattributes").write_text("*.dat filter=evil diff=evil\n*.eq filter=a=b.c\n*.bin filter=lfs\n")
        for name in ("one.dat", "two.eq", "big.bin"):
            (folder / name).write_text("first\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "attributes")
        for key in ("filter.evil.clean", "filter.evil.smudge", "filter.a=b.c.clean", "filter.lfs.process"):
            git(folder, "config", key, mark(key.rpartition(".")[2]))
        git(folder, "config", "filter.evil.required", "true")
        git(folder, "config", "diff.evil.textconv", mark("textconv"))
        git(folder, "config", "diff.evil.command", mark("command"))
        git(folder, "config", "diff.external", mark("external"))
        git(folder, "config", "core.pager", mark("pager"))
        git(folder, "config", "core.sshCommand", mark("ssh"))
        for alias in ("diff", "status", "rev-parse", "ls-files", "config"):
            git(folder, "config", f"alias.{alias}", "!" + mark("alias"))
        hooks = folder / "hooks"
        hooks.mkdir()
        for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "reference-transaction"):
            (hooks / hook).write_text(f"#!/bin/sh\ntouch '{marks}/hook'\n")
            (hooks / hook).chmod(0o755)
        git(folder, "config", "core.hooksPath", str(hooks))
        git(folder, "config", "core.fsmonitor", mark("monitor"))
        for name in ("one.dat", "two.eq", "big.bin"):
            (folder / name).write_text("second\n")

    inner = tmp_path / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    arm(inner)
    git(code, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "vendor")
    git(code, "commit", "-qm", "submodule")
    shutil.rmtree(code / "vendor")
    shutil.copytree(inner, code / "vendor")
    arm(code)
    git(code, "config", "core.repositoryformatversion", "1")
    git(code, "config", "extensions.partialClone", "origin")
    git(code, "config", "remote.origin.url", f"ext::sh -c touch% {marks}/transport")
    git(code, "config", "remote.origin.promisor", "true")
    for path in marks.iterdir():  # what preparing has set off
        path.unlink()
    state, _, problems = capture(code, place)
    assert sorted(path.name for path in marks.iterdir()) == []
    assert state.dirty is True
    text = (place / "code.patch").read_text()
    assert text.count("-first\n+second\n") == 3
    assert [problem for problem in problems if "submodules" in problem]
    # The test can fail: git's own commands do run them.
    subprocess.run(["git", "-C", str(code), "status"], capture_output=True, check=False)
    assert {"monitor", "clean"} & {path.name for path in marks.iterdir()}


def test_credentials_of_the_remote_are_not_kept(code: Path, place: Path) -> None:
    git(code, "remote", "add", "fork", "https://host/fork.git")
    assert capture(code, place).document["remote"] == "https://host/fork.git"
    git(code, "remote", "add", "origin", "https://user:hunter2@host/x.git")
    document = capture(code, place).document
    assert document["remote"] == "https://<redacted>@host/x.git"
    assert "hunter2" not in json.dumps(document)


def test_detached_and_in_a_worktree(code: Path, place: Path, tmp_path: Path) -> None:
    git(code, "checkout", "-q", "--detach")
    assert capture(code, place).document["branch"] is None
    other = tmp_path / "other"
    git(code, "worktree", "add", "-q", "-b", "side", str(other))
    (other / "train.py").write_text("other\n")
    state, document, problems = capture(other, place)
    assert (state.dirty, document["branch"], document["top"], problems) == (True, "side", str(other), [])
    assert "+other" in (place / "code.patch").read_text()


def test_untracked_files_are_looked_for_in_the_project_where_git_hides_them(code: Path, place: Path) -> None:
    """As in a home folder under git: then only the project's own are looked for."""
    (code / "new").write_text("1")
    (code / "sub" / "new").write_text("2")
    assert [entry["path"] for entry in capture(code / "sub", place).document["untracked"]] == [
        "new",
        "sub/new",
    ]
    git(code, "config", "status.showUntrackedFiles", "no")
    assert [entry["path"] for entry in capture(code / "sub", place).document["untracked"]] == ["sub/new"]


def test_an_index_in_two_parts(code: Path, place: Path) -> None:
    git(code, "update-index", "--split-index")
    (code / "train.py").write_text("changed\n")
    git(code, "add", "train.py")
    state, _, problems = capture(code, place)
    assert (state.dirty, problems) == (True, [])


def test_a_repository_of_sha256_objects(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sha256"
    folder.mkdir()
    git(folder, "init", "-q", "--object-format=sha256")
    (folder / "a").write_text("1\n")
    git(folder, "add", "a")
    assert capture(folder, place).problems == []
    git(folder, "commit", "-qm", "first")
    (folder / "a").write_text("2\n")
    state, _, problems = capture(folder, place)
    assert (len(state.commit or ""), state.dirty, problems) == (64, True, [])


def test_a_repository_without_a_commit_is_recorded(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "unborn"
    folder.mkdir()
    git(folder, "init", "-q")
    assert capture(folder, place).state.dirty is False
    (folder / "staged").write_text("1\n")
    (folder / "new").write_text("2\n")
    git(folder, "add", "staged")
    state, document, problems = capture(folder, place)
    assert (state.commit, state.dirty, document["branch"], problems) == (None, True, "main", [])
    assert "+1" in (place / "code.patch").read_text()
    assert [entry["path"] for entry in document["untracked"]] == ["new"]


def _bare(folder: Path) -> None:
    git(folder, "init", "-q", "--bare")


def _broken(folder: Path) -> None:
    git(folder, "init", "-q")
    (folder / ".git" / "index").write_bytes(b"no index")


def _lost(folder: Path) -> None:
    (folder / "a").write_text("1")
    git(folder, "init", "-q")
    git(folder, "add", "a")
    git(folder, "commit", "-qm", "first")
    shutil.rmtree(folder / ".git" / "objects")
    (folder / ".git" / "objects").mkdir()


def _elsewhere(folder: Path) -> None:
    git(folder, "init", "-q")
    git(folder, "config", "core.worktree", "/usr/lib")


def test_git_is_asked_only_where_it_may_find_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting it takes longer than all else that a look does."""
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inside)
    refused = "no git repository"
    for folder in (inside, tmp_path / "link"):
        with pytest.raises(git_snapshot.GitFailed, match=refused):
            git_snapshot.refuse_no_repository(str(folder))
    git(tmp_path / "a", "init", "-q")
    for folder in (inside, tmp_path / "link", inside / "gone"):
        git_snapshot.refuse_no_repository(str(folder))
    shutil.rmtree(tmp_path / "a" / ".git")
    git(tmp_path / "a", "init", "-q", "--bare", ".")
    git_snapshot.refuse_no_repository(str(inside))
    shutil.rmtree(tmp_path / "a" / "objects")
    with pytest.raises(git_snapshot.GitFailed, match=refused):
        git_snapshot.refuse_no_repository(str(inside))
    monkeypatch.setenv("PATH", str(tmp_path))
    git_snapshot.refuse_no_repository(str(inside))  # who starts it says that it is missing


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda folder: None, "in no git repository"),
        (_bare, "bare"),
        (_broken, "index"),
        (_lost, "git"),
        (_elsewhere, "outside its repository"),
        (lambda folder: (folder / ".git").write_text("gitdir: /nowhere\n"), "in no git repository"),
        (lambda folder: (folder / ".git").write_text("garbage\n"), "invalid gitfile"),
    ],
)
def test_missing_facts_are_named(place: Path, tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    make(folder)
    state, document, problems = capture(folder, place)
    assert state.dirty is None
    assert why in " ".join(problems)
    assert document["why"] in problems
    assert [*place.iterdir()] == []


def test_a_capture_without_git_names_the_problem(
    code: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert capture(code, place).problems == ["git is not installed here"]
    (tmp_path / "git").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "git").chmod(0o755)
    assert capture(code, place).problems == ["git rev-parse ended with status 3"]


def test_a_git_that_hangs_holds_no_launch_up(
    code: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_text(f"#!{sys.executable}\nimport signal\nsignal.pause()\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert capture(code, place, Limits(git_s=0.3)).problems == ["git rev-parse took longer than 0.3 s"]


def test_variables_that_point_git_elsewhere_do_not_count(
    code: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a hook of another repository."""
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {tmp_path}/mark")
    (code / "train.py").write_text("changed\n")
    state, document, problems = capture(code, place)
    assert (state.dirty, document["top"], problems) == (True, str(code), [])
    assert not (tmp_path / "mark").exists()


def test_files_beyond_the_limits_are_hashed_or_counted(code: Path, place: Path) -> None:
    limits = Limits(kept_file_bytes=10, kept_bytes=15, hashed_bytes=60, listed=7, patch_bytes=100)
    (code / "train.py").write_text("x" * 500)
    sizes = {"a": 9, "b": 5, "c": 5, "d": 11, "e": 100, "f": 40}
    for name, size in sizes.items():
        (code / name).write_bytes(name.encode() * size)
    os.mkfifo(code / "g")
    (code / "h").write_text("not listed")
    (code / "repository").mkdir()
    git(code / "repository", "init", "-q")
    (code / "repository" / "x").write_text("x")
    _, document, problems = capture(code, place, limits)
    assert (document["patch"], len(document["patch_sha256"] or "")) == (None, 64)
    assert (document["patch_bytes"] or 0) > 500
    assert "its hash is" in (document["why"] or "")
    found = {entry["path"]: entry for entry in document["untracked"]}
    assert {name: entry["kept"] for name, entry in found.items() if name in sizes} == {
        "a": False, "b": True, "c": True, "d": False, "e": False, "f": False,
    }  # fmt: skip
    assert {name for name, entry in found.items() if entry["sha256"] is None} >= {"e"}
    assert found["d"]["sha256"] == sha256(b"d" * 11).hexdigest()
    assert all(entry["kept"] or entry["why"] for entry in found.values())
    assert sorted(path.name for path in (place / "untracked").iterdir()) == ["b", "c"]
    assert document["untracked_left_out"] > 0
    assert len(problems) == 3


def test_links_are_kept_as_links(code: Path, place: Path) -> None:
    """Whatever they lead to: it is neither read nor written."""
    (code / "outside").symlink_to("/etc/passwd")
    (code / "odd").symlink_to(os.fsdecode(b"no \xff text"))
    (code / "deep").mkdir()
    (code / "deep" / "up").symlink_to("..")
    _, document, problems = capture(code, place)
    kept = place / "untracked"
    assert os.readlink(os.fsencode(kept / "odd")) == b"no \xff text"
    assert {entry["path"]: os.readlink(kept / entry["path"]) for entry in document["untracked"]} == {
        "deep/up": "..", "odd": "no \udcff text", "outside": "/etc/passwd",
    }  # fmt: skip
    assert all(entry["kept"] and "why" not in entry for entry in document["untracked"])
    assert problems == []
    _, document, _ = capture(code, place, Limits(kept_files=2))
    assert [entry["why"] for entry in document["untracked"] if "why" in entry] == ["only described: it is one too many"]
    assert all(entry["kept"] and entry["target"] for entry in document["untracked"])


def test_nothing_is_written_through_a_kept_link(tmp_path: Path) -> None:
    """A folder that became a link while git listed what is in it leads nothing out of the run's folder."""
    top, place, outside = (tmp_path / name for name in ("top", "place", "outside"))
    for folder in (top, outside):
        folder.mkdir()
    (outside / "inner").symlink_to("x" * 250)  # the longer one comes last
    (top / "a").symlink_to(outside)
    document: Untracked = {"untracked": [], "untracked_left_out": 0}
    untracked.keep_untracked(bundled_redactor(), os.fsencode(top), [b"a", b"a/inner"], place, document, [])
    assert os.readlink(place / "a") == str(outside)
    (refused,) = [entry["why"] for entry in document["untracked"] if "why" in entry]
    assert refused == "only described: a link was kept in the place of its folder"
    assert sorted(path.name for path in outside.iterdir()) == ["inner"]


def test_an_earlier_launcher_s_leftovers_are_replaced(code: Path, place: Path) -> None:
    (code / "new").write_text("1")
    (code / "train.py").write_text("1")
    first = capture(code, place).document
    (place / ".capture").mkdir()
    assert capture(code, place).document == first
    (code / "new").unlink()
    git(code, "checkout", "-q", "train.py")
    capture(code, place)
    assert [*place.iterdir()] == []


@pytest.mark.slow
def test_fifty_thousand_untracked_files_are_counted(code: Path, place: Path) -> None:
    for folder in range(50):
        (code / f"data{folder}").mkdir()
        for number in range(1000):
            (code / f"data{folder}" / f"{number}.txt").write_text("x")
    _, document, problems = capture(code, place)
    assert document["untracked_left_out"] == 45_000
    assert sum(entry["kept"] for entry in document["untracked"]) == 1_000
    assert len(problems) == 2
    git(code, "add", "-A")
    git(code, "commit", "-qm", "many")
    assert capture(code, place).state.dirty is False


# --- the interpreter ------------------------------------------------------------------------------------------------


def test_the_running_python_is_described() -> None:
    from importlib.metadata import distributions

    found = interpreter_of([sys.executable, "x.py"], Path.cwd(), os.environ)
    assert (found["path"], found["why"]) == (sys.executable, None)
    assert found["version"] == ".".join(map(str, sys.version_info[:3]))
    known = {item.name.lower().replace("_", "-").replace(".", "-"): item.version for item in distributions()}
    assert found["packages"] is not None
    assert found["packages"].items() >= {name: known[name] for name in ("pytest", "click", "perpetual-lab")}.items()
    assert [*found["packages"]] == sorted(found["packages"])


def _environment(folder: Path, *packages: str) -> str:
    """A virtual environment by its layout alone; its Python."""
    library = folder / "lib" / "python3.12" / "site-packages"
    library.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.12.4\n")
    (folder / "bin" / "python").write_bytes(b"\x7fELF")
    (folder / "bin" / "python").chmod(0o755)
    for name in packages:
        (library / name).mkdir()
    return str(folder / "bin" / "python")


def test_another_python_is_not_started(tmp_path: Path) -> None:
    python = _environment(tmp_path / "venv", "torch-2.5.0+cu124.dist-info", "Some.Odd_Name-1.0.dist-info", "torch",
                          "old-0.9-py3.12.egg-info", "no version.dist-info")  # fmt: skip
    wanted = {"version": "3.12.4", "packages": {"old": "0.9", "some-odd-name": "1.0", "torch": "2.5.0+cu124"}}
    assert interpreter_of(["venv/bin/python"], tmp_path, {}).items() >= wanted.items()
    assert interpreter_of(["python"], tmp_path, {"PATH": str(tmp_path / "venv" / "bin")}).items() >= wanted.items()
    script = tmp_path / "venv" / "bin" / "torchrun"
    script.write_text(f"#!{python}\n")
    script.chmod(0o755)
    assert interpreter_of(["torchrun"], tmp_path, {"PATH": str(tmp_path / "venv" / "bin")})["path"] == python
    script.write_text("#!/usr/bin/env -S python -u\n")
    assert interpreter_of([str(script)], tmp_path, {"PATH": str(tmp_path / "venv" / "bin")}).items() >= wanted.items()


def test_packages_of_the_path_come_first(tmp_path: Path) -> None:
    python = _environment(tmp_path / "venv", "torch-2.5.0.dist-info")
    (tmp_path / "mine" / "torch-9.0.dist-info").mkdir(parents=True)
    found = interpreter_of([python], tmp_path, {"PYTHONPATH": str(tmp_path / "mine")})
    assert found["packages"] == {"torch": "9.0"}


def test_the_python_behind_a_wrapper_is_found(tmp_path: Path) -> None:
    """As pyenv has them: a script called python, and versions beside it."""
    for version in ("3.12.4", "3.11.0"):
        _environment(tmp_path / "versions" / version, f"torch-{version}.dist-info")
    (tmp_path / "shims").mkdir()
    shim = tmp_path / "shims" / "python"
    shim.write_text("#!/bin/sh\n")
    shim.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    assert interpreter_of([str(shim)], work, {})["path"] is None
    (tmp_path / "version").write_text("3.12.4\n")
    assert interpreter_of([str(shim)], work, {})["packages"] == {"torch": "3.12.4"}
    (work / ".python-version").write_text("3.11.0\n")
    assert interpreter_of([str(shim)], work, {})["packages"] == {"torch": "3.11.0"}
    assert interpreter_of([str(shim)], work, {"PYENV_VERSION": "3.12.4"})["packages"] == {"torch": "3.12.4"}


@pytest.mark.parametrize(
    ("word", "why"), [("nothing-here", "no program"), ("sh", "is no Python"), ("./no", "no program")]
)
def test_a_command_that_is_no_python(tmp_path: Path, word: str, why: str) -> None:
    found = interpreter_of([word], tmp_path, os.environ)
    assert (found["path"], found["version"], found["packages"]) == (None, None, None)
    assert why in (found["why"] or "")
