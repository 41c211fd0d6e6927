"""What an answer warns of: a baseline that is not measured, noise that no seed can show, a limit that was derived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from perpetual import Lab
from tests.plugins.mcp.clients import opener, talk, text_of
from tests.plugins.mcp.test_wait import waits_for

NO_NOISE = "no noise is declared, and 1 replicate cannot show how far seeds lie apart"


def asked(project: Path, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    async def deed(client: Client) -> list[dict[str, Any]]:
        found = []
        for name, given in calls:
            result = await client.call_tool(f"perpetual_{name}", given)
            assert not result.is_error, text_of(result)
            assert result.structured_content is not None
            found.append({**result.structured_content, "text": text_of(result)})
        return found

    done: list[dict[str, Any]] = talk(opener(project), deed)
    return done


def test_a_proposal_says_what_its_replicates_and_limit_mean(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.hypotheses.add("warm-up lowers it", metric="val_loss", direction="min", mde=0.05, baseline=2.3)
    base = {"hypothesis": "h1", "command": "true", "more": {"dry_run": True}}
    bare, three, known, limited, of_gpus, no_metric = asked(
        project,
        ("propose", {**base, "cost": "10m"}),
        ("propose", {**base, "replicates": 3, "cost": "10m"}),
        ("propose", {**base, "noise": 0.01, "cost": 0.001}),
        ("propose", {**base, "noise": 0.01, "cost": "10m", "wall": "2h"}),
        ("propose", {**base, "noise": 0.01, "cost": "10m", "gpus": 2}),
        ("propose", {"command": "true", "more": {"dry_run": True, "wall": 60}}),
    )
    noise, limit = bare["warnings"]
    assert noise.startswith(NO_NOISE)
    assert limit.startswith("a run is ended after 15m (1.5 times the time that its cost declares")
    assert bare["text"].endswith(f"note: {noise}\nnote: {limit}\nnothing was written")
    assert three["warnings"] == [limit]
    assert known["warnings"][0].startswith("a run is ended after 60s (")
    assert limited["warnings"] == no_metric["warnings"] == []
    assert of_gpus["warnings"][0].startswith("a run is ended after 8m (")  # of the wall clock: 10 GPU-minutes on two
    assert "/warnings" not in " ".join(bare["untrusted"])


@pytest.mark.slow
def test_a_run_says_that_its_baseline_is_not_measured(project: Path) -> None:
    with Lab.open(project) as lab:
        base = lab.experiments.propose(command=waits_for("go"), metric="val_loss", direction="min", replicates=1)
        lab.hypotheses.add("warm-up lowers it", metric="val_loss", direction="min", mde=0.05, baseline=base.id)
        lab.experiments.propose("h1", command="echo val_loss=2.0", noise=0.01, replicates=4)
        lab.experiments.approve("e2")
    head = "the baseline e1 has no measured run yet, and without one nothing is compared: "
    (waiting,) = asked(project, ("run", {"experiment": "e2"}))
    assert waiting["warnings"] == [f"{head}it waits for a person"]
    with Lab.open(project) as lab:
        lab.experiments.approve("e1")
    before, of_base, live = asked(
        project, ("run", {"experiment": "e2"}), ("run", {"experiment": "e1"}), ("run", {"experiment": "e2"})
    )
    assert before["warnings"] == [f"{head}perpetual_run starts it"]
    assert of_base["warnings"] == []
    assert live["warnings"] == [f"{head}1 run of it is live"]
    (project / "go").touch()
    done = asked(project, ("wait", {"ids": ["e1"]}), ("run", {"experiment": "e2"}))[1]
    assert done["warnings"] == []


@pytest.mark.slow
def test_the_status_says_how_long_live_runs_take(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.experiments.propose(command=waits_for("go"), cost_run_hours=0.5)
        lab.experiments.approve("e1")
        lab.runs.launch("e1")
    first, again = asked(project, ("status", {}), ("status", {}))
    assert "Now live: r1 " in first["text"]
    assert "so far of 30m declared" in first["text"]
    elapsed = [found["runs"]["active"][0]["progress"]["elapsed_s"] for found in (first, again)]
    assert elapsed[0] < elapsed[1]  # no cached answer
    (project / "go").touch()
