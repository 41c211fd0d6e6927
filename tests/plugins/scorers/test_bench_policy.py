"""The command `bench-policy`: installed scorers and files, what goes wrong with them, and what is written."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
import xml.etree.ElementTree
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from perpetual.api import PerpetualError
from perpetual.cli.app import run
from perpetual_scorers.bench import FilePolicy, InstalledPolicy
from perpetual_scorers.documents import PolicyComparison, PolicyResult, PolicySaidTrue
from perpetual_scorers.picture import draw
from perpetual_scorers.process_pool import mapper
from perpetual_scorers.simulate import ARMS, Cell, Comparison, Result, Said, StrategyPolicy, bench, episode

QUICK = ("--episodes", "2", "--thresholds", "0.6", "--batch", "3", "--jobs", "1", "--menu", "standard",
         "--seed-correlation", "0.8")  # fmt: skip

CHEAPEST = """
from perpetual.api import Score, Scorer

print("loaded")

class Cheapest(Scorer):
    def score(self, state):
        print("asked")
        return [Score(None, row["cost"], 1 / row["cost"], "cheap") for row in state["candidates"]]

    def pick(self, state, k):
        left = sorted(state["candidates"], key=lambda row: (row["n_seen"], row["cost"]))
        return [row["id"] for row in left[:k]]
