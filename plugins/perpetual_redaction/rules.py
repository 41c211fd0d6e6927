"""Secret rules: the table of token formats, and one generic assignment rule.

Used by `redact` and by the gate `immune`: one detector, so that what a note may not hold is kept nowhere else. Formats come from the vendors' own documentation of their token prefixes and lengths.  Each rule names a lower-case
keyword that must occur before its pattern is tried.  A find must not be a placeholder and, where the format leaves
room, must have the entropy of something drawn at random.
"""

# ruff: noqa: E501 - one row is one rule, and a pattern is only readable whole

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from perpetual.toolkit.late_pattern import late_pattern
from perpetual_redaction.token_formats import FORMATS, TokenFormat
from perpetual_redaction.vendor_formats import VENDOR_FORMATS
from perpetual_redaction.vocabulary import MOST_SETS, VOCABULARY, Remembered

__all__ = ["Secret", "entropy", "find_secrets", "find_tokens", "is_placeholder", "places"]


class Secret(NamedTuple):
    """One secret at `[start, end)` of a text, and the rule that found it."""

    rule: str
    start: int
    end: int


PLACEHOLDER = late_pattern(
    r"(?-i:x{4,}|X{4,})|\*{3,}|\.{3,}|_{4,}|-{6,}|#{3,}|<[^>]*>|\$\{|\$\(|\{\{|%\(|%[A-Z_]{3,}%|^\$|^\{|^\[|^<|^%|^@\{|^&|^`|^env[.:]|change.?(?:me|it|this)"
    r"|(?<![a-z0-9])(?:your|fake|foo|todo|none|null|true|false|sampl|dummy)|your[_-]|(?<![a-z])my[_-]|exampl|placeholder|redacted|removed|masked|hidden|insert|replace|fixme|(?<![a-z0-9])bar(?![a-z0-9])"
    r"|deadbeef|1234567890|01234567|abcdefgh|qwerty|lorem|(?<![a-z0-9])some[_-]|[_ -]here$|^here$|test.?(?:token|key|secret|pass)|secret.?(?:here|key$|value)"
    r"|(?:^|[_-])(?:token|password|passwd|secret|apikey|api[_-]key|value)$|not[_-]a[_-]|undefined|^n/a"
    r"|os\.environ|getenv|process\.env|secrets\.|vault:|ssm:|arn:|keyring|get_secret|settings\.|config\.|self\.|args\.|request\.|params",
    re.I,
)
_RELAXED_PLACEHOLDER = late_pattern(
    r"x{6,}|\*{3,}|#{4,}|\.{3,}|<[^>]*>|\$\{|\{\{|your[_-]?|^example|placeholder|redacted|(.)\1{7,}|^\$|^0{6,}|^test(?:ing)?$|^pass(?:word|wd)?$|^user(?:name)?$|^token$|^secret$",
    re.I,
)

