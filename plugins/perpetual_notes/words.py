"""Texts of notes: front matter, one line of foreign words, and what a person wrote below a generated text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perpetual.api import NotFound

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["OWN_WORDS", "Value", "code", "current", "front_matter", "one_line", "with_own_words"]

# Below this heading a generated text is a person's: it is kept when the note is written again.
OWN_WORDS = "## Notes"

Value = str | int | float | Sequence[str] | Mapping[str, Sequence[str]]


def one_line(text: str, most: int = 300) -> str:
    """Returns the text on one printable line, cut to `most` characters."""
    line = "".join(c if c.isprintable() else " " for c in " ".join(text.split()))
    return line if len(line) <= most else line[: most - 3] + "..."


def code(text: str, most: int = 300) -> str:
    """Returns the text as Markdown's inline code."""
    return f"`{one_line(text, most).replace('`', chr(39))}`"


def front_matter(fields: Mapping[str, Value]) -> str:
    """Returns the fields as the front matter of a note, in their order; empty ones are left out."""
    lines = ["---"]
    for name, value in fields.items():
        if value in ("", (), [], {}):
            continue
        if isinstance(value, Mapping):
            inner = [f"  {key}: {_inline(items)}" for key, items in value.items() if items]
            lines += [f"{name}:", *inner] if inner else []
        else:
            lines.append(f"{name}: {_inline(value)}")
    return "\n".join([*lines, "---", ""])


def _inline(value: str | int | float | Sequence[str]) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int | float):
        return str(value)
    return f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    """Returns a scalar of YAML that stands for the text itself: no escapes, so that gates read what agents read."""
    line = one_line(text, 8_000)
    plain = line.replace("_", "").replace(".", "").replace("-", "").isalnum() and line[0].isalpha()
    is_word = line.lower() in ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
    return line if plain and line.isascii() and not is_word else "'" + line.replace("'", "''") + "'"


def current(lab: Lab, path: str) -> str | None:
    """Returns the newest accepted text of a note, None where there is none."""
    try:
        return lab.memory.read(path, exposed_only=False)
    except NotFound:
        return None


def with_own_words(text: str, before: str | None) -> str:
    """Returns a generated text with what a person wrote below the heading of the version before."""
    _, heading, own = (before or "").partition(f"\n{OWN_WORDS}\n")
    return f"{text.rstrip()}\n\n{OWN_WORDS}\n{own}" if heading else text
