"""The notifier `webhook`: a request to a server, signed, as JSON of our own or as ntfy or Slack read it."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from pathlib import Path

from perpetual.api import ConfigError, Secret
from perpetual.toolkit.secret import follow, is_reference
from perpetual_notify.notifier import Notice, Notifier
from perpetual_notify.web import Address, address, post

__all__ = ["EVENT_ID", "SIGNATURE", "Webhook", "build", "ntfy", "slack"]

SIGNATURE, EVENT_ID = "X-Perpetual-Signature", "X-Perpetual-Id"
_OPTION = "plugins.webhook.url"
_TO_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_LONGEST_NTFY_BYTES = 3600  # of a message; longer ones become an attachment there
_LONGEST_BLOCK = 2900  # characters; Slack takes 3000
_URGENT = frozenset({"stops", "waits", "failures"})


class Webhook(Notifier):
    """Sends each notice as a request."""

    def __init__(
        self, url: str | None, *, secret: Secret | None = None, token: Secret | None = None, shape: str = "json",
        allow_http: bool = False, timeout_s: float = 10.0,
    ) -> None:  # fmt: skip
        self._url, self._secret, self._token = url, secret, token
        self._shape, self._allow_http, self._timeout_s = shape, allow_http, timeout_s
        self.limit_s = 2 * timeout_s

    def where(self) -> str:
        """Returns the server's name, without the path, which is often a secret."""
        shape = "" if self._shape == "json" else f" as {self._shape}"
        return f"{self._address().shown}{shape}"

    def target(self) -> str:
        """Returns the whole address, and in which form notices go there."""
        return json.dumps([self._address().url, self._shape, self._allow_http])

    def _address(self) -> Address:
        """Returns where requests go; raises ConfigError for a reference that leads nowhere, and a bad address."""
        if self._url is None:
            raise ConfigError(f"{_OPTION} is not set", hint=f"perpetual config set {_OPTION} file:~/perpetual-webhook")
        if is_reference(self._url):
            url = Secret(_OPTION, lambda: _followed(self._url or "")).reveal().strip()
            return address(url, _OPTION, allow_http=self._allow_http)
        found = address(self._url, _OPTION, allow_http=self._allow_http)
        if self._shape == "slack" and not found.is_local:
            raise ConfigError(
                f"{_OPTION} is written out, and an address of Slack is a password",
                hint=f"perpetual config set {_OPTION} file:~/perpetual-webhook",
            )
        return found

    def send(self, notice: Notice) -> None:
        """Sends the request; the signature is over the body as it is sent."""
        to = self._address()
        if self._shape == "ntfy":
            to, document = ntfy(to, notice)
        else:
            document = slack(notice) if self._shape == "slack" else {**notice.document()}
        body = json.dumps(document, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"Content-Type": "application/json; charset=utf-8", EVENT_ID: notice.id}
        if self._secret is not None:
            key = self._secret.reveal().encode()
            headers[SIGNATURE] = "sha256=" + hmac.new(key, body, "sha256").hexdigest()
        if self._token is not None:
            headers["Authorization"] = f"Bearer {_token(self._token)}"
        post(to, body, headers, timeout_s=self._timeout_s)


def ntfy(to: Address, notice: Notice) -> tuple[Address, dict[str, object]]:
    """Returns where ntfy takes JSON, and the document for the topic that the address names."""
    path, _, topic = to.parts.path.rstrip("/").rpartition("/")
    if not topic:
        raise ConfigError(f"{_OPTION} names no topic", hint="https://ntfy.example.org/TOPIC")
    root = to.parts._replace(path=f"{path}/", query="", fragment="")
    text = f"{notice.text}\n".encode()[:_LONGEST_NTFY_BYTES].decode("utf-8", "ignore")
    return to._replace(url=root.geturl(), parts=root), {
        "topic": topic,
        "title": notice.title,
        "message": f"{text}[{notice.project} {notice.id}]",
        "priority": 4 if notice.kind in _URGENT else 3,
    }


def slack(notice: Notice) -> dict[str, object]:
    """Returns the document for Slack: plain text blocks, and a fallback in which nothing is markup."""
    head = f"{notice.title} ({notice.project})"
    text = f"{notice.text[:_LONGEST_BLOCK]}\n[{notice.id}]"
    return {
        "text": f"{head}\n{text}".translate(_TO_SLACK),
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": notice.title[:150], "emoji": False}},
            {"type": "section", "text": {"type": "plain_text", "text": f"{notice.project}\n{text}"[:3000],
                                         "emoji": False}},
        ],
    }  # fmt: skip


def _followed(reference: str) -> str:
    place = reference.removeprefix("file:")
    if place != reference and not Path(place).expanduser().is_absolute():
        raise ConfigError(f"{_OPTION}: {reference} depends on the folder of now", hint="write the whole path")
    return follow(_OPTION, reference, Path("/"))


def _token(token: Secret) -> str:
    found = token.reveal().strip()
    if not found.isascii() or not found.isprintable():
        raise ConfigError("plugins.webhook.token holds characters that no header may have")
    return found


def build(options: Mapping[str, object]) -> Webhook:
    """Builds the notifier."""
    url, secret, token, timeout_s = options["url"], options["secret"], options["token"], options["timeout_s"]
    assert url is None or isinstance(url, str)
    assert secret is None or isinstance(secret, Secret)
    assert token is None or isinstance(token, Secret)
    assert isinstance(timeout_s, (int, float))
    return Webhook(url, secret=secret, token=token, shape=str(options["shape"]),
                   allow_http=bool(options["allow_http"]), timeout_s=float(timeout_s))  # fmt: skip
