"""Chance that depends on what is drawn and on a seed, so that the same state draws the same. Pure."""

from __future__ import annotations

__all__ = ["uniform"]


def uniform(*key: object) -> float:
    """Returns a number in (0, 1) that depends on the key alone, evenly spread over keys."""
    from hashlib import blake2b  # milliseconds that only a draw pays for

    digest = blake2b(repr(key).encode("utf-8", "backslashreplace"), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 12) + 0.5) / 2**52
