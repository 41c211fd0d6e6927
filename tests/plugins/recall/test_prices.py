"""The contract suite of pricers fails on each one that breaks one promise, and on no other; the order of worth."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.registry import Registry
from perpetual_devkit.authoring import new_plugin
from perpetual_recall.price import Price, Pricer, Prices, order
from perpetual_recall.testing.prices import MEASURED, UNMEASURED, PricerContract

NAMES = [name for name, _ in inspect.getmembers(PricerContract, inspect.isfunction) if name.startswith("test_")]
PRICE = Price(0.2, 0.1, 0.3, 20, 40.0)


class Listed(Pricer):
    """Prices the versions that it was given."""

    def __init__(self) -> None:
        self.listed: dict[tuple[str, str], Price] = {}

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        return {version: price for version, price in self.listed.items() if paths is None or version[0] in paths}


class Zeros(Listed):
    """Takes what is not known for 0."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        note = lab.memory.get(UNMEASURED)
        known = {**self.listed, (note.path, note.blob): Price(0.0, 0.0, 0.0, 1, 40.0)}
        return {version: price for version, price in known.items() if paths is None or version[0] in paths}


class OfPaths(Listed):
    """Prices the newest version by what an earlier one earned."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        return {(path, lab.memory.get(path).blob): it for (path, _), it in super().prices(lab, paths).items()}


class Boundless(Listed):
    """Answers an interval beyond the range of a score."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        return {version: replace(it, high=float("inf")) for version, it in super().prices(lab, paths).items()}


class Free(Listed):
    """Answers notes that take no token."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        return {version: replace(it, tokens=0.0) for version, it in super().prices(lab, paths).items()}


class Generous(Listed):
    """Answers for every note, whichever were asked for."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        return self.listed


class Writes(Listed):
    """Keeps in the record that it was asked."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        lab.hypotheses.add("prices were asked for")
        return super().prices(lab, paths)


class Moody(Listed):
    """Finds an uplift of its own each time."""

    def prices(self, lab: Lab, paths: Collection[str] | None = None) -> Prices:
        self.count = getattr(self, "count", 0) + (paths is None)
        return {version: replace(it, pairs=self.count) for version, it in super().prices(lab, paths).items()}


BROKEN: dict[type[Listed], set[str]] = {
    Listed: set(),
    Zeros: {"test_what_was_not_measured_has_no_price"},
    OfPaths: {"test_a_changed_note_has_no_price"},
    Boundless: {"test_a_price_holds_numbers_that_can_be"},
    Free: {"test_a_price_holds_numbers_that_can_be"},
    Generous: {"test_it_answers_for_the_notes_that_are_asked_for"},
    Writes: {"test_the_record_is_not_changed"},
    Moody: {"test_the_same_record_gives_the_same_prices"},
}


class Suite(PricerContract):
    """The suite, of a pricer that is given its prices."""

    def __init__(self, pricer: Listed) -> None:
        self.pricer = pricer

    def measure(self, lab: Lab) -> None:
        self.pricer.listed = {(path, lab.memory.get(path).blob): PRICE for path in MEASURED}


def failing(kind: type[Listed], folder: Path) -> set[str]:
    """The tests of the suite that a pricer fails, one after another in one lab; the one that writes comes last."""
    pricer, found = kind(), set()
    suite = Suite(pricer)
    with Lab.init(folder, name="contract") as lab:
        suite.filled(lab)
        for name in sorted(NAMES, key=lambda name: name == "test_a_changed_note_has_no_price"):
            try:
                getattr(suite, name)(pricer, lab)
            except AssertionError:
                found.add(name)
    return found


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Listed], tmp_path: Path) -> None:
    assert failing(kind, tmp_path / "project") == BROKEN[kind]


def test_every_test_of_the_suite_has_a_pricer_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == {*NAMES}


@pytest.mark.slow
def test_a_new_pricer_passes_its_tests(tmp_path: Path) -> None:
    made = new_plugin("listed", "price", tmp_path, slots=Registry().slots)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--import-mode=importlib",
         "--rootdir", made.path, "-c", os.devnull, made.path],
        cwd=made.path, env={**os.environ, "PYTHONPATH": made.path}, capture_output=True, text=True, timeout=110,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_worth_is_ordered_by_what_the_interval_leaves_for_certain() -> None:
    ordered: list[Price | None] = [
        Price(0.3, 0.1, 0.4, 20, 50.0),  # helps, +2 for 1,000 tokens
        Price(0.4, 0.2, 0.6, 20, 400.0),  # helps more, +0.5 for 1,000 tokens
        Price(0.1, -0.1, 0.3, 20, 10.0),
        Price(0.3, -0.2, 0.9, 5, 1000.0),  # more tokens do not make a loss a smaller one
        None,
        Price(-0.2, -0.4, -0.1, 9, 50.0),
        Price(-0.5, -0.7, -0.3, 9, 50.0),
    ]
    assert sorted(ordered[4:] + ordered[:4], key=order) == ordered
