"""The notifier `command`: a program of the user, which reads the notice as JSON on its input."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from perpetual.api import ConfigError, PerpetualError, TransientError, line
from perpetual_notify.notifier import Notice, Notifier

__all__ = ["Program", "build"]

_HINT = "perpetual config set plugins.notifier.command.argv '[\"/path/of/program\"]'"
_LONGEST_WHERE, _LONGEST_SAID = 160, 200


class Program(Notifier):
    """Starts a program for each notice; it is accepted if the program ends with 0."""

    def __init__(self, argv: Sequence[str], *, timeout_s: float = 30.0) -> None:
        self._argv, self.limit_s = [*argv], timeout_s

    def where(self) -> str:
        """Returns the program with its words."""
        words = line("runs " + " ".join(json.dumps(word) if " " in word else word for word in self._checked()))
        return words if len(words) <= _LONGEST_WHERE else f"{words[:_LONGEST_WHERE]}..."

    def target(self) -> str:
        """Returns the program with its words."""
        return json.dumps(self._checked())

    def _checked(self) -> list[str]:
        """Returns the words.

        Raises:
            ConfigError: without a program, or for one that the folder of now decides.
        """
        if not self._argv:
            raise ConfigError("plugins.notifier.command.argv is empty", hint=_HINT)
        if any("\0" in word for word in self._argv):
            raise ConfigError("plugins.notifier.command.argv holds a NUL character", hint=_HINT)
        if os.sep in self._argv[0] and not os.path.isabs(self._argv[0]):
            raise ConfigError(
                f"plugins.notifier.command.argv: {line(self._argv[0])} depends on the folder that it is started in",
                hint="write the whole path of the program",
            )
        return self._argv

    def send(self, notice: Notice) -> None:
        """Runs the program, in the home folder of the user, and ends it after `limit_s`."""
        words = self._checked()
        found = shutil.which(words[0])
        if found is None or not os.path.isabs(found):  # an empty entry of PATH is the folder of now
            raise PerpetualError(f"the program {line(words[0])} is not there, or may not be run", hint=_HINT)
        body = json.dumps(notice.document(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with tempfile.TemporaryFile() as said:  # no pipe, which what the program leaves behind could hold open
            try:
                process = subprocess.Popen(
                    [found, *words[1:]], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said, cwd=_home(),
                    start_new_session=True,
                )  # fmt: skip
            except OSError as problem:
                raise PerpetualError(f"{line(found)} cannot be started: {problem.strerror}", hint=_HINT) from problem
            try:
                process.communicate(body, timeout=self.limit_s)
            except subprocess.TimeoutExpired:
                raise TransientError(f"{line(found)} did not end within {self.limit_s:g} s") from None
            finally:
                _end(process)
            if process.returncode:
                said.seek(max(0, said.seek(0, os.SEEK_END) - _LONGEST_SAID))
                why = line(said.read().decode("utf-8", "replace"))
                raise TransientError(f"{line(found)} ended with {process.returncode}" + (f": {why}" if why else ""))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the program and what it started, unless it has ended by itself."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _home() -> str:
    home = Path("~").expanduser()
    return str(home) if home.is_dir() else os.sep


def build(options: Mapping[str, object]) -> Program:
    """Builds the notifier."""
    argv, timeout_s = options["argv"], options["timeout_s"]
    assert isinstance(argv, list)
    assert isinstance(timeout_s, (int, float))
    return Program([*map(str, argv)], timeout_s=float(timeout_s))