_KEY_WORD = (
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[_.-]?key|apikey|access[_.-]?key|auth[_.-]?key|private[_.-]?key|client[_.-]?key"
    r"|encryption[_.-]?key|signing[_.-]?key|master[_.-]?key|account[_.-]?key|license[_.-]?key|credentials?|creds|auth|salt|nonce|bearer|(?<![a-z])key)"
)
_KEY = late_pattern(_KEY_WORD, re.I)
_ASCII_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_LEAD = late_pattern(r"[\w.\-\[\]]*")  # of a key, before its word
_KEY_COMPOUND = late_pattern(r"(?:api|access|auth|private|client|encryption|signing|master|account|license)[_.-]?\Z")
_LONGEST_COMPOUND = 11
_LONGEST_LEAD = 48
# Matched at a key word alone: trying it at every character would cost the length of a name each time.
_ASSIGN = late_pattern(
    _KEY_WORD + r"[\w.\-\[\]]{0,24}(?P<close>[\"'\])]{0,3})\s{0,6}"
    r"(?P<op>:=|=>|==|=|:|,|->|>|\bis\b)\s{0,6}(?:new String\(|b|u|r|f|@|std::string\(|String\(|[Ss]tr\()?"
    r"(?:(?P<quote>\\?[\"'`])(?P<quoted>[^\"'`\n]{3,400}?)(?:\\?[\"'`]|$)|(?P<bare>[^\s\"'`,;<>(){}\[\]]{5,400}))",
    re.I | re.M,
)
_ASSIGN_KEYWORDS = ("pass", "pwd", "secret", "token", "key", "cred", "auth", "salt", "nonce", "bearer")
_NOT_SECRET_KEY = late_pattern(
    r"hash|digest|sha\d|sha$|md5|checksum|integrity|etag|revision|commit|fingerprint|public|pubkey|key_?id|token_?id|secret_?id|_id$|ids?$|uuid"
    r"|tokeni[sz]|tokens$|max_|num_|n_tok|pad_|eos_|bos_|unk_|mask_|sep_|cls_|stop_|special|keyword|keys$|name$|_?names?\b|type|path|file|dir"
    r"|url|uri|endpoint|length|len$|size|count|limit|policy|rule|regex|pattern|format|field|column|label|title|header|prompt|help|message|hint|desc"
    r"|author|authority|monkey|passed|passing|passes|passthrough|passive|compass|bypass|keyboard|primary|foreign|sort|partition|cache|random|rng"
    r"|turkey|hotkey|keycode|key_?code|keyframe|key_?down|key_?up|store|expir|ttl|mount|method|mode|version|prefix|suffix|scope|provider",
    re.I,
)
_STRONG_KEY = late_pattern(
    r"pass|pwd|secret|token|api[_.-]?key|apikey|access[_.-]?key|auth[_.-]?key|private[_.-]?key|client[_.-]?key|cred|_key$|\bkey$",
    re.I,
)
_PASSWORD_KEY = late_pattern(r"pass(?:word|wd|phrase|code)?(?![a-z])|pwd", re.I)
_DIGEST = late_pattern(r"(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})", re.I)
_UUID = late_pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
_CODE = late_pattern(
    r"[(){}\[\];]|::|->|^\w+(?:\.\w+){1,6}$|^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$|^/|^\./|^\w+://|^--|^[a-z]+(?:[A-Z][a-z]+){1,5}$|^[A-Z][a-z]+(?:[A-Z][a-z]+){1,5}$"
)
_LOCK_LINE = late_pattern(
    r"integrity|sha(?:256|384|512)[-:=]|resolved|checksum|data:image/|content-hash|\bdigest\b|blob:|etag|commit\b",
    re.I,
)


def entropy(value: str) -> float:
    """Returns the Shannon entropy of the characters of `value`, in bits per character."""
    if not value:
        return 0.0
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def is_placeholder(value: str, *, strict: bool = True) -> bool:
    """Returns whether `value` is a placeholder, not a secret; `strict` also counts words of people's examples."""
    if len(set(value)) < 4:
        return True
    return (PLACEHOLDER if strict else _RELAXED_PLACEHOLDER).search(value) is not None


def _classes(value: str) -> int:
    return sum(
        any(test(char) for char in value)
        for test in (
            str.islower,
            str.isupper,
            str.isdigit,
            lambda char: not char.isalnum() and char not in "_-. ",
        )
    )


