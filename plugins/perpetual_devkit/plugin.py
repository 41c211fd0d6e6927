"""Entry point of the developer tools: offers `chaos`, `plugins new` and `plugins check`; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_commands() -> list[Provider]:
    """`perpetual chaos`, `perpetual plugins new` and `perpetual plugins check`."""
    return [
        Provider(
            "command",
            "chaos",
            "perpetual_devkit.commands:chaos",
            "Kill writers of a store again and again, and see what is left.",
        ),
        Provider(
            "command", "plugins.new", "perpetual_devkit.commands:new", "Write a plugin: part, tests and what CI needs."
        ),
        Provider("command", "plugins.check", "perpetual_devkit.commands:check", "Compare providers with their slots."),
    ]
