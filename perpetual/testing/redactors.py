"""The contract suite of the redactor slot: every promise of `perpetual.slots.redactor`, as tests to be subclassed.

    class TestAcmeRedactor(RedactorContract):
        factory = "acme.redactor:build"
        options = {}

Imported by the tests of plugins; nothing but pytest is needed. `bundled_redactor` answers Perpetual's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import ClassVar

import pytest

from perpetual.slots.redactor import MASK, Redactor
from perpetual.testing.elsewhere import elsewhere
from perpetual.testing.gates import HOSTILE, SURROUNDINGS

__all__ = ["PLAIN", "SECRETS", "RedactorContract", "bundled_redactor"]

_DRAWN = "x7Kq2mZ9aB3dR5tV1wY8" * 5
# (what may not be seen, a text that holds it). The forms are published by the issuers of such tokens, in RFC 7468
# (keys), RFC 6750 (bearer) and RFC 3986 (user information); none of them opens anything.
SECRETS: tuple[tuple[str, str], ...] = (
    ("ghp_" + _DRAWN[:36], "token ghp_" + _DRAWN[:36]),
    ("hf_" + _DRAWN[:34], "hf_" + _DRAWN[:34] + " reads the data"),
    ("AKIA" + "QX7KZ2M9AB3DR5TV", "the key AKIA" + "QX7KZ2M9AB3DR5TV is used"),
    ("sk-ant-api03-" + _DRAWN[:95], "sk-ant-api03-" + _DRAWN[:95]),
    (_DRAWN[:64], f"-----BEGIN PRIVATE KEY-----\n{_DRAWN[:64]}\n-----END PRIVATE KEY-----"),
    (_DRAWN[:40], f"Authorization: Bearer {_DRAWN[:40]}"),
    ("Zk83kq0PqW2m", "git clone https://me:Zk83kq0PqW2m@host.example/data.git"),
    (_DRAWN[:32], f"export WANDB_API_KEY={_DRAWN[:32]}"),
    ("Zk83kq0PqW2m", '{"password": "Zk83kq0PqW2m", "lr": 0.1}'),
)
PLAIN: tuple[str, ...] = (
    "# Warm-up\n\nA warm-up of 500 steps lowers the loss by 0.02, see r12.\n",
    "python train.py --lr 3e-4 --max-tokens 4096 --sort-key length --seed 7",
    "commit 0123456789abcdef0123456789abcdef01234567 on branch feature/key-value-cache",
    '{"pad_token_id": 0, "eos_token": "</s>", "cache_key": "run-12", "tokens_per_step": 524288}',
    "the bearer of bad news lost 3 experiments; the secret of it is patience",
    "https://example.org/a?page=2#tokens and git@host.example:lab/data.git",
)
_NAMES = (("HF_TOKEN", _DRAWN[:34]), ("OPENAI_API_KEY", _DRAWN[:40]), ("DB_PASSWORD", "Zk83kq0PqW2m"),
          ("aws_secret_access_key", _DRAWN[:40]))  # fmt: skip
_HARMLESS = (("PAD_TOKEN_ID", "0"), ("sort_key", "length"), ("PATH", "/usr/bin:/bin"), ("PYTHONHASHSEED", "0"),
             ("TOKENIZERS_PARALLELISM", "false"), ("lr", "0.0003"), ("num_tokens", "524288"))  # fmt: skip
_PIECE = 8  # characters of a secret that give it away


@cache
def bundled_redactor() -> Redactor:
    """Returns Perpetual's own redactor, with its defaults."""
    from perpetual.registry import Registry

    registry = Registry(safe=True)
    found: Redactor = registry.build(registry.choose("redactor", "secrets"), {})
    return found


def _shows(text: str, secret: str) -> bool:
    return any(secret[start : start + _PIECE] in text for start in range(len(secret) - _PIECE + 1))


