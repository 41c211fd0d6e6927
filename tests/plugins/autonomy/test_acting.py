"""What the loop approves by rights: inside ceilings of the user alone, once, and never what no right covers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import ConfigError, NotPermitted, UsageError
from perpetual.documents.provenance import CodeStateDocument
from perpetual.lab.provenance.code_check import CodeCheck
from perpetual.loop import cycle
from perpetual.testing.projects import trust_project
from perpetual_autonomy.ceilings import ceilings
from perpetual_autonomy.earned import Earned
from perpetual_autonomy.rights import change, rights
from tests.plugins.autonomy.conftest import AGENT, OWN, propose, ran
from tests.support import LONG_S

Own = Callable[..., None]
PAIR = (AGENT, "claim-run")
# One experiment earns a right, as the fixture `few` has it, for other processes.
FEW = "import perpetual_autonomy.rights as r; r.clean_needed = lambda attempt, rate: attempt\n"


def of(lab: Lab, id: str) -> tuple[str, str | None]:
    found = lab.experiments.get(id)
    return found.status, found.approved_by


def changes(lab: Lab) -> list[str]:
    return [str(row["change"]) for row in lab.records("autonomy.change").list().items]


def in_force(lab: Lab, pair: tuple[str, str] = PAIR) -> bool:
    lab.config.refresh()
    (found,) = [one for one in rights(lab)["rights"] if (one["proposer"], one["action"]) == pair]
    return found["in_force"]


def test_the_loop_approves_what_a_right_covers_and_says_by_which(
    agent: Lab, person: Lab, loop: Lab, own: Own, few: None
) -> None:
    covered = propose(agent, 0.2)
    others = [
        agent.experiments.propose("h1", command="python3 -c 1", cost_run_hours=0.01, noise=0.3).id,
        propose(agent, 0.2, " --out x"),
        propose(agent, 0.3, cost_run_hours=0.2),
        propose(agent, 0.4, claim="none"),
        propose(person, 0.5),
    ]
    loop.config.refresh()
    assert loop.loop.approve() == []  # off by default
    own()
    loop.config.refresh()
    turn = cycle(loop)
    assert turn.approved == (covered,)
    assert of(loop, covered)[1] == "right:1"
    assert [of(loop, id) for id in others] == [("proposed", None)] * 5
    (use,) = loop.records("autonomy.use").list().items
    assert (use["experiment"], use["spec_hash"], use["right"]) == (covered, loop.experiments.get(covered).spec_hash, 1)
    (event,) = [one for one in loop.events() if one.kind == "autonomy.approved"]
    assert (event.subject, event.payload["right"]) == (covered, 1)
    approval = next(one for one in loop.events() if one.kind == "experiment_approved" and one.subject == covered)
    assert approval.actor == "right:1"
    loop.wait([*turn.launched], timeout_s=LONG_S)
    done = cycle(loop, number=2)  # what is not covered still waits
    assert done.approved == ()
    assert (done.reason, loop.experiments.get("e1").approved_by) == ("waiting_for_approval", "user:test")
    # What a right approved is no evidence for the right.
    (found,) = [one for one in rights(loop)["rights"] if one["action"] == "claim-run" and one["proposer"] == AGENT]
    assert found["clean"] == 1


def test_the_cap_of_a_day_holds_also_where_the_clock_goes_back(
    agent: Lab, loop: Lab, own: Own, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own()
    for number in range(2, 10):
        propose(agent, number / 10)  # each with a wall limit of 60 s: six of them fit into 0.1 run-hours
    loop.config.refresh()
    now, clock = datetime.now(UTC), [datetime.now(UTC)]
    monkeypatch.setattr("perpetual_autonomy.ledger.now", lambda: clock[0])
    assert len(loop.loop.approve()) == 6
    for clock[0] in (now, now - timedelta(days=2), now - timedelta(days=400)):
        assert loop.loop.approve() == []
        assert rights(loop)["ceilings"][0]["used_today"] == pytest.approx(0.1)
    clock[0] = now + timedelta(days=1)
    assert len(loop.loop.approve()) == 2


@pytest.mark.slow
def test_replicates_retries_and_warnings_count(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    own()
    loop.config.refresh()
    many = propose(agent, 0.2, replicates=7)
    three = propose(agent, 0.3, replicates=3)
    person.settings.set_methodology("on_overrun", "warn")
    loop.config.refresh()
    assert loop.loop.approve() == []  # nothing bounds what a run takes
    person.settings.unset_methodology("on_overrun")
    person.settings.set_methodology("auto_retry", "lost")
    person.settings.set_methodology("max_attempts", "3")
    loop.config.refresh()
    assert loop.loop.approve() == []  # 9 minutes of 6
    person.settings.set_methodology("max_attempts", "2")
    loop.config.refresh()
    assert loop.loop.approve() == [three]
    assert of(loop, many) == ("proposed", None)


def test_another_code_is_not_covered_unless_the_user_says_so(
    agent: Lab, person: Lab, loop: Lab, own: Own, few: None
) -> None:
    own()
    loop.config.refresh()
    (agent.root / "train.py").write_text("print('acc=0.9')\n")
    made = propose(agent, 0.2)
    assert loop.loop.approve() == []
    own({"claim-run": {**OWN["claim-run"], "code": "any"}})
    loop.config.refresh()
    assert loop.loop.approve() == [made]


def test_an_agent_s_shell_sees_and_changes_nothing(
    agent: Lab, person: Lab, loop: Lab, own: Own, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own()
    propose(agent, 0.2)
    monkeypatch.setenv("CLAUDECODE", "1")
    with Lab.open(agent.root) as lab:
        assert in_force(lab)
        assert lab.loop.approve() == []  # its environment may name another configuration
        for restore in (False, True):
            with pytest.raises(NotPermitted):
                change(lab, *PAIR, restore=restore, why="x")
    monkeypatch.delenv("CLAUDECODE")
    with pytest.raises(NotPermitted):
        change(agent, *PAIR, why="x")


@pytest.mark.slow
def test_other_names_have_no_share_in_a_right(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    own()
    loop.config.refresh()
    names = (
        "agent:claude-code ",
        "agent:Claude-Code",
        "mcp:claude-code/1",
        "agent:claude-cod\u0435",
        "user:claude-code",
    )
    for number, name in enumerate(names):
        with Lab.open(agent.root, actor=name) as other:
            propose(other, 2 + number)
    assert loop.loop.approve() == []


# --- losing it ------------------------------------------------------------------------------------------------------


def reject(agent: Lab, person: Lab) -> None:
    person.experiments.reject(propose(agent, 9), "no")


def fail(agent: Lab, person: Lab) -> None:
    ran(agent, person, 9, " --fail")


def kill(agent: Lab, person: Lab) -> None:
    made = agent.experiments.propose("h1", command="sleep 100", cost_run_hours=0.1, noise=0.3)
    person.experiments.approve(made.id)
    (run,) = person.runs.launch(made.id)
    person.runs.kill(run.id, grace_s=0.0)


def run_out(agent: Lab, person: Lab) -> None:
    made = agent.experiments.propose("h1", command="sleep 100", wall_s=1.0, noise=0.3)
    person.experiments.approve(made.id)
    person.wait([run.id for run in person.runs.launch(made.id)], timeout_s=LONG_S)


def cost(agent: Lab, person: Lab) -> None:
    ran(agent, person, 9, cost_run_hours=1e-9, wall_s=60.0)


def taint(agent: Lab, person: Lab) -> None:
    (agent.root / "key.txt").write_text("1")
    person.settings.set_methodology("protected_paths", "key.txt")
    made = agent.experiments.propose(
        "h1", command="sh -c 'echo 2 > key.txt; echo acc=1'", cost_run_hours=0.01, noise=0.3
    )
    person.experiments.approve(made.id)
    person.wait([run.id for run in person.runs.launch(made.id)], timeout_s=LONG_S)


def retract(agent: Lab, person: Lab) -> None:
    row = next(row for row in person.evidence.list().items if row.kind == "measured")
    person.evidence.retract(row.id, why="wrong data")


@pytest.mark.parametrize(
    ("kind", "deed"),
    [
        ("rejected", reject),
        *(
            pytest.param(name, deed, marks=pytest.mark.slow)
            for name, deed in (
                ("failed", fail), ("killed", kill), ("timeout", run_out), ("cost", cost), ("tainted", taint),
                ("retracted", retract),
            )
        ),
    ],
)  # fmt: skip
def test_an_incident_loses_the_right_at_once_until_it_is_earned_anew(
    agent: Lab, person: Lab, loop: Lab, own: Own, few: None, kind: str, deed: Callable[[Lab, Lab], None]
) -> None:
    own()
    loop.config.refresh()
    loop.loop.approve()
    assert in_force(person)
    assert changes(loop) == ["earned"]
    deed(agent, person)
    assert not in_force(person)
    propose(agent, 0.2)
    assert loop.loop.approve() == []
    assert changes(loop) == ["earned", "lost"]
    (row,) = [one for one in rights(loop)["rights"] if one["proposer"] == AGENT and one["action"] == "claim-run"]
    assert row["last_incident"] is not None
    assert (row["last_incident"]["kind"], row["attempt"], row["clean"]) == (kind, 2, 0)


@pytest.mark.slow
def test_a_right_is_earned_anew_after_its_loss(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    own()
    loop.config.refresh()
    loop.loop.approve()
    reject(agent, person)
    made = propose(agent, 0.2)
    ran(agent, person, 0.3)
    assert loop.loop.approve() == []  # two are needed now
    ran(agent, person, 0.4)
    assert loop.loop.approve() == [made]
    assert changes(loop) == ["earned", "lost", "earned"]
    assert of(loop, made)[1] == "right:3"


@pytest.mark.slow
def test_what_takes_no_right(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    own()
    agent.experiments.reject(propose(agent, 0.2), "my mistake")  # a withdrawal
    person.experiments.reject(propose(person, 0.3), "another's")
    assert in_force(person)


@pytest.mark.slow
def test_a_person_revokes_and_restores(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    own()
    loop.config.refresh()
    made = propose(agent, 0.2)
    assert loop.loop.approve() == [made]
    assert change(person, *PAIR, why="I want to look")["waiting"] == [made]
    with pytest.raises(UsageError):
        change(person, *PAIR, why="again")
    # Rows that no person wrote restore nothing.
    agent.records("autonomy.change").append(proposer=AGENT, action="claim-run", change="restored", rule=1, seq=0,
                                            why="x", facts={}, of=2, mark="0" * 64)  # fmt: skip
    for number in (0.3, 0.4):
        ran(agent, person, number)
    later = propose(agent, 0.5)
    assert loop.loop.approve() == []
    assert not in_force(person)
    change(person, *PAIR, restore=True, why="fine")
    assert loop.loop.approve() == [later]


def test_only_approvals_that_were_made_here_are_evidence(
    agent: Lab, person: Lab, own: Own, few: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A project that comes with a record of its own brings no right along, even where it is trusted."""
    own()
    assert in_force(person)
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
    for is_trusted in (False, True):
        if is_trusted:
            trust_project(agent.root)
        with Lab.open(agent.root, actor="user:test") as lab:
            assert not in_force(lab)
            assert lab.loop.approve() == []


