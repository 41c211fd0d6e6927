"""Entry point of the bundled scorers, and of the commands that plan and test; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Field, Option, Provider, RecordKind, Slot, Suite, hookimpl

_HOME = "perpetual_scorers.information_gain"
_KNOBS = {
    # Off: exploring costs run-hours and, in simulated worlds with wrong declarations too, buys nothing measurable.
    "explore_fraction": Option("float", 0.0, "share of the picks that are drawn at random, 0 to 1"),
    "cost_exponent": Option("float", 1.0, "a worth is divided by run-hours to this power; 0 ignores what a run costs"),
}


@hookimpl
def perpetual_scorers() -> list[Provider]:
    """Offers six strategies; `information-gain` is the default, `random` and `round-robin` are yardsticks."""
    return [
        Provider(
            "scorer",
            "information-gain",
            f"{_HOME}:build",
            "expected information gain in bits per run-hour, given what is pending",
            options=_KNOBS,
        ),
        Provider(
            "scorer",
            "decisive",
            f"{_HOME}:Decisive",
            "evidence per run-hour, capped by what a decision still needs; for thresholds of 0.95 and more",
            options=_KNOBS,
        ),
        Provider(
            "scorer",
            "greedy",
            f"{_HOME}:Greedy",
            "chance of reaching the support threshold, per run-hour",
            options=_KNOBS,
        ),
        Provider(
            "scorer",
            "thompson",
            f"{_HOME}:Thompson",
            "what an outcome drawn from the present belief would teach, per run-hour; for many runs in flight",
            options=_KNOBS,
        ),
        Provider(
            "scorer", "random", f"{_HOME}:RandomChoice", "a hypothesis and its design by lot: a baseline for audits"
        ),
        Provider("scorer", "round-robin", f"{_HOME}:RoundRobin", "hypotheses turn by turn, designs by lot: a baseline"),
    ]


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `planner`, which `lab.experiments.propose` asks."""
    suite = Suite("perpetual_scorers.testing:PlannerContract", fixture="planner")
    return [
        Slot("planner", "perpetual_planners", "planner", "perpetual.science.planner:Planner", "one", default="power",
             suite=suite)
    ]  # fmt: skip


@hookimpl
def perpetual_planners() -> list[Provider]:
    """Offers the planner by the chance of a verdict at one look."""
    factory = "perpetual_scorers.planner:build"
    return [Provider("planner", "power", factory, "Refuses claims that cannot be decided; learns from pairs of runs.")]


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual aa`, `bench-policy`, `overturn`, `power` and `sweep`."""
    return [
        Provider(
            "command",
            "aa",
            "perpetual_scorers.aa_command:aa",
            "Test an experiment against itself: what your set-up does to rules of decision.",
        ),
        Provider(
            "command",
            "bench-policy",
            "perpetual_scorers.command:bench_policy",
            "Compare scorers in simulated research whose truth is known.",
            requires=("stoppers",),
        ),
        Provider(
            "command",
            "overturn",
            "perpetual_scorers.plan_commands:overturn",
            "Say which runs would change a verdict, and what they cost.",
        ),
        Provider(
            "command",
            "power",
            "perpetual_scorers.plan_commands:power",
            "Say how many seeds and baseline runs decide a claim.",
        ),
        Provider(
            "command",
            "sweep",
            "perpetual_scorers.sweep_command:sweep",
            "Find the best setting of a command, and claim it.",
        ),
    ]


@hookimpl
def perpetual_report_sections() -> list[Provider]:
    """Offers the section of sweeps: what each setting measured, the pick, and how much each parameter matters."""
    return [
        Provider(
            "report_section",
            "sweeps",
            "perpetual_scorers.sweep_section:build",
            "sweeps with their settings, the pick and the importance of parameters",
            requires=("report",),
        )
    ]


@hookimpl
def perpetual_kinds() -> list[RecordKind]:
    """`scorers.sweep`, with its settings, and `scorers.trial`: which experiment runs which setting of a sweep."""
    sweep = {
        "command": Field("str", "with {NAME} for each parameter", required=True, verbatim=True),
        "metric": Field("str", "what is measured", required=True),
        "direction": Field("str", "max or min", required=True),
        "parameters": Field("list", "each with its choices or its range", required=True),
        "method": Field("str", "grid, random or quasi", required=True),
        "settings": Field("list", "each {id, values, x}: x is what the model sees", required=True),
        "runs": Field("int", "how many runs it may take, in full ones", required=True),
        "rungs": Field("list", "lengths of a run that rise to the full one, or none", required=True),
        "options": Field("dict", "noise and mde in the metric's units, and the needs of a run", required=True),
        "approval": Field("dict", "the approver, what stands for it as it was then, and its runs"),
        "claim": Field("dict", "what its winner was claimed as"),
    }
    trial = {
        "sweep": Field("str", "the sweep", required=True, references="sweep"),
        "setting": Field("str", "the id of the setting", required=True),
        "rung": Field("int", "the place of its length among the rungs, 0 where there are none", required=True),
        "experiment": Field("str", "the experiment that runs it", required=True, references="experiment"),
        "key": Field("str", "of the call that picked it"),
    }
    return [RecordKind("sweep", sweep), RecordKind("trial", trial, ledger=True, indexes=("sweep", "experiment"))]
