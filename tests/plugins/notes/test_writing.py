"""Notes that the record itself has to tell: crashes merged and counted, verdicts, recipes; each written once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_notes import failures, notes
from perpetual_notes.front import front_of
from perpetual_notes.plugin import perpetual_analysed
from perpetual_notes.signature import masked, program_of
from perpetual_notes.words import current

_CRASH = "import sys, time; raise ValueError(f'bad row {sys.argv[1]} of /data/{sys.argv[1]}/x at {hex(id(sys))}')"
_TRIAL = """import os, random, sys
random.seed(int(os.environ["PERPETUAL_SEED"]))
print(f"acc={0.5 + 0.3 * ('--warm' in sys.argv) + random.gauss(0, 0.01):.5f}")
"""
_SCAN = "from perpetual import Lab\nwith Lab.open('.') as lab:\n    lab.scan()\n"
_KILLED = """import os, signal
from perpetual_notes import failures
failures.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
"""


def _crash(lab: Lab, *rows: int, scan: bool = True) -> list[str]:
    """Runs the crashing program once for each row; the ends are not in the record yet where `scan` is not set."""
    Path(lab.root, "crash.py").write_text(_CRASH)
    runs = []
    for row in rows:
        experiment = lab.experiments.propose(command=f"{sys.executable} crash.py {row}")
        lab.experiments.approve(experiment.id)
        runs += [run.id for run in lab.runs.launch(experiment.id)]
    if scan:
        lab.wait(runs, timeout_s=60)
    return runs


def _fields(lab: Lab, path: str) -> dict[str, object]:
    front = front_of(lab.memory.read(path))
    assert front is not None
    return front.fields


def _no_note_failed(lab: Lab) -> bool:
    return not [event for event in lab.events() if event.kind == "note_failed"]


def test_crashes_of_one_signature_are_one_note(project: Path) -> None:
    with Lab.open(project) as lab:
        runs = _crash(lab, 3, 44)
        runs += _crash(lab, 555)
        (note,) = lab.memory.list().items
        assert note.type == "failure_pattern"
        assert note.path.startswith("failures/crash-py-valueerror-")
        assert note.title == "crash.py: ValueError: bad row <n> of <path> at <hex>"
        text = lab.memory.read(note.path)
        assert (_fields(lab, note.path)["count"], _fields(lab, note.path)["type"]) == (3, "failure_pattern")
        assert all(run in text for run in runs)
        assert "`ValueError: bad row <n> of <path> at <hex>`" in text
        # One version for each scan that found more: of the first two runs one may have ended a scan earlier.
        assert len(lab.memory.history(note.path)) in (2, 3)
        assert _no_note_failed(lab)


def test_another_fault_is_another_note(project: Path) -> None:
    with Lab.open(project) as lab:
        _crash(lab, 1)
        other = lab.experiments.propose(command="sh -c 'exit 3'")
        lab.experiments.approve(other.id)
        lab.wait([run.id for run in lab.runs.launch(other.id)], timeout_s=60)
        assert len(lab.memory.list().items) == 2


def test_what_a_person_ended_is_no_crash(project: Path) -> None:
    with Lab.open(project) as lab:
        experiment = lab.experiments.propose(command="sleep 60")
        lab.experiments.approve(experiment.id)
        (run,) = lab.runs.launch(experiment.id)
        lab.runs.kill(run.id)
        lab.wait([run.id], timeout_s=60)
        lab.scan()
        assert lab.runs.get(run.id).status == "killed"
        assert not lab.memory.list().items


def test_a_persons_words_stay(project: Path) -> None:
    with Lab.open(project) as lab:
        _crash(lab, 1)
        (note,) = lab.memory.list().items
        lab.memory.write(note.path, lab.memory.read(note.path) + "\n## Notes\n\nRow 1 is known.\n", type=note.type)
        _crash(lab, 2)
        assert lab.memory.read(note.path).endswith("## Notes\n\nRow 1 is known.\n")
        assert _fields(lab, note.path)["count"] == 2
        lab.memory.reject(note.path, "known")
        _crash(lab, 3)
        assert lab.memory.get(note.path).status == "rejected", "a rejected note is left alone"


def test_a_later_attempt_is_what_was_tried(project: Path) -> None:
    with Lab.open(project) as lab:
        experiment = lab.experiments.propose(command="sh -c 'test -e mended || { echo RuntimeError: x >&2; exit 1; }'")
        lab.experiments.approve(experiment.id)
        (run,) = lab.runs.launch(experiment.id)
        lab.wait([run.id], timeout_s=60)
        (note,) = lab.memory.list().items
        assert "Nothing yet" in lab.memory.read(note.path)
        Path(project, "mended").touch()
        again = lab.runs.retry(run.id)
        lab.wait([again.id], timeout_s=60)
        assert f"- {run.id} again as {again.id}: done" in lab.memory.read(note.path)


def _process(code: str, project: Path, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", code], cwd=project, env={**os.environ, **variables})


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        (_KILLED + _SCAN, {}),
        (_SCAN, {"PERPETUAL_DIE_AT": "note:intent"}),
        (_SCAN, {"PERPETUAL_DIE_AT": "note:committed"}),
    ],
)
def test_a_scan_that_is_cut_off_is_done_by_the_next(project: Path, code: str, variables: dict[str, str]) -> None:
    with Lab.open(project) as lab:
        runs = _crash(lab, 1, scan=False)
        lab.loop.wait_any(60)
        assert _process(code, project, **variables).wait(60) == -signal.SIGKILL
        lab.wait(runs, timeout_s=60)
        lab.scan()
        (note,) = lab.memory.list().items
        assert _fields(lab, note.path)["count"] == 1, "a run counts once"
        assert len(lab.memory.history(note.path)) == 1


@pytest.mark.slow
def test_many_processes_write_each_note_once(project: Path) -> None:
    with Lab.open(project) as lab:
        claim = lab.hypotheses.add("acc rises").id
        _crash(lab, 1, 2, 3, scan=False)
        lab.loop.wait_any(60)
        lab.hypotheses.update(claim, status="supported")
        scans = [_process(_SCAN, project) for _ in range(8)]
        assert [one.wait(120) for one in scans] == [0] * 8
        lab.wait([run.id for run in lab.runs.list().items], timeout_s=60)
        lab.scan()
        case, failure = sorted(note.path for note in lab.memory.list().items)
        assert _fields(lab, failure)["count"] == 3
        assert len(lab.memory.history(case)) == 1
        assert _no_note_failed(lab)


def test_the_note_of_a_verdict_changes_with_it(project: Path) -> None:
    with Lab.open(project) as lab:
        claim = lab.hypotheses.add("acc rises", tags=["depth"]).id
        lab.hypotheses.update(claim, status="supported")
        lab.scan()
        (note,) = lab.memory.list().items
        assert note.type == "episodic_case"
        first = _fields(lab, note.path)
        assert (first["verdict"], first["scope"]) == ("supported", {"tag": ["depth"]})
        lab.hypotheses.update(claim, status="refuted")
        lab.scan()
        assert _fields(lab, note.path)["verdict"] == "refuted"
        lab.hypotheses.update(claim, status="open")
        lab.scan()
        text = lab.memory.read(note.path)
        assert "no longer holds" in text
        assert len(lab.memory.list().items) == 1
        lab.hypotheses.update(claim, status="supported")
        lab.scan()
        assert _fields(lab, note.path)["verdict"] == "supported", "words that it had before are written again"
        assert _no_note_failed(lab)


def test_a_scan_without_news_writes_nothing(project: Path) -> None:
    with Lab.open(project) as lab:
        _crash(lab, 1)
        claim = lab.hypotheses.add("acc rises").id
        lab.hypotheses.update(claim, status="supported")
        lab.scan()
        state = lab.feed.state()
        lab.scan()
        assert lab.feed.state() == state
    with Lab.open(project) as lab:
        lab.scan()
        assert lab.feed.state() == state


def test_a_scan_reads_what_is_new_alone(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh process reads at most the last 500 events, however long the history is."""
    with Lab.open(project) as lab:
        with lab.transaction():
            for number in range(1_200):
                lab.hypotheses.add(f"claim {number}")
        lab.scan()
    read: list[int] = []
    events = Lab.events

    def counted(self: Lab, *, since: int = 0, limit: int | None = None) -> object:
        found = events(self, since=since, limit=limit)
        read.append(len(found))
        return found

    monkeypatch.setattr(Lab, "events", counted)
    with Lab.open(project) as lab:
        lab.scan()
        assert sum(read) <= 500