# --- ceilings -------------------------------------------------------------------------------------------------------


def test_the_project_s_file_sets_no_ceiling(agent: Lab, person: Lab, loop: Lab, few: None) -> None:
    propose(agent, 0.2)
    path = agent.root / ".perpetual" / "config.yaml"
    path.write_text(path.read_text().replace("plugins:\n", "plugins:\n  autonomy: " + json.dumps(OWN) + "\n", 1))
    loop.config.refresh()
    assert loop.config.sections["project"]["autonomy"]
    assert loop.loop.approve() == []
    found = rights(loop)
    assert found["ceilings"] == []
    assert "does not count" in found["notes"][0]
    assert not any(one["in_force"] for one in found["rights"])


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"claim-runs": {}}, "claim-run"),
        ({"claim-run": 2}, "must hold keys"),
        ({"claim-run": {"run_hours": 1}}, "run_hours_per_day must be a number"),
        ({"claim-run": {"run_hours": True, "run_hours_per_day": 1}}, "run_hours must be a number"),
        ({"claim-run": {"run_hours": float("inf"), "run_hours_per_day": 1}}, "run_hours must be a number"),
        ({"claim-run": {"run_hours": -1, "run_hours_per_day": 1}}, "run_hours must be a number"),
        ({"claim-run": {**OWN["claim-run"], "proposers": "all"}}, "list of names"),
        ({"claim-run": {**OWN["claim-run"], "incident_rate": 0.9}}, "from 0.01 to 0.3"),
        ({"claim-run": {**OWN["claim-run"], "code": "none"}}, "same or any"),
        ({"claim-run": {**OWN["claim-run"], "hours": 1}}, "hours"),
    ],
)
def test_a_ceiling_that_does_not_fit_puts_nothing_in_force(
    project: Path, own: Own, sections: dict[str, object], words: str
) -> None:
    own(sections)
    with Lab.open(project, actor="loop") as lab:
        with pytest.raises(ConfigError, match=words):
            ceilings(lab)
        assert words in str(rights(lab)["problem"])
        assert lab.loop.approve() == []
        assert lab.loop.approve() == []
        (event,) = [one for one in lab.events() if one.kind == "approver_failed"]
        assert words in event.payload["error"]


