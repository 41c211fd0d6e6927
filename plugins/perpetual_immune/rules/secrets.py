"""Secrets as hits of the scanner; the rules are `perpetual_redaction.rules`, which redaction uses too."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

from perpetual_immune.rules.hit import MEDIUM, Hit
from perpetual_redaction.rules import find_secrets

__all__ = ["find"]

_AWS_EXAMPLE = re.compile(r"A(?:KIA|SIA)[A-Z0-9]{9}EXAMPLE|[A-Za-z0-9/+]{30}EXAMPLEKEY")
"""Keys that AWS keeps for its documentation."""
_JWT_EXAMPLE = re.compile(r"eyJ[\w-]{10,80}\.(eyJ[\w-]{10,200})\.[\w-]{10,120}")
_MOST_CLAIMS = frozenset({"sub", "name", "iat", "admin"})


def _is_example(value: str) -> bool:
    """Returns whether a value is a well-known example of documentation, which no system accepts."""
    if _AWS_EXAMPLE.fullmatch(value):
        return True
    token = _JWT_EXAMPLE.fullmatch(value)
    if token is None:
        return False
    part = token.group(1)
    try:
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except ValueError:
        return False  # no token of the example's form
    return isinstance(claims, dict) and claims.keys() <= _MOST_CLAIMS and claims.get("sub") == "1234567890"


def find(text: str) -> Iterator[Hit]:
    """Yields the secrets in `text`; each hit spans the secret itself, so that its span can be replaced."""
    for secret in find_secrets(text):
        if _is_example(text[secret.start : secret.end]):
            continue
        yield Hit(secret.rule, "secret", MEDIUM, secret.start, secret.end)
