"""A secret that an option of a plugin refers to: a file says where the secret is kept, never what it is. Floor 0.

A reference is `env:NAME`, `file:PATH` or `keyring:SERVICE/USER`. It is followed when the plugin asks for the value: a
changed secret counts at once, and a command that does not need it does not read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Never

from perpetual.errors import ConfigError, note_revealed

__all__ = ["FORMS", "Secret", "carried", "follow", "is_reference", "uncarried"]

FORMS = "env:NAME, file:PATH or keyring:SERVICE/USER"
_REFERENCE = re.compile(r"env:[A-Za-z_]\w*|file:[^\0\n]+|keyring:[^/\n]+/[^\n]+", re.ASCII)
_CARRIED = "perpetual secret"
_LARGEST_BYTES = 64 * 1024  # of a file that holds a secret


class Secret:
    """A value that is shown nowhere: its text, its representation and its copies are masked, and it is not pickled.

    Args:
        name: of the option, for messages.
        find: answers the value, each time anew.
    """

    __slots__ = ("_find", "name")

    def __init__(self, name: str, find: Callable[[], str]) -> None:
        self.name, self._find = name, find

    def reveal(self) -> str:
        """Returns the value.

        Raises:
            ConfigError: naming the option and its reference, if the value cannot be had.
            NotPermitted: (not_trusted) if the reference was not accepted in this project.
        """
        found = self._find()
        note_revealed(found)
        return found

    def __repr__(self) -> str:
        return f"<Secret {self.name}>"

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> Never:
        raise TypeError(f"{self!r} cannot be pickled")


def carried(value: object) -> object:
    """Returns options as JSON for the pipe to a helper process, secrets revealed; raises as `Secret.reveal` does."""
    if isinstance(value, Secret):
        return {_CARRIED: value.name, "value": value.reveal()}
    if isinstance(value, dict):
        return {key: carried(item) for key, item in value.items()}
    return [carried(item) for item in value] if isinstance(value, list) else value


def uncarried(value: object) -> object:
    """Returns the options that `carried` made this JSON of."""
    if isinstance(value, list):
        return [uncarried(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _CARRIED in value:
        text: str = value["value"]
        return Secret(value[_CARRIED], lambda: text)
    return {key: uncarried(item) for key, item in value.items()}


def is_reference(value: object) -> bool:
    """Returns whether a value says where a secret is kept."""
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None


def follow(name: str, reference: str, root: Path) -> str:
    """Returns the value that a reference leads to; the line break at the end of a file is not part of it.

    Args:
        name: of the option, for messages.
        root: the folder from which a relative path is taken.

    Raises:
        ConfigError: if it leads nowhere, is empty, or needs a package that is not installed.
    """
    kind, _, place = reference.partition(":")
    try:
        if kind == "file":
            found: str | None = _of_file(name, reference, root, place)
        else:
            found = os.environ.get(place) if kind == "env" else _of_keyring(place)
    except ImportError as problem:
        hint = "pip install keyring; or keep it in the environment or a file: env:NAME, file:PATH"
        raise ConfigError(f"{name}: {reference} needs the package keyring", hint=hint) from problem
    except ConfigError:
        raise
    except Exception as problem:  # noqa: BLE001 - keyrings fail in many ways; what they say might hold the secret
        raise ConfigError(f"{name}: {reference} cannot be read: {type(problem).__name__}") from None
    if not found:
        raise ConfigError(f"{name}: {reference} holds nothing", hint="put the secret there, or change the reference")
    return found


def _of_file(name: str, reference: str, root: Path, path: str) -> str:
    place = Path(root, os.path.expanduser(path))
    try:
        if not place.is_file():
            raise FileNotFoundError(2, "no such file")
        with open(place, "rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except OSError as problem:
        why = problem.strerror or type(problem).__name__
        raise ConfigError(f"{name}: {reference} cannot be read: {why}", hint=f"ls -l {place}") from None
    try:
        if len(data) > _LARGEST_BYTES:
            raise ValueError
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except ValueError:
        raise ConfigError(f"{name}: {reference} is no text, or larger than {_LARGEST_BYTES // 1024} KiB") from None


def _of_keyring(place: str) -> str | None:
    from importlib import import_module

    service, _, user = place.partition("/")
    found: str | None = import_module("keyring").get_password(service, user)
    return found
