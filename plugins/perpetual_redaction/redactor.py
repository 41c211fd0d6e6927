"""The redactor `secrets`.

A secret is known by its form (the table `token_formats`, shared with the gate `immune`), by its name (`HF_TOKEN`,
`--api-key`, `"password":`), or by its place (the credentials of a URL, an `Authorization` header, `curl -u`). That
holds also where a token is broken over lines, encoded in base64 or disguised by invisible or wide characters. A secret
of an unknown form under a harmless name is not seen. Every pattern is linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from perpetual.api import MASK, Redactor, Span
from perpetual.toolkit.late_pattern import late_pattern
from perpetual_redaction.disguises import disguised
from perpetual_redaction.names import is_secret_name, is_secret_setting, looks_drawn, looks_like_password
from perpetual_redaction.rules import find_secrets, is_placeholder, places

__all__ = ["Secrets", "build"]

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


def build(options: Mapping[str, object]) -> Secrets:
    """Returns the redactor; it has no options."""
    return Secrets()


class Secrets(Redactor):
    """Knows secrets by form, name and place."""

    def find(self, text: str) -> Sequence[Span]:
        """Returns where the secrets of a text are."""
        return _remembered(text) if len(text) <= _SHORT else _spans(text)

    def words(self, words: Sequence[str]) -> list[str]:
        """Returns a command's words: `--api-key X`, `--api-key=X`, `API_KEY=X`, `-u user:X`, `-p X` lose their X."""
        is_curl = any(_CURLS.search(word) for word in words)
        takes_password = any(_PASSWORD_PROGRAMS.search(word) for word in words)
        shown: list[str] = []
        before = ""
        for word in words:
            found = _shown_word(before, word, is_curl=is_curl, takes_password=takes_password)
            shown.append(self.text(word) if found is None else found)
            before = word
        return shown

    def is_secret_name(self, name: str) -> bool:
        """Returns whether a name is taken to hold a secret; see `perpetual_redaction.names`."""
        return is_secret_name(name)

    def is_secret(self, name: str, value: str, *, is_variable: bool = False) -> bool:
        """Returns whether a value under a name is a secret; see `perpetual_redaction.names`."""
        return is_secret_setting(name, value, is_variable=is_variable)


@lru_cache(maxsize=4096)
def _remembered(text: str) -> tuple[Span, ...]:
    return tuple(_spans(text))


def _shown_word(before: str, word: str, *, is_curl: bool, takes_password: bool) -> str | None:
    """Returns a word of a command whose place says that it is a secret, masked; None for any other."""
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
    return None


# --- spans ---------------------------------------------------------------------------------------------------------


def _spans(text: str) -> list[Span]:
    """Returns the spans of a text's secrets, in order and disjoint."""
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
    """Yields the spans that are secrets by their form alone."""
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
    """Yields the values of headers, and the credentials of URLs."""
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
    """Returns the position at which the name around a word begins."""
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