"""

BROKEN = {
    "raises.py": ("def build(options):\n    raise KeyError('lost')\n", "it raised KeyError: 'lost'"),
    "syntax.py": ("def build(:\n", "it raised SyntaxError: invalid syntax"),
    "nothing.py": ("x = 1\n", "it raised UsageError: "),
    "other.py": ("def build(options):\n    return 3\n", "it raised TypeError: its factory answered int"),
    "garbage.py": (
        "from perpetual.api import Scorer\n\nclass Garbage(Scorer):\n    def score(self, state):\n        return []\n"
        "    def pick(self, state, k):\n        return [None]\n",
        "it picked None, which is no candidate",
    ),
    "impure.py": (
        "import random\nfrom perpetual.api import Score, Scorer\n\nclass Coin(Scorer):\n    def score(self, state):\n"
        "        return [Score(None, None, random.random(), '') for _ in state['candidates']]\n",
        "it is not pure",
    ),
}


@pytest.fixture(autouse=True)
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No project is needed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["bench-policy", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_installed_scorers_are_compared_outside_a_project(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = ask(capsys, *QUICK)
    assert code == 0
    names = [row["policy"] for row in found["results"]]
    assert sorted(names) == ["decisive", "greedy", "information-gain", "random", "round-robin", "thompson"]
    assert (found["schema"], found["seed"], found["episodes"]) == ("perpetual.bench_policy/1", 0, 2)
    plain = bench({"x": StrategyPolicy("decisive")}, thresholds=(0.6,), batches=(3,), menu="standard",
                  seed_correlation=0.8, episodes=2)  # fmt: skip
    row = found["results"][names.index("decisive")]
    assert row["run_hours"] == plain[0].run_hours
    assert plain[0].said_true is not None
    assert row["said_true"]["n"] == plain[0].said_true.n


@pytest.mark.parametrize("name", ["round_robin", "hypothesis_driven", "perpetual-lab/greedy"])
def test_a_scorer_may_be_named_as_the_methodology_names_it(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, found = ask(capsys, *QUICK, "--policy", name)
    assert (code, [row["policy"] for row in found["results"]]) == (0, [name])


def test_a_file_may_hold_the_policy(capsys: pytest.CaptureFixture[str], outside: Path) -> None:
    (outside / "cheapest.py").write_text(CHEAPEST)
    code, found = ask(capsys, *QUICK, "--policy", "cheapest.py", "--policy", "decisive")
    assert code == 0
    assert [row["problem"] for row in found["results"]] == [None, None]
    assert found["results"][0]["half_hours"] > found["results"][1]["half_hours"]
    (compared,) = found["comparisons"]
    assert (compared["policy"], compared["against"]) == ("cheapest.py", "decisive")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_fails_its_row_and_not_the_bench(
    capsys: pytest.CaptureFixture[str], outside: Path, name: str
) -> None:
    text, words = BROKEN[name]
    (outside / name).write_text(text)
    code, found = ask(capsys, *QUICK, "--policy", name, "--policy", "decisive")
    broken, sound = found["results"]
    assert code == 0
    assert broken["problem"].startswith(words)
    assert (broken["policy"], broken["run_hours"]) == (name, None)
    assert sound["problem"] is None
    assert ask(capsys, *QUICK, "--policy", name)[0] == 1, "nothing is left to compare"
    assert run(["bench-policy", *QUICK, "--policy", name]) == 1
    shown = capsys.readouterr()
    assert f"failed: {name}: {words}" in shown.err
    assert "no policy kept the contract" in shown.out


def test_bench_policy_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench-policy", *QUICK, "--policy", "decisive", "--world", "misdeclared-noise", "--seed", "9"]) == 0
    shown = capsys.readouterr().out
    assert "2 campaigns each, misdeclared-noise world, standard menu, base rate 0.25" in shown
    assert "seed correlation 0.8, seed 9" in shown
    assert "decisive" in shown
    assert "run-hours [95 %]" in shown
    assert "helps, and where it does not" not in shown, "nothing is there to compare it with"


def test_the_default_is_compared_with_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """The same numbers in the table and in the document: where it helps as plainly as where it does not."""
    asked = (*QUICK, "--policy", "information-gain", "--policy", "round-robin", "--arms", "--episodes", "1")
    code, found = ask(capsys, *asked)
    assert code == 0
    others = ["round-robin", *(f"information-gain, {name}" for name in ARMS)]
    assert [row["policy"] for row in found["results"]] == ["information-gain", *others]
    rows = found["comparisons"]
    assert {row["against"] for row in rows} == {*others}
    assert {row["says"] for row in rows} <= {"helps", "worse", "no difference"}
    assert run(["bench-policy", *asked]) == 0
    shown = capsys.readouterr().out
    assert "where information-gain helps, and where it does not" in shown
    ratios = [row["hours_ratio"] for row in rows if row["hours_ratio"] is not None]
    assert ratios
    assert all(f"x{ratio:.2f} [" in shown for ratio in ratios)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "nobody"), "no scorer is called 'nobody'"),
        (("--policy", "nobody.py"), "there is no file nobody.py"),
        (("--thresholds", "0.8,high"), "--thresholds takes numbers"),
        (("--thresholds", "0.4"), "a threshold lies between 0.5 and 1, not 0.4"),
        (("--batch", "1.5"), "--batch takes numbers"),
        (("--batch", "0"), "a batch holds at least 1"),
        (("--menu", "lunch"), "'lunch' is not one of 'standard', 'proxy', 'all'"),
        (("--base-rate", "2"), "2.0 is not in the range 0<=x<=1"),
        (("--seed-correlation", "x"), "'x' is not a valid float"),
        (("-o", "x.pdf"), "-o writes .svg, .png or .json, not x.pdf"),
        (("-o", "nowhere/x.svg"), "there is no folder"),
    ],
)
def test_a_wrong_option_is_named(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str) -> None:
    code, found = ask(capsys, "--episodes", "1", "--jobs", "1", *arguments)
    assert (code, found["error"]["code"]) == (2, "usage")
    assert words in found["error"]["message"]


@pytest.mark.slow
def test_a_picture_is_whole_and_the_same_each_time(capsys: pytest.CaptureFixture[str], outside: Path) -> None:
    for name in ("one.svg", "two.svg"):
        assert run(["bench-policy", *QUICK, "--policy", "decisive", "--policy", "random", "-o", name]) == 0
    text = (outside / "one.svg").read_text()
    assert text == (outside / "two.svg").read_text()
    xml.etree.ElementTree.fromstring(text)
    for words in ("decisive", "random", "threshold 0.6, batches of 3", "run-hours"):
        assert words in text
    assert "<dc:date>" not in text
    assert run(["bench-policy", *QUICK, "--policy", "decisive", "-o", "one.png"]) == 0
    assert (outside / "one.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote one.png" in capsys.readouterr().out


def test_the_document_can_be_written_to_a_file(capsys: pytest.CaptureFixture[str], outside: Path) -> None:
    _, found = ask(capsys, *QUICK, "--policy", "decisive", "-o", "out.json")
    assert json.loads((outside / "out.json").read_text()) == found


def test_it_replaces_its_own_files_and_nothing_else(capsys: pytest.CaptureFixture[str], outside: Path) -> None:
    """A slip of the fingers in -o was the end of a configuration, or of a project's record."""
    (outside / ".perpetual").mkdir()
    (outside / "beside").symlink_to(".perpetual")
    others = [outside / name for name in ("package.json", "paper.svg", ".perpetual/config.json")]
    for path in others:
        path.write_text("{}")
    (outside / "link.json").symlink_to("package.json")
    os.mkfifo("pipe.json")
    for name, words in {
        "package.json": "no comparison", "paper.svg": "no comparison", "link.json": "it is a link",
        "pipe.json": "not a regular file", ".perpetual/config.json": "inside a .perpetual",
        "beside/new.json": "inside a .perpetual",
    }.items():  # fmt: skip
        code, found = ask(capsys, *QUICK, "--policy", "decisive", "-o", name)
        assert (code, found["error"]["code"]) == (2, "usage")
        assert words in found["error"]["message"]
    assert [path.read_text() for path in others] == ["{}"] * 3
    (outside / "own.svg").touch()
    draw([], outside / "own.svg", "none")
    for name in ("own.json", "own.json", "own.svg"):
        assert run(["bench-policy", *QUICK, "--episodes", "1", "--policy", "absent.py", "-o", name]) == 2
        assert "there is no file absent.py" in capsys.readouterr().err  # the file is no hindrance
        (outside / "own.json").write_text('{"schema": "perpetual.bench_policy/1"}')


