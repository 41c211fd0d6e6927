"""`plugins check` tries the kinds of records and events that a plugin brings, in a scratch lab."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from perpetual import Lab
from perpetual.api import EventKind, Field, RecordKind, hookimpl
from perpetual.registry import Registry
from perpetual_devkit.scratch_kinds import Wrong, try_kinds

STEPS = """
def louder(version, fields):
    fields["loudness"] = fields.pop("volume") * 10.0
    return fields
louder.examples = {1: {"volume": 8, "said": "ring"}}

def quieter(version, fields):
    return {"said": fields["said"]}
quieter.examples = {1: {"volume": 8, "said": "ring"}}

def untried(version, fields):
    return {"loudness": fields["volume"], "said": fields["said"]}

def moody(version, fields, counted=[]):
    counted.append(1)
    return {"loudness": float(len(counted)), "said": "x"}
moody.examples = {1: {}}
"""
FIELDS = {
    "loudness": Field("float", "decibels", required=True),
    "said": Field("str", "the words", private=True),
    "claim": Field("str", "the hypothesis", references="hypothesis"),
    "note": Field("str", "a note", references="note"),
    "heard": Field("list", "who heard it"),
}


@pytest.fixture(autouse=True)
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_steps.py").write_text(STEPS, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "acme_steps", raising=False)
    monkeypatch.chdir(tmp_path)


def tried(*kinds: RecordKind | EventKind) -> tuple[str, list[str]]:
    """What comes of a plugin that brings these."""
    made = ModuleType("acme_plugin")
    brings: Callable[[], list[RecordKind | EventKind]] = lambda: [*kinds]  # noqa: E731
    made.perpetual_kinds = hookimpl(brings)  # type: ignore[attr-defined]
    registry = Registry(extra=[("acme", "bell", "1", lambda: made)])
    with Lab.init(Path("scratch"), name="scratch", registry=registry) as lab:
        claim = lab.hypotheses.add("it is heard")
        lab.experiments.propose(claim.id, command="true", metric="loss", direction="min")
        (info,) = lab.inventory().found("bell")
        return try_kinds(lab, info)


def test_kinds_that_keep_their_promises() -> None:
    alarm = RecordKind("alarm", FIELDS, indexes=("loudness",), version=2, upgrade="acme_steps:louder")
    answer = RecordKind("answer", {"alarm": Field("str", "which", required=True, references="alarm")}, ledger=True)
    secret = RecordKind("secret", {"word": Field("str", "a word")}, exported=False)
    said, unclear = tried(answer, alarm, secret, EventKind("rang", "subject: the hypothesis"))
    assert (said, unclear) == ("3 kinds written, exported and imported; 1 kinds of events appended", [])


@pytest.mark.parametrize(
    ("upgrade", "words"),
    [
        ("acme_steps:quieter", "its upgrade of version 1 is no row: the field loudness is missing"),
        ("acme_steps:moody", "its upgrade of version 1 answers otherwise each time"),
        ("acme_steps:absent", "its upgrade acme_steps:absent cannot be imported"),
    ],
)
def test_an_upgrade_that_breaks_rows_is_named(upgrade: str, words: str) -> None:
    with pytest.raises(Wrong, match=f"alarm: {words}"):
        tried(RecordKind("alarm", FIELDS, version=2, upgrade=upgrade))


def test_a_kind_that_cannot_be_tried_is_named() -> None:
    alarm = RecordKind("alarm", FIELDS, version=2, upgrade="acme_steps:untried")
    noted = RecordKind("noted", {"note": Field("str", "which", required=True, references="note")})
    said, unclear = tried(alarm, noted)
    assert said == "1 kinds written, exported and imported"
    assert unclear == [
        "alarm: no row of version 1 is known: name one in the upgrade's attribute `examples`",
        "noted: a row needs what a scratch lab lacks",
    ]
