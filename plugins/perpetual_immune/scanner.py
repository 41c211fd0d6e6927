"""The scan itself: one text in, one verdict out.  Pure and without input or output; imported by the memory gate.

`scan` makes the views of a text (`normalise`), runs every rule family on each, adds the evidence of one category within
a neighbourhood and compares it with two thresholds.  `redact` replaces what was found to be a secret.

Nothing is caught here: an error of a rule reaches the caller, and the caller must read it as a rejection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from perpetual_immune.normalise import View, views
from perpetual_immune.rules import commands, injection, payloads, requests, scoring, secrets
from perpetual_immune.rules.hit import Hit, about_security, fold

Category = Literal["prompt_injection", "secret_leak", "tool_misuse", "score_manipulation"]
Severity = Literal["reject", "quarantine"]
Outcome = Literal["pass", "quarantine", "reject"]

MAX_CHARS = 262_144
"""Longest text scanned whole; of a longer one the head and the tail are scanned and the note is quarantined."""
HEAD_CHARS = 196_608
TAIL_CHARS = MAX_CHARS - HEAD_CHARS
EXCERPT_CHARS = 80
REJECT_WEIGHT = 2.5
QUARANTINE_WEIGHT = 2.0
NEIGHBOURHOOD_CHARS = 1_500
"""Evidence further apart than this does not add up."""
HIDDEN_BONUS = 1.0
"""Added to evidence found only in text that a reader would not have seen."""


@dataclass(frozen=True)
class Finding:
    """One reason for the outcome, at `[start, end)` of the scanned text (offsets in characters).

    `excerpt` is at most `EXCERPT_CHARS` long, has control characters escaped, and of a secret shows four characters.
    """

    rule: str
    category: Category
    severity: Severity
    start: int
    end: int
    excerpt: str


@dataclass(frozen=True)
class Scan:
    """The verdict on a text.  `category` is that of the gravest finding; None when there is none."""

    outcome: Outcome
    category: Category | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Located:
    rule: str
    family: str
    weight: float
    start: int
    end: int


def _escape(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def _excerpt(text: str, start: int, end: int, hidden_spans: Iterable[tuple[int, int]], secret: bool) -> str:
    """Returns the words found, shortened; every secret that overlaps them is masked first."""
    if secret:
        return _escape(text[start : start + 4])[: EXCERPT_CHARS - 3] + "..."
    end = min(end, start + EXCERPT_CHARS)
    shown = list(text[start:end])
    for first, last in hidden_spans:
        for index in range(max(first, start), min(last, end)):
            shown[index - start] = "."
    escaped = _escape("".join(shown))
    return escaped if len(escaped) <= EXCERPT_CHARS else escaped[: EXCERPT_CHARS - 3] + "..."


def _locate(view: View, hits: Iterable[Hit], offset: int = 0) -> list[_Located]:
    bonus = HIDDEN_BONUS if view.hidden else 0.0
    return [
        _Located(hit.rule, hit.family, hit.weight + bonus, *view.span(offset + hit.start, offset + hit.end))
        for hit in hits
    ]


def _collect(text: str) -> dict[Category, list[_Located]]:
    found: dict[Category, list[_Located]] = {
        "prompt_injection": [], "secret_leak": [], "tool_misuse": [], "score_manipulation": [],
    }  # fmt: skip
    discussed = about_security(fold(text))
    for view in views(text):
        folds_letters = view.name in ("leet", "spaced", "skeleton")
        for offset, part in [(0, view.text)] if discussed else view.windows():
            found["prompt_injection"] += _locate(view, injection.find(part, squeezed=view.squeezed), offset)
            found["tool_misuse"] += _locate(view, requests.find(part), offset)
            if not folds_letters:  # which makes secrets and commands out of neither
                found["tool_misuse"] += _locate(view, payloads.find(part), offset)
                found["secret_leak"] += _locate(view, secrets.find(part), offset)
        found["score_manipulation"] += _locate(view, scoring.find(view.text))
        if not folds_letters:
            found["tool_misuse"] += _locate(view, commands.find(view.text))
    return found


def _weight(hits: list[_Located]) -> float:
    """Returns the most that neighbouring evidence adds up to, each family counted once with its heaviest hit."""
    ordered = sorted(hits, key=lambda hit: hit.start)
    best = 0.0
    for index, first in enumerate(ordered[:400]):
        families: dict[str, float] = {}
        for hit in ordered[index : index + 60]:
            if hit.start - first.start > NEIGHBOURHOOD_CHARS:
                break
            families[hit.family] = max(families.get(hit.family, 0.0), hit.weight)
        best = max(best, sum(families.values()))
        if best >= REJECT_WEIGHT:
            break
    return best


def _merged(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Returns overlapping spans joined, under the rule of the first."""
    joined: list[tuple[int, int, str]] = []
    for start, end, rule in sorted(spans, key=lambda span: (span[0], -span[1])):
        if joined and start < joined[-1][1]:
            first, last, kept = joined[-1]
            joined[-1] = (first, max(last, end), kept)
        else:
            joined.append((start, end, rule))
    return joined


