"""A limit in time for each test of a contract suite, kept by a helper process: nothing inside could end it.

A catastrophic expression holds the interpreter, so that no signal of Python's is served; and a scheduler that swallows
kills swallows exceptions too. The helper names the test, has the interpreter write where it stands, and ends pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import nullcontext

import pytest

__all__ = ["TEST_LIMIT_S", "TestLimits"]

TEST_LIMIT_S = 60.0
_PROGRAM = """
import json, os, signal, sys, threading, time

def end(name, limit_s):
    sys.stderr.write(f"\\n{name} ran past {limit_s:g} s: pytest is ended\\n")
    sys.stderr.flush()
    os.kill(int(sys.argv[1]), signal.SIGABRT)
    time.sleep(5.0)
    os.kill(int(sys.argv[1]), getattr(signal, "SIGKILL", signal.SIGTERM))

timer = None
for line in sys.stdin:
    name, limit_s = json.loads(line)
    if timer is not None:
        timer.cancel()
    timer = threading.Timer(limit_s, end, (name, limit_s)) if limit_s else None
    if timer is not None:
        timer.daemon = True
        timer.start()
"""


class TestLimits:
    """The plugin of pytest that keeps them; the helper is started with the first test that has a limit.

    Args:
        limit_s: of a test in a class that subclasses a suite of `perpetual.testing`; 0 for none. A class may have its
            own, in its attribute `test_limit_s`.
    """

    __test__ = False

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._helper: subprocess.Popen[str] | None = None

    def limit_of(self, item: pytest.Item) -> float:
        """Returns the limit of a test in seconds, 0 if it has none."""
        made = getattr(item, "cls", None)
        if made is None:
            return 0.0
        is_suite = any(base.__module__.startswith("perpetual.testing.") for base in made.__mro__)
        return float(getattr(made, "test_limit_s", self._limit_s if is_suite else 0.0))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, bool | None, bool | None]:
        """Has the helper watch the test while it is set up, runs and is torn down."""
        limit_s = self.limit_of(item)
        if not limit_s:
            return (yield)
        if self._helper is None:
            self._helper = _started(item.config)
        _tell(self._helper, item.nodeid, limit_s)
        try:
            return (yield)
        finally:
            _tell(self._helper, "", 0.0)

    def pytest_unconfigure(self) -> None:
        """Ends the helper."""
        if self._helper is not None:
            self._helper.kill()
            self._helper.communicate()


def _started(config: pytest.Config) -> subprocess.Popen[str]:
    """Returns the helper; it writes where pytest writes, and not into what pytest captures."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with nullcontext() if capture is None else capture.global_and_fixture_disabled():
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid())], stdin=subprocess.PIPE, text=True
        )


def _tell(helper: subprocess.Popen[str], name: str, limit_s: float) -> None:
    assert helper.stdin is not None
    helper.stdin.write(json.dumps([name, limit_s]) + "\n")
    helper.stdin.flush()
