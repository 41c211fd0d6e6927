"""The needles that the cache keeps are those that are read off the patterns, whatever lies in the cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.remembered import branches_of

SOURCES = (r"\b(?:alpha beta|gamma)\b", r"ignore (?:all|any|previous) \w+", r"\x41bc", r"[^\w]{3,9}")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _rules() -> list[Rule]:
    return [Rule(source) for source in SOURCES]


def test_what_is_kept_is_what_is_read_off_the_patterns(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [rule.branches for rule in _rules()]
    assert branches_of(_rules()) == expected
    monkeypatch.setattr(Rule, "branches", property(lambda self: pytest.fail("it reads the pattern again")))
    assert branches_of(_rules()) == expected


@pytest.mark.parametrize(
    "value", [None, [], [1, 2, 3, 4], [[[["a"], []]]] * 4, [[[[[1]], None]]] * 4, [[[[["a"]], {"a": [1]}]]] * 4]
)
def test_what_is_damaged_is_computed_anew(cache: Path, value: object) -> None:
    expected = branches_of(_rules())
    (path,) = cache.glob("needles-*.json")
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), "value": value}), "utf-8")
    assert branches_of(_rules()) == expected


def test_other_rules_are_others(cache: Path) -> None:
    branches_of(_rules())
    fewer = _rules()[:2]
    assert branches_of(fewer) == [rule.branches for rule in fewer]
