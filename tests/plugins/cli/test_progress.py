"""What is shown while runs are waited for, and what is drawn again and again."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import Run, UsageError
from perpetual.cli.app import run
from perpetual.commands import CliContext
from perpetual.toolkit.redraw import is_plain, redrawn
from perpetual_cli.progress import earlier_like, ended_line, left_s, shown_seconds, wait_for


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def runs(project: Path) -> list[Run]:
    """Two runs that have ended, one of which failed."""
    with Lab.open(project) as lab:
        for command in ("echo acc: 0.5", "false"):
            id = lab.experiments.propose(command=command, metric="acc").id
            lab.experiments.approve(id)
            lab.wait([item.id for item in lab.runs.launch(id)])
        return [*lab.runs.named(["r1", "r2"])]


def test_a_line_for_each_end_says_the_value_or_why_there_is_none(runs: list[Run]) -> None:
    assert ended_line(runs[0], "acc") == "r1 done 0.5"
    assert ended_line(runs[0], "loss") == "r1 done without loss"
    assert ended_line(runs[1], "acc") == "r2 failed (exit code 1)"


def test_the_time_left_follows_from_earlier_runs_and_is_unknown_without_them(project: Path, runs: list[Run]) -> None:
    from dataclasses import replace

    going = replace(runs[0], status="running", started_at="1970-01-01T00:01:00.000Z", ended_at=None)
    waiting = replace(going, id="r3", status="queued", started_at=None)
    lasts = {"e1": 100.0}
    assert left_s([going], lasts, 70.0) == 90.0
    assert left_s([going, waiting], lasts, 70.0) == 190.0
    assert left_s([going, going, waiting], lasts, 70.0) == 140.0  # two at once
    assert left_s([going], lasts, 1000.0) is None  # it takes longer than those did
    assert left_s([going], {}, 70.0) is None
    assert [shown_seconds(each) for each in (5, 200, 7500)] == ["5 s", "3 min 20 s", "2 h 05 min"]
    with Lab.open(project) as lab:
        found = earlier_like(lab, "e1")
        assert found is not None
        assert (found.runs, found.experiment_id) == (1, "e1")
        assert earlier_like(lab, "e2") is None  # it failed


def test_a_terminal_is_drawn_on_and_plain_output_has_a_line_for_each_end(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")

    class Watched(Terminal):
        """Lets the run end once it was drawn, however long that takes."""

        def write(self, text: str) -> int:
            length = super().write(text)
            if "0 of 1 done" in self.getvalue():
                drawn.touch()
            return length

    for plain in (False, True):
        screen, drawn = Watched(), project / f"drawn-{plain}"
        if plain:  # nothing is drawn
            drawn.touch()
        wait = f"for i in $(seq 400); do [ -e {drawn} ] && break; sleep 0.05; done"
        with Lab.open(project) as lab, monkeypatch.context() as patch:
            id = lab.experiments.propose(command=f"sh -c '{wait}; echo acc: {plain:d}'", metric="acc").id
            lab.experiments.approve(id)
            started = lab.runs.launch(id)
            patch.setattr(sys, "stderr", screen)
            cli = CliContext()
            cli.project = str(project)
            ended = wait_for(cli, [started[0].id], plain=plain, are_new=True)
            cli.close()
        assert [item.status for item in ended] == ["done"]
        text = screen.getvalue()
        assert f"{started[0].id} done {plain:d}" in text
        assert ("0 of 1 done" in text, "\x1b[" in text) == (not plain, not plain)


def test_no_color_a_dumb_terminal_and_a_pipe_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert not is_plain()
    assert is_plain(asked=True)
    monkeypatch.setenv("TERM", "dumb")
    assert is_plain()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert is_plain()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("PERPETUAL_PLAIN", "1")
    assert is_plain()
    for no in ("0", "", "false", "False", "no", "off"):
        monkeypatch.setenv("PERPETUAL_PLAIN", no)
        assert not is_plain(), no
    for yes in ("true", "yes", "on", "2"):
        monkeypatch.setenv("PERPETUAL_PLAIN", yes)
        assert is_plain(), yes
    monkeypatch.delenv("PERPETUAL_PLAIN")
    monkeypatch.setattr(sys, "stderr", StringIO())
    assert is_plain()


def test_an_answer_is_drawn_anew_in_its_place_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, states = Terminal(), iter(["one\ntwo", "three"])
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    looks = iter([False, True])

    def wait() -> bool:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    redrawn(lambda: print(next(states)), wait)
    assert screen.getvalue() == "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J" + "\x1b[Hthree\x1b[K\n\x1b[J"


@pytest.mark.parametrize("name", ["status", "runs", "queue"])
def test_watching_is_for_terminals(name: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--watch", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"
    assert run([name, "--watch"]) == 2


def _claimed_in_vain(lab: Lab) -> None:
    with lab.together():
        lab.hypotheses.add("b")
        lab.experiments.propose("h1", command="'")


def test_a_block_is_recorded_together_or_not_at_all(project: Path) -> None:
    with Lab.open(project) as lab:
        before = lab.feed.last()
        with lab.together(undo=True):
            lab.hypotheses.add("a")
            assert lab.experiments.propose("h1", command="true").id == "e1"
        with pytest.raises(UsageError):
            _claimed_in_vain(lab)
        assert lab.feed.last() == before
        with lab.together():
            assert lab.hypotheses.add("c").id == "h1"
        assert lab.hypotheses.get("h1").statement == "c"
