"""Words of other programs, and slips, lead to the command that is meant; letters in common lead nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perpetual.cli.app import run
from perpetual.errors import nearest


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["memory", "add", "x"], "did you mean perpetual memory write?"),
        (["hypotheses", "new"], "did you mean perpetual hypotheses add?"),
        (["hypotheses", "edit", "h1"], "did you mean perpetual edit h1?"),
        (["evidence", "delete", "v1"], "did you mean perpetual evidence retract?"),
        (["memory", "get", "x"], "did you mean perpetual memory show?"),
        (["show"], "did you mean perpetual hypotheses show h1, experiments e1, or runs r1?"),
        (["plugins", "lst"], "did you mean perpetual plugins list?"),
        (["memory", "frobnicate"], "perpetual memory --help"),
        (["cancel", "r1"], "did you mean perpetual kill r1?"),
        (["tail", "r1"], "did you mean perpetual logs r1?"),
        (["delete", "e1"], "did you mean perpetual archive ID?"),
        (["frobnicate"], "perpetual --help"),
    ],
)
def test_a_word_that_is_no_command_leads_to_what_is_meant(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], hint: str
) -> None:
    assert run([*words, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["hint"] == hint


@pytest.mark.parametrize(
    ("word", "known", "found"),
    [
        ("show", ["hook", "runs"], []),
        ("add", ["adopt"], []),
        ("supportd_at", ["protected_paths", "confidence_support_threshold"], ["confidence_support_threshold"]),
        ("acuracy", ["train_loss", "val_acc"], ["val_acc"]),
        ("stauts", ["status", "store"], ["status"]),
        ("eval/los", ["eval/loss", "eval/acc"], ["eval/loss", "eval/acc"]),
        ("x", ["y"], []),
    ],
)
def test_the_nearest_names_look_alike_in_whole_or_in_part(word: str, known: list[str], found: list[str]) -> None:
    assert nearest(word, known) == found
