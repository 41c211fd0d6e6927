"""User text as words of Markdown, which make no markup. Imported by the modules beside it."""

from __future__ import annotations

__all__ = ["cell", "code", "inline"]

_MARKDOWN = str.maketrans({c: "\\" + c for c in "\\`*_[]<>|#"})


def inline(text: object) -> str:
    """Returns user text as plain words of a Markdown line: no markup, no line breaks, no control characters."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())
    return words.translate(_MARKDOWN)


def code(text: object) -> str:
    """Returns user text as inline code, whatever back-ticks it holds; control characters are made visible."""
    words = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(str(text).split()))
    fence = "`"
    while fence in words:
        fence += "`"
    pad = " " if fence != "`" else ""
    return f"{fence}{pad}{words}{pad}{fence}"


def cell(text: object) -> str:
    """Returns user text as inline code in a table, where a bare bar would end the cell (GFM 0.29, section 4.10)."""
    return code(text).replace("|", "\\|")
