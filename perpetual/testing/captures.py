"""The contract suite of the capture slot: every promise of `perpetual.slots.capture`, as tests to be subclassed.

    class TestAcmeCapture(CaptureContract):
        @pytest.fixture
        def capture(self) -> Capture:
            return build({})

Imported by the tests of plugins; nothing but pytest is needed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from perpetual.slots.capture import RESERVED, Capture, CodeReader, CodeState, RunChanges, RunEnd, RunFacts, RunStart
from perpetual.testing.redactors import bundled_redactor

__all__ = ["SECRET", "CaptureContract"]

SECRET = "ghp_" + "x7Kq2mZ9" * 4 + "aB3d"  # the form of a code host's token; it opens nothing
_COMMAND = (sys.executable, "-S", "train.py")


class CaptureContract:
    """The contract of captures.

    Promised: facts are JSON under names that are not the kernel's own, and the same for the same
    project; files are written into the run's folder alone; no secret is kept; odd projects and commands raise nothing;
    a project that has not changed has no taint, whatever wrote the facts; where protected paths are compared each
    change of them is a taint; where code is read the same contents are the same code, and others are named.
    """

    @pytest.fixture
    def capture(self) -> Capture:
        """Returns the capture under test; to be overridden."""
        raise NotImplementedError("override the fixture `capture`")

    def test_facts_are_json_under_names_of_their_own(self, capture: Capture, tmp_path: Path) -> None:
        """Read back they are what was answered; problems are sentences; versions are those of known aspects."""
        found = capture.before(_start(tmp_path))
        assert isinstance(found, RunFacts)
        assert json.loads(json.dumps({**found.facts}, allow_nan=False)) == {**found.facts}
        assert not RESERVED & {*found.facts}
        assert all(problem.strip() for problem in found.problems)
        assert {*found.versions} <= {"code", "data", "environment"}

    def test_the_same_project_has_the_same_versions(self, capture: Capture, tmp_path: Path) -> None:
        """Also when it is looked at again for another run, and from several threads."""
        starts = [_start(tmp_path, run=f"r{number}") for number in range(1, 5)]
        first = dict(capture.before(starts[0]).versions)
        with ThreadPoolExecutor(3) as pool:
            assert [dict(found.versions) for found in pool.map(capture.before, starts[1:])] == [first] * 3

    def test_files_are_written_into_the_runs_folder_alone(
        self, capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nothing in the project, the working directory or the environment changes, before, after, or by the reader."""
        start = _start(tmp_path)
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        monkeypatch.chdir(elsewhere)
        seen = _seen(start.root), dict(os.environ)
        found = capture.before(start)
        capture.after(_end(start, found))
        reader = capture.code_reader(start.root, start.code_ignore)
        if reader is not None:
            reader.read(start.argv, None)
        assert (_seen(start.root), dict(os.environ)) == seen
        assert [*elsewhere.iterdir()] == []
        assert not (start.folder / "provenance.json").exists(), "the kernel writes this file"

    def test_no_secret_is_kept(self, capture: Capture, tmp_path: Path) -> None:
        """Neither in the facts nor in a file, of the environment or of the project's files."""
        start = _start(tmp_path)
        start = replace(start, env={**start.env, "ACME_TOKEN": SECRET}, own_env=frozenset({"ACME_TOKEN"}))
        (start.root / ".env").write_text(f"ACME_TOKEN={SECRET}\n", "utf-8")
        (start.root / "settings.cfg").write_text(f"token = {SECRET}\n", "utf-8")
        found = capture.before(start)
        assert SECRET not in json.dumps({**found.facts}) + json.dumps({**found.versions}) + " ".join(found.problems)
        kept = [path for path in start.folder.rglob("*") if path.is_file()]
        assert [path.name for path in kept if SECRET.encode() in path.read_bytes()] == []

    @pytest.mark.parametrize("odd", ["empty", "no folder", "no program", "odd names"])
    def test_odd_projects_raise_nothing(self, capture: Capture, tmp_path: Path, odd: str) -> None:
        """An empty folder, one that is gone, a program that is not there, names and words of any bytes."""
        start = _start(tmp_path)
        if odd == "no program":
            start = replace(start, argv=("no-such-program", "\udcff", "a\0b", ""))
        elif odd == "odd names":
            os.close(os.open(os.fsencode(start.root) + b"/odd\xff\n.py", os.O_CREAT | os.O_WRONLY, 0o600))
            start = replace(start, protected_paths=("odd*", "/etc", "..", "[", ""), code_ignore=("[", "**", "/"))
        else:
            (start.root / "train.py").unlink()
            (start.root / "data.csv").unlink()
            if odd == "no folder":
                start.root.rmdir()
        found = capture.before(start)
        json.dumps({**found.facts}, allow_nan=False)
        capture.after(_end(start, found))
        reader = capture.code_reader(start.root, start.code_ignore)
        if reader is not None:
            reader.read(start.argv, None)

    def test_a_project_that_has_not_changed_has_no_taint(self, capture: Capture, tmp_path: Path) -> None:
        """Nor one whose facts are those of another version, or of none."""
        start = _start(tmp_path)
        found = capture.before(start)
        for facts in (found, RunFacts()):
            answer = capture.after(_end(start, facts))
            assert isinstance(answer, RunChanges)
            assert answer.taints == ()

    def test_what_was_not_captured_was_not_compared(self, capture: Capture, tmp_path: Path) -> None:
        """Without facts of the start no capture says that it has compared the protected paths with them."""
        start = _start(tmp_path)
        capture.before(start)
        assert capture.after(_end(start, RunFacts())).compared_protected is False

    @pytest.mark.parametrize("deed", ["changed", "removed", "added"])
    def test_a_change_of_a_protected_path_is_a_taint(self, capture: Capture, tmp_path: Path, deed: str) -> None:
        """Where a capture compares them: a file that was changed, removed or added below a protected folder."""
        start = _start(tmp_path)
        (start.root / "eval").mkdir()
        (start.root / "eval" / "test.csv").write_text("a,b\n", "utf-8")
        start = replace(start, protected_paths=("eval",))
        found = capture.before(start)
        if not capture.after(_end(start, found)).compared_protected:
            pytest.skip("it compares no protected paths")
        if deed == "removed":
            (start.root / "eval" / "test.csv").unlink()
        else:
            (start.root / "eval" / ("test.csv" if deed == "changed" else "more.csv")).write_text("b,a\n", "utf-8")
        answer = capture.after(_end(start, found))
        assert answer.compared_protected
        assert answer.taints

    def test_the_same_contents_are_the_same_code(self, capture: Capture, tmp_path: Path) -> None:
        """As read by another reader, and as a record keeps the state; a state that is unknown is not compared."""
        start = _start(tmp_path)
        reader = _reader(capture, start)
        state = reader.read(start.argv, None)
        assert state.kind in reader.kinds
        kept = CodeState.of(json.loads(json.dumps(state.document())))
        again = _reader(capture, start).read(start.argv, None)
        assert kept is not None
        assert reader.same(kept, again) is True
        assert reader.same(kept, CodeState(why="unknown")) is None

    def test_other_contents_are_other_code(self, capture: Capture, tmp_path: Path) -> None:
        """A change of the program is seen, and its file named."""
        start = _start(tmp_path)
        before = _reader(capture, start).read(start.argv, None)
        (start.root / "train.py").write_text("print('loss: 2')\n", "utf-8")
        reader = _reader(capture, start)
        now = reader.read(start.argv, None)
        assert reader.same(before, now) is False
        changed = reader.changed_since(before, now)
        assert changed is None or "train.py" in changed


