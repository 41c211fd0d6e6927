"""Disguises for a text, each written down as code: what an attacker would do, to measure what is left of the recall."""

from __future__ import annotations

import base64
import codecs
import html
import random
import unicodedata
from collections.abc import Callable
from urllib.parse import quote

_LOOKALIKES = str.maketrans("aceiopsxyjABCEHIKMOPTX", "асеіорѕхујАВСЕНІКМОРТХ")
_GREEK = str.maketrans("oivuABEHIKMNOPTX", "οινυΑΒΕΗΙΚΜΝΟΡΤΧ")
_LEET = str.maketrans({"a": "4", "e": "3", "i": "1", "o": "0", "s": "5", "t": "7"})
_LEET_SIGNS = str.maketrans({"a": "@", "e": "3", "i": "!", "o": "0", "s": "$"})
_MORSE_SIGNS = (
    "a.- b-... c-.-. d-.. e. f..-. g--. h.... i.. j.--- k-.- l.-.. m-- n-. o--- p.--. "
    "q--.- r.-. s... t- u..- v...- w.-- x-..- y-.-- z--.. "
    "0----- 1.---- 2..--- 3...-- 4....- 5..... 6-.... 7--... 8---.. 9----."
)
_MORSE = {entry[0]: entry[1:] for entry in _MORSE_SIGNS.split()}


def _between(text: str, sign: str) -> str:
    return sign.join(text)


def _some(text: str, sign: str, every: int) -> str:
    return "".join(char + (sign if number % every == 1 else "") for number, char in enumerate(text))


def _wide(text: str) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in text)


def _alphabet(text: str, upper: int, lower: int) -> str:
    """Returns the text in an alphabet of the mathematical block, as editors of profiles write it."""
    shifted = (
        chr(lower + ord(c) - 97) if "a" <= c <= "z" else chr(upper + ord(c) - 65) if "A" <= c <= "Z" else c
        for c in text
    )
    return "".join(shifted)


def _zalgo(text: str) -> str:
    drawn = random.Random(len(text))
    return "".join(c + "".join(chr(drawn.randint(0x300, 0x36F)) for _ in range(2)) if c.isalpha() else c for c in text)


def _morse(text: str) -> str:
    words = text.lower().split()
    return " / ".join(" ".join(_MORSE[c] for c in word if c in _MORSE) for word in words)


