"""The fold: what the ledger says of a hypothesis, computed anew from its rows. No other code writes a confidence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from perpetual.lab.context import Context
from perpetual.lab.evidence.early import early_of
from perpetual.lab.evidence.effects import effect_of, headline
from perpetual.lab.evidence.guards import guarded
from perpetual.lab.evidence.stale import Comparison, baseline_values, comparisons, parts_of, root_of, sentences
from perpetual.lab.evidence.warnings import assumptions, cautions, lost_values
from perpetual.lab.kinds import (
    EVIDENCE,
    EXPERIMENT,
    HYPOTHESIS,
    RUN,
    ExperimentRow,
    HypothesisRow,
    LabTransaction,
    RunRow,
)
from perpetual.lab.ledger.evidence import EvidenceFold, EvidenceRecords
from perpetual.lab.ledger.experiments import ExperimentRecords, design_key, sources_of
from perpetual.lab.ledger.hypotheses import PRIORS
from perpetual.lab.permissions import is_agent
from perpetual.science.evidence import bound_of, confidence, live_rows
from perpetual.science.rates import item_luck, luck_of_rate
from perpetual.science.wording import more_runs, sentence
from perpetual.toolkit.item_scores import unpack

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect
    from perpetual.lab.bodies import DesignBody, DraftBody, FoldRow, Model, NewEvidence
    from perpetual.science.evidence import Confidence

__all__ = [
    "add_evidence", "baseline_values", "cautioned", "count_rows", "designs_of", "effects_of", "folded", "oriented",
    "pools_with", "prediction_of", "predictions_of", "refold", "refold_users_of", "rows_of", "users_of",
]  # fmt: skip

_COMPARED = "compared_by"  # the kept folds: how far they reach, and with `:ID` what is compared with a baseline
_FIGURES = ("confidence", "log_odds", "e_support", "e_refute", "false_alarm_bound", "n_measured")
KEEP_EVERY = 64  # experiments
_GUESS_DF = 2.0
# What runs kept back for it must say by themselves before they confirm: as much as all opinions together may.
_CONFIRMING_NATS = math.log(3)
_PREDICTION = ("metric", "direction", "kind", "baseline", "claim", "mde", "paired", "changes", "guards")
# How far apart results are believed to lie. It is part of what was predicted: wider beliefs, had once the results are
# there, would unsay what speaks against a claim, as narrower ones would overstate what speaks for it.
_SPREAD = ("noise", "tau", "on_crash")
_NEEDS = {
    "full_scale": "past a threshold on proxies only: it needs a run at full scale",
    "confirmation": "past the threshold: it needs a confirmation (propose --confirmation)",
    "evidence": "past a threshold by its prior, opinions or a hand: what was measured does not pass it by itself",
    "lost_runs": "held open by runs without a result: at the worst value seen they would change the verdict",
}


def oriented(
    experiment: ExperimentRow,
    baseline: dict[int, float] | float | None,
    rows: Sequence[FoldRow],
    *,
    against: Sequence[RunRow] = (),
    lost: Sequence[float | None] = (),
    baseline_lost: Sequence[float | None] = (),
    luck: float | None = None,
) -> tuple[Model, list[FoldRow]] | None:
    """Returns the design and its rows as the science wants them: differences from the baseline, bigger is better.

    None if they are unknown yet: no claim, or a baseline that has not run.

    Args:
        against: the baseline's runs, in the order of its values.
        lost: the last value that each run without a result had shown, None for one that had shown none.
        baseline_lost: the same of the baseline's runs.
        luck: the sd that test items give, where the runs have their scores.
    """
    design = experiment.body["design"]
    if design["claim"] is None or baseline is None or baseline == {}:
        return None
    sign = -1.0 if design["direction"] == "min" else 1.0  # some effect, of no direction, is shown as it was measured
    if design["kind"] == "binary":
        return _rate_model(design, baseline, rows, sign, lost)
    sampled = [*baseline.values()] if isinstance(baseline, dict) else []
    mean = _mean(baseline)
    noise, mde = design["noise"] or None, design["mde"]  # a noise of 0, which older designs may hold, declares nothing
    model: Model = {
        "model": "any" if design["claim"] == "any" or mde is None else "gaussian",
        "one_sided": design["direction"] is not None, "metric": design["metric"], "claim": design["claim"],
        "mde": mde, "mu1": mde or 0.0, "mu0": 0.0, "null": design.get("null_effect") or 0.0,
        "tau": design["tau"] or 0.0, "sigma": None, "s0": noise, "nu0": 0.0 if noise is None else _GUESS_DF,
        "paired": bool(sampled),
        "typed_n": design.get("baseline_runs"),
        "baseline_id": _shared(design, against, mean),
        "lost": [None if last is None else sign * (last - mean) for last in lost],
        "baseline_lost": [None if last is None else sign * (last - mean) for last in baseline_lost],
    }  # fmt: skip
    if sampled:
        # Exactly nil where the seeds made no difference: a rounding error would pass for a tiny measured noise.
        same = len({*sampled}) == 1
        model["baseline"] = [0.0 if same else sign * (value - mean) for value in sampled]
        model["baseline_seeds"] = [run.body["seed"] for run in against] or [None] * len(sampled)
    if luck is not None:
        model["luck"] = luck
    elif (items := design.get("items")) is not None:
        values = [*sampled, *(value for row in rows if (value := row["value"]) is not None)]
        model["luck"] = luck_of_rate(values or [mean], items)
    shifted: list[FoldRow] = [
        {**row, "value": sign * (value - mean)} for row in rows if (value := row["value"]) is not None
    ]
    return model, shifted


def _luck_of(ctx: Context, compared: Comparison) -> float | None:
    """Returns the luck of test items by their scores; None without scores, or where they are not the same items."""
    own, others = (
        [unpack(packed) for run in runs if (packed := run.body.get("items")) is not None]
        for runs in (_runs_of(ctx, compared.rows), compared.against)
    )
    sizes = {len(scores) for scores in [*own, *others]}
    return item_luck(own, others) if own and len(sizes) == 1 and min(sizes) > 1 else None


def _shared(design: DesignBody, against: Sequence[RunRow], mean: float) -> str:
    """Returns the same for designs that are compared with the same runs, or with the same number."""
    runs = f"{against[0].id}-{against[-1].id}" if against else f"{mean!r}"
    return f"{design['baseline']}:{runs}:{design['direction']}"


def _rate_model(
    design: DesignBody,
    baseline: dict[int, float] | float,
    rows: Sequence[FoldRow],
    sign: float,
    lost: Sequence[float | None],
) -> tuple[Model, list[FoldRow]]:
    """Returns the same of a rate, whose successes are what is to become more frequent."""
    mde = design["mde"] or 0.0
    model: Model = {
        "model": "binary", "metric": design["metric"], "mde": mde, "null": design.get("null_effect") or 0.0,
        "on_crash": design.get("on_crash"), "lost": [] if design.get("on_crash") else [*lost],
    }  # fmt: skip
    trials = design.get("baseline_runs")
    if isinstance(baseline, dict):
        hits = [value for value in baseline.values() if value in (0, 1)]
        successes = math.fsum(hits if sign > 0 else [1 - value for value in hits])
        model["baseline_count"] = [successes, float(len(hits))]
    else:
        rate = baseline if sign > 0 else 1 - baseline
        if trials:
            model["baseline_count"] = [rate * trials, float(trials)]
        else:
            model |= {"rate": rate, "mu1": min(rate + mde, 1.0), "mu0": rate}
    if sign > 0:
        return model, [*rows]
    return model, [{**row, "value": 1 - value if (value := row["value"]) in (0, 1) else value} for row in rows]


def designs_of(
    ctx: Context, hypothesis: HypothesisRow, rows: Sequence[FoldRow]
) -> tuple[dict[str, Model], list[FoldRow], dict[str, str]]:
    """Returns what `perpetual.science.confidence` takes: the designs that were measured, and the rows in their order.

    A design goes by the id of the experiment that was measured first of those that share it, and its prediction holds
    for all of them: once an implementation was seen, what is predicted of it comes too late, and another metric of it
    says nothing. If all that counts of it is taken back, the next one's holds. Also the sort of each design.
    """
    designs: dict[str, Model] = {}
    sorts: dict[str, str] = {}
    ready: list[FoldRow] = [row for row in rows if row["kind"] != "measured"]
    for group in _groups(ctx, hypothesis.id, rows).values():
        first, design, pooling = group.first, group.first.body["design"], group.pooling
        late = {item.id for item in group.members if not _agree(item.body["design"], design, (*_PREDICTION, *_SPREAD))}
        own = [row for row in group.rows if row["experiment_id"] in pooling]
        counting = {row["id"] for row in group.counting}
        standing = [row for row in own if row["id"] in counting] or own
        compared = [each for each in comparisons(ctx, design, standing) if each.counts]
        sources = [id for item in pooling.values() for id in sources_of(ctx, item)]
        early = early_of(ctx, sources, design, compared)
        gone = early.runs if early is not None else ()
        lost = lost_values(ctx, sources, design["metric"], gone)
        baseline_lost = lost_values(ctx, parts_of(ctx, design), design["metric"], gone)
        for place, each in enumerate(compared):
            seen = oriented(
                first, each.baseline, each.rows, against=each.against, lost=[] if place else lost,
                baseline_lost=baseline_lost, luck=_luck_of(ctx, each),
            )  # fmt: skip
            if seen is None:
                continue
            id = first.id if not place else f"{first.id}/{place + 1}"  # another version is a sample of its own
            designs[id] = seen[0] | _equal_values(ctx, design, each)
            if early is not None:
                designs[id] |= early.over(_mean(each.baseline))
            if len(compared) > 1:
                # Their mean, not their product: an edit would else give one implementation's luck a second say. A
                # product that is an e-value at every look stays one under a root.
                designs[id]["share"] = 1 / len(compared)
            if each.stale:
                designs[id]["stale"] = [*each.stale]
            if any(row["experiment_id"] in late for row in group.counting):
                designs[id]["warnings"] = [f"a later prediction of the same command: that of {first.id} holds"]
            sorts[id] = _sort(design)
            ready += [_pooled(row, id) for row in seen[1]]
            for name, guard, own_rows in guarded(ctx, id, design, each):
                designs[name] = guard
                ready += own_rows
    ready.sort(key=lambda row: row["no"])
    return designs, ready, sorts


def _mean(baseline: dict[int, float] | float | None) -> float:
    if isinstance(baseline, dict):
        return math.fsum(baseline.values()) / len(baseline)
    return baseline or 0.0


def _runs_of(ctx: Context, rows: Iterable[FoldRow]) -> list[RunRow]:
    return [ctx.need(RUN, id) for row in rows if (id := row["run_id"]) is not None]


def _equal_values(ctx: Context, design: DesignBody, compared: Comparison) -> Model:
    """Returns a note for runs that all measured the same, where another metric shows that their seeds differ."""
    metric = design["metric"]
    found: Model = {}
    if metric is None:
        return found
    runs = _runs_of(ctx, compared.rows)
    if _show_other_seeds(runs, metric):
        found["equal"] = _counted_as_one("runs", runs, metric)
    if _show_other_seeds(compared.against, metric):
        found["baseline_equal"] = _counted_as_one(f"runs of {design['baseline']}", compared.against, metric)
    return found


def _show_other_seeds(runs: Sequence[RunRow], metric: str) -> bool:
    if len(runs) < 2 or len({run.body["metrics"].get(metric) for run in runs}) != 1:
        return False
    names = {name for run in runs for name in run.body["metrics"]} - {metric}
    return any(len({run.body["metrics"].get(name) for run in runs}) > 1 for name in names)


def _counted_as_one(words: str, runs: Sequence[RunRow], metric: str) -> str:
    return f"{len(runs)} {words} measured exactly {runs[0].body['metrics'][metric]:.6g}: counted as one"


def effects_of(ctx: Context, hypothesis_id: str, rows: Sequence[FoldRow] | None = None) -> dict[str, Effect]:
    """Returns the effect of each design that was measured, by the experiment whose prediction holds."""
    rows = rows_of(ctx, hypothesis_id) if rows is None else rows
    found: dict[str, Effect] = {}
    for group in _groups(ctx, hypothesis_id, rows).values():
        design, pooling = group.first.body["design"], group.pooling
        own = [row for row in group.counting if row["experiment_id"] in pooling]
        compared = [each for each in comparisons(ctx, design, own) if each.counts] if own else []
        members = [group.first.id, *(item.id for item in group.members if item.id != group.first.id)]
        sources = [id for item in pooling.values() for id in sources_of(ctx, item)]
        effect = effect_of(design, members, compared, partial(_luck_of, ctx), early_of(ctx, sources, design, compared))
        if effect is not None:
            found[group.first.id] = effect
    return found


def cautioned(ctx: Context, hypothesis: HypothesisRow, rows: Sequence[FoldRow]) -> list[str]:
    """Returns what is to be known beside the confidence: comparisons across versions first, then the other cautions."""
    found = []
    for group in _groups(ctx, hypothesis.id, rows).values():
        compared = comparisons(ctx, group.first.body["design"], group.counting)
        found += sentences(ctx, group.first, compared)
    return [*dict.fromkeys(found), *cautions(ctx, hypothesis, rows)]


def assumed(ctx: Context, hypothesis_id: str, rows: Sequence[FoldRow]) -> list[str]:
    """Returns what the verdict takes for granted, each sentence beginning with the code of its caution."""
    groups = _groups(ctx, hypothesis_id, rows)
    found = []
    for group in groups.values():
        compared = [each for each in comparisons(ctx, group.first.body["design"], group.counting) if each.counts]
        found += assumptions(ctx, group.first, compared, is_only=len(groups) == 1)
    return [*dict.fromkeys(found)]


class _Group(NamedTuple):
    """Experiments of one hypothesis that share a design, and what was measured of them."""

    first: ExperimentRow  # whose prediction holds
    members: list[ExperimentRow]
    rows: list[FoldRow]
    counting: list[FoldRow]  # those that stand

    @property
    def pooling(self) -> dict[str | None, ExperimentRow]:
        """Returns the members whose runs count under the first one's prediction, by their ids."""
        design = self.first.body["design"]
        return {item.id: item for item in self.members if pools_with(item.body["design"], design)}


