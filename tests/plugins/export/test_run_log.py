"""`perpetual.log`: every line is whole, whoever dies or logs beside, and the training survives whatever it logs."""

from __future__ import annotations

import decimal
import enum
import importlib
import json
import math
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest

import perpetual
from perpetual_export import run_log


@pytest.fixture
def log_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where lines go."""
    path = tmp_path / "metrics.jsonl"
    monkeypatch.setenv("PERPETUAL_METRICS", str(path))
    importlib.reload(run_log)  # which warns once in a process
    return path


def _rows(path: Path) -> list[dict[str, Any]]:
    """Its lines, each as strict JSON; an empty one may stand where two wrote at once."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_bytes().decode("ascii").splitlines() if line]


def test_each_call_writes_one_line(log_file: Path) -> None:
    perpetual.log(step=1, loss=2.5)
    perpetual.log(loss=2.25, note="über\n\ud800", tags=["a", None, True], lr={"a": {"b": (1, 0.1)}, 3: 4})
    assert _rows(log_file) == [
        {"step": 1, "loss": 2.5},
        {"loss": 2.25, "note": "über\n\ud800", "tags": ["a", None, True], "lr": {"a": {"b": [1, 0.1]}, "3": 4}},
    ]
    assert log_file.stat().st_mode & 0o777 == 0o600


