"""Prompt injection: what speaks to the reader of a memory as if it gave orders.  Imported by `scanner`.

A family adds up once, with its heaviest pattern: one strong family or two weaker ones in the same neighbourhood are
what the scanner asks for.  Reported, quoted and negated speech weighs less or nothing.  Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perpetual_immune.rules.families import PLAIN, SQUEEZED
from perpetual_immune.rules.hit import Hit, about_security, fold, negated, reported
from perpetual_immune.rules.languages import (
    CONSTITUENTS,
    OVERRIDE_INDEXES,
    PHRASE_INDEXES,
    not_in_that_language,
    speaks_to_the_reader,
)
from perpetual_immune.rules.mention import MARKUP, as_markup, mentioned
from perpetual_immune.rules.needles import Rule
from perpetual_immune.rules.said import only_what_is_said
from perpetual_immune.rules.tongues import spoken

_NEGATABLE = frozenset({"override", "disclosure", "exfiltration", "coercion", "hidden", "limits", "guard"})


# ruff: noqa: E501 - a pattern is only readable whole
_NAMED_PERSONA = re.compile(
    r"\bDAN\b[^.\n]{0,40}\b(?:can|will|is|has|must|does|would|never|answers?|responds?)\b|\b(?!Chat|Instruct|Open|Auto|Mini|Nano|Bio|Distil)[A-Z]\w{1,12}GPT\b"
)
_PER_PATTERN = 8
_INDICATIVE = re.compile(
    r"(?:(?:^|[.!?;,:(] |\b(?:and|that|if|when|while|because|all|any|both|most|some|many|few|\d+|t|k|n) )(?:the |our |these |those |other |all |some )?(?:(?!(?:without|for|in|with|to|on|at|under|as|by|from|like|please|plus|per|via|despite|beyond|about|after|before|until|during)\b)\w{2,14} )?(?!(?:sometimes|perhaps|besides|afterwards|nowadays|thanks|details|circumstances|colleagues|guys|folks|friends|always|this|thus|its|his|as|is|was|has|yes|pls|plus|us|responses?|answers|outputs|tasks|times|cases|requests|instructions|sessions|steps|words|rules|messages|users|agents|assistants|models|bots|ais|llms)\b)[a-z]{3,14}s|\bthey|\bwe) \Z"
)
"""A subject in the plural before a verb, which is no order then: "any two shares reveal the secret"."""


@only_what_is_said
def find(text: str, *, squeezed: bool = False) -> Iterator[Hit]:
    """Yields evidence of instructions aimed at a reader of the memory."""
    low = fold(text)
    if squeezed:
        for rule, matches in SQUEEZED.found(low):
            for match in matches:
                yield Hit(rule.rule, rule.family, rule.weight, match.start(), match.end())
        return
    discussed = 1.0 if about_security(low) else 0.0
    yield from _foreign(low, discussed)
    for match in _NAMED_PERSONA.finditer(text) if "GPT" in text or "DAN" in text else ():
        if discussed < 1.5:
            yield Hit("persona-named", "role", 1.5 - discussed, match.start(), match.end())
            break
    for rule, matches in PLAIN.found(low):
        for number, match in enumerate(matches):
            if number >= _PER_PATTERN:
                break
            if rule.family in _NEGATABLE and negated(low, match.start()):
                continue
            start, end = match.span()
            if rule.family in _NEGATABLE and _INDICATIVE.search(low[max(0, start - 48) : start]):
                continue
            lowered = discussed + (0.0 if rule.absolute else mentioned(low, start, end))
            if rule.rule in MARKUP and as_markup(low, start, end):
                lowered += 2.0
            if rule.weight > lowered:
                yield Hit(rule.rule, rule.family, rule.weight - lowered, match.start(), match.end())


_FOREIGN_SUBJECT = Rule(
    r"attaqu|ataque|attacc|angriff|aanval|\binjec|inyecc|inje[çc]|iniezion|injekt|атак|инъекц|攻击|攻撃|注入|インジェクション|공격|هجوم|saldırı"
    r"|\bjailbreak|\bprompt.injection"
)
_FOREIGN_CITING = re.compile(
    r"exemple|ejemplo|beispiel|esempio|exemplo|phrase|\bfrase|\bsatz\b|\bwort\b|\bпример(?:ы|а|ов|ом)?\b"
    r"|фраз|例えば|例如|예를 들어|detect|erkenn|d[ée]tect|\brilev|обнаруж|检测|検出|пишут|schreiben\b"
)
_LETTER = re.compile(
    r"\b(?:e-?mails?|correos?|courriels?|nachricht|mails?|post[aă]|письм\w*|лист[аи]?)\b|邮件|メール|메일"
)
"""What people ask each other to disregard."""
_SUBJECT_CHARS = 400
_QUOTE_MARKS = "\"'`“”‘’«»„「」『』"


def _foreign(low: str, discussed: float) -> Iterator[Hit]:
    found: list[tuple[str, str, float, int, int]] = []
    twin = low
    low = low.replace("\n\n", "..").replace("\n", " ")  # a sentence may run over lines, not over paragraphs
    for number in range(1 if low.isascii() else 2):
        for (language, _, prior), matches in OVERRIDE_INDEXES[number].found(low, twin):
            match = next(matches, None)
            if match is not None:
                sweeping = prior.search(low[max(0, match.start() - 12) : match.end() + 24]) is not None
                found.append((language, "override", 3.0 if sweeping else 2.0, *match.span()))
        for (language, family, weight, _), matches in PHRASE_INDEXES[number].found(low, twin):
            match = next(matches, None)
            if match is not None:
                found.append((language, family, weight, *match.span()))
    for tongue in sorted(spoken(twin)):  # in the same order in every process
        for language, family, weight, rule in CONSTITUENTS[tongue]:
            match = next(rule.finditer(low), None)
            if match is not None:
                found.append((language, family, weight, *match.span()))
    for language, family, weight, start, end in found:
        if not_in_that_language(low, start, end, family) or (
            family == "override" and _LETTER.search(low[start : end + 24])
        ):
            continue
        lowered = discussed + (1.5 if reported(low, start, end) or _quoted(low, start, end) else 0.0)
        near = low[max(0, start - _SUBJECT_CHARS) : end + _SUBJECT_CHARS]
        lowered += (
            1.5
            if _FOREIGN_SUBJECT.expression.search(near) or _FOREIGN_CITING.search(low[max(0, start - 80) : start])
            else 0.0
        )
        if family == "role" and weight > 1.0 and not speaks_to_the_reader(low, start, end):
            weight = 1.0
        if weight > lowered:
            yield Hit(f"{family}-{language}", family, weight - lowered, start, end)


def _quoted(low: str, start: int, end: int) -> bool:
    before, after = low[max(0, start - 12) : start], low[end : end + 80]
    return start > 12 and any(c in before for c in _QUOTE_MARKS) and any(c in after for c in _QUOTE_MARKS)
