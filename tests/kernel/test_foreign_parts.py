"""Parts of other distributions: they shadow nothing that is bundled, and one that fails or exits fails alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import MetricReader, MetricValue, PerpetualError, Provider, hookimpl
from perpetual.errors import PluginError, UsageError
from perpetual.registry import Registry

_PARTS = ModuleType("foreign_parts")
_HOOKS = {"gate": "perpetual_gates", "metric_reader": "perpetual_metric_readers", "analyser": "perpetual_analysers",
          "report_section": "perpetual_report_sections", "proposer": "perpetual_proposers", "store": "perpetual_stores",
          "command": "perpetual_commands"}  # fmt: skip


class _Gate:
    def scan(self, text: str, provenance: object) -> object:
        from perpetual.api import GateVerdict

        return GateVerdict("pass")

    def redact(self, text: str, verdict: object) -> str:
        return text


class _Reader(MetricReader):
    def read(self, folder: object) -> dict[str, MetricValue]:
        return {"acc": MetricValue(0.001, "theirs"), "extra": MetricValue(1.0, "theirs")}


class _Exits:
    def __getattr__(self, name: str) -> Any:
        def leave(*args: object) -> None:
            sys.exit(f"{name} leaves")

        return leave

    def __call__(self, lab: object) -> str:
        sys.exit("the section leaves")


class _Answers:
    def scan(self, text: str, provenance: object) -> None:
        return None

    def redact(self, text: str, verdict: object) -> str:
        return text


def _licence(options: object) -> None:
    raise RuntimeError("no licence")


def _leaves(options: object) -> None:
    sys.exit(7)


for _name, _factory in {"gate": _Gate, "reader": _Reader, "exits": _Exits, "answers": _Answers}.items():
    setattr(_PARTS, _name, lambda options, made=_factory: made())
_PARTS.licence, _PARTS.leaves = _licence, _leaves  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "foreign_parts", _PARTS)


def _plugin(slot: str, name: str, factory: str, order: int = -100) -> tuple[str, str, str, Callable[[], object]]:
    def answer(self: object) -> list[Provider]:
        return [Provider(slot, name, f"foreign_parts:{factory}", order=order)]

    answer.__name__ = _HOOKS[slot]
    return "acme", f"p-{slot}-{name}", "1.2", type("Plugin", (), {_HOOKS[slot]: hookimpl(answer)})


@contextmanager
def _with(lab: Lab, *plugins: Any, disabled: tuple[str, ...] = ()) -> Iterator[Lab]:
    lab.close()
    with Lab.open(lab.root, registry=Registry(disabled, extra=plugins)) as opened:
        yield opened


def _measured(lab: Lab) -> Any:
    experiment = lab.experiments.propose(command="sh -c 'echo acc=9'", metric="acc", direction="max", wall_s=60.0)
    lab.experiments.approve(experiment.id)
    run = lab.runs.launch(experiment.id)[0]
    assert lab.wait([run.id], timeout_s=60.0)
    lab.loop.analyse()
    return lab.runs.get(run.id)


def test_a_reader_of_a_bundled_name_replaces_no_value(lab: Lab) -> None:
    with _with(lab, _plugin("metric_reader", "results-file", "reader")) as opened:
        run = _measured(opened)
        assert dict(run.metrics) == {"acc": 9.0, "extra": 1.0}
        assert "acme/results-file reads another acc" in str(run.annotations)


def test_a_gate_of_a_bundled_name_is_not_the_required_one(lab: Lab) -> None:
    with _with(lab, _plugin("gate", "immune", "gate"), disabled=("perpetual-lab/immune",)) as opened:
        with pytest.raises(PluginError, match="is required and is not active"):
            opened.memory.write("a.md", "x")
        assert [problem["name"] for problem in opened.inventory().problems()] == ["immune"]


def test_settings_take_no_name_that_is_unclear(lab: Lab) -> None:
    two = [_plugin("gate", "pii", "gate"), ("other", *_plugin("gate", "pii", "gate")[1:])]
    with _with(lab, *two) as opened:
        with pytest.raises(UsageError, match="is offered by"):
            opened.settings.set_methodology("required_gates", "immune,pii")
        with pytest.raises(UsageError, match="nothing"):
            opened.settings.set_methodology("required_gates", "nothing")
        opened.settings.set_methodology("required_gates", "immune,acme/pii")
        opened.memory.write("a.md", "x")


@pytest.mark.parametrize("factory", ["licence", "leaves", "exits"])
def test_readers_analysers_sections_and_proposers_fail_alone(lab: Lab, factory: str) -> None:
    slots = ("metric_reader", "analyser", "report_section", "proposer")
    with _with(lab, *(_plugin(slot, "bad", factory) for slot in slots)) as opened:
        run = _measured(opened)
        assert run.metrics["acc"] == 9.0
        assert "acme/bad" in str(run.annotations)
        opened.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0, params={"lr": [0.1]})
        opened.loop.propose()
        assert [row.body["subject"] for row in opened.context.store.find("event", kind="proposer_failed")] == [
            "acme/bad"
        ]
        from perpetual_report.document import sections_of

        assert "acme/bad" in str(sections_of(opened))


@pytest.mark.parametrize("factory", ["licence", "leaves", "exits", "answers"])
def test_a_gate_that_fails_refuses_the_note(lab: Lab, factory: str) -> None:
    with _with(lab, _plugin("gate", "bad", factory)) as opened, pytest.raises(PerpetualError) as refused:
        opened.memory.write("a.md", "x")
    assert "acme/bad" in refused.value.message


def test_a_hook_that_exits_is_a_failed_plugin() -> None:
    class Leaving:
        @hookimpl
        def perpetual_gates(self) -> list[Provider]:
            sys.exit("bye")

        @hookimpl
        def perpetual_event(self, event: object) -> None:
            sys.exit("bye")

    (info,) = [one for one in Registry(extra=[("acme", "leaving", "1", Leaving)]).plugins if one.name == "leaving"]
    assert info.state == "failed"
    assert "SystemExit: bye" in str(info.reason)


def test_an_observer_that_exits_is_named(lab: Lab) -> None:
    class Leaving:
        @hookimpl
        def perpetual_event(self, event: object) -> None:
            sys.exit("bye")

    with _with(lab, ("acme", "leaving", "1", Leaving)) as opened:
        opened.hypotheses.add("a claim")
        opened.scan()
        assert "SystemExit: bye" in str(opened.feed.failing())


def test_a_command_of_a_bundled_name_has_its_full_name(lab: Lab, tmp_path: Path) -> None:
    registry = Registry(extra=[_plugin("command", "adopt", "gate"), _plugin("command", "status", "gate")])
    names = {offer.qualified_name: offer.name for offer in registry.serving("command")}
    assert names["acme/adopt"] == "acme/adopt"
    assert names["acme/status"] == "acme/status"
    assert names["perpetual-lab/adopt"] == "adopt"
