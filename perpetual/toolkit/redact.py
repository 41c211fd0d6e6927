"""Takes secrets out of texts, command lines, environments and JSON values: the one function of every way in. Floor 0.

A secret is known by its form (the table `token_formats`, shared with the gate `immune`), by its name (`HF_TOKEN`,
`--api-key`, `"password":`), or by its place (the credentials of a URL, an `Authorization` header, `curl -u`), also
where a token is broken over lines, encoded in base64 or disguised by invisible or wide characters. `MASK` replaces it.
A secret of an unknown form under a harmless name is not seen. Every pattern is linear in the text's length.

`secret_in_command`, `secret_in_variables` and `secret_in_value` name the place of a secret instead, for callers that
must refuse it: what a person approves is run byte by byte, so nothing can be taken out of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from perpetual.toolkit.late_pattern import late_pattern
from perpetual.toolkit.secret_disguises import disguised
from perpetual.toolkit.secret_names import (
    is_secret_name,
    is_secret_setting,
    looks_drawn,
    looks_like_password,
)
from perpetual.toolkit.secret_rules import find_secrets, is_placeholder, places

__all__ = [
    "MASK",
    "is_secret_name",
    "redact_bytes",
    "redact_command",
    "redact_environment",
    "redact_part",
    "redact_setting",
    "redact_text",
    "redact_value",
    "redact_words",
    "secret_in_command",
    "secret_in_value",
    "secret_in_variables",
]

MASK = "<redacted>"

Span = tuple[int, int]
_SHORT = 2_000  # characters; shorter texts come again and again: statuses, commands, titles

# Shorter and looser than the published formats: what is taken out by mistake here costs a word, not a note.
_FORMS = late_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:[^-]|-(?!----)){0,20000}-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:(?:\\[nr]|[\s\"'>|,]){1,8}[A-Za-z0-9+/=]{16,400}){0,400}(?:(?:\\[nr]|[\s\"'>|,]){1,8}[A-Za-z0-9+/]{1,75}={0,2}(?!\w))?)"
    r"|(?<![A-Za-z0-9_-])(?:"
    r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}"
    r"|sk-(?=[A-Za-z0-9_-]{0,200}\d)[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{30,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_FORM_WORDS = ("private key", "_", "-", "akia", "asia", "aiza", "eyj")
# The part before the last @ of a URL's authority. `git@` of an ssh address is a name and no secret.
_USERINFO = late_pattern(
    r"(?<![A-Za-z0-9+.-])(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,30})://(?P<user>[^\s/?#'\"]{1,1000})@"
)
_SSH_USER = late_pattern(r"[A-Za-z0-9._-]+\Z")
_QUERY = late_pattern(r"[?&;](?P<name>[A-Za-z0-9_.-]{1,80})=(?P<value>[^\s&;#'\"<]{1,4000})")
# A header as `curl -H` takes it, and a token after the name of its scheme alone; both in any case.
_HEADER = late_pattern(
    r"\b(?:(?:proxy-)?authorization|x-[a-z0-9-]{0,40}(?:key|token|secret)|(?:set-)?cookie)[\"']?\s{0,8}:\s{0,8}[\"']?"
    r"(?:(?:basic|bearer|digest|token|apikey|negotiate|key)\s{1,8})?(?P<value>[^\s\"',;]{1,4000})"
    r"|\bbearer\s{1,8}(?=\S{0,200}\d)(?P<token>[A-Za-z0-9_.~+/=-]{16,4000})",
    re.IGNORECASE,
)
_HEADER_WORDS = ("authorization", "bearer", "cookie", "x-")
_SCHEMES = frozenset(("basic", "bearer", "digest", "token", "apikey", "negotiate", "key"))
# `password is X` and its like, `"api_key": "X"`, `API_KEY=X`.
_SPOKEN = late_pattern(
    r"\b(?P<name>pass(?:word|wd|phrase|code)|pwd|secret|token|(?:api|access)[ _-]?key|credentials?)\s{1,4}"
    r"(?:is|was|are|reads|=|:)\s{1,4}[\"'`]?(?P<value>[^\s\"'`<]{6,200})",
    re.IGNORECASE,
)
_NAMED = late_pattern(
    r"-{0,2}(?P<name>[A-Za-z_][\w.-]{1,63})(?:\\?[\"'])?\s{0,4}(?:=>|:=|=|:)\s{0,4}"
    r"(?:(?P<quote>\\?[\"'])(?P<quoted>[^\"'\n\\<]{4,400})(?P=quote)|(?P<bare>[^\s\"'`,;&=<>(){}\[\]$]{4,400}(?:=[^\s\"'`,;&=<>(){}\[\]$]{0,100}){0,2}))"
)
_NAMED_WORDS = ("key", "token", "secret", "pass", "pwd", "pw", "cred", "auth", "cookie", "bearer", "dsn", "jwt", "sas",
                "pat", "webhook")  # fmt: skip
_OPTION = late_pattern(
    r"(?<!\S)--?(?P<name>[A-Za-z][\w.-]{1,63})\s{1,3}(?P<quote>[\"']?)(?P<value>[^\s\"'<$-][^\s\"'<$]{0,400})"
)
_PASSWORD_OPTION = late_pattern(r"(?<!\S)-[pP]\s{0,3}[\"']?(?P<value>[^\s\"'<$-][^\s\"'<$]{5,200})")
_USER_OPTION = late_pattern(
    r"(?<!\S)(?:-[uU]|--(?:proxy-)?user|--auth|-a)[= ]{1,3}[\"']?[^\s:\"'<$/]{1,80}:(?P<value>[^\s\"'<$]{4,200})"
)
_CURLS = late_pattern(r"\b(?:curl|wget|http|https|xh|ftp|lftp|smbclient|mount|git)\b")
_PASSWORD_PROGRAMS = late_pattern(r"\b(?:mysql\w*|mariadb\w*|sshpass|psql|redis-cli|smbclient|mongo\w*)\b")
_AWS_PAIR = late_pattern(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_PAIR_CHARS = 400
_ASSIGNED = late_pattern(r"(?P<before>-{0,2}(?P<name>[A-Za-z0-9_.-]+)=)(?P<value>[\s\S]+)\Z")
_LONGEST_NAME = 64
_STRIPPED = ".,;:!?)]}"


def redact_text(text: str) -> str:
    """Returns the text with every secret in it replaced by `MASK`."""
    return _remembered(text) if len(text) <= _SHORT else _redacted(text)


@lru_cache(maxsize=4096)
def _remembered(text: str) -> str:
    return _redacted(text)


def _redacted(text: str) -> str:
    spans = _spans(text)
    return _masked(text, spans, 0, len(text)) if spans else text


def redact_part(text: str, start: int, end: int) -> str:
    """Returns `text[start:end]` with every secret of the whole text replaced by `MASK`, also one that it cuts."""
    cut = [span for span in _spans(text) if span[0] < end and span[1] > start]
    return _masked(text, cut, start, end)


def _masked(text: str, spans: Iterable[Span], start: int, end: int) -> str:
    pieces, position = [], start
    for begin, after in spans:
        pieces += [text[position:begin], MASK]
        position = after
    return "".join([*pieces, text[position:end]])


def redact_bytes(content: bytes) -> bytes:
    """Returns a file's content with its secrets replaced; what is no text stays as it is."""
    if b"\0" in content[:8192]:
        return content
    text = content.decode("utf-8", "surrogateescape")
    shown = redact_text(text)
    return content if shown == text else shown.encode("utf-8", "surrogateescape")


