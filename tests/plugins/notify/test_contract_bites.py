"""The contract suites fail on each notifier that breaks one promise, and on no other."""

from __future__ import annotations

import inspect
import itertools
import json
import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import pytest

from perpetual.api import TransientError
from perpetual_notify.notifier import Notice, Notifier
from perpetual_notify.testing import DeliveryContract
from tests.plugins.notify.servers import web_server

NAMES = [name for name, _ in inspect.getmembers(DeliveryContract, inspect.isfunction) if name.startswith("test_")]
KEY = "k3y-in-the-path"


class Plain(Notifier):
    """Keeps the contract: one request over a socket."""

    limit_s = 0.3

    def __init__(self, url: str) -> None:
        self.url, self.place = url, urlsplit(url)

    def where(self) -> str:
        return f"http://{self.place.hostname}"

    def target(self) -> str:
        return self.url

    def body(self, notice: Notice) -> str:
        return json.dumps(notice.document(), ensure_ascii=False)

    def send(self, notice: Notice) -> None:
        body = self.body(notice).encode("utf-8", "replace")
        head = f"POST {self.place.path} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        try:
            with socket.create_connection((self.place.hostname, self.place.port), timeout=self.limit_s) as connection:
                connection.sendall(head + body)
                answer = connection.recv(100)
        except OSError as problem:
            raise TransientError(self.words(problem)) from None
        if b" 200 " not in answer:
            raise TransientError("refused")

    def words(self, problem: OSError) -> str:
        return f"cannot be reached: {problem.strerror}"


class Resolves(Plain):
    """Looks whether the server is there to say where it is."""

    def where(self) -> str:
        with socket.socket() as probe:
            probe.settimeout(0.2)
            try:
                probe.connect((self.place.hostname, self.place.port))
            except OSError:
                return "http://gone"
        return super().where()


class Indiscreet(Plain):
    """Shows the whole address."""

    def where(self) -> str:
        return self.url


class Restless(Plain):
    """Puts a number into its target."""

    numbers = itertools.count()

    def target(self) -> str:
        return f"{self.url} {next(self.numbers)}"


class Swallows(Plain):
    """Says nothing where it could not send."""

    def send(self, notice: Notice) -> None:
        try:
            super().send(notice)
        except TransientError:
            return


class Quotes(Plain):
    """Quotes the address in its errors."""

    def words(self, problem: OSError) -> str:
        return f"{self.url}: {problem.strerror}"


class Patient(Plain):
    """Waits for an answer as long as it takes."""

    def send(self, notice: Notice) -> None:
        limit_s, self.limit_s = self.limit_s, 600.0
        try:
            super().send(notice)
        finally:
            self.limit_s = limit_s


class Twice(Plain):
    """Sends each notice twice, to be sure."""

    def send(self, notice: Notice) -> None:
        super().send(notice)
        super().send(notice)


class Nameless(Plain):
    """Leaves the id out after the first notice."""

    sent = 0

    def body(self, notice: Notice) -> str:
        self.sent += 1
        return super().body(notice) if self.sent == 1 else super().body(notice).replace(notice.id, "")


class ByHand(Plain):
    """Builds a text of headers, and breaks lines where an escape says so."""

    def body(self, notice: Notice) -> str:
        return json.dumps([f"{notice.id} {notice.title.encode().decode('unicode_escape')} {notice.text}"])


BROKEN: dict[type[Plain], set[str]] = {
    Plain: set(),
    Resolves: {"test_looking_contacts_nothing"},
    Indiscreet: {"test_where_is_one_short_line"},
    Restless: {"test_the_target_stays"},
    Swallows: {"test_what_is_not_accepted_raises"},
    Quotes: {"test_an_error_shows_no_secret"},
    Patient: {"test_a_silent_other_side_is_given_up"},
    Twice: {"test_a_notice_arrives_once_with_its_id", "test_a_repetition_has_the_same_id",
            "test_hostile_text_arrives_as_text"},
    Nameless: {"test_a_repetition_has_the_same_id"},
    ByHand: {"test_hostile_text_arrives_as_text"},
}  # fmt: skip


def holds(name: str, kind: type[Plain]) -> bool:
    """Whether a notifier passes one test of the suite."""
    with web_server() as web:
        test: Callable[..., None] = getattr(DeliveryContract(), name)

        def arrived() -> Sequence[str]:
            return ["\n".join(map(str, _flat(json.loads(got.body)))) for got in web.got]

        notifier = kind(f"{web.url}/{KEY}")
        given: dict[str, object] = {"notifier": notifier, "arrived": arrived, "secrets": (KEY,)}
        try:
            test(**{key: given[key] for key in inspect.signature(test).parameters})
        except (AssertionError, ValueError):
            return False
    return True


def _flat(document: object) -> list[object]:
    return [*document.values()] if isinstance(document, dict) else [*document] if isinstance(document, list) else []


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_the_suite_bites(kind: type[Plain]) -> None:
    assert {name for name in NAMES if not holds(name, kind)} == BROKEN[kind]


def test_every_test_of_the_suite_has_a_notifier_that_fails_it() -> None:
    assert set().union(*BROKEN.values()) == set(NAMES)
