"""What differs between two commands, in words."""

from __future__ import annotations

import pytest

from perpetual_try.difference import difference, statement

BASE = "python train.py --lr 0.1 --epochs 5"


@pytest.mark.parametrize(
    ("now", "parts"),
    [
        (f"{BASE} --warmup", ["--warmup"]),
        ("python train.py --lr 0.05 --epochs 5", ["--lr 0.05 instead of 0.1"]),
        ("python train.py --lr=0.1 --epochs 5", []),  # the same in other words
        ("python train.py --epochs 5", ["no --lr 0.1"]),
        ("python other.py --lr 0.1 --epochs 5", ["other.py instead of train.py"]),
        ("python train.py --lr -1 --epochs 5", ["--lr -1 instead of 0.1"]),
        ("python train.py --lr 0.2 --epochs 5 --wd 1", ["--lr 0.2 instead of 0.1", "--wd 1"]),
        (BASE, []),
    ],
)
def test_the_words_that_differ_are_named_with_their_options(now: str, parts: list[str]) -> None:
    assert difference(BASE, now) == parts


def test_a_negative_number_is_a_word() -> None:
    assert difference("python t.py 1 0", "python t.py 1 -0.5") == ["-0.5 instead of 0"]
    assert difference("python t.py -1e-3 0", "python t.py 2 0") == ["2 instead of -1e-3"]


def test_variables_configuration_and_declared_changes_are_differences_too() -> None:
    found = difference(BASE, BASE, env=({"A": "1", "B": "2"}, {"A": "3"}), config=({"lr": 0.1}, {"lr": 0.2, "x": [1]}))
    assert found == ["A=3 instead of 1", "no B", "lr=0.2 instead of 0.1", "x=[1]"]
    assert difference(BASE, BASE, changes="code,data") == ["changed code", "changed data"]


def test_a_statement_is_one_line_of_bounded_length() -> None:
    assert statement(["--warmup"], "val_loss", "min", "e1") == "--warmup lowers val_loss against e1"
    assert statement(["--a", "--b"], "acc", "max", "e1") == "--a and --b raise acc against e1"
    long = statement(["x\n" * 500], "acc", "max", "e1")
    assert len(long) < 250
    assert "\n" not in long
