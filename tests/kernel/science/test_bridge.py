"""The line protocol for other languages, in process and as the real program."""

import json
import subprocess
import sys
from typing import Any

import pytest

from perpetual.science import best, confidence, gate, judge, propose
from perpetual.science.stdio_server import answer

HYPOTHESIS = {"id": "H1", "prior": 0.5}
DESIGNS = {"d": {"model": "gaussian", "mu1": 1.0, "mu0": 0.0, "sigma": 1.0, "tau": 0.25}}
EVIDENCE = [
    {
        "id": 1,
        "run_id": 1,
        "kind": "measured",
        "metric": "m",
        "design_id": "d",
        "value": 0.9,
        "status": "done",
    }
]
CANDIDATE = {
    "id": "c",
    "hypothesis_id": "H1",
    "mu1": 1,
    "mu0": 0,
    "sigma": 1,
    "tau": 0.2,
    "cost": 1,
    "p_fail": 0,
}
CLAIM = {"metric": "m", "direction": "max", "kind": "gaussian", "claim": "improves", "mde": 0.5}
BASELINE = [{"seed": seed, "value": value} for seed, value in enumerate((0.1, -0.2, 0.05, 0.0))]
RUNS = [{"seed": seed, "value": value} for seed, value in enumerate((0.9, 1.1, 0.8))]
STATE = {"hypotheses": [{"id": "H1", "confidence": 0.5}], "candidates": [CANDIDATE]}


def asked(request: object) -> dict[str, Any]:
    reply = json.loads(answer(json.dumps(request).encode()))
    assert isinstance(reply, dict)
    return reply


def test_answers_are_those_of_the_functions() -> None:
    assert asked({"fn": "confidence", "args": [HYPOTHESIS, DESIGNS, EVIDENCE, {}]}) == {
        "result": confidence(HYPOTHESIS, DESIGNS, EVIDENCE, {})
    }
    assert asked({"fn": "propose", "args": [STATE, 2, {}]}) == {"result": propose(STATE, 2, {})}
    assert asked({"fn": "gate", "args": [[1, 0, -1], {}]}) == {"result": gate([1, 0, -1], {})}
    judged = judge(CLAIM, BASELINE, RUNS, {})
    assert judged["status"] == "supported"
    assert asked({"fn": "judge", "args": [CLAIM, BASELINE, RUNS, {}]}) == {"result": judged}
    items = [[CLAIM, BASELINE, RUNS, {}], [CLAIM, "none", RUNS, {}], 7]
    first, second, third = asked({"fn": "judge_many", "args": [items]})["result"]
    assert first == judged
    assert [[*second], [*third]] == [["error"], ["error"]]
    assert "baseline must be a number" in second["error"]
    settings = [{"id": "a", "x": [1], "seen": [0.1]}, {"id": "b", "x": [2], "seen": [0.7, None]}, {"id": "c", "x": [3]}]
    sweep = {"sweep": {"settings": settings, "direction": "min"}}
    assert asked({"fn": "best", "args": [sweep]}) == {"result": best(sweep)} == {"result": "a"}
    assert asked({"fn": "propose", "args": [sweep, 2, {}]}) == {"result": propose(sweep, 2, {})}


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"null\n",
        b'{"args": []}\n',
        b'{"fn": "exec", "args": []}\n',
        b'{"fn": ["gate"], "args": []}\n',
        b'{"fn": "gate", "args": [[3], {}]}\n',
        b'{"fn": "gate", "args": [[NaN], {}]}\n',
        b'{"fn": "gate", "args": [[0], {"alpha": 0}]}\n',
        b'{"fn": "gate", "args": 7}\n',
        b'{"fn": "confidence", "args": [{}]}\n',
        b'{"fn": "confidence", "args": [{"prior": NaN}, {}, [], {}]}\n',
        b'{"fn": "propose", "args": [{}, 1, {}]}\n',
        b'{"fn": "judge", "args": []}\n',
        b'{"fn": "judge", "args": [{"mde": NaN}, 0.0, [], {}]}\n',
        b'{"fn": "judge", "args": [{"mde": 1}, Infinity, [], {}]}\n',
        b'{"fn": "judge", "args": [3, 0.0, [], {}]}\n',
        b'{"fn": "judge_many", "args": [3]}\n',
        b'{"fn": "confidence", "args": [{}, {"d": {"mu1": 1, "mu0": 0, "typed_n": 1e999}}, [{"kind": "measured", '
        b'"design_id": "d", "value": 1}, {"kind": "measured", "design_id": "d", "value": 2, "run_id": 2}], {}]}\n',
        b'{"fn": "gate", "args": ' + b"[" * 100_000 + b"}\n",
        b'{"fn": "judge", "args": [{}, 0.0, [{"value": 1, "seed": {}}], {}]}\n',
    ],
)
def test_a_bad_line_is_answered_with_an_error(line: bytes) -> None:
    reply = json.loads(answer(line))
    assert list(reply) == ["error"]
    assert reply["error"]


def test_no_answer_holds_a_number_that_json_lacks() -> None:
    line = json.dumps({"fn": "confidence", "args": [HYPOTHESIS, DESIGNS, EVIDENCE, {}]})
    for wild in ("1e308", "-1e308", "1e999", "NaN", "-Infinity"):
        reply = answer(line.replace("0.9", wild).encode())
        assert "result" in json.loads(reply)
        assert "NaN" not in reply
        assert "Infinity" not in reply
        judged = json.dumps({"fn": "judge", "args": [CLAIM, BASELINE, RUNS, {}]}).replace("0.9", wild)
        assert json.loads(answer(judged.encode()))["result"]["n_measured"] >= 2
        assert "NaN" not in answer(judged.encode())
    overflow = {**DESIGNS["d"], "mu1": 1e308, "mu0": -1e308, "sigma": None, "s0": 1.0}
    request = {"fn": "confidence", "args": [HYPOTHESIS, {"d": overflow}, EVIDENCE, {}]}
    assert "Infinity" not in json.dumps(asked(request)["result"])


def test_the_program_answers_each_line_and_goes_on_after_a_bad_one() -> None:
    wanted = json.dumps({"fn": "propose", "args": [STATE, 1, {}]})
    lines = ['{"fn": "gate", "args": [[1, 1], {}]}', "broken", wanted]
    done = subprocess.run(
        [sys.executable, "-m", "perpetual.science.stdio_server"],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [next(iter(reply)) for reply in replies] == ["result", "error", "result"]
    assert replies[2]["result"] == ["c"]
    assert done.stderr == ""


def test_importing_the_core_stays_cheap() -> None:
    probe = "import sys, perpetual; old = {*sys.modules}; import perpetual.science; print(*{*sys.modules} - old)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True)
    assert not {"dataclasses", "inspect", "json", "random", "statistics"} & set(done.stdout.split())