def _groups(ctx: Context, hypothesis_id: str, rows: Sequence[FoldRow]) -> dict[str, _Group]:
    """Returns the designs of a hypothesis of which something was measured, by their keys."""
    members_of: dict[str, list[ExperimentRow]] = {}
    for experiment in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis_id):
        if experiment.body["design"]["claim"] is not None:  # without one its rows say nothing; there may be thousands
            members_of.setdefault(design_key(experiment.body), []).append(experiment)
    standing = _standing(rows, hypothesis_id)
    found = {key: _group(members, rows, standing) for key, members in members_of.items()}
    return {key: group for key, group in found.items() if group is not None}


def _standing(rows: Sequence[FoldRow], hypothesis_id: str) -> set[str]:
    """Returns the ids of the rows that are not taken back, given all retractions."""
    return {row["id"] for row in live_rows(rows, hypothesis_id)}


def _group(members: list[ExperimentRow], rows: Sequence[FoldRow], standing: set[str]) -> _Group | None:
    """Returns what was measured of experiments that share a design, given their rows (and perhaps others)."""
    known = {member.id: member for member in members}
    own = [row for row in rows if row["kind"] == "measured" and row["experiment_id"] in known]
    counting = [row for row in own if row["id"] in standing]
    return _Group(known[(counting or own)[0]["experiment_id"] or ""], members, own, counting) if own else None


