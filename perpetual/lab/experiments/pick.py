"""Picking: which replicates, of which experiments, existing or new, are most worth their cost now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import Conflict, PerpetualError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.evidence.confidence import predictions_of
from perpetual.lab.evidence.decision_preview import explained
from perpetual.lab.experiments.learned import candidate_of
from perpetual.lab.experiments.propose import as_weighed, ended_elsewhere, propose, serves, state_of
from perpetual.lab.experiments.related import Related
from perpetual.lab.kinds import EVENT, EXPERIMENT, HYPOTHESIS, RUN, ExperimentRow
from perpetual.lab.ledger.experiments import ExperimentRecords, design_key, sources_of
from perpetual.lab.ledger.hypotheses import HypothesisRecords
from perpetual.lab.ledger.specification import Specification
from perpetual.lab.proposals import Proposals
from perpetual.records import Experiment, Hypothesis, Score, to_json
from perpetual.slots.analyser import Draft, Proposer
from perpetual.toolkit.contained import limited

if TYPE_CHECKING:
    from perpetual.documents.scorer import CandidateState

__all__ = ["Pick", "drafts", "pick", "rescored", "tell"]


class Pick(NamedTuple):
    """One picked replicate: of a `new` experiment or of one that exists, and why."""

    experiment: Experiment
    new: bool
    score: Score


def drafts(ctx: Context, *, quiet: bool = False) -> list[tuple[Draft, Experiment]]:
    """Returns what the proposers suggest for the open hypotheses and was not tried before, each as it would be written.

    A proposer that fails, and a draft that cannot be proposed, hold up no other; the feed names them, unless `quiet`.
    """
    opened = [HypothesisRecords(ctx).get(item.id) for item in ctx.store.find(HYPOTHESIS, status="open")]
    bearing = ctx.cached(Related).bearing_on(hypothesis.id for hypothesis in opened)
    known = [ExperimentRecords(ctx).get(item.id) for item in bearing]
    lacking = {hypothesis.id: hypothesis.needs for hypothesis in opened}
    found: list[tuple[Draft, Experiment]] = []
    proposers: list[tuple[str, Proposer]] = ctx.parts("proposer")
    hashes: set[str] = set()
    rejected = {_idea(item, item.extends) for item in known if item.status == "rejected"}
    roots = {item.id: item.extends or item.id for item in known}
    for name, proposer in proposers:
        try:
            answered = limited(name, partial(_drafts, proposer, opened, known))
        except Exception as problem:  # noqa: BLE001 - of any plugin; the feed names it
            tell(ctx, "proposer_failed", name, f"{type(problem).__name__}: {problem}", quiet=quiet)
            continue
        for draft in answered:
            try:
                preview = propose(ctx, draft.hypothesis_id, Specification(**draft.arguments), dry_run=True)
            except Conflict:
                continue  # tried before: the hypothesis has its result
            except (PerpetualError, TypeError) as problem:
                tell(ctx, "proposer_failed", name, f"a draft that cannot be proposed: {problem}", quiet=quiet)
                continue
            needs = lacking.get(preview.hypothesis_id or "") if preview.design.claim else None
            if needs and not serves(to_json(preview.design), needs):
                continue
            idea = _idea(preview, roots.get(str(draft.arguments.get("extends"))))
            if preview.spec_hash not in hashes and idea not in rejected:
                hashes.add(preview.spec_hash)
                found.append((draft, preview))
    return found


def _idea(item: Experiment, root: str | None) -> tuple[object, ...]:
    """Returns what makes a proposal the same as one that was rejected: what it runs, measures and extends."""
    return item.hypothesis_id, root, design_key(to_json(item)), item.design.metric, item.design.baseline


def _drafts(proposer: Proposer, opened: list[Hypothesis], known: list[Experiment]) -> list[Draft]:
    return [*proposer.drafts(opened, known)]


def tell(ctx: Context, kind: str, name: str, error: str, *, quiet: bool = False) -> None:
    """Notes in the feed that a part failed; the same failure in the next cycles is no news."""
    if quiet:
        return
    before = ctx.store.find(EVENT, kind=kind)
    payload = {"error": error[:500]}
    if any(event.body["subject"] == name and event.body["payload"] == payload for event in before):
        return
    with ctx.store.transaction() as tx:
        ctx.emit(tx, kind, name, payload)


def pick(ctx: Context, count: int, *, dry_run: bool = False, idempotency_key: str | None = None) -> list[Pick]:
    """Returns at most `count` picks, best first; writes new experiments as proposals, scores existing ones anew.

    All of it is one transaction; with `dry_run` nothing is written.
    """
    if count < 1:
        raise UsageError(f"pick at least one, not {count}")
    with ctx.store.transaction() as tx:
        made = ctx.recall(tx, idempotency_key, "picks")
        if made is not None:
            earlier = [ExperimentRecords(ctx).get(id) for id in made.split()]
            return [Pick(item, item.status == "proposed", item.score) for item in earlier]
        picks = _pick(ctx, count, dry_run)
        if not dry_run:
            ctx.remember(tx, idempotency_key, "picks", " ".join(item.experiment.id for item in picks))
    return picks


def _pick(ctx: Context, count: int, dry_run: bool) -> list[Pick]:
    opened = ctx.store.find(HYPOTHESIS, status="open")
    state = state_of(ctx, opened)
    suggestions = {f"draft-{n}": pair for n, pair in enumerate(drafts(ctx, quiet=dry_run))}
    candidates, proposals = [*state["candidates"]], ctx.cached(Proposals)
    firsts: dict[str | None, dict[str, ExperimentRow]] = {item.id: predictions_of(ctx, item.id) for item in opened}
    for name, (_, preview) in suggestions.items():
        document = to_json(preview)
        claims = preview.hypothesis_id is not None and preview.design.claim is not None
        runs = ended_elsewhere(ctx, document, None) if claims else []
        first = firsts.get(preview.hypothesis_id, {}).get(design_key(document)) if claims else None
        weighed = as_weighed(document, first)
        if weighed is None:
            continue
        candidate = candidate_of(ctx, name, weighed, runs)
        if candidate is not None:
            candidates.append({**candidate, "n_left": preview.design.replicates})
    if proposals.scorer.weighs_baselines:
        candidates += _baseline_runs(ctx, suggestions, firsts)
    state = {**state, "candidates": candidates}
    scores = proposals.score(state) if candidates else {}
    picks: dict[str, Pick] = {}
    for id, (draft, preview) in suggestions.items():  # the stand-in of a baseline teaches by what is compared with it
        if preview.design.proxy_of and preview.design.claim is None and len(picks) < count:
            picked = propose(ctx, draft.hypothesis_id, Specification(**draft.arguments), dry_run=dry_run)
            score = Score(None, preview.design.cost_run_hours, None, draft.reason)
            picks[id] = Pick(replace(picked, score=score) if dry_run else rescored(ctx, picked.id, score), True, score)
    for id in proposals.pick(state, count - len(picks)) if candidates and count > len(picks) else []:
        if id in picks:
            continue  # a repeat is one more replicate of the same experiment
        if id in suggestions:
            draft, _ = suggestions[id]
            spec = Specification(**draft.arguments)
            picked, is_new = propose(ctx, draft.hypothesis_id, spec, dry_run=dry_run), True
        else:
            picked, is_new = ExperimentRecords(ctx).get(id), False
        score = explained(ctx, picked, scores[id])
        picked = replace(picked, score=score) if dry_run else rescored(ctx, picked.id, score)
        picks[id] = Pick(picked, is_new, score)
    return [*picks.values()]


def _baseline_runs(
    ctx: Context,
    suggestions: Mapping[str, tuple[Draft, Experiment]],
    firsts: Mapping[str | None, Mapping[str, ExperimentRow]],
) -> list[CandidateState]:
    """Returns the suggested runs of baselines, and the claims that were run as often as planned, which they serve."""
    proposals = ctx.cached(Proposals)
    found: list[CandidateState] = []
    known: dict[str, ExperimentRow] = {}
    for name, (draft, preview) in suggestions.items():
        source = draft.arguments.get("extends")
        if isinstance(source, str) and preview.design.claim is None:
            baseline = ctx.need(EXPERIMENT, ctx.need(EXPERIMENT, source).body.get("extends") or source)
            parts = (baseline.id, *baseline.body.get("extended_by", []))
            runs = [run for id in parts for run in ctx.store.find(RUN, experiment_id=id)]
            found.append({**proposals.baseline(name, baseline, runs), "n_left": preview.design.replicates})
            known[baseline.id] = baseline
    for hypothesis_id, predictions in firsts.items() if known else ():
        for experiment in ctx.store.find(EXPERIMENT, hypothesis_id=hypothesis_id):
            design = experiment.body["design"]
            if experiment.body["status"] not in ("complete", "analysed") or design["baseline"] not in known:
                continue
            weighed = as_weighed(experiment.body, predictions.get(design_key(experiment.body)))
            if weighed is None:
                continue
            runs = [run for id in sources_of(ctx, experiment) for run in ctx.store.find(RUN, experiment_id=id)]
            runs += ended_elsewhere(ctx, experiment.body, experiment.id)
            row = candidate_of(ctx, experiment.id, weighed, runs)
            found += [{**row, "n_left": 0}] if row is not None else []
    return found


def rescored(ctx: Context, id: str, score: Score) -> Experiment:
    """Writes down what an experiment is worth, where that is news."""
    with ctx.store.transaction() as tx:
        document = ctx.need(EXPERIMENT, id)
        if document.body["score"] != to_json(score):
            tx.put(EXPERIMENT, id, {**document.body, "score": to_json(score)}, expect_revision=document.revision)
    return ExperimentRecords(ctx).get(id)
