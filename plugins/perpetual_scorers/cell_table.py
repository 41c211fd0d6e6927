"""The table of cells that attack the evidence rule: one for each way in which a lab goes wrong, and what it costs.

Imported by `perpetual_scorers.cells`, which is the command, and by tests. D1 to D17 are the rows of the audit that
found these defects; a cell names the rows that it covers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from perpetual_scorers import violations as v
from perpetual_scorers.attack import Cell
from perpetual_scorers.null_worlds import World, campaign
from perpetual_scorers.violations import Rates, TestSet, mixture, rates, test_set

__all__ = ["CELLS"]

SUPPORTS = {"kind": "judged", "verdict": "supports", "strength": 1.0, "actor": v.AGENT}
REFUTES = {**SUPPORTS, "verdict": "refutes"}


def _world(name: str, defect: str, violates: str, world: World, **more: object) -> Cell:
    return replace(Cell(name, defect, violates, partial(campaign, world)), **more)  # type: ignore[arg-type]


def _dozen(**more: object) -> World:
    """Returns twelve designs of two runs each against one baseline."""
    return replace(World(designs=12, replicates=2), **more)  # type: ignore[arg-type]


def _bounds() -> Iterator[Cell]:
    for effect in (0.0, -0.5):
        yield _world(
            f"opinions-effect{effect:g}", "D1 D3",
            "An agent sets the prior to 0.75 and adds opinions of ln 3 for the claim.",
            World(effect=effect, claim={"prior": 0.75, "opinions": [SUPPORTS, {**SUPPORTS, "kind": "manual"}]}),
        )  # fmt: skip
    yield _world(
        "opinions-dozen", "D1 D3", "Prior 0.75 and opinions carry twelve designs of two runs each.",
        _dozen(claim={"prior": 0.75, "opinions": [SUPPORTS] * 5}),
    )  # fmt: skip
    yield _world(
        "opinions-against", "D1 D3", "Prior 0.25 and opinions of ln 3 refute a claim whose effect is 1 mde.",
        World(effect=1.0, claim={"prior": 0.25, "opinions": [REFUTES] * 3}), false="refuted",
    )  # fmt: skip
    yield _world(
        "uncapped", "D2", "Overwhelming truth: 10 mde at a noise of 0.5; e-BH of 3 among 20 claims needs e of 133.",
        World(effect=10.0, sigma=0.5), false="refuted", true="supported", bar=400.0 / 3, least_share=0.8,
    )  # fmt: skip
    yield _world(
        "uncapped-against", "D2", "Overwhelming loss of 10 mde: refuted with an e-value of 133.",
        World(effect=-10.0, sigma=0.5), true="refuted", bar=400.0 / 3, least_share=0.8,
    )  # fmt: skip
    for share in (0.1, 0.5):
        yield Cell(
            f"base-rate-{share:g}", "D14", f"Of the ideas {share:.0%} are true, and each is judged at prior 0.5.",
            partial(mixture, share, World(n_b=8, replicates=20)), false="by truth",
            calibrated=share == 0.5,  # at another base rate the prior is wrong, and only the family view can say so
        )  # fmt: skip
    yield _world("plain", "D15", "Nothing is violated; the first verdict is where looking stops.", World())
    yield _world(
        "plain-value", "D4", "Nothing is violated; the claim predicts a value.", World(claim={"claim": "value"})
    )
    yield _world("harm", "D15", "The treatment is half an mde worse than the baseline.", World(effect=-0.5))
    yield _world(
        "interleaved", "D13", "Nothing is violated; both arms run in random order.", World(n_b=0, interleaved=True)
    )


def _noises() -> Iterator[Cell]:
    for factor in (0.1, 0.01, 0.0):
        lie = {"noise": factor}
        says = f"The declared noise is {factor:g} of the true one"
        may = {"may_refuse": factor == 0.0}
        yield _world(f"noise-x{factor:g}-typed", "D5", f"{says}; an exact typed baseline, twelve designs of two runs.",
                     _dozen(n_b=0, typed=0, claim=lie), **may)  # fmt: skip
        yield _world(f"noise-x{factor:g}-two", "D5", f"{says}; two baseline runs, twelve designs of two runs.",
                     _dozen(n_b=2, claim=lie), **may)  # fmt: skip
        yield _world(f"noise-x{factor:g}-tau0", "D5", f"{says}, tau 0; two baseline runs for each of twelve designs.",
                     _dozen(n_b=2, own=True, claim={**lie, "tau": 0.0}), **may)  # fmt: skip
        yield _world(f"noise-x{factor:g}-one", "D5", f"{says}, tau 0; one design against one baseline run.",
                     World(n_b=1, claim={**lie, "tau": 0.0}), **may)  # fmt: skip
        yield _world(f"noise-x{factor:g}-paired", "D5", f"{says}; twelve designs of two pairs of seeds.",
                     _dozen(n_b=0, own=True, interleaved=True, claim={**lie, "paired": True}), **may)  # fmt: skip
    yield _world("noise-x10", "D5", "The declared noise is ten times the true one.", World(claim={"noise": 10.0}))
    for sigma in (0.5, 1.4, 2.0):
        for tau in (None, 0.0):
            named = "default" if tau is None else "0"
            yield _world(
                f"twelve-by-two-tau-{named}-sigma{sigma:g}", "D4",
                f"Twelve designs of two runs, an exact baseline, noise {sigma:g} mde, tau {named}.",
                _dozen(n_b=0, typed=0, sigma=sigma, claim={"tau": tau}),
            )  # fmt: skip
    yield _world("one-design-tau-0", "D4", "One design, tau 0, noise 2 mde, an exact typed baseline.",
                 World(n_b=0, typed=0, sigma=2.0, claim={"tau": 0.0}))  # fmt: skip
    yield _world("own-baselines", "D4", "Twelve designs of two runs, each with a baseline of two.",
                 _dozen(n_b=2, own=True, sigma=2.0, claim={"tau": 0.0}))  # fmt: skip
    yield _world("opportunist", "D4", "A design is left as soon as its mean looks bad, and the next is begun.",
                 World(designs=12, replicates=6, opportunist=True))  # fmt: skip
    yield _world("opportunist-own", "D4", "The same, each design with a baseline of its own, interleaved.",
                 World(designs=12, replicates=4, n_b=0, own=True, interleaved=True, opportunist=True))  # fmt: skip
    yield _world("luck-as-declared", "D4", "Each of ten implementations has luck of 0.25 mde, which tau allows.",
                 World(designs=10, replicates=4, sigma=0.5, luck=0.25))  # fmt: skip


def _baselines() -> Iterator[Cell]:
    stated = ("typed_baseline",)
    for runs in (1, 3):
        for sigma in (0.5, 1.0, 2.0):
            yield _world(f"typed-of-{runs}-sigma{sigma:g}", "D11",
                         f"A bare number was the mean of {runs} runs with noise {sigma:g} mde.",
                         World(n_b=0, typed=runs, sigma=sigma), seen=False, cautions=stated)  # fmt: skip
        yield _world(f"typed-n-{runs}", "D11", f"A typed baseline declares that it was the mean of {runs} runs.",
                     World(n_b=0, typed=runs, with_n=True))  # fmt: skip
        yield _world(f"typed-n-{runs}-ten", "D11", f"Ten designs of two runs share a typed mean with n = {runs}.",
                     World(designs=10, replicates=2, n_b=0, typed=runs, with_n=True))  # fmt: skip
    yield _world("lone-baseline-sd-x4", "D8", "The one run of the baseline is four times as noisy as the treatment.",
                 World(n_b=1, sigma=4.0, sigma_t=1.0, claim={"tau": 0.0}),
                 seen=False, cautions=("lone_baseline",), covers=False)  # fmt: skip
    yield _world("typed-worst-of-5", "D11", "A bare number was the worst of five runs.",
                 World(n_b=0, typed=1, worst_of=5), seen=False, cautions=stated)  # fmt: skip
    for trials in (5, 10, 30):
        yield Cell(f"rate-typed-{trials}", "D11", f"A bare rate came from {trials} trials.",
                   partial(rates, Rates(n_b=trials, typed=True)), seen=False, cautions=stated)  # fmt: skip
        yield Cell(f"rate-typed-n-{trials}", "D11", f"A typed rate declares its {trials} trials.",
                   partial(rates, Rates(n_b=trials, typed=True, with_n=True)), covers=True)  # fmt: skip
        yield Cell(f"rate-runs-{trials}", "D11", f"The baseline of a rate is {trials} runs.",
                   partial(rates, Rates(n_b=trials)))  # fmt: skip
    yield Cell("rate-runs-high", "D11", "Rates near 1: the baseline's ten runs often all succeed.",
               partial(rates, Rates(rate=0.9, mde=0.09)))  # fmt: skip
    yield Cell("rate-runs-10-ten", "D11 D12", "Ten designs of six runs share the ten runs of a rate's baseline.",
               partial(rates, Rates(designs=10, replicates=6)))  # fmt: skip
    yield Cell("rate-at-least", "D10 D11", "A rate claims to rise by at least 0.3 and rises by 0.2.",
               partial(rates, Rates(effect=0.2, mde=0.3, n_b=30, claim={"claim": "at_least"})))  # fmt: skip
    for n_b in (1, 2, 4, 8, 16):
        yield _world(f"shared-baseline-{n_b}", "D12", f"Ten designs of two runs share a baseline of {n_b} runs.",
                     World(designs=10, replicates=2, n_b=n_b))  # fmt: skip
    yield _world("shared-baseline-rounds", "D12", "Ten designs take turns and share a baseline of two runs.",
                 World(designs=10, replicates=3, n_b=2, rounds=True))  # fmt: skip
    for n_b in (2, 4):
        yield _world(f"relabelled-{n_b}", "D12",
                     f"Twelve designs are the same code and luck under new names; a baseline of {n_b} runs.",
                     _dozen(n_b=n_b, sigma=0.5, luck=0.25, same_luck=True,
                            codes=(("a",), ("c",)), claim={"changes": ["code"]}))  # fmt: skip
    yield _world("options-same-code", "D12", "Twelve designs differ by an option only, all on the baseline's code.",
                 _dozen(codes=(("a",), ("a",))))  # fmt: skip


def _variances() -> Iterator[Cell]:
    for spread in (2.0, 4.0, 8.0):
        for n_b in (4, 8, 16):
            yield _world(f"treatment-sd-x{spread:g}-baseline{n_b}", "D8",
                         f"The treatment is {spread:g} times as noisy as a baseline of {n_b} runs.",
                         World(n_b=n_b, sigma=0.5, sigma_t=0.5 * spread))  # fmt: skip
    yield _world("treatment-sd-x4-dozen", "D8", "Twelve designs of two runs, four times as noisy as the baseline.",
                 _dozen(n_b=8, sigma=0.5, sigma_t=2.0))  # fmt: skip
    for spread in (0.25, 4.0, 8.0):
        for n_b, n in ((2, 2), (4, 2), (4, 4)):
            yield _world(f"own-baselines-sd-x{spread:g}-{n}v{n_b}", "D4 D8",
                         f"Twelve designs of {n} runs, {spread:g} times as noisy as their own {n_b} baseline runs.",
                         _dozen(n_b=n_b, own=True, replicates=n, sigma_t=spread, unpaired=True,
                                claim={"tau": 0.0}))  # fmt: skip
    yield _world("own-baselines-sd-x4-turns", "D4 D8",
                 "Twelve designs take turns, four times as noisy as their own baselines, which grow with them.",
                 _dozen(n_b=0, own=True, interleaved=True, rounds=True, replicates=4, sigma_t=4.0,
                        unpaired=True, claim={"tau": 0.0}))  # fmt: skip
    yield _world("opportunist-own-sd-x4", "D4 D8",
                 "A design that looks bad is left; each has its own baseline, a quarter as noisy.",
                 World(designs=12, replicates=4, n_b=0, own=True, interleaved=True, opportunist=True,
                       sigma_t=4.0, unpaired=True, claim={"tau": 0.0}))  # fmt: skip
    yield _world("baseline-sd-x8", "D8", "Four baseline runs are eight times as noisy as the treatment.",
                 World(n_b=4, sigma=4.0, sigma_t=0.5))  # fmt: skip
    yield _world("baseline-sd-x8-dozen", "D8", "Twelve designs share four baseline runs, eight times as noisy.",
                 _dozen(n_b=4, sigma=4.0, sigma_t=0.5))  # fmt: skip
    for name, noise, says in (
        ("t3", v.t3, "Student's t on 3 degrees of freedom"),
        ("t2", v.t2, "Student's t on 2 degrees of freedom"),
        ("lognormal", v.lognormal, "log-normal, skewed to good results"),
        ("lognormal-losses", v.lognormal_losses, "log-normal, skewed to bad results"),
        ("divergence", v.diverging, "normal, with one run of ten 20 sd worse"),
    ):
        yield _world(f"tails-{name}", "D16", f"The noise of both arms is {says}.", World(n_b=8, noise=noise))
        yield _world(f"tails-{name}-dozen", "D16", f"Twelve designs of two runs; the noise of both arms is {says}.",
                     _dozen(noise=noise))  # fmt: skip
    for n_b in (4, 8):
        for odd in (-6.0, -20.0):
            yield _world(f"baseline-outlier{odd:g}-{n_b}", "D16",
                         f"One of {n_b} baseline runs diverged to {odd:g} mde.",
                         World(n_b=n_b, sigma=0.5, outlier_b=odd, replicates=20))  # fmt: skip
    yield _world("baseline-outlier-dozen", "D16", "One of four baseline runs of twelve designs diverged to -6 mde.",
                 _dozen(sigma=0.5, outlier_b=-6.0))  # fmt: skip
    yield _world("treatment-outlier-first", "D16", "The first treatment run is 6 mde above all others.",
                 World(sigma=0.5, outlier_t=6.0, outlier_at=0))  # fmt: skip
    yield _world("treatment-outlier", "D16", "One treatment run is 20 mde above all others.", World(outlier_t=20.0))
    for step in (0.5, 1.0, 3.0):
        yield _world(f"rounded-{step:g}", "D4", f"Values are rounded to {step:g} mde, with noise 1: many are equal.",
                     World(n_b=4, step=step))  # fmt: skip
    yield _world("rounded-dozen", "D4", "Twelve designs of two runs, values rounded to twice the noise.",
                 _dozen(n_b=2, sigma=0.5, step=1.0))  # fmt: skip


def _losses() -> Iterator[Cell]:
    for name, loss, says in (
        ("killed-early", v.killed_early, "The agent kills treatment runs that look bad midway (rho 0.7)."),
        ("killed-late", v.killed_late, "The agent kills treatment runs that would lose, just before they end."),
        ("all-bad-lost", v.all_bad_lost, "Every treatment run below its mean is lost."),
        ("exit-1", v.bad_half_fails, "The program exits 1 when it is losing."),
        ("timeouts", v.slow_when_bad, "Treatment runs that are half a sigma below their mean time out."),
    ):
        yield _world(name, "D9", says, World(replicates=24, loss=loss), covers=False)
    yield _world("killed-early-dozen", "D9", "The agent kills what looks bad midway, in twelve designs of three runs.",
                 _dozen(replicates=3, loss=v.killed_early), covers=False)  # fmt: skip
    yield _world("killed-early-paired", "D9", "The agent kills what looks bad midway; seeds are paired (rho 0.5).",
                 World(replicates=24, n_b=0, interleaved=True, rho=0.5, loss=v.killed_early, claim={"paired": True}),
                 covers=False)  # fmt: skip
    for n_b in (4, 8):
        yield _world(f"divergence-rule-{n_b}", "D9",
                     f"Runs of either arm fail below -1 sigma of {n_b} baseline runs; the treatment is twice as noisy.",
                     World(replicates=24, n_b=n_b, sigma=0.5, sigma_t=1.0, loss=partial(v.diverges_below, -1.0, 2.0)),
                     covers=False)  # fmt: skip
    yield _world("baseline-killed", "D9", "The agent kills baseline runs that look good midway; both arms interleaved.",
                 World(replicates=24, n_b=0, interleaved=True, loss=v.good_baseline_killed), covers=False)  # fmt: skip
    yield _world("killed-to-refute", "D9", "The agent kills good treatment runs of a claim whose effect is 1 mde.",
                 World(replicates=24, effect=1.0, loss=v.good_treatment_killed),
                 false="refuted", covers=False)  # fmt: skip
    yield _world("crashes-at-random", "D9", "One run of ten crashes in either arm, whatever it would have given.",
                 World(replicates=16, loss=v.crashes_at_random))  # fmt: skip


def _claims() -> Iterator[Cell]:
    for effect in (0.0, 0.5, 0.75, 0.9, 1.0):
        for sigma in (0.5, 1.0):
            yield _world(f"at-least-{effect:g}-sigma{sigma:g}", "D10",
                         f"The claim is at least the mde, the effect {effect:g} of it, noise {sigma:g} mde.",
                         World(effect=effect, sigma=sigma, replicates=20, n_b=8,
                               claim={"claim": "at_least"}))  # fmt: skip
    yield _world("at-least-ten-names", "D10", "Twelve names of one code claim at least the mde; the effect is 0.6.",
                 _dozen(effect=0.6, sigma=0.5, codes=(("a",), ("a",)), claim={"claim": "at_least"}))  # fmt: skip
    for effect in (1.0, 1.5):
        yield _world(f"at-least-true-{effect:g}", "D10", f"The claim is at least the mde, the effect {effect:g} of it.",
                     World(effect=effect, sigma=0.5, replicates=20, n_b=8, claim={"claim": "at_least"}),
                     false="refuted")  # fmt: skip
    yield _world("improves-true", "D10", "The claim is an improvement, the effect exactly the mde.",
                 World(effect=1.0, replicates=20), false="refuted")  # fmt: skip
    yield _world(
        "any-none", "D17", "The claim is any effect; there is none.", World(replicates=24, claim={"claim": "any"})
    )
    yield _world("any-dozen", "D17", "The claim is any effect, in twelve designs of two runs; there is none.",
                 _dozen(claim={"claim": "any"}))  # fmt: skip
    yield _world("any-treatment-sd-x4", "D8 D17", "The claim is any effect; the treatment is four times as noisy.",
                 World(n_b=16, sigma=0.5, sigma_t=2.0, claim={"claim": "any"}))  # fmt: skip
    for effect in (0.1, 0.2):
        yield _world(f"any-{effect:g}-sd", "D17", f"The claim is any effect; there is one of {effect:g} sd.",
                     World(effect=effect, replicates=40, n_b=0, typed=0, claim={"claim": "any"}),
                     false="refuted")  # fmt: skip
    yield _world("any-0.2-sd-runs", "D17", "The claim is any effect; there is one of 0.2 sd against 40 baseline runs.",
                 World(effect=0.2, replicates=60, n_b=40, claim={"claim": "any"}), false="refuted")  # fmt: skip


def _records() -> Iterator[Cell]:
    for bias in (0.5, 2.0):
        yield _world(f"stale-bias{bias:g}", "D6",
                     f"The evaluation was mended between baseline and claim; it gives {bias:g} mde more.",
                     World(codes=(("a",), ("mended",)), bias=bias),
                     seen=False, cautions=("stale",), covers=False, stays_open=True)  # fmt: skip
    # Runs on other code may be set aside, which must be named; then what is left may decide.
    yield _world("stale-replicates", "D6", "Replicates are on two commits: the baseline's, and a mended one.",
                 World(codes=(("a",), ("a", "mended")), bias=2.0), cautions=("stale",), covers=False)  # fmt: skip
    yield _world("stale-baseline", "D6", "Half the baseline is on a commit whose evaluation gives 2 mde less.",
                 World(codes=(("a", "mended"), ("a",)), bias=-2.0), cautions=("stale",), covers=False)  # fmt: skip
    yield _world("code-is-treatment", "D6", "Code differs, as the claim declares; nothing is violated.",
                 World(codes=(("a",), ("c",)), claim={"changes": ["code"]}))  # fmt: skip
    for size in (100, 1000):
        for shows, sees in (("nothing", False), ("count", True), ("scores", True)):
            if (size, shows) == (1000, "scores"):
                continue  # a list of 1,000 scores for each run is slow, and adds nothing to 100
            yield Cell(f"one-set-{size}-{shows}", "D7",
                       f"Two equally good models on one test set of {size} items; the runs show {shows}.",
                       partial(test_set, TestSet(size=size, shows=shows)), seen=sees, covers=sees,
                       cautions=() if sees else ("one_test_set",))  # fmt: skip
    yield Cell("one-set-100-scores-alike", "D7", "The same, and nine items of ten are equally hard for both models.",
               partial(test_set, TestSet(same=0.9, shows="scores")))  # fmt: skip
    yield Cell("one-set-100-count-six", "D7", "Six designs of two runs share one test set of 100 items, as declared.",
               partial(test_set, TestSet(shows="count", designs=6, replicates=2)))  # fmt: skip
    yield Cell("one-set-100-scores-six", "D7", "Six designs of two runs share one test set, with scores per item.",
               partial(test_set, TestSet(shows="scores", designs=6, replicates=2)))  # fmt: skip


def _times() -> Iterator[Cell]:
    for name, drift, says in (
        ("ar1", v.autoregressive, "an AR(1) of 0.8, sd 1 mde"),
        ("walk", v.random_walk, "a random walk of 0.3 mde a run"),
        ("trend", v.trend, "a trend of 0.15 mde a run"),
    ):
        yield _world(f"drift-{name}-separated", "D13", f"The machine drifts by {says}; the baseline ran first.",
                     World(n_b=8, sigma=0.3, drift=drift), seen=False, cautions=("drift",), covers=False)  # fmt: skip
        yield _world(f"drift-{name}-interleaved", "D13", f"The machine drifts by {says}; both arms are interleaved.",
                     World(n_b=0, sigma=0.3, interleaved=True, drift=drift))  # fmt: skip
    for rho in (0.3, 0.5):
        luck = {"luck": rho**0.5, "sigma": (1 - rho) ** 0.5, "luck_b": True}
        yield _world(f"correlated-{rho:g}", "D13", f"Seeds of one implementation correlate by {rho:g}.",
                     replace(World(n_b=8), **luck),
                     seen=False, cautions=("correlated_seeds",), covers=False)  # fmt: skip
        yield _world(f"correlated-{rho:g}-dozen", "D13", f"Seeds correlate by {rho:g} in twelve designs of three runs.",
                     _dozen(n_b=8, replicates=3, **luck),
                     seen=False, cautions=("correlated_seeds",), covers=False)  # fmt: skip
    yield _world("luck-tau-0", "D4 D13", "Twelve implementations have luck of 0.5 mde; tau 0 is declared.",
                 _dozen(n_b=8, replicates=4, sigma=0.5, luck=0.5, claim={"tau": 0.0}),
                 seen=False, cautions=("correlated_seeds",), covers=False)  # fmt: skip
    for jitter in (0.0, 0.02):
        yield _world(f"repeated-seeds-jitter{jitter:g}", "D13", f"Each seed runs four times, {jitter:g} sigma apart.",
                     World(n_b=4, repeat=4, jitter=jitter, replicates=20))  # fmt: skip
    for rho in (0.0, 0.5, 0.8, -0.3):
        for paired in (True, False):
            said = "is declared paired" if paired else "is not paired"
            yield _world(f"{'paired' if paired else 'same-seeds'}-rho{rho:g}", "D13",
                         f"Seeds are shared by the arms and correlate by {rho:g}; the claim {said}.",
                         World(n_b=0, interleaved=True, rho=rho, claim={"paired": paired}))  # fmt: skip
    yield _world("paired-rho-0.3-dozen", "D13", "Twelve designs of two pairs, seeds correlate by -0.3.",
                 _dozen(n_b=0, interleaved=True, own=True, rho=-0.3, claim={"paired": True}))  # fmt: skip
    yield _world("paired-baseline-first", "D13", "Six baseline runs were first; claims take their seeds (rho 0.8).",
                 World(n_b=6, rho=0.8, claim={"paired": True}))  # fmt: skip


def _power() -> Iterator[Cell]:
    found = {"false": "refuted", "true": "supported"}
    yield _world("power-outlier", "D16", "True effect of 2 mde, noise 0.5; the first run diverged to -10 mde.",
                 World(effect=2.0, sigma=0.5, replicates=20, outlier_t=-10.0, outlier_at=0), **found)  # fmt: skip
    for effect in (1.0, 2.0):
        for sigma in (0.5, 0.7, 1.0):
            for n_b in (4, 8, 16):
                yield _world(f"power-{effect:g}-sigma{sigma:g}-baseline{n_b}", "power",
                             f"True effect of {effect:g} mde, noise {sigma:g}, {n_b} baseline runs.",
                             World(effect=effect, sigma=sigma, n_b=n_b, replicates=40), **found)  # fmt: skip
    for rho in (0.0, 0.5, 0.8, 0.95):
        yield _world(f"power-paired-rho{rho:g}", "power", f"True effect of 1 mde, noise 1, pairs correlate by {rho:g}.",
                     World(effect=1.0, n_b=0, interleaved=True, rho=rho, replicates=40, claim={"paired": True}),
                     **found)  # fmt: skip
    yield _world("power-code", "power", "True effect of 2 mde; the code is the treatment, as declared.",
                 World(effect=2.0, sigma=0.7, replicates=20, codes=(("a",), ("c",)), claim={"changes": ["code"]}),
                 **found)  # fmt: skip
    yield _world("power-crashes", "power", "True effect of 1 mde, noise 0.5; one run of ten crashes at random.",
                 World(effect=1.0, sigma=0.5, n_b=8, replicates=40, loss=v.crashes_at_random), **found)  # fmt: skip
    yield _world("power-at-least", "power", "The claim is at least the mde; the effect is twice it, noise 0.5.",
                 World(effect=2.0, sigma=0.5, n_b=8, replicates=40, claim={"claim": "at_least"}), **found)  # fmt: skip
    yield _world("power-ten-designs", "power", "True effect of 1 mde in ten designs of two runs, noise 0.7.",
                 World(designs=10, replicates=2, effect=1.0, sigma=0.7, n_b=8), **found)  # fmt: skip
    yield Cell("power-rate", "power", "A rate rises from 0.5 to 0.8; thirty baseline runs.",
               partial(rates, Rates(effect=0.3, mde=0.3, n_b=30)), **found)  # type: ignore[arg-type]  # fmt: skip


_FAMILIES = (_bounds, _noises, _baselines, _variances, _losses, _claims, _records, _times, _power)
CELLS: dict[str, Cell] = {cell.name: cell for family in _FAMILIES for cell in family()}
