"""Random words in the user's own state folder: a permission of a campaign counts while its word is there.

So what a person has taken back does not come again with an older record.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from perpetual.toolkit import user_state
from perpetual.toolkit.atomic import write_atomic

__all__ = ["drawn", "held"]

_FOLDER = "campaign-thinkers"
_BYTES = 32


def drawn(names: Sequence[str]) -> str:
    """Returns a new word for what is named so; marks with the one before are void.

    Raises:
        PerpetualError: (state_not_writable) where the user's state folder cannot be written.
    """
    path = user_state.folder() / _FOLDER / _name(names)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    word = secrets.token_hex(_BYTES)
    write_atomic(path, word.encode())
    return word


def held(names: Sequence[str]) -> str | None:
    """Returns the word for what is named so, None where there is none."""
    found = user_state.read_own(os.fspath(Path(user_state.location()) / _FOLDER / _name(names)), 2 * _BYTES)
    return None if found is None else found.decode("ascii", "replace")


def _name(names: Sequence[str]) -> str:
    return sha256("\0".join(names).encode()).hexdigest() + ".word"
