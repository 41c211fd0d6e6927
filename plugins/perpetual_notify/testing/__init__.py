"""The contract suites of notifiers: the promises of `perpetual_notify.notifier` as tests.

    class TestAcme(NotifierContract):
        @pytest.fixture
        def notifier(self):
            return acme.notifier.build({...})

`NotifierContract` lets the notifier reach nothing. `DeliveryContract` adds what can be seen only where notices arrive:
its fixture `arrived` answers the bodies of what the other side has accepted, oldest first, as text.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pytest

from perpetual.api import ConfigError
from perpetual_notify.notifier import Notice, Notifier, notice

__all__ = ["DeliveryContract", "NotifierContract", "blocked", "example", "hostile"]

_LONGEST_WHERE = 200
_SLACK_S = 2.0  # beyond `limit_s`, for a busy machine


def example(number: int = 1) -> Notice:
    """Returns a notice as the loop makes them."""
    return notice(id=f"0123456789abcdef-{number}", kind="decisions", project="a lab", title=f"h{number} is supported",
                  text="warm-up helps\nconfidence 0.97", time="2026-01-01T00:00:00.000Z")  # fmt: skip


def hostile() -> Notice:
    """Returns a notice whose texts try to be markup, options, headers, terminal escapes and a second notice."""
    return notice(
        id="0123456789abcdef-99", kind="stops", project="--x <!channel>\r\nBcc: a@b.example",
        title="-t $(id) `id` <b>\r\nX-Forged: 1\x1b]0;a\x07 \u202egnp.exe \ud800 {{7*7}} %n \0",
        text="<!channel> <@U1> <https://evil.example|here> *bold* ![x](y) &amp;\r\n.\r\nQUIT\r\n" + "x" * 100_000,
        time="2026-01-01T00:00:00.000Z",
    )  # fmt: skip


class _Blocked(OSError):
    """What a notifier gets that reaches for something."""


@contextmanager
def blocked(connect: Callable[[socket.socket], None] | None = None) -> Iterator[list[str]]:
    """Holds while every connection and every program fails to start; yields what was tried.

    Args:
        connect: what happens in the place of a connection.
    """
    tried: list[str] = []

    def no_connection(self: socket.socket, address: object) -> None:
        tried.append(f"connect {address}")
        if connect is None:
            raise _Blocked(111, "Connection refused")
        connect(self)

    def no_program(self: _Program, args: object, *_: object, **__: object) -> None:
        tried.append(f"start {args}")
        self.returncode = 1  # its destructor looks at it
        raise _Blocked(2, "No such file or directory")

    patch = pytest.MonkeyPatch()
    patch.setattr(socket.socket, "connect", no_connection)
    patch.setattr("subprocess.Popen.__init__", no_program)
    try:
        yield tried
    finally:
        patch.undo()


class _Program(Protocol):
    """A program that is being started."""

    returncode: int


class NotifierContract:
    """For every notifier; see the module."""

    @pytest.fixture
    def secrets(self) -> Sequence[str]:
        """Returns the passwords and keys that the notifier was given."""
        return ()

    def test_looking_contacts_nothing(self, notifier: Notifier) -> None:
        """Where it sends is asked each second."""
        with blocked() as tried:
            _asked(notifier.where)
            _asked(notifier.target)
        assert tried == []

    def test_where_is_one_short_line(self, notifier: Notifier, secrets: Sequence[str]) -> None:
        """It is shown in lists and errors, so it holds no secret."""
        where = _asked(notifier.where)
        if where is not None:
            assert where.isprintable()
            assert 0 < len(where) <= _LONGEST_WHERE
            assert [secret for secret in secrets if secret in where] == []

    def test_the_target_stays(self, notifier: Notifier) -> None:
        """A target that differs each time would never stay accepted."""
        first, second = _asked(notifier.target), _asked(notifier.target)
        assert first == second
        assert first is None or isinstance(first, str)

    def test_what_is_not_accepted_raises(self, notifier: Notifier) -> None:
        """Here nothing can be reached; a notice that seems sent would be lost."""
        with blocked() as tried:
            problem = _sent(notifier, example())
        assert problem is not None or tried == [], "send returned although nothing could be reached"

    def test_an_error_shows_no_secret(self, notifier: Notifier, secrets: Sequence[str]) -> None:
        """Errors are shown in `status` and kept in the outbox."""
        with blocked():
            problem = _sent(notifier, example())
        said = f"{problem} {getattr(problem, 'hint', '')}"
        assert [secret for secret in secrets if secret in said] == []

    def test_a_silent_other_side_is_given_up(self, notifier: Notifier) -> None:
        """A server that takes the connection and says nothing."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            place, really = silent.getsockname(), socket.socket.connect

            def connect(self: socket.socket) -> None:
                really(self, place)

            began_s, limit_s = time.monotonic(), notifier.limit_s
            done: list[Exception | None] = []
            with blocked(connect):
                thread = threading.Thread(target=lambda: done.append(_sent(notifier, example())), daemon=True)
                thread.start()
                thread.join(limit_s + _SLACK_S)
            has_given_up, took_s = bool(done), time.monotonic() - began_s  # the end of the server ends it, too
        assert has_given_up, f"send had not given up after {took_s:.1f} s"


class DeliveryContract(NotifierContract):
    """For notifiers whose other side the test can see; `arrived` is a fixture."""

    def test_a_notice_arrives_once_with_its_id(self, notifier: Notifier, arrived: Callable[[], Sequence[str]]) -> None:
        """It is there when `send` returns."""
        notifier.send(example(1))
        (body,) = arrived()
        assert example(1).id in body
        assert example(1).title in body
        assert "warm-up helps" in body

    def test_a_repetition_has_the_same_id(self, notifier: Notifier, arrived: Callable[[], Sequence[str]]) -> None:
        """Another notice has another one."""
        for number in (1, 1, 2):
            notifier.send(example(number))
        first, again, other = arrived()
        assert example(1).id in first
        assert example(1).id in again
        assert example(2).id in other
        assert example(1).id not in other

    def test_hostile_text_arrives_as_text(self, notifier: Notifier, arrived: Callable[[], Sequence[str]]) -> None:
        """Whatever it says is one notice; nothing in it becomes a header, an option or markup."""
        notifier.send(hostile())
        (body,) = arrived()
        assert hostile().id in body
        assert "\x1b" not in body
        assert "\nX-Forged:" not in body
        assert "\nBcc:" not in body


def _asked(question: Callable[[], str]) -> str | None:
    """Returns the answer, None where an option is missing."""
    try:
        return question()
    except ConfigError:
        return None


def _sent(notifier: Notifier, item: Notice) -> Exception | None:
    """Returns what `send` raised."""
    try:
        notifier.send(item)
    except Exception as problem:  # noqa: BLE001 - a notifier raises whatever it likes
        return problem
    return None
