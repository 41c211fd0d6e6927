"""Documents of `perpetual bench-policy`, `aa` and `sweep`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = [
    "Aa",
    "AaDrift",
    "AaPlan",
    "AaRule",
    "AaRun",
    "BenchPolicy",
    "ParameterImportance",
    "PolicyComparison",
    "PolicyResult",
    "PolicySaidTrue",
    "StoppingSaving",
    "SweepClaim",
    "SweepClaimed",
    "SweepDocument",
    "SweepImportance",
    "SweepImportanceDocument",
    "SweepLine",
    "SweepParameter",
    "SweepReported",
    "SweepSetting",
]

SettingValue = str | int | float | bool


class PolicySaidTrue(TypedDict):
    """Of the hypotheses said to be true with at least 0.8: how many, the share that is, and the mean confidence."""

    n: int
    true_share: float | None
    mean_confidence: float | None


class PolicyResult(TypedDict):
    """What a policy did in one cell; where `problem` says how it broke its contract, the figures are null.

    `low` and `high` bound `run_hours`, the mean of a campaign, by a 95 % bootstrap over campaigns; `right_40`, right
    verdicts after 40 run-hours, has `right_40_low` and `right_40_high`. `half_hours` are run-hours until half of the
    hypotheses are rightly decided. `undecided` is of the hypotheses of a campaign, in the mean. `error_rate` is of the
    decided ones. `false_support_rate` is the share of those without an effect that were said to be supported; optional
    stopping can bring it to `false_support_bound` at most.
    """

    policy: str
    threshold: float
    batch: int
    world: str
    menu: str
    base_rate: float
    seed_correlation: float
    episodes: int
    run_hours: float | None
    low: float | None
    high: float | None
    half_hours: float | None
    right_10: float | None
    right_20: float | None
    right_40: float | None
    right_40_low: float | None
    right_40_high: float | None
    right_80: float | None
    right: float | None
    runs: float | None
    error_rate: float | None
    undecided: float | None
    brier: float | None
    ece: float | None
    said_true: PolicySaidTrue | None
    false_support_rate: float | None
    false_support_bound: float
    problem: str | None


class PolicyComparison(TypedDict):
    """A policy against another one on the same campaigns; ratios of means, with 95 % bootstrap intervals.

    `right_ratio` is of right verdicts after 40 run-hours (above 1: better), `hours_ratio` of run-hours until half of
    the hypotheses are rightly decided (below 1: better), `total_ratio` of those until all are decided. Null where the
    other one has nothing to be compared with. `threshold` is that of the policy; where it differs from
    `against_threshold` it is the lowest at which the policy errs at most as often as the other one (`equal_error`).
    `says` is helps, worse, or no difference, as the interval of the difference of right verdicts lies.
    """

    policy: str
    against: str
    threshold: float
    against_threshold: float
    batch: int
    equal_error: bool
    error_rate: float | None
    against_error_rate: float | None
    right_ratio: float | None
    right_low: float | None
    right_high: float | None
    hours_ratio: float | None
    hours_low: float | None
    hours_high: float | None
    total_ratio: float | None
    total_low: float | None
    total_high: float | None
    says: str


class StoppingSaving(TypedDict):
    """What a stopper saves of the run-hours of the first policy, on the same campaigns.

    `saved` is a share with its 95 % bootstrap interval over campaigns. `threshold` is that of the campaigns with
    stopping and `full_threshold` that of those whose runs are all completed; at `equal_error` each is the lowest that
    was tried at which it errs at most as often as campaigns without stopping do at the threshold that was asked for.
    Errors are of decided hypotheses, false support of those without an effect; `right` and `undecided` are means of a
    campaign of twelve.
    """

    stopper: str
    threshold: float
    full_threshold: float
    batch: int
    equal_error: bool
    saved: float | None
    saved_low: float | None
    saved_high: float | None
    error_rate: float | None
    full_error_rate: float | None
    false_support_rate: float | None
    full_false_support_rate: float | None
    right: float
    full_right: float
    undecided: float
    full_undecided: float


class BenchPolicy(TypedDict):
    """Policies compared in simulated research; `path` is the file that was written, if one was.

    `stopping` is what early stopping saves, empty unless it was asked for; `curve_correlation` is that of a run's value
    at a quarter of its steps with its last one.
    """

    seed: int
    episodes: int
    world: str
    menu: str
    base_rate: float
    seed_correlation: float
    curve_correlation: float
    results: list[PolicyResult]
    comparisons: list[PolicyComparison]
    stopping: list[StoppingSaving]
    path: str | None


class AaRun(TypedDict):
    """A run of an A/A test, in the order of launches; `run_id` is null before it is launched."""

    arm: str
    experiment_id: str | None
    replicate: int
    seed: int
    shared: bool  # the other arm has a run on the same seed
    run_id: str | None


class AaPlan(TypedDict):
    """What `perpetual aa` would run: the hours are of the runs that are missing.

    `gpu_hours` and `run_hours` are the worst case that is reserved, `expected_run_hours` what the experiment's own runs
    took, null where it has none. `needs_approval` says whether a person approves the arms by running it.
    """

    experiment_id: str
    test: int
    arms: list[str]
    command: str | None
    metric: str
    direction: str
    runs: list[AaRun]
    missing: int
    needs_approval: bool
    gpu_hours: float
    run_hours: float
    expected_run_hours: float | None


class AaRule(TypedDict):
    """How often a rule of decision said "improved" where nothing was changed.

    `said_improved` is the share of `splits` comparisons of `runs` runs each (all that there are where `all_splits`),
    null where there are too few seeds; `low` and `high` bound the rate at 95 % for any distribution of the noise.
    `promised` is what the rule is taken to promise, `normal` what independent normal noise makes of it. `in_order` is
    the share where the baseline's runs were all launched before the treatment's, which is where drift shows.
    """

    rule: str
    said_improved: float | None
    low: float | None
    high: float | None
    runs: int
    splits: int
    all_splits: bool
    promised: float | None
    normal: float | None
    in_order: float | None
    advice: str


class AaDrift(TypedDict):
    """Whether values depend on when they were launched; `found` is null where there are too few runs to ask.

    `slope` is per launch, in the metric's units, with the 95 % interval of a randomisation test; `lag1` is the
    correlation of each value with the next. `shift` is the newest runs' mean less that of those launched apart from
    them before. The p-values are two-sided; `found` is that one of them, times their number, is at most 0.05.
    `later_better` is the share of pairs in which the later run is the better one.
    """

    found: bool | None
    slope: float | None
    slope_low: float | None
    slope_high: float | None
    p_slope: float | None
    lag1: float | None
    p_lag1: float | None
    shift: float | None
    p_shift: float | None
    later_better: float | None


class Aa(TypedDict):
    """An A/A test: what runs between which nothing was changed say of the set-up, and of rules of decision.

    `n` values are looked at, on `seeds` different seeds: those of both arms, and `own` of the experiment itself.
    `pairs` of the arms' runs gave a value on both sides, `shared_pairs` of them on one seed. `without_value` runs of
    the arms gave none, `other_version` runs are left out since they are of other code, data or environment.
    Noise is the sd of a run; `item_luck` the sd, at most, of the difference of two equally good models on `items`
    test items, and `item_rate` the mean of the metric where it may be a rate. `low` and `high` are 95 % intervals.
    `mde` is the effect that the advice and the lab's own rule are about: a claim's, or where `mde_is_noise` one sd of
    the noise.
    """

    experiment_id: str
    test: int | None
    arms: list[str]
    metric: str
    direction: str
    n: int
    own: int
    seeds: int
    pairs: int
    shared_pairs: int
    without_value: int
    other_version: int
    rules: list[AaRule]
    noise_sd: float | None
    noise_sd_low: float | None
    noise_sd_high: float | None
    seed_correlation: float | None
    seed_correlation_low: float | None
    seed_correlation_high: float | None
    drift: AaDrift
    item_luck: float | None
    items: int | None
    item_rate: float | None
    mde: float | None
    mde_is_noise: bool
    advice: list[str]
    sentence: str


class SweepParameter(TypedDict):
    """A parameter of a sweep: its choices, or its range; `when` are the values of another one that it needs."""

    name: str
    choices: list[SettingValue] | None
    low: float | None
    high: float | None
    log: bool
    whole: bool
    when: dict[str, list[SettingValue]] | None


class SweepSetting(TypedDict):
    """One setting of a sweep.

    `values` are of its full runs, null for one that gave none, and for one that was stopped early what its curve lets
    expect, with `mean` and `sd` of the `n` that there are; `curve`
    are those of its shorter runs, by rung. `expected` and `expected_sd` are what the fitted model believes of its true
    value, and `chance_best` how likely it is the best of all; null before a full run, and for a setting that is out of
    play where there are more than 150. `pending` runs have not ended.
    """

    id: str
    parameters: dict[str, SettingValue]
    n: int
    n_failed: int
    mean: float | None
    sd: float | None
    values: list[float | None]
    curve: list[float | None]
    pending: int
    expected: float | None
    expected_sd: float | None
    chance_best: float | None
    experiments: list[str]


class SweepClaim(TypedDict):
    """What the winner of a sweep was claimed as."""

    setting: str
    hypothesis_id: str
    experiment_id: str


class SweepDocument(TypedDict):
    """A sweep. `best` is the setting with the best expected value, null before a run has given one.

    `regret_bound`: by the fitted model, the pick is within this of the best setting with 95 %, in the metric's units;
    it is for choosing what to test and no evidence, and null below four values. `runs` have ended, and `runs_pending`
    not; `runs_budget` and `runs_left` count full runs. `status` is new, open, complete or claimed. `approved_by` is
    null where a person has not approved the sweep as it is.
    """

    id: str
    command: str
    metric: str
    direction: str
    method: str
    parameters: list[SweepParameter]
    rungs: list[float]
    noise: float | None
    mde: float | None
    cost_run_hours: float | None
    settings: list[SweepSetting]
    best: str | None
    best_parameters: dict[str, SettingValue] | None
    regret_bound: float | None
    sentence: str
    runs: int
    runs_pending: int
    runs_budget: int
    runs_left: float
    status: str
    approved_by: str | None
    claim: SweepClaim | None
    created_at: str
    created_by: str


class SweepLine(TypedDict):
    """A sweep in a list; `settings` is how many it has."""

    id: str
    command: str
    metric: str
    direction: str
    method: str
    settings: int
    runs: int
    runs_budget: int
    best: str | None
    best_parameters: dict[str, SettingValue] | None
    status: str
    approved_by: str | None
    claim: SweepClaim | None
    created_at: str


class SweepClaimed(TypedDict):
    """The claim that was made of a sweep's winner: its hypothesis and its proposed experiment, as they are shown."""

    sweep_id: str
    setting: str
    hypothesis: dict[str, object]
    experiment: dict[str, object]


