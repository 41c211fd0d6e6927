"""The space that a sweep searches: parameters, their conditions, and the settings that are drawn from them.

Pure: no I/O, no clock; what is drawn derives from a key. A parameter is written as `NAME=SPEC`:

    lr=log:1e-4..1e-1      a range on a log scale
    dropout=0..0.5         a range; of whole numbers where both ends are written as such
    depth=2..8/3           a range that a grid cuts into three levels
    opt=sgd,adam           choices

A condition `opt=sgd: momentum=0.8..0.99` adds a parameter that is there only where another one has one of these values.

Sources: Halton (1960), On the efficiency of certain quasi-random sequences; Owen (2017), A randomized Halton algorithm
in R (digits are permuted anew at each place).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from perpetual.api import UsageError, unknown

__all__ = [
    "METHODS",
    "MOST_SETTINGS",
    "Parameter",
    "Setting",
    "Value",
    "checked",
    "command_of",
    "halton",
    "parameters_of",
    "placed",
    "settings_of",
    "value_of",
]

Value = str | int | float | bool

METHODS = ("grid", "random", "quasi")
MOST_SETTINGS = 500
MOST_PARAMETERS = 20
RUNG = "rung"
DEFAULT_SETTINGS = 16

_LEVELS = 4  # of a range in a grid
_FEW_WHOLE = 8  # whole numbers of a range that a grid takes one by one
_DIGITS = 4  # significant ones of a drawn number: more only make a command hard to read
_TRIES = 50  # draws for each setting that is asked for: where most repeat earlier ones, there are not so many
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RANGE = re.compile(r"(log:)?([^,]+?)\.\.([^,/]+)(?:/(\d+))?\Z")
_WHOLE = re.compile(r"[+-]?\d+\Z")
_PLACE = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SYNTAX = "NAME=LOW..HIGH, NAME=log:LOW..HIGH or NAME=A,B,C"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `choices`, or a range from `low` to `high`; `levels` is how many a grid takes of a range.

    `when` is the parameter that it depends on, and `values` are those of that one with which it is there.
    """

    name: str
    choices: tuple[Value, ...] = ()
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    is_whole: bool = False
    levels: int = 0
    when: str | None = None
    values: tuple[Value, ...] = ()

    def at(self, place: float) -> Value:
        """Returns the value at a place of [0, 1): choices have equal shares."""
        if self.choices:
            return self.choices[min(int(place * len(self.choices)), len(self.choices) - 1)]
        low, high = (self.low, self.high)
        if self.is_whole:
            # each whole number has its share, the ends included
            low, high = (math.log(low - 0.5), math.log(high + 0.5)) if self.is_log else (low - 0.5, high + 0.5)
            found = low + place * (high - low)
            return min(max(round(math.exp(found) if self.is_log else found), int(self.low)), int(self.high))
        return _rounded(self._between(place), self.low, self.high)

    def _between(self, share: float) -> float:
        if self.is_log:
            return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        return self.low + share * (self.high - self.low)

    def grid(self) -> tuple[Value, ...]:
        """Returns the values that a grid takes."""
        if self.choices:
            return self.choices
        if self.is_whole and not self.levels and not self.is_log and self.high - self.low < _FEW_WHOLE:
            return tuple(range(int(self.low), int(self.high) + 1))
        count = self.levels or _LEVELS
        shares = [step / (count - 1) for step in range(count)] if count > 1 else [0.5]
        if self.is_whole:
            return tuple(dict.fromkeys(round(self._between(share)) for share in shares))
        return tuple(dict.fromkeys(_rounded(self._between(share), self.low, self.high) for share in shares))

    def is_there(self, chosen: Mapping[str, Value]) -> bool:
        """Returns whether the parameter exists beside the values that were chosen before it."""
        return self.when is None or chosen.get(self.when) in self.values

    def problem(self, value: Value) -> str | None:
        """Returns why the parameter cannot have a value, or None."""
        if self.choices:
            return None if value in self.choices else f"one of {_listed(self.choices)}"
        if isinstance(value, str | bool) or not self.low <= value <= self.high or (self.is_whole and value % 1):
            return f"{'a whole' if self.is_whole else 'a'} number from {self.low:g} to {self.high:g}"
        return None

    def numbers(self, value: Value | None) -> list[float]:
        """Returns what the model sees of a value: a place in [0, 1], or one number for each of three words or more.

        A parameter that is not there lies in the middle.
        """
        if not self.choices:
            if value is None or self.high == self.low:
                return [0.5]
            number = float(value)
            if self.is_log:
                return [math.log(number / self.low) / math.log(self.high / self.low)]
            return [(number - self.low) / (self.high - self.low)]
        if len(self.choices) < 3 or _are_numbers(self.choices):
            order = sorted(self.choices, key=float) if _are_numbers(self.choices) else [*self.choices]
            return [0.5 if value is None else order.index(value) / max(len(order) - 1, 1)]
        return [0.5 if value is None else float(value == choice) for choice in self.choices]


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of the space: the values of the parameters that it has, and what the model sees of them."""

    id: str
    values: dict[str, Value]
    x: list[float]


def _are_numbers(choices: Sequence[Value]) -> bool:
    return all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in choices)


def _rounded(value: float, low: float, high: float) -> float:
    return min(max(float(f"{value:.{_DIGITS}g}"), low), high)


# --- reading ----------------------------------------------------------------------------------------------------------


def parameters_of(given: Sequence[str], conditions: Sequence[str] = ()) -> list[Parameter]:
    """Returns the parameters that `NAME=SPEC` and `OTHER=VALUE,...: NAME=SPEC` declare, those with conditions last.

    Raises:
        UsageError: for what cannot be read, a name that is given twice, or a condition on what has no such choice.
    """
    found = {one.name: one for one in map(_parameter, given)}
    if len(found) < len(given):
        raise UsageError("a parameter is given twice", hint="each --param has a name of its own")
    for text in conditions:
        head, colon, rest = text.partition(":")
        name, sign, values = head.partition("=")
        if not colon or not sign or not rest.strip():
            raise UsageError(
                f"--when takes OTHER=VALUE: NAME=SPEC, not {text!r}", hint="--when 'opt=sgd: momentum=0.8..0.99'"
            )
        other = found.get(name.strip())
        if other is None:
            raise UsageError(unknown("parameter", name.strip(), found), hint="declare it before: --param opt=sgd,adam")
        wanted = tuple(value_of(word.strip()) for word in values.split(","))
        lacking = [value for value in wanted if value not in other.choices]
        if lacking:
            raise UsageError(f"{other.name} has no choice {lacking[0]}", hint=f"one of {_listed(other.choices)}")
        made = _parameter(rest.strip())
        if made.name in found:
            raise UsageError(f"the parameter {made.name} is given twice", hint="a condition declares a parameter anew")
        found[made.name] = Parameter(
            made.name, made.choices, made.low, made.high, made.is_log, made.is_whole, made.levels, other.name, wanted
        )
    if not found:
        raise UsageError("a sweep needs a parameter", hint=f"--param {_SYNTAX}")
    if len(found) > MOST_PARAMETERS:
        raise UsageError(f"a sweep has at most {MOST_PARAMETERS} parameters, not {len(found)}")
    return [*found.values()]


def _listed(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values)) or "none: it is a range"


def _parameter(text: str) -> Parameter:
    name, sign, spec = text.partition("=")
    name, spec = name.strip(), spec.strip()
    if not sign or not _NAME.match(name) or not spec:
        raise UsageError(f"{text!r} is no parameter", hint=f"--param {_SYNTAX}")
    if name == RUNG:
        raise UsageError(f"{RUNG} is the length of a short run, not a parameter", hint="--rungs 1,3,9")
    match = _RANGE.match(spec)
    if match is None:
        return _choice(name, spec)
    log, low, high, levels = match.groups()
    try:
        ends = float(low), float(high)
    except ValueError as problem:
        raise UsageError(f"{name}: {spec!r} is no range of numbers", hint=f"--param {_SYNTAX}") from problem
    if not all(map(math.isfinite, ends)) or ends[0] >= ends[1] or (log and ends[0] <= 0):
        rule = "rises from above 0" if log else "rises"
        raise UsageError(f"{name}: a range {rule} and is finite, not {low}..{high}", hint=f"--param {_SYNTAX}")
    if levels is not None and not 1 <= int(levels) <= MOST_SETTINGS:
        raise UsageError(f"{name}: a grid takes 1 to {MOST_SETTINGS} levels, not {levels}")
    is_whole = bool(_WHOLE.match(low) and _WHOLE.match(high))
    return Parameter(name, (), *ends, is_log=bool(log), is_whole=is_whole, levels=int(levels or 0))


def _choice(name: str, spec: str) -> Parameter:
    words = [word.strip() for word in spec.split(",")]
    choices = tuple(map(value_of, words))
    if "" in words or len(set(map(str, choices))) < len(choices) or spec.startswith("log:"):
        raise UsageError(f"{name}: {spec!r} is no range and no list of choices", hint=f"--param {_SYNTAX}")
    if len(choices) > MOST_SETTINGS:
        raise UsageError(f"{name} has {len(choices)} choices; at most {MOST_SETTINGS} are searched")
    return Parameter(name, choices)


def value_of(word: str) -> Value:
    """Returns what a word means: a number, true, false, or the word."""
    if word in ("true", "false"):
        return word == "true"
    try:
        number = int(word) if _WHOLE.match(word) else float(word)
    except ValueError:
        return word
    return number if math.isfinite(number) else word


def checked(parameters: Sequence[Parameter], values: Mapping[str, Value]) -> dict[str, Value]:
    """Returns the values of a setting in the order of the parameters.

    Raises:
        UsageError: for an unknown name, one that is missing or not there beside the others, and a value out of range.
    """
    for name in values:
        if name not in {one.name for one in parameters}:
            raise UsageError(unknown("parameter", name, [one.name for one in parameters]))
    found: dict[str, Value] = {}
    for one in parameters:
        if one.is_there(found) != (one.name in values):
            wrong = "is missing" if one.name not in values else f"is not there: it needs {one.when}"
            raise UsageError(f"the parameter {one.name} {wrong}")
        if one.name not in values:
            continue
        value = values[one.name]
        problem = one.problem(value)
        if problem is not None:
            raise UsageError(f"{one.name} is {problem}, not {value}")
        found[one.name] = int(value) if one.is_whole else value
    return found


# --- drawing ----------------------------------------------------------------------------------------------------------


def settings_of(parameters: Sequence[Parameter], method: str, count: int | None, key: str) -> list[Setting]:
    """Returns the settings of a grid, or `count` different ones by lot or from a scrambled Halton sequence.

    There are fewer where the space has fewer.

    Args:
        count: of a grid the most that it may have.
        key: what is drawn derives from it.

    Raises:
        UsageError: for an unknown method, and for more settings than a sweep may have.
    """
    if method not in METHODS:
        raise UsageError(unknown("method", method, METHODS))
    if count is not None and not 2 <= count <= MOST_SETTINGS:
        raise UsageError(f"a sweep has 2 to {MOST_SETTINGS} settings, not {count}")
    if method == "grid":
        most = count or MOST_SETTINGS
        found = [*islice(_products(parameters), most + 1)]
        if len(found) > most:
            raise UsageError(
                f"the grid has more than {most} settings", hint="fewer levels (NAME=LOW..HIGH/3), or --method quasi"
            )
    else:
        found = _drawn(parameters, method, count or DEFAULT_SETTINGS, key)
    if len(found) < 2:
        raise UsageError("there is one setting, and nothing to search", hint=f"--param {_SYNTAX}")
    return [Setting(f"s{number}", values, placed(parameters, values)) for number, values in enumerate(found, 1)]


def placed(parameters: Sequence[Parameter], values: Mapping[str, Value]) -> list[float]:
    """Returns the numbers by which the model tells a setting from others."""
    return [number for one in parameters for number in one.numbers(values.get(one.name))]


def _products(parameters: Sequence[Parameter]) -> Iterator[dict[str, Value]]:
    def beyond(chosen: dict[str, Value], rest: Sequence[Parameter]) -> Iterator[dict[str, Value]]:
        if not rest:
            yield chosen
        elif not rest[0].is_there(chosen):
            yield from beyond(chosen, rest[1:])
        else:
            for value in rest[0].grid():
                yield from beyond({**chosen, rest[0].name: value}, rest[1:])

    yield from beyond({}, parameters)


def _drawn(parameters: Sequence[Parameter], method: str, count: int, key: str) -> list[dict[str, Value]]:
    rng = Random(f"{key}\n{method}")
    places = halton(len(parameters), rng) if method == "quasi" else _lots(len(parameters), rng)
    found: dict[str, dict[str, Value]] = {}
    for place in islice(places, _TRIES * count):
        values: dict[str, Value] = {}
        for one, share in zip(parameters, place, strict=True):
            if one.is_there(values):
                values[one.name] = one.at(share)
        found.setdefault(repr(values), values)
        if len(found) == count:
            break
    return [*found.values()]


def _lots(dimensions: int, rng: Random) -> Iterator[list[float]]:
    while True:
        yield [rng.random() for _ in range(dimensions)]


def halton(dimensions: int, rng: Random) -> Iterator[list[float]]:
    """Yields points of the unit cube: a Halton sequence with a permutation of its own at each digit's place.

    Of the first b^k points one lies in each of the b^k equal parts of the side with base b.
    """
    places = [max(1, math.ceil(20 / math.log2(base))) for base in _PRIMES[:dimensions]]  # of 2^20 points and more
    tables = [
        [rng.sample(range(base), base) for _ in range(count)] for base, count in zip(_PRIMES, places, strict=False)
    ]
    number = 0
    while True:
        yield [_inverse(number, base, table, rng.random()) for base, table in zip(_PRIMES, tables, strict=False)]
        number += 1


def _inverse(number: int, base: int, table: Sequence[Sequence[int]], within: float) -> float:
    """Returns the radical inverse of a number, its digits permuted; `within` is the place in the last part."""
    share, found = 1.0, 0.0
    for digits in table:
        number, digit = divmod(number, base)
        share /= base
        found += digits[digit] * share
    return min(found + within * share, math.nextafter(1.0, 0.0))


# --- the command ------------------------------------------------------------------------------------------------------


def command_of(template: str, names: Collection[str], values: Mapping[str, Value], rung: float | None) -> str:
    """Returns the command of a setting: `{NAME}` stands for a value, `{rung}` for the length of the run.

    A word that holds a parameter which the setting does not have is left out, with the option before it that is its
    name. `{{` and `}}` are braces.

    Args:
        names: of all parameters of the sweep.
        values: of those that the setting has.

    Raises:
        UsageError: for a name in braces that is no parameter, or an open quote.
    """
    known = {*names} | ({RUNG} if rung is not None else set())
    shown = {name: _written(value) for name, value in values.items()}
    if rung is not None:
        shown[RUNG] = _written(rung)
    words: list[str] = []
    for word in _words(template):
        places = [name for name in _PLACE.findall(word) if name]
        for name in places:
            if name not in known:
                raise UsageError(unknown("parameter of the command", name, sorted(known)), hint="{{ and }} are braces")
        if all(name in shown for name in places):
            words.append(_PLACE.sub(lambda match: _filled(match, shown), word))
        elif words and word.startswith("{") and words[-1].startswith("-") and "=" not in words[-1]:
            words.pop()
    return shlex.join(words)


def _words(template: str) -> list[str]:
    try:
        return shlex.split(template)
    except ValueError as problem:
        raise UsageError(f"the command cannot be split into words: {problem}") from problem


def _filled(match: re.Match[str], shown: Mapping[str, str]) -> str:
    name = match.group(1)
    return shown[name] if name else match.group()[0]


def _written(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{int(value)}" if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else str(value)
