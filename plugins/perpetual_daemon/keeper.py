"""The service `daemon-keeper`: starts the daemon in a process of its own, and again after a crash.

A daemon that was killed, or that ended by an error, is started again after a while that grows; one that gave a reason
has ended for good, and the keeper with it. Nothing is done twice by that: each turn goes on from the record.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from perpetual.api import ConfigError, Finding, PerpetualError, Service
from perpetual.loop import EXITS

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import StopSignal

__all__ = ["ARGUMENTS", "NAME", "Keeper", "arguments", "build", "reasoned"]

NAME = "daemon-keeper"
ARGUMENTS = "PERPETUAL_DAEMON_ARGUMENTS"  # a JSON list: what the daemon's command line is to hold
_SAFE = "--safe"  # an option of the program, which stands before the command
_USUAL = '["--stay"]'
_FIRST_RETRY_S, _LONGEST_RETRY_S = 1.0, 60.0
_WELL_S = 60.0  # a daemon that ran so long had not failed to start
_LOOK_S = 1.0  # at a process that has ended; a stop is heard of at once
_CONFLICT = 6  # another daemon runs


def arguments() -> list[str]:
    """Returns the arguments that the environment gives. Raises ConfigError for what is no list of texts."""
    text = os.environ.get(ARGUMENTS, _USUAL)
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ConfigError(f"{ARGUMENTS} must be a JSON list of texts", hint='such as ["--stay"]')
    return [*found]


class Keeper(Service):
    """Keeps a daemon running; see the module."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are the arguments of `perpetual daemon`."""
        self._words = [*words]
        self._reasoned = reasoned(words)
        self._said = "starting"
        self._is_well = True

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Starts the daemon until it ends with a reason, or `stop` is set.

        Raises:
            PerpetualError: if another daemon runs, or this one refuses to start.
        """
        wait_s, has_run = _FIRST_RETRY_S, False
        while not stop.is_set():
            began = time.monotonic()
            process = self._start(lab)
            self._said, self._is_well = f"process {process.pid} runs the daemon", True
            code = self._watch(process, stop)
            if code is None or code in self._reasoned:
                return
            if code == _CONFLICT:
                raise PerpetualError("another daemon runs for this project", hint="perpetual daemon status")
            if code == 2 and not has_run:  # later it is a file that was edited, which may be mended
                raise PerpetualError(
                    "the daemon refused its arguments or the configuration", hint="perpetual daemon logs"
                )
            has_run = has_run or code != 2
            wait_s = _FIRST_RETRY_S if time.monotonic() - began > _WELL_S else min(_LONGEST_RETRY_S, 2 * wait_s)
            self._said, self._is_well = f"the daemon ended with {code}; it is started again in {wait_s:.0f} s", False
            stop.wait(wait_s)

    def health(self, lab: Lab) -> Finding:
        """Returns whether the daemon runs."""
        return Finding(self._is_well, self._said, None if self._is_well else "perpetual daemon logs")

    def _start(self, lab: Lab) -> subprocess.Popen[bytes]:
        safe = [word for word in self._words if word == _SAFE]
        own = [word for word in self._words if word != _SAFE]
        words = [sys.executable, "-P", "-m", "perpetual", "--project", str(lab.root), *safe, "daemon", "--json", *own]
        return subprocess.Popen(words, cwd=lab.root, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                start_new_session=True)  # fmt: skip

    def _watch(self, process: subprocess.Popen[bytes], stop: StopSignal) -> int | None:
        """Waits until the daemon has ended; None if it was this that was asked to end.

        The daemon is given the time that its turn takes: the caller that asks for the end has a limit of its own.
        """
        while process.poll() is None:
            if stop.wait(_LOOK_S):
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                self._said = f"process {process.pid} ends after its present turn"
                process.wait()
                return None
        return process.returncode


def reasoned(words: Sequence[str]) -> frozenset[int]:
    """Returns the exit statuses of a daemon that ended for good, given its arguments.

    3 is also that of what passes, such as a record that another process holds, unless a thinker is asked for.
    """
    codes = frozenset(EXITS.values())
    return codes if "--require-llm" in words else codes - {EXITS["harness_down"]}


def build(options: Mapping[str, object]) -> Keeper:
    """Builds the service from the environment; it has no options."""
    return Keeper(arguments())
