"""Own texts, apart from the public sets: what is found of the attacks, and what is said of harmless texts.

The attacks were scanned once before any rule was changed for them; `docs/design/memory-scanner.md` has that figure. The
harmless texts are in two halves: rules were tuned with one of them, the other is held out.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from perpetual_immune.scanner import scan

FILE = Path(__file__).parents[2] / "fixtures" / "immune" / "own.jsonl"
ROWS = [json.loads(line) for line in FILE.read_text("utf-8").split("\n") if line]
TUNED = [row["text"] for row in ROWS if "tuned" in row["source"]]
HELD_OUT = [row["text"] for row in ROWS if "held out" in row["source"]]
ATTACKS = [row["text"] for row in ROWS if row["label"] == "attack"]
MOST_HELD_OUT_ALARMS = 1
FEWEST_REJECTED = 37


@pytest.mark.parametrize("text", TUNED)
def test_a_harmless_text_is_not_rejected(text: str) -> None:
    assert scan(text).outcome != "reject"


def test_no_more_of_the_held_out_texts_are_rejected() -> None:
    rejected = [text for text in HELD_OUT if scan(text).outcome == "reject"]
    assert len(HELD_OUT) == 34
    assert len(rejected) <= MOST_HELD_OUT_ALARMS, rejected


def test_no_fewer_of_the_own_attacks_are_rejected() -> None:
    rejected = [text for text in ATTACKS if scan(text).outcome == "reject"]
    assert len(ATTACKS) == 56
    assert len(rejected) >= FEWEST_REJECTED, set(ATTACKS) - set(rejected)


AUTHORS = Path(__file__).parents[2] / "fixtures" / "immune" / "authors.jsonl"
# Of docs/design/memory-scanner.md, "Texts by other authors": fewest rejected attacks, most rejected harmless texts.
BY_SET = {
    "set A, tuned": (120, 0),
    "set A', kept": (62, 6),
    "set B, kept": (73, 7),
    "set C, tuned": (128, 0),
    "set D, tuned": (130, 0),
    "set E, kept": (85, 3),
}


@pytest.mark.parametrize("name", BY_SET)
def test_the_figures_of_texts_by_other_authors_hold(name: str) -> None:
    records = [json.loads(line) for line in AUTHORS.read_text("utf-8").splitlines()]
    own = [record for record in records if record["source"].startswith(name)]
    rejected = Counter(record["label"] for record in own if scan(record["text"]).outcome == "reject")
    fewest, most = BY_SET[name]
    assert rejected["attack"] >= fewest
    assert rejected["benign"] <= most
