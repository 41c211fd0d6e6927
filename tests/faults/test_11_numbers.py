"""Rows 11 and 13: numbers that are none, too big, too many, and names that are no names, wherever metrics come from.

Every command's JSON stays JSON, nothing crashes, and what cannot be compared is compared with nothing.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run as command_line
from perpetual.records import Run

Ask = Callable[..., dict[str, Any]]

_COMMANDS = (["status"], ["runs"], ["runs", "r1"], ["experiments"], ["hypotheses", "list"],
             ["hypotheses", "show", "h1"], ["evidence", "list"], ["brief"], ["report"], ["events"], ["budget"],
             ["scan"], ["store", "verify"])  # fmt: skip


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    """A project with a claim about `acc`."""
    opened = Lab.open(project)
    opened.hypotheses.add("acc rises", metric="acc", direction="max", mde=0.1, baseline=1.0)
    yield opened
    opened.close()


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """A command's one JSON document, read as strictly as other languages do."""

    def asked(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        status = command_line([*words, "--json"])
        text = capsys.readouterr().out
        text.encode()  # no half of a surrogate pair

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} is not JSON: {words}")

        document = json.loads(text, parse_constant=refuse)
        assert status == 0, (words, document)
        assert isinstance(document, dict)
        return document

    return asked


def _measured(lab: Lab, code: str, **given: Any) -> Run:
    """A run of a script."""
    number = len(lab.experiments.list().items)
    (lab.root / f"train{number}.py").write_text(code)
    made = lab.experiments.propose("h1", command=f"{sys.executable} train{number}.py", noise=0.05, wall_s=60.0, **given)
    lab.experiments.approve(made.id)
    run = lab.runs.launch(made.id)[0]
    lab.wait([run.id], timeout_s=60)
    return lab.runs.get(run.id)


# How a program says a number, with the text or the Python of the number in {}.
_PLACES = {
    "results.json": "open('results.json', 'w').write('{{\"acc\": {}, \"other\": 0.5}}')",
    "metrics.jsonl": "import os; open(os.environ['PERPETUAL_METRICS'], 'w').write('{{\"acc\": {}, \"other\": 0.5}}')",
    "results.csv": "open('results.csv', 'w').write('step,acc,other\\n1,{},0.5\\n')",
    "stdout json": 'print(\'{{"acc": {}, "other": 0.5}}\')',
    "stdout text": "print('acc: {} other: 0.5')",
}
_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1" + "0" * 400, "9" * 5000, "1e150")


def _not_compared(lab: Lab, run: Run) -> None:
    """The run is done, the metric is there without a value, and there is no row of evidence."""
    assert (run.status, run.metrics) == ("done", {"acc": None, "other": 0.5})
    assert run.reason is not None
    assert run.reason.startswith("no_metric: acc")
    assert lab.evidence.list().items == ()
    assert lab.hypotheses.get("h1").confidence == 0.5


@pytest.mark.parametrize(
    ("place", "number"),
    [
        pytest.param(
            place, number, marks=() if number == _NUMBERS[at] else pytest.mark.slow, id=f"{place}, {number[:9]}"
        )
        for at, place in enumerate(_PLACES)
        for number in _NUMBERS
        if place != "stdout text" or len(number) < 1000  # of a line of text only the beginning is looked at
    ],
)
def test_a_number_that_is_none_is_compared_with_nothing(lab: Lab, ask: Ask, place: str, number: str) -> None:
    _not_compared(lab, _measured(lab, _PLACES[place].format(number)))
    for words in _COMMANDS:
        ask(*words)


_QUICK = ("float('nan')", "10**5000", "{'a': 1}")
_LATER = ("-float('inf')", "1e400", "10**400", "float('1e150')")


@pytest.mark.parametrize("value", [*_QUICK, *(pytest.param(value, marks=pytest.mark.slow) for value in _LATER)])
def test_the_run_s_own_log(lab: Lab, ask: Ask, value: str) -> None:
    run = _measured(
        lab, f"import perpetual\nperpetual.log(step=1, acc=0.5)\nperpetual.log(step=2, acc={value}, other=0.5)\n"
    )
    if value == "{'a': 1}":  # not a number at all, so the last number counts
        assert (run.metrics, run.reason) == ({"acc": 0.5, "other": 0.5}, None)
    else:
        _not_compared(lab, run)
    for words in _COMMANDS[:3]:
        ask(*words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "value"), [("-0.0", -0.0), ("5e-324", 5e-324), ("123456789012345678901", 1.2345678901234568e20)]
)
def test_odd_numbers_are_recorded_exactly(lab: Lab, ask: Ask, text: str, value: float) -> None:
    run = _measured(lab, _PLACES["metrics.jsonl"].format(text))
    assert run.metrics["acc"] == value
    assert math.copysign(1, run.metrics["acc"]) == math.copysign(1, value)
    assert lab.evidence.list().items[0].value == value
    for words in _COMMANDS:
        ask(*words)