def predictions_of(ctx: Context, hypothesis_id: str) -> dict[str, ExperimentRow]:
    """Returns by design key the experiment whose prediction holds for all of that design, once it was measured."""
    groups = _groups(ctx, hypothesis_id, rows_of(ctx, hypothesis_id))
    return {key: group.first for key, group in groups.items()}


def prediction_of(ctx: Context, hypothesis_id: str, body: DraftBody) -> ExperimentRow | None:
    """Returns the same for the one design of an experiment or a draft.

    Reads that design's experiments and rows alone.
    """
    key = design_key(body)
    members = [
        item
        for item in ExperimentRecords(ctx).alike.of(body)
        if item.body["hypothesis_id"] == hypothesis_id
        and item.body["design"]["claim"] is not None
        and design_key(item.body) == key
    ]
    if not members:
        return None
    found = {row["no"]: row for row in rows_of(ctx, hypothesis_id, kind="retraction")}
    for member in members:
        found |= {row["no"]: row for row in rows_of(ctx, hypothesis_id, experiment_id=member.id)}
    rows = [found[number] for number in sorted(found)]
    group = _group(members, rows, _standing(rows, hypothesis_id))
    return group.first if group is not None else None


class _Folded(NamedTuple):
    """What the ledger says, and the designs that it was folded by."""

    said: Confidence
    designs: dict[str, Model]
    sorts: dict[str, str]
    confirmed: float  # nats that confirmations say by themselves; 0 where none is asked for

    @property
    def stale(self) -> list[str]:
        """Returns what baselines and claims differ in."""
        return [*dict.fromkeys(name for design in self.designs.values() for name in design.get("stale", ()))]