def test_a_dict_is_logged_as_its_values(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the users of other loggers write it; a misuse ends no training either."""
    perpetual.log({"val/loss": 2.5, "step": 1}, step=2)
    perpetual.log({})
    perpetual.log(table=3)
    assert [json.loads(line) for line in log_file.read_text().splitlines()] == [
        {"val/loss": 2.5, "step": 2}, {}, {"table": 3}
    ]  # fmt: skip
    perpetual.log(cast("dict[str, object]", 3.5))  # a slip in a training script
    assert "the run goes on" in capsys.readouterr().err


def test_outside_a_run_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PERPETUAL_METRICS", raising=False)
    monkeypatch.chdir(tmp_path)
    perpetual.log(loss=1.0)
    assert [*tmp_path.iterdir()] == []


class _Scalar:
    """As numpy's and torch's: `item` of one element."""

    def __init__(self, *values: Any) -> None:
        self.values = values

    def item(self) -> Any:
        """The one element."""
        if len(self.values) != 1:
            raise ValueError("only one element can be converted")
        return self.values[0]

    def __repr__(self) -> str:
        return f"tensor({[*self.values]})"


class _Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class _Level(enum.IntEnum):
    HIGH = 3


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (math.nan, {"type": "float", "text": "nan"}),
        (math.inf, {"type": "float", "text": "inf"}),
        (float("-1e400"), {"type": "float", "text": "-inf"}),
        (-0.0, -0.0),
        (5e-324, 5e-324),
        (2**63 - 1, 2**63 - 1),
        (2**63, {"type": "int", "text": hex(2**63)}),
        (-(10**30), {"type": "int", "text": hex(-(10**30))}),
        (10**5000, {"type": "int", "text": hex(10**5000)[:200]}),
        (True, True),
        (None, None),
        ("", ""),
        (_Scalar(0.5), 0.5),
        (_Scalar(math.nan), {"type": "float", "text": "nan"}),
        (_Scalar(True), True),
        (_Scalar(1, 2), {"type": "_Scalar", "text": "tensor([1, 2])"}),
        (_Level.HIGH, 3),
        (decimal.Decimal("0.25"), 0.25),
        (1j, {"type": "complex", "text": "1j"}),
        (b"x", {"type": "bytes", "text": "b'x'"}),
        ({1}, {"type": "set", "text": "{1}"}),
        (_Mute(), {"type": "_Mute", "text": "no repr: RuntimeError"}),
    ],
    ids=lambda value: type(value).__name__,  # a long integer has no text
)
def test_every_value_keeps_its_type(log_file: Path, value: Any, kept: Any) -> None:
    perpetual.log(x=value, nested={"deep": [value]})
    (row,) = _rows(log_file)
    assert row == {"x": kept, "nested": {"deep": [kept]}}
    assert type(row["x"]) is type(kept)
    assert str(row["x"]) == str(kept)  # the sign of zero


def test_a_cyclic_value_is_cut_off(log_file: Path) -> None:
    perpetual.log(x=_CYCLE)
    assert "nested too deeply" in json.dumps(_rows(log_file))


def test_a_torn_line_swallows_no_other(log_file: Path) -> None:
    """Of a process that was killed: whoever comes next begins a line of its own."""
    for torn in (b'{"step": 1, "lo', b'{"step": 1, "loss": 0.5}'):
        log_file.write_bytes(torn)
        perpetual.log(step=2)
        perpetual.log(step=3)
        assert log_file.read_bytes() == torn + b'\n{"step": 2}\n{"step": 3}\n'


def test_a_line_torn_just_before_ours_swallows_no_other(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look at the file's end and our own line."""
    perpetual.log(step=1)
    write = os.write

    def late(descriptor: int, line: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        with log_file.open("ab") as other:
            other.write(b'{"step": 2, "lo')
        return write(descriptor, line)

    monkeypatch.setattr(os, "write", late)
    perpetual.log(step=3)
    lines = log_file.read_bytes().splitlines()
    assert lines[0] == b'{"step": 1}'
    assert lines[-1] == b'{"step": 3}'


def test_foreign_code_never_reaches_the_training(log_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Changing(dict[str, int]):
        def items(self) -> Any:
            raise RuntimeError("dictionary changed size during iteration")

    class Name:
        def __str__(self) -> str:
            raise ValueError("no")

    class Text(str):
        def __str__(self) -> str:
            raise ValueError("no")

    perpetual.log(a=Changing(x=1), b={Name(): 1}, c=[{Name(): 1}, 2], loss=0.5)
    (row,) = _rows(log_file)
    kept = {"type": "dict", "text": "no JSON: ValueError"}
    assert row == {"a": {"type": "Changing", "text": "no JSON: RuntimeError"}, "b": kept, "c": [kept, 2], "loss": 0.5}
    perpetual.log(text=[Text("x")], loss=1.0)
    perpetual.log(text=Text("x"))
    assert len(_rows(log_file)) >= 2


def test_threads_and_forks_do_not_mix(log_file: Path) -> None:
    text = "x" * 5000  # more than a page

    def write(worker: int) -> None:
        for step in range(50):
            perpetual.log(worker=worker, step=step, text=text)

    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=write, args=(worker,)) for worker in (1, 2)]
    for process in processes:
        process.start()
    threads = [threading.Thread(target=write, args=(worker,)) for worker in (3, 4)]
    for thread in threads:
        thread.start()
    for process in processes:
        process.join(60)
    for thread in threads:
        thread.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    rows = _rows(log_file)
    assert {worker: [row["step"] for row in rows if row["worker"] == worker] for worker in (1, 2, 3, 4)} == {
        worker: [*range(50)] for worker in (1, 2, 3, 4)
    }


def test_a_full_disk_is_reported_once_and_survived(
    log_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERPETUAL_METRICS", "/dev/full")
    for step in range(3):
        perpetual.log(step=step)
    told = capsys.readouterr().err
    assert told.count("perpetual.log: /dev/full:") == 1
    assert told.count("\n") == 1


@pytest.mark.parametrize("place", ["gone/metrics.jsonl", "."])
def test_a_place_that_cannot_be_written_is_survived(
    log_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    monkeypatch.setenv("PERPETUAL_METRICS", str(log_file.parent / place))
    perpetual.log(step=1)
    assert "the run goes on" in capsys.readouterr().err


def test_a_line_that_was_cut_by_a_limit_is_a_torn_one(tmp_path: Path) -> None:
    """The file may not grow beyond a limit: what was cut is told, and no later line is glued to it."""
    path = tmp_path / "metrics.jsonl"
    code = (
        "import resource, signal, perpetual\n"
        "perpetual.log(step=1)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))\n"
        "perpetual.log(step=2, text='x' * 50)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "perpetual.log(step=3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PERPETUAL_METRICS": str(path)}, capture_output=True,
        text=True, timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("perpetual.log") == 1
    lines = path.read_text().splitlines()
    assert (lines[0], lines[-1], len(lines)) == ('{"step": 1}', '{"step": 3}', 3)


def test_a_pipe_can_be_logged_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setenv("PERPETUAL_METRICS", f"/dev/fd/{writer}")
    perpetual.log(step=1)
    assert os.read(reader, 100) == b'{"step": 1}\n'
    os.close(reader)
    os.close(writer)


def test_logging_costs_a_training_next_to_nothing(log_file: Path) -> None:
    """Held by what is loaded, not by milliseconds: no module of the standard library that Python has not at hand."""
    bare = "import sys; print(*sys.modules)"
    code = "import perpetual; perpetual.log(step=1, loss=2.0); " + bare
    found = [
        set(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.split())
        for text in (bare, code)
    ]
    assert found[1] - found[0] <= {"perpetual", "perpetual_export", "perpetual_export.run_log", "__future__", "_json"}
    assert _rows(log_file) == [{"step": 1, "loss": 2.0}]


def test_a_killed_process_leaves_one_torn_line_at_most(tmp_path: Path) -> None:
    """At any instant, with lines of many pages; the next process's lines are whole."""
    path = tmp_path / "metrics.jsonl"
    code = "import perpetual\nprint(flush=True)\nn = 0\nwhile True: perpetual.log(n=n, text='x' * 300_000); n += 1\n"
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", code], env={**os.environ, "PERPETUAL_METRICS": str(path)}, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            size = path.stat().st_size if path.exists() else 0
            while path.stat().st_size < size + 1_000_000 if path.exists() else True:
                assert process.poll() is None
            process.kill()
    torn = 0
    for line in path.read_bytes().split(b"\n"):
        try:
            assert line == b"" or len(json.loads(line)["text"]) == 300_000
        except json.JSONDecodeError:
            torn += 1
    assert torn <= 3


def test_the_log_is_reached_by_the_name_that_it_had() -> None:
    assert importlib.import_module("perpetual.toolkit.run_log") is run_log
    assert perpetual.log is run_log.log
