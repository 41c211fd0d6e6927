"""Secrets as hits of the scanner; the rules are `perpetual.toolkit.secret_rules`, which redaction uses too."""

from __future__ import annotations

from collections.abc import Iterator

from perpetual.toolkit.secret_rules import find_secrets
from perpetual_immune.rules.hit import MEDIUM, Hit

__all__ = ["find"]


def find(text: str) -> Iterator[Hit]:
    """Yields the secrets in `text`; each hit spans the secret itself, so that its span can be replaced."""
    for secret in find_secrets(text):
        yield Hit(secret.rule, "secret", MEDIUM, secret.start, secret.end)
