"""Checks of the doctor and sections of the status that plugins bring; and their suites, which bite."""

from __future__ import annotations

import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Check, Finding, Provider, Section, StatusSection, hookimpl
from perpetual.brief import render
from perpetual.cli.fastpath import status_text
from perpetual.registry import Registry
from perpetual.testing.sections import CheckContract, StatusSectionContract

TOKEN = "ghp_" + "a1B2" * 9
_MADE = ModuleType("acme_sections")


class Room(Check):
    def examine(self, lab: Lab) -> Finding:
        return Finding(True, "there is room")


class Open(StatusSection):
    def show(self, lab: Lab) -> Section | None:
        count = len(lab.hypotheses.list(status="open").items)
        return Section("Claims", [f"{count} open", f"\x1b[2Jtoken {TOKEN}"], {"open": count}) if count else None


class Raises(Check, StatusSection):
    def examine(self, lab: Lab) -> Finding:
        raise RuntimeError("no licence")

    def show(self, lab: Lab) -> Section | None:
        sys.exit(3)


class AnswersText(Check, StatusSection):
    def examine(self, lab: Lab) -> Finding:
        return "fine"  # type: ignore[return-value]

    def show(self, lab: Lab) -> Section | None:
        return "fine"  # type: ignore[return-value]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Registry]:
    monkeypatch.setitem(sys.modules, "acme_sections", _MADE)

    def made(slot: str, **classes: type[Any]) -> Registry:
        plugin = ModuleType("acme")
        for name, cls in classes.items():
            setattr(_MADE, name, lambda options, cls=cls: cls())
        offers = [Provider(slot=slot, name=name, factory=f"acme_sections:{name}") for name in classes]
        hook = "perpetual_checks" if slot == "check" else "perpetual_status_sections"
        setattr(plugin, hook, hookimpl(lambda: offers))
        return Registry(extra=[("acme", "acme", "1", lambda: plugin)])

    return made


def test_the_doctor_asks_the_checks_of_plugins(project: Path, registry: Callable[..., Registry]) -> None:
    plugins = registry("check", room=Room, licence=Raises, words=AnswersText)
    with Lab.open(registry=plugins) as lab:
        found = {item["check"]: item for item in lab.doctor()}
    assert found["room"] == {"check": "room", "ok": True, "detail": "there is room", "hint": None}
    assert (found["licence"]["ok"], found["licence"]["detail"]) == (
        False, "the check acme/licence failed: RuntimeError: no licence",
    )  # fmt: skip
    assert "answered a str instead of a Finding" in found["words"]["detail"]
    assert found["platform"]["ok"] is True


def test_the_status_shows_the_sections_of_plugins(project: Path, registry: Callable[..., Registry]) -> None:
    plugins = registry("status_section", claims=Open, exits=Raises, words=AnswersText)
    with Lab.open(registry=plugins) as lab:
        assert sorted(lab.status()["sections"]) == ["exits", "words"]
        lab.hypotheses.add("a claim")
        status = lab.status()
        shown = status["sections"]["claims"]
        assert (shown["title"], shown["data"], shown["error"]) == ("Claims", {"open": 1}, None)
        assert TOKEN not in json.dumps(status)
        assert status["sections"]["exits"]["error"] == "PartEnded: SystemExit: 3"
        assert "instead of a Section" in str(status["sections"]["words"]["error"])
        text = status_text(status)
        assert text.startswith(f"{status['project']}\n"), "the number of events says nothing to a person"
        assert "\nClaims:\n  1 open\n" in text
        assert "\nexits:\n  failed: PartEnded: SystemExit: 3\n" in text
        assert "\x1b" not in text
        brief = render(status)
        assert "- Claims: 1 open" in brief
        assert brief.index("- Claims: 1 open") > brief.index("<<")  # inside the fence
        assert lab.status() == status  # the kept one
    with Lab.open() as lab:
        lab.hypotheses.add("another")
        assert lab.status()["sections"] == {}


def test_the_report_holds_status_sections(project: Path, registry: Callable[..., Registry]) -> None:
    from perpetual_report.document import render as render_report

    with Lab.open(registry=registry("status_section", claims=Open, exits=Raises)) as lab:
        lab.hypotheses.add("a claim")
        text = render_report(lab)
    assert "## Claims\n\n- 1 open\n" in text
    assert "The section of exits failed" in text


# --- the suites bite ------------------------------------------------------------------------------------------------


class SaysNothing(Room):
    def examine(self, lab: Lab) -> Finding:
        return Finding(True, "two\nlines")


class NoWayOut(Room):
    def examine(self, lab: Lab) -> Finding:
        return Finding(False, "bad")


class Writes(Room, Open):
    def examine(self, lab: Lab) -> Finding:
        lab.hypotheses.add("looked at")
        return super().examine(lab)

    def show(self, lab: Lab) -> Section | None:
        (lab.root / ".perpetual" / "seen").write_text("x")
        return None


class Sleeps(Room):
    def examine(self, lab: Lab) -> Finding:
        time.sleep(0.2)
        return super().examine(lab)

    def show(self, lab: Lab) -> Section | None:
        time.sleep(0.2)
        return None


class Whole(StatusSection):
    def show(self, lab: Lab) -> Section | None:
        return Section("Claims", ["1 open"], {"open": 1})


class TooMuch(Whole):
    def show(self, lab: Lab) -> Section | None:
        return Section("Claims", ["x"] * 50)


class NotANumber(Whole):
    def show(self, lab: Lab) -> Section | None:
        return Section("Claims", [], {"mean": float("nan")})


class Clock(Whole):
    def show(self, lab: Lab) -> Section | None:
        return Section("Claims", [str(time.monotonic_ns())])


BROKEN: list[tuple[type[Any], type[Any], type[Any], str]] = [
    (CheckContract, Room, AnswersText, "test_it_answers_a_finding"),
    (CheckContract, Room, SaysNothing, "test_it_answers_a_finding"),
    (CheckContract, Room, NoWayOut, "test_a_problem_has_a_way_out"),
    (CheckContract, Room, Writes, "test_it_changes_nothing"),
    (CheckContract, Room, Sleeps, "test_it_is_quick"),
    (StatusSectionContract, Whole, AnswersText, "test_it_answers_a_section_or_nothing"),
    (StatusSectionContract, Whole, TooMuch, "test_it_answers_a_section_or_nothing"),
    (StatusSectionContract, Whole, NotANumber, "test_its_data_are_json"),
    (StatusSectionContract, Whole, Clock, "test_the_same_record_gives_the_same_section"),
    (StatusSectionContract, Whole, Writes, "test_it_changes_nothing"),
    (StatusSectionContract, Whole, Sleeps, "test_it_is_quick"),
]  # fmt: skip


@pytest.fixture
def used(project: Path) -> Iterator[Lab]:
    with Lab.open() as lab:
        lab.hypotheses.add("a claim")
        yield lab


@pytest.mark.parametrize(("suite", "whole", "twin", "name"), BROKEN)
def test_a_twin_with_one_broken_promise_fails(
    used: Lab, suite: type[Any], whole: type[Any], twin: type[Any], name: str
) -> None:
    test = getattr(type("Quick", (suite,), {"most_s": 0.15})(), name)
    test(whole(), used)
    with pytest.raises((AssertionError, ValueError)):
        test(twin(), used)


def test_there_is_a_twin_for_every_promise() -> None:
    for suite in (CheckContract, StatusSectionContract):
        promises = {name for name, _ in inspect.getmembers(suite, inspect.isfunction) if name.startswith("test_")}
        assert {name for found, _, _, name in BROKEN if found is suite} == promises
