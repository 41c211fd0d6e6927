"""What counts for a right, and what does not: the order of the count, and every kind of event, without a process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from perpetual import Lab
from perpetual.api import Design, Event, NotFound, Resources
from perpetual_autonomy.covers import shape
from perpetual_autonomy.history import History, action_of, is_person

AGENT, BOB = "agent:a", "user:bob"
PAIR = (AGENT, "claim-run")


class Fake:
    """A lab of events that a test makes up; its experiments are complete, and a person approved them."""

    def __init__(self) -> None:
        self.seen: list[Event] = []
        self.items: dict[str, SimpleNamespace] = {}
        self.ran: dict[str, SimpleNamespace] = {}
        self.experiments = SimpleNamespace(get=self.item, approval=self.approval)
        self.runs = SimpleNamespace(get=lambda id: self.ran[id])
        self.hypotheses = SimpleNamespace(get=lambda id: SimpleNamespace(status="open"))
        self.evidence = SimpleNamespace(get=lambda id: SimpleNamespace(experiment_id="e1", run_id="r1"))

    def item(self, id: str) -> SimpleNamespace:
        if id not in self.items:
            raise NotFound(id)
        return self.items[id]

    def approval(self, id: str) -> tuple[str, None] | None:
        item = self.items[id]
        return None if item.approved_by is None or item.elsewhere else (item.approved_by, None)

    def events(self, *, since: int, limit: int) -> list[Event]:
        return [event for event in self.seen if event.seq > since][:limit]

    def say(self, kind: str, subject: str, actor: str = "loop", /, **payload: object) -> None:
        self.seen.append(Event(len(self.seen) + 1, "2026-01-01T00:00:00.000Z", actor, kind, subject, payload))

    def start(self, id: str, run: str, **given: object) -> None:
        design = Design(claim="improves", cost_run_hours=1.0)
        known = {"id": id, "proposed_by": AGENT, "approved_by": BOB, "status": "complete", "runs": {"done": 1},
                 "hypothesis_id": "h1", "design": design, "elsewhere": False}  # fmt: skip
        self.items.setdefault(id, SimpleNamespace(**{**known, **given}))
        self.say("run_created", run, experiment_id=id)
        self.ran[run] = SimpleNamespace(experiment_id=id, exit_code=0, run_hours=0.5)

    def end(self, id: str, run: str, to: str = "done", **given: object) -> None:
        self.ran[run] = SimpleNamespace(**{**vars(self.ran[run]), **given})
        self.say("run_status", run, experiment_id=id, **{"from": "running", "to": to})


def standing(fake: Fake, history: History | None = None, pair: tuple[str, str] = PAIR) -> tuple[int, int, str | None]:
    lab, read = cast(Lab, fake), history or History()
    read.read(lab)
    found = read.standing(lab, pair)
    return found.clean, found.attempt, found.pending


@pytest.fixture
def fake() -> Fake:
    return Fake()


def test_experiments_count_in_the_order_of_their_first_runs(fake: Fake) -> None:
    """A slow failure is not passed over: what started after an experiment that goes on is not counted yet."""
    for number in range(1, 6):
        fake.start(f"e{number}", f"r{number}")
    fake.items["e3"].runs = {"running": 1}
    for number in (1, 2, 4, 5):
        fake.end(f"e{number}", f"r{number}")
    assert standing(fake) == (2, 1, "e3")
    fake.items["e3"].runs = {"done": 1}
    fake.end("e3", "r3")
    assert standing(fake) == (5, 1, None)


def test_after_an_incident_only_what_started_later_counts(fake: Fake) -> None:
    for number in (1, 2, 3):
        fake.start(f"e{number}", f"r{number}")
    fake.end("e1", "r1")
    fake.end("e2", "r2", "failed", exit_code=1)
    fake.end("e3", "r3")
    history = History()
    assert standing(fake, history) == (0, 2, None)
    fake.start("e4", "r4")
    fake.end("e4", "r4")
    assert standing(fake, history) == standing(fake) == (1, 2, None)
    fake.start("e2", "r9")  # more of an experiment that failed is the same attempt
    fake.end("e2", "r9", "failed", exit_code=1)
    assert standing(fake, history) == standing(fake) == (0, 2, None)


@pytest.mark.parametrize(
    ("given", "clean"),
    [
        ({"approved_by": "right:1"}, 0),
        ({"approved_by": "loop"}, 0),
        ({"approved_by": "agent:a"}, 0),
        ({"elsewhere": True}, 0),
        ({"runs": {"lost": 1}}, 0),
        ({"runs": {"done": 1, "lost": 1}}, 0),
        ({}, 1),
    ],
)
def test_what_is_no_evidence_counts_for_nothing(fake: Fake, given: dict[str, object], clean: int) -> None:
    fake.start("e1", "r1", **given)
    fake.end("e1", "r1")
    assert standing(fake) == (clean, 1, None)


@pytest.mark.parametrize(
    ("to", "design", "given", "kind"),
    [
        ("failed", {}, {"exit_code": 1}, "failed"),
        ("failed", {"on_crash": "refutes"}, {"exit_code": 1}, None),
        ("failed", {"stop_rule": "exit:3"}, {"exit_code": 3}, None),
        ("failed", {"stop_rule": "exit:3"}, {"exit_code": 4}, "failed"),
        ("timeout", {}, {}, "timeout"),
        ("timeout", {"stop_rule": "wall:60.0"}, {}, None),
        ("killed", {}, {}, "killed"),
        ("killed", {"on_crash": "refutes"}, {}, "killed"),
        ("lost", {}, {}, None),
        ("done", {}, {"run_hours": 2.0}, None),
        ("done", {}, {"run_hours": 2.1}, "cost"),
        ("done", {"cost_run_hours": None}, {"run_hours": 99.0}, None),
    ],
)
def test_how_a_run_ends(
    fake: Fake, to: str, design: dict[str, object], given: dict[str, object], kind: str | None
) -> None:
    known: dict[str, object] = {"claim": "improves", "cost_run_hours": 1.0}
    fake.start("e1", "r1", design=Design(**{**known, **design}))  # type: ignore[arg-type]
    fake.end("e1", "r1", to, **given)
    history = History()
    standing(fake, history)
    assert [one.kind for one in history.incidents(PAIR)] == ([] if kind is None else [kind])


def test_what_persons_and_captures_say(fake: Fake) -> None:
    fake.start("e1", "r1")
    fake.say("run_tainted", "r1", experiment_id="e1", reasons=["key.txt"])
    fake.say("budget_overrun", "r1")
    fake.say("evidence_added", "v1", BOB, hypothesis_id="h1", kind="retraction")
    fake.say("evidence_added", "v2", "agent:b", hypothesis_id="h1", kind="retraction")
    fake.say("experiment_rejected", "e1", BOB, reason="no")
    fake.say("experiment_rejected", "e1", AGENT, reason="mine", withdrawn=True)
    fake.say("experiment_rejected", "e1", "loop", reason="by rule")
    fake.say("experiment_rejected", "e99", BOB, reason="gone")
    history = History()
    standing(fake, history)
    assert [one.kind for one in history.incidents(PAIR)] == ["tainted", "overrun", "retracted", "rejected"]
    assert all(one.words for one in history.incidents(PAIR))


def test_a_prior_is_what_was_said_before_the_first_evidence(fake: Fake) -> None:
    fake.say("hypothesis_added", "h1", AGENT, statement="x", prior=0.6, declared=True)
    fake.say("hypothesis_added", "h2", AGENT, statement="x", prior=0.5, declared=False)
    fake.say("hypothesis_added", "h3", AGENT, statement="x", prior=0.5)
    fake.say("hypothesis_updated", "h2", BOB, prior=0.7, was={"prior": 0.5})
    fake.say("evidence_added", "v1", "loop", hypothesis_id="h1", kind="measured")
    fake.say("hypothesis_updated", "h1", AGENT, prior=0.75, was={"prior": 0.6})
    history = History()
    history.read(cast(Lab, fake))
    found = {id: (one.prior, one.actor, one.declared) for id, one in history.priors.items()}
    assert found == {"h1": (0.6, AGENT, True), "h2": (0.7, BOB, True), "h3": (0.5, AGENT, None)}


def test_the_classes_of_action() -> None:
    assert action_of(Design()) == "baseline-run"
    assert action_of(Design(claim="improves")) == "claim-run"
    assert action_of(Design(claim="improves", confirmation=True)) == "confirmation-run"


@pytest.mark.parametrize(
    "name", ["agent:user:bob", "mcp:user:bob", "right:1", "loop", "git:user:bob", "", None, "User:bob"]
)
def test_what_is_no_person(name: str | None) -> None:
    assert not is_person(name)


def spec(command: str, **given: object) -> str | None:
    known: dict[str, object] = {"env": {}, "cwd": None, "config": {}, "design": Design(), "resources": Resources()}
    return shape(SimpleNamespace(command=command, **{**known, **given}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("python t.py --lr 0.1", "python t.py --lr 1e-3", True),
        ("python t.py --lr=0.1 -n 3", "python t.py --lr=.2 -n -4", True),
        ("python t.py --lr 0.1", "python  't.py' --lr 0.1", True),
        ("python t.py --lr 0.1", "python t.py --lr 0.1 0.2", False),
        ("python t.py --lr 0.1", "python u.py --lr 0.1", False),
        ("python t.py --lr 0.1", "python t.py --wd 0.1", False),
        ("python t.py --lr 0.1", "python t.py --lr nan", False),
        ("python t.py --lr 0.1", "python t.py --lr '0.1;x'", False),
        ("python t.py --lr 0.1", "python t.py --lr '0.1\n'", False),
        ("python t.py --lr=0.1", "python t.py --lr=#", False),
        ("python t.py a=1", "python t.py b=1", False),
        ("1 2", "3 2", False),
        ("sh -c 'sleep 1'", "sh -c 'sleep 2'", False),
    ],
)
def test_programs_that_differ_in_numbers_alone_are_the_same(one: str, other: str, is_same: bool) -> None:
    assert (spec(one) == spec(other)) is is_same


def test_what_else_makes_another_program() -> None:
    plain = spec("t 1")
    assert spec("t 1", config={"lr": 1}) == spec("t 1", config={"lr": 2.5})
    others: list[dict[str, object]] = [{"env": {"A": "1"}}, {"cwd": "x"}, {"config": {"path": "/etc"}},
              {"design": Design(on_crash="refutes")},
              {"resources": Resources(scheduler="ray")}, {"resources": Resources(needs_artifacts=("e1/a",))},
              {"config": {"is": True}}, {"config": {"lr": ["number"]}}]  # fmt: skip
    assert len({plain, *(spec("t 1", **given) for given in others)}) == len(others) + 1
    assert spec("t 1", resources=Resources(cpus=4)) == plain
    assert spec("") is None
    assert spec("t 'open") is None
