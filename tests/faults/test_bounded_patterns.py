"""Every regular expression of the product costs what its text is long: none grows with the square or worse."""

# ruff: noqa: E501 - a table is one row

from __future__ import annotations

import importlib
import pkgutil
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import perpetual
from perpetual_immune.scanner import scan

PLUGINS = Path(__file__).parents[2] / "plugins"
SKIPPED = ("perpetual.testing", "perpetual_demo.train")
FAMILIES = ("1", "a", " ", ".", "-", "_", "a.", "a-", "a_1", "1.", '"', "'", "\\", "/", "=", "a=", "a: ", "[", "{", "<", "<a ",
            "\n", " \n", "&", "%41", "@", "a@", "://", "http://a", "aA0", "QUJD", "token_", "pass.", "key=", "x-",
            "-----BEGIN PRIVATE KEY-----", "0x41 ", "ignore ", "\t", "# ", "loss nan ", "a: 1", "1,", "\r", "é", "~")  # fmt: skip
WHOLE = (
    "(?P<name>[A-Za-z0-9][\\w.]*?)-(?P<version>",
    "(?:CUDA|NVIDIA|NCCL",
    r"\\.|\[\^?\]?",  # splits the scanner's own patterns
)  # matched with names of files and variables
SMALL, LARGE = 500, 2_000
NOTICED = 0.75  # of what a known quadratic pattern takes here: what takes less is no danger at that size


def _modules() -> Iterator[str]:
    yield from (found.name for found in pkgutil.walk_packages(perpetual.__path__, "perpetual."))
    for name in _packages():
        package = importlib.import_module(name)
        yield from (found.name for found in pkgutil.walk_packages(package.__path__, f"{name}."))


def _packages() -> list[str]:
    return sorted(found.parent.name for found in PLUGINS.glob("perpetual_*/__init__.py"))


def _patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(getattr(value, "expression", None), re.Pattern):
        yield value.expression  # of a rule, compiled when a text may match it
    elif depth < 4 and isinstance(value, (tuple, list, frozenset, set)):
        for item in value:
            yield from _patterns_in(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        for item in value.values():
            yield from _patterns_in(item, depth + 1)
    elif depth < 4 and hasattr(type(value), "__dataclass_fields__"):
        for name in type(value).__dataclass_fields__:
            yield from _patterns_in(getattr(value, name, None), depth + 1)


def _patterns() -> dict[tuple[Any, int], str]:
    """Every compiled pattern at a module's level, with a module that holds it."""
    found: dict[tuple[Any, int], str] = {}
    for name in _modules():
        if name.startswith(SKIPPED) or name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        for value in vars(module).values():
            for pattern in _patterns_in(value):
                found.setdefault((pattern.pattern, pattern.flags), name)
    return found


def _cost(pattern: re.Pattern[Any], text: Any) -> float:
    began = time.thread_time()
    if not _is_whole(pattern):
        for _ in pattern.finditer(text):
            pass
    pattern.match(text)
    pattern.fullmatch(text)
    return time.thread_time() - began


def _is_whole(pattern: re.Pattern[Any]) -> bool:
    """Whether it is one for a whole text, which nothing searches for within another."""
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    return text.endswith((r"\Z", "$")) or any(text.startswith(start) for start in WHOLE)


def _text(family: str, size: int, is_bytes: bool) -> Any:
    # An end that matches nothing makes a pattern that could go either way try all of them.
    text = (family * size)[:size] + "\x00"
    return text.encode() if is_bytes else text


@cache
def _noticed_s() -> float:
    """Seconds of CPU from which a pattern is looked at more closely: machines differ, so a known one is measured."""
    known = re.compile(r"\d+x")
    return NOTICED * min(_cost(known, _text("1", LARGE, is_bytes=False)) for _ in range(5))


def _grows(pattern: re.Pattern[Any], families: Iterable[str]) -> str | None:
    is_bytes = isinstance(pattern.pattern, bytes)
    for family in families:
        large = _cost(pattern, _text(family, LARGE, is_bytes))
        if large < _noticed_s():
            continue
        small = min(_cost(pattern, _text(family, SMALL, is_bytes)) for _ in range(3))
        large = min(large, _cost(pattern, _text(family, LARGE, is_bytes)))
        if large > _noticed_s() and large > 8 * small:  # four times the length: 4 for linear, 16 for quadratic
            return f"{family!r}: {small:.4f} s for {SMALL} characters, {large:.4f} s for {LARGE}"
    return None


@pytest.mark.slow
def test_no_pattern_grows_with_the_square() -> None:
    patterns = _patterns()
    assert len(patterns) > 100
    grown = {}
    for (text, flags), name in patterns.items():
        why = _grows(re.compile(text, flags), FAMILIES)
        if why is not None:
            grown[f"{name}: {text[:80]!r}"] = why
    assert not grown


def test_the_test_sees_a_pattern_that_grows() -> None:
    assert _grows(re.compile(r"\d+x"), ["1"])


@pytest.mark.slow
@pytest.mark.parametrize("family", ["\ufdfa", "\ufdfb", "ﷺ a", "㎨", "token_", "pass."])
def test_a_scan_costs_like_one_of_plain_letters(family: str) -> None:
    text = (family * 10_000)[:10_000]
    plain = "a" * len(unicodedata.normalize("NFKC", text))  # one letter may stand for five

    def cost(of: str) -> float:
        began = time.thread_time()
        scan(of)
        return time.thread_time() - began

    assert min(cost(text) for _ in range(3)) < 8 * min(cost(plain) for _ in range(3)) + 0.02
