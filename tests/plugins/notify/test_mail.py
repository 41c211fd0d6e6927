"""Mail: encrypted, to all addresses or to none, with errors that name what is wrong and no password."""

from __future__ import annotations

import email
import email.policy
import time
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from perpetual.api import ConfigError, PerpetualError, Secret, TransientError
from perpetual_notify.mail import Mail, message
from perpetual_notify.testing import example, hostile
from tests.plugins.notify.servers import Post, certificate, mail_server

TO = ["you@lab.example", "me@lab.example"]


@pytest.fixture
def post() -> Iterator[Post]:
    with mail_server() as found:
        yield found


def plain(post: Post, **more: object) -> Mail:
    return Mail("127.0.0.1", TO, port=post.port, security="none", timeout_s=5, **more)  # type: ignore[arg-type]


def read(text: str) -> EmailMessage:
    found = email.message_from_string(text, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def test_a_mail_arrives_with_its_headers(post: Post) -> None:
    plain(post, sender="lab@lab.example").send(example())
    mail = read(post.mails[0])
    assert post.recipients == [TO]
    assert mail["Subject"] == "[a lab] h1 is supported"
    assert mail["Message-ID"] == "<0123456789abcdef-1@perpetual.invalid>"  # a repetition is known by it
    assert mail["From"] == "lab@lab.example"
    assert mail["Auto-Submitted"] == "auto-generated"
    assert "warm-up helps\nconfidence 0.97\n" in mail.get_content()


def test_hostile_text_is_one_subject_and_one_body(post: Post) -> None:
    """No header, no end of the data, no second mail; without it, dots at the beginning of lines stay."""
    plain(post).send(hostile())
    (text,) = post.mails
    mail = read(text)
    assert set(mail.keys()) == {"Subject", "From", "To", "Date", "Message-ID", "X-Perpetual-Id", "Auto-Submitted",
                                "Content-Type", "Content-Transfer-Encoding", "MIME-Version"}  # fmt: skip
    assert "\n.\nQUIT\n" in mail.get_content()


@pytest.mark.parametrize("at_once", [False, True], ids=["starttls", "ssl"])
def test_the_password_goes_over_tls_alone(at_once: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, trusted = certificate(tmp_path)
    with mail_server(context, at_once=at_once) as post:
        post.password = "p4ss-word"
        mail = Mail("127.0.0.1", TO, port=post.port, security="ssl" if at_once else "starttls", user="me@lab.example",
                    password=Secret("p", lambda: "p4ss-word"), timeout_s=5)  # fmt: skip
        with pytest.raises(PerpetualError, match=r"certificate of 127.0.0.1.* is not valid"):
            mail.send(example())
        assert post.logins == []
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        mail.send(example())
        assert (post.logins, post.was_tls) == ([("me@lab.example", "p4ss-word")], [True])


def test_a_server_without_tls_gets_no_password(post: Post) -> None:
    mail = Mail("127.0.0.1", TO, port=post.port, user="me", password=Secret("p", lambda: "x"), timeout_s=5)
    with pytest.raises(PerpetualError, match="cannot do that: STARTTLS"):
        mail.send(example())
    assert post.logins == []


def test_a_wrong_password_is_not_echoed(post: Post) -> None:
    """Some servers quote it."""
    post.password = "another"
    with pytest.raises(PerpetualError, match="takes no login as me") as raised:
        plain(post, user="me", password=Secret("p", lambda: "p4ss-word-x")).send(example())
    assert "p4ss-word-x" not in str(raised.value.document())


def test_one_refused_address_sends_to_none(post: Post) -> None:
    """Else each attempt would repeat the mail for the others."""
    post.refuses["me@lab.example"] = "550 unknown \x1b[2J"
    with pytest.raises(PerpetualError, match=r"turns down me@lab.example: 550 unknown") as raised:
        plain(post).send(example())
    assert not isinstance(raised.value, TransientError)
    assert post.mails == []
    post.refuses["me@lab.example"] = "450 later"
    with pytest.raises(TransientError):
        plain(post).send(example())
    del post.refuses["me@lab.example"]
    post.code_of_data = "554 spam"
    with pytest.raises(PerpetualError, match="answered 554 spam"):
        plain(post).send(example())


def test_a_silent_server_is_given_up(post: Post) -> None:
    post.is_silent = True
    began_s = time.monotonic()
    with pytest.raises(TransientError, match=r"did not answer within|timed out"):
        Mail("127.0.0.1", TO, port=post.port, security="none", timeout_s=0.2).send(example())
    assert time.monotonic() - began_s < 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": None}, "plugins.email.host is not set"),
        ({"to": []}, "plugins.email.to is not set"),
        ({"host": "a b"}, "no name of a server"),
        ({"to": ["you"]}, "no mail address"),
        ({"to": ["you@x\r\nRCPT TO:<a@b>"]}, "no mail address"),
        ({"to": ["a@b,c@d"]}, "no mail address"),
        ({"sender": "x@y>\r\n"}, "no mail address"),
        ({"security": "none"}, "would not be encrypted"),
        ({"password": Secret("p", lambda: "x")}, "needs plugins.email.user"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"host": "smtp.example.org", "to": TO, **options}
    with pytest.raises(ConfigError, match=words):
        Mail(**given).target()  # type: ignore[arg-type]


def test_a_long_line_in_unicode_is_still_a_mail() -> None:
    mail = message(hostile(), "a@b.example", TO)
    assert max(map(len, mail.as_bytes().split(b"\n"))) < 1000
