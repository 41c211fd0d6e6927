"""Views of one text: what is left of it once a disguise is taken off.  Imported by `scanner`; standard library only.

A view is a rewritten copy of the text with a map back to where each of its characters came from.  Rules run on every
view, so a rule is written once, for plain lower-case ASCII words, and still reads full-width letters, look-alikes,
zero-width splits, unicode tags, spaced letters, leetspeak, HTML entities and encoded runs.

The presence of an odd character never decides anything here: emoji joiners, byte-order marks and Persian joiners are
ordinary.  What a disguise *hides* is scored by the scanner, which is why each view says whether it was hidden.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from urllib.parse import unquote_to_bytes

from perpetual_immune.rules.sieve import Sieves

MAX_DEPTH = 2
"""Most times that a decoded run is itself searched for encoded runs."""
MAX_DECODED_CHARS = 16_384
"""Longest run that is decoded, and longest result that is kept, in characters."""
MAX_UNBROKEN_CHARS = 4_096
"""Longest text that is read as words without blanks."""
MAX_RUNS = 24
"""Encoded runs decoded per text; a page of thumbnails must not cost more than its share."""

_TAG_BASE = 0xE0000
_REGIONAL_BASE = 0x1F1E6
_FORMAT = "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u3164\ufeff\uffa0"
_PHRASES = "\ufdfa\ufdfb"  # written out they are Arabic phrases of 18 and 8 letters: a text of them would cost as much
_REVERSERS = "\u202e\u2067"


_SHORTEST_CUT = 2_500
_AROUND_CHARS = 900
"""More than a find spans: what is found with a change in it is found in the change's window."""
_MOST_OF_TEXT = 0.7
Edit = tuple[int, int, str]
"""A span of a view and its replacement in the next one."""


class Origins:
    """Where each character of a view came from; made when first asked for, as few views hold a find."""

    def __init__(self, base: View, make: Callable[[], list[int]]) -> None:
        """Takes the view that was rewritten, and what returns the offset in it of each character."""
        self.base = base
        self._make = make

    @cached_property
    def offsets(self) -> list[int]:
        """Returns the offset in the original of each character."""
        made = self._make()
        before = self.base.origin
        return made if before is None else [before.offsets[at] for at in made]


