"""Plugins in the package index that this environment installs from: the names `perpetual-plugin-*` of its listing.

An index has no search that every one of them speaks, so its listing of projects is read (PEP 691, or PEP 503 where it
answers HTML). It is read as it comes and never kept whole; the names found are kept for a day in the user's state.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit, urlunsplit

from perpetual.api import PerpetualError, TransientError, UsageError
from perpetual.toolkit import user_state
from perpetual_devkit.authoring import PREFIX
from perpetual_devkit.installer import canonical

if TYPE_CHECKING:
    from http.client import HTTPResponse

__all__ = ["FILE", "LIMITS", "Limits", "Listed", "listed"]

FILE = "plugin-index.json"
_CONNECTION_S = 20.0  # without a byte
_LONGEST_NAME = 200  # bytes that are kept from one chunk to the next
_LARGEST_KEPT_BYTES = 4 << 20
_ACCEPTED = "application/vnd.pypi.simple.v1+json, text/html;q=0.5, application/vnd.pypi.simple.v1+html;q=0.4"
_STEM = rb"[Pp]erpetual[-_.]+[Pp]lugin[-_.]+[A-Za-z0-9][A-Za-z0-9._-]*"
_IN_JSON = re.compile(rb'"name"\s*:\s*"(' + _STEM + rb')"')
_IN_HTML = re.compile(rb'href="[^"]*?/?(' + _STEM + rb')/?"')


class Limits(NamedTuple):
    """How long a listing counts, and how much of one is read."""

    kept_s: float = 24 * 3600.0
    reading_s: float = 120.0  # of a whole listing
    largest_bytes: int = 512 << 20
    chunk_bytes: int = 1 << 20


LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Listed:
    """The plugins that an index lists; `index` is its address without a password, `at` when it was asked."""

    index: str
    at: float
    names: tuple[str, ...]


def listed(index: str, *, refresh: bool = False, limits: Limits = LIMITS) -> Listed:
    """Returns the plugins that the index lists, as kept for a day or asked now.

    Raises:
        TransientError: (index_unreachable) if it cannot be reached, does not answer in time, or answers no listing.
        UsageError: for an address that is not of HTTP.
    """
    shown, authorization = _parted(index)
    key = hashlib.sha256(index.encode()).hexdigest()
    kept = None if refresh else _kept(key, shown, limits.kept_s)
    if kept is not None:
        return kept
    names = {canonical(name.decode()) for name in _names(shown, authorization, limits)}
    found = Listed(shown, time.time(), tuple(sorted(names)))
    _keep(key, found)
    return found


def _parted(index: str) -> tuple[str, str | None]:
    """Returns the address without user and password, and the header that carries them."""
    try:
        parts = urlsplit(index)
        _ = parts.port
    except ValueError as problem:
        raise UsageError(f"the package index is no address: {problem}", hint="see pip config list") from problem
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"the package index {parts.scheme or index!r} is not asked over HTTP: its names cannot be listed"
        )
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + "/", "", ""))
    if parts.username is None:
        return shown, None
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return shown, "Basic " + base64.b64encode(user.encode()).decode()


def _names(url: str, authorization: str | None, limits: Limits) -> Iterator[bytes]:
    """Yields each name of a plugin in the index's listing."""
    from urllib.request import Request, urlopen

    request = Request(url, headers={"Accept": _ACCEPTED, "Accept-Encoding": "gzip", "User-Agent": "perpetual"})
    if authorization is not None:
        request.add_unredirected_header("Authorization", authorization)
    try:
        with urlopen(request, timeout=_CONNECTION_S) as answer:
            pattern = _IN_JSON if "json" in answer.headers.get_content_type() else _IN_HTML
            tail = b""
            for chunk in _chunks(answer, limits):
                text = tail + chunk
                yield from (match[1] for match in pattern.finditer(text))
                tail = text[-_LONGEST_NAME:]  # a name that is cut is found whole with the next chunk
    except HTTPError as problem:
        raise _unreachable(url, f"it answers {problem.code} {problem.reason}") from problem
    except (OSError, HTTPException, EOFError) as problem:  # URLError is one; a body that is cut off
        raise _unreachable(url, str(getattr(problem, "reason", problem)) or type(problem).__name__) from problem


def _chunks(answer: HTTPResponse, limits: Limits) -> Iterator[bytes]:
    plain = gzip.GzipFile(fileobj=answer) if answer.headers.get("Content-Encoding") == "gzip" else answer
    began, size = time.monotonic(), 0
    while chunk := plain.read(limits.chunk_bytes):
        size += len(chunk)
        if size > limits.largest_bytes:
            raise _unreachable(answer.url, f"its listing is larger than {limits.largest_bytes >> 20} MiB")
        if time.monotonic() - began > limits.reading_s:
            raise _unreachable(answer.url, f"its listing took more than {limits.reading_s:g} s")
        yield chunk
    if answer.length:  # bytes that were announced and did not come
        raise EOFError("it was cut off")


def _unreachable(url: str, why: str) -> TransientError:
    return TransientError(
        f"the package index {url} cannot be read: {why}",
        hint="the names are kept for a day once it was; pip config shows which index is set",
        code="index_unreachable",
    )


def _path() -> str:
    return os.path.join(user_state.location(), FILE)


def _kept(key: str, shown: str, kept_s: float) -> Listed | None:
    try:
        data = json.loads(user_state.read_own(_path(), _LARGEST_KEPT_BYTES) or b"")
        if data["key"] != key or not 0 <= time.time() - data["at"] < kept_s:
            return None
        return Listed(
            shown, float(data["at"]), tuple(str(name) for name in data["names"] if str(name).startswith(PREFIX))
        )
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _keep(key: str, found: Listed) -> None:
    """Keeps the names; without a state folder that can be written they are asked for again."""
    from perpetual.toolkit.atomic import write_atomic

    try:
        user_state.folder()
        write_atomic(_path(), json.dumps({"key": key, "at": found.at, "names": found.names}), durable=False)
    except (OSError, PerpetualError):
        return
