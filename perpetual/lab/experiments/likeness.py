"""Differences between an experiment and the nearest approved one: the words, variables and settings that differ.

After one command of a campaign, a person reads only the changes in the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from posixpath import basename
from typing import TYPE_CHECKING, Any

from perpetual.errors import PluginError
from perpetual.lab.context import Context
from perpetual.lab.kinds import EXPERIMENT, ExperimentRow
from perpetual.lab.ledger.experiments import words_of
from perpetual.lab.provenance.captures import Codes
from perpetual.slots.capture import CodeState

if TYPE_CHECKING:
    from perpetual.documents.ledger import Differences, Differing
    from perpetual.lab.bodies import ExperimentBody, ResourcesBody

__all__ = ["differences"]

_LOOKED_AT = 200  # experiments, the newest first
_MOST_WORDS = 400  # of a command that is compared word by word
_INTERPRETERS = ("python", "bash", "sh", "node", "julia", "Rscript", "ruby", "perl", "uv", "torchrun", "accelerate")
_ABSENT = None
_COMMIT = 7  # characters of a commit or hash


def differences(ctx: Context, id: str) -> Differences | None:
    """Returns how an experiment differs from the nearest approved one, as `Experiments.differences` says."""
    document = ctx.need(EXPERIMENT, id)
    found = _nearest(ctx, document)
    if found is None:
        return None
    was, now = map(ctx.redaction.shown_specification, (found.body, document.body))
    return {
        "id": found.id,
        "command": _words(_split(was), _split(now)),
        "cwd": None if was["cwd"] == now["cwd"] else {"was": was["cwd"], "now": now["cwd"]},
        "env": _names(was["env"], now["env"]),
        "config": _names(_flat(was["config"]), _flat(now["config"])),
        "resources": _names(_asked_for(was["resources"]), _asked_for(now["resources"])),
        "code": _code(ctx, found.body, document.body),
    }


def _code(ctx: Context, was: ExperimentBody, now: ExperimentBody) -> Differing | None:
    """Returns the commits of two approvals whose code differs; None where it is the same, or where one is not known."""
    before, after = CodeState.of(was.get("approved_code")), CodeState.of(now.get("approved_code"))
    if before is None or after is None:
        return None
    try:
        if Codes(ctx, ctx.config.root).same(before, after) is not False:
            return None
    except PluginError:
        return None  # what has read them is gone
    return {"was": _commit(before), "now": _commit(after)}


def _commit(state: CodeState) -> str:
    """Returns the commit of a state, or the start of its hash."""
    if state.commit is None:
        return str(state.sha256)[:_COMMIT]
    return state.commit[:_COMMIT] + (" with changes" if state.dirty else "")


def _nearest(ctx: Context, document: ExperimentRow) -> ExperimentRow | None:
    """Returns the earlier approved experiment with the fewest differences; of equals the newest."""
    body = document.body
    words, program = _split(body), _program(_split(body))
    best: tuple[float, ExperimentRow] | None = None
    for other in ctx.store.page(EXPERIMENT, limit=_LOOKED_AT, newest_first=True).items:
        if other.number >= document.number or not ctx.trust.counts(other.id, other.body):
            continue  # what was approved elsewhere is nothing that a person here has looked at
        is_sister = body["hypothesis_id"] is not None and other.body["hypothesis_id"] == body["hypothesis_id"]
        theirs = _split(other.body)
        is_same_program = program is not None and _program(theirs) == program
        if not (is_sister or is_same_program):
            continue
        distance = len({*words} ^ {*theirs}) + len(_names(other.body["env"], body["env"]))
        distance += len(_names(other.body["config"], body["config"]))
        rank = (0 if is_same_program else 10_000) + distance
        if best is None or rank < best[0]:
            best = rank, other
    return best[1] if best else None


def _split(body: Mapping[str, Any]) -> list[str]:
    words = words_of(body["command"])
    return words if isinstance(words, list) else [words] if words else []


def _program(words: Sequence[str]) -> str | None:
    """Returns what a command runs: its first word, or the first argument of an interpreter that is no option."""
    if not words:
        return None
    if not basename(words[0]).startswith(_INTERPRETERS):
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-")), words[0])


def _words(was: Sequence[str], now: Sequence[str]) -> list[Differing]:
    if max(len(was), len(now)) > _MOST_WORDS:
        return [] if was == now else [{"was": " ".join(was), "now": " ".join(now)}]
    steps = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    return [
        {"was": " ".join(was[a:b]) or _ABSENT, "now": " ".join(now[c:d]) or _ABSENT}
        for tag, a, b, c, d in steps
        if tag != "equal"
    ]


def _names(was: Mapping[str, object], now: Mapping[str, object]) -> dict[str, Differing]:
    return {
        name: {"was": was.get(name), "now": now.get(name)}
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
    }


def _asked_for(resources: ResourcesBody) -> dict[str, object]:
    """Returns the resources and engine options that an experiment declares, by dotted names."""
    return _flat({name: value for name, value in resources.items() if value != {} and value is not False})


def _flat(config: Mapping[str, object], before: str = "") -> dict[str, object]:
    """Returns a configuration with the settings of its sections by dotted names."""
    found: dict[str, object] = {}
    for name, value in config.items():
        if isinstance(value, dict) and value:
            found |= _flat(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found
