"""Webhooks: signed, in three shapes, refused where they would leak, and clear where they fail."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perpetual.api import ConfigError, PerpetualError, Secret, TransientError
from perpetual_notify.notifier import notice
from perpetual_notify.testing import example, hostile
from perpetual_notify.webhook import Webhook, build
from tests.plugins.notify.servers import Web, certificate, web_server

OPTIONS = {"url": None, "secret": None, "token": None, "shape": "json", "allow_http": False, "timeout_s": 5.0}


@pytest.fixture
def web() -> Iterator[Web]:
    with web_server() as found:
        yield found


def test_the_body_is_signed_as_it_is_sent(web: Web) -> None:
    item = notice(id="p-7", kind="stops", project="ünï", title="☃ stopped", text="a\nb", time="2026-01-01T00:00:00Z")
    Webhook(f"{web.url}/hook?x=1", secret=Secret("s", lambda: "kéy")).send(item)
    (got,) = web.got
    assert got.path == "/hook?x=1"
    digest = hmac.new("kéy".encode(), got.body, hashlib.sha256).hexdigest()
    assert got.headers["X-Perpetual-Signature"] == f"sha256={digest}"
    assert got.headers["X-Perpetual-Id"] == "p-7"
    assert json.loads(got.body) == {"id": "p-7", "kind": "stops", "project": "ünï", "title": "☃ stopped",
                                    "text": "a\nb", "time": "2026-01-01T00:00:00Z"}  # fmt: skip


def test_without_a_key_nothing_is_signed_and_a_token_is_sent(web: Web) -> None:
    Webhook(web.url, token=Secret("t", lambda: "tk_1\n")).send(example())
    (got,) = web.got
    assert "X-Perpetual-Signature" not in got.headers
    assert got.headers["Authorization"] == "Bearer tk_1"


def test_a_token_that_would_be_two_headers_is_refused(web: Web) -> None:
    with pytest.raises(ConfigError, match="no header may have"):
        Webhook(web.url, token=Secret("t", lambda: "a\r\nX-Forged: 1")).send(example())
    assert web.got == []


def test_ntfy_gets_its_topic_at_its_root(web: Web) -> None:
    Webhook(f"{web.url}/base/my-topic", shape="ntfy").send(example())
    Webhook(f"{web.url}/my-topic", shape="ntfy").send(hostile())
    first, second = web.got
    assert (first.path, second.path) == ("/base/", "/")
    said = json.loads(first.body)
    assert (said["topic"], said["title"]) == ("my-topic", "h1 is supported")
    assert said["message"] == "warm-up helps\nconfidence 0.97\n[a lab 0123456789abcdef-1]"
    assert len(json.loads(second.body)["message"].encode()) <= 4096  # more becomes an attachment there
    with pytest.raises(ConfigError, match="names no topic"):
        Webhook(web.url, shape="ntfy").send(example())


def test_slack_gets_plain_text(web: Web) -> None:
    """In blocks nothing is markup, and in the fallback nothing can be: no mention, no link with another text."""
    Webhook(web.url, shape="slack").send(hostile())
    said = json.loads(web.got[0].body)
    assert {block["text"]["type"] for block in said["blocks"]} == {"plain_text"}
    assert not set("<>") & set(said["text"])
    assert "&lt;!channel&gt;" in said["text"]
    assert len(said["blocks"][0]["text"]["text"]) <= 150
    assert len(said["blocks"][1]["text"]["text"]) <= 3000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, TransientError), (503, TransientError), (429, TransientError), (408, TransientError),
     (400, PerpetualError), (401, PerpetualError), (404, PerpetualError), (413, PerpetualError)],
)  # fmt: skip
def test_a_status_says_whether_trying_again_may_help(web: Web, status: int, kind: type[PerpetualError]) -> None:
    web.answer = lambda got: (status, {"Retry-After": "7"}, b"why \x1b[2J not")
    with pytest.raises(PerpetualError, match=rf"http://127.0.0.1:\d+ answered {status}: why \\x1b\[2J not") as raised:
        Webhook(f"{web.url}/s3cret").send(example())
    assert type(raised.value) is kind
    assert "s3cret" not in str(raised.value)
    if kind is TransientError:
        assert raised.value.data == {"retry_after_s": 7.0}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(web: Web, status: int) -> None:
    """What is signed for one host, and its token, are not handed to another."""
    with web_server() as other:
        web.answer = lambda got: (status, {"Location": f"{other.url}/else"}, b"")
        with pytest.raises(PerpetualError, match=r"redirects to 127.0.0.1 .* not followed"):
            Webhook(web.url, secret=Secret("s", lambda: "key"), token=Secret("t", lambda: "tok")).send(example())
        assert len(web.got) == 1
        assert other.got == []


def test_a_slow_server_is_given_up(web: Web) -> None:
    def slow(got: object) -> tuple[int, dict[str, str], bytes]:
        time.sleep(3)
        return 200, {}, b""

    web.answer = slow
    began_s = time.monotonic()
    with pytest.raises(TransientError, match=r"did not answer within 0\.2 s"):
        Webhook(web.url, timeout_s=0.2).send(example())
    assert time.monotonic() - began_s < 2


def test_an_endless_answer_is_not_read_to_its_end(web: Web) -> None:
    web.answer = lambda got: (500, {}, b"x" * 5_000_000)
    with pytest.raises(TransientError) as raised:
        Webhook(web.url).send(example())
    assert len(str(raised.value)) < 300


def test_no_server_is_a_clear_error() -> None:
    with web_server() as web:
        pass
    with pytest.raises(TransientError, match="cannot be reached: Connection refused"):
        Webhook(web.url).send(example())


@pytest.mark.slow
def test_certificates_are_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, trusted = certificate(tmp_path)
    with web_server(context) as web:
        with pytest.raises(PerpetualError, match=r"certificate of https://127.0.0.1.* is not valid: self") as raised:
            Webhook(web.url).send(example())
        assert "SSL_CERT_FILE" in str(raised.value.hint)
        assert web.got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
        Webhook(web.url).send(example())
        assert len(web.got) == 1
    with web_server() as plain, pytest.raises(TransientError, match="TLS"):
        Webhook(plain.url.replace("http:", "https:")).send(example())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (None, "is not set"),
        ("", "no address"),
        ("ftp://example.org", "no address"),
        ("example.org/hook", "no address"),
        ("https://", "no address"),
        ("https://example.org:x/", "no address"),
        ("https://example.org/a b", "no address"),
        ("https://example.org/a\nb", "no address"),
        ("https://exämple.org/", "no address"),
        ("https://me:pw@example.org/", "holds a name or a password"),
        ("http://example.org/hook", "http to another machine"),
        ("http://localhost.example.org/hook", "http to another machine"),
        ("http://127.0.0.1.example.org/hook", "http to another machine"),
        ("env:NO_SUCH_VARIABLE_HERE", "holds nothing"),
        ("file:hook", "depends on the folder"),
        ("file:/no/such/file", "cannot be read"),
    ],
)
def test_a_bad_address_is_named(url: str | None, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build({**OPTIONS, "url": url}).target()


def test_an_address_of_slack_is_not_written_out(tmp_path: Path) -> None:
    """It is a password, and config.yaml is shown and committed."""
    with pytest.raises(ConfigError, match="written out"):
        build({**OPTIONS, "url": "https://hooks.example.org/T/B/x", "shape": "slack"}).target()
    kept = tmp_path / "hook"
    kept.write_text("https://hooks.example.org/T/B/x\n")
    found = build({**OPTIONS, "url": f"file:{kept}", "shape": "slack"})
    assert found.where() == "https://hooks.example.org as slack"
    first = found.target()
    kept.write_text("https://evil.example.org/T/B/x\n")
    assert found.target() != first  # what was accepted is the address, and not where it is kept


def test_http_to_another_machine_needs_a_word() -> None:
    assert build({**OPTIONS, "url": "http://ntfy.lan/t", "allow_http": True}).where() == "http://ntfy.lan"
