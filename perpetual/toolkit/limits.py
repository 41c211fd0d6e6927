"""Limits on what a caller may have stored: each field by its name, with the limit that it exceeds. Floor 0.

The record is read whole by many commands and travels to agents: what is larger belongs into a file of the project.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from perpetual.errors import UsageError
from perpetual.toolkit.foreign import DEEPEST, check_depth

__all__ = ["LONGEST_COMMAND", "fits", "fits_tags", "fits_text"]

LONGEST_COMMAND = 32_000  # characters; the kernel takes 131,071 bytes of one argument
_MOST_TAGS, _LONGEST_TAG = 64, 100


def fits_text(text: str | None, what: str, most: int) -> None:
    """Raises UsageError for a text of more than `most` characters."""
    if text is not None and len(text) > most:
        raise UsageError(
            f"{what} has {len(text):,} characters, and at most {most:,} are kept",
            hint="put it into a file of the project, and name that file",
        )


def fits(value: object, what: str, most: int) -> None:
    """Raises UsageError for a JSON value of more than `most` bytes, or nested too deeply; other faults are not its own.

    A mapping or a sequence that JSON cannot carry is left to the code that copies it into the record.
    """
    if not value:
        return
    try:
        plain = {str(key): item for key, item in value.items()} if isinstance(value, Mapping) else value
        text = json.dumps(plain, default=str)
        check_depth(text)
    except RecursionError as problem:
        raise UsageError(f"{what} is nested too deeply", hint=f"at most {DEEPEST} levels") from problem
    except ValueError as problem:
        if "nested" not in str(problem):
            return
        raise UsageError(f"{what} is {problem}", hint=f"at most {DEEPEST} levels") from problem
    except TypeError:
        return
    if len(text) > most:
        raise UsageError(
            f"{what} has {len(text):,} bytes as JSON, and at most {most:,} are kept",
            hint="put it into a file of the project, and name that file",
        )


def fits_tags(tags: Sequence[str]) -> None:
    """Raises UsageError for one text in place of a list, for too many tags, or a tag that is too long."""
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise UsageError(f"the tags are a list of texts, not {tags!r:.{_LONGEST_TAG}}", hint="as in ['a', 'b']")
    if len(tags) > _MOST_TAGS:
        raise UsageError(f"{len(tags):,} tags were given, and at most {_MOST_TAGS} are kept", hint="give fewer --tag")
    for tag in tags:
        fits_text(tag, "a tag", _LONGEST_TAG)