def test_extremes_of_a_baseline_do_not_stop_the_lab(lab: Lab, ask: Ask) -> None:
    """Their squares leave the range of a float: the sums over them must not be begun."""
    (lab.root / "values.txt").write_text("acc=1e200\nacc=-1.7e308\nacc=1e308\n")
    command = "sh -c 'sed -n ${PERPETUAL_RUN#r}p values.txt'"
    base = lab.experiments.propose(command=command, metric="acc", replicates=2, wall_s=60.0)
    hypothesis = lab.hypotheses.add("acc rises more", metric="acc", direction="max", mde=0.1, baseline=base.id)
    claim = lab.experiments.propose(hypothesis.id, command=command, noise=0.05, wall_s=60.0, title="the claim")
    lab.experiments.approve_all([base.id, claim.id])
    for experiment in (base, base, claim):
        lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=60)
    for run in lab.runs.list().items:
        assert (run.status, run.metrics) == ("done", {"acc": None})
        assert "beyond what can be computed with" in run.annotations[0]["text"]
    for words in _COMMANDS:
        ask(*words)


_NAMES = (
    "__proto__",
    "constructor",
    "val/acc",
    "größe",
    "数",
    "a b",
    'with"quote',
    "100%",
    "<script>",
    "=cmd()",
    "x" * 200,
)
_NO_NAMES = ("", "x" * 201, "a\nb", "\x1b[31mred", "tab\t", "half \ud800", "nul\0")


@pytest.mark.parametrize(
    "place",
    ["results.json", *(pytest.param(place, marks=pytest.mark.slow) for place in ("metrics.jsonl", "stdout.log"))],
)
def test_metric_names_of_every_kind_are_recorded(lab: Lab, ask: Ask, place: str) -> None:
    names = {name: float(at) for at, name in enumerate((*_NAMES, *_NO_NAMES, "acc"))}
    say = {
        "results.json": "open('results.json', 'w').write(text)",
        "metrics.jsonl": "open(os.environ['PERPETUAL_METRICS'], 'w').write(text + chr(10))",
        "stdout.log": "print(text)",
    }[place]
    run = _measured(lab, f"import json, os\ntext = json.dumps({names!r})\n{say}\n")
    assert run.metrics == {name: value for name, value in names.items() if name not in _NO_NAMES}
    (told,) = run.annotations
    assert "no names of metrics, and left out" in told["text"]
    assert len(lab.evidence.list().items) == 1
    for words in _COMMANDS:
        ask(*words)
    assert command_line(["runs", "r1"]) == 0


@pytest.mark.slow
def test_a_thousand_of_ten_thousand_metrics_are_recorded(lab: Lab, ask: Ask) -> None:
    """A thousand are recorded, the declared metric among them."""
    code = "import json\nprint(json.dumps({**{f'm{n}': n for n in range(10_000)}, 'acc': 0.5}))\n"
    run = _measured(lab, code)
    assert (len(run.metrics), run.metrics["acc"]) == (1000, 0.5)
    assert "10001 metrics were found, and the first 1000 are recorded" in run.annotations[0]["text"]
    assert lab.evidence.list().items[0].value == 0.5
    for words in _COMMANDS:
        ask(*words)
    assert command_line(["runs"]) == 0


def test_a_number_after_garbage_is_found(lab: Lab, ask: Ask) -> None:
    """And after it a number where a program would print it."""
    deep = "'{\"a\":' * 100_000"
    code = (
        "import os\n"
        f"open('results.json', 'w').write({deep})\n"
        "open('results.csv', 'wb').write(b'\\xff\\x00' * 1000 + b'\"')\n"
        "os.mkfifo('metrics.csv')\n"
        f"open(os.environ['PERPETUAL_METRICS'], 'w').write({deep} + '}}' * 100_000 + '\\n[1]\\n' + 'x' * 100_000)\n"
        "print('\\x1b]0;title\\x07')\n"
        "print('acc: 0.5')\n"
    )
    run = _measured(lab, code)
    assert (run.status, run.metrics, run.annotations) == ("done", {"acc": 0.5}, ())
    for words in _COMMANDS:
        ask(*words)