def test_notes_wait_until_they_are_wanted(project: Path) -> None:
    """With `memory_write_on_completion: false` nothing is written; what came meanwhile is written once it is set."""
    with Lab.open(project) as lab:
        lab.settings.set_methodology("memory_write_on_completion", "false")
        _crash(lab, 1)
        lab.scan()
        assert not lab.memory.list().items
        lab.settings.set_methodology("memory_write_on_completion", "true")
        perpetual_analysed(lab)
        assert len(lab.memory.list().items) == 1


def test_a_recipe_is_proposed_and_withdrawn(project: Path) -> None:
    with Lab.open(project) as lab:
        Path(project, "trial.py").write_text(_TRIAL)
        claim = lab.hypotheses.add("warm-up helps", metric="acc", direction="max", mde=0.1, tags=["lr"]).id
        trial = f"{sys.executable} trial.py"
        base = lab.experiments.propose(command=trial, metric="acc", direction="max", replicates=6)
        warm = lab.experiments.propose(claim, command=f"{trial} --warm", baseline=base.id,
                                       config={"lr": 0.1}, replicates=6)  # fmt: skip
        for experiment in (base, warm):
            lab.experiments.approve(experiment.id)
            lab.wait([run.id for _ in range(6) for run in lab.runs.launch(experiment.id)], timeout_s=120)
        lab.scan()
        assert lab.hypotheses.get(claim).status == "supported"
        card = lab.memory.get(f"skills/{claim}.md")
        assert (card.type, card.status) == ("skill_card", "candidate")
        fields = _fields(lab, card.path)
        assert fields["steps"] == ["command: add --warm", "config lr: unset -> 0.1"]
        assert fields["evidence"] == [claim, warm.id, base.id]
        assert "interval" in str(fields["effect"])
        with Lab.open(project, actor="agent:x") as agents:
            assert card.path not in [note.path for note in agents.memory.list().items if note.title != note.path]
        lab.hypotheses.update(claim, status="refuted")
        lab.scan()
        assert "no longer supported" in lab.memory.read(card.path)
        assert _no_note_failed(lab)


