"""The redactor's contract suite fails on every redactor that breaks one promise."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import pytest

from perpetual.slots.redactor import MASK, Redactor, Span
from perpetual.testing.redactors import RedactorContract, bundled_redactor


class Sound(Redactor):
    """Perpetual's own redactor, as the twins change it."""

    def find(self, text: str) -> Sequence[Span]:
        return bundled_redactor().find(text)

    def words(self, words: Sequence[str]) -> list[str]:
        return bundled_redactor().words(words)

    def is_secret_name(self, name: str) -> bool:
        return bundled_redactor().is_secret_name(name)

    def is_secret(self, name: str, value: str, *, is_variable: bool = False) -> bool:
        return bundled_redactor().is_secret(name, value, is_variable=is_variable)


class LeavesTheEnd(Sound):
    """The last ten characters of each secret are seen."""

    def find(self, text: str) -> Sequence[Span]:
        return [(start, max(start + 1, end - 10)) for start, end in super().find(text)]


class ReadsAKilobyte(Sound):
    """The rest is not looked at."""

    def find(self, text: str) -> Sequence[Span]:
        return super().find(text[:1024])


class TakesLongWords(Sound):
    """Whatever is long is taken for a secret, as the hash of a commit."""

    def find(self, text: str) -> Sequence[Span]:
        found, position = [], 0
        for word in text.split(" "):
            if len(word) > 30:
                found.append((position, position + len(word)))
            position += len(word) + 1
        return found


class MasksTheMask(Sound):
    """What was redacted is redacted again, each time with more around it."""

    def text(self, text: str) -> str:
        return super().text(text).replace(MASK, f"[{MASK}]")


class Unordered(Sound):
    """The last secret comes first."""

    def find(self, text: str) -> Sequence[Span]:
        return [*super().find(text)][::-1]


class CutsFirst(Sound):
    """A part is judged alone."""

    def part(self, text: str, start: int, end: int) -> str:
        return self.text(text[start:end])


class OneWordAtATime(Sound):
    """What an option says of the next word is not heard."""

    def words(self, words: Sequence[str]) -> list[str]:
        return [self.text(word) for word in words]


class DropsWords(Sound):
    """A secret word is left out."""

    def words(self, words: Sequence[str]) -> list[str]:
        return [word for word in super().words(words) if word != MASK]


class KnowsOneName(Sound):
    """Only what is named a password is one."""

    def is_secret_name(self, name: str) -> bool:
        return "password" in name.lower()


class EveryToken(Sound):
    """A padding token is a token."""

    def is_secret(self, name: str, value: str, *, is_variable: bool = False) -> bool:
        return "token" in name.lower() or super().is_secret(name, value, is_variable=is_variable)


class OnlyTheFirstThread(Sound):
    """Another thread sees what it may not."""

    def __init__(self) -> None:
        self._mine = threading.get_ident()

    def find(self, text: str) -> Sequence[Span]:
        return super().find(text) if threading.get_ident() == self._mine else ()


class OnlyHere(Sound):
    """Another process sees what it may not."""

    def __init__(self) -> None:
        self._mine = os.getpid()

    def find(self, text: str) -> Sequence[Span]:
        return super().find(text) if os.getpid() == self._mine else ()


class Grinds(Sound):
    """The longer the text, the longer the wait, and longer."""

    def find(self, text: str) -> Sequence[Span]:
        until = time.thread_time() + (len(text) / 320_000) ** 2
        while time.thread_time() < until:
            pass
        return super().find(text)


class WantsUtf8(Sound):
    """A text that UTF-8 cannot carry ends it."""

    def find(self, text: str) -> Sequence[Span]:
        text.encode()
        return super().find(text)


class Hasty(RedactorContract):
    """The suite, with as little patience as a twin can wait for."""

    limit_s: ClassVar[float] = 0.25


BROKEN: list[tuple[type[Sound], str, type[Exception]]] = [
    (LeavesTheEnd, "test_nothing_of_a_known_secret_is_seen", AssertionError),
    (ReadsAKilobyte, "test_a_secret_is_found_wherever_it_stands", AssertionError),
    (TakesLongWords, "test_a_text_without_secrets_stays", AssertionError),
    (MasksTheMask, "test_what_was_redacted_stays", AssertionError),
    (Unordered, "test_spans_are_in_order_and_apart", AssertionError),
    (CutsFirst, "test_a_part_shows_no_cut_secret", AssertionError),
    (OneWordAtATime, "test_words_of_a_command_lose_their_secrets", AssertionError),
    (DropsWords, "test_words_of_a_command_lose_their_secrets", AssertionError),
    (KnowsOneName, "test_names_of_secrets_are_known", AssertionError),
    (EveryToken, "test_settings_of_research_are_no_secrets", AssertionError),
    (OnlyTheFirstThread, "test_threads_get_the_same_answers", AssertionError),
    (OnlyHere, "test_another_process_gives_the_same_answers", AssertionError),
    (Grinds, "test_hostile_texts_are_read_quickly", AssertionError),
    (WantsUtf8, "test_hostile_texts_are_read_quickly", UnicodeEncodeError),
]


def _tests() -> Mapping[str, Callable[..., None]]:
    return {name: test for name, test in vars(RedactorContract).items() if name.startswith("test_")}


def test_there_is_a_broken_redactor_for_every_promise() -> None:
    assert {name for _, name, _ in BROKEN} == {*_tests()}


@pytest.mark.parametrize(("broken", "name", "error"), BROKEN, ids=[broken.__name__ for broken, _, _ in BROKEN])
def test_a_broken_redactor_fails(broken: type[Sound], name: str, error: type[Exception]) -> None:
    test = _tests()[name]
    test(RedactorContract(), Sound())
    with pytest.raises(error):
        test(Hasty(), broken())
