"""Commands in names, parameters, variables and notes: they stay words, since no shell reads them."""

from __future__ import annotations

import json
import shlex
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.errors import PerpetualError, Refused, UsageError
from tests.faults.run_harness import LONG_S, opened

PAYLOADS = ("; touch pwned", "$(touch pwned)", "`touch pwned`", "| touch pwned", "&& touch pwned", "\n touch pwned\n",
            "' ; touch pwned ; '", '" ; touch pwned ; "', "${IFS}touch${IFS}pwned", "--help; touch pwned")  # fmt: skip
SCRIPT = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['GIVEN']])); print('loss=1')"


@pytest.mark.parametrize("payload", PAYLOADS)
def test_words_of_a_run_reach_it_as_they_are(project: Path, payload: str) -> None:
    command = shlex.join([sys.executable, "-c", SCRIPT, payload])
    with opened(project) as lab:
        made = lab.experiments.propose(
            command=command, title=payload, metric="loss", config={"lr": payload, payload: 1}, env={"GIVEN": payload},
            notes=payload, tags=["t"], wall_s=600.0,
        )  # fmt: skip
        lab.experiments.approve(made.id)
        (run,) = lab.runs.launch(made.id)
        lab.wait([run.id], timeout_s=LONG_S)
        assert lab.runs.get(run.id).status == "done"
        first = (lab.runs.log_dir(run.id) / "stdout.log").read_text().splitlines()[0]
        assert json.loads(first) == [[payload], payload]
        with suppress(Refused):  # some of them the gates know
            lab.memory.write("notes/a", f"seen: {payload} in a log", message=payload)
        lab.scan()
    assert not [*project.parent.rglob("pwned")]


@pytest.mark.parametrize("operator", ["; touch pwned", "| touch pwned", "&& touch pwned", "> pwned", "& touch pwned"])
def test_a_shell_operator_in_a_command_is_refused(project: Path, operator: str) -> None:
    with Lab.open(project) as lab, pytest.raises(UsageError, match="shell operator"):
        lab.experiments.propose(command=f"true {operator}")
    assert not (project / "pwned").exists()


@pytest.mark.parametrize("name", ["A=B", "", "A\0B", "LD PRELOAD", "X;touch pwned"])
def test_an_odd_variable_starts_nothing(project: Path, name: str) -> None:
    with opened(project) as lab, suppress(UsageError):
        made = lab.experiments.propose(command="true", env={name: "x"}, wall_s=600.0)
        lab.experiments.approve(made.id)
        (run,) = lab.runs.launch(made.id)
        lab.wait([run.id], timeout_s=LONG_S)
    assert not [*project.rglob("pwned")]


def test_a_secret_is_in_no_argument_list(project: Path) -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    with Lab.open(project) as lab, pytest.raises(PerpetualError) as refused:
        lab.experiments.propose(command=f"python train.py --token {secret}")
    assert secret not in str(refused.value)