def _compute(ctx: Context, hypothesis: HypothesisRow, rows: Sequence[FoldRow]) -> _Folded:
    """Returns `perpetual.science.confidence` of the hypothesis, its experiments' designs and these rows."""
    designs, ready, sorts = designs_of(ctx, hypothesis, rows)
    methodology = ctx.config.methodology
    config = {"support": methodology["confidence_support_threshold"], "alpha": methodology["alpha"],
              "refute": methodology["confidence_refute_threshold"]}  # fmt: skip
    claim = {"id": hypothesis.id, "prior": hypothesis.body["prior"]}
    kept_back = {name: design for name, design in designs.items() if sorts.get(name) == "confirmation"}
    confirmed = 0.0
    if kept_back and methodology["require_confirmation"]:  # weighed beside other designs they would share their effect
        alone = confidence({"id": hypothesis.id}, kept_back, ready, config)
        confirmed = math.fsum(part["log_bayes_factor"] for part in alone["parts"] if "design_id" in part)
    return _Folded(confidence(claim, designs, ready, config), designs, sorts, confirmed)


def pools_with(design: DesignBody, first: DesignBody) -> bool:
    """Returns whether a design's runs count under the prediction that was measured first of the same command."""
    return bool(design["metric"] == first["metric"] and design.get("stop_rule") == first.get("stop_rule"))


