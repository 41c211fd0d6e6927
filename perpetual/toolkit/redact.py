"""Secrets taken out of what is kept beside a run: variables, command lines and addresses. Floor 0.

What is known by its name (`HF_TOKEN`, `--api-key`), by its form (the prefixes that services give their keys, a private
key's first line, a signed web token) or by its place (the credentials in a URL, an `Authorization` header) is replaced
by `MASK`. It is a guard against keeping secrets by accident: a secret of an unknown form under a harmless name is not
seen. Used by the lab's flows; texts that people write go through the gates of memory instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["MASK", "is_secret_name", "redact_text", "redact_value", "redact_words"]

MASK = "<redacted>"

# By the end of a name: research is full of tokens and keys (PAD_TOKEN_ID, TOKENS_PER_STEP, KEY_DIM) that are none.
_NAME = re.compile(
    r"(?:key|keys|token|secret|secrets|cookie|cookies|authorization|bearer)$"
    r"|(?:^|[_.-])(?:tokens|pass|pw|pwd|auth|dsn|sas)$|(?:^|[_.-])secret[_.-]|passw|passphrase|credential|private_?key",
    re.IGNORECASE,
)
_HARMLESS = frozenset(("PWD", "OLDPWD"))  # the working directory
_FORMS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----)?"
    r"|(?<![A-Za-z0-9_-])(?:"
    r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}"
    r"|sk-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{16}|ASIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
# The part before the last @ of a URL's authority. `git@` of an ssh address is a name and no secret.
_USERINFO = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<user>[^\s/?#'\"]*)@")
_SSH_USER = re.compile(r"[A-Za-z0-9._-]+\Z")
_QUERY = re.compile(r"(?P<before>[?&;](?P<name>[A-Za-z0-9_.-]+)=)(?P<value>[^\s&;#'\"]+)")
# A header as `curl -H` takes it, and a token after the name of its scheme alone; both in any case.
_HEADER = re.compile(
    r"(?P<before>\b(?:(?:proxy-)?authorization|x-[a-z0-9-]*(?:key|token|secret))[\"']?\s*:\s*[\"']?(?:[a-z][a-z0-9-]*\s+)?)"
    r"(?P<value>[^\s\"',;]+)"
    r"|(?P<scheme>\bbearer\s+)(?=\S*\d)(?P<token>[A-Za-z0-9_.~+/=-]{16,})",
    re.IGNORECASE,
)
_ASSIGNED = re.compile(r"(?P<before>-{0,2}(?P<name>[A-Za-z0-9_.-]+)=)(?P<value>[\s\S]+)\Z")


def is_secret_name(name: str) -> bool:
    """Whether a variable, an option or a query's key of this name is taken to hold a secret."""
    return name not in _HARMLESS and _NAME.search(name) is not None


def redact_text(text: str) -> str:
    """The text without what is a secret by its form, without a header's, and without the credentials of its URLs."""
    text = _FORMS.sub(MASK, text)
    text = _HEADER.sub(lambda m: (m["before"] or m["scheme"]) + MASK, text)
    if "://" in text:
        text = _USERINFO.sub(_without_user, text)
        text = _QUERY.sub(lambda m: m["before"] + (MASK if is_secret_name(m["name"]) else m["value"]), text)
    return text


def _without_user(found: re.Match[str]) -> str:
    is_name = "ssh" in found["scheme"].lower() and _SSH_USER.match(found["user"])
    return found[0] if is_name or not found["user"] else f"{found['scheme']}://{MASK}@"


def redact_value(name: str, value: str) -> str:
    """A variable's value: `MASK` by its name, else without what is a secret in it."""
    return MASK if value and is_secret_name(name) else redact_text(value)


def redact_words(words: Iterable[str]) -> list[str]:
    """A command's words: `--api-key X`, `--api-key=X` and `API_KEY=X` lose their X."""
    shown = []
    is_next = False
    for word in words:
        assigned = _ASSIGNED.match(word)
        if is_next and not word.startswith("-"):
            shown.append(MASK)
            is_next = False
            continue
        if assigned is not None and is_secret_name(assigned["name"].lstrip("-")):
            shown.append(assigned["before"] + MASK)
        else:
            shown.append(redact_text(word))
        is_next = word.startswith("-") and "=" not in word and is_secret_name(word.lstrip("-"))
    return shown
