"""Entry point: brings the slot `stopper`, two of them, `perpetual early-stop` and its companion; nothing heavy."""

from __future__ import annotations

from perpetual.api import Option, Provider, Slot, Suite, Template, hookimpl


@hookimpl
def perpetual_slots() -> list[Slot]:
    """Brings the slot `stopper`: what decides whether the rest of a run is worth its hours."""
    suite = Suite("perpetual_stoppers.testing:StopperContract", fixture="stopper")
    template = Template(
        "perpetual methodology set stoppers.active {0}", "stops a run that is worse than every other one",
        {"least": ("int", "3", "how many others there are at least")}, folder="perpetual_templates:stopper",
    )  # fmt: skip
    return [Slot("stopper", "perpetual_stoppers", "stopper", "perpetual_stoppers.stopper:Stopper", suite=suite,
                 template=template)]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_stoppers() -> list[Provider]:
    """Offers the extrapolation of curves, and asynchronous halving."""
    spread = Option("float", 0.6, "The sd of a last value given its curve, at most, in sd of the noise between runs.",
                    minimum=0.0, maximum=1.0)  # fmt: skip
    eta = Option("float", 3.0, "One in so many goes on.", minimum=1.5, maximum=20.0)
    return [
        Provider("stopper", "curve", "perpetual_stoppers.curve:build", "stops a run whose curve foretells its end",
                 options={"spread": spread}),
        Provider("stopper", "async-halving", "perpetual_stoppers.halving:build",
                 "stops a run that is not among the best", options={"eta": eta}),
    ]  # fmt: skip


@hookimpl
def perpetual_methodology() -> dict[str, Option]:
    """Names the stoppers in force, and where runs are judged."""
    return {
        "active": Option("list", [], "Stoppers that stop runs early, by name, such as curve; none stops nothing."),
        "at": Option("float", 0.25, "The share of a run's steps at which it is judged.", minimum=0.02, maximum=0.75),
    }


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual early-stop`."""
    return [Provider("command", "early-stop", "perpetual_stoppers.command:early_stop",
                     "Stop live runs whose rest is not worth its hours.", topic="runs")]  # fmt: skip


@hookimpl(optionalhook=True)
def perpetual_companions() -> list[Provider]:
    """Offers what judges live runs while the daemon runs."""
    return [Provider("companion", "early-stop", "perpetual_stoppers.companion:build", "stops runs early",
                     requires=("daemon",))]  # fmt: skip
