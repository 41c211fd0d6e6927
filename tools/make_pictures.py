"""Draws the pictures of README and documentation into `docs/pictures/`.

    python tools/make_pictures.py           the flow pictures; a test holds the committed ones to this
    python tools/make_pictures.py --demo    also the demo's end and its report, from a real run of `perpetual demo`

The second needs chromium on the PATH and the extra `report`, about a minute, and no network.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

_INK, _SOFT, _PAPER = "#1f2933", "#5b6770", "#ffffff"
_FILLS = {  # kind of box -> fill, border
    "person": ("#fff4d6", "#b7791f"),
    "face": ("#e3ecfb", "#3b64ad"),
    "core": ("#dff3e4", "#2f7d4a"),
    "plugin": ("#f0e6f8", "#7a4a9e"),
    "record": ("#e8eaed", "#5b6770"),
    "stop": ("#fbe3e1", "#b23b32"),
}
_LINE = 17  # px from one line of text to the next


class Sheet:
    """An SVG drawn with boxes, arrows and words, readable on light and on dark pages."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">'
        )
        self._parts = [
            f"<title>{escape(title)}</title>",
            f'<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{_SOFT}"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="10" fill="{_PAPER}"/>',
        ]

    def words(self, x: float, y: float, text: str, *, small: bool = False, anchor: str = "middle") -> None:
        """Draws one line of text, its baseline at y."""
        size, colour = (12, _SOFT) if small else (14, _INK)
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def box(self, x: int, y: int, width: int, height: int, text: str, kind: str) -> None:
        """Draws a box; the first line of `text` is its name, the others are small."""
        fill, border = _FILLS[kind]
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{fill}" stroke="{border}" '
            f'stroke-width="1.4"/>'
        )
        lines = text.split("\n")
        first = y + height / 2 - (len(lines) - 1) * _LINE / 2 + 5
        for number, line in enumerate(lines):
            self.words(x + width / 2, first + number * _LINE, line, small=number > 0)

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Draws a line through the points with a tip at the last."""
        path = " ".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<path d="{path}" fill="none" stroke="{_SOFT}" stroke-width="1.6"{dash} marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        """Returns the picture as text."""
        return "\n".join([self._head, *self._parts, "</svg>"]) + "\n"


def _row(sheet: Sheet, boxes: Sequence[tuple[str, str]], *, y: int, width: int, height: int, gap: int) -> list[int]:
    """Boxes side by side, an arrow from each to the next; answers their left edges."""
    lefts = [20 + number * (width + gap) for number in range(len(boxes))]
    for number, (left, (text, kind)) in enumerate(zip(lefts, boxes, strict=True)):
        sheet.box(left, y, width, height, text, kind)
        if number:
            sheet.arrow((left - gap, y + height / 2), (left - 2, y + height / 2))
    return lefts


def house() -> str:
    """Draws people and agents, the faces, the Lab, slots and the plugins chosen for them."""
    sheet = Sheet(940, 330, "People, coding agents and the loop reach the Lab through faces; the Lab reaches plugins")
    for x, name in ((95, "who"), (290, "face"), (480, "one door"), (650, "slot"), (830, "plugin in force")):
        sheet.words(x, 28, name, small=True)
    middle = 180
    rows = ((60, "a person", "command line"), (150, "a coding agent", "MCP server"), (240, "your script", "Python"))
    for y, who, face in rows:
        sheet.box(20, y, 150, 60, who, "person")
        sheet.box(215, y, 150, 60, face, "face")
        sheet.arrow((170, y + 30), (213, y + 30))
        sheet.arrow((365, y + 30), (408, middle + (y + 30 - middle) / 4))
    sheet.box(410, 130, 140, 100, "Lab\none method per deed\nthe record decides", "core")
    slots = ("store|tinydb", "scheduler|local", "GPUs|nvml", "scorer|information-gain", "memory|git", "gates|immune")
    for number, pair in enumerate(slots):
        slot, plugin = pair.split("|")
        y = 44 + number * 46
        sheet.box(595, y, 110, 36, slot, "core")
        sheet.box(750, y, 165, 36, plugin, "plugin")
        sheet.arrow((550, middle + (y + 18 - middle) / 4), (593, y + 18))
        sheet.arrow((705, y + 18), (748, y + 18))
    return sheet.svg()


def claim() -> str:
    """Returns how a statement becomes a verdict."""
    sheet = Sheet(940, 310, "From a statement to a verdict: propose, approve, run, scan, evidence, confidence")
    top = [
        ("hypothesis\nstatement, prior", "core"),
        ("experiment\ncommand and design", "core"),
        ("approval\na person; binds the hash", "person"),
        ("run\nown supervisor, own seed", "plugin"),
    ]
    lefts = _row(sheet, top, y=40, width=180, height=70, gap=60)
    bottom = [
        ("verdict\nsupported, refuted, open", "core"),
        ("confidence, bound\na fold, never written", "core"),
        ("evidence row\ne-values for and against", "record"),
        ("exit record\nwritten by the supervisor", "record"),
    ]
    for left, (text, kind) in zip(lefts, bottom, strict=True):
        sheet.box(left, 190, 180, 70, text, kind)
    last = lefts[-1] + 90
    sheet.arrow((last, 110), (last, 188))
    sheet.words(last - 10, 154, "how it ended", small=True, anchor="end")
    for right, left in zip(reversed(lefts), list(reversed(lefts))[1:], strict=False):
        sheet.arrow((right, 225), (left + 182, 225))
    sheet.words(lefts[3] - 30, 216, "scan", small=True)
    sheet.words(lefts[2] - 30, 216, "fold", small=True)
    sheet.arrow((lefts[1] + 90, 190), (lefts[1] + 90, 112), dashed=True)
    sheet.words(
        lefts[1] + 100, 154, "open: the replicate that teaches most per hour is next", small=True, anchor="start"
    )
    sheet.words(470, 293, "The store keeps every step; doing a step twice is doing it once.", small=True)
    return sheet.svg()


def note() -> str:
    """Returns how a note reaches an agent, or does not."""
    sheet = Sheet(940, 300, "A note passes the gates before anybody is shown it")
    sheet.box(20, 115, 150, 70, "memory write\nby person or agent", "face")
    sheet.box(215, 115, 150, 70, "gates\nall are asked", "plugin")
    sheet.arrow((170, 150), (213, 150))
    outcomes = (
        (30, "pass", "candidate\nno finding", "core", "shown to agents\nfenced, labelled unproven", "face"),
        (
            115,
            "quarantine",
            "quarantined\nsecrets cut out first",
            "record",
            "kept, not shown\nwaits for a person",
            "record",
        ),
        (200, "reject", "rejected\nexit 7", "stop", "kept for audit\nshown to no agent", "record"),
    )
    for number, (y, word, status, kind, fate, fate_kind) in enumerate(outcomes):
        sheet.box(475, y, 180, 70, status, kind)
        sheet.box(720, y, 200, 70, fate, fate_kind)
        sheet.arrow((365, 150 + (y - 115) / 6), (473, y + 35))
        sheet.words(420, (88, 144, 222)[number], word, small=True, anchor=("end", "middle", "end")[number])
        sheet.arrow((655, y + 35), (718, y + 35))
    sheet.words(
        470,
        291,
        "A gate that fails counts as reject. The store keeps the intent first; git is committed after it.",
        small=True,
    )
    return sheet.svg()


def launch() -> str:
    """Returns the crash order of a launch: what is durable before what."""
    sheet = Sheet(940, 260, "A launch: what is durable before what, and what a crash in between leaves")
    steps = [
        ("1  reserve\nrun queued, worst\ncase reserved", "record"),
        ("2  launching\nwith the launcher's\nidentity", "record"),
        ("3  supervisor\nrecords the child,\nthen lets it run", "plugin"),
        ("4  running\nnoted in the store", "record"),
        ("5  exit record\nwritten by the\nsupervisor", "plugin"),
        ("6  settled\ndebit, metrics,\nevidence, at once", "core"),
    ]
    width, gap = 135, 18
    lefts = _row(sheet, steps, y=40, width=width, height=84, gap=gap)
    after = (
        "stays queued;\nstarts later",
        "nothing ran:\nqueued again",
        "adopted as\nrunning",
        "the run goes on,\nunwatched",
        "settled by the\nnext scan",
    )
    for left, words in zip(lefts[1:], after, strict=True):
        x = left - gap / 2
        sheet.arrow((x, 178), (x, 130), dashed=True)
        for number, line in enumerate(words.split("\n")):
            sheet.words(x, 196 + number * 16, line, small=True)
    sheet.words(
        470, 246, "Below each gap: what a crash of Perpetual at that point leaves, found by the next scan.", small=True
    )
    return sheet.svg()


def floors() -> str:
    """Returns the floors of the kernel; imports go down only."""
    sheet = Sheet(940, 330, "The floors of the kernel: imports go down only")
    stack = (
        ("faces: cli, the MCP plugin", "face", "read options, call Lab, show"),
        ("loop", "core", "cycle: scan, analyse, propose, approve, launch, check"),
        ("lab", "core", "one package per noun: runs, evidence, memory and more"),
        ("slots, hookspecs, api, registry, config, methodology", "core", "contracts, and who is chosen for them"),
        ("errors, records, science, toolkit", "record", "no imports from above; science is pure functions"),
    )
    for number, (name, kind, meaning) in enumerate(stack):
        y = 20 + number * 60
        sheet.box(20, y, 400, 46, name, kind)
        sheet.words(440, y + 28, meaning, small=True, anchor="start")
        if number:
            sheet.arrow((220, y - 14), (220, y - 2))
    sheet.box(800, 80, 120, 226, "plugins\n\nimport only\nperpetual.api,\nscience, toolkit,\nloop, testing", "plugin")
    sheet.words(470, 324, "The kernel imports no plugin.", small=True)
    return sheet.svg()


FLOWS = {"house.svg": house, "claim.svg": claim, "note.svg": note, "launch.svg": launch, "floors.svg": floors}


def without_fonts(svg: str) -> str:
    """Returns the SVG without the font faces that rich has browsers fetch; the viewer's own monospaced font serves."""
    svg = re.sub(r"\s*@font-face \{.*?\}", "", svg, flags=re.S)
    svg = re.sub(r' clip-path="url\(#demo-line-\d+\)"', "", svg)  # measured for that font: it would cut underscores off
    return svg.replace("Fira Code", "ui-monospace, DejaVu Sans Mono, Menlo, Consolas")


