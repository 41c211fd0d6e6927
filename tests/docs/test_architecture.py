"""The pages on architecture and faults name files, functions and layers that there are."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "design" / "architecture.md"
_PATH = re.compile(r"`((?:perpetual|plugins|harness_templates)/[\w/*]*(?:\.py)?)`")
# A file, and after it the functions that the sentence names in it.
_NAMED = re.compile(r"`((?:perpetual|plugins)/[\w/]+\.py)`,((?: (?:and )?`[A-Za-z_.]+`,?)+)")
_LEAST_CHANGES = 20


def _names(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def _wrong(text: str) -> Iterator[str]:
    for path in _PATH.findall(text):
        if not list(ROOT.glob(path.rstrip("/"))):
            yield f"{path} is not there"
    for path, names in _NAMED.findall(text):
        known = _names(ROOT / path)
        yield from (f"{path} has no {name}" for name in re.findall(r"`([^`]+)`", names) if name not in known)


def test_every_name_on_the_page_exists() -> None:
    text = PAGE.read_text()
    assert len(_PATH.findall(text)) > 40
    assert len(_NAMED.findall(text)) >= 12
    assert [*_wrong(text)] == []


def test_the_page_lists_every_layer() -> None:
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter")
    modules = set(re.findall(r"\w+", contract["importlinter:contract:nouns"]["layers"]))
    table = PAGE.read_text().partition("| layer |")[2].partition("## ")[0]
    small = {"broken_part", "evidence_rules", "isolated_parts", "lost_store", "move_records", "plugin_kinds",
             "protected_keys", "schema_upgrades"}  # fmt: skip
    assert modules - small - set(re.findall(r"\w+", table)) == set()


def test_the_page_has_enough_changes() -> None:
    rows = PAGE.read_text().partition("| to change |")[2].strip().splitlines()
    assert len([row for row in rows if row.startswith("| ")]) >= _LEAST_CHANGES


def test_the_check_of_names_notices_a_wrong_one() -> None:
    planted = "`perpetual/lab/nowhere.py` and `perpetual/lab/hypotheses.py`, `Hypotheses.adopt`"
    found = ["perpetual/lab/nowhere.py is not there", "perpetual/lab/hypotheses.py has no Hypotheses.adopt"]
    assert [*_wrong(planted)] == found


def test_the_page_of_faults_lists_every_numbered_file() -> None:
    page = (ROOT / "docs" / "design" / "faults.md").read_text()
    there = {path.name for path in (ROOT / "tests" / "faults").glob("test_[0-9]*.py")}
    assert len(there) > 15
    assert set(re.findall(r"`(test_[0-9]\w+\.py)`", page)) == there
