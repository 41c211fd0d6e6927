"""`verify` on Markdown whose numbers carry references: what holds, what does not and why, and what `--fix` writes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual_report.cited import available, is_held, rewritten
from perpetual_report.numbers import Number
from perpetual_report.references import references_of


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    """A command's exit status and document."""
    code = run([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def held(capsys: pytest.CaptureFixture[str], text: str, *words: str) -> tuple[int, list[tuple[str, str, str]]]:
    """The exit status of `verify` on a text, and line, key and reason of each problem."""
    Path("README.md").write_text(text, "utf-8")
    code, found = asked(capsys, "verify", "README.md", *words)
    return code, [(item["where"], item["number"], item["why"]) for item in found["problems"]]


def keys(text: str) -> list[tuple[str, str | None]]:
    """The keys of a text, each with its number as written."""
    return [(item.key, item.number.text if item.number else None) for item in references_of(text).found]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("**0.912**", "0.912"), ("$-0.5$", "-0.5"), ("\u22120.11", "\u22120.11"), ("(0.9)", "0.9"), ("+3e-4", "+3e-4"),
        ("91.2 %", "91.2 %"), ("1,234,567", "1,234,567"), ("12 min", "12 min"), ("`7`", "7"), ("0.09-0.13", "0.13"),
        ("a 0.5, 0.6", "0.6"), ("0,912", None), ("1.2.3", None), ("0.9l2", None), ("v0.9", None), ("x", None),
        ("", None), ("1,23", None), ("0.1 and", None), ("9" * 500, None),
    ],
)  # fmt: skip
def test_the_number_right_before_the_comment_is_the_claim(text: str, number: str | None) -> None:
    assert keys(f"So {text}<!-- perpetual: e1.mean -->.") == [("e1.mean", number)]


def test_several_keys_are_of_as_many_numbers_from_the_right() -> None:
    assert keys("95 % interval -0.1 to 0.2<!-- perpetual: e1.low e1.high -->") == [
        ("e1.low", "-0.1"),
        ("e1.high", "0.2"),
    ]
    assert keys("0.1<!-- perpetual: a.b --> 0.2<!-- perpetual: c.d e.f -->")[1:] == [("c.d", None), ("e.f", "0.2")]


@pytest.mark.parametrize(
    "text",
    [
        "```\n1<!-- perpetual: e1.n -->\n```", "~~~~\n```\n1<!-- perpetual: e1.n -->\n~~~~",
        "a `1<!-- perpetual: e1.n -->`", "a ``1 ` <!-- perpetual: e1.n -->``", "    1<!-- perpetual: e1.n -->",
        "- a\n\n  ```\n  1<!-- perpetual: e1.n -->\n  ```",
        "> ```\n> 1<!-- perpetual: e1.n -->", "<!-- was 1<!-- perpetual: e1.n -->",
    ],
)  # fmt: skip
def test_a_reference_in_code_or_in_a_comment_is_an_example(text: str) -> None:
    found = references_of(text)
    assert (found.found, found.mistakes, found.in_code) == ([], [], 1)
    assert keys(f"{text}\n\n> 2<!-- perpetual: e1.n -->\n\n| 3<!-- perpetual: e1.n --> |") == [
        ("e1.n", "2"),
        ("e1.n", "3"),
    ]


@pytest.mark.parametrize("text", ["1<!-- perpetual: e1.n", "1<!-- perpetual: e1 -->", "1<!-- perpetual: -->",
                                  "1<!-- perpetual: E1.n -->", "1<!-- perpetual: " + "e1.n " * 30 + "-->"])  # fmt: skip
def test_a_comment_that_begins_as_a_reference_and_is_none_is_named(text: str) -> None:
    (mistake,) = references_of(f"a\n{text}").mistakes
    assert mistake.line == 2


@pytest.mark.parametrize("part", ["<!--", "<!-- perpetual: e1.n --", "`" * 7 + " ", "9,9", "1<!-- perpetual: a.b -->",
                                  "-+", "<!-- perpetual: at x -->", "``<!--", "> ", "- "])  # fmt: skip
