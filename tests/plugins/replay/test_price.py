"""Prices from the records of trials: in lists, beside a note, and in blocks whose room is short."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import PluginError
from perpetual.science.replay import STAKES
from perpetual_recall.block import memory_block
from perpetual_recall.price import Pricer, by_worth, prices_of
from perpetual_recall.testing.prices import MEASURED, PricerContract
from perpetual_replay.evalues import interval, weigh
from perpetual_replay.price import build

HELPS, OPEN, HARMS = [0.4] * 20, [0.2, -0.2] * 10, [-0.4] * 20


def measured(
    lab: Lab, path: str, differences: Sequence[float], *, tokens: Sequence[int] = (40,), canary: str = "undecided"
) -> None:
    """Records a trial of the note's newest version, with a pair for each difference, as if its runs were over."""
    runs = [*lab.runs.list(limit=1).items]
    if not runs:
        made = lab.experiments.propose(command="true", wall_s=60)
        lab.experiments.approve(made.id)
        runs = [*lab.runs.launch(made.id)]
        lab.wait([runs[0].id], timeout_s=60)
    known: dict[str, Any] = {"max_pairs": 60, "e_help": 1.0, "e_harm": 1.0, "bar": None, "voided": 0, "reason": None,
             "approved_by": None, "expires_at": "2100-01-01T00:00:00.000Z", "tasks_digest": path}  # fmt: skip
    trials = lab.records("replay.trial")
    trials.add(note=f"canary of {path[:12]}", blob="0" * 40, canary=True, tasks=[], state=canary, pairs=5, **known)
    tasks = [{"name": f"t{place}", "weight": 1.0, "tokens": count} for place, count in enumerate(tokens)]
    trial = trials.add(note=path, blob=lab.memory.get(path).blob, canary=False, tasks=tasks, state="running",
                       pairs=len(differences), **known)  # fmt: skip
    for place, difference in enumerate(differences):
        lab.records("replay.pair").append(
            trial=trial.id, place=place, task="t0", seed=place, with_first=True, run_with=runs[0].id,
            run_without=runs[0].id, score_with=0.5 + difference / 2, score_without=0.5 - difference / 2, remarks=[],
        )  # fmt: skip


@pytest.fixture
def lab(project: Path) -> Iterator[Lab]:
    with Lab.open(project) as lab:
        yield lab


@pytest.mark.slow
class TestReplayPricer(PricerContract):
    @pytest.fixture
    def pricer(self) -> Pricer:
        return build({})

    def measure(self, lab: Lab) -> None:
        measured(lab, MEASURED[0], HELPS)
        measured(lab, MEASURED[1], HARMS)

    def test_what_was_measured_has_a_price(self, pricer: Pricer, lab: Lab) -> None:
        assert {path for path, _ in pricer.prices(lab)} == {*MEASURED}


def test_a_price_is_that_of_the_pairs(lab: Lab) -> None:
    lab.memory.write("notes/a.md", "# A\nwarm-up")
    differences = [0.5, 0.1, 0.3, -0.1, 0.4, 0.3]
    measured(lab, "notes/a.md", differences, tokens=(30, 50))
    (price,) = prices_of(lab).values()
    low, high = interval(differences) or (math.nan, math.nan)
    assert (price.pairs, price.tokens) == (6, 40.0)
    assert (price.uplift, price.low, price.high) == pytest.approx((0.25, low, high))
    assert price.per_1000(price.uplift) == pytest.approx(6.25)


def test_no_price_where_the_trial_says_nothing_of_the_note(lab: Lab) -> None:
    """A trial without a pair, one whose tasks reward any note, and one in whose contexts the note had no room."""
    for name in "abc":
        lab.memory.write(f"notes/{name}.md", f"# {name}\nwarm-up")
    measured(lab, "notes/a.md", [])
    measured(lab, "notes/b.md", HELPS, canary="harms")
    measured(lab, "notes/c.md", HELPS, tokens=(0, 0))
    assert prices_of(lab) == {}


