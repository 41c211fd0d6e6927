"""Many committers, and committers that are killed: nothing lost, nothing twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_git.repository import NoteRepository

Git = Callable[..., str]
WHEN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
COMMITS_EACH = 50

# SIGKILL leaves the page cache to the kernel, so a sync changes nothing here but the time; without it the
# committers meet more often.
pytestmark = pytest.mark.usefixtures("unsynced")

# Opens (and the first one creates) the repository, waits for a line, then commits a range of intents.
WRITER = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from perpetual_git.repository import NoteRepository
os.fsync = lambda descriptor: None
folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
with NoteRepository.open(folder) as notes:
    for intent in range(first, first + count):
        notes.commit(f"cases/{intent % 7}/{intent}", b"note %d" % intent, message="m", author=f"w{first}",
                     when=datetime(2026, 3, 1, 12, 0, tzinfo=UTC), intent=intent)
"""

# Commits one intent and kills itself before its n-th change of a directory entry in the repository; where it
# outlives the commit, it prints how many there were.
VICTIM = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from perpetual_git.repository import NoteRepository
os.fsync = lambda descriptor: None
folder, intent, last_step = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
left = last_step
def step(event, arguments):
    global left
    changes = event in ("os.rename", "os.link", "os.remove", "os.mkdir") or (
        event == "open" and arguments[2] & os.O_CREAT)
    if changes and str(arguments[0]).startswith(str(folder)):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
with NoteRepository.open(folder) as notes:
    sys.addaudithook(step)
    notes.commit(f"cases/{intent % 3}/{intent}", b"note %d" % intent, message="m", author="victim",
                 when=datetime(2026, 3, 1, 12, 0, tzinfo=UTC), intent=intent)
    print(last_step - left, flush=True)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def commit(notes: NoteRepository, intent: int) -> str:
    """What a victim was about to do, done."""
    return notes.commit(
        f"cases/{intent % 3}/{intent}",
        b"note %d" % intent,
        message="m",
        author="victim",
        when=WHEN,
        intent=intent,
    )


def intents(git: Git, folder: Path) -> Counter[int]:
    return Counter(map(int, git(folder, "log", "--format=%(trailers:key=Perpetual-Intent,valueonly)", "main").split()))


def test_two_processes_that_create_and_commit_at_once_lose_nothing(folder: Path, git: Git) -> None:
    writers = [start(WRITER, folder, first, COMMITS_EACH) for first in (1, 1001)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    wanted = [*range(1, COMMITS_EACH + 1), *range(1001, 1001 + COMMITS_EACH)]
    assert intents(git, folder) == Counter(wanted)
    with NoteRepository.open(folder) as notes:
        listed = dict(notes.listing())
    assert listed == {f"cases/{n % 7}/{n}.md": NoteRepository.blob_id(b"note %d" % n) for n in wanted}
    assert len(git(folder, "log", "--format=%H", "--first-parent", "main").split()) == len(wanted)
    assert git(folder, "fsck", "--strict", "--full", "--no-dangling", errors=True).strip() == ""


def run_victim(folder: Path, intent: int, last_step: int) -> tuple[int, str]:
    with start(VICTIM, folder, intent, last_step) as victim:
        try:
            said, _ = victim.communicate(timeout=60)
        finally:
            victim.kill()
    return victim.returncode, said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="nothing kills like SIGKILL there")
def test_a_committer_killed_at_any_step_leaves_each_intent_to_be_done_exactly_once(folder: Path, git: Git) -> None:
    with NoteRepository.open(folder) as notes:
        commit(notes, 1)
        returncode, said = run_victim(folder, 2, 0)
        assert returncode == 0
        steps = int(said)
        assert steps > 10, "the audit hook saw the commit's steps"
        done_already = 0
        plan = [*random.Random(20260301).sample(range(1, steps), 9), steps]
        for intent, last_step in enumerate(plan, start=3):
            returncode, said = run_victim(folder, intent, last_step)
            assert (returncode, said) == (-signal.SIGKILL, ""), f"killed before step {last_step}"
            found = notes.find_intent(intent)
            done_already += found is not None
            made = commit(notes, intent)
            assert found in (None, made)
            assert commit(notes, intent) == made
        assert notes.last_intent() == 12
        assert intents(git, folder) == Counter(range(1, 13))
        assert 0 < done_already < 10, "some were killed after the branch had moved, some before"
    assert not (folder / "refs" / "heads" / "main.lock").exists()
    assert git(folder, "fsck", "--strict", "--full", "--no-dangling", errors=True).strip() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing kills like SIGKILL there")
def test_the_branch_lock_of_a_killed_committer_is_taken_back_at_once(folder: Path, git: Git) -> None:
    lock = folder / "refs" / "heads" / "main.lock"
    with NoteRepository.open(folder, lock_wait_s=0.0) as notes:
        commit(notes, 1)
        # A dead committer is one that linked its lock and went no further.
        os.link(_written(folder / "refs/heads/perpetual-main-next.lock"), lock)
        made = commit(notes, 2)
        assert intents(git, folder) == Counter([1, 2])
        os.link(_written(folder / "refs/heads/perpetual-main-next.lock"), lock)
    with NoteRepository.open(folder):
        assert not lock.exists(), "opening clears it too, so that a person's push is not in its way"
    assert git(folder, "rev-parse", "main").strip() == made


def _written(path: Path) -> Path:
    path.write_bytes(b"0" * 40 + b"\n")
    return path


LAB_WRITER = """
import sys
from perpetual import Lab
who, count = int(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
with Lab.open() as lab:
    for number in range(count):
        lab.memory.write(f"w{who}/{number}", f"note {number} of {who}")
        if number % 5 == 0:
            lab.memory.history(f"w{who}/{number}")
            lab.scan()
"""


@pytest.mark.slow
def test_eight_labs_that_write_and_a_person_who_pushes_lose_nothing(project: Path, git: Git, tmp_path: Path) -> None:
    memory, work = project / ".perpetual" / "memory.git", tmp_path / "work"
    with Lab.open(project) as lab:
        lab.memory.write("notes/first", "the first")
    git(tmp_path, "clone", "-q", str(memory), str(work))
    writers = [start(LAB_WRITER, who, 25) for who in range(8)]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        turn = 0
        while any(writer.poll() is None for writer in writers):
            turn += 1
            (work / f"hand{turn}.md").write_text(f"by hand {turn}")
            git(work, "add", "-A")
            git(work, "commit", "-q", "-m", "by hand")
            git(work, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
            git(work, "push", "-q", "origin", "HEAD:main", check=False)  # a writer may have been quicker
        assert [writer.wait(timeout=300) for writer in writers] == [0] * 8
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    git(work, "pull", "-q", "--no-rebase", "--no-edit", "origin", "main")
    git(work, "push", "-q", "origin", "HEAD:main")
    with Lab.open(project) as lab:
        lab.scan()
        paths = {note.path for note in lab.memory.list(limit=1000).items}
        assert len(paths) == 201 + len([*work.glob("hand*.md")])
    with NoteRepository.open(memory) as notes:
        listed = {path for path, _ in notes.listing()}
        assert listed == paths
        assert len([path for path in listed if path.startswith("w")]) == 200
        for path in sorted(listed)[::17]:
            assert notes.history(path, 99) == notes.walked_history(path, 99)
    assert git(memory, "fsck", "--strict", "--full", "--no-dangling", errors=True).strip() == ""
    assert len(set(intents(git, memory))) == intents(git, memory).total(), "no intent twice"
