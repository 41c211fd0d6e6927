"""What a person's prompt asks of the loop."""

from __future__ import annotations

import pytest

from perpetual_loop.lease import MOST_ROUNDS, ROUNDS
from perpetual_loop.prompt import asked_of


@pytest.mark.parametrize(
    ("prompt", "deed", "rounds"),
    [
        ("/auto", "auto", ROUNDS),
        ("/auto 3", "auto", 3),
        ("  /auto 3 rounds on h12, please", "auto", 3),
        ("/auto on h12", "auto", ROUNDS),
        ("/auto with lr 0.5, then 4 rounds", "auto", 4),
        ("/auto 0", "auto", 0),
        ("/auto 123456", "auto", MOST_ROUNDS),
        ("/auto -3", "auto", ROUNDS),
        ("/auto 99999999999999999999", "auto", ROUNDS),
        ("/auto\n7", "auto", 7),
        ("$perpetual-auto 2", "auto", 2),
        ("perpetual-auto 2", "auto", 2),
        ("/perpetual-auto", "auto", ROUNDS),
        ("/perpetual:auto 5", "auto", 5),
        ("/mcp__perpetual__auto", "auto", ROUNDS),
        ("<command-name>/auto</command-name>\n<command-args>6</command-args>", "auto", 6),
        ("<command-message>auto</command-message>\n<command-name>/auto</command-name>", "auto", ROUNDS),
        ("/stop", "stop", ROUNDS),
        ("$perpetual-stop now", "stop", ROUNDS),
    ],
)
def test_it_asks(prompt: str, deed: str, rounds: int) -> None:
    assert asked_of(prompt) == (deed, rounds)


@pytest.mark.parametrize(
    "prompt",
    ["", "hello", "go on with $perpetual-auto 2", "> `/auto` (in Codex `$perpetual-auto`) lets the agent go on",
     "perpetual-auto: where is this skill defined? line 40", "a diff\n+ $perpetual-stop 3",
     "/automatic", "/auto-fix", "/auto/x", "what does /auto do?", "what is perpetual-auto?",
     "cat src/$perpetual-automaton", "/home/auto 3", "/stops", "x $perpetual-auto-2", None, 3, ["/auto"],
     "x" * 70_000 + "$perpetual-auto"],
)  # fmt: skip
def test_it_asks_nothing(prompt: object) -> None:
    assert asked_of(prompt) is None
