"""The contract suite of questions passes one that keeps it, and fails on each twin that breaks one promise."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Mapping
from itertools import count
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.testing.projects import trust_project
from perpetual_thinkers.base import MOST_QUESTION_BYTES, Request
from perpetual_thinkers.question import Question
from perpetual_thinkers.records import Thought, thoughts
from perpetual_thinkers.replies import BadReply
from perpetual_thinkers.testing.questions import AnsweredQuestionContract, Answers
from perpetual_thinkers.thinking import Thinking
from tests.plugins.thinkers.conftest import NEVER, Scripted

NAMES = sorted(
    name for name, _ in inspect.getmembers(AnsweredQuestionContract, inspect.isfunction) if name[:5] == "test_"
)
ANSWERS: Answers = ({"word": "fine"}, {"word": "bad"})


class Plain(Question):
    """Asks for a word about each open hypothesis that has no note yet, and writes it down there."""

    kind = "word"

    def schema(self) -> Mapping[str, object]:
        return {"type": "object", "required": ["word"], "properties": {"word": {"type": "string"}}}

    def new(self, lab: Lab, *, thinker: str) -> tuple[Request, str] | None:
        for claim in lab.hypotheses.list():
            if not any(one.state == "used" for one in thoughts(lab, kind_of_question=self.kind, subject=claim.id)):
                return self.about(claim.id), claim.id
        return None

    def about(self, id: str) -> Request:
        return Request(f"word-{id}", self.kind, json.dumps({"task": f"a word on {id}"}), self.schema(), 100)

    def closed(self, lab: Lab, thought: Thought) -> str | None:
        return None if lab.hypotheses.get(thought.subject).status == "open" else "it is decided"

    def check(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> None:
        if answer["word"] == "bad":
            raise BadReply("a bad word")

    def use(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> Mapping[str, object]:
        return self.written(lab, thought, f"word:{thought.id}", str(answer["word"]))

    def written(self, lab: Lab, thought: Thought, key: str, word: str) -> Mapping[str, object]:
        path = f"notes/words/{thought.subject}.md"
        lab.memory.write(path, f"# A word\n\n{word}\n", message="a word", idempotency_key=key)
        return {"note": path}


class TakesAnothersKind(Plain):
    kind = "analyse"


class KeepsOneSchema(Plain):
    held: Mapping[str, object] = {"type": "object"}

    def schema(self) -> Mapping[str, object]:
        return self.held

    def about(self, id: str) -> Request:
        return Request(f"word-{id}", self.kind, json.dumps({"task": "a word"}), {"type": "object"}, 100)


class AsksForALook(Plain):
    """Writes although there is nothing to ask."""

    def new(self, lab: Lab, *, thinker: str) -> tuple[Request, str] | None:
        if not lab.hypotheses.list():
            lab.hypotheses.add("there is something to ask about")
            return None
        return super().new(lab, thinker=thinker)


class NeverEnds(Plain):
    def may_come(self, lab: Lab) -> bool:
        return True


class AsksAnother(Plain):
    """Has another question about the same subject each time."""

    def __init__(self) -> None:
        self._number = count()

    def about(self, id: str) -> Request:
        return Request(f"word-{next(self._number)}", self.kind, json.dumps({"task": "a word"}), self.schema(), 100)


class AsksAtLength(Plain):
    def about(self, id: str) -> Request:
        return Request(f"word-{id}", self.kind, json.dumps({"task": "x" * MOST_QUESTION_BYTES}), self.schema(), 100)


class ChecksNothing(Plain):
    def check(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> None:
        """Takes any answer."""


class ChecksByWriting(Plain):
    def check(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> None:
        lab.hypotheses.update(thought.subject, tags=("checked",))
        super().check(lab, thought, answer)


class UsesTwice(Plain):
    def __init__(self) -> None:
        self._number = count()

    def use(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> Mapping[str, object]:
        number = next(self._number)
        return self.written(lab, thought, f"word:{number}", f"fine {number}")


class Approves(Plain):
    def use(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> Mapping[str, object]:
        with Lab.open(lab.root, actor="user:test") as person:
            if not person.experiments.list():
                made = person.experiments.propose(thought.subject, command="true", claim="none")
                person.experiments.approve(made.id)
        return super().use(lab, thought, answer)


class AsksForEver(Plain):
    def new(self, lab: Lab, *, thinker: str) -> tuple[Request, str] | None:
        return next(((self.about(claim.id), claim.id) for claim in lab.hypotheses.list()), None)


BROKEN: dict[type[Plain], set[str]] = {
    Plain: set(),
    TakesAnothersKind: {"test_its_kind_is_a_word_of_its_own"},
    KeepsOneSchema: {"test_its_schema_is_one"},
    AsksForALook: {"test_where_there_is_nothing_to_ask_nothing_is_written"},
    NeverEnds: {"test_where_there_is_nothing_to_ask_nothing_is_written"},
    AsksAnother: {"test_a_question_is_asked_again_as_it_was"},
    AsksAtLength: {"test_a_question_is_asked_again_as_it_was"},
    ChecksNothing: {"test_a_check_writes_nothing"},
    ChecksByWriting: {"test_a_check_writes_nothing"},
    UsesTwice: {"test_a_use_is_the_same_once_more"},
    Approves: {"test_a_use_starts_and_approves_nothing"},
    AsksForEver: {"test_one_that_was_used_is_not_asked_again"},
}


@pytest.fixture(scope="module")
def asking_project(fresh_project: Path, tmp_path_factory: pytest.TempPathFactory, shared_state: Path) -> Path:
    """A project with an open hypothesis."""
    folder = tmp_path_factory.mktemp("asking") / "project"
    shutil.copytree(fresh_project, folder)
    trust_project(folder)
    with Lab.open(folder, actor="user:test") as lab:
        lab.hypotheses.add("smaller steps help")
    return folder


def lab_of(folder: Path, like: Path) -> Lab:
    shutil.copytree(like, folder)
    trust_project(folder, like=like)
    return Lab.open(folder, actor="agent:thinker-test")


def holds(name: str, question: Question, asking: Lab, nothing: Lab) -> bool:
    """Returns whether a question passes one test of the suite."""
    test = getattr(AnsweredQuestionContract(), name)
    given = {"question": question, "asking": asking, "lab": nothing, "answers": ANSWERS}
    try:
        test(**{key: given[key] for key in inspect.signature(test).parameters})
    except (AssertionError, pytest.fail.Exception):
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Plain], asking_project: Path, fresh_project: Path, tmp_path: Path) -> None:
    failed = set()
    for name in NAMES:
        one, two = tmp_path / f"{name}-1", tmp_path / f"{name}-2"
        with lab_of(one, asking_project) as asking, lab_of(two, fresh_project) as nothing:
            if not holds(name, kind(), asking, nothing):
                failed.add(name)
    assert failed == BROKEN[kind]


def test_every_test_of_the_suite_has_a_question_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == set(NAMES)


def test_a_question_that_cannot_be_made_holds_up_no_other(lab: Lab, person: Lab) -> None:
    from perpetual.api import Conflict

    class Breaks(Plain):
        kind = "breaks"

        def new(self, lab: Lab, *, thinker: str) -> tuple[Request, str] | None:
            raise Conflict("no git here\x1b[2J")

    thinking = Thinking(lab, Scripted({"word": "fine"}), "command", questions=[Breaks(), Plain()], own=False)
    assert thinking.step(NEVER)
    assert thinking.trouble() == r"the question breaks: no git here\x1b[2J"
    assert [(one.kind, one.state) for one in thoughts(lab)] == [("word", "used")]
