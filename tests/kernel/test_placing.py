"""The placement in force: a scheduler's own comes before the one that the configuration chooses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import EnginePlacement, Lease, PlacementRequest, PlacementView, Run, Survey, Waits
from tests.support import until


class Nodes(EnginePlacement):
    """A cluster with two GPUs, of which it leases one at a time."""

    def survey(self, view: PlacementView) -> Survey:
        return _OneNode()

    def environment(self, view: PlacementView, gpus: Sequence[str], numbers: Sequence[int | None]) -> dict[str, str]:
        return {"NODE_GPUS": ",".join(gpus)}


class _OneNode(Survey):
    is_asked = True

    def ask(self) -> None:
        raise AssertionError("a survey that is asked is asked again")

    def check(self, request: PlacementRequest) -> None:
        return

    def reserve(self, view: PlacementView, request: PlacementRequest, *, take: bool) -> Lease | Waits:
        held = [run.run_id for run in view.live() if run.gpus]
        return Waits(f"{held[0]} has the node") if held else Lease(("node-7",), (None,))


def test_a_scheduler_offers_its_own(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab.open(project) as lab:
        lab.settings.set_methodology("max_concurrent_runs", "4")
        monkeypatch.setattr(lab.part("scheduler"), "placement", Nodes, raising=False)
        runs: list[Run] = []
        for command in ("sh -c 'echo $NODE_GPUS; sleep 60'", "sleep 60"):
            made = lab.experiments.propose(command=command, title=command, wall_s=90.0, gpus=1)
            runs += lab.runs.launch(lab.experiments.approve(made.id).id)
        try:
            assert [(run.status, run.gpus, run.reason) for run in runs] == [
                ("running", ("node-7",), None), ("queued", (), "r1 has the node"),
            ]  # fmt: skip
            until(lambda: (lab.runs.log_dir("r1") / "stdout.log").read_text() == "node-7\n")
        finally:
            for run in runs[::-1]:
                lab.runs.kill(run.id, grace_s=0.0)
