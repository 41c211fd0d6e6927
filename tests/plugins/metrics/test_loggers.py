"""Files of training loggers, written by the real libraries (`written_by.txt` beside them), and what is made of them."""

from __future__ import annotations

import math
import os
import shutil
import struct
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.api import MetricValue, RunFolder
from perpetual_metrics.event_files import crc32c
from perpetual_metrics.loggers import build
from perpetual_metrics.wire import fields_of, float_of

FIXTURES = Path(__file__).parents[2] / "fixtures" / "loggers"
BINARY = {
    "runs/exp1/events.out.tfevents.1.host": (FIXTURES / "runs/exp1/events.out.tfevents.1.host").read_bytes(),
    "wandb/offline-run-1/run-kjtj2kp6.wandb": (FIXTURES / "wandb/offline-run-1/run-kjtj2kp6.wandb").read_bytes(),
}


def F(value: float) -> float:
    """The number in single precision, as event files keep it."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def read(cwd: Path, *, log_dir: Path | None = None, started_at_s: float = 0.0) -> Mapping[str, MetricValue]:
    return build({}).read(RunFolder(log_dir or cwd / "none", cwd, started_at_s))


def lay(tmp_path: Path, *names: str) -> Path:
    for name in names:
        shutil.copytree(FIXTURES / name, tmp_path / name)
    return tmp_path


def values(found: Mapping[str, MetricValue]) -> dict[str, float | None]:
    return {name: value.value for name, value in found.items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("runs", {"loss/train": F(0.2), "acc": F(0.4), "nan": None}),  # tensorboardX; its histogram and text are none
        ("tf2", {"train/epoch_loss": F(1 / 3), "validation/epoch_loss": F(2 / 3)}),  # tensors of TensorFlow 2
        ("wandb", {"val_loss": 0.2, "nested.acc": 0.4, "nan": None, "inf": None, "big": 1e20}),
        ("mlruns", {"acc": 0.9, "nan": None, "val/loss": 0.25}),
        ("lightning_logs", {"train_loss": 0.35, "val_acc": 0.75}),
        ("keras", {"accuracy": 0.625, "loss": 0.4, "val_accuracy": None}),
    ],
)
def test_the_last_value_of_each_name_is_read(tmp_path: Path, name: str, expected: Mapping[str, float | None]) -> None:
    found = read(lay(tmp_path, name))
    assert values(found) == expected
    for value in found.values():
        path, _, line = value.source.rpartition(":")
        assert (tmp_path / path).is_file()
        assert int(line) > 0


def test_a_file_of_an_earlier_run_is_not_this_one_s(tmp_path: Path) -> None:
    lay(tmp_path, "runs", "wandb", "mlruns", "keras")
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000, 1_000))
    assert values(read(tmp_path, started_at_s=time.time())) == {}


def test_the_run_s_own_folder_counts_first(tmp_path: Path) -> None:
    own, cwd = tmp_path / "own", tmp_path / "cwd"
    lay(cwd, "keras", "runs")
    (own / "tables").mkdir(parents=True)
    (own / "tables" / "t.csv").write_text("step,loss\n1,7\n")
    assert values(read(cwd, log_dir=own)) == {
        "loss": 7.0, "accuracy": 0.625, "val_accuracy": None, "loss/train": F(0.2), "acc": F(0.4), "nan": None,
    }  # fmt: skip


def test_two_runs_that_disagree_leave_a_name_out(tmp_path: Path) -> None:
    lay(tmp_path, "mlruns", "lightning_logs")
    shutil.copytree(tmp_path / "mlruns" / "0" / "ca51", tmp_path / "mlruns" / "0" / "ca52")
    (tmp_path / "mlruns" / "0" / "ca52" / "metrics" / "only").write_text("1 0.5 0\n")
    assert values(read(tmp_path)) == {"only": 0.5, "train_loss": 0.35, "val_acc": 0.75}


def test_other_tables_and_links_are_no_metrics(tmp_path: Path) -> None:
    (tmp_path / "predictions").mkdir()
    (tmp_path / "predictions" / "p.csv").write_text("id,score\n1,0.5\n")
    (tmp_path / "linked").symlink_to(FIXTURES)
    (tmp_path / "events.out.tfevents.1.x").symlink_to(FIXTURES / "runs/exp1/events.out.tfevents.1.host")
    os.mkfifo(tmp_path / "events.out.tfevents.2.x")
    assert values(read(tmp_path)) == {}


@pytest.mark.parametrize("name", BINARY)
def test_a_torn_file_has_what_came_before(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    whole = BINARY[name]
    seen = set()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        seen.add(len(read(tmp_path)))
    assert 0 in seen
    assert len(seen) > 1


@settings(max_examples=60)
@given(name=st.sampled_from([*BINARY]), data=st.data())
def test_any_damage_is_survived(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    content = bytearray(BINARY[name])
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=6)):
        content[place] ^= data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("damage")
    path = folder / name
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(content))
    for value in read(folder).values():
        assert value.value is None or math.isfinite(value.value)


def test_a_checksum_guards_each_number(tmp_path: Path) -> None:
    path = tmp_path / "events.out.tfevents.1.x"
    whole = bytearray(BINARY["runs/exp1/events.out.tfevents.1.host"])
    at = bytes(whole).index(b"loss/train") + 12
    whole[at] ^= 1  # of the first loss: what follows cannot be trusted either
    path.write_bytes(bytes(whole))
    assert values(read(tmp_path)) == {}
    assert crc32c(b"123456789") == 0xE3069283  # the check value of the standard


def test_a_huge_record_is_passed_over(tmp_path: Path) -> None:
    def masked(data: bytes) -> bytes:
        check = crc32c(data)
        return struct.pack("<I", ((check >> 15 | check << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", 70_000)
    picture = length + masked(length) + b"\0" * 70_004
    (tmp_path / "events.out.tfevents.1.x").write_bytes(picture + BINARY["runs/exp1/events.out.tfevents.1.host"])
    assert values(read(tmp_path))["acc"] == F(0.4)


def test_hostile_messages_end(tmp_path: Path) -> None:
    for data in (b"\xff" * 50, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b", b"\x0a", b"\x09\0"):
        with pytest.raises(ValueError):
            [*fields_of(data)]
    assert float_of(struct.pack("<f", 0.25)) == 0.25
    assert math.isnan(float_of(struct.pack("<f", math.nan)))
    assert math.isinf(float_of(struct.pack("<f", math.inf)))
    (tmp_path / "metrics").mkdir()
    deep = tmp_path.joinpath("mlruns", "0", "a", "metrics", *"bcdefghij")
    deep.mkdir(parents=True)
    (deep / "k").write_text("1 2 3\n")  # deeper than is looked
    (tmp_path / "mlruns" / "0" / "a" / "metrics" / "long").write_text("1 " + "9" * 10_000 + " 3\n")
    (tmp_path / "wide").mkdir()
    (tmp_path / "wide" / "w.csv").write_text("step," + "x" * 1_000_000 + "\n1,2\n")
    assert values(read(tmp_path)) == {"long": None}
