"""Text on a terminal: long lines are broken between words, and no command is broken. Floor 0."""

from __future__ import annotations

import os
import sys

from perpetual.toolkit.late_pattern import late_pattern

__all__ = ["PLAIN", "broken", "cut", "folded", "is_plain"]

PLAIN = "PERPETUAL_PLAIN"

_COMMAND = late_pattern(r"perpetual(?: (?:[a-z][a-z-]+|-{1,2}[a-z-]+|[a-z]\d+|[A-Z_]+))+")
_WHOLE = ("next:", "perpetual ", "command:", "more:")
_PIECE = late_pattern(r"[^/_.,=:]*[/_.,=:]+|[^/_.,=:]+")  # where a word that is too long may be broken


def is_plain() -> bool:
    """Returns whether output is for a screen reader: a fact a line, no boxes, nothing drawn again."""
    return os.environ.get(PLAIN, "").strip().lower() not in ("", "0", "false", "no", "off")


def cut(text: str, columns: int) -> str:
    """Returns the text in at most so many columns of a terminal, with three dots where it was cut."""
    from rich.cells import cell_len

    text = text.rstrip()
    if cell_len(text) <= columns:
        return text
    end = min(len(text), columns)
    while end and cell_len(text[:end]) > columns - 3:
        end -= 1
    return text[:end].rstrip() + "..."[: max(0, columns)]


def folded(text: str) -> str:
    """Returns the text as a terminal shows it best; as it is where standard output is none, or it is to be plain."""
    if not sys.stdout.isatty() or is_plain():
        return text
    from shutil import get_terminal_size

    width, shown = get_terminal_size().columns, []
    for line in text.split("\n"):
        start = line.lstrip()
        margin = " " * (len(line) - len(start))
        if len(line) > width and not start.startswith(_WHOLE):
            first, *more = broken(
                _COMMAND.sub(lambda found: found[0].replace(" ", "\0"), start), width - len(margin) - 2
            )
            line = "\n".join([margin + first, *(f"{margin}  {part}" for part in more)]).replace("\0", " ")
        elif len(line) > width:
            line = line.replace("  (", f"\n{margin}  (", 1)  # a command stays whole, and what is said of it goes below
        shown.append(line)
    return "\n".join(shown)


def broken(text: str, width: int) -> list[str]:
    """Returns the text in lines of that width: broken between words, and in a longer word after a sign."""
    from rich.cells import cell_len

    lines, line = [], ""
    for word in text.split(" ") if cell_len(text) > width else [text]:
        pieces = [word] if cell_len(word) <= width or "\0" in word else _PIECE.findall(word)
        parts = [part for piece in pieces for part in ([piece] if cell_len(piece) <= width or "\0" in piece else piece)]
        for place, part in enumerate(parts):
            joined = f"{line} {part}" if line and not place else line + part
            if line and cell_len(joined) > width:
                lines.append(line)
                joined = part
            line = joined
    return [*lines, line]
