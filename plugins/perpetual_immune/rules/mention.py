"""Mention and use: whether words that match a rule are cited, told of or explained, not said.  Imported by `injection`.

An order in a quotation that is introduced as one, an act of somebody else in the past, the purpose of a documented
switch and a mark between turns in a text on templates are evidence of a subject, not of an attack.
"""

# ruff: noqa: E501 - word lists and patterns are only readable whole

from __future__ import annotations

import re

from perpetual_immune.rules.hit import reported

MARKUP = frozenset(
    {
        "forged-role-tag",
        "forged-inst",
        "forged-delimiter",
        "forged-close-tag",
        "forged-turn",
        "forged-bracket",
        "header-turn",
    }
)
"""Rules of marks between turns, of which documentation of templates also speaks."""
_TEMPLATES = re.compile(
    r"\b(?:templates?|chat ?templates?|chatml|prompt (?:format|template)s?|special tokens?|added tokens?|tokeni[sz]\w*|(?:role|turn) (?:markers?|tags?)|[be]os\b"
    r"|apply_chat_template|stop (?:tokens?|strings?|sequences?)|end.of.turn|fine-?tun\w+|wraps? (?:the|each|every)|delimiters?|loss mask\w*|jinja)"
)
_SLOT = re.compile(r"\s{0,2}(?:\{[\w{%]|\$\{|<(?:prompt|user|your|message|text)|\.\.\.|…)")
_WORD_BEFORE = re.compile(
    r"\b(?:in|and|between|with|of|by|uses?|the|an?|or|after|before|from|than|is|are|as|to|for|like|tokens?|tags?|markers?|called|via)\s[`\"']?$"
)
_PURPOSE = re.compile(
    r"(?:^|[.!?;:\n(]\s{0,2}|\b(?:how|want|wish|wishes|option|flag|needed|used|ways?|if you need|able|allows? \w{1,12}) )to $"
)
_TOLD = re.compile(
    r"\b(?:learn(?:s|ed|t)?|tend(?:s|ed)?|prefer(?:s|red)?|start(?:s|ed)|began|begins|came|seems?|seemed|appear(?:s|ed)?|manag(?:es|ed)|happen(?:s|ed)) to\b"
    r"|\b(?:we|i|they|he|she|authors?|reviewers?|team|teams|models?|polic(?:y|ies)|agents?|assistants?|checkpoints?|users?|players?|customers?|students?|testers?|annotators?|someone|pages?|documents?|sites?|emails?)"
    r" (?:\w{1,12}ly |then |also |had |have |has |was |were |would |could |had been ){0,2}(?:(?!need|proceed|exceed|speed|feed|embed|indeed)\w{2,14}ed|found|saw|wrote|sent|read|put|hid|took|gave|told|made|kept|ran|went|did|got|began|let|knew|built|meant|showed?|being)\b"
    r"|\b(?:told|asked|instruct(?:ed|s|ing)|trick(?:ed|s|ing)|convinc(?:ed|es|ing)|caus(?:ed|es|ing)|led|persuad(?:ed|es|ing)|tells|steers?|gets) (?:the|an?|our|their|its|all|one|it|them)\b"
    r"|\b(?:we|they|he|she|authors)\s(?:\w{1,12}ly )?$"
    r"|\bthat (?:the|an?) (?:model|agent|assistant|llm|reader)s? |\bet al\b|\bwe (?:show|study|present|find|propose|measure|train|describe|survey|report|evaluate|call|mean|define)\b"
    r"|\b(?:hijack\w*|leaking|poison\w*|phishing|threat model|post-?mortem|spoof\w*|hallucinat\w+)\b"
)
"""What the words before a match say of somebody else's deeds, in the past or as a habit."""
_WORKERS = re.compile(r"\b(?:annotators?|annotation guidelines|raters?|labell?ers?|crowd ?workers?|participants?)\b")
"""People whom studies instruct."""
CITING = re.compile(
    r"\b(?:phrases?|strings?|sentences?|payloads?|prompts?|lines?|words?|texts?|titles?|titled|called|named|such as|like|e\.g|for (?:example|instance)|ones?|requests?|instructions?|claims?|lessons?|messages?|commands?|queries"
    r"|said|says|saying|reads?|reading|wrote|asked|asking|contain(?:s|ed|ing)?|included|including|variants?|play|injections?|attacks?|examples?|input|variations?|comments?|orders?|leaking with|hijacking with|satz|sätze|phrase|frase|фраз\w|строк\w)[\s:,(]{0,3}$|\s\($"
)
_OPENING = "\"“„«「‘'`"
_CITING_MARK = re.compile(f"[{_OPENING}]")
_CLOSING = {"“": '”“"', "„": '“”"', "«": "»", "「": "」", "‘": "’'", '"': '"', "'": "'", "`": "`"}
_QUOTATION_CHARS = 200


def mentioned(low: str, start: int, end: int) -> float:
    """Returns by how much the match at `[start, end)` weighs less for being cited, told of or explained, not said."""
    if cited(low, start, end):
        return 2.5
    if reported(low, start, end) or _PURPOSE.search(low[max(0, start - 24) : start]):
        return 1.5
    before = low[max(0, start - 120) : start]
    sentence = before[max(before.rfind(mark) for mark in ".!?\n;:") + 1 :]
    return 1.5 if _TOLD.search(sentence) or _WORKERS.search(low[max(0, start - 60) : end + 20]) else 0.0


def cited(low: str, start: int, end: int) -> bool:
    """Returns whether the match lies in a quotation that is introduced as one: a phrase, a string, such as, said."""
    before = low[max(0, start - _QUOTATION_CHARS) : start + 1]
    if _CITING_MARK.search(before) is None:
        return False
    for mark in _OPENING:
        opening = before.rfind(mark)
        while opening >= 0 and mark == "'" and opening and before[opening - 1].isalnum():  # an apostrophe
            opening = before.rfind(mark, 0, opening)
        if opening < 0 or "\n\n" in before[opening:]:
            continue
        inside = before[opening + 1 :]
        closing = _CLOSING[mark]
        if any(char in inside for char in closing if char != "'"):
            continue
        after = low[end - 1 : end + _QUOTATION_CHARS]
        if any(char in after for char in closing) and CITING.search(before[max(0, opening - 40) : opening]):
            return True
    return False


def as_markup(low: str, start: int, end: int) -> bool:
    """Returns whether marks between turns are described: within a sentence, around a slot, in a text on templates."""
    return (
        _TEMPLATES.search(low[max(0, start - 1_000) : end + 1_000]) is not None
        or _SLOT.match(low, end) is not None
        or _WORD_BEFORE.search(low[max(0, start - 12) : start]) is not None
    )
