"""MLflow runs that differ in the seed alone are replicates of one experiment, and can be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.comparison import compare

EXPERIMENT = (
    "artifact_location: x\ncreation_time: 1700000000000\nexperiment_id: '1'\nlifecycle_stage: active\nname: mlp\n"
)
_NUMBER = iter(range(1, 1000))


def logged(params: dict[str, object], value: float, **tags: str) -> None:
    """Writes an ended run of the file store."""
    root = Path("mlruns") / "1"
    root.mkdir(parents=True, exist_ok=True)
    (root / "meta.yaml").write_text(EXPERIMENT)
    number = next(_NUMBER)
    folder = root / f"{number:032x}"
    for name in ("params", "metrics", "tags"):
        (folder / name).mkdir(parents=True)
    started = 1700000000000 + number * 1000
    (folder / "meta.yaml").write_text(
        f"artifact_uri: x\nend_time: {started + 500}\nentry_point_name: ''\nexperiment_id: '1'\n"
        f"lifecycle_stage: active\nrun_id: {folder.name}\nrun_name: run-{number}\nsource_name: ''\nsource_type: 4\n"
        f"source_version: ''\nstart_time: {started}\nstatus: 3\ntags: []\nuser_id: me\n"
    )
    for name, text in params.items():
        (folder / "params" / name).write_text(str(text))
    for name, text in tags.items():
        (folder / "tags" / name).write_text(text)
    (folder / "metrics" / "acc").write_text(f"{started} {value} 0\n")


def adopted() -> list[tuple[dict[str, object], list[int | None]]]:
    """Each adopted experiment's configuration, and the seeds of its runs."""
    assert run(["adopt", "--metric", "acc"]) == 0
    with Lab.open() as lab:
        return [
            (dict(item.config), sorted((r.seed for r in lab.runs.list(experiment_id=item.id).items), key=str))
            for item in sorted(lab.experiments.list().items, key=lambda item: int(item.id[1:]))
        ]


def test_seeds_become_replicates_that_can_be_compared(project: Path) -> None:
    for lr, value in ((0.1, 0.8), (0.2, 0.9)):
        for seed in (1, 2, 3):
            logged({"lr": lr, "seed": seed}, value + seed / 1000 + lr * seed**2 / 1000)
    assert adopted() == [({"lr": "0.1"}, [1, 2, 3]), ({"lr": "0.2"}, [1, 2, 3])]
    with Lab.open() as lab:
        found = compare(lab, ["e1", "e2"])
        assert lab.evidence.refold(check=True) == []
    assert [arm["left_out"] for arm in found["arms"]] == [[], []]
    (pair,) = found["pairs"]
    assert (pair["n_a"], pair["paired"], pair["better"]) == (3, True, "e2")
    assert any("no evidence" in note for note in found["notes"])
    # A later look finds one more seed, and puts it where its like is.
    logged({"lr": 0.2, "seed": 4}, 0.9)
    assert adopted() == [({"lr": "0.1"}, [1, 2, 3]), ({"lr": "0.2"}, [1, 2, 3, 4])]


@pytest.mark.parametrize(
    ("one", "other", "tags"),
    [
        ({"lr": 1, "seed": 1}, {"lr": 1, "seed": 1}, {}),  # no further draw
        ({"lr": 1}, {"lr": 1}, {}),  # nothing says that they are two draws
        ({"lr": 1, "seed": 1}, {"lr": 2, "seed": 2}, {}),
        ({"lr": 1, "seed": 1}, {"lr": 1, "random_state": 2}, {}),
        ({"lr": 1, "seed": 1}, {"lr": 1, "seed": 2}, {"mlflow.source.git.commit": "b" * 40}),
        ({"lr": 1, "seed": 1}, {"lr": 1, "seed": 2}, {"variant": "wide"}),
        ({"lr": 1, "seed": 1, "data_seed": 1}, {"lr": 1, "seed": 2, "data_seed": 2}, {}),
    ],
)
def test_runs_that_differ_in_more_or_in_nothing_stay_apart(
    project: Path, one: dict[str, object], other: dict[str, object], tags: dict[str, str]
) -> None:
    logged(one, 0.5)
    logged(other, 0.6, **tags)
    assert [len(seeds) for _, seeds in adopted()] == [1, 1]
    with Lab.open() as lab:
        found = compare(lab, ["e1", "e2"])
    assert not any(arm["left_out"] for arm in found["arms"])
    assert found["pairs"][0]["verdict"] == "not separable at this n (1 and 1)"
