"""Entry point: offers `sweep suggest` and `sweep pruned`; imports nothing heavy, and Optuna only when it is called."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """Offers `perpetual sweep suggest` and `perpetual sweep pruned`."""
    return [
        Provider(
            "command",
            "sweep.suggest",
            "perpetual_optuna.command:suggest",
            "Add settings that a sampler of Optuna suggests.",
            requires=("scorers",),
        ),
        Provider(
            "command",
            "sweep.pruned",
            "perpetual_optuna.command:pruned",
            "Name the settings that a pruner of Optuna would drop.",
            requires=("scorers",),
        ),
    ]