def test_a_picture_is_refused_before_any_work_without_matplotlib(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec

    def without(name: str, package: str | None = None) -> Any:
        return None if name == "matplotlib" else real(name, package)

    monkeypatch.setattr("perpetual_scorers.picture.find_spec", without)
    code, found = ask(capsys, *QUICK, "--policy", "decisive", "-o", "x.svg")
    assert (code, found["error"]["code"]) == (1, "matplotlib_missing")
    assert "pip install 'perpetual-lab[report]'" in found["error"]["hint"]
    assert ask(capsys, *QUICK, "--policy", "decisive", "-o", "x.json")[0] == 0


@pytest.mark.slow
def test_matplotlib_is_loaded_for_pictures_only() -> None:
    probe = (
        "import sys; from perpetual.cli.app import run; "
        "run(['bench-policy', '--policy', 'decisive', '--episodes', '1', '--jobs', '1', '-o', 'x.json']); "
        "sys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


# --- processes ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_policy_travels_without_what_it_has_built(outside: Path) -> None:
    import pickle

    (outside / "cheapest.py").write_text(CHEAPEST)
    for policy in (
        FilePolicy(outside / "cheapest.py"),
        InstalledPolicy("perpetual_scorers.information_gain:build", {}),
    ):
        cell = Cell(0.6, 3, menu="standard", seed_correlation=0.8)
        before = episode(policy, cell, 0, 0)
        assert episode(pickle.loads(pickle.dumps(policy)), cell, 0, 0) == before


@pytest.mark.slow
def test_more_processes_answer_the_same(outside: Path) -> None:
    (outside / "cheapest.py").write_text(CHEAPEST)
    answers = []
    for jobs in ("1", "2", "3"):
        command = [sys.executable, "-m", "perpetual", "bench-policy", "--episodes", "7", "--jobs", jobs, "--json",
                   "--policy", "cheapest.py", "--policy", "thompson", "--thresholds", "0.7",
                   "--menu", "standard"]  # fmt: skip
        done = subprocess.run(command, cwd=outside, capture_output=True, text=True, timeout=300, check=True)
        answers.append(done.stdout)
    assert answers[0] == answers[1] == answers[2]
    assert json.loads(answers[0])["results"][0]["problem"] is None


@pytest.mark.slow
def test_a_policy_that_kills_its_worker_ends_the_bench_with_a_word(outside: Path) -> None:
    (outside / "dies.py").write_text("import os\nos._exit(3)\n")
    with pytest.raises(PerpetualError, match="a worker process died"), mapper(2) as spread:
        bench({"dies": FilePolicy(outside / "dies.py")}, episodes=1, run=spread)


def die_late(code: int) -> None:
    """Ends this process, once everything has been handed in."""
    time.sleep(1.0)
    os._exit(code)


def test_a_dead_worker_is_reported_beside_much_waiting_work() -> None:
    # The thread of the pool gives each waiting item the failure: it must come through, and wait for both processes.
    with pytest.raises(PerpetualError, match="a worker process died"), mapper(2) as spread:
        list(spread(die_late, [3] * 20_000))
    assert not multiprocessing.active_children()


def test_the_document_has_the_fields_of_a_result() -> None:
    for shape, record in ((PolicyResult, Result), (PolicySaidTrue, Said), (PolicyComparison, Comparison)):
        assert [*shape.__annotations__] == [field.name for field in fields(record)]
