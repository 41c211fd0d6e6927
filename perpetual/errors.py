"""The exception tree. Floor 0: everybody raises from it, it imports nothing of Perpetual.

    PerpetualError                  failed                 exit 1
    ├── UsageError                  usage                  exit 2
    │   └── ConfigError             config                 exit 2
    ├── TransientError              busy                   exit 3
    ├── NotPermitted                not_permitted          exit 4
    ├── NotFound                    not_found              exit 5
    │   └── NoProject               no_project             exit 5
    ├── Conflict                    conflict               exit 6
    │   ├── RevisionConflict        changed_since_read     exit 6
    │   └── ForeignProject          foreign_project        exit 6
    ├── Refused                     refused                exit 7
    ├── PluginError                 plugin                 exit 1
    │   └── UnknownPlugin           plugin_missing         exit 2
    └── CorruptData                 corrupt                exit 1

Every error has `code` (for programs), a message that names the thing, `hint` (a way out) and `exit` (the
command's exit status). The faces turn one into a line, a JSON document or an MCP error; nothing else prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = [
    "Conflict", "ConfigError", "CorruptData", "ForeignProject", "NoProject", "NotFound", "NotPermitted",
    "PerpetualError", "PluginError", "Refused", "RevisionConflict", "TransientError", "UnknownPlugin", "UsageError",
    "masked", "nearest", "note_revealed", "unknown",
]  # fmt: skip


_REVEALED: set[str] = set()  # the secrets that plugins have been given in this process
_LONGEST = 100  # characters of a word that are compared: a megabyte would take minutes
_SHORTEST = 6  # characters: a shorter one would be found in every second text


def note_revealed(secret: str) -> None:
    """Has `masked` keep a secret out of messages from now on."""
    if len(secret) >= _SHORTEST:
        _REVEALED.add(secret)


def masked(text: str) -> str:
    """Returns a message without the secrets that plugins were given: their libraries quote passwords in errors."""
    for secret in sorted(_REVEALED, key=len, reverse=True):
        text = text.replace(secret, "<redacted>")
    return text


class PerpetualError(Exception):
    """Something failed for a reason that the message names."""

    code = "failed"
    exit = 1

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        code: str | None = None,
        data: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.data = data
        if code is not None:
            self.code = code

    def document(self) -> dict[str, object]:
        """Returns the error as the `error` part of a `perpetual.error/1` document."""
        hint = self.hint and masked(self.hint)
        return {"code": self.code, "message": masked(self.message), "hint": hint, "exit": self.exit}


class UsageError(PerpetualError):
    """A bad option, value or combination of them."""

    code = "usage"
    exit = 2


class ConfigError(UsageError):
    """A configuration file that cannot be read or says something impossible."""

    code = "config"


class TransientError(PerpetualError):
    """Retrying is safe and may help: a lock held past its deadline, a cluster out of reach."""

    code = "busy"
    exit = 3


class NotPermitted(PerpetualError):
    """The operation needs an approval or a permission that is not there."""

    code = "not_permitted"
    exit = 4


class NotFound(PerpetualError):
    """No record of that name."""

    code = "not_found"
    exit = 5


class NoProject(NotFound):
    """No Perpetual project here."""

    code = "no_project"


class Conflict(PerpetualError):
    """An illegal transition, or a thing that exists already."""

    code = "conflict"
    exit = 6


class RevisionConflict(Conflict):
    """The document has changed since it was read."""

    code = "changed_since_read"


class ForeignProject(Conflict):
    """A `.perpetual/` that another tool or a newer version wrote."""

    code = "foreign_project"


class Refused(PerpetualError):
    """Budget or policy says no."""

    code = "refused"
    exit = 7


class PluginError(PerpetualError):
    """A plugin is missing, broken, ambiguous or of a newer API."""

    code = "plugin"


class UnknownPlugin(PluginError):
    """The configuration names a part that no plugin offers, or that two offer: a bad value, like any other."""

    code = "plugin_missing"
    exit = 2


class CorruptData(PerpetualError):
    """A file of the project does not hold what it must."""

    code = "corrupt"


def nearest(word: str, known: Iterable[str], n: int = 3) -> list[str]:
    """Returns the names in `known` that look most like `word`, best first; else those of which a part looks like one.

    Of `supportd_at` that is `confidence_support_threshold`; letters that two words happen to share are no likeness.
    """
    from difflib import get_close_matches

    word = word[:_LONGEST]
    names, parts = list(known), [part for part in _parts(word) if len(part) > 2]
    alike = [name for name in names if any(get_close_matches(part, _parts(name), 1, 0.6) for part in parts)]
    return get_close_matches(word, names, n=n, cutoff=0.6) or alike[:n]


def _parts(name: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in name.lower()).split()


def unknown(what: str, word: str, known: Iterable[str]) -> str:
    """Returns a sentence for a name that is not known, with the nearest ones or, failing that, all of a few."""
    names = sorted(known)
    near = nearest(word, names)
    if near:
        return f"unknown {what} {word!r}: did you mean {', '.join(near)}?"
    few = f": choose {', '.join(names)}" if len(names) <= 8 else ""
    return f"unknown {what} {word!r}" + (few if names else ": there is none")
