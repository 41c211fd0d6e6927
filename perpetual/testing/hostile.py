"""Values, texts and ids that a careless part loses, joins or changes; shared by the suites of what keeps things.

Every one of them is legal: JSON that Python reads and writes, text that UTF-8 carries.
"""

from __future__ import annotations

__all__ = ["IDS", "NUMBERS", "TEXTS", "same"]

# Numbers that a float would round, or that a format without integers would turn into one.
NUMBERS: tuple[int | float, ...] = (
    0, -0.0, 1, 1.0, -1, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 2**63 - 1, -(2**63), 0.1, 1e-300, 5e-324,
    1.7976931348623157e308, 3.141592653589793,
)  # fmt: skip

TEXTS: tuple[str, ...] = (
    "", " ", "\n", "\r\n", "\t", "\x00", "a\x00b", "\x1b[31m", "'", '"', "\\", "%s{}", "null", "1", "1.0", "true", "[]",
    "e\u0301", "\u00e9",  # one letter as it is composed and as it is not: two texts
    "\u2028\u2029\x85", "\ufeff", "\u202e", "\U0001f52d", "\U0001f468\u200d\U0001f469", "x" * 70_000, "--", "a;b",
    "NaN",
)  # fmt: skip

# Ids that differ by what a file system, a collation or a fixed width would drop.
IDS: tuple[str, ...] = (
    "a", "A", "\u00e4", "a\u0308", "ss", "\u00df", "i", "\u0131", " a", "a ", "a/b", "a\\b", "a.b", "..", ".", "a:b",
    "a%2Fb", "con", "a'b", 'a"b', "-a", "0", "00", "1e0", "null", "\U0001f52d", "x" * 200, "x" * 201, "x" * 1000,
    "x" * 999 + "y",
)  # fmt: skip


def same(one: object, other: object) -> bool:
    """Returns whether two JSON values are the same, with the type of each number and the sign of each zero."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] == [*other] and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)
