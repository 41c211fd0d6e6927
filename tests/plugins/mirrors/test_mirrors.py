"""Runs reach their trackers once, as they are recorded, whatever happens in between; and no run notices."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run as command
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun
from perpetual.toolkit.lock import FileLock
from perpetual_metrics.event_files import scalars
from perpetual_mirrors import pushing
from perpetual_mirrors.base import Mirror, MirroredRun
from perpetual_mirrors.check import build, build_section
from perpetual_mirrors.content import mirrored
from perpetual_mirrors.for_tensorboard import TensorBoard
from perpetual_mirrors.outbox import ENDED_EARLY
from perpetual_mirrors.plugin import perpetual_scan
from perpetual_mirrors.pushing import push_all
from perpetual_mirrors.starting import push as pushed_apart
from perpetual_mirrors.targets import folder_of, note_of
from tests.support import until

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


def record(lab: Lab, *keys: str, steps: int = 5, **changes: object) -> None:
    """Records runs that have ended, of one experiment, with a curve each."""
    experiment = ImportedExperiment(
        "e", None, "warm-up", "python train.py --lr 0.1", {"net": {"width": 8}}, tags=("base",)
    )
    runs = [
        ImportedRun(
            key, "e", "done", seed=7, started_at="2026-01-01T00:00:00Z", ended_at="2026-01-01T00:01:00Z",
            duration_s=60.0, metrics={"loss": 1 / steps, "size": 12.0}, commit="c" * 40,
            series=[{"step": step, "loss": 1 / (1 + step)} for step in range(steps)], **changes,  # type: ignore[arg-type]
        )
        for key in keys
    ]  # fmt: skip
    lab.imports.take(Batch("mirrors", "adhoc", "a test", [experiment, *runs]))


class Kept(Mirror):
    """Remembers what it was pushed; `fails` says of which runs it raises."""

    def __init__(self, fails: Callable[[str], bool] = lambda id: False) -> None:
        self.fails, self.seen = fails, list[MirroredRun]()

    def push(self, run: MirroredRun) -> None:
        if self.fails(run.run):
            raise ConnectionError(f"no answer of https://user:{SECRET}@tracker\x1b[2J for {run.run}")
        self.seen.append(run)

    def keys(self) -> Sequence[str]:
        return [run.key for run in self.seen]


def names(lab: Lab, mirror: Kept, **how: bool) -> list[str]:
    """Pushes, and returns the runs that were pushed."""
    before = len(mirror.seen)
    found = push_all(lab, "kept", mirror, **how)
    assert found is not None
    assert found["pushed"] == [run.run for run in mirror.seen[before:]]
    return found["pushed"]


def test_what_is_recorded_of_a_run_arrives(lab: Lab) -> None:
    """Parameters, facts, the whole curve and the metric that has none, in a file that another reader reads."""
    record(lab, "a")
    run = mirrored(lab, "r1")
    assert run is not None
    assert (run.key, run.name, run.status) == (f"{lab.config.project_id}-r1", "r1 e1 warm-up", "done")
    assert run.parameters == {"lr": 0.1, "net.width": 8}
    assert {"seed": 7, "git_commit": "c" * 40, "duration_s": 60.0, "tainted": False}.items() <= run.facts.items()
    assert run.finals() == {"size": 12.0}
    assert [*run.curves["loss"].steps] == [0, 1, 2, 3, 4]
    found = push_all(lab, "tensorboard", TensorBoard())
    assert found is not None
    assert (found["pushed"], found["waiting"], found["error"]) == (["r1"], [], None)
    (path,) = Path(found["folder"]).glob("r1/*tfevents*")
    with path.open("rb") as file:
        values = [(point.name, point.value) for point in scalars(file)]
    assert [value for tag, value in values if tag == "loss"] == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    assert [value for tag, value in values if tag == "size"] == [12.0]


def test_nothing_is_pushed_twice_and_a_change_is_pushed_again(lab: Lab) -> None:
    record(lab, "a", "b")
    mirror = Kept()
    assert names(lab, mirror) == ["r1", "r2"]
    assert names(lab, mirror) == []
    lab.hypotheses.add("of no run")
    record(lab, "c")
    assert names(lab, mirror) == ["r3"]
    lab.experiments.edit("e1", tags=["new"])
    assert names(lab, mirror) == ["r1", "r2", "r3"]
    assert mirror.seen[-1].tags == ["new"]
    assert names(lab, mirror, rebuild=True) == ["r1", "r2", "r3"]
    (folder_of(lab) / "kept.sqlite").unlink()  # a mirror is a projection
    assert names(lab, mirror) == ["r1", "r2", "r3"]


def test_a_claim_has_its_interval_and_no_bare_word(lab: Lab) -> None:
    """Without an interval the text says what is recorded, and not that anything is better."""
    hypothesis = lab.hypotheses.add("warm-up helps", metric="loss", direction="min")
    experiment = ImportedExperiment("e", None, "warm-up", hypothesis_id=hypothesis.id)
    lab.imports.take(Batch("mirrors", "adhoc", "a test", [experiment, ImportedRun("a", "e", "done")]))
    found = mirrored(lab, "r1")
    assert found is not None
    assert found.claim is None
    lab.evidence.add(hypothesis.id, verdict="supports", why="seen elsewhere")
    found = mirrored(lab, "r1")
    assert found is not None
    assert found.claim is not None
    assert found.claim.startswith("h1 is open as of 1 row of evidence: warm-up helps")
    assert "better" not in found.claim


def test_a_failing_mirror_waits_longer_each_time_and_is_shown(lab: Lab) -> None:
    """One run that cannot be pushed holds up no other; secrets and escapes of the error are shown nowhere."""
    lab.settings.set_config("plugins.mirrors.targets", "kept")
    record(lab, "a", "b", "c")
    mirror = Kept(fails=lambda id: id == "r2")
    assert names(lab, mirror) == ["r1", "r3"]
    assert names(lab, mirror, now=False) == []  # it is not due yet
    note = note_of(folder_of(lab), "kept")
    assert (note.waiting, note.pushed) == (1, 2)
    assert 50 < (note.due_s or 0) - time.time() <= 60
    names(lab, mirror)
    later = note_of(folder_of(lab), "kept")
    assert 110 < (later.due_s or 0) - time.time() <= 120
    finding = build({}).examine(lab)
    assert finding.ok is False
    section = build_section({}).show(lab)
    assert section is not None
    for text in (finding.detail, *section.lines, json.dumps(lab.status()["sections"])):
        assert "1 run waiting" in text or text == section.lines[-1]
        assert SECRET not in text
        assert "\x1b" not in text
    mirror.fails = lambda id: False
    assert names(lab, mirror) == ["r2"]
    assert build({}).examine(lab).ok is True
    assert build_section({}).show(lab) is None
    kinds = [event.kind for event in lab.feed.read() if event.kind.startswith("mirrors.")]
    assert kinds == ["mirrors.failing", "mirrors.recovered"]


def test_a_mirror_that_no_plugin_brings_is_said_by_the_doctor(lab: Lab) -> None:
    """No scan pushes to a mirror that no plugin offers, so the doctor must not promise a push."""
    record(lab, "a")
    lab.settings.set_config("plugins.mirrors.targets", "tensorbord")
    finding = build({}).examine(lab)
    assert finding.ok is False
    assert "did you mean tensorboard" in finding.detail


def test_a_tracker_that_is_away_is_not_asked_for_each_run(lab: Lab) -> None:
    record(lab, *(f"run {n}" for n in range(6)))
    asked: list[str] = []

    def fails(id: str) -> bool:
        asked.append(id)
        return True

    mirror = Kept(fails)
    assert names(lab, mirror) == []
    assert asked == ["r1", "r2"]
    mirror.fails = lambda id: False
    assert names(lab, mirror, now=False) == ["r3", "r4", "r5", "r6"]
    assert names(lab, mirror) == ["r1", "r2"]


def test_a_library_that_ends_the_process_or_hangs_is_a_failure(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def push(run: MirroredRun) -> None:
        if run.run == "r1":
            sys.exit(3)
        time.sleep(60)

    monkeypatch.setattr(pushing, "LONGEST_S", 0.2)
    record(lab, "a", "b")
    mirror = Kept()
    monkeypatch.setattr(mirror, "push", push)
    found = push_all(lab, "kept", mirror)
    assert found is not None
    assert (found["pushed"], found["waiting"]) == ([], ["r1", "r2"])


def test_a_process_that_is_killed_repeats_the_run_it_was_at(lab: Lab) -> None:
    """Under the same key; those before it are not repeated."""
    record(lab, "a", "b", "c")

    def dies(id: str) -> bool:
        if id == "r2":
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    if (child := os.fork()) == 0:
        push_all(lab, "kept", Kept(dies))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    dry = push_all(lab, "kept", Kept(), dry_run=True)
    assert dry is not None
    assert (dry["waiting"], dry["error"]) == (["r2", "r3"], f"r2: {ENDED_EARLY}")
    assert names(lab, Kept()) == ["r2", "r3"]


def test_one_process_at_a_time_pushes_to_a_mirror(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    record(lab, "a")
    folder_of(lab).mkdir()
    monkeypatch.setattr(pushing, "_LOCK_WAIT_S", 0.01)
    with FileLock(folder_of(lab) / "kept.lock"):
        assert push_all(lab, "kept", Kept(), now=False) is None
        with pytest.raises(Exception, match="another process is pushing to kept"):
            push_all(lab, "kept", Kept())
    assert names(lab, Kept()) == ["r1"]


def test_secrets_and_escapes_do_not_leave_the_record(lab: Lab) -> None:
    experiment = ImportedExperiment("e", None, f"title {SECRET}\x1b[2J", None, {"note": f"key {SECRET}"})
    run = ImportedRun("a", "e", "failed", series=[{"epoch": 0.5, "loss": 1.0}, {"epoch": 1.5, "loss": 2.0}])
    lab.imports.take(Batch("mirrors", "adhoc", "a test", [experiment, run]))
    found = mirrored(lab, "r1")
    assert found is not None
    assert SECRET not in repr(found)
    assert "\x1b" not in "".join([found.title, *found.curves, *found.notes])
    (curve,) = found.curves.values()
    assert [*curve.steps] == [1, 2]  # steps that are no whole numbers are counted, and the notes say so
    assert "no whole numbers" in found.notes[0]


def test_a_link_in_the_place_of_its_files_is_not_followed(lab: Lab, tmp_path: Path) -> None:
    record(lab, "a")
    folder_of(lab).symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"):
        push_all(lab, "kept", Kept())
    folder_of(lab).unlink()
    folder_of(lab).mkdir()
    (tmp_path / "elsewhere").mkdir()
    (folder_of(lab) / "tensorboard").symlink_to(tmp_path / "elsewhere")
    found = push_all(lab, "tensorboard", TensorBoard())
    assert found is not None
    assert found["error"]
    assert [*(tmp_path / "elsewhere").iterdir()] == []


def test_a_scan_starts_a_process_only_for_what_waits(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    class Process:
        def __init__(self, words: Sequence[str], **_: object) -> None:
            started.append(words[-1])

        def poll(self) -> int:
            return 0

    monkeypatch.setattr("perpetual_mirrors.starting.subprocess.Popen", Process)
    record(lab, "a")
    perpetual_scan(lab)
    assert started == []  # no mirror is configured
    lab.settings.set_config("plugins.mirrors.targets", "kept,other")
    perpetual_scan(lab)
    assert started == ["kept", "other"]
    lab.settings.set_config("plugins.mirrors.targets", "kept")
    names(lab, Kept())
    lab.hypotheses.add("of no run")
    perpetual_scan(lab)
    assert started == ["kept", "other"]
    record(lab, "b")
    with FileLock(folder_of(lab) / "kept.lock"):
        perpetual_scan(lab)
    assert started == ["kept", "other"]  # that process looks itself
    perpetual_scan(lab)
    assert started == ["kept", "other", "kept"]


@pytest.mark.slow
def test_nothing_heavy_is_loaded_by_the_plugin_and_its_parts() -> None:
    program = (
        "import sys\nfrom perpetual_mirrors.plugin import perpetual_mirrors\nfrom importlib import import_module\n"
        "for offer in perpetual_mirrors():\n"
        "    module, _, name = offer.factory.partition(':')\n"
        "    getattr(import_module(module), name)({'project': None, 'uri': None})\n"
        "print({'tensorboardX', 'wandb', 'mlflow', 'trackio', 'numpy', 'click'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "set()\n"


def test_the_command_says_what_is_wrong(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["mirror"]) == 2
    assert "perpetual config set plugins.mirrors.targets tensorboard" in capsys.readouterr().err
    assert command(["mirror", "--to", "tensorbord"]) == 2
    assert "tensorboard" in capsys.readouterr().err


@pytest.mark.slow
def test_it_runs_by_itself_when_runs_end(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends with no terminal open: its supervisor's process scans, and the scan starts the one that pushes."""
    monkeypatch.setenv("PERPETUAL_QUEUE_MOVES", "true")
    monkeypatch.setenv("PERPETUAL_QUEUE_LINGER_S", "0")
    with Lab.open(project) as lab:
        lab.settings.set_config("plugins.mirrors.targets", "tensorboard")
        lab.experiments.propose(command=f"{sys.executable} -c 'print(\"loss 0.5\")'", wall_s=60)
        lab.experiments.approve("e1")
        lab.runs.launch("e1")
        until(lambda: [*folder_of(lab).glob("tensorboard/r1/*tfevents*")])
        until(lambda: note_of(folder_of(lab), "tensorboard").pushed == 1)
        (found,) = pushed_apart(lab)
        assert (found["pushed"], found["error"]) == ([], None)
