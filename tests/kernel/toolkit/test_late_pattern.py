"""A pattern that is compiled at its first use answers as one that is compiled at once, and until then costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from perpetual.toolkit.late_pattern import late_pattern

_TEXT = "key=One, KEY=two"


@pytest.mark.parametrize("flags", [0, re.IGNORECASE])
def test_a_late_pattern_matches_as_the_compiled_one(flags: int) -> None:
    late, early = late_pattern(r"key=(\w+)", flags), re.compile(r"key=(\w+)", flags)
    for _ in range(2):
        assert late.findall(_TEXT) == early.findall(_TEXT)
        assert [found.span() for found in late.finditer(_TEXT)] == [found.span() for found in early.finditer(_TEXT)]
        assert late.sub("-", _TEXT) == early.sub("-", _TEXT)
        assert (late.search(_TEXT, 3) is None) == (early.search(_TEXT, 3) is None)
        assert late.pattern == early.pattern
        assert late.flags == early.flags


def test_a_start_compiles_no_pattern_by_which_secrets_are_known() -> None:
    """They cost 20 ms of every command, and few commands meet a text that comes as far as one."""
    program = (
        "import re, sys\n"
        "compiled, compile_ = [], re.compile\n"
        "def seen(*given):\n"
        "    compiled.append(sys._getframe(1).f_globals['__name__'])\n"
        "    return compile_(*given)\n"
        "re.compile = seen\n"
        "import perpetual_redaction.redactor\n"
        "print([name for name in compiled if name.startswith('perpetual_redaction')])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
