"""A verdict beside passed, skipped and failed: a test that held because there was nothing to judge.

    if not found:
        vacuous("it found nothing in any text of the suite")

`perpetual plugins check` shows it by its own word; for pytest it is a skip with its reason.
"""

from __future__ import annotations

from typing import NoReturn

import pytest

__all__ = ["Vacuous", "vacuous"]


class Vacuous(pytest.skip.Exception):  # type: ignore[name-defined, misc, unused-ignore]
    """A test had nothing to judge: the promise is neither kept nor broken."""


def vacuous(reason: str) -> NoReturn:
    """Ends the test: the promise says nothing of this part, for this reason."""
    raise Vacuous(reason)
