"""`believed`: the fold of then is what the record said then, now is now, and each change since is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from perpetual import Lab
from perpetual.api import NotFound, UsageError
from perpetual.cli.app import run
from perpetual.records import to_json
from perpetual_believed.past import believed
from perpetual_report.moments import debits_at, moment_of
from perpetual_report.snapshot import take

from .conftest import propose, settle

_SHOWN = ("statement", "prior", "status", "decided_by", "confidence", "e_support", "e_refute", "false_alarm_bound",
          "evidence_count", "effect", "sentence")  # fmt: skip


def said(lab: Lab) -> dict[str, dict[str, Any]]:
    """Every hypothesis as the record says it now."""
    return {
        item.id: {name: to_json(item).get(name) for name in _SHOWN} for item in lab.hypotheses.list(limit=100).items
    }


def assert_same(then: Mapping[str, Any], live: Mapping[str, Any]) -> None:
    """Both say the same; floats to the bit, but for what adds in another order."""
    for name in _SHOWN:
        expected = pytest.approx(live[name]) if isinstance(live[name], float) else live[name]
        assert then[name] == expected, name


def test_at_now_is_what_the_record_says(lab: Lab) -> None:
    found = believed(lab, at="now")
    live = said(lab)
    assert [item["id"] for item in found["items"]] == [*live]
    for item in found["items"]:
        assert_same(item["then"], live[item["id"]])
        assert_same(item["now"], live[item["id"]])
        assert (item["differs"], item["changes"]) == (False, [])
        assert item["said"] == {"status": item["now"]["status"], "confidence": item["now"]["confidence"]}


@pytest.mark.slow
def test_any_event_of_the_past_is_folded_as_a_report_of_then(lab: Lab) -> None:
    last = lab.feed.last()
    for seq in range(5, last, last // 4):
        found = believed(lab, at=f"seq:{seq}")
        snapshot = take(lab, seq=found["seq"], debits=debits_at(lab, found["seq"]), steps=1)
        assert [item["id"] for item in found["items"]] == [item.id for item in snapshot.hypotheses]
        for item, expected in zip(found["items"], snapshot.hypotheses, strict=True):
            assert not item["differs"]
            for name in ("status", "confidence", "e_support", "false_alarm_bound", "evidence_count", "statement"):
                assert item["then"][name] == getattr(expected, name), (seq, item["id"], name)


def test_what_was_said_at_each_deed_is_said_again(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Statements, opinions, retractions, thresholds, archived and new ones: what was captured live comes back."""
    seen: list[tuple[int, dict[str, dict[str, Any]]]] = [(lab.feed.last(), said(lab))]
    deeds = [
        lambda: lab.hypotheses.update("h4", statement="nobody has tried", tags=["new"]),
        lambda: lab.evidence.add("h4", verdict="supports", strength=1.0, why="a paper"),
        lambda: lab.evidence.add("h2", verdict="refutes", strength=1.0, why="another paper"),
        lambda: lab.evidence.retract("v1", why="the wrong file"),
        lambda: lab.settings.set_methodology("confidence_support_threshold", "0.95"),
        lambda: lab.hypotheses.add("a later idea"),
        lambda: lab.hypotheses.update("h4", status="refuted", why="seen enough"),
    ]
    for deed in deeds:
        deed()  # type: ignore[no-untyped-call]
        seen.append((lab.feed.last(), said(lab)))
    for seq, live in seen:
        found = believed(lab, at=f"seq:{seq}")
        assert [item["id"] for item in found["items"]] == [*live], seq
        for item in found["items"]:
            assert_same(item["then"], live[item["id"]])
            assert item["said"]["status"] == live[item["id"]]["status"], seq
            assert item["said"]["confidence"] in (None, live[item["id"]]["confidence"])
    first = believed(lab, at=f"seq:{seen[0][0]}")
    assert first["added"] == ["h5"]
    assert [change["subject"] for change in first["changes"]] == ["confidence_support_threshold"]
    words = {item["id"]: " | ".join(change["text"] for change in item["changes"]) for item in first["items"]}
    assert "takes back v1: the wrong file" in words["h1"]
    assert 'statement "nobody tried" -> "nobody has tried"' in words["h4"]
    assert "judged refutes: another paper" in words["h2"]
    assert words["h3"] == ""
    assert run(["believed", "h1", "--at", "now"]) == 0
    rows = next(item["now"]["evidence_count"] for item in first["items"] if item["id"] == "h1")
    assert f"{rows} rows, {rows - 2} of which count" in capsys.readouterr().out, (
        "what is taken back, and its retraction"
    )


