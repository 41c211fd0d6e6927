"""Redacts a text that arrives piece by piece, such as a log that is followed. Floor 0."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["RedactedStream"]

_LONGEST_LINE = 16_384
_LONGEST_KEY = 20_000


class RedactedStream:
    """Passes whole lines on, secrets replaced; holds the last line until its end, and a private key until its own.

    `redact` replaces the secrets of a text.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact, self._held = redact, ""

    def feed(self, text: str) -> str:
        """Returns what may be shown after this piece."""
        self._held += text
        cut = self._held.rfind("\n") + 1
        if cut == 0 and len(self._held) > _LONGEST_LINE:
            cut = self._held.rfind(" ") + 1 or len(self._held)
        begun = self._held.rfind("-----BEGIN", 0, cut)
        if begun >= 0 and "-----END" not in self._held[begun:cut] and cut - begun < _LONGEST_KEY:
            cut = begun
        shown, self._held = self._held[:cut], self._held[cut:]
        return self._redact(shown)

    def end(self) -> str:
        """Returns the rest."""
        shown, self._held = self._held, ""
        return self._redact(shown)