@pytest.mark.slow
def test_a_ceiling_without_proposers_is_for_nobody(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    propose(agent, 0.2)
    own({"claim-run": {"run_hours": 1, "run_hours_per_day": 1}})
    loop.config.refresh()
    assert loop.loop.approve() == []


# --- other processes ------------------------------------------------------------------------------------------------


def _approving(root: Path, **more: str) -> subprocess.CompletedProcess[str]:
    code = FEW + ("from perpetual import Lab\nwith Lab.open(actor='loop') as lab: print(*lab.loop.approve())")
    return subprocess.run([sys.executable, "-c", code], cwd=root, env={**os.environ, **more}, text=True,
                          capture_output=True, timeout=LONG_S, check=False)  # fmt: skip


@pytest.mark.slow
def test_a_process_that_dies_in_between_books_nothing(agent: Lab, person: Lab, own: Own, few: None) -> None:
    own()
    made = propose(agent, 0.2)
    died = _approving(agent.root, PERPETUAL_DIE_AT="approve:decided")
    assert died.returncode == -signal.SIGKILL
    assert of(person, made) == ("proposed", None)
    assert not person.records("autonomy.use").list().items
    assert _approving(agent.root).stdout.split() == [made]
    assert [row["experiment"] for row in person.records("autonomy.use").list().items] == [made]


@pytest.mark.slow
def test_many_loops_approve_each_once_and_stay_below_the_cap(agent: Lab, person: Lab, own: Own, few: None) -> None:
    own()
    for number in range(2, 12):
        propose(agent, number / 10)
    with ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda _: _approving(agent.root), range(4))]
    approved = [id for answer in answers for id in answer.stdout.split()]
    assert len(approved) == len({*approved}) == 6, [answer.stderr for answer in answers]
    rows = person.records("autonomy.use").list().items
    assert sorted(str(row["experiment"]) for row in rows) == sorted(approved)
    assert changes(person) == ["earned"]