def test_any_text_is_read_in_linear_time(part: str) -> None:
    text = part * (60_000 // len(part))
    began = time.process_time()
    references_of(f"<!-- perpetual: a.b -->{text}")
    assert time.process_time() - began < 1.5


@pytest.mark.parametrize(
    ("text", "value", "key", "holds", "fresh"),
    [
        ("0.912", 0.9121, "e1.mean", True, "0.912"), ("0.912", 0.9127, "e1.mean", False, "0.913"),
        ("91.2%", 0.912, "e1.mean", True, "91.2"), ("91.2%", 91.2, "e1.mean", False, "9120.0"),
        ("0.0625", 0.06249999999999999, "e1.mean", True, "0.0625"), ("0.12", 0.125, "e1.mean", True, "0.12"),
        ("0.13", 0.125, "e1.mean", True, "0.12"), ("3e-4", 0.00031, "e1.mean", True, "3e-4"),
        ("30 min", 0.5, "e1.run_hours", True, "30"), ("0.5", 0.5, "e1.run_hours", True, "0.5"),
        ("1800 s", 0.6, "e1.run_hours", False, "2160"), ("1,234", 12345, "count.runs", False, "12,345"),
        ("+0.11", 0.2, "e1.effect", False, "+0.20"), ("\u22120.11", -0.2, "e1.effect", False, "\u22120.20"),
        ("-0.1", 0.04, "e1.effect", False, "0.0"), ("5 %", 5, "count.runs", False, None),
        ("0.5", 1e300, "e1.mean", False, f"{1e300:.1f}"),
        ("1e999", 1.0, "e1.mean", False, None),
    ],
)  # fmt: skip
def test_a_number_holds_if_the_value_rounds_to_it(
    text: str, value: float, key: str, holds: bool, fresh: str | None
) -> None:
    (found,) = references_of(f"{text}<!-- perpetual: {key} -->").found
    number = Number(key, value, "", "e1")
    assert found.number is not None
    assert is_held(found.number, number) is holds
    assert rewritten(found.number, number) == fresh
    if fresh is not None:
        made = f"{fresh}{text[found.number.end :]}" + f"<!-- perpetual: {key} -->"
        (again,) = references_of(made).found
        assert again.number is not None
        assert is_held(again.number, number)


def test_every_listed_reference_holds_as_it_is_listed(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    listed = [item for item in available(lab) if item["value"] is not None]
    text = "\n".join(f"- {item['text']}<!-- perpetual: {item['key']} -->" for item in listed)
    assert len(listed) > 100
    code, problems = held(capsys, text)
    assert (code, problems) == (0, [])
    wanted = {"e2.mean", "e2.effect_low", "e2.loss.best", "e2.n", "r4.metrics.loss", "h1.confidence", "h1.effect",
              "budget.spent_gpu_hours", "e2.gpu_hours", "e1.loss.sd"}  # fmt: skip
    assert wanted <= {item["key"] for item in listed}
    assert {item["key"]: item["text"] for item in available(lab, of="h1")}["h1.status"] == "supported"


def test_each_problem_is_named_by_its_line(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    runs = len(lab.runs.list(limit=100).items)
    text = (
        f"{runs}<!-- perpetual: count.runs --> runs\n\n{runs + 1}<!-- perpetual: count.runs -->\n"
        "0.5<!-- perpetual: e2.maen -->\nmany<!-- perpetual: e2.n -->\nrefuted<!-- perpetual: h1.status -->\n"
        "1<!-- perpetual: e2 -->\n<!-- perpetual: at 2001-01-01 -->\n1<!-- perpetual: e2.n -->\n"
    )
    code, problems = held(capsys, text)
    assert code == 1
    assert {(where, why.partition(":")[0].partition(";")[0]) for where, _, why in problems} == {
        ("line 3", "another value"), ("line 4", "unknown reference"), ("line 5", "no number before it"),
        ("line 6", "another word"), ("line 7", "the comment is no reference"), ("line 8", "no such moment"),
    }  # fmt: skip
    assert any("e2.mean" in why for _, key, why in problems if key == "e2.maen")


def test_fix_writes_numbers_and_nothing_else(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    value = {item["key"]: item["value"] for item in available(lab, of="e2")}["e2.mean"]
    text = "\ufeffA **9.99**<!-- perpetual: e2.mean -->\r\nopen<!-- perpetual: h1.status -->\r\n"
    text += "`9<!-- perpetual: e2.n -->`\r\n"
    path = Path("README.md")
    path.write_bytes(text.encode())
    path.chmod(0o640)
    code, found = asked(capsys, "verify", "README.md", "--fix")
    assert (code, found["fixed"], [item["number"] for item in found["problems"]]) == (1, 1, ["h1.status"])
    assert path.read_bytes().decode() == text.replace("9.99", f"{value:.2f}")
    assert path.stat().st_mode & 0o777 == 0o640
    assert asked(capsys, "verify", "README.md", "--fix")[1]["fixed"] == 0


@pytest.mark.slow
def test_fix_writes_no_link_and_nothing_outside(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "9.99<!-- perpetual: e2.mean -->"
    outside = tmp_path / "outside.md"
    outside.write_text(text)
    Path("link.md").symlink_to(outside)
    Path("folder").symlink_to(tmp_path)
    own = Path("own.md")
    own.write_text(text)
    os.link(own, "twin.md")
    for name in (str(outside), "link.md", "folder/outside.md", "twin.md"):
        assert run(["verify", name, "--fix"]) == 2, name
        assert run(["verify", name]) == 1, name
    assert outside.read_text() == own.read_text() == text
    capsys.readouterr()


def test_what_is_no_text_with_references_is_an_error(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"\xff\xfe1", b"1<!-- perpetual: e1.n -->\0", b"x" * (3 * 2**20), b"no reference", b""):
        Path("README.md").write_bytes(content)
        assert run(["verify", "README.md"]) == 2
        said = capsys.readouterr().err
        assert "hint" in said or "NUL" in said


def test_a_pin_to_now_is_not_moved_by_the_command(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Else --fix --at wrote a number of then below the words `at now`, and the next check refused it."""
    seq, then = lab.feed.last(), len(lab.hypotheses.list(limit=100).items)
    lab.hypotheses.add("another idea")
    cited = "0<!-- perpetual: count.hypotheses -->\n"
    Path("README.md").write_text(f"{cited}<!-- perpetual: at now -->\n{cited}")
    code, found = asked(capsys, "verify", "README.md", "--fix", "--at", f"seq:{seq}")
    assert (code, found["fixed"]) == (0, 2)
    numbers = [line.partition("<")[0] for line in Path("README.md").read_text().splitlines()]
    assert numbers == [str(then), "", str(then + 1)]


@pytest.mark.slow
def test_a_pinned_number_holds_when_runs_arrive(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    seq = lab.feed.last()
    pinned = f"<!-- perpetual: at seq {seq} -->\n"
    count = len(lab.hypotheses.list(limit=100).items)
    text = f"{count}<!-- perpetual: count.hypotheses -->\n"
    Path("README.md").write_text(text)
    time.sleep(0.01)
    lab.hypotheses.add("another idea")
    code, found = asked(capsys, "verify", "README.md")
    assert (code, found["problems"][0]["why"].partition(":")[0]) == (1, "stale")
    assert held(capsys, text, "--at", f"seq:{seq}")[0] == 0
    assert held(capsys, pinned + text)[0] == 0
    assert held(capsys, f"{pinned}<!-- perpetual: at now -->\n{text}")[0] == 1


@pytest.mark.slow
def test_list_and_files_do_not_mix(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("README.md").write_text("1<!-- perpetual: e2.n -->")
    for words in (["verify"], ["verify", "README.md", "--list"], ["verify", "README.md", "--of", "e1"],
                  ["verify", "--list", "--of", "e99"], ["verify", "README.md", "--at", "tomorrow"],
                  ["verify", "README.md", "--at", "2999-01-01"], ["verify", "README.md", "--at", "seq:0"],
                  ["verify", "README.md", "--at", "commit:HEAD"]):  # fmt: skip
        assert run(words) == 2, words
    capsys.readouterr()
