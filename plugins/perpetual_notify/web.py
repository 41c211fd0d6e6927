"""One request to one server: no redirect is followed, certificates are checked, and the answer is bounded."""

from __future__ import annotations

import http.client
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from perpetual.api import ConfigError, PerpetualError, TransientError, line
from perpetual.toolkit.hosts import is_loopback

__all__ = ["Address", "address", "post"]

_RETRIED = frozenset({408, 425, 429})
_LONGEST_ANSWER_BYTES = 4096
_LONGEST_SAID = 120
_LONGEST_WAIT_S = 3600.0


class Address(NamedTuple):
    """Where a request goes; `shown` is without the path and the query, which may hold a secret."""

    url: str
    parts: SplitResult
    shown: str
    is_local: bool


def address(url: str, option: str, *, allow_http: bool) -> Address:
    """Returns an address, checked.

    Args:
        option: that it is of, for messages.

    Raises:
        ConfigError: if it is none, holds a password, or would be sent to unencrypted.
    """
    hint = f"perpetual config set {option} https://example.org/hook"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise ConfigError(f"{option} is no address: {problem}", hint=hint) from None
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{option} is no address of the form https://HOST/PATH", hint=hint)
    if parts.username or parts.password:
        raise ConfigError(f"{option} holds a name or a password", hint="the option token sends a bearer token")
    shown = f"{parts.scheme}://{host}" + (f":{port}" if port else "")
    is_local = is_loopback(host)
    if parts.scheme == "http" and not is_local and not allow_http:
        raise ConfigError(
            f"{option} is http to another machine: anyone between could read the notices",
            hint="write https, or set allow_http to true",
        )
    return Address(url, parts, line(shown), is_local)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: another host must not get what is signed for this one."""

    def redirect_request(self, *_: object) -> None:
        """Returns no request."""


def post(to: Address, body: bytes, headers: Mapping[str, str], *, timeout_s: float) -> None:
    """Sends a body by POST; returns once the server has answered with a status of 200 to 299.

    Raises:
        TransientError: if the server cannot be reached, or its status says that trying again may help.
        PerpetualError: if it refused.
    """
    # Reading the authorities takes 40 ms, which plain HTTP to this machine, through no proxy, need not wait for.
    is_plain = to.is_local and to.parts.scheme == "http"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else ssl.create_default_context()
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect(), urllib.request.HTTPSHandler(context=context)]
    if to.is_local:
        handlers.append(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(to.url, data=body, headers={"User-Agent": "perpetual", **headers}, method="POST")
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=timeout_s) as answer:
            answer.read(_LONGEST_ANSWER_BYTES)
    except urllib.error.HTTPError as problem:
        with problem:
            raise _refused(to, problem) from None
    except urllib.error.URLError as problem:
        raise _unreached(to, problem.reason, timeout_s) from None
    except (OSError, http.client.HTTPException) as problem:
        raise _unreached(to, problem, timeout_s) from None


def _refused(to: Address, problem: urllib.error.HTTPError) -> PerpetualError:
    status = problem.code
    if 300 <= status < 400:
        place = urlsplit(str(problem.headers.get("Location", "")))
        elsewhere = f" to {line(place.hostname)[:100]}" if place.hostname else ""
        return PerpetualError(f"{to.shown} redirects{elsewhere} ({status}), which is not followed",
                              hint="set the address to where it leads, if you trust that")  # fmt: skip
    try:
        said = line(problem.read(_LONGEST_ANSWER_BYTES).decode("utf-8", "replace"))[:_LONGEST_SAID]
    except (OSError, http.client.HTTPException):
        said = ""
    message = f"{to.shown} answered {status}" + (f": {said}" if said else "")
    if status >= 500 or status in _RETRIED:
        after = str(problem.headers.get("Retry-After", "")).strip()
        wait_s = min(float(after), _LONGEST_WAIT_S) if after.isascii() and after.isdigit() else 0.0
        return TransientError(message, data={"retry_after_s": wait_s})
    hints = {401: "the token or the address is wrong", 403: "the token or the address is wrong",
             404: "the path of the address is wrong", 413: "the server takes no body of this size"}  # fmt: skip
    return PerpetualError(message, hint=hints.get(status))


def _unreached(to: Address, reason: object, timeout_s: float) -> PerpetualError:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return PerpetualError(f"the certificate of {to.shown} is not valid: {line(reason.verify_message)}",
                              hint="SSL_CERT_FILE=PATH names further certificate authorities")  # fmt: skip
    if isinstance(reason, ssl.SSLError):
        return TransientError(f"{to.shown} speaks no TLS: {line(reason.reason or reason)}")
    if isinstance(reason, (TimeoutError, socket.timeout)):
        return TransientError(f"{to.shown} did not answer within {timeout_s:g} s")
    if isinstance(reason, OSError):
        return TransientError(f"{to.shown} cannot be reached: {line(reason.strerror or reason)}")
    return TransientError(f"{to.shown} gave no answer: {line(reason) or type(reason).__name__}")