def _agree(one: Mapping[str, object], other: Mapping[str, object], names: Sequence[str]) -> bool:
    return all(one.get(name) == other.get(name) for name in names)


def _sort(design: DesignBody) -> str:
    if design.get("confirmation"):
        return "confirmation"
    return "proxy" if design.get("proxy_of") else "full"


def _pooled(row: FoldRow, design_id: str) -> FoldRow:
    """Returns the row as one of its design's; the same seed with the same value is the same run, seen again."""
    pooled: FoldRow = {**row, "design_id": design_id}
    if row.get("seed") is not None:
        pooled["content_hash"] = f"{row['seed']}={row['value']!r}"
    return pooled


def rows_of(ctx: Context, hypothesis_id: str, **more: str) -> list[FoldRow]:
    """Returns the hypothesis's ledger, oldest row first, as the fold takes it.

    `more` are fields that rows must have too.
    """
    rows = []
    for row in ctx.store.find(EVIDENCE, hypothesis_id=hypothesis_id, **more):
        body: FoldRow = {**row.body, "id": f"v{row.id}", "no": row.number, "design_id": row.body["experiment_id"]}
        rows.append(_opined(body))
    return rows


def _opined(row: FoldRow) -> FoldRow:
    """Returns the row with the owner of its opinion.

    What an agent sets by hand is an opinion, and all opinions together are bounded.
    """
    if row["kind"] == "judged":
        return {**row, "judge": row["actor"]}
    return {**row, "bounded": True} if row["kind"] == "manual" and is_agent(row["actor"]) else row


class _Verdict(NamedTuple):
    """The status, what a hypothesis past a threshold still needs before it is decided, and its decider."""

    status: str
    needs: str | None = None
    decided_by: str | None = None


def _status(ctx: Context, hypothesis: HypothesisRow, result: _Folded, rows: Sequence[FoldRow]) -> _Verdict:
    methodology = ctx.config.methodology
    taken_back = {row["target"] for row in rows if row["kind"] == "retraction"}
    by_hand = [row for row in rows if row["kind"] == "manual" and row.get("verdict") and row["id"] not in taken_back]
    if by_hand and (said := by_hand[-1]["verdict"]) is not None and said != "open":
        return _Verdict(said, None, "agent" if is_agent(by_hand[-1]["actor"]) else "person")
    needs = "lost_runs" if result.said["held"] is not None else None
    if result.said["past"] is not None and result.said["n_measured"] >= methodology["min_replicates"]:
        needs = needs or _needs(result, confirm=methodology["require_confirmation"])
        if needs is None and (reached := result.said["reached"]) is not None:
            return _Verdict(reached, None, "evidence")
    return _Verdict("parked" if hypothesis.body["parked"] else "open", needs)


def _needs(result: _Folded, *, confirm: bool) -> str | None:
    """Returns what is missing before the verdict stands: a key of `_NEEDS`."""
    if result.said["reached"] is None:
        return "evidence"
    # A guard is of no sort of its own.
    sorts = [sort for part in result.said["parts"] if (sort := result.sorts.get(str(part.get("design_id"))))]
    if sorts and all(sort == "proxy" for sort in sorts):
        return "full_scale"
    if confirm and result.said["reached"] == "supported" and result.confirmed < _CONFIRMING_NATS:
        return "confirmation"
    return None