def redact_setting(name: str, value: str) -> str:
    """Returns a variable's value: `MASK` by its name, else without the secrets in it."""
    if value and is_secret_name(name):
        return MASK
    return MASK if is_secret_setting(name, value) else redact_text(value)


def redact_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables with the values of secret ones replaced."""
    return {name: redact_setting(name, value) for name, value in env.items()}


def redact_words(words: Iterable[str]) -> list[str]:
    """Returns a command's words: `--api-key X`, `--api-key=X`, `API_KEY=X`, `-u user:X` and `-p X` lose their X."""
    given = [*words]
    is_curl = any(_CURLS.search(word) for word in given)
    takes_password = any(_PASSWORD_PROGRAMS.search(word) for word in given)
    shown: list[str] = []
    before = ""
    for word in given:
        shown.append(_redacted_word(before, word, is_curl=is_curl, takes_password=takes_password))
        before = word
    return shown


def _redacted_word(before: str, word: str, *, is_curl: bool, takes_password: bool) -> str:
    option = before.lstrip("-")
    if before.startswith("-") and "=" not in before and not word.startswith("-") and word:
        if before in ("-u", "-U", "--user", "--proxy-user", "--auth"):
            user, colon, password = word.partition(":")
            if colon and password and (is_curl or looks_like_password(password)):
                return f"{user}:{MASK}"
        if before in ("-p", "-P", "-a") and (looks_like_password(word) or (takes_password and before != "-P")):
            return MASK
        if is_secret_name(option):
            return MASK
    assigned = _ASSIGNED.match(word)
    if assigned is not None and is_secret_name(assigned["name"].lstrip("-")):
        return assigned["before"] + MASK
    if takes_password and word.startswith("-p") and len(word) > 3:
        return f"-p{MASK}"
    return redact_text(word)


