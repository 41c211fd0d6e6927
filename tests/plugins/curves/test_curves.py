"""`perpetual curves`, the tool and the section: over real runs, and over what a hostile run leaves."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from perpetual import Lab
from perpetual.api import NotFound, UsageError
from perpetual.cli.app import run
from perpetual_curves.collect import collect
from perpetual_curves.section import CurvesSection
from perpetual_curves.tool import build
from perpetual_report.document import written
from perpetual_report.verification import verify
from tests.support import LONG_S, until

TRAIN = """
import os, sys, time, random, perpetual
rate, steps, wait = float(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
noise = random.Random(int(os.environ["PERPETUAL_SEED"]))
for step in range(steps):
    acc = float("nan") if "nan" in sys.argv and step == 5 else 1 - (1 - rate) ** step + noise.gauss(0, 0.01)
    perpetual.log(step=step, acc=acc, loss=1 - acc, **({"total_steps": steps} if "total" in sys.argv else {}))
    time.sleep(wait)
time.sleep(600 if "stay" in sys.argv else 0)
"""
Json = dict[str, Any]


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    (project / "train.py").write_text(TRAIN)
    with Lab.open(project) as opened:
        yield opened
        for item in opened.runs.live():
            if item.status != "queued":
                opened.runs.kill(item.id, grace_s=0.0)


def _made(lab: Lab, arguments: str, *, replicates: int = 1, metric: str | None = "acc") -> str:
    given: dict[str, Any] = {"metric": metric, "direction": "max"} if metric else {}
    made = lab.experiments.propose(
        command=f"{sys.executable} train.py {arguments}", replicates=replicates, wall_s=600.0, **given
    )
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    return made.id


def test_a_logger_s_file_is_drawn_until_a_later_run_writes_to_it(lab: Lab, project: Path) -> None:
    (project / "log.py").write_text(
        "import os, pathlib\npathlib.Path('logs').mkdir(exist_ok=True)\n"
        "pathlib.Path('logs/t.csv').write_text('epoch,acc\\n0,0.5\\n1,0.75\\n')\n"
    )
    for _ in range(2):
        made = lab.experiments.propose(command=f"{sys.executable} log.py", metric="acc", direction="max", wall_s=600.0)
        lab.experiments.approve(made.id)
        lab.runs.launch(made.id)
        lab.wait([made.id], timeout_s=LONG_S)
        newest = lab.runs.list(experiment_id=made.id).items[0].id
        found = lab.runs.curves(newest)["acc"]
        assert (found.axis, found.steps, found.values) == ("epoch", [0, 1], [0.5, 0.75])
    assert lab.runs.curves("r1") == {}  # the file is of the second run now


def _ended(lab: Lab, arguments: str, **given: Any) -> str:
    id = _made(lab, arguments, **given)
    lab.wait([id], timeout_s=LONG_S)
    return id


@pytest.fixture
def call(lab: Lab, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def printed_by(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        assert run([*arguments]) == code, capsys.readouterr()
        out, err = capsys.readouterr()
        return out + err

    return printed_by


def test_curves_are_drawn_and_answered(lab: Lab, call: Callable[..., str]) -> None:
    _ended(lab, "0.1 30 0", replicates=2)
    _ended(lab, "0.2 30 0 nan")
    text = call("curves", "e1", "E2")
    assert "acc by step (higher is better)" in text
    assert "e1, mean of 2 runs, dotted ± 1 sd" in text
    assert "not finite, shown as gaps (r3: 1)" in text
    assert "\x1b" not in text
    found = json.loads(call("--json", "curves", "e1", "r3"))
    shape = json.loads((files("perpetual_cli") / "schemas" / "curves.json").read_text("utf-8"))
    jsonschema.validate(found, shape)
    mean, one = found["series"]
    assert (mean["run"], mean["n"], one["run"], one["n"]) == (None, [2] * 30, "r3", None)
    assert mean["steps"] == one["steps"] == [*range(30)]
    assert [n for n, value in enumerate(one["values"]) if value is None] == [5]
    logged = [lab.runs.curves(id, ["acc"])["acc"].values for id in ("r1", "r2")]
    assert mean["values"] == pytest.approx([(a + b) / 2 for a, b in zip(*logged, strict=True)])
    assert found["summaries"][1]["best"] == max(value for value in one["values"] if value is not None)
    single = json.loads(call("--json", "curves", "e1", "--runs", "--metric", "loss"))
    assert [each["run"] for each in single["series"]] == ["r1", "r2"]
    assert single["summaries"][0]["best"] is None


def test_a_screen_reader_is_read_no_picture(
    lab: Lab, call: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _ended(lab, "0.1 30 0", replicates=2)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    drawn = {"│", "┤", "└", *map(chr, range(0x2581, 0x2589)), *map(chr, range(0x2801, 0x2900))}
    assert drawn & {*call("curves", "e1")}
    assert drawn & {*call("runs")}
    assert call("--plain", "curves", "e1").startswith("acc by step (higher is better)\ne1, mean of 2 runs")
    for arguments in (("curves", "e1"), ("runs",)):
        text = call("--plain", *arguments)
        assert not {*drawn, "─", "\x1b"} & {*text}


def test_a_long_series_is_thinned_and_says_so(lab: Lab, call: Callable[..., str]) -> None:
    _ended(lab, "0.001 3000 0")
    short, full = (json.loads(call("--json", "curves", "r1", *more)) for more in ((), ("--full",)))
    assert (full["method"], full["series"][0]["shown"]) == ("all", 3000)
    assert short["series"][0]["points"] == 3000
    assert 100 < short["series"][0]["shown"] <= 402
    assert "lowest, highest" in short["method"]
    values = full["series"][0]["values"]
    assert (min(values), max(values)) == (min(short["series"][0]["values"]), max(short["series"][0]["values"]))


def test_what_cannot_be_drawn_is_refused_with_a_way_out(lab: Lab, call: Callable[..., str]) -> None:
    first = _ended(lab, "0.1 5 0")
    other = _ended(lab, "0.1 5 0", metric="loss")
    free = _ended(lab, "0.1 5 0", metric=None)
    with pytest.raises(UsageError, match="declare different metrics: acc, loss"):
        collect(lab, [first, other])
    with pytest.raises(UsageError, match="the runs log acc, loss"):
        collect(lab, [free])
    with pytest.raises(NotFound, match="did you mean acc"):
        collect(lab, [first], "ac")
    with pytest.raises(NotFound):
        collect(lab, ["r99"])
    assert "unknown metric" in call("curves", "e1", "--metric", "\x1b[31mx", code=5)
    assert collect(lab, [first, other], "acc").arms[1].run == "r2"
    call("curves", "e1", "--height", "1", code=2)
    silent = lab.experiments.propose(command="true", metric="acc", direction="max")
    with pytest.raises(NotFound, match="has no run yet"):
        collect(lab, [silent.id])


def test_a_hostile_run_hides_no_other(lab: Lab, call: Callable[..., str], tmp_path: Path) -> None:
    _ended(lab, "0.1 10 0", replicates=3)
    secret = tmp_path / "secret"
    secret.write_text('{"step": 1, "acc": 0.123456}\n' * 9)
    link, pipe = (lab.runs.log_dir(id) / "metrics.jsonl" for id in ("r1", "r2"))
    link.unlink()
    link.symlink_to(secret)
    pipe.unlink()
    os.mkfifo(pipe)
    found = collect(lab, ["e1"])
    assert [arm.run for arm in found.arms] == ["r3"]
    assert [*found.left_out] == ["r1", "r2"]
    assert any("it is a link" in note for note in found.notes)
    assert "0.123" not in call("curves", "e1")
    assert lab.progress(["r1", "r2", "r3"]) == {}
    with (lab.runs.log_dir("r3") / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 10, "evil\x1b[2J": 1.0, "acc": 1e200, "total_steps": 3}) + "\n")
    history = lab.runs.curves("r3")
    assert "evil\x1b[2J" not in history
    assert history["acc"].values[-1] is None


def test_a_secret_in_a_name_is_not_shown(lab: Lab) -> None:
    _ended(lab, "0.1 3 0")
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    with (lab.runs.log_dir("r1") / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 3, token: 1.0}) + "\n")
    assert token not in str([*lab.runs.curves("r1")])


def test_a_live_run_says_how_far_it_is(lab: Lab, call: Callable[..., str]) -> None:
    _made(lab, "0.01 100000 0.005 total")
    until(lambda: len(lab.runs.curves("r1", ["acc"]).get("acc", _NONE).values) > 20)
    found = lab.progress(["r1"])["r1"]
    assert (found["axis"], found["total_steps"]) == ("step", 100_000)
    assert isinstance(found["step"], int | float)
    assert 1 < float(str(found["speed"])) < 250
    expected_s = (100_000 - float(str(found["step"]))) / float(str(found["speed"]))
    assert float(str(found["left_s"])) == pytest.approx(expected_s, rel=0.05)
    assert found["left_from"] == "100000 steps declared"
    assert list(cast("Json", found["metrics"])) == ["acc", "loss"]
    lab.status()
    assert "steps/s" in call("status")
    assert json.loads(call("--json", "status"))["runs"]["active"][0]["progress"]["step"] >= found["step"]
    assert "of 100000, acc" in call("runs", "r1")
    document = json.loads(call("--json", "runs", "r1"))
    shape = json.loads((files("perpetual_cli") / "schemas" / "run.json").read_text("utf-8"))
    jsonschema.validate(document, shape)
    assert json.loads(call("--json", "runs"))["items"][0]["progress"]["left_s"] > 0
    assert str(build({})(lab, ["r1"])["items"][0]["progress"]).startswith("step ")
    assert "live at the last scan: r1" in call("curves", "r1")
    pid = lab.runs.get("r1").pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: lab.progress(["r1"]) == {}, "an ended run has no progress")


def test_nothing_is_made_up_where_nothing_is_known(lab: Lab) -> None:
    _made(lab, "0.1 1 0 stay")
    until(lambda: lab.runs.curves("r1"))
    found = lab.progress(["r1"])["r1"]
    assert (found["step"], found["total_steps"], found["speed"], found["left_s"], found["left_from"]) == (
        0, None, None, None, None,
    )  # fmt: skip
    assert str(found["text"]).startswith("step 0, acc ")


def test_time_left_comes_from_earlier_runs_where_no_total_is_logged(lab: Lab) -> None:
    from perpetual_curves.progress import progress_of

    _made(lab, "0.1 3 0 stay")
    until(lambda: len(lab.runs.curves("r1", ["acc"]).get("acc", _NONE).values) == 3)
    record = lab.runs.get("r1")
    from perpetual.toolkit.units import posix_of

    now = posix_of(str(record.started_at)) + 10
    found = progress_of(lab, record, now, [30.0, 50.0, 100.0])
    assert found["left_s"] == pytest.approx(40)
    assert found["left_from"] == "the median of 3 earlier runs"
    late = progress_of(lab, record, now + 50, [30.0, 50.0, 100.0])
    assert (late["left_s"], late["left_from"]) == (None, None)


@pytest.mark.slow
def test_the_report_draws_them_and_still_verifies(lab: Lab, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _ended(lab, "0.1 400 0", replicates=2)
    made = written(lab, "html")
    assert 'data-picture="curves-e1"' in made.text
    path = tmp_path / "report.html"
    path.write_text(made.text)
    assert verify(lab, path)["ok"]
    with (lab.runs.log_dir("r1") / "metrics.jsonl").open("a") as file:
        file.write('{"step": 400, "acc": 0.5}\n')
    assert not verify(lab, path)["ok"]  # the run's metric, which is the last value
    data = CurvesSection().data(lab)
    assert len(json.dumps(data)) < 40_000


def test_an_agent_reads_no_picture(lab: Lab, call: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    _ended(lab, "0.1 30 0", replicates=2)
    answer = build({})(lab, ["e1", "r1"])
    assert [(item["run"], item["runs"]) for item in answer["items"]] == [(None, 2), ("r1", 1)]
    assert answer["items"][0]["best"] is not None
    assert len(json.dumps(answer)) < 2500
    monkeypatch.setenv("CLAUDECODE", "1")
    text = call("curves", "e1")
    assert "rising" in text
    assert "└" not in text


class _Nothing:
    values: tuple[float, ...] = ()


_NONE: Any = _Nothing()