def folded(ctx: Context, hypothesis: HypothesisRow, rows: Sequence[FoldRow]) -> EvidenceFold:
    """Returns all that follows from a hypothesis's ledger: the figures, the status and what it lacks, the flags."""
    result = _compute(ctx, hypothesis, rows)
    found = result.said
    status, needs, decided_by = _status(ctx, hypothesis, result, rows)
    bound: float | None = found["false_alarm_bound"]
    if decided_by is not None:  # a hand bounds nothing
        bound = bound_of(found, status) if decided_by == "evidence" else None
    is_established = found.get("established") and not result.stale
    label = ["established"] if decided_by == "evidence" and is_established else []
    label += [_NEEDS[needs]] if needs else []
    label += _clipped_prior(hypothesis.body["prior"])
    verdict, more = _in_words(hypothesis, result, status, decided_by)
    said = {name: value for name, value in found.items() if name in _FIGURES} | {
        "false_alarm_bound": bound,
        "evidence_count": len(rows),
        "counting": len(live_rows(rows, hypothesis.id)),
        "flags": sorted({flag for part in found["parts"] for flag in part["flags"]}) + label,
        "status": status,
        "needs": needs,
        "decided_by": decided_by,
        "sentence": verdict,
        "more_runs": more,
        "together": result.said["effect"],
    }
    return cast(EvidenceFold, said)


def _in_words(
    hypothesis: HypothesisRow, result: _Folded, status: str, decided_by: str | None
) -> tuple[str | None, int | None]:
    """Returns the verdict in a sentence that needs no statistics, and how many more runs would probably decide.

    The sentence is None before anything was measured; the number for what is decided, or hardly ever will be.
    """
    if decided_by not in (None, "evidence"):
        return f"{status.capitalize()}, as a {decided_by} said; no runs decided it.", None
    if not result.said["n_measured"]:
        return None, None
    nothing: Model = {}
    design = next(iter(result.designs.values()), nothing)
    claim = str(design.get("claim") or "improves")
    if claim == "at_least" and not design.get("null"):
        claim = "improves"  # as what older projects call so was tested
    mde = design.get("mde") if design else hypothesis.body["prediction"]["mde"]
    guards = [str(each.get("metric")) for each in result.designs.values() if each.get("guard_of")]
    guards, shown = [*dict.fromkeys(guards)], status if decided_by else "open"
    said = sentence(result.said, shown, claim=claim, mde=mde, stale=" and ".join(result.stale), guards=guards)
    more = None if result.stale else more_runs(result.said, shown, claim=claim, mde=mde, guards=guards)
    return said, more


def _clipped_prior(prior: float) -> list[str]:
    """Returns what is said of a prior that was set before priors were bounded."""
    low, high = PRIORS
    counted = min(max(prior, low), high)
    return [] if counted == prior else [f"its prior of {prior:g} counts as {counted:g}"]


def refold(ctx: Context, tx: LabTransaction, hypothesis_id: str, rows: Sequence[FoldRow] | None = None) -> str:
    """Computes the hypothesis from its ledger, writes what changed, and answers its status.

    Args:
        rows: the ledger, where the caller has read it.
    """
    hypothesis = tx.get(HYPOTHESIS, hypothesis_id)
    assert hypothesis is not None, hypothesis_id
    ctx.config.refresh()  # under the thresholds of now: setting one folds anew, and this fold may come after
    rows = rows_of(ctx, hypothesis_id) if rows is None else rows
    found = folded(ctx, hypothesis, rows)
    status: str = found["status"]
    shown = (*_FIGURES, "evidence_count", "flags", "status")
    body = {**hypothesis.body, **{name: value for name, value in found.items() if name in shown}}
    names = ("needs", "decided_by", "counting", "sentence", "more_runs")
    later = {name: value for name, value in found.items() if name in names}
    # Which older records do not have.
    later["effect"] = headline(effects_of(ctx, hypothesis_id, rows), found["together"])
    later["cautions"] = cautioned(ctx, hypothesis, rows)
    later["assumes"] = assumed(ctx, hypothesis_id, rows)
    body |= {name: value for name, value in later.items() if value or name in body}
    if body != hypothesis.body:
        tx.put(HYPOTHESIS, hypothesis_id, body, expect_revision=hypothesis.revision)
    if status != hypothesis.body["status"]:
        payload = {"from": hypothesis.body["status"], "to": status, "confidence": found["confidence"],
                   "false_alarm_bound": found["false_alarm_bound"]}  # fmt: skip
        ctx.emit(tx, "hypothesis_status", hypothesis_id, payload)
        for experiment in tx.find(EXPERIMENT, hypothesis_id=hypothesis_id):
            ExperimentRecords(ctx).fold(tx, experiment.id)
    return status