@pytest.mark.slow
def test_a_right_is_earned_by_the_rule_and_used_by_the_daemon(agent: Lab, person: Lab, own: Own) -> None:
    own()
    person.settings.set_methodology("max_concurrent_runs", "8")
    made = [propose(agent, number / 100, noise=0.01 * number) for number in range(1, 12)]
    person.experiments.approve_all(made)
    for id in made:
        person.runs.launch(id)
    person.wait(made, timeout_s=LONG_S)
    assert in_force(person)
    claim = agent.hypotheses.add("another", metric="acc", direction="max", mde=0.1, baseline=0.1)
    waits = agent.experiments.propose(claim.id, command="python3 train.py --lr 5", cost_run_hours=0.01, noise=0.3).id
    for _ in range(2):
        subprocess.run([sys.executable, "-P", "-m", "perpetual", "daemon", "--once"], cwd=agent.root, check=False,
                       timeout=LONG_S, capture_output=True)  # fmt: skip
    assert of(person, waits)[1] == "right:1", [one.kind for one in person.events()][-10:]


@pytest.mark.slow
def test_a_proposal_that_is_edited_meanwhile_waits(
    agent: Lab, loop: Lab, own: Own, few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is approved is what was looked at."""
    own()
    loop.config.refresh()
    made, edits = propose(agent, 0.2), ["python3 -c 1"]
    reads = CodeCheck.states_of

    def edited(self: CodeCheck, ids: Iterable[str]) -> dict[str, CodeStateDocument]:
        found = reads(self, ids)
        while edits:
            agent.experiments.edit(made, command=edits.pop())
        return found

    monkeypatch.setattr(CodeCheck, "states_of", edited)
    assert loop.loop.approve() == []
    assert of(loop, made) == ("proposed", None)
    agent.experiments.edit(made, command="python3 train.py --lr 7")
    assert loop.loop.approve() == [made]


def test_a_part_that_is_kept_reads_on(agent: Lab, person: Lab, loop: Lab, own: Own, few: None) -> None:
    """The history is read once; what comes later counts all the same."""
    own()
    loop.config.refresh()
    part = Earned()
    assert not part.candidates(loop)
    made = propose(agent, 0.2)
    assert {*part.candidates(loop)} == {made}
    person.experiments.reject(made, "no")
    assert not part.candidates(loop)
