"""Wrong input, command by command: one clear line, a way out, the right exit status, and nothing changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.toolkit.agents import AGENT_VARIABLES


class Case(NamedTuple):
    """A command line and what it must answer; `said` and `hint` are words that must stand there."""

    arguments: tuple[str, ...]
    exit: int
    code: str
    said: tuple[str, ...]
    hint: str = ""


def case(line: str, exit: int, code: str, said: str, hint: str = "", *more: str) -> Case:
    """`line` is split at blanks (`_` stands for one inside a word); `more` are words as they are, at its end."""
    words = tuple(word.replace("_", " ") for word in line.split())
    return Case((*words, *more), exit, code, tuple(said.split("|")), hint)


CLAIM = "propose -h h1 --command true --mde 0.1"

CASES = [
    # hypotheses
    case("hypotheses add", 2, "usage", "needs a statement", "for example", "  "),
    case("hypotheses add", 2, "usage", "4,001 characters|at most 4,000", "into a note", "x" * 4001),
    case("hypotheses update h1 --statement", 2, "usage", "4,001 characters", "into a note", "x" * 4001),
    case("hypotheses update h1 --status parked --why", 2, "usage", "the reason has 4,001", "", "x" * 4001),
    case("evidence add h1 --verdict supports --why", 2, "usage", "the reason has 4,001", "", "x" * 4001),
    case("reject e1 --why", 2, "usage", "the reason has 4,001", "", "x" * 4001),
    case("propose --command true --env", 2, "usage", "PERPETUAL_SEED is set by the lab", "--seed", "PERPETUAL_SEED=1"),
    case("edit e1 --env", 2, "usage", "PERPETUAL_RUN_DIR is set by the lab", "", "PERPETUAL_RUN_DIR=/tmp"),
    case("propose --command true --title", 2, "usage", "the title has 501", "", "x" * 501),
    case("propose --command true --notes", 2, "usage", "the text of the notes has 16,001", "", "x" * 16_001),
    case("hypotheses add x --prior nan", 2, "usage", "prior|finite"),
    case("hypotheses add x --prior inf", 2, "usage", "prior|finite"),
    case("hypotheses add x --prior 0", 2, "usage", "strictly between 0 and 1"),
    case("hypotheses add x --prior 1", 2, "usage", "strictly between 0 and 1"),
    case("hypotheses add x --prior -0.2", 2, "usage", "strictly between 0 and 1|-0.2"),
    case("hypotheses add x --prior often", 2, "usage", "--prior|often", "--help"),
    case("hypotheses add x --mde 0", 2, "usage", "mde|above 0"),
    case("hypotheses add x --mde nan", 2, "usage", "mde|finite"),
    case("hypotheses add x --direction maximum", 2, "usage", "direction|did you mean max"),
    case("hypotheses add x --baseline nan", 2, "usage", "baseline|finite"),
    case("hypotheses add x --baseline good", 2, "usage", "a number or the id of an experiment|'good'", "e1"),
    case("hypotheses add x --baseline e99", 5, "not_found", "no experiment e99", "nearest"),
    case("hypotheses add x --metric", 2, "usage", "metric needs a name", "", ""),
    case("hypotheses add x --params", 2, "usage", "--params is no JSON|line 1, column 8", "quoted", '{"lr": oops}'),
    case("hypotheses add x --params", 2, "usage", "--params must be a JSON object, not a list", "", "[1, 2]"),
    case("hypotheses add x --params", 2, "usage", "--params|no JSON|column 1", "", "lr=0.1"),
    case("hypotheses add x --params", 2, "usage", "lr must be a list", "for example", '{"lr": 0.1}'),
    case("hypotheses add x --params", 2, "usage", "params.lr[0]|nan", "", '{"lr": [NaN]}'),
    case("hypotheses add x --idempotency-key", 2, "usage", "key is empty", "", ""),
    case("hypotheses show h99", 5, "not_found", "no hypothesis h99", "h1"),
    case("hypotheses show e1", 5, "not_found", "e1 is an experiment, no hypothesis", "perpetual experiments e1"),
    case("hypotheses list --status opened", 2, "usage", "status|did you mean open"),
    case("hypotheses list --limit 0", 2, "usage", "--limit"),
    case("hypotheses list --cursor x", 2, "usage", "'x' is no cursor", "next_cursor"),
    case("hypotheses update h1", 2, "usage", "nothing to update", "--statement"),
    case("hypotheses update h1 --confidence 1", 2, "usage", "strictly between 0 and 1"),
    case("hypotheses update h1 --confidence nan", 2, "usage", "confidence|finite"),
    case("hypotheses update h1 --status suported", 2, "usage", "did you mean supported"),
    case("hypotheses update h1 --statement", 2, "usage", "needs a statement", "", ""),
    case("hypotheses update h2 --prior 0.4", 6, "conflict", "evidence; its prior stands", "--confidence"),
    case("hypotheses update h9 --tag a", 5, "not_found", "no hypothesis h9"),
    case("hypotheses ad x", 2, "usage", "ad"),
    # propose
    case("propose -h h9 --command true", 5, "not_found", "no hypothesis h9", "nearest"),
    case("propose -h e1 --command true", 5, "not_found", "e1 is an experiment, no hypothesis"),
    case("propose -h", 2, "usage", "-h|requires an argument"),
    case("propose --command", 2, "usage", "command is empty", "", "  "),
    case("propose --command", 2, "usage", "shell operator '|'", "sh -c", "cat x | wc"),
    case("propose --command", 2, "usage", "split into words", "", "echo 'open"),
    case("propose --command", 2, "usage", "starts with an assignment", "env LR=1", "LR=1 python x.py"),
    case("propose --command true --config", 2, "usage", "--config is no JSON|column 9", "--config", '{"a": 1 "b": 2}'),
    case("propose --command true --config", 2, "usage", "not a list", "", "[]"),
    case("propose --command true --config", 2, "usage", "not a number", "", "3"),
    case("propose --command true --config", 2, "usage", "not null", "", "null"),
    case("propose --command true --config", 2, "usage", "no JSON|column 1", "", ""),
    case("propose --command true --config", 2, "usage", "config.a|inf", "", '{"a": 1e999}'),
    case("propose --command true --config", 2, "usage", "no JSON that can be read", "", "[" * 100_000),
    case("propose --command true --wall 5q", 2, "usage", "--wall|unknown unit 'q'", "s, m, h"),
    case("propose --command true --wall soon", 2, "usage", "--wall|no number", "90s"),
    case("propose --command true --wall nan", 2, "usage", "--wall|no number"),
    case("propose --command true --wall -5", 2, "usage", "--wall|at least 0"),
    case("propose --command true --wall 0", 2, "usage", "wall limit|above 0"),
    case("propose --command true --wall 1e300d", 2, "usage", "wall limit|at most"),
    case("propose --command true --wall 1e308d", 2, "usage", "--wall|finite"),
    case("propose --command true --cost -1h", 2, "usage", "--cost|at least 0"),
    case("propose --command true --cost 2weeks", 2, "usage", "--cost|unknown unit 'weeks'", "h or d"),
    case("propose --command true --cost 1e9", 2, "usage", "the cost|at most"),
    case("propose --command true --gpu-memory 24XB", 2, "usage", "--gpu-memory|unknown unit", "GiB"),
    case("propose --command true --gpu-memory 1e308GiB", 2, "usage", "--gpu-memory|finite"),
    case("propose --command true --gpus -1", 2, "usage", "--gpus|not -1"),
    case("propose --command true --gpus 1e3", 2, "usage", "--gpus"),
    case("propose --command true --replicates 0", 2, "usage", "replicates|not 0"),
    case("propose --command true --replicates 1000000000", 2, "usage", "replicates|not 1000000000"),
    case("propose --command true --mde 0.1", 2, "usage", "a claim to a hypothesis", "-h"),
    case("propose -h h1 --command true --noise -1", 2, "usage", "noise|at least 0"),
    case("propose -h h1 --command true --tau nan", 2, "usage", "tau|finite"),
    case("propose -h h2 --command true --mde 0.1", 2, "usage", "--metric, --direction, --baseline", "max or min"),
    case("propose -h h1 --command true --paired", 2, "usage", "--paired needs a baseline experiment"),
    case("propose -h h1 --command true --baseline e3 --metric other", 2, "usage", "e3 measures m, not other"),
    case("propose -h h1 --command true --baseline z", 2, "usage", "a number or the id of an experiment"),
    case("propose --command true --cwd /tmp", 2, "usage", "inside the project", "relative"),
    case("propose --command true --cwd ../x", 2, "usage", "inside the project"),
    case("propose --command true --env LR", 2, "usage", "NAME=VALUE"),
    case("propose --auto 0", 2, "usage", "--auto"),
    case("propose --auto 2 --command true --tag x", 2, "usage", "--auto|--command, --tag"),
    case("propose -h h1 --command sh_-c_'echo_m=2' --noise 0.1", 6, "tried_before", "tried before as e3|h1", "e3"),
    case("propose --comand true", 2, "usage", "--comand"),
    # approve, reject
    case("approve", 2, "usage", "ID"),
    case("approve e99", 5, "not_found", "no experiment e99", "nearest"),
    case("approve e2", 6, "conflict", "e2 is approved; only a proposed", "perpetual run e2"),
    case("approve e1 e2", 6, "conflict", "e2 is approved"),
    case("approve e1 e99", 5, "not_found", "no experiment e99"),
    case("approve e5", 6, "conflict", "e5 is rejected", "propose it again"),
    case("reject e1", 2, "usage", "--why"),
    case("reject e1 --why", 2, "usage", "needs a reason", "--why", "  "),
    case("reject e3 --why x", 6, "conflict", "e3 is"),
    case("reject e1 e3 --why x", 6, "conflict", "e3 is"),
    case("experiments e9", 5, "not_found", "no experiment e9", "nearest"),
    case("experiments --status aproved", 2, "usage", "did you mean approved"),
    case("experiments --hypothesis h7", 5, "not_found", "no hypothesis h7"),
    case("experiments e1 --status open", 2, "usage", "for the list"),
    # run
    case("run e9", 5, "not_found", "no experiment e9", "nearest"),
    case("run h1", 5, "not_found", "h1 is a hypothesis, no experiment"),
    case("run e1", 4, "not_approved", "e1 is not approved", "perpetual approve e1"),
    case("run e1 --dry-run", 4, "not_approved", "e1 is not approved"),
    case("run e5", 6, "conflict", "e5 is rejected"),
    case("run e3", 6, "conflict", "all of its 1 replicates", "retry"),
    case("run e3 --dry-run", 6, "conflict", "all of its 1 replicates"),
    case("run e2 false", 6, "command_differs", "another command: true", "leave the command out"),
    case("run e2 -- true --lr", 6, "command_differs", "another command: true"),
    case("run e2 false --dry-run", 6, "command_differs", "another command: true"),
    case("run e2 --lr", 2, "usage", "--lr"),
    case("run e4", 1, "command_not_found", "'no-such-program' was not found", "spelling"),
    case("run e4 --dry-run", 1, "command_not_found", "no-such-program"),
    case("run e6", 4, "not_approved", "e6 is not approved"),
    case("run e6 no-such-program", 1, "command_not_found", "no-such-program"),
    case("run e6", 2, "usage", "shell operator '>'", "sh -c", "echo 1 > x"),
    case("run e6 -g 0 true", 1, "does_not_fit", "GPU"),
    case("run e7", 1, "does_not_fit", "e7 needs 9000 GPUs"),
    case("run e2 --seed -1", 2, "usage", "seed|2^31"),
    case("run e2 --seed 2147483648", 2, "usage", "seed|2^31"),
    case("run e2 --seed 1.5", 2, "usage", "--seed"),
    case("run e2 --seed 1 --all", 2, "usage", "the same run"),
    case("run e2 -g x", 2, "usage", "gpu"),
    case("run e2 -g 0 -g 0", 2, "usage", "-g names 0, 0"),
    # runs
    case("runs r99", 5, "not_found", "no run r99", "r1"),
    case("runs --status finished", 2, "usage", "status"),
    case("runs --experiment e9", 5, "not_found", "no experiment e9"),
    case("runs r1 --experiment e1", 2, "usage", "for the list"),
    case("logs r99", 5, "not_found", "no run r99"),
    case("logs r3", 5, "no_output", "r3 has no output|queue is paused", "wait"),
    case("logs r1 --tail -1", 2, "usage", "--tail"),
    case("kill r1", 6, "conflict", "r1 is done; there is nothing to kill"),
    case("kill r99", 5, "not_found", "no run r99"),
    case("kill r3 --grace soon", 2, "usage", "--grace|no number"),
    case("kill r3 --grace nan", 2, "usage", "--grace|no number"),
    case("kill r3 --grace -1", 2, "usage", "--grace|at least 0"),
    case("kill r3 --grace 1e20", 2, "usage", "grace|at most"),
    case("retry r1", 6, "conflict", "r1 is done; only a run that ended without a result"),
    case("retry r1 --dry-run", 6, "conflict", "r1 is done"),
    case("retry r3", 6, "conflict", "r3 is queued"),
    case("retry r99", 5, "not_found", "no run r99"),
    case("wait", 2, "usage", "ID"),
    case("wait h1", 5, "not_found", "h1 is neither a run nor an experiment"),
    case("wait r99", 5, "not_found", "no run r99"),
    case("wait r3 --timeout x", 2, "usage", "--timeout|no number"),
    case("wait r3 --timeout -1", 2, "usage", "--timeout|at least 0"),
    case("queue stop", 2, "usage", "No such command 'stop'"),
    case("queue --cursor x", 2, "usage", "no cursor"),
    # evidence
    case("evidence list --hypothesis h9", 5, "not_found", "no hypothesis h9"),
    case("evidence add h9 --verdict supports --why x", 5, "not_found", "no hypothesis h9"),
    case("evidence add h1 --verdict suports --why x", 2, "usage", "did you mean supports"),
    case("evidence add h1 --verdict supports --strength 2 --why x", 2, "usage", "between 0 and 1"),
    case("evidence add h1 --verdict supports --strength nan --why x", 2, "usage", "strength|finite"),
    case("evidence add h1 --verdict supports --strength much --why x", 2, "usage", "--strength"),
    case("evidence add h1 --verdict supports", 2, "usage", "--why"),
    case("evidence add h1 --why x", 2, "usage", "--verdict"),
    case("evidence add h1 --verdict supports --why", 2, "usage", "needs a reason", "--why", " "),
    case("evidence add h1 --verdict supports --why x --run r99", 5, "not_found", "no run r99"),
    case("evidence retract v99 --why x", 5, "not_found", "no evidence v99", "v1"),
    case("evidence retract 1 --why x", 5, "not_found", "no evidence 1"),
    case("evidence retract v2 --why x", 6, "conflict", "taken back by v3"),
    case("evidence retract v3 --why x", 6, "conflict", "v3 is a retraction"),
    case("evidence retract v1 --why", 2, "usage", "needs a reason", "", ""),
    # budget
    case("budget set", 2, "usage", "GPU_HOURS"),
    case("budget set -5", 2, "usage", "the budget|at least 0"),
    case("budget set nan", 2, "usage", "the budget|no number"),
    case("budget set inf", 2, "usage", "the budget|no number"),
    case("budget set 1e999", 2, "usage", "the budget|finite"),
    case("budget set lots", 2, "usage", "the budget|no number"),
    case("budget set 5euro", 2, "usage", "the budget|unknown unit"),
    case("budget rise 5", 2, "usage", "rise"),
]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Path]:
    """A project with something in every state: made once, each case must leave it as it is."""
    folder = tmp_path_factory.mktemp("template") / "project"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
        for name in AGENT_VARIABLES:
            patch.delenv(name, raising=False)
        _fill(folder)
    yield folder
    with Lab.open(folder) as lab:
        assert [item.status for item in lab.runs.list().items] == ["queued", "failed", "done"]


def _fill(folder: Path) -> None:
    with Lab.init(folder, name="bad input") as lab:
        lab.hypotheses.add("m grows", metric="m", direction="max", mde=0.1, baseline=1.0)  # h1
        lab.hypotheses.add("no prediction")  # h2, with evidence
        propose = lab.experiments.propose
        propose("h1", command="true")  # e1: proposed
        propose("h1", command="true", notes="approved", replicates=3, wall_s=60.0, config={"a": 1})  # e2
        propose("h1", command="sh -c 'echo m=2'", noise=0.1)  # e3: has run
        propose(None, command="no-such-program --x")  # e4
        propose(None, command="echo no")  # e5: rejected
        propose(None, title="a command is missing")  # e6
        propose(None, command="true", gpus=9000)  # e7
        propose(None, command="false")  # e8: failed, and one that waits
        for id in ("e2", "e3", "e4", "e7", "e8"):
            lab.experiments.approve(id)
        lab.experiments.reject("e5", "no")
        lab.runs.launch("e3")
        lab.runs.launch("e8")
        lab.wait(["r1", "r2"])
        lab.queue.set_state("paused")
        lab.runs.retry("r2")  # r3: queued
        lab.evidence.add("h2", verdict="supports", why="x")  # v2
        lab.evidence.retract("v2", why="y")  # v3


def _bytes(project: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(project)): path.read_bytes()
        for path in sorted(project.rglob("*"))
        # What waits in the queue keeps a process, which asks to be woken by files of its own.
        if path.is_file() and path.name not in ("lock", "status.json") and not path.name.startswith("wake-")
    }


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: " ".join(bad.arguments)[:60])
def test_is_refused_in_one_line_and_changes_nothing(
    bad: Case, template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(template)
    before = _bytes(template)
    assert run(["--json", *bad.arguments]) == bad.exit, capsys.readouterr()
    out, err = capsys.readouterr()
    assert err == ""
    error = json.loads(out)["error"]
    assert (error["code"], error["exit"]) == (bad.code, bad.exit), error
    for word in bad.said:
        assert word in error["message"], error
    assert bad.hint in (error["hint"] or ""), error
    assert len(error["message"]) < 400

    has_hint = bool(error["hint"]) or bad.code == "usage"  # people are shown the help of the command at least
    assert run(bad.arguments) == bad.exit
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.partition(": ")[0] for line in err.splitlines()] == ["error", "hint"][: 1 + has_hint]
    assert _bytes(template) == before


@pytest.mark.parametrize("variable", ["CLAUDECODE", "GEMINI_CLI", "AGENT"])
@pytest.mark.parametrize(
    "arguments",
    [("approve", "e1"), ("budget", "set", "5"), ("budget", "set", "none"), ("run", "e6", "true")],
    ids=" ".join,
)
def test_an_agent_s_shell_is_sent_to_a_person(
    arguments: tuple[str, ...],
    variable: str,
    template: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(template)
    monkeypatch.setenv(variable, "1")
    before = _bytes(template)
    assert run(["--json", *arguments]) == 4
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["exit"]) == ("not_permitted", 4)
    assert "person" in error["message"]
    assert error["hint"]
    assert _bytes(template) == before


def test_an_agent_may_where_the_methodology_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guard rail is one line of the methodology; and a new project's budget is anybody's to set."""
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["budget", "set", "5"]) == 4
    file = project / ".perpetual" / "methodology.yaml"
    file.write_text(file.read_text().replace("agents_may_approve: false", "agents_may_approve: true"))
    assert run(["budget", "set", "5"]) == 4  # an edited file counts only once a person has accepted it
    monkeypatch.delenv("CLAUDECODE")
    assert run(["methodology", "set", "agents_may_approve", "true"]) == 0
    monkeypatch.setenv("CLAUDECODE", "1")
    assert run(["budget", "set", "5"]) == 0
    capsys.readouterr()
    with Lab.init(project.parent / "new", name="new", budget_gpu_hours=2.0) as lab:
        assert lab.budget.limit_gpu_hours() == 2.0


def test_commands_outside_a_project_exit_5(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (["hypotheses", "list"], ["run", "e1"], ["budget"], ["scan"], ["evidence", "list"]):
        assert run(arguments) == 5
        assert "error: " in capsys.readouterr().err


def test_bytes_that_are_no_text(
    template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A JSON escape can smuggle in half of a character that neither the record nor an answer could carry."""
    monkeypatch.chdir(template)
    before = _bytes(template)
    assert run(["--json", "propose", "--command", "true", "-c", '{"a": "\\ud800"}']) == 2
    assert "config.a" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert _bytes(template) == before


def test_a_damaged_store_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = project / ".perpetual/store/journal.jsonl"
    file.write_text('{"format": {')
    assert run(["--json", "hypotheses", "list"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "corrupt"
    assert str(file) in error["message"]
