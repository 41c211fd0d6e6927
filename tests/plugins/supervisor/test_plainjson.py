"""The supervisor's own JSON is that of the standard library."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perpetual.toolkit import atomic
from perpetual_supervisor import plainjson

_TEXT = st.text() | st.text(st.characters(categories=["Cs", "Cc", "Lu"]))
_SCALARS = st.none() | _TEXT | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_RECORDS = st.recursive(_SCALARS, lambda values: st.dictionaries(_TEXT, values, max_size=4), max_leaves=10)


@given(_RECORDS)
def test_documents_are_written_as_json_writes_them(record: Any) -> None:
    assert plainjson.dump(record) == json.dumps(record, ensure_ascii=False)
    assert plainjson.load(plainjson.dump(record)) == record


@given(_RECORDS | st.lists(_RECORDS | st.booleans(), max_size=4), st.sampled_from([None, 1]), st.booleans())
def test_documents_that_json_writes_are_read(document: Any, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=is_ascii)
    assert plainjson.load(f" \n{text}\r\t") == json.loads(text)


@pytest.mark.parametrize("text", ["", " ", "{", "{} x", "nul", "NaN", "-Infinity", '"a\nb"', "[1,]", '{"a" 1}'])
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        plainjson.load(text)
    with pytest.raises(ValueError, match=r"."):
        json.loads(text, parse_constant=plainjson.Context.parse_constant)
    assert str(caught.value)


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        plainjson.load("[" * 100_000)


def test_invalid_json_is_refused_before_json_is_loaded() -> None:
    """As a supervisor has not: until Python 3.12 the accelerated half alone cannot name its own error."""
    program = (
        "import sys\n"
        "sys.path[:0] = sys.argv[1:3]\n"
        "from perpetual_supervisor import plainjson\n"
        "for text in sys.argv[3:]:\n"
        "    try:\n"
        "        plainjson.load(text)\n"
        "    except ValueError as problem:\n"
        "        print(problem)\n"
    )
    paths = [str(Path(atomic.__file__).parents[2]), str(Path(plainjson.__file__).parents[1])]
    texts = ["{", "nul", '"a\nb"', "[1,]", '{"a" 1}']
    argv = [sys.executable, "-I", "-S", "-c", program, *paths, *texts]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == len(texts)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_json_is_written(value: float) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        plainjson.dump({"a": value})


@pytest.mark.parametrize("value", [True, b"x", [1], object()])
def test_other_kinds_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="is not written"):
        plainjson.dump({"a": value})


def test_a_file_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plainjson.read(str(tmp_path / "none"))
    (tmp_path / "one").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(ValueError, match="utf-8"):
        plainjson.read(str(tmp_path / "one"))