def _generic_secret(key: str, value: str, quoted: bool, line: str) -> bool:
    """Decides the assignment rule: does this name keep this value secret, and does the value look random?"""
    if _NOT_SECRET_KEY.search(key) or is_placeholder(value) or _LOCK_LINE.search(line):
        return False
    if value.lower() in key.lower() or key.lower() in value.lower() or " " in value.strip():
        return False
    password = _PASSWORD_KEY.search(key) is not None
    digits = sum(char.isdigit() for char in value)
    if value.isdigit() or not any(char.isalnum() for char in value):
        return password and quoted and len(value) >= 6
    if not quoted and _CODE.search(value):
        return False
    if password:
        if not quoted and (len(value) < 6 or (value.isalpha() and not _is_setting(line))):
            return False
        if digits and _classes(value) >= 2:
            return len(value) >= 6
        if value.isalpha() and value.islower():
            return len(value) >= 8 and value not in _WORDS_FOR_VALUES and entropy(value) >= 2.5
        return quoted and len(value) >= 6 and _classes(value) >= 2 and not _CODE.search(value)
    if _DIGEST.fullmatch(value) and value not in (value.lower(), value.upper()):
        return False  # programs write a key in hex in one case
    if _DIGEST.fullmatch(value) or _UUID.fullmatch(value):
        return _STRONG_KEY.search(key) is not None and entropy(value) > 2.5
    if quoted and len(value) >= 24 and _classes(value) >= 3 and digits >= 3 and entropy(value) >= 4:
        return True
    if _CODE.search(value) or len(value) < 10 or digits < 2:
        return False
    mixed = _classes(value) >= 2 and not re.fullmatch(r"[a-z]+[-_.]?v?\d{1,4}", value, re.I)
    return mixed and not _is_worded(value) and entropy(value) >= (2.9 if len(value) < 16 else 3.2)


_SETTING = late_pattern(r"\s{0,16}(?:[A-Z][A-Z0-9_]{2,40}=|[a-z][\w.-]{2,40}(?:: |=))\S+\s{0,4}\Z")
_WORDS_FOR_VALUES = frozenset(
    re.findall(
        r"\w+",
        "required optional password username database postgres postgresql mongodb credential credentials disabled enabled default unlimited "
        "plaintext cleartext encrypted hashed anonymous supplied provided external internal keyboard interactive private hostname sensitive "
        "unsupported incorrect expected variable argument parameter property attribute function callback generated automatic disclosed "
        "administrator mandatory validate validation encoding encoded notempty inherit prompt protected passphrase passwords unchanged",
    )
)


def _is_setting(line: str) -> bool:
    """Returns whether the line is nothing but one name and one value, as in a file of settings."""
    return _SETTING.match(line) is not None


def _is_worded(value: str) -> bool:
    """Returns whether a value is words and numbers joined by signs, such as a name of a run or a version."""
    parts = re.split(r"[-_./:]", value)
    return len(parts) >= 3 and all(part.isalpha() or part.isdigit() for part in parts)


def _line_of(text: str, start: int, end: int) -> str:
    head = text.rfind("\n", max(0, start - 200), start) + 1 or max(0, start - 200)
    tail = text.find("\n", end, end + 200)
    return text[head : tail if tail >= 0 else end + 200]


def _is_basic_credential(value: str) -> bool:
    try:
        pair = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
        return b":" in pair and not pair.startswith(b"{")  # that would be the head of a web token
    except (binascii.Error, ValueError):
        return False


_CLAIMS_OF_ACCESS = late_pattern(
    r"\"(?:iss|sub|aud|exp|nbf|iat|jti|azp|sid|act|scp?|amr|acr)\"|\"[^\"]{0,40}(?:user|name|mail|role|scope|perm|key|tok|auth|org|tenant|client|sess|admin|group|acc|[_-]id)[^\"]{0,40}\"\s{0,4}:|\"id\"|(?-i:Id\")",
    re.I,
)


def _is_without_access(token: str) -> bool:
    """Returns whether a web token's readable part names no holder, no right and no time: signed data, not a credential."""
    parts = token.split(".")
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)).decode("utf-8")
    except (IndexError, binascii.Error, UnicodeDecodeError):
        return False
    return claims.startswith("{") and claims.endswith("}") and _CLAIMS_OF_ACCESS.search(claims) is None


