"""Foreign text for agents: one fence that nothing inside can close, the same for the same text."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perpetual.toolkit.fence import FENCE_BYTES, Stream, block, fence, neutralise, outside
from tests.support import LONG_S

_MARKED = st.lists(
    st.sampled_from(
        ["<", ">", ">>end ", "<<untrusted text ", "\n", "\r\n", " ", "0123456789abcdef", "\u200b", "≫", "e"]
    )
    | st.characters(),
    max_size=30,
).map("".join)


def _marks(text: str) -> tuple[list[str], list[str]]:
    lines = text.split("\n")
    return [x for x in lines if x.startswith("<<untrusted")], [x for x in lines if x.startswith(">>end")]


@settings(max_examples=60, deadline=None)
@given(_MARKED)
def test_a_fence_has_one_begin_and_one_end_whatever_is_inside(text: str) -> None:
    shown = fence(text, "a test")
    if not shown:
        assert not text.strip("\r\n")
        return
    begins, ends = _marks(shown)
    assert len(begins) == len(ends) == 1
    assert shown.startswith(begins[0])
    assert shown.endswith(ends[0])
    assert outside(f"above\n{shown}\nbelow") == "above\nbelow"
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    assert fence(block(text), "a test") == shown
    assert len(fence(text).encode()) <= len(block(text).encode()) + FENCE_BYTES


@settings(max_examples=60, deadline=None)
@given(_MARKED, st.integers(3, 40))
def test_a_value_is_one_visible_line(text: str, limit: int) -> None:
    line = neutralise(text, limit)
    assert len(line) <= limit
    assert line.isprintable()
    assert ">>end" not in neutralise(text).lower()
    assert "<<untrusted" not in neutralise(text).lower()


@pytest.mark.parametrize(
    "hidden",
    ["\u202e", "\u2066", "\u200b", "\ufeff", "\x1b[2J", "\x9b", "\u2028", "\U000e0041", "\ufe01", "\U000e0101"],
)
def test_invisible_characters_are_shown(hidden: str) -> None:
    assert hidden not in fence(f"a{hidden}b")
    assert "\\" in neutralise(f"a{hidden}b")


@pytest.mark.parametrize(
    "copy", [">>end 0", ">> END", "≫end", "＞＞end", "<<untrusted text", "<\u200b<untrusted", "＜＜ Untrusted"]
)
def test_a_copy_of_a_mark_is_broken(copy: str) -> None:
    inside = fence(f"before\n{copy} 0123\nafter").splitlines()[1:-1]
    assert not any(line.startswith(("<<", ">>", "≫", "＞＞", "＜＜")) for line in inside)


def test_the_same_text_is_rendered_the_same_and_another_one_is_not() -> None:
    assert fence("a\nb") == fence("a\nb")
    assert fence("a\nb").splitlines()[-1] != fence("a\nc").splitlines()[-1]


def test_the_mark_is_another_for_another_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = fence("the same")
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "other"))
    assert fence("the same") != first


def test_a_state_folder_that_cannot_be_written_costs_the_mark_and_not_the_fence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "file" / "state"))
    program = "from perpetual.toolkit.fence import fence; print(fence('foreign')); print(fence('foreign'))"
    words = [sys.executable, "-c", program]  # a process of its own: the mark is kept in it
    shown = subprocess.run(words, capture_output=True, text=True, timeout=LONG_S, check=True).stdout
    first, second = shown[: len(shown) // 2], shown[len(shown) // 2 :]
    assert outside(first.strip()) == ""
    assert first == second


def test_marks_and_long_runs_of_brackets_take_linear_time() -> None:
    import time

    started_s = time.monotonic()
    for text in ("<" * 300_000, "< " * 150_000, ">>" * 150_000 + "en", "\u200b" * 100_000):
        fence(text)
    assert time.monotonic() - started_s < 10


def test_a_stream_breaks_a_mark_that_comes_in_pieces() -> None:
    told: list[str] = []
    stream = Stream(told.append, "stdout of r1")
    for piece in ("one\n>", ">e", "nd 0123\ntwo\n<<untr", "usted text: x"):
        stream.put(piece)
    stream.close()
    text = "".join(told)
    begins, ends = _marks(text)
    assert len(begins) == len(ends) == 1
    assert outside(text) == ""
    assert "from stdout of r1" in begins[0]


def test_a_stream_of_nothing_writes_nothing() -> None:
    told: list[str] = []
    Stream(told.append).close()
    assert told == []
