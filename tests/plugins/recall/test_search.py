"""A search answers the same however closely it looks at what it found; writes in a transaction stay cheap."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from perpetual import Lab
from perpetual.lab.memory import Notes
from perpetual_recall import recall
from perpetual_recall.index import matches, rows_of, versions_of
from perpetual_recall.recall import CANDIDATES, ranked
from perpetual_recall.shown import has_notes
from perpetual_recall.words import any_of, excerpt

NOTES = 26


@pytest.fixture
def many(project: Path) -> Iterator[Lab]:
    """A lab with notes in which a word stands at several places, several times."""
    draw = random.Random(3)
    with Lab.open(project) as lab:
        for number in range(NOTES):
            title = "warmup" if number % 3 == 0 else "rates"
            body = " ".join(draw.choices(("warmup", "beta", "steps", "adam", "decay"), k=draw.randrange(20, 40)))
            lab.memory.write(f"notes/{number}.md", f"# Of {title} {number}\n\n{body}\n")
        yield lab


def test_untried_notes_stay_in_the_order_of_both_phases_over_the_pages(many: Lab) -> None:
    retriever = recall.build({})
    for query in ("warmup", "warmup beta", "adam"):
        with retriever.index.of(many) as connection:
            found = matches(connection, query.split(), for_agents=False, most=NOTES)
        expected = [item.version for item in ranked(found[:CANDIDATES], {})] + found[CANDIDATES:]
        word = any_of(query.split())
        hits = retriever.search(many, query, limit=NOTES).items
        assert len(hits) > CANDIDATES
        assert [*hits] == [(it.note, excerpt(it.text, word)) for it in expected]
    _pages_follow_one_another(many, retriever)


def _pages_follow_one_another(many: Lab, retriever: recall.Recall) -> None:
    whole = [hit.note.path for hit in retriever.search(many, "warmup", limit=NOTES)]
    paged: list[str] = []
    cursor: str | None = None
    while True:
        page = retriever.search(many, "warmup", limit=7, cursor=cursor)
        paged += [hit.note.path for hit in page]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert paged == whole
    assert len({*paged}) == len(paged) > CANDIDATES


def test_a_tally_is_read_with_its_version(project: Path) -> None:
    retriever = recall.build({})
    with Lab.open(project) as lab:
        lab.memory.write("notes/one.md", "# Warmup\nwarmup of adam\n")
        with retriever.index.of(lab) as connection:
            (row,) = rows_of(connection, ["warmup"], for_agents=False, most=3)
            (version,) = versions_of([(*row[:5], 2520, 5040, *row[7:])])
    assert (version.utility.good, version.utility.bad) == (1.0, 2.0)
    assert (version.note.path, version.bm25) == (row[7], -row[4])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# Warmup\nmore warmup\n", "# Warmup"),
        ("# Title\nhas WARMUP here\n", "has WARMUP here"),
        ("# Title\rhas warmup\nand more\n", "has warmup"),
        ("\n\n  warmup  \n", "warmup"),
        ("# Title\n\nnothing\n", "# Title"),
        ("", ""),
    ],
)
def test_an_excerpt_is_the_first_line_with_the_word(text: str, line: str) -> None:
    assert excerpt(text, any_of(["warmup"])) == line


def test_writes_of_one_transaction_do_not_list_its_notes(project: Path) -> None:
    with Lab.open(project) as lab:
        assert not has_notes(lab)
        lab.memory.write("notes/one.md", "# One\nthe first of all\n")
        lab.memory.write("notes/two.md", "# Two\nanother of them\n")
        assert has_notes(lab)
        with patch.object(Notes, "list", side_effect=AssertionError("every note was read")), lab.transaction():
            for number in range(5):
                lab.memory.write(f"notes/in{number}.md", f"# In {number}\nwritten in a transaction {number}\n")
        assert len(lab.memory.list(limit=20).items) == 7
