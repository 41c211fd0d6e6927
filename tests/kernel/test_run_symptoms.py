"""The seam of symptoms: what analysers answer about a failed run is checked, and none of them holds up its end."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import perpetual.lab
from perpetual import Lab
from perpetual.lab.context import Context
from perpetual.lab.provenance.code_check import KIND
from perpetual.lab.runs.symptoms import FAULT
from perpetual.lab.runs.time_limit import OVERRUN
from perpetual.records import Run
from perpetual.slots.analyser import KERNEL_KINDS, Analyser, RunOutput, Symptom


class _Reads(Analyser):
    """Answers what it was made with, and remembers the output that it was shown."""

    def __init__(self, answer: Callable[[], Sequence[Any]], hint: str | None = None) -> None:
        self.answer, self.advice = answer, hint
        self.shown: list[RunOutput] = []

    def analyse(self, *case: object) -> None:
        return None

    def symptoms(self, output: RunOutput) -> Sequence[Symptom]:
        self.shown.append(output)
        return self.answer()

    def hint(self, kind: str, run: Run) -> str | None:
        return self.advice and f"{kind} of {run.id}: {self.advice}"


def _leave() -> Sequence[Symptom]:
    raise SystemExit(3)


def _one(kind: str, text: Any = "it broke", source: Any = "stderr.log:1") -> Callable[[], Sequence[Symptom]]:
    return lambda: [Symptom(kind, text, source)]


def _failed(lab: Lab, monkeypatch: pytest.MonkeyPatch, *analysers: tuple[str, Analyser]) -> Run:
    """A run that failed while these analysers, in this order, were all that there are."""
    parts = Context.parts
    monkeypatch.setattr(Context, "parts", lambda self, slot: [*analysers] if slot == "analyser" else parts(self, slot))
    experiment = lab.experiments.approve(lab.experiments.propose(command="sh -c 'echo up; exit 3'").id)
    (run,) = lab.runs.launch(experiment.id)
    lab.wait([run.id], timeout_s=30.0)
    return lab.runs.get(run.id)


def test_an_analyser_is_shown_the_output_and_its_answer_is_recorded(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = _Reads(_one("flux", "the flux was\x1b[0m low" + "x" * 400), "more power\n")
    ended = _failed(lab, monkeypatch, ("acme/reads", reads))
    (note,) = ended.annotations
    assert (note["kind"], note["source"]) == ("flux", "stderr.log:1")
    assert note["text"].startswith("the flux was\\x1b[0m low")
    assert len(note["text"]) == 300
    assert {(output.status, output.stdout.read_text()) for output in reads.shown} == {("failed", "up\n")}
    assert lab.runs.hints(ended) == [f"flux of {ended.id}: more power\\n"]


def test_bundled_analysers_go_first_and_each_kind_counts_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = _failed(
        lab,
        monkeypatch,
        ("acme/reads", _Reads(lambda: [Symptom("oom", "theirs", "a"), Symptom("flux", "low", "a")])),
        ("perpetual-lab/rules", _Reads(_one("oom", "ours", "b"))),
        ("acme/again", _Reads(_one("same", "low", "c"))),
    )
    assert [(note["kind"], note["text"]) for note in ended.annotations] == [("oom", "ours"), ("flux", "low")]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_leave, "PartEnded: SystemExit: 3"),
        (_one("overrun"), "the kind overrun is the kernel's own"),
        (_one("tainted"), "the kind tainted is the kernel's own"),
        (_one("No Kind"), "is no symptom"),
        (_one(None), "is no symptom"),  # type: ignore[arg-type]
        (lambda: ["MemoryError"], "it answered 'MemoryError', which is no symptom"),
        (lambda: None, "TypeError"),
    ],
    ids=["exits", "overrun", "tainted", "no kind", "None", "text", "nothing"],
)
def test_an_analyser_that_fails_is_named_and_the_others_count(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Sequence[Any]], words: str
) -> None:
    ended = _failed(
        lab, monkeypatch, ("acme/broken", _Reads(answer)), ("acme/sound", _Reads(_one("oom", "no memory", "log:2")))
    )
    assert ended.status == "failed"
    first, fault = ended.annotations
    assert first == {"kind": "oom", "text": "no memory", "source": "log:2"}
    assert (fault["kind"], fault["source"]) == ("analyser", "acme/broken")
    assert words in fault["text"]


def test_a_kind_without_analyser_has_no_hint_and_the_kernel_s_own_has_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = _failed(lab, monkeypatch)
    assert ended.annotations == ()
    noted = replace(ended, annotations=tuple({"kind": kind, "text": "", "source": ""} for kind in ("oom", "retry")))
    assert lab.runs.hints(noted) == [f"perpetual retry {ended.id} makes a further attempt all the same"]


def test_runs_that_earlier_versions_recorded_have_hints(lab: Lab) -> None:
    """Their annotations hold kind, text and source; the bundled analyser knows every kind that was ever recorded."""
    experiment = lab.experiments.approve(lab.experiments.propose(command="sh -c 'exit 3'").id)
    (run,) = lab.runs.launch(experiment.id)
    kinds = ("oom", "killed", "shm", "disk", "import", "nccl", "cuda", "crash", "nan", "overrun", "retry")
    found = [lab.runs.hints(replace(run, annotations=({"kind": kind, "text": "", "source": ""},))) for kind in kinds]
    assert [len(hints) for hints in found] == [1] * len(kinds)
    assert all("{" not in hint for hints in found for hint in hints)


def test_every_kind_that_the_kernel_notes_is_its_own() -> None:
    """A symptom of such a kind could decide: whether a run went past its limit, or weighs nothing."""
    noted = set()
    for path in Path(perpetual.lab.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Dict):
                found = {key.value: value for key, value in zip(node.keys, node.values, strict=True)
                         if isinstance(key, ast.Constant)}  # fmt: skip
                if {*found} == {"kind", "text", "source"} and isinstance(found["kind"], ast.Constant):
                    noted.add(found["kind"].value)
    assert {"gpu", "retry", "tainted"} <= noted
    assert noted <= KERNEL_KINDS
    assert {OVERRUN, KIND, FAULT} <= KERNEL_KINDS
