"""Histories and progress of foreign parts: checked, contained, and no obstacle to the bundled ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from perpetual import Lab
from perpetual.api import (
    MetricHistory,
    MetricReader,
    MetricValue,
    PerpetualError,
    Provider,
    RunFolder,
    Section,
    StatusSection,
    hookimpl,
)
from perpetual.registry import Registry

_PARTS = ModuleType("foreign_histories")


class _Reader(MetricReader):
    """Answers what it was made with, or does it."""

    def __init__(self, answer: Callable[[], object]) -> None:
        self._answer = answer

    def read(self, folder: RunFolder) -> Mapping[str, MetricValue]:
        return {}

    def history(
        self, folder: RunFolder, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> Mapping[str, MetricHistory]:
        return cast("Mapping[str, MetricHistory]", self._answer())


class _Progress(StatusSection):
    def __init__(self, answer: Callable[[], object]) -> None:
        self._answer = answer

    def show(self, lab: Lab) -> Section | None:
        return None

    def progress(self, lab: Lab, run_ids: Sequence[str]) -> Mapping[str, Mapping[str, object]]:
        return cast("Mapping[str, Mapping[str, object]]", self._answer())


def _history(values: list[Any], steps: list[Any] | None = None) -> MetricHistory:
    places = [*range(len(values))] if steps is None else steps
    return MetricHistory("step", places, values, [None] * len(values), "theirs", 0.0)


class _Plugin:
    @hookimpl
    def perpetual_metric_readers(self) -> list[Provider]:
        return [Provider("metric_reader", "theirs", "foreign_histories:reader", order=-100)]

    @hookimpl
    def perpetual_status_sections(self) -> list[Provider]:
        return [Provider("status_section", "theirs", "foreign_histories:section", order=-100)]


@pytest.fixture
def measured(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], Lab]]:
    """Opens the lab with a foreign reader and section that answer so; r1 has logged `acc` twice."""
    monkeypatch.setitem(sys.modules, "foreign_histories", _PARTS)
    code = "import perpetual; perpetual.log(step=1, acc=0.5); perpetual.log(step=2, acc=0.75)"
    with Lab.open(project) as lab:
        made = lab.experiments.propose(command=f'{sys.executable} -c "{code}"', metric="acc", wall_s=60.0)
        lab.experiments.approve(made.id)
        lab.runs.launch(made.id)
        lab.wait([made.id], timeout_s=60)
    opened: list[Lab] = []

    def given(answer: Callable[[], object]) -> Lab:
        _PARTS.reader = lambda options: _Reader(answer)  # type: ignore[attr-defined]
        _PARTS.section = lambda options: _Progress(answer)  # type: ignore[attr-defined]
        opened.append(Lab.open(project, registry=Registry((), extra=[("acme", "p-theirs", "1.0", _Plugin)])))
        return opened[-1]

    yield given
    for lab in opened:
        lab.close()


def test_a_foreign_history_replaces_none_and_is_checked(measured: Callable[..., Lab]) -> None:
    odd = [1, 2.5, float("nan"), float("inf"), 1e200, 10**400, None]
    lab = measured(
        lambda: {"acc": _history([9.0, 9.0]), "extra": _history(odd), "bad\x1b": _history([1.0]), "": _history([1.0])}
    )
    found = lab.runs.curves("r1")
    assert {name: [*one.values] for name, one in found.items()} == {
        "acc": [0.5, 0.75],
        "extra": [1, 2.5, None, None, None, None, None],
    }


@pytest.mark.parametrize(
    "answer",
    [
        lambda: sys.exit("leaves"),
        lambda: 1 / 0,
        lambda: {"x": _history([1.0], [1, 2])},
        lambda: {"x": _history(["text"])},
        lambda: {"x": "none"},
        lambda: None,
        lambda: {3: _history([1.0])},
    ],
)
def test_a_foreign_part_that_fails_hides_no_other(measured: Callable[..., Lab], answer: Callable[[], object]) -> None:
    lab = measured(answer)
    assert [*lab.runs.curves("r1")] == ["acc"]
    assert lab.progress(["r1"]) == {}
    assert lab.status()["runs"]["active"] == []


def test_what_nothing_can_read_is_an_error_with_a_way_out(measured: Callable[..., Lab]) -> None:
    lab = measured(lambda: 1 / 0)
    (lab.runs.log_dir("r1") / "metrics.jsonl").unlink()
    with pytest.raises(PerpetualError, match="the values of r1 cannot be read") as caught:
        lab.runs.curves("r1")
    assert caught.value.hint == "perpetual logs r1"


def test_foreign_progress_is_json_or_nothing(measured: Callable[..., Lab]) -> None:
    assert measured(lambda: {"r1": {"step": 3}}).progress(["r1"]) == {"r1": {"step": 3}}
    assert measured(lambda: {"r1": {"step": object()}}).progress(["r1"]) == {}
