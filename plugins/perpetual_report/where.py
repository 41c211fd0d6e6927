"""Keys and expressions of the leaderboard: `lr<0.1 and (opt=adam or tag=wide)`. Nothing of them is evaluated as code.

    expression = and-part {"or" and-part};   and-part = part {"and" part}
    part = "not" part | "(" expression ")" | key operator value
    operator = "=" | "==" | "!=" | "<" | "<=" | ">" | ">="

A key is a field, a metric (its mean; `loss.sd`, `loss.n`) or a parameter; in backquotes it may hold anything. A value
is a number, a word, or a text in quotes; `created` is compared with a time as `--since` takes it, a metric with a
number. What a row lacks matches `!=` alone.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import NamedTuple

from perpetual.api import UsageError
from perpetual.toolkit.units import iso, seconds_of

__all__ = ["FIELDS", "Key", "Keys", "compiled", "shown", "time_of"]

Column = Callable[["Key"], Mapping[int, object]]  # the values of a key by the number of the row
Test = Callable[[int], bool]

FIELDS = {
    "id": "id", "title": "title", "status": "status", "tag": "tags", "tags": "tags", "hypothesis": "hypothesis_id",
    "created": "created_at", "effect": "effect",
}  # fmt: skip
_PARTS = ("mean", "sd", "n")
_LONGEST = 2000  # characters of an expression
_DEEPEST = 40
_NAMED = 12  # keys that a hint lists
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator><=|>=|==|!=|=|<|>)|(?P<paren>[()])|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')"""
    r"""|(?P<key>`[^`]+`)|(?P<word>[^\s()<>=!"'`]+))"""
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}\.?\d{0,30}|\.\d{1,30})(?:[eE][-+]?\d{1,3})?")
_MONTH = re.compile(r"\d{4}(-\d{2})?")  # or a year
_ID = re.compile(r"[a-z](\d{1,15})")
_OPERATORS: dict[str, Callable[..., bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip


class Key(NamedTuple):
    """A column: its kind is field, metric or param; `part` is mean, sd or n of a metric."""

    kind: str
    name: str
    part: str = "mean"

    @property
    def label(self) -> str:
        """Returns what the key is called in a table."""
        return self.name if self.part == "mean" else f"{self.name}.{self.part}"


class Keys:
    """The keys that rows have."""

    def __init__(self, metrics: Iterable[str], params: Iterable[str]) -> None:
        self.metrics, self.params = dict.fromkeys(metrics), dict.fromkeys(params)

    def is_plain(self, name: str) -> bool:
        """Returns whether the name alone says which key is meant."""
        return name not in FIELDS and not (name in self.metrics and name in self.params)

    def find(self, text: str, where: str = "") -> Key:
        """Returns the key of that name, `metric.` or `param.` before it where there are both.

        Args:
            where: the place, for the error's words.

        Raises:
            UsageError: for a name that no row has, with the nearest; for one that is a metric and a parameter.
        """
        found = [*self._meant(text)]
        if len(found) == 1 or (found and found[0].kind == "field"):
            return found[0]
        if found:
            raise UsageError(f"{text!r}{where} is a metric and a parameter", hint=f"say metric.{text} or param.{text}")
        known = [*dict.fromkeys([*self.metrics, *self.params, *FIELDS])]
        near = get_close_matches(text, known, n=3, cutoff=0.5)
        listed = ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
        hint = f"did you mean {', '.join(near)}?" if near else f"there is {listed}"
        raise UsageError(f"{text[:60]!r}{where} is no metric, parameter or field", hint=hint)

    def _meant(self, text: str) -> Iterable[Key]:
        kind, _, rest = text.partition(".")
        if text in FIELDS:
            yield Key("field", FIELDS[text])
        if text in self.metrics:
            yield Key("metric", text)
        if text in self.params:
            yield Key("param", text)
        stem, _, part = text.rpartition(".")
        if part in _PARTS and stem in self.metrics and text not in {*self.params, *self.metrics}:
            yield Key("metric", stem, part)
        if kind in ("metric", "param") and text not in self.params and text not in self.metrics:
            if kind == "param" and rest in self.params:
                yield Key("param", rest)
            stem, _, part = rest.rpartition(".")
            if kind == "metric" and rest in self.metrics:
                yield Key("metric", rest)
            elif kind == "metric" and part in _PARTS and stem in self.metrics:
                yield Key("metric", stem, part)


class _Token(NamedTuple):
    kind: str
    text: str
    at: int  # the character, from 1


def time_of(text: str, now: datetime, what: str) -> str:
    """Returns a time as the record writes it: `2026`, `2026-11-25T10:00`, in UTC, or so long before now, `12h`.

    Raises:
        UsageError: for anything else; `what` says what it was for.
    """
    text = text.strip()
    whole = f"{text}-01-01"[:10] if _MONTH.fullmatch(text) else text
    try:
        found = datetime.fromisoformat(whole)
    except ValueError:
        try:
            return iso(now - timedelta(seconds=seconds_of(text, what)))
        except OverflowError:
            return ""
        except UsageError as problem:
            hint = "a time as 2026-11-25T10:00, in UTC, or so long ago: 90m, 12h, 7d"
            raise UsageError(f"{what} is no time: {text[:40]!r}", hint=hint) from problem
    return iso(found if found.tzinfo else found.replace(tzinfo=UTC))


def compiled(text: str, keys: Keys, column: Column, now: datetime | None = None) -> Test:
    """Returns the test that an expression writes, of a row by its number.

    Args:
        now: what a time as `12h` is before; by default the present.

    Raises:
        UsageError: for what is no expression, naming the character; for a key that no row has; for a time, a metric or
            an effect that is compared with no time or number.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"the expression has {len(text)} characters, at most {_LONGEST} are read")
    parser = _Parser(_tokens(text), keys, len(text), column, now or datetime.now(UTC))
    test = parser.either(0)
    parser.end()
    return test


def _tokens(text: str) -> list[_Token]:
    found, position = [], 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            start = len(text) - len(text[position:].lstrip())
            sign = text[start]
            what = "a quote that is not closed" if sign in "\"'`" else f"{sign!r}"
            raise UsageError(f"--where: {what} at character {start + 1}", hint=_usage(text, start + 1))
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return found


def _usage(text: str, at: int) -> str:
    start = max(0, at - 21)
    return f"look at {text[start : at - 1]!r} HERE {text[at - 1 : at + 20]!r}; as in: lr<0.1 and opt=adam"


class _Parser:
    """Reads the tokens from left to right, one look ahead."""

    def __init__(self, tokens: list[_Token], keys: Keys, length: int, column: Column, now: datetime) -> None:
        self._tokens, self._keys, self._next, self._length, self._column = tokens, keys, 0, length, column
        self._now = now

    def _peek(self) -> _Token:
        return self._tokens[self._next] if self._next < len(self._tokens) else _Token("end", "", self._length + 1)

    def _take(self) -> _Token:
        found = self._peek()
        self._next += 1
        return found

    def _is_word(self, word: str) -> bool:
        found = self._peek()
        return found.kind == "word" and found.text.lower() == word

    def end(self) -> None:
        """Raises UsageError if something is left."""
        found = self._peek()
        if found.kind != "end":
            raise self._wrong(found, "`and` or `or`")

    def _wrong(self, found: _Token, wanted: str) -> UsageError:
        what = "the end" if found.kind == "end" else f"{found.text[:40]!r}"
        return UsageError(
            f"--where: {wanted} belongs at character {found.at}, not {what}",
            hint="as in: lr<0.1 and opt=adam; texts with blanks in quotes",
        )

    def either(self, depth: int) -> Test:
        """Reads parts joined by `or`."""
        parts = [self._both(depth)]
        while self._is_word("or"):
            self._take()
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else lambda row: any(part(row) for part in parts)

    def _both(self, depth: int) -> Test:
        parts = [self._part(depth)]
        while self._is_word("and"):
            self._take()
            parts.append(self._part(depth))
        return parts[0] if len(parts) == 1 else lambda row: all(part(row) for part in parts)

    def _part(self, depth: int) -> Test:
        if depth > _DEEPEST:
            raise UsageError(f"--where: more than {_DEEPEST} levels at character {self._peek().at}")
        if self._is_word("not"):
            self._take()
            inner = self._part(depth + 1)
            return lambda row: not inner(row)
        found = self._take()
        if found == ("paren", "(", found.at):
            test = self.either(depth + 1)
            closing = self._take()
            if closing.text != ")" or closing.kind != "paren":
                raise self._wrong(closing, "`)`")
            return test
        if found.kind not in ("word", "key"):
            raise self._wrong(found, "a key")
        return self._comparison(found)

    def _comparison(self, token: _Token) -> Test:
        sign = self._take()
        if sign.kind != "operator":
            raise self._wrong(sign, "one of = != < <= > >=")
        value = self._take()
        if value.kind not in ("word", "text"):
            raise self._wrong(value, "a value")
        key = self._keys.find(token.text.strip("`"), f" at character {token.at} of --where")
        return _comparison(key, self._column(key), sign.text, value, self._now)


def _comparison(key: Key, column: Mapping[int, object], sign: str, token: _Token, now: datetime) -> Test:
    is_text = token.kind == "text"
    text = re.sub(r"\\(.)", r"\1", token.text[1:-1]) if is_text else token.text
    wanted: object = text
    if key == ("field", "created_at", "mean"):
        text, is_text = time_of(text, now, f"--where: created at character {token.at}"), True
    elif _is_numeric(key, column, sign, is_text=is_text):
        if not _NUMBER.fullmatch(text):
            raise UsageError(f"--where: {key.label} is a number, and {text[:40]!r} at character {token.at} is none")
        is_text = False
    if not is_text and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        wanted = float(text)
    elif not is_text and text.lower() in ("true", "false"):
        wanted = text.lower() == "true"
    compare, is_unequal = _OPERATORS[sign], sign == "!="
    is_order = sign[0] in "<>"
    if key.name == "tags" and key.kind == "field" and is_order:
        raise UsageError(f"--where: a tag is = or != something, at character {token.at}")

    def test(row: int) -> bool:
        found = column.get(row)
        if isinstance(found, (list, tuple)) and key.kind == "field":
            return (text in found) != is_unequal
        if found is None:
            return is_unequal
        if is_text:
            return compare(shown(found), text)
        if _is_number(found) and _is_number(wanted):
            return compare(found, wanted)
        if isinstance(found, str) and isinstance(wanted, str):
            mine, theirs = _ID.fullmatch(found), _ID.fullmatch(wanted)
            if mine and theirs and found[0] == wanted[0]:
                return compare(int(mine[1]), int(theirs[1]))
            return compare(found, wanted)
        if is_order:
            return key.kind == "field" and compare(shown(found), text)  # a year is a number, and a time no text
        return compare(found, wanted) if isinstance(found, bool) else is_unequal

    return test


def _is_numeric(key: Key, column: Mapping[int, object], sign: str, *, is_text: bool) -> bool:
    """Returns whether a key is compared as a number whatever is beside it: a parameter if its order is asked for."""
    if key.kind == "metric" or key.name == "effect":
        return key.kind != "param"
    return key.kind == "param" and sign[0] in "<>" and not is_text and all(map(_is_number, column.values()))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def shown(value: object) -> str:
    """Returns a value as a table has it and as a text in quotes is compared with."""
    if value is True or value is False:
        return "true" if value else "false"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
