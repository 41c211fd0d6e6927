"""`perpetual gpu-status`: inside and outside of projects, watched, with `--safe`, and without its plugin."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_gpus import command


def ask(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """Returns the exit code and the document of a command."""
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("options", [(), ("--safe",)])
def test_gpu_status_answers_outside_of_a_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERPETUAL_GPUS", "none")
    code, answer = ask(capsys, *options, "gpu-status")
    assert code == 0
    assert {**answer, "reason": bool(answer["reason"])} == {
        "schema": "perpetual.gpu_status/1", "driver": None, "gpus": [], "reason": True, "transient": False,
    }  # fmt: skip


def test_gpu_status_says_that_its_plugin_is_missing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask(capsys, "config", "set", "plugins.disabled", "gpus")
    assert run(["gpu-status"]) == 2
    assert "no plugin that is loaded offers 'gpu-status'" in capsys.readouterr().err
    assert run(["status"]) == 0


def test_gpu_status_names_the_live_runs_that_hold_a_device(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import perpetual_nvml.devices
    from perpetual.api import Gpu, GpuBackend, GpuProcess, GpuReading

    def device(index: int, processes: tuple[GpuProcess, ...], error: str | None) -> Gpu:
        used = sum(process.memory_bytes or 0 for process in processes)
        return Gpu(index, f"GPU-{index}", "H100", 80 * 2**30, used, 80 * 2**30 - used, 55.0, 60.0, 300.0, "default",
                   processes, error is None, error)  # fmt: skip

    class Two(GpuBackend):
        def read(self, deadline_s: float = 5.0) -> GpuReading:
            theirs = GpuProcess(4001, 10 * 2**30, "ann", "python\x1b[31m")
            return GpuReading("595.10", (device(0, (), None), device(1, (theirs,), "XID 79")), None)

    monkeypatch.setattr(perpetual_nvml.devices, "build", lambda options: Two())
    with Lab.open(project) as lab:
        experiment = lab.experiments.propose(lab.hypotheses.add("wider is better").id, command="sleep 60", gpus=1)
        lab.experiments.approve(experiment.id)
        (started,) = lab.runs.launch(experiment.id)
        try:
            code, answer = ask(capsys, "gpu-status")
            assert run(["gpu-status"]) == 0
            shown = capsys.readouterr().out
        finally:
            lab.runs.kill(started.id, grace_s=0.0)
    assert (code, answer["driver"], answer["reason"]) == (0, "595.10", None)
    assert [gpu["run_ids"] for gpu in answer["gpus"]] == [[started.id], []]
    assert [gpu["healthy"] for gpu in answer["gpus"]] == [True, False]
    assert answer["gpus"][1]["processes"][0]["pid"] == 4001
    assert "10.0 / 80.0 GiB" in shown
    assert "sick: XID 79" in shown
    assert [gpu["run_ids"] for gpu in ask(capsys, "gpu-status")[1]["gpus"]] == [[], []]


def test_gpu_status_goes_on_until_it_is_interrupted(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=pause))  # threads of other tests sleep too
    ask(capsys, "config", "set", "gpus", "none")
    capsys.readouterr()
    assert run(["gpu-status", "--watch", "--json"]) == 130
    *documents, error = map(json.loads, capsys.readouterr().out.splitlines())
    assert [document["schema"] for document in documents] == ["perpetual.gpu_status/1"] * 3
    assert error["error"]["code"] == "interrupted"