def _start(place: Path, run: str = "r1") -> RunStart:
    """Returns a small project whose program is about to run."""
    root, folder = place / "project", place / run
    if not root.exists():
        root.mkdir()
        (root / "train.py").write_text("print('loss: 1')\n", "utf-8")
        (root / "data.csv").write_text("a,b\n1,2\n", "utf-8")
    folder.mkdir(mode=0o700)
    env = {"PATH": os.environ.get("PATH", ""), "HOME": str(place), "OMP_NUM_THREADS": "2"}
    return RunStart(run, root, folder, _COMMAND, root, env, bundled_redactor())


def _end(start: RunStart, found: RunFacts) -> RunEnd:
    """Returns the end of that run, with facts as they are read back."""
    document: Mapping[str, object] = {**json.loads(json.dumps({**found.facts})), "run": start.run_id}
    return RunEnd(start.run_id, start.root, start.folder, document)


def _reader(capture: Capture, start: RunStart) -> CodeReader:
    reader = capture.code_reader(start.root, start.code_ignore)
    if reader is None or reader.read(start.argv, None).sha256 is None:
        pytest.skip("it reads no code of this project")
    return reader


def _seen(folder: Path) -> list[tuple[str, int, int, bytes]]:
    """Returns every file with its mode, time of the last write and content."""
    found = []
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() else b""
        found.append((str(path), status.st_mode, status.st_mtime_ns, content))
    return found
