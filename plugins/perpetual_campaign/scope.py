"""What a candidate may change: its difference, held against the campaign before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple

from perpetual.api import Refused, UsageError, line
from perpetual.toolkit.units import shown_bytes
from perpetual_campaign.repository import Changed

__all__ = ["ALWAYS", "Scope", "check", "checked_patterns", "covers", "is_protected"]

ALWAYS = (".git", ".gitmodules", ".gitattributes", ".perpetual")  # a change of these changes what git or the lab does
# What instructs or starts programs of a person that opens the branch: only an --edit without a wildcard means it.
_NAMED_ALONE = (".claude", ".codex", ".cursor", ".opencode", ".gemini", ".github", ".vscode", ".mcp.json", ".envrc",
                ".gitignore", "claude.md", "agents.md", "gemini.md", "opencode.json")  # fmt: skip
_LONGEST_NAME_BYTES = 255  # of a file system's names
_MOST_PATTERNS = 50
_LONGEST_PATTERN = 200
_NAMED = 5


class Scope(NamedTuple):
    """What a candidate may change, in paths from the project's folder."""

    edit: Sequence[str]
    protect: Sequence[str]
    files: int
    size_bytes: int


def checked_patterns(patterns: Sequence[str], option: str) -> list[str]:
    """Returns the patterns in one form.

    Raises:
        UsageError: for one that leads out of the project, or that means nothing.
    """
    found = []
    for pattern in patterns:
        text = pattern.strip().removeprefix("./").rstrip("/")
        if not text or text.startswith(("/", "~")) or ".." in text.split("/") or not text.isprintable():
            raise UsageError(f"{option} takes a path in the project, not {line(pattern)!r}", hint=f"{option} 'src/**'")
        if len(text) > _LONGEST_PATTERN:
            raise UsageError(f"{option} takes at most {_LONGEST_PATTERN} characters", hint=f"{option} 'src/**'")
        found.append(text)
    if len(found) > _MOST_PATTERNS:
        raise UsageError(f"{option} may be given {_MOST_PATTERNS} times", hint=f"{option} 'src/**' means a folder")
    return [*dict.fromkeys(found)]


def covers(pattern: str, path: str) -> bool:
    """Returns whether a pattern means a path or a folder above it; `**` is any folders, `*` no slash."""
    return _covers(tuple(pattern.split("/")), tuple(path.split("/")))


def _covers(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    places = {0}
    for part in path:
        further: set[int] = set()
        for start in places:
            place = start
            while place < len(pattern) and pattern[place] == "**":
                further.add(place)
                place += 1
            if place == len(pattern):
                return True  # it ends in **
            if _part(pattern[place]).match(part):
                further.add(place + 1)
                if place + 1 == len(pattern):
                    return True  # the path, or a folder above it
        places = further
    return False


@lru_cache(maxsize=1000)
def _part(pattern: str) -> re.Pattern[str]:
    return re.compile(translate(pattern))


def is_protected(path: str, patterns: Sequence[str]) -> bool:
    """Returns whether a path may not be changed in any case."""
    parts = path.split("/")
    if any(part.lower() in ALWAYS for part in parts):
        return True
    return any(covers(one, path) or ("/" not in one and any(_part(one).match(part) for part in parts))
               for one in patterns)  # fmt: skip


def check(changes: Sequence[Changed], scope: Scope, below: str) -> list[str]:
    """Returns the files of a difference, from the project's folder, if it keeps to the scope.

    Args:
        changes: what differs from the best, in paths from the top of the repository.
        scope: of the campaign.
        below: the project's folder, from the top.

    Raises:
        Refused: with the reason, where it does not. Its code is no_change, submodule, link, outside, protected,
            out_of_scope or too_large.
    """
    if not changes:
        raise Refused("nothing differs from the best", hint="edit, then submit again", code="no_change")
    found = {code: [one.path for one in changes if one.mode == mode]
             for code, mode in (("submodule", "160000"), ("link", "120000"))}  # fmt: skip
    for code, word in (("submodule", "a repository of its own"), ("link", "a link")):
        if found[code]:
            raise Refused(f"{_named(found[code])}: a candidate brings no {word.removeprefix('a ')}",
                          hint="put the files themselves there", code=code)  # fmt: skip
    prefix = f"{below}/" if below else ""
    odd = [one.path for one in changes if not one.path.startswith(prefix) or ".." in one.path.split("/")
           or one.path.startswith("/") or not one.path.isprintable()]  # fmt: skip
    if odd:
        raise Refused(f"outside of the project's folder: {_named(odd)}", hint="take that back", code="outside")
    paths = [one.path.removeprefix(prefix) for one in changes]
    guarded = [path for path in paths if is_protected(path, scope.protect)]
    if guarded:
        raise Refused(f"protected: {_named(guarded)}", hint="what measures a candidate is not its to change; take that "
                      "back", code="protected")  # fmt: skip
    if long := [path for path in paths if any(len(os.fsencode(one)) > _LONGEST_NAME_BYTES for one in path.split("/"))]:
        raise Refused(f"a name of more than {_LONGEST_NAME_BYTES} bytes: {_named(long)[:200]}", hint="shorten it",
                      code="outside")  # fmt: skip
    plain = [pattern for pattern in scope.edit if not any(one in pattern for one in "*?[")]
    if armed := [path for path in paths if _is_named_alone(path) and not any(_is_below(path, one) for one in plain)]:
        raise Refused(f"protected unless the campaign's --edit names it: {_named(armed)}", code="protected",
                      hint="it instructs or starts programs of those that open the branch; take that back")  # fmt: skip
    strange = [path for path in paths if not any(covers(pattern, path) for pattern in scope.edit)]
    if strange:
        raise Refused(f"out of scope: {_named(strange)}", hint=f"a candidate may change {', '.join(scope.edit)}",
                      code="out_of_scope")  # fmt: skip
    size = sum(one.size or 0 for one in changes)
    if len(paths) > scope.files or size > scope.size_bytes:
        most = f"{scope.files} and {shown_bytes(scope.size_bytes)}"
        raise Refused(
            f"{len(paths)} files with {shown_bytes(size)}, of at most {most}",
            hint="one idea a candidate; the limits are plugins.campaign.max_files and max_bytes", code="too_large",
        )  # fmt: skip
    return paths


def _is_named_alone(path: str) -> bool:
    return any(part.lower() in _NAMED_ALONE for part in path.split("/"))


def _is_below(path: str, pattern: str) -> bool:
    """Returns whether a pattern without a wildcard names a path, or such a folder above it."""
    return _is_named_alone(pattern) and (path == pattern or path.startswith(f"{pattern}/"))


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(line(path) for path in paths[:_NAMED]) + more
