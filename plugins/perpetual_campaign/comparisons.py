"""Comparisons of a candidate with the best: their proposal, approval, runs, hours and evidence."""

from __future__ import annotations

import hmac
import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import Conflict, PerpetualError, line
from perpetual.toolkit import user_state
from perpetual.toolkit.worktrees import standing_in
from perpetual_campaign import permission
from perpetual_campaign.looks import Look, measured, needed
from perpetual_campaign.records import (
    ENDED,
    MEASURED,
    CampaignRecords,
    Stage,
    arms_of,
    most_pairs,
    pairs_of,
    unless_done,
)

if TYPE_CHECKING:
    from perpetual.api import Experiment, Hypothesis, Record

__all__ = ["Comparisons"]


class Comparisons(CampaignRecords):
    """Proposes comparisons, starts their runs, and says what they have cost and shown."""

    def worst_case(self, campaign: Record) -> float:
        """Returns the run-hours that one look of a comparison takes at most."""
        wall_s = campaign["wall_s"] or self._lab.config.methodology["default_wall_s"] or 0.0
        return 2 * int(campaign["replicates"]) * float(wall_s) / 3600.0 * max(1, int(campaign["gpus"]))

    def hours_left(self, campaign: Record) -> float | None:
        """Returns the run-hours that a campaign has left, those of runs to come taken off; None without a limit."""
        budget = campaign["budget_run_hours"]
        if budget is None:
            return None
        each = self.worst_case(campaign) / 2 / int(campaign["replicates"])
        used = self.hours(campaign)
        for candidate in self.of(campaign):
            for stage in self._stages(candidate):
                if candidate["state"] not in MEASURED or stage != self._stages(candidate)[-1]:
                    continue
                arms = [self._lab.experiments.get(id) for id in arms_of(stage)]
                over = sum(run.status in ENDED for run in self._lab.runs.named([arm.id for arm in arms]))
                used += each * (sum(arm.design.replicates for arm in arms) - over)
        return float(budget) - used

    def arms_of_best(self, campaign: Record, commit: str) -> list[str]:
        """Returns the experiments of a campaign that measured a commit as the best."""
        return [best for candidate in self.of(campaign) for stage in self._stages(candidate)
                if stage["base"] == commit for best, _ in pairs_of(stage)]  # fmt: skip

    def hours(self, campaign: Record) -> float:
        """Returns the run-hours that a campaign's runs have used."""
        ids = [id for candidate in self.of(campaign) for stage in self._stages(candidate) for id in arms_of(stage)]
        runs = self._lab.runs.named(ids) if ids else ()
        return sum((run.duration_s or 0.0) for run in runs) / 3600.0 * max(1, int(campaign["gpus"]))

    def _mark(self, campaign: Record, candidate: Record, base: str, commit: str) -> str:
        """Returns the mark by which this user lets the files of a commit run beside those of a base.

        No record from elsewhere can bring it.
        """
        bound = ["campaign", self._lab.config.project_id, campaign.id, campaign["command"], campaign["replicates"],
                 campaign["wall_s"], campaign["gpus"], candidate.id, self.git.tree_of(base),
                 self.git.tree_of(commit)]  # fmt: skip
        if campaign["max_pairs"] is not None:
            bound.append(campaign["max_pairs"])
        return _signed(bound)

    def _is_let(self, campaign: Record, candidate: Record, base: str, commit: str) -> bool:
        """Returns whether this user has let the files of a commit run for a candidate, beside those of a base."""
        mark = candidate.fields.get("mark")
        return isinstance(mark, str) and hmac.compare_digest(mark, self._mark(campaign, candidate, base, commit))

    def is_thinker_let(self, campaign: Record) -> bool:
        """Returns whether a person of this machine has let a thinker edit for this campaign as it is."""
        mark = campaign.fields.get("thinker_mark")
        is_on = campaign["state"] == "open" and int(campaign["thinker"] or 0) > 0
        return is_on and isinstance(mark, str) and hmac.compare_digest(mark, self._thinker_mark(campaign))

    def _thinker_mark(self, campaign: Record, *, draw: bool = False) -> str:
        """Returns the mark by which this user has let a thinker edit for a campaign as it is.

        Args:
            campaign: of the lab.
            draw: make all earlier marks void first.
        """
        names = ("name", "command", "metric", "direction", "mde", "edit", "protect", "replicates", "max_pairs", "alpha",
                 "max_candidates", "budget_run_hours", "wall_s", "gpus", "thinker", "best")  # fmt: skip
        grant = permission.drawn(self._grant(campaign)) if draw else permission.held(self._grant(campaign))
        return _signed(["campaign-thinker", grant, *self._grant(campaign), *(campaign[one] for one in names)])

    def _grant(self, campaign: Record) -> tuple[str, str]:
        return self._lab.config.project_id, campaign.id

    def _approved(self, campaign: Record, candidate: Record) -> Record:
        """Approves the proposed runs of a candidate that a person has submitted, and starts them."""
        stage = self._stages(candidate)[-1]
        if not self._lab.settings.withholds and not self._is_let(campaign, candidate, stage["base"], stage["commit"]):
            candidate = self._change(candidate, mark=self._mark(campaign, candidate, stage["base"], stage["commit"]))
        self._started(campaign, candidate)
        return candidate

    def _started(self, campaign: Record, candidate: Record) -> str | None:
        """Approves and starts what is missing of the last comparison, by turns; returns why it waits."""
        stage = self._stages(candidate)[-1]
        looks = [[self._lab.experiments.get(id) for id in pair] for pair in pairs_of(stage)]
        arms = [arm for pair in looks for arm in pair]
        proposed = [arm.id for arm in arms if arm.status == "proposed"]
        is_let = self._is_let(campaign, candidate, stage["base"], stage["commit"])
        if proposed and (self._lab.settings.withholds or not is_let):
            return f"a person approves {' and '.join(proposed)}"
        try:
            if proposed:
                self._check_folders(campaign, candidate, stage)
                with unless_done():
                    self._lab.experiments.approve_all(proposed)
            for number, pair in enumerate(looks):
                self._launch(
                    f"{candidate.id}:{stage['round']}:{stage['kind']}" + (f":{number}" if number else ""), pair
                )
        except PerpetualError as problem:
            return problem.message
        return None

    def _launch(self, key: str, pair: Sequence[Experiment]) -> None:
        """Starts the missing runs of both arms by turns.

        Which of a pair goes first is drawn, so that no drift of the machine favours one of them.
        """
        missing = {arm.id: arm.design.replicates - len(self._lab.runs.named([arm.id])) for arm in pair}
        for place in range(max(missing.values())):
            drawn = sha256(f"{key}:{place}".encode()).digest()[0] % 2
            for arm in pair[::-1] if drawn else pair:
                if missing[arm.id] > 0:
                    missing[arm.id] -= 1
                    with unless_done():
                        self._lab.runs.launch(arm.id)

    def _check_folders(self, campaign: Record, candidate: Record, stage: Stage) -> tuple[Path, Path]:
        """Returns the worktrees of the best and of the candidate, each as its commit is.

        What is approved is a copy of them: an edit since would be measured in the place of what was submitted.
        """
        of_best = self.measured_folder(campaign, stage["base"])
        own = self.measured_folder(campaign, stage["commit"], candidate)
        self.git.ensure_whole(of_best, stage["base"])
        self.git.ensure_whole(own, stage["commit"])
        return of_best, own

    def _measured(self, campaign: Record, candidate: Record, kind: str, base: str, commit: str) -> Record:
        """Proposes a comparison of a commit with the best, once for each round of a candidate."""
        round = int(candidate["round"]) + (kind == "trial")
        key = f"campaign:{candidate.id}:{round}:{kind}"
        planned = Stage(round=round, kind=kind, base=base, commit=commit, best_arm="", arm="", hypothesis="")
        best_folder, own_folder = self._check_folders(campaign, candidate, planned)
        name = f"{campaign['name']} {candidate.id}"
        shared = {
            "command": campaign["command"], "metric": campaign["metric"], "direction": campaign["direction"],
            "replicates": int(campaign["replicates"]), "wall_s": campaign["wall_s"], "gpus": int(campaign["gpus"]),
            "isolate": True, "tags": ("campaign", f"campaign-{campaign['name']}"),
        }  # fmt: skip
        with self._lab.together():
            with standing_in(best_folder):
                best = self._lab.experiments.propose(
                    title=f"{name}, {kind}: the best", config={"commit": base, "of": key}, claim="none",
                    idempotency_key=f"{key}:best", **shared,
                )  # fmt: skip
            claim = self._hypothesis(campaign, candidate, kind, best.id, key=key)
            with standing_in(own_folder):
                arm = self._lab.experiments.propose(
                    claim.id, title=f"{name}, {kind}: {candidate['idea']}"[:200], config={"commit": commit, "of": key},
                    claim="improves", mde=campaign["mde"], baseline=best.id, paired=True, changes="code",
                    confirmation=kind == "confirmation", underpowered=True, idempotency_key=key, **shared,
                )  # fmt: skip
            stage = Stage(round=round, kind=kind, base=base, commit=commit, best_arm=best.id, arm=arm.id,
                          hypothesis=claim.id, more=[])  # fmt: skip
            others = [one for one in self._stages(candidate) if (one["round"], one["kind"]) != (round, kind)]
            made = self._change(candidate, state=kind, base=base, commit=commit, round=round, stages=[*others, stage])
            # With the proposal: a daemon that saw it alone would end, since a person had to approve it.
            if not self._lab.settings.withholds and self._is_let(campaign, made, base, commit):
                self._lab.experiments.approve_all([best.id, arm.id])
            return made

    def _extended(self, campaign: Record, candidate: Record, pairs: int) -> Record:
        """Proposes further pairs of the last comparison, on the seeds that come next.

        Raises:
            Conflict: (decided) where the lab takes its claim as decided for sure.
        """
        *before, stage = self._stages(candidate)
        more = stage.get("more", [])
        key = f"campaign:{candidate.id}:{stage['round']}:{stage['kind']}:more{len(more) + 1}"
        self._check_folders(campaign, candidate, stage)
        tags = ("campaign", f"campaign-{campaign['name']}")
        with self._lab.together():
            best, own = (
                self._lab.experiments.propose(extends=id, replicates=pairs, tags=tags, idempotency_key=f"{key}:{name}")
                for id, name in ((stage["best_arm"], "best"), (stage["arm"], "own"))
            )
            longer = Stage(**{**stage, "more": [*more, [best.id, own.id]]})
            made = self._change(candidate, stages=[*before, longer])
            if not self._lab.settings.withholds and self._is_let(campaign, made, stage["base"], stage["commit"]):
                self._lab.experiments.approve_all([best.id, own.id])
            return made

    def check_measured(self, candidate: Record) -> None:
        """Raises Conflict where a comparison of the present round has measured another commit than the record names.

        What an experiment measures is bound by its approval.
        """
        for stage in self._stages(candidate):
            if stage["round"] != candidate["round"]:
                continue
            for place, pair in enumerate(zip(*pairs_of(stage), strict=True)):
                named = (stage["base"], candidate["commit"])[place]
                if any(self._lab.experiments.get(id).config.get("commit") != named for id in pair):
                    raise Conflict(f"{pair[0]} has measured another commit than {named[:12]}",
                                   hint=f"perpetual campaign drop {candidate.id}")  # fmt: skip

    def look(self, campaign: Record, candidate: Record) -> Look:
        """Returns what the last comparison of a candidate has come to."""
        *_, stage = self._stages(candidate)
        claim = self._lab.hypotheses.get(stage["hypothesis"])
        of_best, own = (self._values(campaign, [pair[side] for pair in pairs_of(stage)]) for side in (0, 1))
        pairs = sum(self._lab.experiments.get(arm).design.replicates for _, arm in pairs_of(stage))
        before = self.e_value(candidate, but=stage)
        least = needed(stage["kind"], self.support, self.alpha_of(campaign), before)
        sign = -1.0 if campaign["direction"] == "min" else 1.0
        effect, sd = measured(of_best, own, sign)
        return Look(pairs, most_pairs(campaign), claim.status, claim.e_support, least, effect, sd, campaign["mde"])

    def _values(self, campaign: Record, arms: Sequence[str]) -> dict[object, float]:
        """Returns what an arm has measured, by seed."""
        return {run.seed: value for run in self._lab.runs.named(arms)
                if run.status == "done" and not run.tainted
                and (value := run.metrics.get(campaign["metric"])) is not None}  # fmt: skip

    @property
    def support(self) -> float:
        """Returns the confidence from which on a claim is supported."""
        return float(self._lab.config.methodology["confidence_support_threshold"])

    def _hypothesis(
        self, campaign: Record, candidate: Record | None, kind: str, baseline: str | None, *, key: str | None = None
    ) -> Hypothesis:
        deed = "lowers" if campaign["direction"] == "min" else "raises"
        idea = "an idea" if candidate is None else f"{candidate.id} ({candidate['idea']})"
        again = ", on fresh seeds" if kind == "confirmation" else ""
        attempt = 1 if candidate is None else int(candidate["round"]) + (kind == "trial")
        count = f", attempt {attempt}" if attempt > 1 else ""
        return self._lab.hypotheses.add(
            f"{idea} {deed} {campaign['metric']} against the best of campaign {campaign['name']}{again}{count}",
            metric=campaign["metric"], direction=campaign["direction"], mde=campaign["mde"], baseline=baseline,
            tags=("campaign",), idempotency_key=None if key is None else f"{key}:claim",
        )  # fmt: skip

    def alpha_of(self, campaign: Record) -> float:
        """Returns the chance at most that a candidate that changes nothing is kept; it stays what it was at first."""
        return float(campaign["alpha"] or self._number("alpha"))

    def was_measured(self, candidate: Record) -> bool:
        """Returns whether a run of a candidate or of the best beside it is over, however the candidate ended.

        What is dropped or ends for lack of budget is chosen by what its runs have shown, so it counts too.
        """
        ids = [id for stage in self._stages(candidate) for id in arms_of(stage)]
        return bool(ids) and any(run.status in ENDED for run in self._lab.runs.named(ids))

    def e_value(self, candidate: Record, *, but: Stage | None = None) -> float:
        """Returns the e-value of a candidate's present round: trial times confirmation, whose runs share nothing."""
        found = 1.0
        for stage in self._stages(candidate):
            if stage["round"] == candidate["round"] and stage != but:
                found *= self._lab.hypotheses.get(stage["hypothesis"]).e_support
        return found

    def message(self, campaign: Record, candidate: Record) -> str:
        """Returns the commit message of a kept candidate: its idea, what was found, and the evidence as trailers."""
        stages = [stage for stage in self._stages(candidate) if stage["round"] == candidate["round"]]
        last = stages[-1]
        claim = self._lab.hypotheses.get(last["hypothesis"])
        effect = claim.effect or {}
        low, high = effect.get("low"), effect.get("high")
        interval = "" if low is None or high is None else f" [{low:.6g}, {high:.6g}]"
        value = "" if effect.get("value") is None else f"{effect['value']:.6g}{interval} {campaign['metric']}"
        trailers = {
            "Campaign": campaign["name"], "Candidate": candidate.id,
            "Experiment": ", ".join(stage["arm"] for stage in stages),
            "Baseline": ", ".join(stage["best_arm"] for stage in stages),
            "Hypothesis": ", ".join(stage["hypothesis"] for stage in stages),
            "Confidence": f"{claim.confidence:.4f}", "Effect": value, "E-Value": f"{self.e_value(candidate):.4g}",
        }  # fmt: skip
        body = line(claim.sentence or claim.statement)
        lines = [f"Perpetual-{name}: {line(text)}" for name, text in trailers.items() if text]
        return "\n".join([line(candidate["idea"]), "", body, "", *lines, ""])


def _signed(bound: Sequence[object]) -> str:
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"))
    return hmac.new(user_state.secret(), text.encode(), "sha256").hexdigest()