def _scan_part(text: str, offset: int, whole: str) -> list[Finding]:
    found = _collect(text)
    secret_spans = _merged((hit.start + offset, hit.end + offset, hit.rule) for hit in found["secret_leak"])
    hidden = [(start, end) for start, end, _ in secret_spans]
    findings = [
        Finding(rule, "secret_leak", "quarantine", start, end, _excerpt(whole, start, end, (), True))
        for start, end, rule in secret_spans
    ]
    for category, hits in found.items():
        if category == "secret_leak" or not hits:
            continue
        total = _weight(hits)
        if total < QUARANTINE_WEIGHT:
            continue
        severity: Severity = "reject" if total >= REJECT_WEIGHT else "quarantine"
        seen: set[tuple[str, int]] = set()
        for hit in sorted(hits, key=lambda hit: (-hit.weight, hit.start)):
            start, end = hit.start + offset, hit.end + offset
            if (hit.rule, start) not in seen and len(seen) < 16:
                seen.add((hit.rule, start))
                findings.append(
                    Finding(hit.rule, category, severity, start, end, _excerpt(whole, start, end, hidden, False))
                )
    return findings


def scan(text: str) -> Scan:
    """Judges one text for the memory store.

    Rejects instructions aimed at the reader, misuse of tools and manipulation of scores when the evidence is strong and
    quarantines it when weak; a secret quarantines (redact it and the rest of the note can be kept).  Time is linear in
    the length of the text.  Any exception is a defect that the caller must treat as a rejection.
    """
    if len(text) <= MAX_CHARS:
        findings = _scan_part(text, 0, text)
    else:
        findings = _scan_part(text[:HEAD_CHARS], 0, text)
        tail = len(text) - TAIL_CHARS
        findings += _scan_part(text[tail:], tail, text)
        findings.append(
            Finding(
                "unscanned-middle",
                "prompt_injection",
                "quarantine",
                HEAD_CHARS,
                tail,
                f"{tail - HEAD_CHARS} characters not scanned",
            )
        )
    if not findings:
        return Scan("pass", None, ())
    findings.sort(key=lambda finding: (finding.severity != "reject", finding.start, finding.end))
    return Scan(findings[0].severity, findings[0].category, tuple(findings))


def redact(text: str, findings: Iterable[Finding]) -> str:
    """Returns `text` with every secret's span among `findings` replaced by `[redacted:<rule>]`; others stay."""
    spans = _merged((f.start, f.end, f.rule) for f in findings if f.category == "secret_leak")
    for start, end, rule in reversed(spans):
        text = f"{text[:start]}[redacted:{rule}]{text[end:]}"
    return text