def test_the_newest_trial_with_a_pair_counts(lab: Lab) -> None:
    lab.memory.write("notes/a.md", "# A\nwarm-up")
    measured(lab, "notes/a.md", HELPS)
    measured(lab, "notes/a.md", HARMS)
    measured(lab, "notes/a.md", [])
    (price,) = prices_of(lab).values()
    assert price.uplift == pytest.approx(-0.4)


@pytest.mark.parametrize("differences", [HELPS, OPEN, HARMS, [1.0] * 9, [-1.0] * 9, [0.0], [1.0, -1.0] * 20])
def test_the_interval_is_that_of_every_mean_tried(differences: list[float]) -> None:
    """Found by halving, it has the ends between which every mean of a grid is left, and no other."""
    low, high = interval(differences) or (math.nan, math.nan)
    grid = [-1 + step / 200 for step in range(401)]
    assert [is_left(differences, mean) for mean in grid] == [
        (low < mean or low == -1.0) and (mean < high or high == 1.0) for mean in grid
    ]


def test_a_note_that_reaches_the_bar_is_shown_to_help() -> None:
    """Its interval is above 0, as its promotion says, however little."""
    differences = [0.6] * 12
    while weigh(differences[:-1]).e_help >= 20:
        differences.pop()
    low, _ = interval(differences) or (math.nan, math.nan)
    assert 0 < low < 0.1
    assert (interval(differences[:-1]) or (math.nan, math.nan))[0] <= 0


def is_left(differences: Sequence[float], mean: float) -> bool:
    """Whether no bet against the mean has won 20 at any time, as the definition has it."""
    for sign in (1, -1):
        room = 1 + sign * mean
        if room <= 0:
            if any(one != mean for one in differences):
                return False
            continue
        wealth = dict.fromkeys(STAKES, 1.0)
        for one in differences:
            wealth = {stake: had * (1 + stake * sign * (one - mean) / room) for stake, had in wealth.items()}
            if sum(wealth.values()) / len(STAKES) >= 20:
                return False
    return True


@pytest.fixture
def five(lab: Lab) -> Lab:
    """A lab with notes of every worth, the best one written last."""
    for name in ("harms", "unknown", "open", "dear", "helps"):
        lab.memory.write(f"notes/{name}.md", f"# Warm-up {name}\n{name} " + f"warm-up {name} is so. " * 12)
    measured(lab, "notes/harms.md", HARMS)
    measured(lab, "notes/open.md", OPEN)
    measured(lab, "notes/dear.md", HELPS, tokens=(400,))
    measured(lab, "notes/helps.md", HELPS)
    return lab


ORDER = [f"notes/{name}.md" for name in ("helps", "dear", "open", "unknown", "harms")]