class RedactorContract:
    """The contract of redactors.

    Promised: secrets of well-known forms are found whole, wherever they stand, in texts, in the
    words of commands and by the names of settings; texts without secrets stay as they are, and so does what was
    redacted; spans are in order, apart and inside the text; the answer depends on the arguments alone, comes quickly,
    and no text makes a redactor raise.
    """

    factory: ClassVar[str] = ""
    options: ClassVar[Mapping[str, object]] = {}

    # Of one text, in seconds of the processor; by the clock it may be four times that, on a machine that is busy.
    limit_s: ClassVar[float] = 5.0

    @pytest.fixture
    def redactor(self) -> Redactor:
        """Returns the redactor under test, as `factory` builds it; may be overridden."""
        if not self.factory:
            raise NotImplementedError("override the fixture `redactor`, or name the `factory`")
        module, _, name = self.factory.partition(":")
        build: Callable[[dict[str, object]], Redactor] = getattr(import_module(module), name)
        return build(dict(self.options))

    def test_nothing_of_a_known_secret_is_seen(self, redactor: Redactor) -> None:
        """Not even a part of it; the words around it stay."""
        for secret, text in SECRETS:
            shown = redactor.text(text)
            assert not _shows(shown, secret), f"{shown!r} shows a secret"
            assert MASK in shown

    def test_a_secret_is_found_wherever_it_stands(self, redactor: Redactor) -> None:
        """At the start, after 2 KB, within a long text, after characters that are none."""
        together = "\n\n".join(text for _, text in SECRETS)
        for place, (before, after) in SURROUNDINGS.items():
            shown = redactor.text(before + together + after)
            assert not any(_shows(shown, secret) for secret, _ in SECRETS), f"{place}: a secret is seen"

    def test_a_text_without_secrets_stays(self, redactor: Redactor) -> None:
        """Prose, commands, hashes and the settings of research."""
        for text in PLAIN:
            assert redactor.text(text) == text

    def test_what_was_redacted_stays(self, redactor: Redactor) -> None:
        """Taking secrets out twice is taking them out once."""
        for _, text in SECRETS:
            shown = redactor.text(text)
            assert redactor.text(shown) == shown

    def test_spans_are_in_order_and_apart(self, redactor: Redactor) -> None:
        """And inside the text, also where two secrets touch."""
        texts = [text for _, text in SECRETS]
        for text in (*texts, *HOSTILE, "\n".join(texts), "".join(texts)):
            end = 0
            for start, after in redactor.find(text):
                assert end <= start < after <= len(text), f"the span {start}, {after} of {len(text)} characters"
                end = after

    def test_a_part_shows_no_cut_secret(self, redactor: Redactor) -> None:
        """Half a token has no form, so the whole text says what it is."""
        for secret, text in SECRETS:
            middle = text.index(secret) + len(secret) // 2
            assert not _shows(redactor.part(text, 0, middle), secret)
            assert not _shows(redactor.part(text, middle, len(text)), secret)

    def test_words_of_a_command_lose_their_secrets(self, redactor: Redactor) -> None:
        """`--api-key X`, `--token=X` and `API_KEY=X` lose their X, and no other word changes."""
        drawn = _DRAWN[:32]
        words = ["python", "train.py", "--api-key", drawn, f"--token={drawn}", f"API_KEY={drawn}", "--lr", "0.1"]
        shown = redactor.words(words)
        assert len(shown) == len(words)
        assert not any(_shows(word, drawn) for word in shown)
        assert [shown[place] for place in (0, 1, 2, 6, 7)] == [words[place] for place in (0, 1, 2, 6, 7)]

    def test_names_of_secrets_are_known(self, redactor: Redactor) -> None:
        """Alone, with a value, and where an environment or a JSON value is redacted."""
        for name, value in _NAMES:
            assert redactor.is_secret_name(name), f"{name} is no name of a secret"
            assert redactor.is_secret(name, value), f"{name} holds no secret"
            assert redactor.environment({name: value}) == {name: MASK}
            assert redactor.value({name: value}) == {name: MASK}

    def test_settings_of_research_are_no_secrets(self, redactor: Redactor) -> None:
        """Research is full of tokens and keys that are none."""
        for name, value in _HARMLESS:
            assert not redactor.is_secret(name, value), f"{name}={value} is taken for a secret"
            assert redactor.environment({name: value}) == {name: value}

    def test_threads_get_the_same_answers(self, redactor: Redactor) -> None:
        """Calls of several threads do not disturb each other, nor do texts that were looked at in between."""
        texts = [text for _, text in SECRETS] + [*PLAIN]
        alone = [redactor.text(text) for text in texts]
        with ThreadPoolExecutor(4) as pool:
            assert [*pool.map(redactor.text, texts * 4)] == alone * 4

    def test_another_process_gives_the_same_answers(self, redactor: Redactor) -> None:
        """With another hash seed, in another folder, and next year."""
        asked = [("text", (text,)) for text in (*(text for _, text in SECRETS), *PLAIN)]
        here = [redactor.text(*given) for _, given in asked]
        now, later = elsewhere(redactor, asked, factory=self.factory, options=self.options)
        assert now == here, "another process answers otherwise"
        assert later == here, "at another time it answers otherwise"

    def test_hostile_texts_are_read_quickly(self, redactor: Redactor) -> None:
        """Whatever a log or a note holds, the time is in proportion to its length."""
        for text in HOSTILE:
            began, worked = time.monotonic(), time.thread_time()
            redactor.text(text)
            worked, took = time.thread_time() - worked, time.monotonic() - began
            assert worked < self.limit_s, f"it worked {worked:.1f} s on {text[:20]!r}"
            assert took < 4 * self.limit_s, f"it took {took:.1f} s for {text[:20]!r}"
