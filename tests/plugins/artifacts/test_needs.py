"""Runs that start from artifacts of other experiments' runs."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import NotFound, UsageError
from perpetual.lab.ledger.experiments import design_key
from perpetual.slots.scheduler import LaunchError
from perpetual_artifacts.retention import collect
from tests.support import LONG_S

LEAVES = """sh -c 'mkdir -p $PERPETUAL_ARTIFACTS/best; echo $PERPETUAL_SEED > $PERPETUAL_ARTIFACTS/best/model.pt'"""
READS = """sh -c 'cat $PERPETUAL_NEEDS/e1/best/model.pt; env | grep -c PERPETUAL_NEEDS='"""
MODEL = "e1/best/model.pt"


@pytest.fixture
def lab(project: Path) -> Lab:
    """A project's lab whose queue has room for many."""
    lab = Lab.open(project)
    lab.config.methodology.set("max_concurrent_runs", "20")
    return lab


def proposed(lab: Lab, command: str, count: int = 1, needs: tuple[str, ...] = ()) -> str:
    """Returns the id of an approved experiment."""
    id = lab.experiments.propose(command=command, replicates=count, wall_s=LONG_S, needs_artifacts=needs).id
    lab.experiments.approve(id)
    return id


def launched(lab: Lab, id: str) -> list[str]:
    """Starts all of an experiment's runs, or queues them."""
    return [each.id for each in lab.runs.launch(id, every=True)]


def made(lab: Lab, count: int = 1, command: str = LEAVES) -> list[str]:
    """Runs the experiment e1 to its end; returns its runs."""
    runs = launched(lab, proposed(lab, command, count))
    lab.wait(runs, timeout_s=LONG_S)
    return runs


def model(lab: Lab, run_id: str) -> Path:
    """Returns the file that a run has left."""
    return lab.runs.log_dir(run_id) / "artifacts" / "best" / "model.pt"


