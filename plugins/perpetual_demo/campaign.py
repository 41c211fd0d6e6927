"""The demo's campaign as data: five hypotheses about the n-gram model of `train.py`, and their mirror images.

Imported by the demo's command and by the tests. Effects and run times below were measured with 33 to 64 seeds an arm
on Python 3.11, 3.12 and 3.13, whose documentation texts differ; an effect is what the treatment saves, in bits per
character. In 300 draws of the seeds from 30 measured ones (Python 3.11) each of the four decided claims came out as
expected with an e-value of 20 or more, and so did its mirror image. The open one stayed open in 297, its mirror image
in 298.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "CAMPAIGN",
    "COST_RUN_HOURS",
    "DIRECTION",
    "FIXED_PROJECT_ID",
    "MAX_CONCURRENT_RUNS",
    "METRIC",
    "MIN_REPLICATES",
    "REPLICATES",
    "SURE",
    "Claim",
    "Expected",
    "swapped",
]

Expected = Literal["supported", "refuted", "open"]

# Seeds derive from the project id: with a fixed one, every demo on the same Python trains on the same texts.
FIXED_PROJECT_ID = "perpetual-demo-0001"
METRIC = "val_bpc"
DIRECTION = "min"
REPLICATES = 4  # of each arm, at most
MIN_REPLICATES = 2  # of the treatment, before a verdict
SURE = 0.96  # confidence for a verdict: odds of 24 to 1, so that "Helps" is said (e of 20) and not "Leans to help"
MAX_CONCURRENT_RUNS = 2
COST_RUN_HOURS = 0.0001  # declared cost of a run: 0.1 to 0.4 s of one core

_MIRRORED: dict[Expected, Expected] = {"supported": "refuted", "refuted": "supported", "open": "open"}


@dataclass(frozen=True)
class Claim:
    """A hypothesis: the treatment's val_bpc is lower than the baseline's, by any amount. It is planned for `mde`.

    `baseline` and `treatment` are what follows `train.py` on the command line. `expected` is the verdict that the
    measured effect leads to. `mirror` is the statement of the opposite claim, with the arms exchanged. A paired
    treatment trains on the baseline's seeds, so on the same texts.
    """

    key: str
    statement: str
    mirror: str
    baseline: str
    treatment: str
    mde: float
    expected: Expected
    paired: bool = True

    def swapped(self) -> Claim:
        """Returns the opposite claim: what was the baseline is now the treatment."""
        return Claim(
            key=self.key,
            statement=self.mirror,
            mirror=self.statement,
            baseline=self.treatment,
            treatment=self.baseline,
            mde=self.mde,
            expected=_MIRRORED[self.expected],
            paired=self.paired,
        )


def swapped() -> tuple[Claim, ...]:
    """Returns the campaign with the two arms of every claim exchanged.

    What was supported is now to be refuted and the reverse; what stays open stays open. A lab whose verdicts do not
    turn with the arms is deaf to the evidence.
    """
    return tuple(claim.swapped() for claim in CAMPAIGN)


CAMPAIGN: tuple[Claim, ...] = (
    Claim(  # effect +0.55 to +0.60, sd of the arms .03/.06
        key="context",
        statement="With Witten-Bell smoothing, a 5-gram model predicts unseen documentation better than a 3-gram "
        "model.",
        mirror="With Witten-Bell smoothing, a 3-gram model predicts unseen documentation better than a 5-gram model.",
        baseline="--order 3 --smoothing witten-bell",
        treatment="--order 5 --smoothing witten-bell",
        mde=0.3,
        expected="supported",
    ),
    Claim(  # effect +0.59 to +0.62, sd of the arms .07-.10/.05
        key="data",
        statement="A 5-gram model trained on 80,000 characters predicts unseen documentation better than one trained "
        "on 20,000.",
        mirror="A 5-gram model trained on 20,000 characters predicts unseen documentation better than one trained "
        "on 80,000.",
        baseline="--order 5 --smoothing witten-bell --chars 20000",
        treatment="--order 5 --smoothing witten-bell --chars 80000",
        mde=0.3,
        expected="supported",
    ),
    Claim(  # effect -0.37 to -0.38, sd of the arms .03/.02
        key="laplace",
        statement="In a 3-gram model, adding 1 to every count (Laplace) predicts unseen documentation better than "
        "adding 0.01.",
        mirror="In a 3-gram model, adding 0.01 to every count predicts unseen documentation better than adding 1 "
        "(Laplace).",
        baseline="--order 3 --smoothing add --k 0.01",
        treatment="--order 3 --smoothing add --k 1",
        mde=0.2,
        expected="refuted",
    ),
    Claim(  # effect -0.35 to -0.38, sd of the arms .05/.04
        key="interpolation",
        statement="In a 4-gram model, adding 0.1 to every count predicts unseen documentation better than Witten-Bell "
        "interpolation.",
        mirror="In a 4-gram model, Witten-Bell interpolation predicts unseen documentation better than adding 0.1 to "
        "every count.",
        baseline="--order 4 --smoothing witten-bell",
        treatment="--order 4 --smoothing add --k 0.1",
        mde=0.2,
        expected="refuted",
    ),
    # Effect +0.007, sd of the arms .05/.05: on texts of their own four replicates tell it neither from 0 nor from 0.02.
    # On the same texts they would: the differences have an sd of .002.
    Claim(
        key="discount",
        statement="In a 5-gram model with absolute discounting, a discount of 0.85 predicts unseen documentation "
        "better than 0.75.",
        mirror="In a 5-gram model with absolute discounting, a discount of 0.75 predicts unseen documentation "
        "better than 0.85.",
        baseline="--order 5 --smoothing discount --discount 0.75",
        treatment="--order 5 --smoothing discount --discount 0.85",
        mde=0.02,
        expected="open",
        paired=False,
    ),
)
