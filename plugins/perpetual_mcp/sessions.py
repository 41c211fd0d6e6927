"""Sessions: the lab of each client, opened in its name. Used by every module of the server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING

from perpetual.api import LabOpener, Refused
from perpetual_mcp.bounds import plain

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from perpetual import Lab

__all__ = ["NOBODY", "Labs", "actor_of"]

NOBODY = "mcp:unknown"
_MOST_NAMES = 64  # a client that calls itself something else each time must not fill the memory

_speaker: ContextVar[str] = ContextVar("speaker", default=NOBODY)


class Labs:
    """The lab of each actor. Over stdio one client is one actor; over HTTP several speak at once, each in its name."""

    def __init__(self, open_lab: LabOpener) -> None:
        self.open = open_lab
        self._lock = threading.Lock()
        self._labs: dict[str, Lab] = {}

    @staticmethod
    def name(actor: str) -> None:
        """Notes who is speaking, for what this message calls."""
        _speaker.set(actor)

    @staticmethod
    def speaker() -> str:
        """Returns the sender of the message that is being served."""
        return _speaker.get()

    def lab(self) -> Lab:
        """Returns the lab in the name of the client that speaks, under the configuration of this moment."""
        lab = self._opened(_speaker.get())
        lab.config.refresh()  # a server outlives a person's change of the rules
        return lab

    def _opened(self, speaker: str) -> Lab:
        with self._lock:
            known = self._labs.get(speaker)
            if known is not None:
                return known
            if len(self._labs) >= _MOST_NAMES:
                raise Refused(
                    f"this server has served {_MOST_NAMES} clients of different names",
                    hint="start it again",
                    code="too_many_clients",
                )
        lab = self.open(speaker)  # not under the lock: it may wait for the store, and the others have theirs
        with self._lock:
            kept = self._labs.setdefault(speaker, lab)
        if kept is not lab:
            lab.close()  # two messages of a new client came at once
        return kept

    def close(self) -> None:
        """Lets go of all."""
        with self._lock:
            while self._labs:
                self._labs.popitem()[1].close()


def actor_of(ctx: ServerRequestContext[object, object]) -> str:
    """Returns `mcp:<name>/<version>` of the client that sent a message; `NOBODY` before it has named itself."""
    if ctx.method == "initialize":
        info: object = (ctx.params or {}).get("clientInfo")
        if not isinstance(info, Mapping):
            return NOBODY
        name, version = info.get("name"), info.get("version")
    else:
        known = ctx.session.client_params
        if known is None:
            return NOBODY
        name, version = known.client_info.name, known.client_info.version
    return _actor(name if isinstance(name, str) else "", version if isinstance(version, str) else "")


@lru_cache(maxsize=_MOST_NAMES)
def _actor(name: str, version: str) -> str:
    """Returns a client's name as the record holds it. Cached: each message asks for it."""
    return f"mcp:{plain(name) or 'unknown'}/{plain(version, 20) or '?'}"
