"""Curves in the files of training libraries: whole, growing, large, and of several runs."""

from __future__ import annotations

import json
import math
import os
import shutil
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.api import MetricHistory, RunFolder
from perpetual_metrics.event_files import crc32c
from perpetual_metrics.loggers import build
from perpetual_metrics.readers import csv_file

FIXTURES = Path(__file__).parents[2] / "fixtures" / "loggers"
EVENTS, WANDB = "runs/exp1/events.out.tfevents.1.host", "wandb/offline-run-1/run-kjtj2kp6.wandb"


def history(cwd: Path, *metrics: str, limit_bytes: int | None = None, ended_at_s: float | None = None) -> Mapping[
    str, MetricHistory
]:  # fmt: skip
    folder = RunFolder(cwd / "none", cwd, 0.0, ended_at_s)
    return build({}).history(folder, metrics, limit_bytes=limit_bytes)


def lay(tmp_path: Path, *names: str) -> Path:
    for name in names:
        shutil.copytree(FIXTURES / name, tmp_path / name)
    return tmp_path


def points(one: MetricHistory) -> tuple[str | None, list[float | None], list[float | None]]:
    return one.axis, [*one.steps], [None if x is None else round(x, 6) for x in one.values]


@pytest.mark.parametrize(
    ("name", "metric", "expected"),
    [
        ("runs", "loss/train", ("step", [0, 1, 2, 3, 4], [1.0, 0.5, 0.333333, 0.25, 0.2])),
        ("runs", "nan", ("step", [1], [None])),
        ("tf2", "train/epoch_loss", ("step", [0, 1, 2], [1.0, 0.5, 0.333333])),
        ("wandb", "nested.acc", ("_step", [0, 1, 2, 3, 4], [0.0, 0.1, 0.2, 0.3, 0.4])),
        ("wandb", "inf", ("_step", [5], [None])),
        ("mlruns", "val/loss", ("step", [0, 1, 2, 3], [1.0, 0.5, 0.333333, 0.25])),
        ("lightning_logs", "train_loss", ("step", [49, 99], [0.69, 0.35])),
        ("keras", "val_accuracy", ("epoch", [0, 1], [0.55, None])),
    ],
)
def test_every_value_has_its_step(
    tmp_path: Path, name: str, metric: str, expected: tuple[str, Sequence[float], Sequence[float | None]]
) -> None:
    lay(tmp_path, name)
    found = history(tmp_path)
    assert points(found[metric]) == expected
    assert (tmp_path / found[metric].source).is_file()
    assert found[metric].skipped_bytes == 0
    assert history(tmp_path, metric) == {metric: found[metric]}
    assert history(tmp_path, "other") == {}


def test_times_are_the_library_s_own(tmp_path: Path) -> None:
    lay(tmp_path, "runs", "wandb", "mlruns", "tf2")
    found = history(tmp_path)
    assert found["train/epoch_loss"].times == [1.0, 1.0, 1.0]
    for name in ("loss/train", "val_loss", "val/loss"):
        times = [time or 0.0 for time in found[name].times]
        assert times == sorted(times)
        assert 1.7e9 < times[0] < 2e9


def test_the_last_value_is_the_one_that_is_recorded(tmp_path: Path) -> None:
    lay(tmp_path, "runs", "tf2", "wandb", "mlruns", "lightning_logs", "keras")
    folder = RunFolder(tmp_path / "none", tmp_path, 0.0)
    recorded = build({}).read(folder)
    assert {name: one.values[-1] for name, one in history(tmp_path).items()} == {
        name: one.value for name, one in recorded.items()
    }


