"""The redactor slot: finds secrets in texts, command lines, settings and JSON values. One serves in a lab.

The contract
------------
*Where it is asked.* All that people, runs and plugins give passes the redactor before it is recorded, and logs and
older records pass it before they are shown. A missing or failing redactor ends the command.

*Find.* `find` answers the spans of the secrets in a text, in order, apart from each other and inside the text. A text
without secrets has none, and neither has `MASK`: what was redacted stays as it is. Nothing of a secret is outside of
its span. `words` is given a command's words, where an option says of the next word what it is, and answers as many.

*Names.* `is_secret_name` judges the name of a variable, option or key alone, `is_secret` a name with its value: the
settings of research are full of tokens and keys that are none (`PAD_TOKEN_ID`, `sort_key`).

*Cost.* Time grows with the length of the text, whatever the text is. Calls may come from several threads; the answer
depends on the arguments alone.

The other methods are made of these four.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["MASK", "Redactor", "Span"]

MASK = "<redacted>"
_PROBED_BYTES = 8192  # of a file's beginning: one with a NUL byte there is no text

Span = tuple[int, int]  # [start, end) in characters


class Redactor(ABC):
    """Base of every redactor; see the contract at the top of this module."""

    @abstractmethod
    def find(self, text: str) -> Sequence[Span]:
        """Returns where the secrets of a text are."""

    @abstractmethod
    def words(self, words: Sequence[str]) -> list[str]:
        """Returns a command's words, secrets replaced by `MASK`."""

    @abstractmethod
    def is_secret_name(self, name: str) -> bool:
        """Returns whether a variable, an option or a query's key of this name is taken to hold a secret."""

    @abstractmethod
    def is_secret(self, name: str, value: str, *, is_variable: bool = False) -> bool:
        """Returns whether `value` under `name` is a secret; `is_variable` says that it is the environment's."""

    # --- without secrets --------------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """Returns the text with every secret in it replaced by `MASK`."""
        spans = self.find(text)
        return _masked(text, spans, 0, len(text)) if spans else text

    def part(self, text: str, start: int, end: int) -> str:
        """Returns `text[start:end]` with every secret of the whole text replaced, also one that it cuts."""
        cut = [span for span in self.find(text) if span[0] < end and span[1] > start]
        return _masked(text, cut, start, end)

    def content(self, content: bytes) -> bytes:
        """Returns a file's content with its secrets replaced; what is no text stays as it is."""
        if b"\0" in content[:_PROBED_BYTES]:
            return content
        text = content.decode("utf-8", "surrogateescape")
        shown = self.text(text)
        return content if shown == text else shown.encode("utf-8", "surrogateescape")

    def setting(self, name: str, value: str) -> str:
        """Returns a variable's value: `MASK` by its name, else without the secrets in it."""
        if value and self.is_secret_name(name):
            return MASK
        return MASK if self.is_secret(name, value) else self.text(value)

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables with the values of secret ones replaced."""
        return {name: self.setting(name, value) for name, value in env.items()}

    def command(self, command: str) -> str:
        """Returns a command line without its secrets, quoted anew where a word lost one."""
        if not self.in_command(command):
            return command
        try:
            words = shlex.split(command)
        except ValueError:
            return self.text(command)
        shown = self.words(words)
        return self.text(" ".join(word if MASK in word else shlex.quote(word) for word in shown))

    def values(self, values: Mapping[str, object]) -> dict[str, object]:
        """Returns the mapping as `value` does, for a mapping alone."""
        return {self.text(str(key)): self.value(item, str(key)) for key, item in values.items()}

    def value(self, value: object, name: str = "") -> object:
        """Returns a JSON value with its secrets replaced: by the names of its keys, and in all of its texts.

        Args:
            name: the key that the value stands under.
        """
        if isinstance(value, str):
            return MASK if name and value != MASK and self.is_secret(name, value) else self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.value(item, str(key)) for key, item in value.items()}
        if isinstance(value, list | tuple):
            if all(isinstance(item, str) for item in value) and not (name and self.is_secret_name(name)):
                return self.words(value)
            return [self.value(item, name) for item in value]
        return value

    # --- where a secret is, for callers that must refuse it: what a person approves is run byte by byte --------

    def in_command(self, command: str) -> bool:
        """Returns whether a command line holds a secret, as text or as words."""
        if self.text(command) != command:
            return True
        try:
            words = shlex.split(command)
        except ValueError:
            return False
        before = ""
        for word, shown in zip(words, self.words(words), strict=True):
            if shown != word:
                name, _, value = word.partition("=")
                is_option = before.startswith("-") and "=" not in before and before.lstrip("-").isidentifier()
                if is_option and len(before) > 2:
                    name, value = before, word
                elif before[:1] == "-" or not value:
                    return True
                if self.is_secret(name.lstrip("-"), value):
                    return True
            before = word
        return False

    def in_variables(self, env: Mapping[str, str]) -> str | None:
        """Returns the name of the first variable whose value is a secret, or None."""
        for name, value in env.items():
            text = str(value)
            if self.is_secret(name, text, is_variable=True) or self.text(text) != text or self.text(name) != name:
                return name if self.text(name) == name else "a variable"
        return None

    def in_value(self, value: object, name: str = "") -> str | None:
        """Returns the dotted path of the first place of a JSON value that holds a secret, "" for the value itself."""
        return next(self._places(value, name, ""), None)

    def _places(self, value: object, name: str, path: str) -> Iterator[str]:
        if isinstance(value, str):
            if self.is_secret(name, value) or self.text(value) != value:
                yield path
        elif isinstance(value, Mapping):
            for key, item in value.items():
                shown = self.text(str(key))
                if shown != str(key):
                    yield f"{path}.{shown}".lstrip(".")
                yield from self._places(item, str(key), f"{path}.{shown}".lstrip("."))
        elif isinstance(value, list | tuple):
            for number, item in enumerate(value):
                yield from self._places(item, name, f"{path}[{number}]")


def _masked(text: str, spans: Iterable[Span], start: int, end: int) -> str:
    pieces, position = [], start
    for begin, after in spans:
        pieces += [text[position:begin], MASK]
        position = after
    return "".join([*pieces, text[position:end]])