def redact_command(command: str) -> str:
    """Returns a command line without its secrets, quoted anew where a word lost one."""
    if not secret_in_command(command):
        return command
    try:
        words = shlex.split(command)
    except ValueError:
        return redact_text(command)
    shown = redact_words(words)
    return redact_text(" ".join(word if MASK in word else shlex.quote(word) for word in shown))


def redact_value(value: Any, name: str = "") -> Any:
    """Returns a JSON value with its secrets replaced: by the names of its keys, and in all of its texts.

    Args:
        name: the key that the value stands under.
    """
    if isinstance(value, str):
        return MASK if name and value != MASK and is_secret_setting(name, value) else redact_text(value)
    if isinstance(value, Mapping):
        return {redact_text(str(key)): redact_value(item, str(key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value):
            return (
                redact_words(value) if not name or not is_secret_name(name) else [redact_value(v, name) for v in value]
            )
        return [redact_value(item, name) for item in value]
    return value


# --- where a secret is, for callers that refuse it -----------------------------------------------------------------


def secret_in_command(command: str) -> bool:
    """Returns whether a command line holds a secret, as text or as words."""
    if redact_text(command) != command:
        return True
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    before = ""
    for word, shown in zip(words, redact_words(words), strict=True):
        if shown != word:
            name, _, value = word.partition("=")
            is_option = before.startswith("-") and "=" not in before and before.lstrip("-").isidentifier()
            if is_option and len(before) > 2:
                name, value = before, word
            elif before[:1] == "-" or not value:
                return True
            if is_secret_setting(name.lstrip("-"), value):
                return True
        before = word
    return False


def secret_in_variables(env: Mapping[str, str]) -> str | None:
    """Returns the name of the first variable whose value is a secret, or None."""
    for name, value in env.items():
        text = str(value)
        if is_secret_setting(name, text, is_variable=True) or redact_text(text) != text or redact_text(name) != name:
            return name if redact_text(name) == name else "a variable"
    return None


def secret_in_value(value: Any, name: str = "") -> str | None:
    """Returns the dotted path of the first place of a JSON value that holds a secret, "" for the value itself."""
    return next(_places(value, name, ""), None)


def _places(value: Any, name: str, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if is_secret_setting(name, value) or redact_text(value) != value:
            yield path
    elif isinstance(value, Mapping):
        for key, item in value.items():
            shown = redact_text(str(key))
            if shown != str(key):
                yield f"{path}.{shown}".lstrip(".")
            yield from _places(item, str(key), f"{path}.{shown}".lstrip("."))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _places(item, name, f"{path}[{number}]")


# --- spans ---------------------------------------------------------------------------------------------------------


def _spans(text: str) -> list[Span]:
    """Where the secrets of a text are, in order and apart from each other."""
    if len(text) < 6:
        return []
    found = [*_plain(text)]
    found += disguised(text, _tokens)
    if not found:
        return []
    merged: list[Span] = []
    for start, end in sorted(found):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end and text[start:end] != MASK:
            merged.append((start, end))
    return merged


def _tokens(text: str) -> Iterator[Span]:
    """What is a secret by its form alone."""
    lower = text.lower()
    if any(word in lower for word in _FORM_WORDS):
        for match in _FORMS.finditer(text):
            yield match.span()
    for secret in find_secrets(text):
        if secret.rule != "assigned-secret":
            yield secret.start, secret.end


def _plain(text: str) -> Iterator[Span]:
    lower = text.lower()
    if any(word in lower for word in _FORM_WORDS):
        for match in _FORMS.finditer(text):
            yield match.span()
    has_aws = False
    for secret in find_secrets(text):
        if secret.rule == "google-service-account":
            continue  # it names the kind of a file, whose private key has a rule of its own
        has_aws |= secret.rule == "aws-access-key-id"
        yield secret.start, secret.end
        if secret.rule == "aws-access-key-id":
            near = max(0, secret.start - _PAIR_CHARS)
            for match in _AWS_PAIR.finditer(text, near, secret.end + _PAIR_CHARS):
                if all(any(kind(char) for char in match[0]) for kind in (str.islower, str.isupper, str.isdigit)):
                    yield match.span()
    if ":" in text or "bearer" in lower:
        yield from _in_addresses(text, lower)
    if any(word in lower for word in _NAMED_WORDS):
        yield from _named(text, lower)
    if "-" in text:
        yield from _options(text)


def _in_addresses(text: str, lower: str) -> Iterator[Span]:
    """The values of headers, and the credentials of URLs."""
    for match in _HEADER.finditer(text) if any(word in lower for word in _HEADER_WORDS) else ():
        group = "value" if match["value"] else "token"
        if match[group].lower() not in _SCHEMES and match[group][0] not in "<${[":
            yield match.span(group)
    if "://" not in text:
        return
    for match in _USERINFO.finditer(text):
        is_name = "ssh" in match["scheme"].lower() and _SSH_USER.match(match["user"])
        if not is_name and match["user"] != MASK:
            yield match.span("user")
    for match in _QUERY.finditer(text):
        if is_secret_name(match["name"]):
            yield match.span("value")


def _named(text: str, lower: str) -> Iterator[Span]:
    """Values that stand under a secret's name."""
    for match in _SPOKEN.finditer(text):
        value = match["value"].rstrip(_STRIPPED)
        is_password = match["name"][:1] in "pP"
        if looks_like_password(value) or (is_password and value.isdigit()):
            yield match.start("value"), match.start("value") + len(value)
    same = lower if len(lower) == len(text) else text
    position = 0
    for start in sorted({_start_of_name(text, at) for at in places(same, _NAMED_WORDS)}):
        found = _NAMED.match(text, start) if start >= position else None
        if found is None:
            continue
        group = "quoted" if found["quoted"] is not None else "bare"
        if is_secret_setting(found["name"], found[group], is_quoted=group == "quoted"):
            position = found.end(group)
            yield found.span(group)


def _start_of_name(text: str, at: int) -> int:
    """Where the name around a word begins."""
    start = at
    while start > 0 and at - start < _LONGEST_NAME and (text[start - 1] in "_.-" or text[start - 1].isalnum()):
        start -= 1
    if start > 0 and text[start - 1] == "\\" and text[start : start + 1] in "nrt":
        start += 1  # an escape stands before it, in a text that was quoted
    return start


def _options(text: str) -> Iterator[Span]:
    """Values of a command's options."""
    for match in _OPTION.finditer(text):
        if is_secret_setting(match["name"], match["value"], is_quoted=bool(match["quote"])):
            yield match.span("value")
    takes_password = _PASSWORD_PROGRAMS.search(text) is not None
    for match in _PASSWORD_OPTION.finditer(text):
        value = match["value"]
        if looks_like_password(value) or (takes_password and looks_drawn(value)):
            yield match.span("value")
    is_curl = _CURLS.search(text) is not None
    for match in _USER_OPTION.finditer(text):
        if looks_like_password(match["value"]) or (is_curl and not is_placeholder(match["value"], strict=False)):
            yield match.span("value")
