"""Search over the whole record: ranks, kinds, tags, readers, broken files, and several processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import UsageError
from perpetual.lab.runs import Runs
from perpetual.toolkit.import_records import Batch, ImportedExperiment, ImportedRun
from perpetual_find.index import index_path
from perpetual_find.search import find
from perpetual_find.texts import Entry
from perpetual_find.tool import build


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as opened:
        yield opened


@pytest.fixture
def record(lab: Lab) -> Lab:
    """Some of every kind."""
    lab.hypotheses.add("Adam beats SGD", tags=["optimiser"])
    lab.hypotheses.add("a cosine schedule helps", metric="val_acc", direction="max", mde=0.1)
    lab.experiments.propose(command="python train.py --optimiser adam", metric="val_acc", notes="as in the paper")
    lab.experiments.propose(command="python train.py", metric="val_acc", tags=["optimiser", "slow"])
    lab.memory.write("notes/adam.md", "# Adam\nIt is no evidence for or against anything.")
    lab.evidence.add("h1", verdict="supports", why="the survey by Schmidt found it")
    lab.experiments.reject("e2", "too dear for the cluster")
    return lab


def _ids(lab: Lab, text: str, **options: object) -> list[str]:
    return [item["id"] for item in find(lab, text, **options)["items"]]  # type: ignore[arg-type]


def test_words_are_found_wherever_they_are(record: Lab) -> None:
    assert _ids(record, "survey") == ["v1"]
    assert _ids(record, "val_acc cosine") == ["h2"]
    assert {*_ids(record, "adam")} == {"h1", "e1", "notes/adam.md"}
    assert _ids(record, "adam")[0] in ("h1", "notes/adam.md"), "a word of the title says more"
    assert _ids(record, "schedul") == ["h2"]
    assert _ids(record, "cluster") == []
    assert [item["kind"] for item in find(record, "cluster", kinds=["event"])["items"]] == ["event"]
    assert _ids(record, "adam", kinds=["e"]) == ["e1"]
    assert _ids(record, "train", tags=["slow", "optimiser"]) == ["e2"]
    assert _ids(record, "adam -survey", kinds=["hypothesis"]) == ["h1"]
    assert _ids(record, "E1") == ["e1"]


def test_common_words_drive_no_hit(record: Lab) -> None:
    assert "notes/adam.md" not in _ids(record, "which optimiser is best")
    assert {*_ids(record, "which optimiser is best")} == {"h1", "e1", "e2"}
    assert _ids(record, '"it is no evidence"') == ["notes/adam.md"]
    with pytest.raises(UsageError, match="too common"):
        find(record, "is the")


_NO_WORD = ["", "  ", '"', "*", "-", "()", "\0", "-adam", "AND", "x" * 3000, " ".join(f"w{n}" for n in range(40))]


@pytest.mark.parametrize("text", _NO_WORD)
def test_no_text_breaks_the_query(record: Lab, text: str) -> None:
    with pytest.raises(UsageError):
        find(record, text)


def test_the_language_of_the_engine_is_plain_text(record: Lab) -> None:
    for text in ('"adam', "adam*", "adam)", "adam OR", "adam\0", "*adam", "(adam)"):
        assert find(record, text)["items"], text
    for text in ("NEAR(adam", "title:adam", "adam^2", "adam+sgd", "h1:h2"):  # phrases that no record has
        assert find(record, text)["items"] == [], text


def test_some_words_are_enough_where_no_record_has_all(record: Lab) -> None:
    found = find(record, "adam cosine")
    assert found["match"] == "any"
    assert {"h1", "h2"} <= {item["id"] for item in found["items"]}
    assert find(record, "adam beats")["match"] == "all"


def test_pages_follow_one_another(record: Lab) -> None:
    whole, seen, cursor = _ids(record, "adam"), [], None
    for _ in whole:
        page = find(record, "adam", limit=1, cursor=cursor)
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert (seen, cursor) == (whole, None)
    with pytest.raises(UsageError, match="no cursor"):
        find(record, "adam", cursor="soon")


def test_the_index_follows_the_record(record: Lab) -> None:
    assert _ids(record, "warmup") == []
    record.experiments.edit("e1", title="warmup")
    record.hypotheses.archive("h2")
    assert _ids(record, "warmup") == ["e1"]
    assert [item["archived"] for item in find(record, "cosine")["items"]] == [True]
    record.experiments.edit("e1", title="other")
    assert _ids(record, "warmup") == []


def test_a_broken_or_foreign_index_is_built_anew(record: Lab, tmp_path: Path) -> None:
    wanted, path = _ids(record, "adam"), Path(index_path(record))
    for content in (b"no database" * 1000, b"", path.read_bytes()[:5000]):
        path.write_bytes(content)
        assert _ids(record, "adam") == wanted
    with sqlite3.connect(path) as other:
        other.execute("UPDATE state SET value = 'of another record' WHERE name = 'mark'")
        other.execute("UPDATE records SET id = 'e99' WHERE id = 'e1'")
    assert _ids(record, "adam") == wanted
    for spoil in ("UPDATE state SET value = 'x' WHERE name = 'seq'", "DELETE FROM state WHERE name = 'event'"):
        with sqlite3.connect(path) as other:
            other.execute(spoil)
        assert _ids(record, "adam") == wanted
    path.unlink()
    target = tmp_path / "theirs"
    target.write_bytes(b"")
    path.symlink_to(target)
    assert _ids(record, "adam") == wanted
    assert target.read_bytes() == b"", "nothing is written through a link"
    assert Path(index_path(record)).stat().st_mode & 0o077 == 0


def test_no_secret_reaches_the_index(record: Lab) -> None:
    secret = "sk-ant-" + "api03-" + "aB3" * 30
    record.hypotheses.add(f"the key {secret} works")
    assert _ids(record, "works") == ["h3"]
    assert secret.encode() not in Path(index_path(record)).read_bytes()


def _logged(record: Lab, id: str, text: str | bytes, *, file: str = "stdout.log") -> None:
    if not record.runs.list(limit=1).items or id not in {item.id for item in record.runs.all()}:
        runs = [ImportedRun(key=id, experiment="x", status="done", seed=1, metrics={"a": 1.0})]
        known = ImportedExperiment(key="x", hypothesis=None, title="with logs")
        record.imports.take(Batch("find", "test", "test", [known, *runs]))
    folder = record.runs.log_dir(id)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())


def test_logs_are_found_with_their_line(record: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "sk-ant-" + "api03-" + "aB3" * 30
    filler = "".join(f"step {n} went well\n" for n in range(12_000))
    _logged(
        record,
        "r1",
        f"start\n\x1b[31mRuntimeError\x1b[0m: CUDA out of memory {secret} \x1b]0;x\x07\n{filler}the end zebra",
    )
    _logged(record, "r1", "giraffe\n", file="stderr.log")
    (item,) = find(record, "runtimeerror memory", logs=True)["items"]
    assert (item["kind"], item["id"], item["status"], item["title"], item["line"]) == (
        "log", "r1", "done", "stdout.log:2", 2,
    )  # fmt: skip
    assert "RuntimeError: CUDA out of memory" in item["snippet"]
    assert item["snippet"].isprintable()
    assert secret not in item["snippet"]
    assert secret.encode() not in Path(index_path(record)).read_bytes()
    assert [found["title"] for found in find(record, "zebra", logs=True)["items"]] == ["stdout.log:12003"]
    assert [found["title"] for found in find(record, "giraffe", logs=True)["items"]] == ["stderr.log:1"]
    assert find(record, "sk-ant", logs=True)["items"] == []
    assert _ids(record, "zebra") == [], "records are searched without it"
    assert find(record, "zebra elephant", logs=True)["match"] == "any"
    assert run(["find", "--logs", "zebra"]) == 0
    assert "stdout.log:12003" in capsys.readouterr().out
    assert run(["find", "--logs", "x", "--kind", "run"]) == 2
    assert build({})(record, "zebra", logs=True)["items"][0]["title"] == "stdout.log:12003"
    (record.runs.log_dir("r1") / "stdout.log").unlink()
    assert [(found["title"], found["snippet"]) for found in find(record, "zebra", logs=True)["items"]] == [
        ("stdout.log", "")
    ]


def test_only_new_runs_are_indexed(record: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    _logged(record, "r1", "zebra\n")
    assert [item["id"] for item in find(record, "zebra", logs=True)["items"]] == ["r1"]
    read: list[str] = []
    folder_of = type(record.runs).log_dir

    def seen(runs: Runs, id: str) -> Path:
        read.append(id)
        return folder_of(runs, id)

    monkeypatch.setattr(type(record.runs), "log_dir", seen)
    assert find(record, "giraffe", logs=True)["items"] == []
    assert read == []
    (record.root / "secret.txt").write_text("zebra giraffe")
    _logged(record, "r2", b"\xff giraffe")
    (record.runs.log_dir("r2") / "stderr.log").symlink_to(record.root / "secret.txt")
    read.clear()
    assert [item["title"] for item in find(record, "giraffe", logs=True)["items"]] == ["stdout.log:1"]
    assert "r1" not in read


def test_agents_find_what_they_may_be_shown(record: Lab) -> None:
    record.memory.write("skills/x.md", "# Zebra\nAlways use zebra stripes.", type="skill_card")
    assert _ids(record, "zebra") == ["skills/x.md"]
    with Lab.open(record.root, actor="mcp:codex/1") as agent:
        assert _ids(agent, "zebra") == []
        assert "notes/adam.md" in _ids(agent, "adam")
        answer = build({})(agent, "adam", kind="note")
        assert (answer["items"][0]["id"], answer["truncated"]) == ("notes/adam.md", False)
        record.memory.promote("skills/x.md", "seen thrice")
        assert _ids(agent, "zebra") == ["skills/x.md"]


def _search(root: str) -> None:
    with Lab.open(root) as lab:
        for _ in range(5):
            assert {*_ids(lab, "adam")} >= {"h1", "e1"}


def _index_and_die(root: str) -> None:
    import perpetual_find.index
    from perpetual_find.texts import entry_of

    def last(lab: Lab, kind: str, id: str) -> Entry | None:
        if kind == "experiment":  # in the middle of the transaction
            os.kill(os.getpid(), signal.SIGKILL)
        return entry_of(lab, kind, id)

    setattr(perpetual_find.index, "entry_of", last)  # noqa: B010 - it is another module's name
    with Lab.open(root) as lab:
        find(lab, "adam")


@pytest.mark.slow
def test_several_processes_share_it_and_one_may_be_killed(record: Lab) -> None:
    start = multiprocessing.get_context("fork")
    for target, exits in ((_index_and_die, -signal.SIGKILL), (_search, 0)):
        many = [start.Process(target=target, args=(str(record.root),)) for _ in range(3)]
        for process in many:
            process.start()
        for process in many:
            process.join(60)
            assert process.exitcode == exits
    assert {*_ids(record, "adam")} == {"h1", "e1", "notes/adam.md"}


def test_the_command_shows_and_answers(record: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["find", "adam", "cosine"]) == 0
    shown = capsys.readouterr()
    assert "Adam beats SGD" in shown.out
    assert "no record has all of these words" in shown.err
    assert run(["find", "survey", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["items"][0]["id"], document["match"], document["next_cursor"]) == ("v1", "all", None)
    assert run(["find", "x", "--kind", "notse"]) == 2
    assert "did you mean note" in capsys.readouterr().err
