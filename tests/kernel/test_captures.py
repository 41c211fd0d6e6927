"""What captures say of runs: kept before the start, judged after the end; a capture that fails stops nothing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from perpetual import Lab, __version__
from perpetual.api import Capture, CodeReader, CodeState, Provider, RunChanges, RunEnd, RunFacts, RunStart, hookimpl
from perpetual.cli.app import run as command_line
from perpetual.errors import CorruptData, NotFound, NotPermitted, PluginError
from perpetual.lab.kinds import RUN
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance import captures
from perpetual.records import Experiment, Hypothesis
from perpetual.registry import Registry
from perpetual.toolkit import platform
from perpetual_provenance.code_version import Reader

Campaign = Callable[..., tuple[Hypothesis, Experiment]]


def git(folder: Path, *words: str, data: bytes = b"") -> bytes:
    """A git command of a user's; its output."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *words], input=data, capture_output=True, check=False)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def _one(lab: Lab, experiment: Experiment) -> str:
    run = lab.runs.launch(experiment.id)[0]
    lab.wait([run.id], timeout_s=30)
    return run.id


def test_a_run_keeps_what_it_was_started_from(lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setenv("HF_TOKEN", "hunter2")
    monkeypatch.setenv("UNRELATED", "hunter3")
    monkeypatch.setenv("TORCH_PROXY", "http://me:hunter4@host/")
    git(lab.root, "init", "-q")
    (lab.root / "train.py").write_text("print('acc: 1.5')\n")
    git(lab.root, "add", "train.py")
    git(lab.root, "commit", "-qm", "first")
    (lab.root / "train.py").write_text("print('acc: 1.6')\n")
    (lab.root / "model.py").write_text("x = 1\n")
    monkeypatch.setenv("SLURM_JWT", "hunter5")
    monkeypatch.setenv("NCCL_AUTH_VALUE", "hunter6")
    monkeypatch.setenv("CUDA_HIDDEN", "ghp_" + "a1B2" * 9)
    _, experiment = campaign(f"{sys.executable} train.py --lr 0.1", env={"MY_LR": "0.1"})
    id = _one(lab, experiment)
    kept: dict[str, Any] = {**lab.runs.provenance(id)}
    run = lab.runs.get(id)
    assert run.tainted is False
    folder = lab.root / run.log_dir
    assert {name: kept[name] for name in ("schema", "run", "experiment", "spec_hash", "seed", "gpus", "perpetual")} == {
        "schema": "perpetual.provenance/1", "run": "r1", "experiment": "e1", "spec_hash": experiment.spec_hash,
        "seed": run.seed, "gpus": [], "perpetual": __version__,
    }  # fmt: skip
    assert kept["argv"] == [sys.executable, "train.py", "--lr", "0.1"]
    assert (kept["cwd"], kept["intact"], kept["problems"]) == (str(lab.root), True, [])
    environment = kept["environment"]
    assert (environment["OMP_NUM_THREADS"], environment["MY_LR"], environment["PERPETUAL_RUN"]) == ("4", "0.1", "r1")
    assert (environment["UNRELATED"], environment["HF_TOKEN"]) == (None, "<redacted>")
    assert {environment[name] for name in ("SLURM_JWT", "NCCL_AUTH_VALUE", "CUDA_HIDDEN")} == {"<redacted>"}
    assert "hunter" not in (folder / "provenance.json").read_text()
    assert kept["git"]["commit"] == run.git.commit == git(lab.root, "rev-parse", "HEAD").decode().strip()
    assert (kept["git"]["dirty"], run.git.dirty) == (True, True)
    assert "+print('acc: 1.6')" in (folder / "code.patch").read_text()
    assert [entry["path"] for entry in kept["git"]["untracked"]] == ["model.py"]  # and nothing of .perpetual
    assert kept["interpreter"]["packages"]["click"]
    assert kept["machine"]["cpus"] >= 1
    assert kept["machine"]["memory_bytes"] > 2**20
    assert kept["captured_at"] <= (run.started_at or "")
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_command_line_shows_it(
    lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git(lab.root, "init", "-q")
    (lab.root / "train.py").write_text("print('acc: 1.5')\n")
    git(lab.root, "add", "train.py")
    git(lab.root, "commit", "-qm", "first")
    with open(os.fsencode(lab.root) + b"/odd\xff\x1b[31m.py", "wb") as file:
        file.write(b"1")
    id = _one(lab, campaign(f"{sys.executable} train.py")[1])
    assert command_line(["runs", id]) == 0
    shown = capsys.readouterr().out
    commit = lab.runs.get(id).git.commit
    assert f"code: {commit}, clean, and 1 untracked file\n" in shown
    assert " packages\n" in shown
    assert command_line(["runs", id, "--provenance"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "untracked: 1 file, 1 of them kept" in shown
    assert f"versions: code {lab.runs.get(id).versions['code']['tree'][:7]}, data unknown, environment " in shown
    assert command_line(["runs", id, "--provenance", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["schema"], document["run"]) == ("perpetual.provenance/1", id)
    assert document["git"]["untracked"][0]["path"] == "odd\\xff\x1b[31m.py"
    shape = json.loads((files("perpetual_cli") / "schemas" / "provenance.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(shape).validate(document)
    for words in (["runs", "--provenance"], ["runs", id, "--provenance", "--status", "done"]):
        assert command_line(words) == 2


def test_a_run_without_any_says_why(lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    lab.queue.set_state("paused")
    id = lab.runs.launch(campaign()[1].id)[0].id
    with pytest.raises(NotFound, match="not started yet"):
        lab.runs.provenance(id)
    assert command_line(["runs", id, "--provenance"]) == 5
    assert command_line(["runs", id]) == 0
    lab.queue.set_state("running")
    lab.wait([id], timeout_s=30)
    path = lab.root / lab.runs.get(id).log_dir / "provenance.json"
    path.write_text(path.read_text() + " ")
    assert lab.runs.provenance(id)["intact"] is False
    for spoilt in ("{", f'{{"git": {{}}, "a": {"[" * 900}{"]" * 900}}}'):  # as a run may write it
        path.write_text(spoilt)
        with pytest.raises(CorruptData, match=r"provenance\.json"):
            lab.runs.provenance(id)
    assert command_line(["runs", id]) == 0
    path.unlink()
    with pytest.raises(NotFound, match="removed"):
        lab.runs.provenance(id)
    capsys.readouterr()


def test_no_launch_fails_for_want_of_it(
    lab: Lab, campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (lab.root / ".git").mkdir()  # else there is nothing to ask it
    id = _one(lab, campaign()[1])
    run = lab.runs.get(id)
    assert (run.status, run.git.commit, run.git.dirty) == ("done", None, None)
    assert lab.runs.provenance(id)["problems"] == ["git rev-parse ended with status 3"]


@pytest.mark.parametrize("ends", ["before it is looked at", "after"])
def test_a_launcher_that_died_after_the_start(lab: Lab, campaign: Campaign, ends: str) -> None:
    """What it kept is found beside the run and noted, and a change to what is protected is seen all the same."""
    git(lab.root, "init", "-q")
    (lab.root / "eval.py").write_text("1")
    git(lab.root, "add", "eval.py")
    git(lab.root, "commit", "-qm", "first")
    lab.settings.set_methodology("protected_paths", "eval.py")
    (lab.root / "hold").write_text("")
    _, experiment = campaign("sh -c 'while test -e hold; do sleep 0.02; done; echo 2 > eval.py; echo acc=1.5'")
    run = lab.runs.launch(experiment.id)[0]
    died = subprocess.Popen([sys.executable, "-c", ""])
    identity = platform.identity_of(died.pid)
    died.wait()
    ctx = lab.context
    with ctx.store.transaction() as tx:
        lost = {"status": "launching", "launcher": [*(identity or ())] or None, "git": {"commit": None, "dirty": None},
                "native_id": None, "pid": None, "started_at": None, "provenance_sha256": None}  # fmt: skip
        RunRecords(lab.context).change(tx, ctx.need(RUN, run.id), lost)
    if ends == "after":
        lab.scan()
        assert lab.runs.get(run.id).status == "running"
    (lab.root / "hold").unlink()
    lab.wait([run.id], timeout_s=30)
    found = lab.runs.get(run.id)
    assert (found.status, found.tainted, found.git) == ("done", True, run.git)
    assert lab.runs.provenance(run.id)["intact"] is True
    assert "eval.py was changed" in found.annotations[-1]["text"]


# --- captures of other plugins --------------------------------------------------------------------------------------


class Dvc(Capture):
    """An outsider's capture: a fact, a version and a note."""

    def before(self, start: RunStart) -> RunFacts:
        (start.folder / "dvc.lock").write_text("x")
        return RunFacts({"dvc": {"md5": "abc"}, "git": {"commit": "mine"}}, {"data": "dvc:abc", "environment": "mine"})

    def after(self, end: RunEnd) -> RunChanges:
        return RunChanges(("the data set was changed",) if end.facts["dvc"]["md5"] != "abc" else (), ("looked",))


class Raises(Dvc):
    """It raises at every call, with a secret in its words."""

    def before(self, start: RunStart) -> RunFacts:
        raise ValueError(f"GITHUB_TOKEN=ghp_{'x7Kq2mZ9' * 4}aB3d")

    def after(self, end: RunEnd) -> RunChanges:
        raise ValueError("no")


class Leaves(Dvc):
    """It ends the process."""

    def before(self, start: RunStart) -> RunFacts:
        sys.exit(3)

    def after(self, end: RunEnd) -> RunChanges:
        sys.exit(3)


class Hangs(Dvc):
    """It answers after the time is up."""

    def before(self, start: RunStart) -> RunFacts:
        time.sleep(30)
        return super().before(start)

    def after(self, end: RunEnd) -> RunChanges:
        time.sleep(30)
        return super().after(end)


class Wrong(Dvc):
    """It answers what is no answer."""

    def before(self, start: RunStart) -> Any:
        return {"dvc": 1}

    def after(self, end: RunEnd) -> Any:
        return None


class Endless(Dvc):
    """Its facts are no JSON; its taints are no sentences."""

    def before(self, start: RunStart) -> RunFacts:
        return RunFacts({"dvc": float("nan")})

    def after(self, end: RunEnd) -> Any:
        return RunChanges((1,))  # type: ignore[arg-type]


class Unequal(Dvc):
    """Its versions cannot be compared."""

    def before(self, start: RunStart) -> RunFacts:
        return RunFacts({}, {"code": "abc"})

    def after(self, end: RunEnd) -> RunChanges:
        end.facts["protected"]["files"].clear()
        raise OSError("after it has changed what it was given")


def _registry(*parts: type[Capture], disabled: Sequence[str] = ()) -> Registry:
    plugin = ModuleType("outside")
    offers = [Provider("capture", part.__name__.lower(), f"captures_of_this_test:{part.__name__}") for part in parts]
    plugin.perpetual_captures = hookimpl(lambda: offers)  # type: ignore[attr-defined]
    home = ModuleType("captures_of_this_test")
    for part in parts:
        setattr(home, part.__name__, _factory(part))
    sys.modules[home.__name__] = home
    return Registry(disabled, extra=[("acme", "outside", "1", lambda: plugin)] if parts else [])


def _factory(part: type[Capture]) -> Callable[[object], Capture]:
    return lambda options: part()


WITHOUT = ("provenance",)


def _ran(lab: Lab, id: str) -> Any:
    run = lab.runs.launch(id)[0]
    lab.wait([run.id], timeout_s=30)
    return lab.runs.get(run.id)


def _notes(run: Any, kind: str) -> list[str]:
    return [item["text"] for item in run.annotations if item["kind"] == kind]


def test_a_further_capture_adds_its_facts(lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = campaign(f"{sys.executable} -Sc 'print(1)'")[1]  # a Python, whose packages are known
    with Lab.open(lab.root, registry=_registry(Dvc)) as other:
        run = _ran(other, experiment.id)
    kept: dict[str, Any] = {**lab.runs.provenance(run.id)}
    assert (kept["dvc"], kept["git"]["commit"], run.tainted) == ({"md5": "abc"}, None, False)
    assert kept["problems"][-1] == "the capture acme/dvc answered git, which is answered already"
    assert (run.versions["data"], run.versions["environment"] == "mine") == ("dvc:abc", False)
    assert (lab.root / run.log_dir / "dvc.lock").exists()
    assert _notes(run, "capture")[-1] == "looked"
    assert command_line(["runs", run.id, "--provenance"]) == 0
    assert '  dvc: {"md5": "abc"}\n' in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "why"),
    [(Raises, "ValueError"), (Leaves, "PartEnded: SystemExit: 3"), (Hangs, "OutOfTime: stopped after 1 s"),
     (Wrong, "TypeError: it answered dict instead of RunFacts"), (Endless, "ValueError: Out of range"),
     (Unequal, "TypeError: its version of code")],
)  # fmt: skip
def test_a_capture_that_fails_is_noted_and_stops_nothing(
    lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch, part: type[Capture], why: str
) -> None:
    monkeypatch.setattr(captures, "LIMIT_S", 1.0)
    (lab.root / "eval.py").write_text("1")
    lab.settings.set_methodology("protected_paths", "eval.py")
    experiment = campaign()[1]
    with Lab.open(lab.root, registry=_registry(part)) as other:
        run = _ran(other, experiment.id)
    assert (run.status, run.tainted) == ("done", False)
    before, after = _notes(run, "capture")
    name = f"the capture acme/{part.__name__.lower()} failed: "
    assert before.startswith(name + why)
    assert after.startswith(name)
    kept = lab.runs.provenance(run.id)
    assert kept["problems"][1:] == [before], "beside what the bundled capture could not have"
    assert "dvc" not in kept
    assert kept["interpreter"] is not None
    assert "ghp_" not in json.dumps(kept)


def test_a_taint_of_a_further_capture_counts(lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dvc, "after", lambda self, end: RunChanges(("the data set \udcff was changed",)))
    experiment = campaign()[1]
    with Lab.open(lab.root, registry=_registry(Dvc)) as other:
        run = _ran(other, experiment.id)
    assert run.tainted
    assert _notes(run, "tainted") == ["the data set \\udcff was changed"]


def test_facts_are_null_without_the_bundled_capture(
    lab: Lab, campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    git(lab.root, "init", "-q")
    experiment = lab.experiments.get(campaign(approve=False)[1].id)
    lab.settings.set_config("plugins.disabled", "provenance")
    with Lab.open(lab.root) as other:
        other.experiments.approve(experiment.id)
        run = _ran(other, experiment.id)
        other.settings.set_methodology("protected_paths", "eval.py")
        weightless = _ran(other, experiment.id)
    assert (run.status, run.tainted, run.git.commit, run.git.dirty) == ("done", False, None, None)
    assert run.versions == {"code": None, "data": None, "environment": None}
    assert command_line(["runs", run.id, "--provenance", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    shape = json.loads((files("perpetual_cli") / "schemas" / "provenance.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(shape).validate(document)
    assert [document[name] for name in ("git", "environment", "interpreter", "machine")] == [None] * 4
    assert document["protected"] == {"patterns": [], "sha256": None, "files": None, "unmatched": None, "problems": []}
    assert (document["intact"], document["problems"]) == (True, [])
    for words in (["runs", run.id], ["runs", run.id, "--provenance"]):
        assert command_line(words) == 0
    assert "code: unknown: no capture looked at it\n" in capsys.readouterr().out
    assert command_line(["runs", weightless.id, "--provenance"]) == 0
    assert "  protected: eval.py, unknown: no capture looked at it\n" in capsys.readouterr().out


# --- what fails closed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before the start", "after the end", "it fails after the end"])
def test_protected_paths_that_no_capture_compared_are_a_taint(
    lab: Lab, campaign: Campaign, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    (lab.root / "eval.py").write_text("1")
    lab.settings.set_methodology("protected_paths", "eval.py")
    experiment = campaign()[1]
    if when == "before the start":
        lab.settings.set_methodology("code_changes", "allow")
    registry = _registry(disabled=WITHOUT) if when == "before the start" else None
    with Lab.open(lab.root, registry=registry) as first:
        id = first.runs.launch(experiment.id)[0].id
    if when == "it fails after the end":
        monkeypatch.setattr("perpetual_provenance.capture.unlike", _raise)
    with Lab.open(lab.root, registry=_registry(disabled=WITHOUT) if when == "after the end" else None) as second:
        second.wait([id], timeout_s=30)
        run = second.runs.get(id)
    assert (run.status, run.tainted) == ("done", True)
    (taint,) = _notes(run, "tainted")
    assert taint.startswith("no capture " + ("looked at" if when == "before the start" else "compared"))
    assert ("ValueError: broken" in taint) == (when == "it fails after the end")


def _raise(*arguments: object, **options: object) -> None:
    raise ValueError("broken")


@pytest.fixture
def bound(lab: Lab, campaign: Campaign) -> str:
    """An experiment whose approval is bound to its program."""
    (lab.root / "job.sh").write_text("echo acc=1.5\n")
    return campaign("sh job.sh")[1].id


@pytest.mark.parametrize("rule", [None, "ask", "warn"])
def test_an_approval_that_is_bound_to_code_is_refused_where_none_reads_it(
    lab: Lab, bound: str, rule: str | None
) -> None:
    if rule is not None:
        lab.settings.set_methodology("code_changes", rule)
    for actor in ("user:me", "mcp:c/1"):
        with Lab.open(lab.root, registry=_registry(disabled=WITHOUT), actor=actor) as other:
            for attempt in (other.runs.launch, other.runs.plan):
                with pytest.raises(NotPermitted, match="no capture reads code of the kind files") as caught:
                    attempt(bound)
                assert (caught.value.code, caught.value.exit) == ("code_unknown", 4)
            assert other.loop.launch().held == (bound,)
    assert lab.runs.list().items == ()
    assert lab.runs.plan(bound)["code_changed"] is None


def test_the_ways_out_of_code_that_none_reads(lab: Lab, bound: str) -> None:
    """The methodology compares nothing, or a person approves the experiment without its code."""
    with Lab.open(lab.root, registry=_registry(disabled=WITHOUT)) as other:
        other.settings.set_methodology("code_changes", "allow")
        assert other.runs.plan(bound)["code_changed"] is None
        other.settings.set_methodology("code_changes", "ask")
        other.experiments.approve(bound)
        assert _ran(other, bound).status == "done"
    (event,) = [event for event in lab.events() if event.kind == "code_approved"]
    assert event.payload == {"code": None}


@pytest.mark.parametrize("broken", ["read", "same"])
def test_a_reader_that_fails_refuses(
    lab: Lab, campaign: Campaign, bound: str, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setattr(f"perpetual_provenance.code_version.Reader.{broken}", _raise)
    with pytest.raises(NotPermitted, match="perpetual-lab/provenance failed: ValueError: broken") as caught:
        lab.runs.launch(bound)
    assert caught.value.code == "code_unknown"
    if broken == "read":
        proposed = campaign("sh job.sh", approve=False)[1].id
        with pytest.raises(PluginError, match="the code cannot be read: the capture perpetual-lab/provenance failed"):
            lab.experiments.approve(proposed)
        assert lab.experiments.get(proposed).status == "proposed"
    else:
        assert lab.experiments.differences(bound) is None


def test_a_queued_run_waits_while_none_reads_its_code(lab: Lab, bound: str) -> None:
    lab.queue.set_state("paused")
    run = lab.runs.launch(bound)[0]
    lab.queue.set_state("running")
    with Lab.open(lab.root, registry=_registry(disabled=WITHOUT)) as other:
        other.scan()
        assert "which cannot be compared: the code cannot be read" in str(other.runs.get(run.id).reason)
    lab.wait([run.id], timeout_s=30)
    assert lab.runs.get(run.id).status == "done"


def test_the_code_is_read_once_for_all_runs_that_wait(lab: Lab, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.queue.set_state("paused")
    lab.runs.launch(bound, every=True)
    (lab.root / "job.sh").write_text("echo acc=2\n")
    looks: list[str] = []
    read = Reader.read

    def counted(self: Reader, argv: Sequence[str], cwd: str | None) -> CodeState:
        looks.append(argv[-1])
        return read(self, argv, cwd)

    monkeypatch.setattr(Reader, "read", counted)
    lab.queue.set_state("running")
    lab.scan()
    assert [bool(run.reason) for run in lab.runs.list().items] == [True, True]
    assert looks == ["job.sh"]


class Keeper(Capture):
    """Reads code in a way of its own."""

    def before(self, start: RunStart) -> RunFacts:
        return RunFacts()

    def code_reader(self, root: Path, ignored: Sequence[str]) -> CodeReader | None:
        raise RuntimeError("no reader today")


def test_a_further_reader_that_fails_is_not_needed(lab: Lab, bound: str) -> None:
    with Lab.open(lab.root, registry=_registry(Keeper)) as other:
        assert _ran(other, bound).status == "done"
