"""The pictures of a report as SVG text, drawn by matplotlib (the optional extra `report`).

`Figure` is used without pyplot, whose state is global; what matplotlib keeps in its own settings is set under a lock.
The colours are named: each is in the SVG as a CSS variable with a fallback, so that a page gives them for light and
for dark, and a picture by itself is readable. The same record gives the same bytes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import PerpetualError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "PAPER", "Mark", "axes_of", "colour", "draw", "drawn_by", "dress", "legend", "plain", "require",
           "short", "spread"]  # fmt: skip

COLOURS = {  # name -> on light, on dark; the words of a picture and its lines, then what tells things apart
    "ink": ("#1f2933", "#e4e8ee"),
    "soft": ("#56626d", "#a7b1bc"),
    "grid": ("#d8dee4", "#39424c"),
    "blue": ("#2459a8", "#7fb0ff"),
    "green": ("#2c7a4b", "#63c586"),
    "red": ("#b3372f", "#f58d84"),
    "amber": ("#8f5b0e", "#e6b35a"),
    "violet": ("#744a98", "#c8a2ea"),
    "grey": ("#7b8792", "#8b97a3"),
}
PAPER = "#ffffff"  # behind words that lines cross; the page's own --paper
FONTS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
_LOCK = threading.Lock()
_SETTINGS = {
    "svg.fonttype": "none",  # words stay words: searchable, and in the reader's own font
    "svg.hashsalt": "perpetual",
    "text.parse_math": False,  # a dollar in a user's title is a dollar
    "font.family": "DejaVu Sans",  # comes with matplotlib; it only measures, a page's own font shows the words
    "font.size": 10.0,
    "axes.unicode_minus": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Mark(NamedTuple):
    """One sort of point or bar: its colour's name, its marker, and the word for it."""

    colour: str
    marker: str
    word: str


def require() -> None:
    """Raises PerpetualError with the way out where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise PerpetualError(
            "pictures need matplotlib, which is not installed",
            hint="pip install 'perpetual-lab[report]', or --format md, which has none",
        )


def drawn_by() -> str | None:
    """Returns the name and version of what draws, or None: the same one draws the same bytes."""
    if find_spec("matplotlib") is None:
        return None
    import matplotlib

    return f"matplotlib {matplotlib.__version__}"


def plain(text: object) -> str:
    """Returns the text on one line, unseen characters made visible: a control character must not hide words."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() or c in "\u200c\u200d" else f"\\u{ord(c):04x}" for c in line)


def short(text: object, length: int) -> str:
    """Returns at most `length` characters of the text."""
    words = plain(text)
    return words if len(words) <= length else words[: length - 1].rstrip() + "…"


def colour(name: str) -> str:
    """Returns matplotlib's value for a colour; `draw` puts the CSS variable in its place."""
    return COLOURS[name][0]


def draw(name: str, title: str, words: str, size: tuple[float, float], paint: Callable[[Figure], None]) -> str:
    """Returns an inline SVG: `paint` fills a figure of `size` inches; screen readers speak `title` and `words`."""
    import io

    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with _LOCK, matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]
        figure = Figure(figsize=size)
        figure.patch.set_visible(False)
        paint(figure)
        # By the canvas itself: `savefig` draws everything twice, and the pictures are most of what a report costs.
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)  # type: ignore[no-untyped-call]
    return _inline(buffer.getvalue(), name, title, words)


_ID = re.compile(r' id="(?:figure|axes|patch|line2d|text|xtick|ytick|legend|matplotlib\.axis|\w+Collection)_\d+"')
_FONT = re.compile(r"font: ([^;\"]*?)([\d.]+)px [^;\"]*")


def _inline(svg: str, name: str, title: str, words: str) -> str:
    """Returns matplotlib's SVG as part of a page: no prologue, no ids of its own, colours as variables, with words."""
    body = svg[svg.index("<svg") :].rstrip()
    body = re.sub(r"<metadata>.*?</metadata>\s*", "", body, flags=re.S)
    head, _, rest = body.partition(">")
    box = re.search(r'viewBox="([^"]+)"', head)
    assert box is not None
    rest = _FONT.sub(lambda found: f"font: {found[1]}{found[2]}px {FONTS}", _ID.sub("", rest))
    for key, (light, _) in COLOURS.items():
        rest = rest.replace(light, f"var(--{key}, {light})")
    rest = rest.replace(PAPER, f"var(--paper, {PAPER})")
    width = float(box[1].split()[2])
    safe = escape(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box[1]}" '
        f'data-picture="{safe}" role="img" aria-labelledby="{safe}-title {safe}-desc" style="max-width: {width:g}pt">'
        f'<title id="{safe}-title">{escape(plain(title))}</title><desc id="{safe}-desc">{escape(plain(words))}</desc>'
        f"{rest}"
    )


def axes_of(figure: Figure, *, left: float, bottom: float = 0.55, right: float = 0.1, top: float = 0.32) -> Axes:
    """Returns a picture's one pair of axes, with its margins in inches: measuring would cost a second drawing."""
    width, height = figure.get_size_inches()
    inner = (1 - (left + right) / width, 1 - (bottom + top) / height)
    axes = figure.add_axes((left / width, bottom / height, *inner))
    axes.patch.set_visible(False)
    return axes


def dress(axes: Axes, *, grid: str = "y") -> None:
    """Axes as every picture has them: quiet lines, words in the page's ink."""
    axes.grid(visible=True, axis=grid, color=colour("grid"), linewidth=0.8)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.tick_params(colors=colour("soft"), labelcolor=colour("ink"), length=3)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(colour("grey"))
    for words in (axes.xaxis.label, axes.yaxis.label):
        words.set_color(colour("soft"))


def legend(axes: Axes, **options: object) -> None:
    """Draws a legend above the axes, where it covers nothing."""
    made = axes.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=6, frameon=False, fontsize=9, handletextpad=0.4,
        columnspacing=1.4, borderaxespad=0.2, **options,
    )  # fmt: skip
    for words in made.get_texts():
        words.set_color(colour("ink"))


def spread(count: int, most: int) -> Sequence[int]:
    """Returns at most `most` of `count` places, evenly, the last among them: the ticks that get a label."""
    if count <= most:
        return range(count)
    step = -(-count // most)
    return range((count - 1) % step, count, step)
