"""Runs whose supervisor cannot be seen from here, as from another pid namespace: they are looked at now and then."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual_local.scheduler import LocalScheduler
from perpetual_supervisor import rundir
from tests.faults.supervised import Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the whole supervisor is Linux only")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """Where the runs live."""
    made = Bench(tmp_path)
    yield made
    made.close()


def test_waiting_for_any_does_not_keep_a_processor_busy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while another run is waited for whose supervisor is seen; and the end of either is noticed."""
    unseen = bench.shell("read x < $GATE", name="unseen")
    seen = bench.shell("read x < $GATE", name="seen")
    path = bench.folder / "unseen" / "started.json"
    true_record = path.read_text()
    record = json.loads(true_record)
    record["supervisor"]["start_ticks"] += 1
    path.write_text(json.dumps(record))
    runs = [(unseen.native_id, bench.folder / "unseen"), (seen.native_id, bench.folder / "seen")]
    looks: list[Path] = []
    observe = rundir.observe

    def counted(folder: Path) -> rundir.Observation:
        looks.append(folder)
        return observe(folder)

    monkeypatch.setattr(rundir, "observe", counted)
    scheduler = LocalScheduler(max_log_bytes=1 << 20, unseen_poll_s=0.2)
    for watched in (runs, runs[:1]):
        looks.clear()
        assert scheduler.wait_any(watched, 0.5) == []
        assert len(looks) <= 2 * 5, f"it looked {len(looks)} times in half a second"
    bench.open("unseen")
    assert bench.scheduler.wait_any(runs, 30.0) == [0]
    bench.open("seen")
    assert bench.scheduler.wait_any(runs[1:], 30.0) == [0]
    path.write_text(true_record)
