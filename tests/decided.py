"""Claims that are decided by runs, for tests of what follows from many of them."""

from __future__ import annotations

from perpetual import Lab


def decided(lab: Lab, effects: list[float]) -> None:
    """Runs a claim of each effect, against a number; noise of a tenth of the mde."""
    made = []
    for effect in effects:
        claim = lab.hypotheses.add(f"{effect} better", metric="acc", direction="max", mde=0.1, baseline=0.5)
        command = f"printf 'acc={0.5 + effect:.3f}%d' $((${{PERPETUAL_SEED}} % 10))"
        made.append(lab.experiments.propose(claim.id, command=f'sh -c "{command}"', replicates=4).id)
        lab.experiments.approve(made[-1])
        lab.runs.launch(made[-1], every=True)
    lab.wait(made, timeout_s=100)