def test_a_rule_that_has_changed_is_never_shown_as_said(lab: Lab, study: Path) -> None:
    """The status that a past version recorded is shown beside today's fold of the same evidence."""
    seq = lab.feed.last()
    real = lab.hypotheses.get("h1")
    with lab.context.store.transaction() as tx:
        document = lab.context.need("hypothesis", "h1")
        old = {**document.body, "status": "open", "confidence": 0.61}
        tx.put("hypothesis", "h1", old, expect_revision=document.revision)
    lab.evidence.refold()
    with lab.context.store.transaction() as tx:
        change = {"id": "h1", "was": {"status": "open", "confidence": 0.61}, "is": {"status": real.status}}
        lab.context.emit(tx, "rules_changed", "evidence", {"rules": 99, "hypotheses": {"h1": change}})
    found = believed(lab, "h1", at=f"seq:{seq}")
    (item,) = found["items"]
    assert item["differs"]
    assert item["said"] == {"status": "open", "confidence": 0.61}
    assert item["then"]["status"] == real.status
    assert "version 99" in found["changes"][-1]["text"]


@pytest.mark.slow
def test_runs_that_end_later_are_not_in_the_past(lab: Lab) -> None:
    seen = [(lab.feed.last(), said(lab))]
    for words, title in (("1.7 --lr 0.3", "more"), ("2.2 --lr 0.4", "worse")):
        made = propose(lab, "h1", words, title=title, replicates=2)
        seen.append((lab.feed.last(), said(lab)))
        settle(lab, made)
        seen.append((lab.feed.last(), said(lab)))
    settle(lab, lab.experiments.rebaseline("e1", replicates=2).id)
    for seq, live in seen:
        for item in believed(lab, at=f"seq:{seq}")["items"]:
            assert_same(item["then"], live[item["id"]])


def test_a_moment_is_named_in_many_ways(lab: Lab) -> None:
    last = lab.events(since=lab.feed.last() - 1)[0]
    now = datetime.fromisoformat(last.time) + timedelta(days=3)
    for text in ("now", "2d", "2 days ago", "YESTERDAY", "an hour ago", "1 week  ago"):
        if "week" in text:
            with pytest.raises(UsageError, match="nothing as early"):
                moment_of(lab, text, now=now)
        else:
            assert moment_of(lab, text, now=now).seq == last.seq, text
    first = lab.events(limit=1)[0]
    assert moment_of(lab, first.time, now=now).seq >= 1
    naive = datetime.fromisoformat(last.time).astimezone().replace(tzinfo=None).isoformat()
    found = moment_of(lab, naive, now=now)
    assert found.seq == last.seq
    assert datetime.fromisoformat(found.time).utcoffset() is not None
    assert moment_of(lab, "seq:7").seq == moment_of(lab, "seq 7").seq == 7


def test_what_is_no_moment_is_a_clear_error(lab: Lab) -> None:
    numbered = ("seq:0", "seq:99999", "seq:-1", "seq:x", "commit:HEAD", "commit:--all")
    timed = ("2999-01-01", "1999-01-01", "0001-01-01", "9999-12-31T23:59-12:00", "9" * 400, "-3d", "99999999 weeks ago")
    for text in ("", "soon", "\x1b[31m", *numbered, *timed):
        with pytest.raises(UsageError) as problem:
            believed(lab, at=text)
        assert problem.value.hint, text
    with pytest.raises(UsageError, match="at must be a text, not 5"):
        believed(lab, at=cast("str", 5))  # as a caller without types may


@pytest.mark.slow
def test_a_commit_is_a_moment(lab: Lab, study: Path) -> None:
    from dulwich import porcelain

    porcelain.init(str(study))
    porcelain.add(str(study), [str(study / "train.py")])
    now = datetime.now(UTC) + timedelta(seconds=2)  # git's times are whole seconds, and the last run ended just now
    sha = porcelain.commit(
        str(study), message=b"a paper", author=b"a <a@b>", committer=b"a <a@b>",
        commit_timestamp=int(now.timestamp()),
    ).decode()  # fmt: skip
    moment = moment_of(lab, f"commit:{sha[:10]}", now=now)
    assert moment.by == "commit"
    assert moment.seq == lab.feed.last()


@pytest.mark.slow
def test_errors_of_hypotheses(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotFound):
        believed(lab, "h99", at="now")
    added = next(event.seq for event in lab.events() if event.kind == "hypothesis_added" and event.subject == "h2")
    with pytest.raises(UsageError, match="h2 was added after"):
        believed(lab, "H2", at=f"seq:{added - 1}")
    assert run(["believed", "h1", "--at", f"seq:{added}"]) == 0
    shown = capsys.readouterr().out
    assert "then" in shown
    assert run(["believed", "--at", f"seq:{added}", "--json", "--limit", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (len(document["items"]), document["added"]) == (1, ["h3", "h4"])
