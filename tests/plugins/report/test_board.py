"""The leaderboard: rows rest on the runs that count, expressions are safe, and the cache is never behind the record."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual import Lab
from perpetual.api import NotFound, UsageError
from perpetual.cli.app import run
from perpetual.lab.kinds import EXPERIMENT, RUN
from perpetual.science.intervals import mean_of
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun
from perpetual_report.board_cache import BoardCache
from perpetual_report.parameters import parameters
from perpetual_report.query_tool import build as query
from perpetual_report.where import Key, Keys, compiled


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Leaderboards of this test alone; the discovery of plugins is looked up once more for it."""
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "boards"))
    return tmp_path / "boards"


def ids(found: Any) -> list[str]:
    return [row["id"] for row in found["items"]]


def cache_file(folder: Path) -> Path:
    (found,) = folder.glob("board*.sqlite")
    return found


def measure(lab: Lab, experiment_id: str, run_id: str, **values: object) -> None:
    """Writes into the record what a run measured, as a settled run has it."""
    with lab.context.store.transaction() as tx:
        found = tx.get(RUN, run_id)
        assert found is not None
        assert found.body["experiment_id"] == experiment_id
        tx.put(RUN, run_id, {**found.body, **values})


def fresh(lab: Lab) -> Any:
    """The table without the cache."""
    every = [item.id for item in lab.experiments.list().items]
    return lab.runs.table(ids=every)["items"]


# --- rows -----------------------------------------------------------------------------------------------------------


def test_a_row_has_mean_sd_and_n_of_the_runs_that_count(lab: Lab) -> None:
    rows = {row["id"]: row for row in lab.runs.table()["items"]}
    values = [run.metrics["loss"] for run in lab.runs.named(["e1"])]
    expected = mean_of([value for value in values if value is not None])
    assert rows["e1"]["metrics"]["loss"] == {"mean": expected.mean, "sd": expected.sd, "n": 3}
    assert (rows["e2"]["params"]["lr"], rows["e3"]["params"]["lr"]) == (0.1, 0.2)
    effect = lab.evidence.effects("h1")["e2"]
    assert rows["e2"]["effect"] == effect
    assert effect["value"] > 0  # loss went down: better
    assert (rows["e5"]["left_out"], rows["e5"]["metrics"]) == ({"failed": 1}, {})


def test_runs_that_weigh_nothing_are_left_out_and_named(lab: Lab) -> None:
    measure(lab, "e1", "r1", tainted=True)
    measure(lab, "e1", "r2", chosen_seed=True)
    (row,) = lab.runs.table(where="id=e1")["items"]
    assert row["metrics"]["loss"]["n"] == 1
    assert row["left_out"] == {"tainted": 1, "seed picked by hand": 1}
    measure(lab, "e1", "r2", chosen_seed=False)
    versions = {"code": {"tree": "b", "ignored": "", "programs": {}}, "data": None, "environment": None}
    measure(lab, "e1", "r1", tainted=False, versions=versions)
    measure(lab, "e1", "r2", versions={**versions, "code": {**versions["code"], "tree": "a"}})  # type: ignore[dict-item]
    measure(lab, "e1", "r3", versions={**versions, "code": {**versions["code"], "tree": "a"}})  # type: ignore[dict-item]
    (row,) = lab.runs.table(where="id=e1")["items"]
    assert (row["metrics"]["loss"]["n"], row["left_out"]) == (2, {"of another version": 1})


def test_a_column_that_is_asked_for_twice_is_shown_once(lab: Lab) -> None:
    assert lab.runs.table(columns=["loss", "lr", "loss"])["columns"] == ["loss", "lr"]


def test_what_the_lab_did_not_launch_is_described_and_named(lab: Lab) -> None:
    """No seed was picked by hand there: it was logged, or is not known."""
    run = [ImportedRun(f"r{seed}", "old", "done", metrics={"loss": seed / 2}, seed=seed) for seed in (1, 2)]
    lab.imports.take(Batch("report", "adopted", "tests", [ImportedExperiment("old", None, "old"), *run]))
    found = lab.runs.table(where="title=old")
    (row,) = found["items"]
    assert (row["metrics"]["loss"]["mean"], row["metrics"]["loss"]["n"], row["left_out"]) == (0.75, 2, {})
    assert found["note"] == f"{row['id']}: adopted, or recorded ad hoc; described, and no evidence"
    assert "adopted" not in (lab.runs.table(where="id=e1")["note"] or "")
    assert [each["id"] for each in lab.runs.table(sort="loss", ids=[row["id"]])["items"]] == [row["id"]]


