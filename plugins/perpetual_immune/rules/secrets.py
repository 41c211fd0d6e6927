"""Secrets as hits of the scanner; the rules are `perpetual_redaction.rules`, which redaction uses too."""

from __future__ import annotations

from collections.abc import Iterator

from perpetual_immune.rules.hit import MEDIUM, Hit
from perpetual_redaction.rules import find_secrets

__all__ = ["find"]


def find(text: str) -> Iterator[Hit]:
    """Yields the secrets in `text`; each hit spans the secret itself, so that its span can be replaced."""
    for secret in find_secrets(text):
        yield Hit(secret.rule, "secret", MEDIUM, secret.start, secret.end)