@dataclass(frozen=True, slots=True)
class View:
    """One reading of the text.

    `origin` knows, for each character of `text`, its offset in the original; None means that the whole view came from
    `[start, end)` and no finer map exists (or, with `identity`, that offsets are unchanged).
    """

    name: str
    text: str
    start: int
    end: int
    origin: Origins | None = None
    identity: bool = False
    hidden: bool = False
    """True when a reader of the rendered text would not have seen these words."""
    squeezed: bool = False
    """True when the blanks between words are lost, so patterns must allow none."""

    def windows(self) -> list[tuple[int, str]]:
        """Returns the parts of the text around what differs from the view that was rewritten, each with its offset.

        What lies apart from them reads as it did there.  The whole text where it is short, or nothing is saved.
        """
        whole = [(0, self.text)]
        if self.origin is None or self.squeezed or len(self.text) < _SHORTEST_CUT:
            return whole
        before, after = self.origin.base.text.split("\n"), self.text.split("\n")
        if len(before) != len(after):
            return whole
        spans: list[tuple[int, int]] = []
        position = 0
        for line, rewritten in zip(before, after, strict=True):
            end = position + len(rewritten)
            if line != rewritten:
                first, last = max(0, position - _AROUND_CHARS), end + _AROUND_CHARS
                if spans and first <= spans[-1][1]:
                    spans[-1] = spans[-1][0], last
                else:
                    spans.append((first, last))
            position = end + 1
        if sum(end - start for start, end in spans) > _MOST_OF_TEXT * len(self.text):
            return whole
        cut = []
        for first, last in spans:  # at the ends of lines
            start = self.text.rfind("\n", 0, first) + 1
            stop = self.text.find("\n", last)
            cut.append((start, self.text[start : stop if stop >= 0 else len(self.text)]))
        return cut

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the `[start, end)` of the original that a match at `[start, end)` of this view came from."""
        if self.identity:
            return start, end
        offsets = [] if self.origin is None else self.origin.offsets
        if not offsets:
            return self.start, self.end
        last = len(offsets) - 1
        first = offsets[min(start, last)]
        final = offsets[min(max(end - 1, start), last)]
        if first > final:  # a reversed reading
            return final, first + 1
        after = offsets[end] if end <= last else self.end
        return first, max(after, final + 1)


def _pairs(source: str, target: str) -> dict[int, str]:
    return dict(zip(map(ord, source), target, strict=True))


# Letters of other scripts whose usual glyph is that of a Latin letter.  Compact on purpose: these are the ones a
# reader cannot tell apart in an ordinary font (Unicode UTS 39 lists the idea; this table is our own selection).
_CONFUSABLES: dict[int, str] = {
    **_pairs("абвгдезіјкӏмнорԛстухԝуһԁѕєԍյ", "a6brdezijklmhopqctyxwyhdsegj"),
    **_pairs("АВСЕНІЈКМОРЅТХУԜЅԌҺӀ", "ABCEHIJKMOPSTXYWSGHI"),
    **_pairs("αβγεζηικνορστυχωϲϳ", "abyeznikvopotuxwcj"),
    **_pairs("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿ", "ABEZHIKMNOPTYXCJ"),
    **_pairs("աօոսցհքզյ", "wonughpqj"),
    **_pairs("ıɑɡɩʟɴʀʏɪᴀʙᴄᴅᴇᴊᴋᴍᴏᴘᴛᴜᴠᴡᴢꜱꜰɢʜ", "iagilnryiabcdejkmoptuvwzsfgh"),
    **_pairs("ⅼⅰⅽⅾⅿ∣ǀ׀", "licdmlll"),
    **_pairs("ħŧƖƠơɛɔʋ", "htlOoecu"),
}

_LEET = str.maketrans(
    {"0": "o", "1": "i", "3": "e", "4": "a", "5": "s", "7": "t", "@": "a", "$": "s", "!": "i", "|": "i"}
)
_LEET_WORD = re.compile(
    r"(?<![^\W_]|[@$!|+/=])(?=[^\W_]{0,24}[a-zA-Z]|[@$!|][\w@$!|]{0,24}[a-zA-Z])(?=[\w@$!|]{0,24}[013457@$!|])[a-zA-Z013457@$!|]{2,24}(?![^\W_]|[@$|+/=])"
)
_LEET_NUMBER = re.compile(r"(?<![\w.,:/-])[013457@$]{1,3}(?![\w%:/]|[.,]\d)")
"""A word of digits alone, such as `70` for "to": read as letters where the words around it are."""
_SPACED = re.compile(r"(?<!\S)(?:\S[ \t]{1,3}){5,400}\S(?!\S)")
_JOINTED = re.compile(r"(?<![^\W_])[a-zA-Z]([._*\-·|/])[a-zA-Z](?:\1[a-zA-Z]){1,30}(?![^\W_])")
_JOINTED_PAIR = re.compile(r"(?<![^\W_])[a-zA-Z][._*\-·|/][a-zA-Z](?![^\W_])")
_SPACED_GAP = re.compile(r"(\S)([ \t]{1,3})(?=\S)")
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,12});")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{16,}={0,2}(?![A-Za-z0-9+/_-])")
_BASE64_WRAPPED = re.compile(r"(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/]{40,100}\r?\n){1,200}[A-Za-z0-9+/]{2,100}={0,2}")
_HEX = re.compile(r"(?<![0-9a-fA-F])(?:0x)?(?:[0-9a-fA-F]{2}){10,}(?![0-9a-fA-F])")
_HEX_SPACED = re.compile(r"(?<![0-9a-fA-F])(?:(?:0x)?[0-9a-fA-F]{2}[ ,:]{1,2}){7,}(?:0x)?[0-9a-fA-F]{2}(?!\w)")
_ESCAPED = re.compile(r"(?:\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]{1,6}\}|\\[0-3][0-7]{2}){4,}")
_PERCENT = re.compile(r"[^\s%]{0,80}(?:%[0-9a-fA-F]{2}[^\s%]{0,80}){3,}")
_BINARY = re.compile(r"(?<![01])(?:[01]{8}[ ,]?){7,}[01]{8}(?![01])")
_DECIMAL = re.compile(r"(?<!\d)(?:\d{2,3}[ ,]{1,2}){9,}\d{2,3}(?!\d)")
_OCTAL = re.compile(r"(?<!\d)(?:[01][0-7]{2}[ ,]{1,2}){9,}[01][0-7]{2}(?!\d)")
_BASE32 = re.compile(r"(?<![A-Za-z0-9+/=])[A-Z2-7]{24,}={0,6}(?![A-Za-z0-9+/=])")
_MORSE = re.compile(r"(?<![.\-])(?:[.-]{1,6}(?: |/| / )){15,}[.-]{1,6}(?![.\-])")
_MORSE_SIGNS = (
    "a.- b-... c-.-. d-.. e. f..-. g--. h.... i.. j.--- k-.- l.-.. m-- n-. o--- p.--. "
    "q--.- r.-. s... t- u..- v...- w.-- x-..- y-.-- z--.. "
    "0----- 1.---- 2..--- 3...-- 4....- 5..... 6-.... 7--... 8---.. 9----."
)
_MORSE_LETTERS = {entry[1:]: entry[0] for entry in _MORSE_SIGNS.split()}
_TAG = re.compile(r"<!--.{0,40}?-->|</?[a-zA-Z][a-zA-Z0-9]{0,9}(?: [^<>]{0,60})?/?>")
_HYPHENED = re.compile(r"(?<=[a-z])-(?=[a-z]{2})|(?<=[a-z])-(?=[a-z]\b)")
_UNBROKEN = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z]{20,400}(?![A-Za-z0-9+/=])")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ROT13_SIGNS = re.compile(
    r"\b(?:vtaber|qvfertneq|cerivbhf|cevbe|vafgehpgvbaf?|flfgrz|cebzcg|cnffjbeq|erirny|bireevqr|sbetrg|gur|naq|lbhe?|nyy|guvf|gung|jvgu|abg|fpber|nafjre"
    r"|erfcbafr|bhgchg|erfcbaq|ercyl|zhfg|juvpu|jvyy|sebz|orra|unir|arire|nyjnlf)\b",
    re.I,
)
_REVERSED_SIGNS = re.compile(
    r"\b(?:erongi|suoiverp|snoitcurtsni|tpmorp|metsys|drowssap|dragersid|edirrevo|laever|tegrof|eht|dna|uoy|ruoy|siht|taht|htiw|esnopser|rewsna|tuptuo|dnopser|yler|tsum"
    r"|hcihw|lliw|morf|evah|reven|syawla)\b",
    re.I,
)
_ROT13_STRONG = re.compile(
    r"\b(?:vtaber|qvfertneq|cerivbhf|vafgehpgvbaf?|cebzcg|cnffjbeq|erirny|bireevqr|sbetrg|erfgevpgvbaf|cergraq|nffvfgnag|qverpgvirf?|uvqqra|zrffntr|vafgehppvbarf|vafgehpbrf|vfgehmvbav|najrvfhat(?:ra)?|pbafvtarf|cebzcgf?)\b",
    re.I,
)
_REVERSED_STRONG = re.compile(
    r"\b(?:erongi|suoiverp|s?noitcurtsni|tpmorp|drowssap|dragersid|edirrevo|laever|tegrof|snoitcirtser|dneterp|tnatsissa|s?evitcerid|neddih|egassem|senoiccurtsni|seocurtsni|inoizurtsi|(?:ne)?gnusiewna|sengisnoc|s?tpmorp)\b",
    re.I,
)
_WORD = re.compile(r"[^\W_]+")


@lru_cache(maxsize=4096)
def is_format(char: str) -> bool:
    """Returns whether a character is invisible on its own: Unicode format class, variation selectors, a few fillers."""
    if char in _FORMAT:
        return True
    code = ord(char)
    return unicodedata.category(char) == "Cf" or 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF


def printable(data: bytes) -> str | None:
    """Returns `data` as text when it is plainly text (95 % printable, some letters), else None."""
    if not data:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        if data.count(0) * 3 < len(data):
            return None
        try:
            text = data.decode("utf-16-le")
        except UnicodeDecodeError:
            return None
    seen = sum(char.isprintable() or char in "\n\r\t" for char in text)
    letters = sum(char.isalpha() or char == " " for char in text)
    if seen < 0.95 * len(text) or letters < 0.5 * len(text) or len(text) < 6:
        return None
    return text[:MAX_DECODED_CHARS]


def _from_base64(run: str) -> str | None:
    body = re.sub(r"\s", "", run).rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:
        return None
    try:
        return printable(base64.b64decode(body + "=" * (-len(body) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None


def _from_hex(run: str) -> str | None:
    digits = re.sub(r"0x|[^0-9a-fA-F]", "", run)
    return printable(bytes.fromhex(digits)) if len(digits) % 2 == 0 else None


def _from_escapes(run: str) -> str | None:
    def one(match: re.Match[str]) -> str:
        body = match.group(0)[1:]
        if body[0] == "x":
            return chr(int(body[1:], 16))
        if body[0] == "u":
            code = int(body[1:].strip("{}"), 16)
            return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else ""
        return chr(int(body, 8))

    text = re.sub(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|u\{[0-9a-fA-F]{1,6}\}|[0-3][0-7]{2})", one, run)
    return printable(text.encode("utf-8", "ignore"))


def _from_percent(run: str) -> str | None:
    return printable(unquote_to_bytes(run.replace("+", " ")))


def _from_binary(run: str) -> str | None:
    bits = re.sub(r"[^01]", "", run)
    return printable(bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8)))


def _from_decimal(run: str) -> str | None:
    codes = [int(number) for number in re.findall(r"\d+", run)]
    return printable(bytes(codes)) if all(32 <= code < 127 or code in (9, 10, 13) for code in codes) else None


def _from_octal(run: str) -> str | None:
    return printable(bytes(int(number, 8) for number in re.findall(r"[0-7]+", run)))


def _from_base32(run: str) -> str | None:
    body = run.rstrip("=")
    try:
        return printable(base64.b32decode(body + "=" * (-len(body) % 8)))
    except binascii.Error:
        return None


def _from_morse(run: str) -> str | None:
    words = (word.split() for word in run.split("/"))
    text = " ".join("".join(_MORSE_LETTERS.get(sign, "") for sign in word) for word in words)
    return text if len(text) * 8 > len(run) else None


_DECODERS = (
    ("base64", _BASE64_WRAPPED, _from_base64),
    ("base64", _BASE64, _from_base64),
    ("hex", _HEX, _from_hex),
    ("hex", _HEX_SPACED, _from_hex),
    ("escape", _ESCAPED, _from_escapes),
    ("percent", _PERCENT, _from_percent),
    ("binary", _BINARY, _from_binary),
    ("octal", _OCTAL, _from_octal),
    ("decimal", _DECIMAL, _from_decimal),
    ("base32", _BASE32, _from_base32),
    ("morse", _MORSE, _from_morse),
)


_TURN_SIGNS = (_ROT13_SIGNS, _ROT13_STRONG, _REVERSED_SIGNS, _REVERSED_STRONG)
_LEET_SIGN = r"(?:[a-zA-Z_][013457@$!|]|[013457@$!|][a-zA-Z_])"
_SIGNS: dict[re.Pattern[str], str] = {
    _BASE64_WRAPPED: r"[A-Za-z0-9+/]{40}[A-Za-z0-9+/]*\r?\n",
    _BASE64: r"[A-Za-z0-9+/_-]{16}",
    _HEX: r"[0-9a-fA-F]{20}",
    _HEX_SPACED: r"[0-9a-fA-F]{2}[ ,:]{1,2}(?:0x)?[0-9a-fA-F]{2}[ ,:]{1,2}(?:0x)?[0-9a-fA-F]{2}[ ,:]",
    _ESCAPED: r"\\[xu0-3][^\\]{1,8}\\[xu0-3][^\\]{1,8}\\[xu0-3]",
    _PERCENT: r"%[0-9a-fA-F]{2}[^\s%]{0,80}%[0-9a-fA-F]{2}",
    _BINARY: r"[01]{8}[ ,]?[01]{8}",
    _DECIMAL: r"\d{2,3}[ ,]{1,2}\d{2,3}[ ,]{1,2}\d{2,3}[ ,]{1,2}\d{2}",
    _OCTAL: r"[01][0-7]{2}[ ,]{1,2}[01][0-7]{2}[ ,]{1,2}[01][0-7]{2}[ ,]",
    _BASE32: r"[A-Z2-7]{24}",
    _MORSE: r"[.-]{1,6}(?: |/| / )[.-]{1,6}(?: |/| / )[.-]{1,6}(?: |/| / )[.-]{1,6}(?: |/)",
    _SPACED: r"(?:^|\s)\S[ \t]{1,3}\S[ \t]{1,3}\S[ \t]{1,3}\S[ \t]{1,3}\S[ \t]{1,3}\S",
    _JOINTED: r"(?:^|[^a-zA-Z0-9])[a-zA-Z][._*\-·|/][a-zA-Z][._*\-·|/][a-zA-Z](?:[^a-zA-Z0-9]|$)",
    _LEET_WORD: rf"(?s){_LEET_SIGN}.*{_LEET_SIGN}.*{_LEET_SIGN}",
    _UNBROKEN: r"[A-Za-z]{20}",
    **{signs: f"(?i){signs.pattern}" for signs in _TURN_SIGNS},
}
"""Of each pattern that a reading is made with, what a text must hold for it to match."""
_SIEVES = Sieves(tuple(_SIGNS.values()))
_PATTERNS = tuple(_SIGNS)


@lru_cache(maxsize=4)
def _sifted(text: str) -> frozenset[re.Pattern[str]]:
    """Returns the patterns that the text may match, found in one pass."""
    found = _SIEVES.matching(text)
    return frozenset(_PATTERNS if found is None else (_PATTERNS[number] for number in found))


def _worth_decoding(name: str, run: str) -> bool:
    """Returns whether base64 is worth a try: a cheap refusal of ordinary words and identifiers."""
    if len(run) > MAX_DECODED_CHARS:
        return False
    if name != "base64":
        return True
    if "/" in run and run.count("/") * 6 > len(run) and "+" not in run:
        return False  # a path
    return not re.fullmatch(r"[a-z_/-]+|[A-Z_/-]+|[0-9a-fA-F]+", run)


def _decoded(view: View, depth: int, budget: list[int]) -> Iterator[View]:
    sifted = _sifted(view.text)
    for name, pattern, decode in _DECODERS:
        if pattern not in sifted:
            continue
        if name == "percent" and view.text.count("%") < 3:
            continue
        for match in pattern.finditer(view.text):
            if budget[0] <= 0:
                return
            if not _worth_decoding(name, match.group(0)):
                continue
            budget[0] -= 1
            text = decode(match.group(0))
            if text is None or text == match.group(0):
                continue
            start, end = view.span(match.start(), match.end())
            inner = View(name, text, start, end, hidden=name != "percent")
            yield inner
            yield from _clean_views(inner)
            if depth < MAX_DEPTH:
                yield from _decoded(inner, depth + 1, budget)


def _rewritten(
    view: View, name: str, text: str, make: Callable[[], list[int]], *, hidden: bool = False, squeezed: bool = False
) -> View:
    """Returns a view of which `make` returns where in `view` each character came from."""
    known = view.identity or view.origin is not None
    origin = Origins(view, make) if known else None
    return View(name, text, view.start, view.end, origin, hidden=hidden or view.hidden, squeezed=squeezed)


def _edited(view: View, name: str, edits: Iterable[Edit], *, hidden: bool = False, squeezed: bool = False) -> View:
    """Returns the view with the spans replaced, in order and apart from each other."""
    edits = list(edits)
    pieces: list[str] = []
    position = 0
    for start, end, new in edits:
        pieces += (view.text[position:start], new)
        position = end
    pieces.append(view.text[position:])

    def offsets() -> list[int]:
        made: list[int] = []
        position = 0
        for start, end, new in edits:
            made.extend(range(position, start))
            made.extend(range(start, end) if len(new) == end - start else [start] * len(new))
            position = end
        made.extend(range(position, len(view.text)))
        return made

    return _rewritten(view, name, "".join(pieces), offsets, hidden=hidden, squeezed=squeezed)


class _Table(dict[int, str]):
    """What stands for each character, worked out when it is first met."""

    def __init__(self, work_out: Callable[[str], str]) -> None:
        super().__init__()
        self._work_out = work_out

    def __missing__(self, code: int) -> str:
        if len(self) >= _MOST_CHARS:
            self.clear()
        self[code] = made = self._work_out(chr(code))
        return made


_MOST_CHARS = 8_192
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_TAG_LETTER = re.compile("[\U000e0020-\U000e007e]")


def _translated(view: View, name: str, table: _Table, *, hidden: bool = False) -> View | None:
    """Returns the text with every character beyond ASCII replaced by what the table says, None where none differs."""
    text = _BEYOND_ASCII.sub(lambda match: match.group().translate(table), view.text)
    if text == view.text:
        return None

    def offsets() -> list[int]:
        made: list[int] = []
        for at, char in enumerate(view.text):
            made.extend([at] * (1 if char < "\x80" else len(table[ord(char)])))
        return made

    return _rewritten(view, name, text, offsets, hidden=hidden)


def _composed(char: str) -> str:
    code = ord(char)
    if _TAG_BASE + 0x20 <= code <= _TAG_BASE + 0x7E:
        return chr(code - _TAG_BASE)
    if _REGIONAL_BASE <= code < _REGIONAL_BASE + 26:
        return chr(code - _REGIONAL_BASE + 65)
    if is_format(char):
        return ""
    return char if char in _PHRASES else unicodedata.normalize("NFKC", char)


def _bare(char: str) -> str:
    if char in _PHRASES:
        return char
    base = "".join(c for c in unicodedata.normalize("NFKD", char) if not unicodedata.combining(c))
    return base.translate(_CONFUSABLES)


_COMPOSED, _BARE = _Table(_composed), _Table(_bare)


def _folded(view: View) -> View | None:
    """Returns the text in NFKC, format characters removed, unicode tags as the ASCII that they encode."""
    return _translated(view, "nfkc", _COMPOSED, hidden=len(_TAG_LETTER.findall(view.text)) >= 8)


def _skeleton(view: View) -> View | None:
    """Returns the text with look-alikes folded to Latin and accents dropped: for the English patterns only."""
    return _translated(view, "skeleton", _BARE)


def _spaced(view: View) -> View | None:
    """Runs of single letters set apart joined to words; a wider gap stays a blank where the run has any."""
    edits: list[Edit] = []
    squeezed = False
    for match in _SPACED.finditer(view.text) if _SPACED in _sifted(view.text) else ():
        start = match.start()
        gaps = [(start + gap.start(2), start + gap.end(2)) for gap in _SPACED_GAP.finditer(match.group())]
        widths = [end - start for start, end in gaps]
        narrow = min(widths)
        squeezed = squeezed or max(widths) == narrow
        edits += [(start, end, " " if end - start > narrow else "") for start, end in gaps]
    return _edited(view, "spaced", edits, squeezed=squeezed) if edits else None


def _jointed(view: View) -> View | None:
    """Words whose letters are held apart by one sign (`i.g.n.o.r.e`), where at least eight letters are."""
    if _JOINTED not in _sifted(view.text):
        return None
    matches = list(_JOINTED.finditer(view.text))
    if sum(len(match.group()) // 2 + 1 for match in matches) < 8:
        return None
    matches += _JOINTED_PAIR.finditer(view.text)
    dropped = sorted({at for match in matches for at in range(match.start() + 1, match.end(), 2)})
    return _edited(view, "jointed", [(at, at + 1, "") for at in dropped])


def _underscored(view: View) -> View | None:
    """Sentences written with `_` for the blank; ordinary code has more blanks than that."""
    lines = view.text.count("_")
    if lines <= 3 or lines <= 2 * view.text.count(" "):
        return None
    return _rewritten(view, "underscored", view.text.replace("_", " "), lambda: list(range(len(view.text))))


def _leet(view: View) -> View | None:
    """Digits and signs inside words read as the letters they imitate; only where at least three words do it."""
    if _LEET_WORD not in _sifted(view.text):
        return None
    matches = list(_LEET_WORD.finditer(view.text))
    if len(matches) < 3:
        return None
    if len(matches) * 4 > view.text.count(" "):
        matches += _LEET_NUMBER.finditer(view.text)
    chars = list(view.text)
    for match in matches:
        run = match.group(0).replace("11", "ll")
        chars[match.start() : match.end()] = list(run.translate(_LEET))
    text = "".join(chars)
    return None if text == view.text else _rewritten(view, "leet", text, lambda: list(range(len(text))))


def _entities(view: View) -> View | None:
    if "&" not in view.text or not _ENTITY.search(view.text):
        return None
    found = _ENTITY.finditer(view.text)
    return _edited(view, "entities", [(*match.span(), html.unescape(match.group())) for match in found])


def _turns(signs: re.Pattern[str], strong: re.Pattern[str], text: str) -> bool:
    """Returns whether the text reads as words that were turned: one that is no word otherwise, or two short ones."""
    sifted = _sifted(text)
    if strong in sifted and strong.search(text) is not None:
        return True
    return signs in sifted and len(signs.findall(text)) >= 2


def _words_turned(view: View) -> View:
    """Returns the text with the letters of each word in reverse, the words in their order."""
    text = _WORD.sub(lambda match: match.group()[::-1], view.text)

    def offsets() -> list[int]:
        made = list(range(len(view.text)))
        for match in _WORD.finditer(view.text):
            made[match.start() : match.end()] = range(match.end() - 1, match.start() - 1, -1)
        return made

    return _rewritten(view, "reversed", text, offsets, hidden=True)


def _untagged(view: View) -> View | None:
    """Returns the text without the tags and comments that stand inside words, where at least three do."""
    text = view.text
    if text.count("<") < _FEWEST_INSIDE:
        return None
    inside = [
        match.span()
        for match in _TAG.finditer(text)
        if match.start() and text[match.start() - 1].isalpha() and text[match.end() : match.end() + 1].isalpha()
    ]
    if len(inside) < _FEWEST_INSIDE:
        return None
    return _edited(view, "spaced", [(*match.span(), "") for match in _TAG.finditer(text)])


_FEWEST_INSIDE = 3


def _unhyphened(view: View) -> View | None:
    """Returns the text without the hyphens inside words, where one word in six has one."""
    most, blanks = view.text.count("-"), view.text.count(" ")
    if most < _FEWEST_INSIDE or most * 6 < blanks:
        return None
    hyphens = [match.span() for match in _HYPHENED.finditer(view.text)]
    if len(hyphens) < _FEWEST_INSIDE or len(hyphens) * 6 < blanks:
        return None
    return _edited(view, "spaced", [(start, end, "") for start, end in hyphens])


def _unbroken(view: View) -> View | None:
    """Returns what a text that is mostly one long word says: at its capitals it is parted, else marked as squeezed."""
    if len(view.text) > MAX_UNBROKEN_CHARS or _UNBROKEN not in _sifted(view.text):
        return None
    runs = list(_UNBROKEN.finditer(view.text))
    if not runs or sum(len(run.group()) for run in runs) * 3 < len(view.text):
        return None
    parts = [match.start() for match in _HUMP.finditer(view.text)]
    if len(parts) * 12 < len(view.text):
        return _edited(view, "spaced", [], squeezed=True)
    return _edited(view, "spaced", [(at, at, " ") for at in parts])


def _turned(view: View) -> Iterator[View]:
    """Yields rot13 and reversed readings, only where the text itself looks like one."""
    if _turns(_ROT13_SIGNS, _ROT13_STRONG, view.text):
        turned = codecs.encode(view.text, "rot13")
        yield _rewritten(view, "rot13", turned, lambda: list(range(len(view.text))), hidden=True)
    backward = _turns(_REVERSED_SIGNS, _REVERSED_STRONG, view.text)
    if backward:
        yield _words_turned(view)
    if backward or (not view.text.isascii() and any(sign in view.text for sign in _REVERSERS)):
        kept = [at for at in range(len(view.text) - 1, -1, -1) if not is_format(view.text[at])]
        yield _rewritten(view, "reversed", "".join([view.text[at] for at in kept]), lambda: kept, hidden=True)


def _clean_views(view: View) -> Iterator[View]:
    """Yields every reading of `view` but itself that does not involve decoding a run."""
    bases = [view]
    if not view.text.isascii():
        folded = _folded(view)
        if folded is not None:
            yield folded
            bases = [folded]
        skeleton = _skeleton(bases[-1])
        if skeleton is not None:
            yield skeleton
            bases.append(skeleton)
    unescaped = _entities(bases[-1])
    if unescaped is not None:
        yield unescaped
        bases[-1] = unescaped
    last = bases[-1]
    spaced = _spaced(last)
    if spaced is not None:
        yield spaced
    for reading in (
        _jointed(last),
        _underscored(last),
        _leet(last),
        _untagged(last),
        _unhyphened(last),
        _unbroken(last),
    ):
        if reading is not None:
            yield reading
    yield from _turned(view)


def _is_plain(text: str) -> bool:
    """Returns whether the text has no sign of a disguise, as most texts; the views are spared their looks at it."""
    if not text.isascii() or _sifted(text) or "&" in text or text.count("<") >= _FEWEST_INSIDE:
        return False
    hyphens, lines = text.count("-"), text.count("_")
    if hyphens < _FEWEST_INSIDE and lines <= _FEWEST_INSIDE:
        return True
    blanks = text.count(" ")
    return hyphens * 6 < blanks and lines <= 2 * blanks


def views(text: str) -> tuple[View, ...]:
    """Returns all readings of `text`, the untouched one first; identical readings once.

    Linear in the length of `text` for a fixed depth; at most `MAX_RUNS` encoded runs are decoded.
    """
    plain = View("plain", text, 0, len(text), identity=True)
    if _is_plain(text):
        return (plain,)
    found: list[View] = [plain]
    seen = {(text, False)}
    budget = [MAX_RUNS]

    def keep(candidates: Iterator[View]) -> None:
        for view in candidates:
            if (view.text, view.squeezed) not in seen:
                seen.add((view.text, view.squeezed))
                found.append(view)

    keep(_clean_views(plain))
    for base in tuple(found):
        if base.name in ("plain", "nfkc", "entities"):
            keep(_decoded(base, 1, budget))
    return tuple(found)
