"""Scores of the test items behind a metric's value, packed for the record: small, and to seven digits.

Used where a run's end is recorded and where evidence is folded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["FEWEST", "MOST", "pack", "unpack"]

FEWEST, MOST = 2, 20_000  # items that are kept; more are not needed to know their luck


def pack(scores: Sequence[float]) -> str | None:
    """Returns finite scores as text; None for fewer than two, for more than 20,000, and for one that is no number."""
    from array import array
    from base64 import b64encode
    from zlib import compress

    if not FEWEST <= len(scores) <= MOST:
        return None
    try:
        packed = array("f", scores)
    except (TypeError, OverflowError):
        return None
    if not all(map(math.isfinite, packed)):
        return None
    return b64encode(compress(packed.tobytes(), 9)).decode("ascii")


def unpack(text: str) -> list[float]:
    """Returns the scores of a packed text; raises ValueError for one that is none."""
    from array import array
    from base64 import b64decode
    from zlib import decompressobj, error

    found = array("f")
    reader = decompressobj()
    try:
        found.frombytes(reader.decompress(b64decode(text, validate=True), MOST * found.itemsize))
    except (error, ValueError) as problem:
        raise ValueError(f"item scores are damaged: {problem}") from None
    return found.tolist()