def test_a_verdict_by_hand_is_no_recipe(project: Path) -> None:
    with Lab.open(project) as lab:
        claim = lab.hypotheses.add("acc rises").id
        lab.hypotheses.update(claim, status="supported")
        lab.scan()
        assert [note.type for note in lab.memory.list().items] == ["episodic_case"]


def test_what_is_written_keeps_its_form(project: Path) -> None:
    with Lab.open(project) as lab:
        _crash(lab, 1)
        long = lab.hypotheses.add("longer " * 60, tags=[f"tag {n}" for n in range(30)]).id
        lab.hypotheses.update(long, status="supported")
        claim = lab.hypotheses.add('it\'s "x": #1 `y` --- \\x41 [a]').id
        lab.hypotheses.update(claim, status="refuted")
        lab.scan()
        found = lab.memory.list().items
        assert len(found) == 3
        assert _no_note_failed(lab)
        for note in found:
            assert [*notes.form(lab, note.type).problems(lab.memory.read(note.path))] == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ValueError: row 12 of 400", "ValueError: row <n> of <n>"),
        ("KeyError: '/tmp/a b/c.py'", "KeyError: '<path> <path>'"),
        ("at 0x7f00DEADBEEF and 1f2e3d4c5b6a", "at <hex> and <hex>"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id <hex>"),
        ("CUDA out of memory. Tried to allocate 20.00 MiB", "CUDA out of memory. Tried to allocate <n> MiB"),
        ("C:\\\\Users\\\\x\\\\t.py line 3", "<path> line <n>"),
        ("defaced facade", "defaced facade"),
    ],
)
def test_a_line_is_masked(line: str, name: str) -> None:
    assert masked(line) == name
    assert masked(masked(line)) == name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --lr 1", "train.py"), ("/usr/bin/python3.11 -u src/train.py", "train.py"),
        ("python -m pkg.train x", "pkg.train"), ("CUDA_VISIBLE_DEVICES=0 ./train", "train"),
        ("python -c 'print(1)'", "python"), ("sh -c 'exit 3'", "sh"), ("'unbalanced", "'unbalanced"), ("", "run"),
        (None, "run"),
    ],
)  # fmt: skip
def test_a_program_is_named(command: str | None, name: str) -> None:
    assert program_of(command) == name


def test_a_count_that_another_raised_is_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever process writes last writes the count as it is then."""
    with Lab.open(project) as lab, Lab.open(project) as other:
        _crash(lab, 1)
        (note,) = lab.memory.list().items
        (row,) = lab.records("notes.failure").list().items
        calls: list[str] = []

        def overtaken(lab: Lab, path: str) -> str | None:
            found = current(lab, path)
            calls.append(path)
            if len(calls) == 1:
                other.records("notes.failure").update(row.id, count=3)
                failures.write(other, row["signature"])
            return found

        lab.records("notes.failure").update(row.id, count=2)
        monkeypatch.setattr(failures, "current", overtaken)
        failures.write(lab, row["signature"])
        assert len(calls) == 3
        assert _fields(lab, note.path)["count"] == 3


def test_what_was_learned_is_offered_to_the_next_claim(project: Path) -> None:
    """Its own hypothesis is decided by then: a note in that scope alone would be offered to no one."""
    with Lab.open(project) as lab:
        lab.hypotheses.add("acc rises with depth")
        lab.hypotheses.update("h1", status="supported")
        lab.scan()
        lab.hypotheses.add("acc rises more with more depth")
        (note,) = lab.memory.list().items
        assert f"- {note.path} (candidate, unproven)" in lab.brief()