def refold_users_of(ctx: Context, tx: LabTransaction, baseline_id: str) -> list[str]:
    """Refolds every hypothesis that has an experiment compared with this baseline, or with what it extends."""
    users = users_of(ctx, tx, baseline_id)
    for hypothesis_id in users:
        refold(ctx, tx, hypothesis_id)
    return users


def users_of(ctx: Context, tx: LabTransaction, baseline_id: str) -> list[str]:
    """Returns the hypotheses that have an experiment compared with this baseline, or with what it extends or renews."""
    root = root_of(ctx, ctx.need(EXPERIMENT, baseline_id)).id
    return sorted(_users(tx, baseline_id, root))


def _users(tx: LabTransaction, *baselines: str) -> set[str]:
    """Returns the hypotheses that have an experiment compared with one of these baselines.

    That never changes: what was found is kept, and only later experiments are read. The folds may be dropped, all.
    """
    kept, total, late = tx.get("fold", _COMPARED), tx.count("experiment"), dict[str, set[str]]()
    reach = kept.body["experiments"] if kept is not None else 0
    for number in range(reach + 1, total + 1):
        found = tx.get(EXPERIMENT, f"e{number}")
        if found and isinstance(baseline := found.body["design"]["baseline"], str) and found.body["hypothesis_id"]:
            late.setdefault(baseline, set()).add(found.body["hypothesis_id"])
    for baseline in {*baselines, *(late if total - reach >= KEEP_EVERY else ())}:
        of_baseline = tx.get("fold", f"{_COMPARED}:{baseline}") if reach else None
        late.setdefault(baseline, set()).update(of_baseline.body["users"] if of_baseline is not None else ())
    if total - reach >= KEEP_EVERY:
        for baseline, users in late.items():
            tx.put("fold", f"{_COMPARED}:{baseline}", {"users": sorted(users)})
        tx.put("fold", _COMPARED, {"experiments": total})
    return {user for baseline in baselines for user in late[baseline]}


def add_evidence(ctx: Context, tx: LabTransaction, hypothesis_id: str, row: NewEvidence) -> str:
    """Appends a row with the change in log odds that it makes, refolds, and answers its id."""
    hypothesis = tx.get(HYPOTHESIS, hypothesis_id)
    assert hypothesis is not None, hypothesis_id
    before = rows_of(ctx, hypothesis_id)
    number = tx.count("evidence") + 1
    new: FoldRow = {
        "weight": 1.0, "run_id": None, "experiment_id": None, "value": None, "reason": None, "log_bayes_factor": None,
        "actor": ctx.actor, "created_at": ctx.now(), **row,
        "id": f"v{number}", "no": number, "hypothesis_id": hypothesis_id, "design_id": row.get("experiment_id"),
    }  # fmt: skip
    new = _opined(new)
    earlier = _compute(ctx, hypothesis, before).said["log_odds"]
    moved = _compute(ctx, hypothesis, [*before, new]).said["log_odds"] - earlier
    id = EvidenceRecords(ctx).append(tx, {**row, "hypothesis_id": hypothesis_id, "log_bayes_factor": moved})
    payload = {"hypothesis_id": hypothesis_id, "kind": row["kind"], "log_bayes_factor": moved}
    ctx.emit(tx, "evidence_added", id, payload)
    refold(ctx, tx, hypothesis_id, [*before, new])
    return id


def count_rows(ctx: Context, tx: LabTransaction, hypothesis_id: str, added: int) -> None:
    """Counts rows without weight: their number is all that they change of the fold.

    Thousands of them come at once, and folding anew after each hundred would read all of them again and again.
    """
    found = tx.get(HYPOTHESIS, hypothesis_id)
    assert found is not None, hypothesis_id
    count = found.body["evidence_count"] + added
    tx.put(HYPOTHESIS, hypothesis_id, {**found.body, "evidence_count": count}, expect_revision=found.revision)
