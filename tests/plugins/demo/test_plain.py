"""`perpetual demo` on a terminal: drawn in place, or as plain lines for a screen reader."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.loop import Cycle
from perpetual_demo import campaign_run


@pytest.mark.parametrize(("more", "is_drawn"), [((), True), (("--plain",), False)])
def test_plain_draws_nothing_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], more: tuple[str, ...],
    is_drawn: bool,
) -> None:  # fmt: skip
    def turn(lab: Lab, watch: Callable[[Cycle], None]) -> Cycle:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(campaign_run, "turn", turn)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("PERPETUAL_PLAIN", "0")  # the option sets it
    monkeypatch.delenv("NO_COLOR", raising=False)
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert run([*more, "demo"]) == 130
    assert ("\x1b[?25l" in capsys.readouterr().out) == is_drawn