def test_what_extends_an_experiment_is_part_of_its_row(lab: Lab) -> None:
    assert "e1" in ids(lab.runs.table())
    more = lab.experiments.propose(extends="e1", replicates=2)
    lab.experiments.approve(more.id)
    lab.wait([item.id for item in lab.runs.launch(more.id, every=True)], timeout_s=60)
    found = lab.runs.table(sort="loss")
    (row,) = [row for row in found["items"] if row["id"] == "e1"]
    assert more.id not in ids(found)
    assert (row["experiments"], row["metrics"]["loss"]["n"]) == (["e1", more.id], 5)
    assert lab.runs.table(ids=[more.id])["items"] == [row]  # by either id


# --- order and filters ----------------------------------------------------------------------------------------------


def test_best_first_by_the_declared_direction_and_missing_last(lab: Lab) -> None:
    found = lab.runs.table(sort="loss")
    assert ids(found) == ["e2", "e3", "e1", "e4", "e5", "e6"]
    assert found["direction"] == "min"
    assert ids(lab.runs.table(sort="-loss"))[:4] == ["e4", "e1", "e3", "e2"]
    assert ids(lab.runs.table(sort="loss", reverse=True)) == ["e4", "e1", "e3", "e2", "e5", "e6"]
    assert ids(lab.runs.table(sort="-lr"))[:3] == ["e3", "e2", "e1"]
    assert ids(lab.runs.table(sort="loss.n"))[0] == "e3"


def test_the_best_of_many_is_said_to_look_better_than_it_is(lab: Lab) -> None:
    found = lab.runs.table(best=2)
    assert (ids(found), found["total"], found["sort"]) == (["e2", "e3"], 6, "loss")
    assert (found["note"] or "").startswith("the best of 4 looks better than it is")
    assert "runs of e2" in (found["note"] or "")
    assert lab.runs.table(sort="lr")["note"] is None
    assert lab.runs.table(sort="loss", where="id=e1")["note"] is None  # nothing was picked
    steps = lab.runs.table(sort="steps")
    assert (steps["direction"], (steps["note"] or "").startswith("no design says")) == (None, True)


def test_only_what_differs_is_a_column(lab: Lab) -> None:
    found = lab.runs.table(where="hypothesis=h1")
    assert found["columns"] == ["loss", "word.3", "lr", "effect"]
    chosen = lab.runs.table(columns=["lr"])
    assert (chosen["columns"], chosen["items"][1]["params"], chosen["items"][1]["metrics"]) == (["lr"], {"lr": 0.1}, {})