@pytest.mark.parametrize("name", [EVENTS, WANDB, "mlruns/0/ca51/metrics/val/loss", "keras/history.csv"])
def test_a_growing_file_is_read_to_its_last_whole_record(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    data = (FIXTURES / name).read_bytes()
    path.write_bytes(data)
    whole = {key: points(one) for key, one in history(tmp_path).items()}
    seen = set()
    for length in [*range(0, min(len(data), 60), 3), *range(60, len(data), 41)]:
        path.write_bytes(data[:length])
        found = history(tmp_path)
        seen.add(sum(len(one.values) for one in found.values()))
        for key, one in found.items():
            _, steps, values = whole[key]
            assert points(one)[1:] == (steps[: len(one.steps)], values[: len(one.values)])
    assert 0 in seen
    assert len(seen) > 1


def test_a_resumed_run_is_one_curve(tmp_path: Path) -> None:
    _events(tmp_path / "events.out.tfevents.1.a", [(0, 1.0), (1, 0.5)])
    _events(tmp_path / "events.out.tfevents.2.a", [(1, 0.4), (2, 0.3)])
    assert points(history(tmp_path)["loss"]) == ("step", [0, 1, 1, 2], [1.0, 0.5, 0.4, 0.3])


def test_values_that_were_given_no_step_are_counted(tmp_path: Path) -> None:
    _events(tmp_path / "events.out.tfevents.1.a", [(0, 1.0), (0, 0.5), (0, 0.25)])
    assert points(history(tmp_path)["loss"]) == (None, [1, 2, 3], [1.0, 0.5, 0.25])


def test_a_name_of_two_runs_is_not_mixed(tmp_path: Path) -> None:
    lay(tmp_path, "mlruns")
    shutil.copytree(tmp_path / "mlruns/0/ca51", tmp_path / "mlruns/0/ca52")
    _events(tmp_path / "a/events.out.tfevents.1.x", [(0, 1.0)])
    _events(tmp_path / "b/events.out.tfevents.1.x", [(0, 2.0)])
    assert {name: [*one.values] for name, one in history(tmp_path).items()} == {"a/loss": [1.0], "b/loss": [2.0]}


def test_a_file_that_a_later_run_changed_is_left_out(tmp_path: Path) -> None:
    lay(tmp_path, "runs", "keras")
    (tmp_path / "metrics.csv").write_text("step,acc\n1,0.5\n")
    for path in (tmp_path / EVENTS, tmp_path / "keras/history.csv", tmp_path / "metrics.csv"):
        os.utime(path, (1_000.5, 1_000.5))
    assert "acc" in history(tmp_path, ended_at_s=1_000.49)
    assert history(tmp_path, ended_at_s=900.0) == {}
    table = csv_file({})
    assert [*table.history(RunFolder(tmp_path / "none", tmp_path, 0.0, 1_000.49))] == ["acc"]
    assert table.history(RunFolder(tmp_path / "none", tmp_path, 0.0, 900.0)) == {}
    assert [*table.history(RunFolder(tmp_path, tmp_path / "none", 0.0, 900.0))] == ["acc"]  # the run's own folder


# --- large files ------------------------------------------------------------------------------------------------------


def _message(number: int, kind: int, value: bytes | int) -> bytes:
    head = bytes([number << 3 | kind])
    return head + (_varint(value) if isinstance(value, int) else (_varint(len(value)) if kind == 2 else b"") + value)


def _varint(whole: int) -> bytes:
    out = b""
    while whole > 0x7F:
        out, whole = out + bytes([whole & 0x7F | 0x80]), whole >> 7
    return out + bytes([whole])


def _masked(data: bytes) -> bytes:
    check = crc32c(data)
    return struct.pack("<I", ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _events(path: Path, values: Sequence[tuple[int, float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = []
    for step, value in values:
        scalar = _message(1, 2, b"loss") + _message(2, 5, struct.pack("<f", value))
        event = _message(1, 1, struct.pack("<d", 5.0)) + _message(2, 0, step) + _message(5, 2, _message(1, 2, scalar))
        length = struct.pack("<Q", len(event))
        parts.append(length + _masked(length) + event + _masked(event))
    path.write_bytes(b"".join(parts))


def _wandb(path: Path, values: Sequence[tuple[int, float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b":W&B\xe1\xbe\x00"
    for step, value in values:
        items = {"loss": value, "_step": step, "pad": "x" * 300}
        parts = []
        for name, item in items.items():
            text = json.dumps(item).encode()
            one = _message(2, 2, name.encode()) + b"\x82\x01" + _varint(len(text)) + text
            parts.append(_message(1, 2, one))
        record = _message(2, 2, b"".join(parts))
        kind = 1
        while True:
            left = 32 * 1024 - len(data) % (32 * 1024)
            if left < 7:
                data += bytes(left)
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            whole = {1: 2, 3: 3}[kind] if record else {1: 1, 3: 4}[kind]
            data += struct.pack("<IHB", zlib.crc32(bytes([whole]) + piece), len(piece), whole) + piece
            if not record:
                break
            kind = 3
    path.write_bytes(data)


@pytest.mark.parametrize("library", ["events", "wandb", "mlflow", "table"])
def test_of_a_large_file_pieces_are_read(tmp_path: Path, library: str) -> None:
    logged = [(step, math.sin(step)) for step in range(1_200)]
    limit, name = 16 * 1024, "loss"
    if library == "events":
        _events(tmp_path / "events.out.tfevents.1.x", logged)
    elif library == "wandb":
        _wandb(tmp_path / "wandb/run-1/run-1.wandb", logged)
        limit = 128 * 1024
    elif library == "mlflow":
        folder = tmp_path / "mlruns/0/a/metrics"
        folder.mkdir(parents=True)
        (folder / "loss").write_text("".join(f"5000 {value} {step}\n" for step, value in logged))
    else:
        (tmp_path / "logs").mkdir()
        rows = "".join(f"{step},{value}\n" for step, value in logged)
        (tmp_path / "logs/t.csv").write_text(f"step,loss\n{rows}")
    assert len(history(tmp_path)[name].values) == 1_200
    found = history(tmp_path, limit_bytes=limit)[name]
    assert found.skipped_bytes > 0
    assert 100 < len(found.values) < 900
    assert found.steps[0] == 0
    assert found.steps[-1] == 1_199
    said = dict(logged)
    for step, value in zip(found.steps, found.values, strict=True):
        assert value == pytest.approx(said[int(step or 0)], rel=1e-6)


def test_all_files_share_one_limit(tmp_path: Path) -> None:
    for number in range(8):
        _events(tmp_path / f"run{number}/events.out.tfevents.1.x", [(step, 1.0) for step in range(150)])
    found = history(tmp_path, limit_bytes=32 * 1024)
    assert len(found) == 8
    assert 100 < sum(len(one.values) for one in found.values()) < 800


@settings(max_examples=20)
@given(name=st.sampled_from([EVENTS, WANDB]), data=st.data())
def test_any_damage_is_survived(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    content = bytearray((FIXTURES / name).read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("damage") / Path(name).name
    path.write_bytes(bytes(content))
    for one in history(path.parent, limit_bytes=data.draw(st.sampled_from([None, 512]))).values():
        assert len(one.steps) == len(one.values) == len(one.times)
        assert all(value is None or math.isfinite(value) for value in one.values)