@pytest.mark.parametrize(
    "name",
    ["e1", "e1/", "/model.pt", "e1//model.pt", "e1/../e2/x", "e1/./x", "e1/a/..", "../x", "/etc/passwd", "e1/a\nb",
     "e1/a\x1b[31m", "e1/" + "x" * 1000, ""],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused(lab: Lab, name: str) -> None:
    proposed(lab, "true")
    with pytest.raises(UsageError, match=r"named as e3/model\.pt"):
        lab.experiments.propose(command="true", needs_artifacts=[name])


def test_it_must_exist_and_make_no_circle_and_is_bound_by_the_approval(lab: Lab) -> None:
    with pytest.raises(NotFound):
        lab.experiments.propose(command="true", needs_artifacts=["e9/model.pt"])
    first = proposed(lab, "true")
    plain, needing, other = (
        lab.experiments.propose(command="sleep 1", needs_artifacts=needs)
        for needs in ((), (f"{first}/a", f"{first}/a"), (f"{first}/b",))
    )
    assert needing.resources.needs_artifacts == (f"{first}/a",)
    assert len({each.spec_hash for each in (plain, needing, other)}) == 3
    designs = lab.context.need("experiment", needing.id).body, lab.context.need("experiment", plain.id).body
    assert len({design_key(body) for body in designs}) == 2, "other files, another implementation"
    with pytest.raises(UsageError, match="wait for one another"):
        lab.queue.after(first, [needing.id])
    with pytest.raises(UsageError, match="wait for one another"):
        lab.experiments.edit(plain.id, needs_artifacts=[f"{plain.id}/a"])
    lab.experiments.approve(needing.id)
    edited = lab.experiments.edit(needing.id, needs_artifacts=[f"{first}/c"])
    assert (edited.status, edited.resources.needs_artifacts) == ("proposed", (f"{first}/c",))
    assert lab.experiments.edit(needing.id, title="else").resources.needs_artifacts == (f"{first}/c",)


def test_each_replicate_starts_from_that_of_its_number(
    lab: Lab, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = launched(
        lab, proposed(lab, LEAVES.replace("sh -c '", "sh -c 'while ! test -e go; do sleep 0.02; done; "), 2)
    )
    second = launched(lab, proposed(lab, READS, 2, (MODEL,)))
    assert lab.runs.get(second[0]).reason == "it comes after e1, which is active"
    (project / "go").touch()
    assert set(lab.wait([*first, *second], timeout_s=LONG_S).values()) == {"done"}
    for source, reader in zip(first, second, strict=True):
        text = f"{lab.runs.get(source).seed}\n"
        assert (lab.runs.log_dir(reader) / "stdout.log").read_text("utf-8") == text + "1\n"
        digest = hashlib.sha256(text.encode()).hexdigest()
        need = {"artifact": MODEL, "run_id": source, "size_bytes": len(text), "sha256": digest}
        assert lab.runs.get(reader).needs == (need,)
        assert lab.runs.provenance(reader)["needs"] == [need]
    assert run(["runs", second[0]]) == 0
    assert f"started from {MODEL} of {first[0]}" in capsys.readouterr().out
    assert not (lab.runs.log_dir(first[0]) / "needs").exists()


@pytest.mark.slow
def test_the_only_one_serves_all_and_none_is_said(lab: Lab) -> None:
    (source,) = made(lab)
    second = launched(lab, proposed(lab, READS, 2, (MODEL,)))
    assert set(lab.wait(second, timeout_s=LONG_S).values()) == {"done"}
    assert {lab.runs.get(each).needs[0]["run_id"] for each in second} == {source}
    (waiting,) = launched(lab, proposed(lab, "true", 1, ("e1/other.pt",)))
    reason = str(lab.runs.get(waiting).reason)
    assert "needs e1/other.pt, which no run of e1 that is done has left" in reason
    assert "perpetual kill e3" in reason
    assert lab.runs.get(waiting).status == "queued"


@pytest.mark.slow
def test_it_comes_after_the_other_as_said(lab: Lab) -> None:
    failing = LEAVES.replace("sh -c '", "sh -c 'test $PERPETUAL_RUN != r1 || exit 1; ")
    runs = made(lab, 3, failing)
    id = proposed(lab, READS, 3, (MODEL,))
    waiting = launched(lab, id)
    assert f"perpetual queue after {id} e1:any" in str(lab.runs.get(waiting[0]).reason)
    lab.queue.after(id, ["e1:any"])
    assert set(lab.wait(waiting[1:], timeout_s=LONG_S).values()) == {"done"}
    assert "has left for it" in str(lab.runs.get(waiting[0]).reason), "two others are there, and none is its own"
    again = lab.runs.retry(runs[0]).id
    lab.wait([again], timeout_s=LONG_S)
    assert lab.runs.get(again).status == "failed" or lab.wait([waiting[0]], timeout_s=LONG_S)
    rejected = lab.experiments.propose(command="true").id
    other = proposed(lab, "true", 1, (f"{rejected}/x",))
    lab.experiments.reject(rejected, why="no")
    (last,) = launched(lab, other)
    assert f"which is rejected (perpetual kill {other}" in str(lab.runs.get(last).reason)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", ["changed", "removed", "link", "linked folder"])
def test_a_file_that_is_not_what_was_left_starts_nothing(lab: Lab, spoil: str, tmp_path: Path) -> None:
    path = model(lab, made(lab)[0])
    content = path.read_bytes()
    if spoil == "changed":
        path.write_bytes(content + b"!")
    elif spoil == "removed":
        path.unlink()
    else:  # to the same bytes: what matters is where they lie
        target = path if spoil == "link" else path.parent
        target.rename(tmp_path / "elsewhere")
        target.symlink_to(tmp_path / "elsewhere")
    id = proposed(lab, READS, 1, (MODEL,))
    with pytest.raises(LaunchError, match=r"e1/best/model\.pt") as caught:
        lab.runs.launch(id)
    assert "put it back as it was and retry this run" in caught.value.message
    (failed,) = lab.runs.list().items[:1]
    assert (failed.status, failed.run_hours) == ("failed", 0.0)
    if spoil == "changed":
        path.write_bytes(content)
        again = lab.runs.retry(failed.id)
        assert lab.wait([again.id], timeout_s=LONG_S) == {again.id: "done"}


@pytest.mark.slow
def test_what_is_no_file_of_the_run_is_not_taken(lab: Lab) -> None:
    made(lab, 1, "sh -c 'mkdir $PERPETUAL_ARTIFACTS/best; ln -s /etc/passwd $PERPETUAL_ARTIFACTS/best/model.pt'")
    (waiting,) = launched(lab, proposed(lab, READS, 1, (MODEL,)))
    assert "has left for it" in str(lab.runs.get(waiting).reason)


@pytest.mark.slow
def test_a_change_through_the_link_is_noted(lab: Lab) -> None:
    made(lab)
    (writer,) = launched(lab, proposed(lab, f"sh -c 'sleep 0.1; echo >> $PERPETUAL_NEEDS/{MODEL}'", 1, (MODEL,)))
    lab.wait([writer], timeout_s=LONG_S)
    notes = [each["text"] for each in lab.runs.get(writer).annotations]
    assert f"{MODEL}, which it needed, was changed while it ran" in notes


def test_gc_keeps_what_an_open_experiment_needs(lab: Lab) -> None:
    (source,) = made(lab)
    lab.settings.set_config("plugins.artifacts.artifact_days", "1")
    later = datetime.now().astimezone() + timedelta(days=3)
    assert len(collect(lab, dry_run=True, now=later)["removed"]) == 1
    other = lab.experiments.propose(command="true", needs_artifacts=[MODEL])
    kept = collect(lab, now=later)
    assert (kept["removed"], kept["kept"]) == ([], {"an experiment that is not over needs them": 1})
    lab.experiments.reject(other.id, why="no")
    assert [item["run_id"] for item in collect(lab, now=later)["removed"]] == [source]


def test_the_command_line_takes_and_shows_it(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.queue.set_group("big", 1)
    assert run(["propose", "--command", "true"]) == 0
    assert run(["propose", "--command", "true", "--needs-artifact", "e1/../x"]) == 2
    command = ["propose", "--command", "sleep 1", "--needs-artifact", MODEL, "--after", "e1:any", "--group", "big"]
    assert run([*command, "--priority", "5"]) == 0
    assert run(["propose", "--auto", "1", "--needs-artifact", MODEL]) == 2
    assert "takes no --needs-artifact" in capsys.readouterr().err
    assert run(["experiments", "e2"]) == 0
    shown = capsys.readouterr().out
    assert f"and the artifacts {MODEL}" in shown
    assert "queue: comes after e1:any; group big; priority 5" in shown
    assert run(["experiments", "e2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["after"], found["group"], found["priority"]) == (["e1:any"], "big", 5)
    assert found["resources"]["needs_artifacts"] == [MODEL]
    assert run(["approve", "e2"]) == 0
    assert MODEL in capsys.readouterr().out, "what is approved is shown"
