"""Text on one line."""

from __future__ import annotations

__all__ = ["one_line"]


def one_line(text: str) -> str:
    """Returns the text on one line: white space as single blanks, other control characters written as their escapes."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " if c.isspace() else _escape(ord(c)) for c in text)
    return " ".join(text.split())


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
