"""A path as a person names it. Floor 0, used by every face."""

from __future__ import annotations

from pathlib import Path

from perpetual.errors import UsageError

__all__ = ["named_path"]


def named_path(named: str | Path) -> Path:
    """Returns the absolute path, with a `~` in front as the home of its user.

    Raises:
        UsageError: for a user without a home here, and for what no file system could hold.
    """
    if "\0" in str(named):
        raise UsageError(f"{str(named)!r} is no path: it holds a NUL character")
    try:
        return Path(named).expanduser().absolute()
    except TypeError as problem:
        raise UsageError(f"{named!r} is no path", hint="a text, or a Path") from problem
    except RuntimeError as problem:
        user = str(named).partition("/")[0]
        raise UsageError(f"there is no user {user!r} here", hint=f"for a file of that name: ./{user}") from problem
