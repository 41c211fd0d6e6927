"""The contract suite of questions: the promises of `perpetual_thinkers.question` as tests.

class TestAcme(QuestionContract):
    @pytest.fixture
    def question(self):
        return acme.question.build({})
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual_thinkers.base import KINDS, MOST_QUESTION_BYTES
from perpetual_thinkers.question import Question

__all__ = ["QuestionContract"]


class QuestionContract:
    """For every kind of question; see the module."""

    @pytest.fixture
    def lab(self, project: Path) -> Iterator[Lab]:
        """Returns a lab in the thinker's name, with what the question asks about; here with nothing."""
        with Lab.open(project, actor="agent:thinker-test") as lab:
            yield lab

    def test_its_kind_is_a_word_of_its_own(self, question: Question) -> None:
        """It is none of those that thinkers know."""
        assert question.kind.isidentifier()
        assert question.kind not in KINDS

    def test_its_schema_is_one(self, question: Question) -> None:
        """An answer is an object, and the schema is the same each time and as JSON."""
        from jsonschema import Draft202012Validator

        Draft202012Validator.check_schema(dict(question.schema()))
        assert question.schema()["type"] == "object"
        assert json.loads(json.dumps(question.schema())) == question.schema()

    def test_a_question_is_asked_again_as_it_was(self, question: Question, lab: Lab) -> None:
        """One subject has one question, of a bounded size; where there is nothing to ask nothing is written."""
        before = lab.feed.state()
        first = question.new(lab, thinker="test")
        if first is None:
            assert lab.feed.state() == before
            return
        again = question.new(lab, thinker="test")
        assert again == first
        assert len(first[0].state.encode()) <= MOST_QUESTION_BYTES
        assert isinstance(json.loads(first[0].state)["task"], str)
