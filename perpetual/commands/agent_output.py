"""Output of a command for an agent: text inside a fence, JSON with its foreign values listed.

`perpetual.cli.app` puts this around every command under an agent's shell, so that a new command is fenced without
knowing of it. A person's output is not touched. Commands that word everything themselves are named in the table.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import TextIO

from perpetual.toolkit.agents import mark
from perpetual.toolkit.confined import is_inside, look
from perpetual.toolkit.fence import Stream, fence

__all__ = ["FencedOutput", "fenced", "for_agent", "sealed"]

_MOST_HELD = 1024 * 1024  # characters; a longer text is streamed
_MOST_WAIT_S = 2.0  # between the first words and the last; a slower command is streamed


def for_agent(project: str | None) -> bool:
    """Returns whether an agent reads what this process writes, by the variables of its shell.

    See `perpetual.toolkit.agents`.

    A configuration that cannot be read names no variables; the command itself says what is wrong with it.
    """
    if mark(os.environ) is not None:
        return True
    from perpetual.config import FILE, MARKS, Config, find_project, user_file, user_marks
    from perpetual.errors import NoProject, PerpetualError
    from perpetual.toolkit import cache_files

    found = cache_files.folder(project)
    places = [os.fspath(user_file()), *([os.path.join(found, FILE)] if found else [])]
    if not any(_names(place, MARKS) for place in places):
        return False  # as nearly always, and no configuration needs to be understood for it
    marks: list[str] = []
    with contextlib.suppress(PerpetualError, OSError):
        try:
            marks = Config(find_project(explicit=project))[MARKS]
        except NoProject:
            marks = user_marks()
    return mark(os.environ, marks) is not None


def _names(path: str, key: str) -> bool:
    """Returns whether a configuration file has the key's name in it."""
    try:
        if not os.path.isfile(path) or (is_inside(path) and look(path) is None):
            return False
        with open(path, "rb") as file:
            return key.encode() in file.read(_MOST_HELD)
    except OSError:
        return False


def sealed(document: str) -> str:
    """Returns the JSON document with its foreign values neutralised and listed."""
    from perpetual.toolkit.untrusted import seal

    found = json.loads(document)
    return json.dumps(seal(found), ensure_ascii=False) if isinstance(found, dict) else document


class FencedOutput(io.TextIOBase):
    """Standard output as commands see it: their text is held, and written inside one fence at the end.

    Text that goes on for long (a followed log) is streamed inside a fence from then on.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._held = ""
        self._since_s: float | None = None
        self._stream: Stream | None = None

    encoding = "utf-8"
    errors = "strict"

    def writable(self) -> bool:
        """Returns always."""
        return True

    def isatty(self) -> bool:
        """Returns never: what draws on a screen would be drawn as text."""
        return False

    def fileno(self) -> int:
        """Returns the real one's."""
        return self._out.fileno()

    def write(self, text: str) -> int:
        """Holds the text, or streams it."""
        if not isinstance(text, str):
            raise TypeError(f"text is written here, not {type(text).__name__}")
        if self._stream is not None:
            self._stream.put(text)
            return len(text)
        self._held += text
        now_s = time.monotonic()
        self._since_s = self._since_s or now_s
        if len(self._held) > _MOST_HELD or now_s - self._since_s > _MOST_WAIT_S:
            self.follow()
        return len(text)

    def flush(self) -> None:
        """Passes on what was streamed."""
        self._out.flush()

    def follow(self) -> None:
        """Streams from now on: the command goes on until it is interrupted."""
        if self._stream is None:
            self._stream = Stream(self._out.write)
            held, self._held = self._held, ""
            self._stream.put(held)
            self._out.flush()

    def own(self, text: str) -> None:
        """Writes the lab's own words outside of the fence, after what was held."""
        self.finish()
        self._out.write(text)
        self._out.flush()

    def finish(self) -> None:
        """Writes what was held inside its fence, or ends the stream."""
        held, self._held, self._since_s = self._held, "", None
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        shown = fence(held)
        if shown:
            self._out.write(shown + "\n")
        self._out.flush()


@contextlib.contextmanager
def fenced() -> Iterator[None]:
    """Fences standard output until the block ends."""
    before = sys.stdout
    shown = FencedOutput(before)
    sys.stdout = shown
    try:
        yield
    finally:
        sys.stdout = before
        shown.finish()