class ParameterImportance(TypedDict):
    """What a parameter explains by itself: its first-order `share` of the variance of the metric over the space.

    It is the mean of what the fitted model lets one believe; 98 % of that lies between `low` and `high`. Of a parameter
    with a `when` it is the share among the settings that have it. `values` counts the different ones that have run.
    Where nothing can be said, the three are null and `reason` says why.
    """

    name: str
    when: dict[str, list[SettingValue]] | None
    values: int
    share: float | None
    low: float | None
    high: float | None
    reason: str | None


class SweepImportance(TypedDict):
    """How much each parameter of a sweep matters over the space that was searched, by the fitted model.

    `settings` is how many the model was fitted to. `spread` is the sd of the smooth part over the space, and `noise`
    that between runs of one setting, both as expected and in the metric's units; with a `caution` where the noise is as
    large. `reason` says why `parameters` is empty. It is no evidence for a claim.
    """

    settings: int
    reason: str | None
    caution: str | None
    spread: float | None
    noise: float | None
    parameters: list[ParameterImportance]


class SweepImportanceDocument(SweepImportance):
    """The importance of a sweep's parameters, with its sweep and what is measured."""

    sweep_id: str
    metric: str
    direction: str


class SweepReported(SweepDocument):
    """A sweep in the facts of a report: `importance` is how much its parameters matter."""

    importance: SweepImportanceDocument
