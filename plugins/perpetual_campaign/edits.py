"""An edit as a thinker answers it: text that is checked against the campaign and becomes a tree of git, or nothing.

Nothing of it runs here, no file is written, and each reason to refuse has its code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from perpetual.api import Refused, line
from perpetual_campaign.objects import changes, tree_by_diff, tree_with
from perpetual_campaign.scope import check, is_protected

if TYPE_CHECKING:
    from perpetual.api import Record
    from perpetual_campaign.campaigns import Campaigns

__all__ = ["MOST_EDITED", "SCHEMA", "Edit", "tree_of"]

MOST_EDITED = 20  # files
_MOST_TEXT = 60_000  # characters of a file or a diff; a reply has 64 kB
_LONGEST_PATH = 300
_BINARY = ("GIT binary patch", "Binary files ")

SCHEMA: dict[str, object] = {
    "type": "object",
    "required": ["claim"],
    "properties": {
        "claim": {"type": "string", "minLength": 1, "maxLength": 200,
                  "description": "What the edit does, in a line, and why it should help."},
        "files": {
            "type": "array",
            "maxItems": MOST_EDITED,
            "description": "Files with their whole new text. Either these or a diff.",
            "items": {
                "type": "object",
                "required": ["path", "text"],
                "properties": {
                    "path": {"type": "string", "minLength": 1, "maxLength": _LONGEST_PATH},
                    "text": {"type": "string", "maxLength": _MOST_TEXT},
                },
            },
        },
        "diff": {"type": "string", "minLength": 1, "maxLength": _MOST_TEXT,
                 "description": "A unified diff, with paths as a/PATH and b/PATH."},
    },
}  # fmt: skip

Edit = Mapping[str, object]


def tree_of(campaigns: Campaigns, campaign: Record, base: str, edit: Edit, shown: set[str]) -> tuple[str, list[str]]:
    """Returns the tree of an edit on a commit, and the files that it changes.

    Args:
        campaigns: of the lab.
        campaign: whose scope holds.
        base: the commit that the thinker was shown.
        edit: an answer of the schema.
        shown: the files that the thinker has seen; what it has not seen it does not overwrite.

    Raises:
        Refused: whose code is form, binary, outside, not_shown, not_applied, or one of `scope.check`.
    """
    if not str(edit["claim"]).strip():
        raise Refused("an edit says in its claim what it does", hint="a line", code="form")
    files, diff = cast("list[Mapping[str, str]]", edit.get("files") or []), edit.get("diff")
    if bool(files) == bool(diff):
        raise Refused("an edit has either files or a diff", hint="give one of both", code="form")
    if files:
        tree = tree_with(campaigns.git, base, _contents(campaigns, campaign, base, files, shown))
    else:
        tree = _by_diff(campaigns, base, str(diff))
    found = check(changes(campaigns.git, base, tree), campaigns.scope(campaign), campaigns.git.below)
    return tree, found


def _contents(
    campaigns: Campaigns, campaign: Record, base: str, files: list[Mapping[str, str]], shown: set[str]
) -> dict[str, bytes]:
    """Returns the contents by their paths from the top of the repository."""
    below, protect = campaigns.git.below, campaigns.scope(campaign).protect
    prefix = f"{below}/" if below else ""
    known = campaigns.paths(base)
    found: dict[str, bytes] = {}
    for one in files:
        path = one["path"]
        parts = path.split("/")
        if not path.isprintable() or "\\" in path or {"", ".", ".."} & {*parts}:
            raise Refused(f"outside of the project's folder: {line(path)}", code="outside",
                          hint="a path from the project's folder, without dots")  # fmt: skip
        if is_protected(path, protect):
            raise Refused(f"protected: {line(path)}", code="protected",
                          hint="what measures a candidate is not its to change; leave it out")  # fmt: skip
        if prefix + path in found:
            raise Refused(f"{line(path)} is there twice", hint="one text a file", code="form")
        if prefix + path in known and path not in shown:
            raise Refused(f"{line(path)} was not shown, and would be overwritten", code="not_shown",
                          hint="edit the files whose text was given, or make a new one")  # fmt: skip
        found[prefix + path] = _encoded(one["text"])
    return found


def _by_diff(campaigns: Campaigns, base: str, diff: str) -> str:
    _encoded(diff)
    if any(one.startswith(_BINARY) for one in diff.splitlines()):
        raise Refused("a diff holds texts alone", hint="leave binary files out", code="binary")
    tree = tree_by_diff(campaigns.git, base, diff)
    if tree is None:
        raise Refused("the diff does not apply to the best", code="not_applied",
                      hint="keep its context lines as they are in the file, or give the files whole")  # fmt: skip
    return tree


def _encoded(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = b"\0"
    if b"\0" in data:
        raise Refused("an edit holds texts alone", hint="leave binary content out", code="binary")
    return data
