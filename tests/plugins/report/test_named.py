"""References by id: what is read of the record is what they name, and says what the whole record says."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PartialRecord
from perpetual.toolkit.import_records import (
    Batch,
    ImportedExperiment,
    ImportedHypothesis,
    ImportedRecord,
    ImportedRun,
)
from perpetual_report.cited import hold
from perpetual_report.moments import debits_at
from perpetual_report.related import Relations
from perpetual_report.snapshot import STEPS, everything, take
from perpetual_report.vocabulary import Vocabulary, heads_of, vocabulary_of
from tests.plugins.report.conftest import propose, settle


def _by_head(known: Vocabulary) -> dict[str, dict[str, object]]:
    """All that can be named, by what it is of; the numbers of steps apart, of which one fold has one."""
    found: dict[str, dict[str, object]] = defaultdict(dict)
    for key, item in (*known.numbers.items(), *known.words.items()):
        if ".step" not in key:
            found[key.partition(".")[0]][key] = item
    return found


def test_a_part_of_the_record_says_what_the_whole_says(lab: Lab) -> None:
    more = lab.experiments.propose(None, extends="e1", replicates=1)
    settle(lab, more.id)
    related = Relations(everything(lab.experiments.list)).related({"e2", "e99"})
    assert related == {"e1", "e2", more.id}
    shared = propose(lab, None, "1.95", title="shared by two claims", replicates=2)
    for words in ("it is better", "it is better, said again"):
        claim = lab.hypotheses.add(words, metric="loss", direction="min", mde=0.1, baseline="e1")
        lab.experiments.propose(claim.id, runs_of=shared)
    settle(lab, shared)
    taken: list[ImportedRecord] = [
        ImportedHypothesis("a", "an older claim", 0.3, "loss", "min", verdict="supported", why="a paper"),
        ImportedExperiment("b", "a", "older work", metric="loss", direction="min"),
        *(ImportedRun(f"c{n}", "b", "done", seed=n, metrics={"loss": 1.5 + n / 8}, run_hours=0.5) for n in range(3)),
    ]
    lab.imports.take(Batch("adopt", "notebook", "older", taken))
    rival = lab.hypotheses.add("a rival of warm-up", metric="loss", direction="min", mde=0.1, baseline="e2")
    lab.experiments.propose(rival.id, command="true", replicates=2, cost_run_hours=0.001)
    whole = _by_head(vocabulary_of(take(lab, steps=1)))
    heads = [head for head in whole if heads_of([f"{head}.x"]) is not None]
    assert {
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "h7",
        "e1",
        "e2",
        shared,
        "r1",
        "r4",
        "v1",
        "methodology",
        "record",
    } <= {*heads}
    for head in heads:
        part = vocabulary_of(take(lab, steps=1, of={head}), {head})
        assert _by_head(part) == {head: whole[head]}, head
    both = {"e2", "h3", "e99", "h99", "r99", "v99"}
    assert _by_head(vocabulary_of(take(lab, steps=1, of=both), both)) == {"e2": whole["e2"], "h3": whole["h3"]}


@pytest.mark.slow
def test_a_part_of_an_earlier_record_says_what_the_whole_said(lab: Lab) -> None:
    last = lab.feed.last()
    for seq in range(0, last + 1, 9):
        debits = debits_at(lab, seq)
        whole = vocabulary_of(take(lab, seq=seq, debits=debits, steps=STEPS))
        for head in ("h1", "h2", "e1", "e2", "e3", "r5", "v2", "v6"):
            part = vocabulary_of(take(lab, seq=seq, debits=debits, steps=STEPS, of={head}), {head})
            assert part.numbers == {k: v for k, v in whole.numbers.items() if k.startswith(f"{head}.")}, (seq, head)
            assert part.words == {k: v for k, v in whole.words.items() if k.startswith(f"{head}.")}, (seq, head)


def test_a_run_that_has_not_ended_is_counted_as_its_events_say(lab: Lab) -> None:
    made = propose(lab, "h4", "2.0", title="waits", replicates=1)
    lab.experiments.approve(made)
    lab.queue.set_state("paused")
    lab.runs.launch(made)
    whole, part = (_by_head(vocabulary_of(take(lab, steps=1, of=of)))[made] for of in (None, {made}))
    assert part == whole
    assert any(".runs." in key for key in part)


def test_verify_folds_what_the_references_name(lab: Lab, study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []
    asked: list[object] = []
    fold, events = PartialRecord.fold, Lab.events

    def counted(self: PartialRecord, hypothesis_id: str, **own: object) -> object:
        folded.append(hypothesis_id)
        return fold(self, hypothesis_id, **own)

    def read(self: Lab, *, since: int = 0, limit: int | None = None) -> object:
        asked.append(limit)
        return events(self, since=since, limit=limit)

    monkeypatch.setattr(PartialRecord, "fold", counted)
    monkeypatch.setattr(Lab, "events", read)
    path = study / "README.md"

    def held(text: str) -> bool:
        path.write_text(text)
        folded.clear()
        asked.clear()
        return hold(lab, path, text)["ok"]

    assert held("1<!-- perpetual: h3.runs -->") is False
    assert held("2<!-- perpetual: h3.runs -->")
    assert held("supported<!-- perpetual: h1.status --> 3<!-- perpetual: e1.n -->")
    assert folded == ["h1"]
    assert {*asked} <= {1}
    assert held("4<!-- perpetual: count.hypotheses -->")
    assert {*folded} == {"h1", "h2", "h3", "h4"}