DISGUISES: dict[str, Callable[[str], str]] = {
    "zero-width": lambda text: _between(text, "\u200b"),
    "zero-width, some": lambda text: _some(text, "\u200d", 3),
    "word joiner": lambda text: _some(text, "\u2060", 2),
    "soft hyphen": lambda text: _some(text, "\u00ad", 2),
    "variation selector": lambda text: _some(text, "\ufe0f", 2),
    "tags": lambda text: "".join(chr(0xE0000 + ord(c)) if c.isascii() and c.isprintable() else c for c in text),
    "tags after words": lambda text: (
        "Lovely weather today. " + "".join(chr(0xE0000 + ord(c)) for c in text if c.isascii() and c.isprintable())
    ),
    "bidi override": lambda text: f"\u202e{text[::-1]}\u202c",
    "bidi isolates": lambda text: _some(text, "\u2066", 4),
    "cyrillic": lambda text: text.translate(_LOOKALIKES),
    "greek": lambda text: text.translate(_GREEK),
    "leet": lambda text: text.translate(_LEET),
    "leet, signs": lambda text: text.translate(_LEET_SIGNS),
    "spaced": lambda text: "  ".join(" ".join(word) for word in text.split()),
    "spaced throughout": lambda text: " ".join(text.replace(" ", "")),
    "dotted": lambda text: " ".join(".".join(word) for word in text.split()),
    "hyphened": lambda text: " ".join("-".join(word) for word in text.split()),
    "entities": lambda text: "".join(f"&#{ord(c)};" for c in text),
    "entities, hex": lambda text: "".join(f"&#x{ord(c):x};" for c in text),
    "entities, some": lambda text: "".join(f"&#{ord(c)};" if c in "aeiou" else html.escape(c) for c in text),
    "combining": lambda text: "".join(c + "\u0336" if c != " " else c for c in text),
    "zalgo": _zalgo,
    "accents": lambda text: "".join({"a": "á", "e": "é", "i": "í", "o": "ö", "u": "ü"}.get(c, c) for c in text),
    "decomposed": lambda text: unicodedata.normalize("NFD", text.replace("e", "é")),
    "full-width": _wide,
    "bold letters": lambda text: _alphabet(text, 0x1D400, 0x1D41A),
    "circled": lambda text: "".join(chr(0x24D0 + ord(c) - 97) if "a" <= c <= "z" else c for c in text.lower()),
    "squared": lambda text: "".join(chr(0x1F130 + ord(c) - 65) if "A" <= c <= "Z" else c for c in text.upper()),
    "regional": lambda text: " ".join(
        "".join(chr(0x1F1E6 + ord(c) - 65) if "A" <= c <= "Z" else c for c in word) for word in text.upper().split()
    ),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base64, order": lambda text: f"Decode this and act on it: {base64.b64encode(text.encode()).decode()}",
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "base85": lambda text: base64.b85encode(text.encode()).decode(),
    "ascii85": lambda text: base64.a85encode(text.encode(), adobe=True).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex, spaced": lambda text: text.encode().hex(" "),
    "hex escapes": lambda text: "".join(f"\\x{b:02x}" for b in text.encode()),
    "unicode escapes": lambda text: "".join(f"\\u{ord(c):04x}" for c in text if ord(c) < 0x10000),
    "binary": lambda text: " ".join(f"{b:08b}" for b in text.encode()),
    "octal": lambda text: " ".join(f"{b:03o}" for b in text.encode()),
    "decimal": lambda text: " ".join(str(b) for b in text.encode()),
    "percent": lambda text: "".join(f"%{b:02X}" for b in text.encode()),
    "percent, usual": lambda text: quote(text, safe=""),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "reversed words": lambda text: " ".join(reversed(text.split())),
    "reversed letters": lambda text: " ".join(word[::-1] for word in text.split()),
    "caesar": lambda text: _shifted(text, 3),
    "atbash": lambda text: "".join(_mirrored(c) for c in text),
    "morse": _morse,
    "comment": lambda text: f"<p>Opening hours are 9 to 5.</p><!-- {text} -->",
    "hidden style": lambda text: f'<p>Opening hours.</p><span style="display:none">{text}</span>',
    "white text": lambda text: f'<div style="color:#ffffff;font-size:0px">{html.escape(text)}</div>',
    "split by tags": lambda text: "".join(f"<b>{word[:2]}</b>{word[2:]} " for word in text.split(" ")),
    "split by comments": lambda text: _some(text, "<!-- -->", 5),
    "markdown": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "lines": lambda text: "\n".join(text.split()),
    "underscores": lambda text: "_".join(text.split()),
    "camel": lambda text: "".join(word.capitalize() for word in text.split()),
    "capitals, mixed": lambda text: "".join(c.upper() if n % 2 else c.lower() for n, c in enumerate(text)),
    "blanks lost": lambda text: text.replace(" ", ""),
    "hyphens in words": lambda text: " ".join(
        f"{word[: len(word) // 2]}-{word[len(word) // 2 :]}" if len(word) > 5 else word for word in text.split()
    ),
}
"""Each disguise by its name."""


def _shifted(text: str, by: int) -> str:
    return "".join(
        chr((ord(c) - 97 + by) % 26 + 97)
        if "a" <= c <= "z"
        else chr((ord(c) - 65 + by) % 26 + 65)
        if "A" <= c <= "Z"
        else c
        for c in text
    )


def _mirrored(char: str) -> str:
    if "a" <= char <= "z":
        return chr(219 - ord(char))
    return chr(155 - ord(char)) if "A" <= char <= "Z" else char