def _accept(rule: TokenFormat, value: str) -> bool:
    strict = rule.rule in _STRICT
    if rule.rule == "jwt" and _is_without_access(value):
        return False
    if rule.rule == "google-service-account":
        return True
    if rule.rule == "gitea-forgejo-basic":
        return _is_basic_credential(value)
    if rule.rule.startswith(_FILLED):
        return entropy(value) >= rule.entropy and not _BLANKED.search(value)
    if rule.rule == "service-value" and not _UUID.fullmatch(value) and max(map(len, re.split(r"[-_.~+]", value))) < 16:
        return False
    if rule.rule.startswith("spoken") and not (any(c.isdigit() for c in value) and _classes(value) >= 2):
        return False
    if rule.rule in _DRAWN and (sum(c.isdigit() for c in value) < 3 or _CODE.search(value) or _is_worded(value)):
        return False
    if rule.rule in ("bearer-header", "header-token") and (not any(c.isdigit() for c in value) or "://" in value):
        return False
    return entropy(value) >= rule.entropy and not is_placeholder(value, strict=strict)


_FILLED = ("private-key", "twitter-bearer", "firebase", "ssh2-key", "putty")
"""Rules whose real finds hold long runs of one letter."""
_BLANKED = late_pattern(r"\.{3,}|\*{3,}|[xX]{8,}|<\w|\[\w")
_DRAWN = frozenset({"query-secret", "header-value", "service-value"})
"""Rules whose place alone says little: the value must look drawn at random, too."""
_STRICT = frozenset(
    {
        "bearer-header",
        "header-token",
        "curl-user",
        "curl-user-lead",
        "url-password",
        "connection-string",
        "cli-password",
        "powershell-secure",
        "netrc",
        "mysql-sshpass",
        "kubernetes-secret",
        "named-value",
        "element-text",
        "set-password",
        "sql-password",
        "redis-password",
        "pgpass-line",
        "sudo-stdin",
        "windows-password",
        "literal-secret",
        "query-secret",
        "header-value",
        "service-value",
        "spoken-password",
        "spoken-login",
    }
)


_ALL_FORMATS = (*FORMATS, *VENDOR_FORMATS)


class _Filed:
    """The vocabulary's bits of the formats, of their services' names and of assignments."""

    def __init__(self) -> None:
        """Files every format by its keywords."""
        self.every = 0
        self.formats: dict[int, list[int]] = {}
        for number, row in enumerate(_ALL_FORMATS):
            bit = VOCABULARY.add(row.keywords)
            self.every |= bit
            self.formats.setdefault(bit, []).append(number)
        services = next(row for row in _ALL_FORMATS if row.rule == "service-value")
        self.services = {word: VOCABULARY.add((word,)) for word in services.keywords}
        self.assigned = VOCABULARY.add(_ASSIGN_KEYWORDS)


@lru_cache(maxsize=1)
def _filed() -> _Filed:
    """Returns the bits, filed for the first text: most commands meet none."""
    return _Filed()


_LONG_RUN = late_pattern(r"[A-Za-z0-9_-]{20}")
_OF_LONG_RUNS = frozenset(
    {
        "discord-token",
        "twilio-key",
        "vault-token",
        "mailgun-mailchimp",
        "sk-key",
        "openai-key",
        "notion-airtable",
        "facebook-app-token",
        "telegram-bot",
    }
)
"""Rules of common keywords, each match of which holds a run of letters and digits that words do not reach."""


def _possible(bits: int) -> list[TokenFormat]:
    """Returns the formats that the bits stand for, in the tables' order."""
    return _POSSIBLE[bits] if bits else []


def _formats_of(bits: int) -> list[TokenFormat]:
    formats = _filed().formats
    numbers: list[int] = []
    while bits:
        bit = bits & -bits
        bits ^= bit
        numbers += formats[bit]
    numbers.sort()
    return [_ALL_FORMATS[number] for number in numbers]