def demo_svg(folder: Path) -> str:
    """Returns what `perpetual demo` prints at its end, as a terminal window: the same rows in the terminal's width."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    done = subprocess.run(
        [sys.executable, "-m", "perpetual", "demo", "perpetual-demo", "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    document = json.loads(done.stdout)
    console = Console(
        record=True, width=104, force_terminal=True, color_system="truecolor", file=sys.stderr, highlight=False
    )
    colours = {"supported": "green", "refuted": "red", "open": "yellow", "parked": "cyan"}
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("", "hypothesis", "verdict", "confidence", "false-alarm\nbound", "evidence"):
        table.add_column(column)
    for item in document["hypotheses"]:
        table.add_row(
            item["id"],
            Text(item["statement"]),
            Text(item["status"], style=colours[item["status"]]),
            f"{item['confidence']:.3f}",
            "none" if item["false_alarm_bound"] is None else f"{item['false_alarm_bound']:.2g}",
            f"{item['evidence']} runs",
        )
    console.print("$ perpetual demo")
    console.print(table)
    for item in document["hypotheses"]:
        console.print(f"{item['id']}: {item['sentence']}")
    console.print(
        f"stopped: {document['reason']} ({document['explanation']}); {document['runs']} runs, "
        f"{document['elapsed_s']:.0f} s in all"
    )
    console.print(f"report:  perpetual-demo/{Path(document['report']).name}\n")
    return without_fonts(console.export_svg(title="perpetual demo", unique_id="demo"))


def report_png(folder: Path, target: Path) -> None:
    """Draws the top of the demo's report, as `perpetual report --format html` writes it, with chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("chromium is not on the PATH")
    page = folder / "report.html"
    subprocess.run(
        [sys.executable, "-m", "perpetual", "--project", str(folder / "perpetual-demo"), "report", "--format", "html",
         "-o", str(page)],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    page.write_text(page.read_text().replace(sys.executable, "python"))
    subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         f"--user-data-dir={folder / 'profile'}", "--hide-scrollbars", "--window-size=1240,1690",
         f"--screenshot={target}", page.as_uri()],
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    """Writes the flow pictures, and with --demo those of a real run."""
    PICTURES.mkdir(exist_ok=True)
    for name, draw in FLOWS.items():
        (PICTURES / name).write_text(draw())
    if "--demo" in arguments:
        with tempfile.TemporaryDirectory() as place:
            (PICTURES / "demo.svg").write_text(demo_svg(Path(place)))
            report_png(Path(place), PICTURES / "report.png")


if __name__ == "__main__":
    main(sys.argv[1:])
