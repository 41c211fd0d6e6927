"""The contract suites of questions: the promises of `perpetual_thinkers.question` as tests.

`QuestionContract` needs the question alone. `AnsweredQuestionContract` holds what becomes of answers too, and needs a
lab in which there is something to ask:

class TestAcme(AnsweredQuestionContract):
    @pytest.fixture
    def question(self):
        return acme.question.build({})

    @pytest.fixture
    def asking(self, project):
        acme.begin(project)
        with Lab.open(project, actor="agent:thinker-test") as lab:
            yield lab

    @pytest.fixture
    def answers(self):
        return {"word": "one that can be used"}, {"word": "one that fits the schema and cannot be used"}
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_thinkers.base import KINDS, MOST_QUESTION_BYTES
from perpetual_thinkers.question import Question
from perpetual_thinkers.records import ASKING, THOUGHT, Thought, thought_of
from perpetual_thinkers.replies import BadReply

__all__ = ["AnsweredQuestionContract", "Answers", "QuestionContract"]

Answers = tuple[Mapping[str, object], Mapping[str, object]]  # one that can be used, and one that cannot


class QuestionContract:
    """For every kind of question; see the module."""

    @pytest.fixture
    def lab(self, project: Path) -> Iterator[Lab]:
        """Returns a lab in the thinker's name, in which there is nothing to ask."""
        with Lab.open(project, actor="agent:thinker-test") as lab:
            yield lab

    def test_its_kind_is_a_word_of_its_own(self, question: Question) -> None:
        """It is none of those that thinkers know."""
        assert question.kind.isidentifier()
        assert question.kind not in KINDS

    def test_its_schema_is_one(self, question: Question) -> None:
        """An answer is an object, and the schema is JSON; one that a thinker has changed does not come back."""
        from jsonschema import Draft202012Validator

        schema = question.schema()
        before = json.dumps(schema)
        Draft202012Validator.check_schema(dict(schema))
        assert schema["type"] == "object"
        if isinstance(schema, dict):
            schema.clear()
        assert json.dumps(question.schema()) == before

    def test_where_there_is_nothing_to_ask_nothing_is_written(self, question: Question, lab: Lab) -> None:
        """A look costs nothing."""
        before = lab.feed.state()
        assert question.new(lab, thinker="test") is None
        assert not question.may_come(lab)
        assert lab.feed.state() == before


class AnsweredQuestionContract(QuestionContract):
    """For a kind of question, with what becomes of its answers; see the module."""

    def test_a_question_is_asked_again_as_it_was(self, question: Question, asking: Lab) -> None:
        """One subject has one question of a bounded size, also after the process was killed between."""
        first = question.new(asking, thinker="test")
        assert first is not None
        before = asking.feed.state()
        assert question.new(asking, thinker="test") == first
        assert asking.feed.state() == before
        assert first[0].kind == question.kind
        assert len(first[0].state.encode()) <= MOST_QUESTION_BYTES
        assert isinstance(json.loads(first[0].state)["task"], str)

    def test_a_check_writes_nothing(self, question: Question, asking: Lab, answers: Answers) -> None:
        """An answer that cannot be used raises BadReply, with the reason."""
        thought = self._asked(question, asking)
        assert question.closed(asking, thought) is None
        before = asking.feed.state()
        question.check(asking, thought, answers[0])
        with pytest.raises(BadReply, match=r"\w"):
            question.check(asking, thought, answers[1])
        assert asking.feed.state() == before

    def test_a_use_is_the_same_once_more(self, question: Question, asking: Lab, answers: Answers) -> None:
        """A process that was killed after it does it again, which changes nothing."""
        thought = self._asked(question, asking)
        question.check(asking, thought, answers[0])
        outcome = self._used(question, asking, thought, answers)
        assert json.loads(json.dumps(outcome)) == outcome
        before = asking.feed.state()
        assert self._used(question, asking, thought, answers) == outcome
        assert asking.feed.state() == before

    def test_a_use_starts_and_approves_nothing(self, question: Question, asking: Lab, answers: Answers) -> None:
        """The word of a thinker is data."""
        thought = self._asked(question, asking)
        question.use(asking, thought, answers[0])
        assert not asking.runs.list()
        assert {item.status for item in asking.experiments.list()} <= {"proposed"}

    def test_one_that_was_used_is_not_asked_again(self, question: Question, asking: Lab, answers: Answers) -> None:
        """What is asked next, if anything is, has another subject, and so another question."""
        thought = self._asked(question, asking)
        outcome = self._used(question, asking, thought, answers)
        asking.records(THOUGHT).update(thought.id, state="used", outcome=outcome)
        again = question.new(asking, thinker="test")
        assert again is None or (again[0].request_id, again[1]) != (thought.request_id, thought.subject)

    @staticmethod
    def _used(question: Question, lab: Lab, thought: Thought, answers: Answers) -> dict[str, object]:
        outcome = question.use(lab, thought, answers[0])
        assert outcome is not None
        return dict(outcome)

    @staticmethod
    def _asked(question: Question, lab: Lab) -> Thought:
        found = question.new(lab, thinker="test")
        assert found is not None
        request, subject = found
        made = lab.records(THOUGHT).add(
            request_id=request.request_id, kind_of_question=request.kind, subject=subject, thinker="test", state=ASKING,
            attempts=1, asked=request.state, max_tokens=request.max_tokens,
        )  # fmt: skip
        return thought_of(made)