_POSSIBLE: Remembered[int, list[TokenFormat]] = Remembered(_formats_of, MOST_SETS)


def _matches(rule: TokenFormat, text: str, lower: str) -> Iterator[re.Match[str]]:
    """Yields the matches of a format; one that begins with its keyword is tried at the keyword's places alone."""
    if rule.rule != "service-value" or len(lower) != len(text):
        yield from rule.pattern.finditer(text)
        return
    end = 0
    held = VOCABULARY.held(lower)
    for at in sorted(places(lower, [keyword for keyword, bit in _filed().services.items() if held & bit])):
        match = rule.pattern.match(text, at) if at >= end else None
        if match is not None:
            end = match.end()
            yield match


def find_secrets(text: str) -> Iterator[Secret]:
    """Yields the secrets in `text`, each with the span of the secret itself; linear in the text's length."""
    lower = text.lower()
    yield from find_tokens(text, lower)
    if _filed().assigned & VOCABULARY.held(lower):
        yield from _assigned(text, lower)


def find_tokens(text: str, lower: str | None = None) -> Iterator[Secret]:
    """Yields what is a secret by its published format or by its place; no assignment is looked at."""
    lower = text.lower() if lower is None else lower
    every = _filed().every
    long = None
    for rule in _possible(every & VOCABULARY.held(lower)):
        if not rule.possible(lower):
            continue
        if rule.rule in _OF_LONG_RUNS:
            long = _LONG_RUN.search(text) is not None if long is None else long
            if not long:
                continue
        for match in _matches(rule, text, lower):
            if _accept(rule, match.group(1)):
                yield Secret(rule.rule, match.start(1), match.end(1))


_KEY_COLON = 4  # characters in which a colon makes a quoted text a key


def _assigned(text: str, lower: str) -> Iterator[Secret]:
    position = 0
    for word in _key_words(text, lower):
        if word < position:
            continue
        start = _start_of_key(text, word)
        match = None if start is None else _ASSIGN.match(text, word)
        if match is None:
            continue
        group = "quoted" if match.group("quoted") is not None else "bare"
        value = match.group(group)
        position = match.end()
        if match.group("op") in (",", ">", "->", "is") and group == "bare":
            continue
        if match.group("op") == "," and text[match.end() : match.end() + _KEY_COLON].lstrip()[:1] == ":":
            continue  # `"verdict": "PASS", "feedback": ...`: the next key of an object, and no value
        key = text[start : match.start("close")]
        if _generic_secret(key, value, group == "quoted", _line_of(text, match.start(), match.end())):
            yield Secret("assigned-secret", match.start(group), match.end(group))


def _key_words(text: str, lower: str) -> list[int]:
    """Returns the positions of the words of `_KEY_WORD`: they are found a hundred times faster than the pattern."""
    if len(lower) != len(text):
        return [match.start() for match in _KEY.finditer(text)]
    found = set(places(lower, _ASSIGN_KEYWORDS))
    for at in places(lower, ("key",)):
        lead = _KEY_COMPOUND.search(lower, max(0, at - _LONGEST_COMPOUND), at)
        if lead is not None:
            found.add(lead.start())
    return sorted(found)


def places(text: str, words: Iterable[str]) -> Iterator[int]:
    """Yields where each of the words begins in the text."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            yield at
            at = text.find(word, at + 1)


def _start_of_key(text: str, word: int) -> int | None:
    """Returns the position at which the name around a key word begins, None if it is too far away for a name."""
    before = text[max(0, word - _LONGEST_LEAD - 1) : word][::-1]
    run = _LEAD.match(before)
    reached = min(run.end() if run is not None else 0, _LONGEST_LEAD)
    if reached == word:
        return 0
    edge = len(before[: reached + 1].rstrip(_ASCII_ALNUM)) - 1  # where what is before is no letter
    return word - edge if edge >= 0 else None