def test_the_list_by_worth(five: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    assert [note.path for note, _ in by_worth(five)] == ORDER
    assert run(["memory", "list", "--by", "worth", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)["items"]
    assert [item["path"] for item in items] == ORDER
    assert items[3]["price"] is None
    assert items[0]["price"]["per_1000_tokens"] == pytest.approx(10.0)
    assert run(["memory", "list", "notes", "--by", "worth", "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "+0.40" in out
    assert "notes/open.md" not in out
    assert run(["memory", "list", "--by", "worth", "--cursor", "2", "--limit", "2"]) == 0
    out = capsys.readouterr().out
    assert "notes/open.md" in out.splitlines()[-4]
    assert "not measured" in out.splitlines()[-3]


def test_the_lowest_earners_leave_a_short_block_first(five: Lab) -> None:
    """At each size the block has the best notes, down to some place in the order, and none is cut but the last."""
    sizes, earlier = range(600, 20, -12), set(ORDER)
    for tokens in sizes:
        notes = memory_block(five, "warm-up", tokens=tokens).notes
        shown = {note.path for note in notes}
        assert shown == {*ORDER[: len(shown)]}
        assert shown <= earlier
        assert {note.path for note in notes if note.trimmed} <= {*ORDER[len(shown) - 1 : len(shown)]}
        earlier = shown
    assert (earlier, len(memory_block(five, "warm-up", tokens=600).notes)) == (set(), 5)


def test_notes_that_were_not_measured_share_what_the_others_leave(five: Lab) -> None:
    for name in ("one", "two"):
        five.memory.write(f"notes/{name}.md", f"# Warm-up {name}\n" + f"warm-up {name} is this. " * 12)
    notes = {note.path: note for note in memory_block(five, "warm-up", tokens=440, limit=7).notes}
    assert [path in notes for path in ORDER] == [True, True, True, True, False]
    unknown = {"notes/unknown.md", "notes/one.md", "notes/two.md"}
    assert {path for path, note in notes.items() if note.trimmed} <= unknown
    assert any(note.trimmed for note in notes.values())
    assert len(notes) == 6
    assert not notes["notes/helps.md"].trimmed


def test_what_is_on_trial_stays_in_a_short_block(five: Lab) -> None:
    text = five.memory.read("notes/harms.md")
    (only,) = memory_block(five, "warm-up", tokens=130, extra=("notes/harms.md", "note", text)).notes
    assert only.path == "notes/harms.md"


def test_without_a_trial_the_list_says_how_to_get_one(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.memory.write("notes/a.md", "# A\nwarm-up")
    assert run(["memory", "list", "--by", "worth"]) == 0
    out, err = capsys.readouterr()
    assert "not measured" in out
    assert "perpetual memory replay PATH" in err


def test_a_note_is_shown_with_its_price(five: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    def shown(path: str, *words: str) -> str:
        assert run(["memory", "show", path, *words]) == 0
        return capsys.readouterr().out

    assert "price: score +0.40 (90 % interval" in shown("notes/helps.md")
    assert "20 pairs) for 40 tokens; for 1,000 tokens +10.00" in shown("notes/helps.md")
    assert "price: not measured; to measure it: perpetual memory replay notes/unknown.md" in shown("notes/unknown.md")
    assert json.loads(shown("notes/helps.md", "--json"))["price"]["pairs"] == 20
    assert json.loads(shown("notes/unknown.md", "--json"))["price"] is None


def test_without_the_replay_gate_nothing_is_priced(
    five: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERPETUAL_WITHOUT", "replay")
    with Lab.open(five.root) as lab:
        assert prices_of(lab) == {}
        with pytest.raises(PluginError):
            lab.part("price")
    assert run(["memory", "show", "notes/helps.md"]) == 0
    assert "price:" not in capsys.readouterr().out
    assert run(["memory", "list", "--by", "worth"]) != 0


@pytest.mark.slow
def test_an_agent_reads_prices_over_mcp(lab: Lab, project: Path) -> None:
    """In a list by worth, page by page, and beside a note: that of the text that it is shown."""
    from mcp.client.client import Client

    from tests.plugins.mcp.clients import opener, talk, text_of

    for name, text in (("a", "never measured"), ("b", "it helps"), ("c", "it harms")):
        lab.memory.write(f"notes/{name}.md", f"# {name}\n\n{text}\n")
    measured(lab, "notes/b.md", HELPS)
    measured(lab, "notes/c.md", HARMS)
    lab.memory.promote("notes/b.md", "it helps")
    lab.memory.write("notes/b.md", "# b\n\na newer text\n")

    async def deed(client: Client) -> Any:
        async def memory(**arguments: object) -> Any:
            return await client.call_tool("perpetual_memory", arguments)

        whole = await memory(by="worth")
        first = await memory(by="worth", limit=2)
        rest = await memory(by="worth", limit=2, cursor=first.structured_content["next_cursor"])
        return whole, first, rest, await memory(), await memory(action="show", file="notes/b.md")

    whole, first, rest, plain, shown = talk(opener(project), deed)
    items = whole.structured_content["items"]
    assert [(item["path"], item["price"] and item["price"]["pairs"]) for item in items] == [
        ("notes/a.md", None), ("notes/b.md", None), ("notes/c.md", 20),
    ]  # fmt: skip
    assert "notes/c.md (candidate note): c: score -0.40 (90 % interval" in text_of(whole)
    assert ": not measured" in text_of(whole)
    assert first.structured_content["items"] + rest.structured_content["items"] == items
    assert {item["price"] for item in plain.structured_content["items"]} == {None}
    note = shown.structured_content["note"]
    assert "it helps" in note["content"]
    assert (note["price"]["pairs"], note["price"]["uplift"]) == (20, pytest.approx(0.4))
    assert "price: score +0.40" in text_of(shown)
