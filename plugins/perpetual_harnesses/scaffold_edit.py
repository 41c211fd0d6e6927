"""The texts of scaffolded files: what plans put into one, and what is taken out again.

Used by the scaffolder. Pure: a text comes in, a text goes out, and ValueError (`line N: ...`) says why it
cannot be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perpetual.api import FilePlan
from perpetual_harnesses import jsonedit, managed_blocks, tomledit
from perpetual_harnesses.scaffold_record import Entry

__all__ = ["Asked", "alike", "applied", "is_bare", "kind", "persons", "undone"]

Asked = list[tuple[str, FilePlan]]  # plans with the harness that asks for each
# What earlier versions wrote under these keys of an entry.
_EARLIER: dict[str, tuple[object, ...]] = {
    "alwaysLoad": (True,),
    "default_tools_approval_mode": ("approve",),
    "enabled": (True,),
    "env_vars": (
        ["PERPETUAL_PROJECT"],
        ["PERPETUAL_PROJECT", "PERPETUAL_STATE_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"],
    ),
    "required": (True,),
    "startup_timeout_sec": (30,),
    "timeout": (30000, 600000),
    "tool_timeout_sec": (120,),
    "trust": (True,),
    "type": ("stdio", "local"),
}
_MARK = "\ufeff"  # some editors begin a UTF-8 file with it; it stays, and nothing below sees it


def kind(plan: FilePlan) -> str:
    """Returns what the file is to its plan; plans of two kinds cannot share one."""
    return "json" if plan.how == "json_items" else plan.how


def alike(plans: Asked) -> list[FilePlan]:
    """Returns the plans without their askers; equal ones are listed once."""
    found: list[FilePlan] = []
    for _, plan in plans:
        if plan not in found:
            found.append(plan)
    return found


def persons(text: str, plans: Sequence[FilePlan], entry: Entry | None) -> list[FilePlan]:
    """Returns those plans whose place holds an entry that a person wrote or edited.

    Perpetual's own are what the record says that it wrote, and what any version of it writes for a harness.
    """
    text = text.removeprefix(_MARK)
    found = []
    for plan in plans:
        if plan.how not in ("json", "toml") or plan.keys[-1] != "perpetual":
            continue
        if plan.how == "toml":
            value = tomledit.lookup(text, plan.keys)
        else:
            value = jsonedit.lookup(text, plan.keys, comments=plan.comments)
        recorded = [] if entry is None else [each for _, each in entry.plans if _place(each) == _place(plan)]
        ours = [plan.value, *(each.value for each in recorded)]
        if value and not any(jsonedit.same(value[0], one) for one in ours) and not _is_generated(value[0], plan.value):
            found.append(plan)
    return found


def _place(plan: FilePlan) -> tuple[str, tuple[str, ...]]:
    return plan.how, plan.keys


def _is_generated(value: object, wanted: object) -> bool:
    """Returns whether a version of Perpetual wrote this entry, for whatever place of its program."""
    if not isinstance(value, Mapping) or not isinstance(wanted, Mapping):
        return False
    for key in value.keys() - {"command", "args"}:
        known = [wanted[key]] if key in wanted else []
        if not any(jsonedit.same(value[key], one) for one in (*known, *_EARLIER.get(key, ()))):
            return False
    words = _words(value)
    if words is None or not words:
        return False
    name = re.split(r"[/\\]", words[0])[-1]
    if re.fullmatch(r"perpetual(\.exe)?", name):
        tail = words[1:]
    elif re.fullmatch(r"python[0-9.]*(\.exe)?", name) and words[1:3] == ["-m", "perpetual"]:
        tail = words[3:]
    else:
        return False
    ours = _words(wanted) or []
    return tail == ["mcp"] or (tail[:1] == ["mcp"] and "mcp" in ours and tail == ours[ours.index("mcp") :])


def _words(entry: Mapping[str, object]) -> list[str] | None:
    """Returns the command line of an entry, None where it has none."""
    command, more = entry.get("command"), entry.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(more, list):
        return None
    words = [*words, *more]
    return words if all(isinstance(word, str) for word in words) else None


def _start(plan: FilePlan) -> str:
    """Returns what a file of this plan holds before anything is put there."""
    return "" if plan.how == "block" else plan.text or ("{}\n" if kind(plan) == "json" else "")


def is_bare(text: str, plans: Sequence[FilePlan]) -> bool:
    """Returns whether a file that these plans made holds nothing any more."""
    plain = "".join(text.removeprefix(_MARK).split())  # a reformatted file is still empty
    return plain in {"", "{}", *("".join(_start(plan).split()) for plan in plans)}


def applied(path: str, text: str | None, plans: Sequence[FilePlan]) -> str:
    """Returns the text with what the plans ask for; None means a file that is not there."""
    if text is not None and text.startswith(_MARK):
        return _MARK + applied(path, text.removeprefix(_MARK), plans)
    for plan in plans:
        text = _start(plan) if text is None else text
        if kind(plan) == "json" and not text.strip():
            raise ValueError("line 1: the file is empty, and so no JSON; delete it, and it is made anew")
        if plan.how == "block":
            if not managed_blocks.says_already(path, text, plan.text):
                text = managed_blocks.put_block(path, text, plan.text)
        elif plan.how == "toml":
            text = tomledit.put(text, plan.keys, plan.value)
        elif plan.how == "json":
            text = jsonedit.put(text, plan.keys, plan.value, comments=plan.comments)
        else:
            text = jsonedit.add_items(text, plan.keys, plan.value, comments=plan.comments)
    return text or ""


def undone(path: str, text: str, gone: Sequence[FilePlan], new: Sequence[FilePlan], entry: Entry | None) -> str:
    """Returns the text without what the plans `gone` put there, unless a plan of `new` sets the same place anyway."""
    if text.startswith(_MARK):
        return _MARK + undone(path, text.removeprefix(_MARK), gone, new, entry)
    for plan in reversed(gone):
        if plan.how == "block":
            if not new:
                text = managed_blocks.take_block(path, text)
            continue
        others = [other for other in new if other.how == plan.how and other.keys == plan.keys]
        text = _taken(text, plan, others, entry)
    return text


def _taken(text: str, plan: FilePlan, others: Sequence[FilePlan], entry: Entry | None) -> str:
    """Returns the text without one plan's value; the value before ours comes back."""
    known = entry is not None and entry.is_known
    original = _start(plan)
    if entry is not None and entry.original is not None:
        original = entry.original.decode("utf-8").removeprefix(_MARK)
    # Objects that were there before us stay even if they are empty now; without a record that is all of them.
    if plan.how == "toml":
        floor = tomledit.depth(original, plan.keys) if known else len(plan.keys) - 1
        before = tomledit.lookup(original, plan.keys)
        if others:
            return text
        if not before:
            return tomledit.drop(text, plan.keys, floor=floor)
        table = before[0]
        if not isinstance(table, Mapping):
            raise ValueError(f"{'.'.join(plan.keys)} was no table before")
        return tomledit.put(text, plan.keys, table)
    comments = plan.comments
    floor = jsonedit.depth(original, plan.keys, comments=comments) if known else len(plan.keys) - 1
    before = jsonedit.lookup(original, plan.keys, comments=comments)
    if plan.how == "json_items":
        stay = [item for other in others for item in other.value]
        stay += before[0] if before and isinstance(before[0], list) else []
        items = [item for item in plan.value if not any(jsonedit.same(item, other) for other in stay)]
        return jsonedit.drop_items(text, plan.keys, items, floor=floor, comments=comments)
    if others:
        return text
    if before:
        return jsonedit.put(text, plan.keys, before[0], comments=comments)
    return jsonedit.drop(text, plan.keys, floor=floor, comments=comments)
