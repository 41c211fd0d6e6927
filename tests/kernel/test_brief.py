"""The brief: within its tokens whatever is in it, and what it drops is worth least for its size."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.brief import render, tokens_of

_WORDS = st.text(max_size=300)


def _hypothesis(number: int, status: str = "open", statement: str = "warm-up lowers the loss") -> dict[str, Any]:
    return {
        "id": f"h{number}",
        "statement": statement,
        "status": status,
        "confidence": 0.5,
        "false_alarm_bound": 1.0,
        "evidence_count": 0,
    }


def _result(number: int, title: str = "a title") -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "experiment_id": f"e{number}",
        "title": title,
        "status": "done",
        "reason": None,
        "metrics": {"val_loss": 2.5},
    }


def _status(**parts: Any) -> Any:
    return {
        "project": parts.get("project", "demo"),
        "seq": 7,
        "hypotheses": parts.get("hypotheses", []),
        "runs": {"active": [], "queued": 0},
        "budget": {"limit_gpu_hours": None, "spent_gpu_hours": 0.0, "run_hours": 0.0},
        "next": parts.get("next", []),
        "brief": {
            "results": parts.get("results", []),
            "dead_ends": parts.get("dead_ends", []),
            "notes": parts.get("notes", []),
        },
    }


def _full() -> Any:
    return _status(
        hypotheses=[_hypothesis(n) for n in range(1, 9)] + [_hypothesis(9, "supported"), _hypothesis(10, "refuted")],
        next=["perpetual approve e4", "perpetual run e2"],
        results=[_result(n) for n in range(1, 9)],
        dead_ends=[_hypothesis(10, "refuted", "a larger batch helps")],
        notes=[{"path": f"notes/{n}.md", "status": "candidate", "title": "a long note " * 8} for n in range(8)],
    )


@settings(max_examples=20, deadline=None)
@given(
    tokens=st.integers(0, 400),
    statements=st.lists(_WORDS, max_size=12),
    titles=st.lists(_WORDS, max_size=8),
    steps=st.lists(st.text(max_size=120), max_size=6),
    project=_WORDS,
)
def test_a_brief_is_never_longer_than_asked(
    tokens: int, statements: list[str], titles: list[str], steps: list[str], project: str
) -> None:
    status = _status(
        project=project,
        hypotheses=[_hypothesis(n, statement=text) for n, text in enumerate(statements, 1)],
        results=[_result(n, text) for n, text in enumerate(titles, 1)],
        next=[" ".join(step.split()) for step in steps],
        notes=[{"path": "notes/a.md", "status": "candidate", "title": text} for text in titles],
    )
    assert tokens_of(render(status, tokens)) <= max(tokens, 0)


def test_all_of_it_is_shown_where_there_is_room() -> None:
    text = render(_full(), 5000)
    assert "left out" not in text
    assert all(f"h{n} [" in text for n in range(1, 11))
    assert text.index("Next:") < text.index("Open hypotheses:") < text.index("Last results:") < text.index("Notes")


@pytest.mark.parametrize("tokens", [120, 160, 250, 400])
def test_omitted_parts_of_a_brief_are_counted(tokens: int) -> None:
    text = render(_full(), tokens)
    shown = sum(line.startswith("- ") for line in text.splitlines())
    everything = sum(line.startswith("- ") for line in render(_full(), 5000).splitlines())
    assert f"({everything - shown} more lines left out)" in text
    assert "perpetual hypotheses show h1" in text


def test_the_next_step_comes_before_everything_and_a_dead_end_before_an_eighth_note() -> None:
    text = render(_full(), 330)
    assert "Waiting for a person: e4. You may propose more or end your turn." in text
    assert "a larger batch helps" in text
    assert "notes/7.md" not in text


def test_more_room_shows_more() -> None:
    counts = [sum(line.startswith("- ") for line in render(_full(), tokens).splitlines()) for tokens in (60, 200, 800)]
    assert counts == sorted({*counts})
