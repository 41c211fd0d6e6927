"""Names that keep secrets, and values that look drawn at random. Used by `redactor` alone.

Research is full of tokens and keys that are none (`PAD_TOKEN_ID`, `sort_key`), so a name counts by its end, by what
stands before that, and, where it is a weak one, together with its value.
"""

from __future__ import annotations

import re

from perpetual.toolkit.late_pattern import late_pattern
from perpetual_redaction.rules import entropy, is_placeholder

__all__ = ["is_secret_name", "is_secret_setting", "looks_drawn", "looks_like_password"]

_NAME = late_pattern(
    r"(?:key|keys|token|secret|secrets|cookie|cookies|authorization|bearer)$"
    r"|(?:^|[_.-])(?:tokens|pass|pw|pwd|auth|dsn|sas|pat|webhook)$|(?:^|[_.-])(?:secret|jwt)(?:$|[_.-])"
    r"|(?:^|[_.-])auth[_.-]?(?:value|data|string|header|code)|passw|passphrase|credential(?!s?[_.-]?ids?$)|private_?key|webhook_url$",
    re.IGNORECASE,
)
_STRONG = late_pattern(
    r"passw|passphrase|passcode|credential(?!s?[_.-]?(?:ids?$|file|path|type|helper))|bearer$|authorization$"
    r"|(?:^|[_.-])(?:pass|pwd|dsn|jwt|pat)$|(?:^|[_.-])jwt[_.-]|(?:^|[_.-]|client|shared|app|api)secrets?(?:$|[_.-](?!id))"
    r"|(?:api|access|auth|private|client|signing|encryption|master|account|deploy|license)[_.-]?(?:key|token|secret)s?"
    r"(?![_.-]?(?:id|name|file|path|count|len|type)s?$)|(?:^|[_.-])auth[_.-]?(?:value|data|string|header|code)",
    re.IGNORECASE,
)
# HF_TOKEN, DEPLOY_KEY: a variable named so is a credential, whatever stands before.
_VARIABLE = late_pattern(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*_(?:TOKEN|KEY|SECRET|AUTH|COOKIE)\Z")
_HARMLESS = late_pattern(
    r"(?:^|[_.-])(?:pad|eos|bos|unk|mask|sep|cls|stop|special|start|end|begin|prompt|image|text|audio|vision|class|decoder"
    r"|sort|group|cache|primary|foreign|metric|join|partition|lookup|dict|state|index|query|label|feature|column|monitor"
    r"|hot|short|map|row|first|last|best|rng|prng|random|routing|shard|max|num|n|new|min|per|total|input|output|target"
    r"|data|batch|val|test|train|loss|score|public|pub|idempotency)[_.-]?(?:tokens?|keys?)$"
    r"|^(?:turkey|monkey|hotkey|donkey|passkey_?retrieval|keys|tokens)$",
    re.IGNORECASE,
)
_NO_SECRET = frozenset(("PWD", "OLDPWD", "SSH_AUTH_SOCK"))  # the working directory, the agent's socket
_TOKEN_NAME = late_pattern(r"(?:token|secret|auth|cookie|sas|pw|bearer)$", re.IGNORECASE)
_CODE = late_pattern(
    r"[(){}\[\];]|::|->|^\w+(?:\.[A-Za-z_]\w*){1,6}$|^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$|^[./~]|^\w+://|^--"
    r"|^(?:[\w.-]+/)+[\w.-]+$"
)
_PACKAGE = late_pattern(r"[A-Za-z]+(?:[-_.][A-Za-z]+)*[-_.]v?\d{1,4}(?:\.\w{1,8}){0,4}\Z")
_VERSIONED = late_pattern(r"[A-Za-z]+[-_.]?v?\d{1,4}\Z")
_NUMBER = late_pattern(r"[-+]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?[a-zA-Z%]{0,3}\Z")
_PLAIN_WORDS = frozenset(("true", "false", "none", "null", "yes", "no", "on", "off", "auto", "required", "optional"))


def is_secret_name(name: str) -> bool:
    """Returns whether a variable, an option or a query's key of this name is taken to hold a secret."""
    return name not in _NO_SECRET and _NAME.search(name) is not None and _HARMLESS.search(name) is None


def is_secret_setting(name: str, value: str, *, is_variable: bool = False, is_quoted: bool = True) -> bool:
    """Returns whether `value` under `name` is a secret: a strong name takes any value, a weak one a drawn value.

    Args:
        is_variable: whether the name is an environment variable's, of which `X_TOKEN` and `X_KEY` are strong.
        is_quoted: whether the value's ends are certain; one that may be code or prose is judged by its look.
    """
    if not value or name in _NO_SECRET or _HARMLESS.search(name) is not None:
        return False
    is_strong = _STRONG.search(name) is not None or (_VARIABLE.match(name) is not None)
    if not is_strong and not is_secret_name(name):
        return False
    is_short = is_variable and len(value) >= 2 and len({*value}) < 4 and len({*value}) > 1
    is_stand_in = not is_short and is_placeholder(value, strict=False)
    if _NUMBER.match(value) or value.lower() in _PLAIN_WORDS or is_stand_in:
        return "passw" in name.lower() and value.isdigit() and len(set(value)) >= 4 and len(value) >= 6
    if " " in value.strip() or value.startswith(("$", "{", "<", "[", "%", "@")):
        return is_variable and is_strong
    if is_variable and (is_strong or is_secret_name(name)):
        return True
    if _CODE.search(value):
        return False
    if is_strong:
        return is_quoted or looks_drawn(value) or not value.isalpha()
    if _TOKEN_NAME.search(name):
        return looks_drawn(value) and not _PACKAGE.match(value)
    return looks_drawn(value) and len(value) >= 12 and not _VERSIONED.match(value) and entropy(value) >= 3.0


def looks_drawn(value: str) -> bool:
    """Returns whether a value looks like a password or key: letters and digits mixed, and no path, name or number."""
    if len(value) < 6 or _NUMBER.match(value) or _CODE.search(value) or is_placeholder(value, strict=False):
        return False
    return any(char.isdigit() for char in value) and any(char.isalpha() for char in value)


def looks_like_password(value: str) -> bool:
    """Returns whether a value under a name that says little is a password: eight characters of three kinds."""
    if len(value) < 8 or _CODE.search(value) or is_placeholder(value, strict=False):
        return False
    if any(char in "/=,\\" for char in value) and len(value) < 32:
        return False
    kinds = (str.islower, str.isupper, str.isdigit, lambda char: not char.isalnum() and char not in "_-. ")
    return sum(any(kind(char) for char in value) for kind in kinds) >= 3