def test_filters_by_tag_status_time_and_expression(lab: Lab) -> None:
    made = lab.experiments.propose(command="true", tags=["wide", "odd one"])
    assert ids(lab.runs.table(tag="wide")) == [made.id]
    assert ids(lab.runs.table(where="tag='odd one'")) == [made.id]
    assert ids(lab.runs.table(status="proposed")) == [made.id] == ids(lab.runs.table(where="status=proposed"))
    assert ids(lab.runs.table(where="lr<0.15 or (loss>=2.05 and not lr>0)")) == ["e2", "e4"]
    assert ids(lab.runs.table(where="id>=e6")) == ["e6", made.id]
    assert made.id in ids(lab.runs.table(since="1h"))
    assert ids(lab.runs.table(since="2999-01-01")) == []
    assert made.id in ids(
        lab.runs.table(where="created>1h and created>=2025 and created<2999-01 and created<'2999-01-01'")
    )
    assert ids(lab.runs.table(where="created<1h")) == []
    assert ids(lab.runs.table(where="loss>'2.05'")) == ids(lab.runs.table(where="loss>2.05"))
    assert ids(lab.runs.table(where="lr=abc")) == []  # a parameter may be a word elsewhere
    with pytest.raises(NotFound):
        lab.runs.table(ids=["e99"])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"where": "lrr<1"}, "'lrr' at character 1 of --where is no metric, parameter or field"),
        ({"where": "lr<0.1 and"}, "a key belongs at character 11, not the end"),
        ({"where": "lr 0.1"}, "one of = != < <= > >= belongs at character 4"),
        ({"where": "lr<0.1)"}, "`and` or `or` belongs at character 7"),
        ({"where": "lr<'x"}, "a quote that is not closed at character 4"),
        ({"where": "tag<x"}, "a tag is = or !="),
        ({"where": "(" * 100 + "lr<1"}, "more than 40 levels"),
        ({"where": "lr<1 and " * 400}, "characters, at most"),
        ({"where": "created>=yesterday"}, "created at character 10 is no time: 'yesterday'"),
        ({"where": "lr<1 and created>=2026-13-01"}, "created at character 19 is no time: '2026-13-01'"),
        ({"where": "lr<abc"}, "lr is a number, and 'abc' at character 4 is none"),
        ({"where": "loss!='many'"}, "loss is a number, and 'many' at character 7 is none"),
        ({"where": "loss.sd>x"}, "loss.sd is a number"),
        ({"where": "effect>big"}, "effect is a number"),
        ({"where": ""}, "a key belongs at character 1"),
        ({"sort": "los"}, "'los' of --sort is no metric"),
        ({"columns": ["x"]}, "'x' of --columns is no metric"),
        ({"since": "yesterday"}, "--since is no time"),
        ({"best": 0}, "best must be a whole number of at least 1, not 0"),
        ({"best": "3"}, "best must be a whole number of at least 1, not 3"),
        ({"where": 5}, "where must be a text, not 5"),
        ({"since": 5}, "since must be a text, not 5"),
        ({"hypothesis_id": 5}, "hypothesis_id must be a text, not 5"),
        ({"columns": "loss"}, "columns must be a list of texts, not 'loss'"),
        ({"ids": [1]}, "ids must be a list of texts, not [1]"),
    ],
)
def test_what_means_nothing_names_its_place(lab: Lab, asked: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        lab.runs.table(**asked)
    assert words in str(caught.value)
    if asked.get("sort"):
        assert "did you mean loss" in str(caught.value.hint)


def test_a_metric_and_a_parameter_of_one_name_are_told_apart() -> None:
    keys = Keys(["loss"], ["loss", "lr"])
    with pytest.raises(UsageError, match="is a metric and a parameter"):
        keys.find("loss")
    assert keys.find("param.loss") == Key("param", "loss")
    assert keys.find("metric.loss.sd") == Key("metric", "loss", "sd")

    def column(key: Key) -> dict[int, object]:
        return {1: 0.5} if key.kind == "metric" else {1: 7}

    assert compiled("metric.loss=0.5 and param.loss=7", keys, column)(1)
    assert not compiled("param.loss<7", keys, column)(1)
    assert compiled("param.loss!=8", keys, column)(2)  # a row that lacks it
    assert not compiled("param.loss<8", keys, column)(2)


@settings(max_examples=60)
@given(st.text(st.sampled_from("lr<>=!()'\"`\\ andortag0.1e-\x00\x1b\u202e"), max_size=40))
def test_no_expression_breaks_the_reader(text: str) -> None:
    keys = Keys(["loss"], ["lr"])
    try:
        test = compiled(text, keys, lambda key: {1: 0.1})
    except UsageError:
        return
    assert test(1) in (True, False)


def test_parameters_are_those_of_command_settings_and_environment() -> None:
    found = parameters(
        "python train.py --lr 0.1 --opt=adam -v model.width=64 --lr 1e999 -- -3",
        {"lr": 7, "deep": {"er": [1, 2]}, "flag": False},
        {"WARMUP": "010", "lr": "x"},
    )
    assert found == {
        "word.1": "python", "word.2": "train.py", "lr": 0.1, "opt": "adam", "v": "model.width=64", "lr (2)": "1e999",
        "--": -3, "config.lr": 7, "deep.er": "[1, 2]", "flag": False, "WARMUP": "010", "env.lr": "x",
    }  # fmt: skip
    assert parameters("python t.py model.width=64", {}, {})["model.width"] == 64
    assert parameters("no 'command", {}, {}) == {"command": "no 'command"}
    long = [parameters(None, {"x": "a" * 300 + end}, {})["x"] for end in "bc"]
    assert long[0] != long[1]
    assert max(map(len, map(str, long))) <= 200


# --- the cache ------------------------------------------------------------------------------------------------------


def test_each_change_of_the_record_is_in_the_next_answer(lab: Lab, own_cache: Path) -> None:
    lab.runs.table()
    assert cache_file(own_cache).stat().st_mode & 0o777 == 0o600
    measure(lab, "e2", "r4", metrics={"loss": -1.0})
    assert lab.runs.table(sort="loss", best=1)["items"][0]["metrics"]["loss"]["mean"] < 1
    lab.evidence.retract("v1", why="wrong file")
    made = lab.experiments.propose(command="true --lr 5")
    lab.experiments.reject(made.id, "no")
    rows = lab.runs.table()["items"]
    assert rows == fresh(lab)
    assert rows[-1]["status"] == "rejected"


def test_the_effect_follows_runs_of_the_baseline(lab: Lab) -> None:
    before = {row["id"]: row["effect"] for row in lab.runs.table()["items"]}
    measure(lab, "e1", "r1", metrics={"loss": 9.0})
    after = {row["id"]: row["effect"] for row in lab.runs.table()["items"]}
    assert after["e2"] != before["e2"]
    assert after == {row["id"]: row["effect"] for row in fresh(lab)}


def test_a_state_that_is_current_needs_no_store(lab: Lab, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = lab.runs.table(sort="loss")
    with Lab.open(study) as other:
        monkeypatch.setattr(type(other.context), "store", property(lambda self: pytest.fail("the store was opened")))
        assert other.runs.table(sort="loss") == wanted


def test_a_backup_that_was_put_back_is_seen(lab: Lab, study: Path, tmp_path: Path) -> None:
    store, kept = study / ".perpetual" / "store", tmp_path / "kept"
    shutil.copytree(store, kept)
    lab.experiments.propose(command="true --lr 5")
    assert len(lab.runs.table()["items"]) == 7
    lab.close()
    shutil.rmtree(store)
    shutil.copytree(kept, store)
    with Lab.open(study) as other:
        assert len(other.runs.table()["items"]) == 6
        other.hypotheses.add("another history")
        other.experiments.propose(command="true --lr 6")
        assert other.runs.table()["items"] == fresh(other)


_SLOW = [pytest.param(harm, marks=pytest.mark.slow) for harm in ("garbage", "empty", "folder")]


@pytest.mark.parametrize("harm", ["cut", "tables", "body", *_SLOW])
def test_a_broken_cache_is_rebuilt(lab: Lab, own_cache: Path, harm: str) -> None:
    wanted = lab.runs.table(sort="loss")
    path = cache_file(own_cache)
    if harm == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif harm == "garbage":
        path.write_bytes(b"\0" * 9000)
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "folder":
        path.unlink()
        path.mkdir()
    else:
        with sqlite3.connect(path) as broken:
            broken.execute("DROP TABLE value" if harm == "tables" else "UPDATE board SET body = '{'")
        broken.close()
    assert lab.runs.table(sort="loss") == wanted
    assert lab.runs.table(sort="loss") == wanted


def test_a_place_that_takes_no_cache_changes_no_answer(
    lab: Lab, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = lab.runs.table(sort="loss")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert lab.runs.table(sort="loss") == wanted


@pytest.mark.slow
def test_a_killed_writer_leaves_the_state_before(lab: Lab, study: Path, own_cache: Path) -> None:
    lab.runs.table()
    code = (
        "import os, perpetual_report.board_cache as c\n"
        "from perpetual import Lab\n"
        "put = c._put\n"
        "c._put = lambda *a, **k: (put(*a, **k), os.kill(os.getpid(), 9))\n"
        "lab = Lab.open()\n"
        "lab.experiments.propose(command='true --lr 5')\n"
        "lab.runs.table()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=study, env={**os.environ}, timeout=60, check=False)
    assert done.returncode == -9
    assert lab.runs.table()["items"] == fresh(lab)
    assert len(fresh(lab)) == 7


def test_a_later_state_is_not_written_over(lab: Lab) -> None:
    lab.runs.table()
    key = f"{lab.config.folder}\n{lab.config.project_id}\n{lab.config['store']}\n{lab.config['redactor']}"
    cache = BoardCache(key)
    with cache.reading() as found:
        assert found is not None
        state = found.state
    older = state._replace(mark=(state.mark[0] - 1, *state.mark[1:]), token="old")
    newer = state._replace(mark=(state.mark[0] + 1, *state.mark[1:]), token="new")
    assert not cache.write([], {}, older, base=older, anew=False)
    # All rows of an earlier time, and what has changed since a later time than that of the rows that are there.
    assert not cache.write([], {}, older, base=None, anew=True)
    assert not cache.write([], {}, newer, base=newer, anew=False)
    with cache.reading() as found:
        assert found is not None
        assert found.state == state
    assert cache.write([], {}, newer, base=state, anew=True)
    with cache.reading() as found:
        assert found is not None
        assert (found.state, found.numbers()) == (newer, [])


def test_many_readers_and_writers_see_the_present(lab: Lab, study: Path) -> None:
    wrong: list[object] = []

    def write(number: int) -> None:
        with Lab.open(study) as own:
            for _ in range(4):
                made = own.experiments.propose(command=f"true --lr {number}").id
                if made not in ids(own.runs.table(where=f"lr={number}")):
                    wrong.append(made)

    threads = [threading.Thread(target=write, args=(number,)) for number in (11, 12, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert lab.runs.table()["items"] == fresh(lab)


# --- the command ----------------------------------------------------------------------------------------------------


def test_the_command_shows_results_in_lists_and_of_one(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["experiments"]) == 0
    shown = capsys.readouterr().out
    assert ": better" in shown
    assert " ± " in shown
    assert run(["experiments", "e1"]) == 0
    shown = capsys.readouterr().out
    assert "measured: loss" in shown
    assert "between runs; 3 runs" in shown
    assert run(["experiments", "e2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["metrics"]["loss"]["n"], found["effect"]["experiments"]) == (3, ["e2"])
    assert run(["experiments", "--sort", "loss", "--best", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.index(" e2 ") < shown.index(" e3 ")
    assert "note: the best of 4 looks better than it is" in shown
    assert run(["experiments", "--where", "lr<0.15", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], [row["id"] for row in found["items"]]) == ("perpetual.leaderboard/1", ["e2"])


def test_equal_values_are_said_in_a_word(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (1, 2, 3):
        measure(lab, "e1", f"r{number}", metrics={"loss": 2.0})
    assert run(["experiments"]) == 0
    shown = capsys.readouterr().out
    assert " 2 (all equal) " in shown
    assert "(1)" not in next(line for line in shown.splitlines() if line.strip().startswith("e1"))


def test_an_archived_experiment_is_marked_in_a_leaderboard(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.runs.table()  # cached before
    lab.experiments.archive("e2")
    assert {row["id"] for row in lab.runs.table()["items"] if row["archived"]} == {"e2"}
    for columns in ("loss", "loss,status"):
        assert run(["experiments", "--sort", "loss", "--columns", columns]) == 0
        (marked,) = (line for line in capsys.readouterr().out.splitlines() if "archived" in line)
        assert " e2" in f" {marked}"
    answer = query({})(lab, columns=["loss"])
    assert [item["id"] for item in answer["items"] if item["archived"]] == ["e2"]


def test_without_its_part_the_list_is_as_before(
    lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.close()
    monkeypatch.setenv("PERPETUAL_WITHOUT", "report")
    assert run(["experiments", "--json"]) == 0
    assert [item["metrics"] for item in json.loads(capsys.readouterr().out)["items"]] == [None] * 6
    assert run(["experiments", "--sort", "loss"]) != 0


def test_lists_filter_by_tag(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.hypotheses.add("tagged", tags=["x"])
    with lab.context.store.transaction() as tx:
        found = tx.get(EXPERIMENT, "e2")
        assert found is not None
        tx.put(EXPERIMENT, "e2", {**found.body, "tags": ["x"]})
    for words, wanted in (
        (["hypotheses", "list"], ["h5"]), (["experiments"], ["e2"]), (["runs"], ["r6", "r5", "r4"]),
    ):  # fmt: skip
        assert run([*words, "--tag", "x", "--json"]) == 0
        assert [item["id"] for item in json.loads(capsys.readouterr().out)["items"]] == wanted
    page = lab.runs.list(tag="x", limit=2)
    assert ([item.id for item in page.items], page.next_cursor) == (["r6", "r5"], "5")
    assert [item.id for item in lab.runs.list(tag="x", cursor=page.next_cursor).items] == ["r4"]
