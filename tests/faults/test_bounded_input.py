"""Documents of strangers and arguments of callers: what is too large, too deep or grows is refused by name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import ConfigError, UsageError
from perpetual.toolkit.atomic import read_json
from perpetual.toolkit.foreign import check_yaml, parse_json
from perpetual.toolkit.status_file import read_status
from perpetual.toolkit.yamlfile import read_yaml
from perpetual_report.verification import Claims
from perpetual_tinydb.journal_format import has_commit

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)
BOMBS = {
    "aliases": LAUGHS,
    "lists of aliases": f"a: &a {{k: v}}\nb: &b [{'*a, ' * 300}]\nc: [{'*b, ' * 300}]\n",
    "itself": "a: &a [*a]\n",
    "brackets": "a: " + "[" * 5000,
    "braces": "a: " + "{a: " * 2000,
    "dashes": "- " * 5000 + "x",
    "indents": "".join(" " * n + "a:\n" for n in range(300)),
    "size": "a: b\n" * 100_000,
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_yaml_bomb_is_refused_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(BOMBS[name])
    began = time.thread_time()
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        read_yaml(path)
    assert time.thread_time() - began < 5.0


@pytest.mark.parametrize("text", ["a: 1" + "0" * 5000, "a: 2001-99-99", "? [a]\n: b\n", "a: !!binary x", "<<: 3"])
def test_values_that_the_yaml_parser_stumbles_over_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    try:
        found = read_yaml(path)
    except ConfigError as problem:
        found = {"message": problem.message}
    assert isinstance(found, dict)
    assert "config.yaml" in str(found.get("message", "config.yaml"))


@pytest.mark.parametrize("value", ["0x" + "f" * 5000, "-0x" + "f" * 300, "[0x" + "f" * 5000 + "]", r'"\ud800"'])
@pytest.mark.parametrize("key", ["project", "format", "gpus_excluded", "plugins", "0x" + "f" * 5000])
def test_values_that_no_message_could_hold_are_refused_by_the_file(tmp_path: Path, key: str, value: str) -> None:
    """Hexadecimal digits pass Python's limit on a number's digits, and the number cannot be written in a message."""
    path = tmp_path / "config.yaml"
    path.write_text(f"{key}: {value}\n")
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        read_yaml(path)


def test_ordinary_yaml_passes() -> None:
    check_yaml("plugins:\n  a: &x {b: [1, 2]}\n  c: *x\n" + "# [ & {\n" * 200)
    check_yaml("")


def test_a_deep_status_is_no_status(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text("[" * 200_000)
    assert read_status(str(tmp_path), "token") is None


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 5000, "[" * 65 + "]" * 65, "1" * 5000, '"' + "\\" * 999])
def test_deep_json_is_a_value_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=r"x\.json"):
        read_json(tmp_path / "x.json")


def test_brackets_within_texts_are_no_depth() -> None:
    value = {"a": '[{"\\[' * 500, "b": [[1]] * 200}
    assert parse_json(json.dumps(value)) == value
    with pytest.raises(ValueError, match="bytes"):
        parse_json("[" + "1," * 500 + "1]", most=100)


def test_a_spoilt_journal_costs_its_length() -> None:
    began = time.thread_time()
    assert not has_commit(b'{"n":' * 200_000 + b"\n")
    assert time.thread_time() - began < 3.0


BIG: dict[str, tuple[dict[str, Any], str]] = {
    "config": ({"config": {"x": "y" * 300_000}}, "config"),
    "deep config": ({"config": json.loads('{"a":' * 100 + "1" + "}" * 100)}, "config is nested"),
    "env": ({"env": {"x": "y" * 70_000}}, "env"),
    "tags": ({"tags": ["t" * 1_000_000]}, "tag"),
    "many tags": ({"tags": [str(n) for n in range(100)]}, "tags"),
    "notes": ({"notes": "x" * 20_000}, "notes"),
    "title": ({"title": "x" * 1_000}, "title"),
    "command": ({"command": "echo " + "x" * 40_000}, "the command"),
    "cwd": ({"cwd": "x" * 2_000}, "the working directory"),
    "metric": ({"metric": "x" * 300}, "the metric's name"),
    "key": ({"idempotency_key": "x" * 2_000}, "the idempotency key"),
}


@pytest.mark.parametrize("name", BIG)
def test_a_stored_field_has_a_limit_that_its_refusal_names(project: Path, name: str) -> None:
    given, words = BIG[name]
    with Lab.open(project) as lab:
        with pytest.raises(UsageError, match=words) as refused:
            lab.experiments.propose(None, **{"command": "true", **given})
        assert any(character.isdigit() for character in refused.value.message + (refused.value.hint or ""))
        assert lab.status()["experiments"] == {}


def test_a_command_is_measured_before_its_words_are_looked_for(project: Path) -> None:
    """Splitting a word of a megabyte takes time that grows with the square: here a minute."""
    command = "echo " + "x" * 1_000_000
    with Lab.open(project) as lab:
        lab.experiments.propose(None, command=None)
        for deed in (lab.runs.launch, lab.runs.plan):
            began = time.thread_time()
            with pytest.raises(UsageError, match="the command has 1,000,005 characters"):
                deed("e1", command=command)
            assert time.thread_time() - began < 5.0


def test_a_hypothesis_has_limits_too(project: Path) -> None:
    with Lab.open(project) as lab:
        deeds: list[Callable[[], object]] = [
            lambda: lab.hypotheses.add("x" * 5_000),
            lambda: lab.hypotheses.add("x", tags=["t" * 1_000]),
            lambda: lab.hypotheses.add("x", params={"lr": ["y" * 100_000]}),
            lambda: lab.hypotheses.add("x", metric="m" * 300),
        ]
        for deed in deeds:
            with pytest.raises(UsageError, match="at most"):
                deed()


def test_a_setting_that_could_not_be_read_again_is_not_written(project: Path) -> None:
    before = (project / ".perpetual" / "methodology.yaml").read_bytes()
    value = json.dumps([f"{number:0200}" for number in range(2_000)])
    with Lab.open(project) as lab, pytest.raises(UsageError, match="larger than"):
        lab.settings.set_methodology("protected_paths", value)
    assert (project / ".perpetual" / "methodology.yaml").read_bytes() == before


@pytest.mark.parametrize("cursor", ["9" * 5000, "1" * 19, "\u0663", "\u00b2", "1_0", " 1", "-1", "+1", "1.0", "", "\0"])
def test_a_cursor_is_a_short_whole_number(project: Path, cursor: str) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("n/a.md", "# A note\n")
        readers: dict[str, Callable[[str], object]] = {
            "hypotheses": lambda text: lab.hypotheses.list(cursor=text),
            "runs": lambda text: lab.runs.list(cursor=text),
            "notes": lambda text: lab.memory.list(cursor=text),
        }
        for name, reader in readers.items():
            with pytest.raises(UsageError, match="is no cursor") as refused:
                reader(cursor)
            assert len(str(refused.value)) < 100, name


def test_numbers_of_a_report_have_bounded_digits() -> None:
    marks = {"seq": "9" * 5000, "debits": "\u0663"}
    claims = Claims("md", "", marks)
    for name in marks:
        with pytest.raises(UsageError, match=name):
            claims.mark(name)
