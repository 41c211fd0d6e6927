"""How far an action serves a purpose: judged by the agent's model, or, without one, by the words that they share.

The lexical measure says what it is. It is the share of the action's weighted words that the purpose, its scope, the
criteria of success and the open goals have too; rare words of English weigh more than common ones. It knows nothing of
meaning, so its reasons name the words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from perpetual.documents import TypedDict

if TYPE_CHECKING:
    from perpetual_agents.data import Agent

__all__ = ["Alignment", "Decision", "Judgement", "JUDGEMENT_SCHEMA", "by_words", "decide", "question", "words_of"]

Method = Literal["model", "lexical", "mixed"]  # mixed: a mean of both kinds
_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_MOST_CHARACTERS = 20_000
_SHORTEST = 3
_COMMON = frozenset(_WORD.findall(
    "a an and are as at be by do for from have if in into is it its more must no not of on one only or our should so "
    "some such than that the their them then there these they this those to type use was we what when which will "
    "with you your action data none null true false"
))  # fmt: skip
JUDGEMENT_SCHEMA: dict[str, object] = {
    "type": "object", "additionalProperties": False, "required": ["score", "reasons"],
    "properties": {
        "score": {"type": "number", "minimum": 0, "maximum": 1},
        "reasons": {"type": "array", "items": {"type": "string", "maxLength": 300}, "maxItems": 5},
    },
}  # fmt: skip


class Judgement(TypedDict):
    """What a model says of an action."""

    score: float
    reasons: list[str]


class Alignment(float):
    """A number from 0 to 1, with its reasons and how it was found: by a model, lexical, or as a mean of both."""

    reasons: tuple[str, ...]
    method: Method

    def __new__(cls, score: float, reasons: Sequence[str], method: Method) -> Alignment:
        """Makes one of a score, which is brought into [0, 1]."""
        made = super().__new__(cls, min(1.0, max(0.0, score)))
        made.reasons, made.method = tuple(reasons), method
        return made


class Decision(TypedDict):
    """A choice among options; `decision` is None where none was given, `scores` are in the order of the options."""

    decision: object
    alignment: float
    reasons: list[str]
    method: Method
    scores: list[float]


def words_of(value: object) -> dict[str, str]:
    """Returns the words of a text or of what JSON holds, in their order, by their form without endings."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    found = (word.casefold() for word in _WORD.findall(text[:_MOST_CHARACTERS]))
    kept = [word for word in found if len(word) >= _SHORTEST and word not in _COMMON]
    return {_stem(word): word for word in reversed(kept)}


def _stem(word: str) -> str:
    """Returns a word without a common English ending."""
    for ending in ("ations", "ation", "ingly", "ings", "ing", "ments", "ment", "ies", "ed", "es", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            return word[: -len(ending)]
    return word


def by_words(agent: Agent, action: object) -> Alignment:
    """Returns the share of an action's words that the agent's purpose has; longer words weigh more."""
    purpose = words_of(" ".join((agent.purpose, agent.scope, *agent.criteria, *(
        goal["text"] for goal in agent.goals if goal["status"] in ("open", "in_progress")))))  # fmt: skip
    said = words_of(action)
    if not purpose:
        return Alignment(0.0, ["the agent has no purpose to hold the action against"], "lexical")
    if not said:
        return Alignment(0.0, ["the action has no words to compare"], "lexical")
    shared = [word for word in said if word in purpose][::-1]
    score = sum(map(_weight, shared)) / sum(map(_weight, said))
    named = ", ".join(said[word] for word in shared[:8]) or "none"
    count = f"{len(shared)} of the action's {len(said)} words"
    reasons = [f"{count} are words of the purpose: {named}; longer words weigh more",
               "this compares words and not meaning; a model judges better"]  # fmt: skip
    return Alignment(score, reasons, "lexical")


def _weight(word: str) -> float:
    return float(min(len(word), 10))


def question(action: object) -> str:
    """Returns what a model is asked about an action."""
    shown = action if isinstance(action, str) else json.dumps(action, ensure_ascii=False, default=str)
    return (
        "How far does this action serve your purpose? Answer with a JSON object: score, from 0 (against it or "
        "unrelated) to 1 (it serves it directly), and reasons, at most five short ones.\n\n"
        f"The action:\n{shown[:_MOST_CHARACTERS]}"
    )


def decide(options: Sequence[object], scores: Sequence[Alignment]) -> Decision:
    """Returns the option of the highest score, the first of equals; without one that is above 0, none."""
    if not options:
        return {"decision": None, "alignment": 0.0, "reasons": ["no options were given"], "method": "lexical",
                "scores": []}  # fmt: skip
    best = max(range(len(options)), key=lambda place: (scores[place], -place))
    chosen = scores[best]
    ties = sum(score == chosen for score in scores)
    reasons = [*chosen.reasons]
    if chosen > 0 and ties > 1:
        reasons.append(f"{ties} options have this score; the first of them is taken")
    if not chosen > 0:
        reasons.append("no option serves the purpose by this measure, so none is taken")
    return {"decision": options[best] if chosen > 0 else None, "alignment": float(chosen), "reasons": reasons,
            "method": chosen.method, "scores": [float(score) for score in scores]}  # fmt: skip


def options_of(context: object) -> list[object]:
    """Returns the options that a context for a decision names: a list, or the key `options` or `alternatives`.

    A context that names none, such as a text, is itself the one option.
    """
    if isinstance(context, Mapping):
        for name in ("options", "alternatives", "actions"):
            found = context.get(name)
            if isinstance(found, Sequence) and not isinstance(found, str):
                return [*found]
        return [context] if context else []
    if isinstance(context, Sequence) and not isinstance(context, str):
        return [*context]
    return [context] if context else []
